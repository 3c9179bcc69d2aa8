"""A server that translates for other programs, with LibreTranslate's interface and its own."""
