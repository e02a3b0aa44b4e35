"""Layer scores: from states and labels to one number per layer, with its uncertainty."""
