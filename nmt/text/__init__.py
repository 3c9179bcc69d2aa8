"""From text to batches of ids: text files, tokenizer, corpus on disk, and batches that fill a token budget."""
