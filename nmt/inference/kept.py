"""The steps for text that a translation must contain: glossary terms, and text that it keeps as it is.

Few lines have such text, so others do not wait for the import of what writes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from nmt.data.words import Span, overlaps
from nmt.inference.steps import Step, Steps, changing
from nmt.inference.translation import Translation
from nmt.text.glossary import Glossary
from nmt.text.placeholders import KeptText


def term_step(kept_text: KeptText | None, glossary: Glossary | None, *, letters: bool) -> Step:
    """Return the step that writes the terms of a glossary and keeps some text; see ``nmt.inference.protection``."""

    def step(line: str) -> Steps:
        spans = kept_spans(line, kept_text, glossary)
        if not spans and not glossary and (not letters or any(map(str.isalpha, line))):  # most lines
            [translation] = yield [line]
            return translation
        from nmt.inference.protection import complete, protect

        protected = protect(line, spans, glossary, letters=letters)
        [translation] = yield [protected.text]
        if not protected.text:  # nothing is left to translate
            return replace(translation, text=line.strip())
        if not (protected.required or protected.kept):
            return translation
        return translation.each(lambda best: complete(best, protected, line))

    return step


def kept_spans(line: str, kept_text: KeptText | None, glossary: Glossary | None) -> list[Span]:
    """Return the parts of a line that its translation keeps."""
    matches = kept_text.matches(line) if kept_text else []
    if not matches:
        return []
    terms: list[Span] = []
    if glossary and any(match.lastgroup == "number" for match in matches):
        terms = [(term.start, term.stop) for term in glossary.matches(line)]
    spans = [match.span() for match in matches]
    inside = overlaps(terms, spans)
    return [
        span
        for match, span, within in zip(matches, spans, inside, strict=True)
        if match.lastgroup != "number" or not any(terms[n][0] <= span[0] and span[1] <= terms[n][1] for n in within)
    ]


def lost_step(kept_text: KeptText, glossary: Glossary | None, *, markup: bool) -> Step:
    """Return the step that compares a line with its translation, and names the kept texts and terms that it lost.

    It counts them in the line and in the finished translation, whatever other steps have written. In HTML, tags count.
    """

    def compare(translation: Translation, line: str) -> Translation:
        plain, tags = _split(line) if markup else (line, ())
        spans = kept_spans(plain, kept_text, glossary)
        kept = Counter([*(plain[slice(*span)] for span in spans), *tags])
        terms = Counter[str]()
        if glossary:
            from nmt.inference.protection import protect

            terms.update(item.text for item in protect(plain, spans, glossary, letters=False).required)
        if not kept and not terms:
            return translation
        n_best = [replace(best, lost=lost(best.text, kept, terms)) for best in translation.n_best or [translation]]
        return replace(n_best[0], n_best=translation.n_best and n_best)

    def lost(text: str, kept: Counter[str], terms: Counter[str]) -> list[str]:
        plain, tags = _split(text) if markup else (text, ())
        found = Counter([*(match[0] for match in kept_text.matches(plain)), *tags])
        # A text may stand beside characters with which it is another one, such as :name in a:name.
        lost_texts = [
            it
            for it, count in kept.items()
            if found[it] < count and len(re.findall(rf"(?<![0-9]){re.escape(it)}(?![0-9])", plain)) < count
        ]
        letters = "".join(plain.split()).lower()
        return lost_texts + [it for it, count in terms.items() if letters.count("".join(it.split()).lower()) < count]

    return changing(compare)


def _split(page: str) -> tuple[str, Sequence[str]]:
    """Return the text of HTML that is translated, and all tags."""
    from nmt.inference.markup import MARKUP, Fragment

    return Fragment.read(page).plain, MARKUP.findall(page)
