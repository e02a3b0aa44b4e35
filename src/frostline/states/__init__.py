"""Hidden states: pooled ones of all layers for measuring, cached token states for training, similarity of layers."""
