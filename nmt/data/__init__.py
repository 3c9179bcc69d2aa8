"""Sources of sentence pairs and links: text files, tables, the hub, Python and the copy task."""
