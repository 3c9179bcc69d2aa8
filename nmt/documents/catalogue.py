"""Message catalogues of gettext (.po): messages without a translation get one, marked as fuzzy for review."""

from __future__ import annotations

import gettext
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from nmt.documents.segments import Segments, split_text
from nmt.errors import UserError, reason

# An escape that polib would write as a backslash and a letter, so that no program would find the message.
ESCAPE = re.compile(r'(?:msg[^"\n]*)?"(?:[^\\]|\\[bfnrtv"\\])*(\\[^bfnrtv"\\])')
CHARSET = re.compile(r"(?<=charset=)[^;\s]*")
PLURALS = re.compile(r"nplurals=\s*(\d{1,2}\b|INTEGER)")  # msginit replaces the word of a template
FORMULA = re.compile(r"\bplural=([^;]*)")  # of the form for n things
NO_CHARSET = ("", "CHARSET", "ASCII", "US-ASCII")  # xgettext writes the second one into templates


class _Text(str):
    """A text whose lines end at line feeds only, for polib: messages may hold U+2028."""

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self.split("\n")


class Catalogue:
    """The messages of a .po file that have no translation, as lines of HTML. Errors call the file ``name``.

    Raises UserError, with the line, if it is not a .po file, if its header names another charset than UTF-8, or if the
    package polib is not installed.
    """

    def __init__(self, text: str, name: str) -> None:
        try:
            import polib
        except ImportError:
            fix = "install the extra: pip install 'nmt-memory-attention[po]'"
            raise UserError(f"format=po: the package polib is not installed; {fix}") from None
        try:
            self._file = polib.pofile(_Text(f"{text}\n"))  # without a line break, it could be the name of a file
        except (OSError, UnicodeError, ValueError) as error:
            line = re.search(r"line (\d+)", str(error))
            location = f"{name}:{line[1]}" if line else name
            raise UserError(f"{location}: not a file of gettext ({reason(error)}); see msgfmt -c {name}") from None
        for row, message in enumerate(text.split("\n"), start=1):
            if escape := ESCAPE.match(message):
                fix = f"write the character itself, such as msgcat {name} > NEW does for most"
                raise UserError(f"{name}:{row}: {escape[1]}: an escape that cannot be kept; {fix}")
        self._name_charset(name)
        forms = PLURALS.search(self._file.metadata.get("Plural-Forms", ""))
        self._forms = range(int(forms[1]) if forms and forms[1] != "INTEGER" else 0)
        self._messages: list[tuple[Any, list[Segments]]] = []
        for entry in self._file:
            if not entry.obsolete and not entry.msgstr and not any(entry.msgstr_plural.values()):
                if entry.msgid_plural and forms and not self._forms:
                    fix = f"make a catalogue of the target language, such as msginit -i {name} -l de"
                    raise UserError(f"{name}: nplurals={forms[1]}: a template without a number of plural forms; {fix}")
                texts = [entry.msgid, entry.msgid_plural] if entry.msgid_plural else [entry.msgid]
                self._messages.append((entry, [*map(_segments, texts)]))

    @property
    def lines(self) -> list[str]:
        """The lines to translate."""
        return [line for _, segments in self._messages for part in segments for line in part.lines]

    def fill(self, translations: Sequence[str]) -> str:
        """Return the file with these translations of its lines. Of several plural forms, one is the singular."""
        remaining: Iterator[str] = iter(translations)
        singular = self._singular()
        for entry, segments in self._messages:
            texts = [part.fill([next(remaining) for _ in part.indices]) for part in segments]
            if entry.msgid_plural:
                numbers = sorted({*entry.msgstr_plural, *self._forms}) or [0]
                entry.msgstr_plural = {number: texts[len(numbers) == 1 or number != singular] for number in numbers}
            else:
                entry.msgstr = texts[0]
            if "fuzzy" not in entry.flags:
                entry.flags.append("fuzzy")
        return str(self._file)

    def _singular(self) -> int:
        """Return the number of the form for one thing: the first one, but in Arabic the second."""
        formula = FORMULA.search(self._file.metadata.get("Plural-Forms", ""))
        try:
            return int(gettext.c2py(formula[1])(1)) if formula else 0
        except (ValueError, ArithmeticError):
            return 0

    def _name_charset(self, name: str) -> None:
        """Write UTF-8 into a header without a charset: programs read translations by it."""
        header = self._file.metadata
        content = header.get("Content-Type", "")
        match = CHARSET.search(content)
        charset = match[0] if match else ""
        if charset.upper() in NO_CHARSET:
            header["Content-Type"] = CHARSET.sub("UTF-8", content) if match else "text/plain; charset=UTF-8"
        elif charset.upper() not in ("UTF-8", "UTF8"):
            fix = f"convert it: msgconv -t UTF-8 {name} > NEW; or write UTF-8 there if it is converted already"
            raise UserError(f"{name}: charset={charset}: the header must name UTF-8; {fix}")


def _segments(message: str) -> Segments:
    """Return the lines of a message as HTML: many have tags. An entity is a placeholder, because others read it."""
    return replace(split_text(message.replace("&", "&amp;"), "text"), finish=html.unescape)
