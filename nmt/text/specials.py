"""The four special ids of every vocabulary, and the sign of a space. Ordinary pieces begin at 4.

This file imports nothing, so that search can use the ids without loading a tokenizer.
"""

from __future__ import annotations

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPACE = "▁"  # U+2581: how SentencePiece writes a space
