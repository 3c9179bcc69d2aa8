"""Generated parallel text with gold word alignments: an English-German grammar and the copy task."""
