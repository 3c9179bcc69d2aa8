"""A server that translates in a page and for other programs, with LibreTranslate's interface and its own."""
