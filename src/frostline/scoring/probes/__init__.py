"""Probes: classifiers on frozen states, and their held-out metrics."""
