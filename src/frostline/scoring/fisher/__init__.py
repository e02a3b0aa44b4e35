"""The diagonal of the Fisher information, exact and in one pass, for the Fisher scores.

Read in this order: label_weights (which gradients to square), sample (examples, heads, gradients at the top),
squared_gradients (down through the layers), spans (per-example products, squared and added up).
"""
