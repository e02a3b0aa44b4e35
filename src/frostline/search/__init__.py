"""Search: many plans in, the best one out, with the reasons."""
