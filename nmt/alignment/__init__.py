"""From raw alignments to what people read: word links, error rates, heatmaps and pages."""
