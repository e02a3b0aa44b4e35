"""Trials: their store, what executes them, and the statistics over their results."""
