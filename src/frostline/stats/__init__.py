"""Statistics: intervals, paired comparisons, resampling, corrections for many comparisons."""
