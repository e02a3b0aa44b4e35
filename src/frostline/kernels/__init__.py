"""The fast code: ragged batches, layers without padding, attention, dropout."""
