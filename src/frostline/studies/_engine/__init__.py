"""The engine that runs a study: its folder, its loop, its results."""
