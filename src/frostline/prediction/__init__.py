"""Saved models: loading, predicting, evaluating, exporting, the model card."""
