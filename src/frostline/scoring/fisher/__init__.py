"""The diagonal of the Fisher information, exact and in one pass: what the Fisher score is made of.

Read in this order: answers (which gradients to square), sample (examples, heads, gradients at the top), squares (down
through the layers), spans (per-example products, squared and added up).
"""
