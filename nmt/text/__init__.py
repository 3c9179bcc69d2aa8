"""From sentence pairs to batches of ids: tokenizer, corpus on disk, and batches that fill a token budget."""
