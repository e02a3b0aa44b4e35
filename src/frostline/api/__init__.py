"""The public verbs: they resolve arguments and call the packages above."""
