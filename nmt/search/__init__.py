"""Greedy search, beam search and sampling over any ``Engine``, in NumPy only: this package never imports torch."""
