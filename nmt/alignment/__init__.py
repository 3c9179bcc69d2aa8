"""Word weights, word links, alignment error rate, IBM Model 1, heatmaps and HTML pages."""
