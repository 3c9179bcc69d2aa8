"""Sources of sentence pairs and links: text files, tables, Python and the copy task."""
