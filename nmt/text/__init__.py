"""From text to batches of ids: tokenizer, corpus on disk, token-budget batches, the generated tasks."""
