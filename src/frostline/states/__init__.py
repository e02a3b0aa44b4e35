"""Hidden states: pooled (one vector per text and layer) for measuring."""
