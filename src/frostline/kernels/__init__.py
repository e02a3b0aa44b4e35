"""Fast code: ragged batches, layers without padding, attention, dropout."""
