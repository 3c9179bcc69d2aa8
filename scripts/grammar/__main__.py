"""Write the corpus of data=generated into the package: ``python -m scripts.grammar``.

It holds generated English-German sentence pairs with exact gold word alignments. A sentence is drawn as a
language-neutral tree (``tree``) over a ``lexicon``, which reads ``tables``. The tree is realised in English
(``english``) and in German (``german``), and words that express the same leaf are linked. Word order may therefore
differ freely between the languages. Each English sentence has exactly one German translation.
"""

from __future__ import annotations

import lzma

from nmt.data.generated import FILE, SIZES
from nmt.data.links import format_pharaoh
from scripts.grammar.corpus import generate

SEED = 1

if __name__ == "__main__":
    parts = generate(SIZES, SEED)
    lines = [
        f"{pair.source}\t{pair.target}\t{format_pharaoh(pair.links or ())}\n" for part in SIZES for pair in parts[part]
    ]
    FILE.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
