"""Readers of files and hub datasets: each gives a raw table."""
