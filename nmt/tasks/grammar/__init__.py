"""A generated task: English and German from one grammar, with gold word alignments by construction.

A sentence is drawn as a language-neutral tree (``tree``) over a lexicon (``nouns``, ``verbs``, …) and said twice
(``english``, ``german``); the words that express the same leaf are linked. So the links are exact, word order may
differ as freely as it does between the languages, and one English sentence has one German one.
"""

from __future__ import annotations

from nmt.tasks.grammar.generate import generate

__all__ = ["generate"]
