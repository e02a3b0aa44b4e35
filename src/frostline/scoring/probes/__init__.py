"""Probes: classifiers on frozen states, and how their scores are held out."""
