"""The four ids that every vocabulary starts with; ordinary pieces begin at 4.

They live in a file without imports, so that search can know them without loading a tokenizer.
"""

from __future__ import annotations

PAD, UNK, BOS, EOS = 0, 1, 2, 3
