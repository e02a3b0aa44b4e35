"""Pretrained encoders: families, loading, tokens, heads, surgery, parameter counts."""
