"""Compare trained models: quality, cost and alignments of several settings on the same test set, as a report."""
