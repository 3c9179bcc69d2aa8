"""Translate a large text in shards: parts of its lines that several workers translate, and that survive a stop."""
