"""The version of everything that Frostline writes."""

FORMAT_VERSION = 1
