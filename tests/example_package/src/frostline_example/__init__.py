"""One of everything that Frostline can be given from outside, a module each."""
