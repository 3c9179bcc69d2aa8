"""Generated English-German sentence pairs with exact gold word alignments.

A sentence is drawn as a language-neutral tree (``tree``) over a ``lexicon``, which reads ``tables``. The tree is
realised in English (``english``) and in German (``german``), and words that express the same leaf are linked.
Word order may therefore differ freely between the languages. Each English sentence has exactly one German translation.
"""

from __future__ import annotations

from nmt.grammar.corpus import generate

__all__ = ["generate"]
