"""The step for inline HTML: remove the tags of a line before its translation, and put them around the aligned words."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import NamedTuple

from nmt.alignment.word_weights import aligned_units
from nmt.data.words import overlaps
from nmt.inference.steps import Steps
from nmt.inference.terms import core_span, insertion_index
from nmt.inference.translation import Translation
from nmt.text.writing import JOINT, WITHOUT_BLANKS

# A comment, which may lack its end, a declaration, or a tag, whose quoted attributes may hold ">".
MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(?=[a-zA-Z/!?])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>", re.DOTALL)
TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)")
SPACES = re.compile(r"[ \t\r\n\f]+")  # as HTML reads them
STAND_INS = range(0xF0000, 0xFFFFE)  # for private use
TAIL = re.compile(r"[^\w\s\U000f0000-\U000ffffd]+(?!\w)")  # the marks that end a word
OPAQUE = frozenset({"code", "kbd", "samp", "var", "tt", "math"})  # inline elements whose text is not translated
VOID = frozenset({"br", "img", "wbr", "input", "hr"})
NOTES = frozenset({"a", "sup", "sub"})  # without letters, such as the number of a footnote or the link ↩ back to it
MOST_UNCLOSED = 100  # each search for an end that is not there reads the rest of the text
KEPT = re.compile(
    r"""\s(?:translate\s*=\s*["']?no["'\s>]|class\s*=\s*(?:"[^"]*|'[^']*)?\bnotranslate\b)""", re.IGNORECASE
)


def untranslated_end(text: str, match: re.Match[str], names: Set[str], unclosed: set[str]) -> int | None:
    """Return the end of an element that is not translated, whose start tag is ``match``; None for other markup.

    It has one of the ``names``, ``translate="no"`` or the class ``notranslate``. The names of elements without an end
    are added to ``unclosed``, and not searched again.
    """
    tag = TAG.match(match[0])
    name = tag[2].lower() if tag else ""
    is_kept = name in names or (name not in VOID and KEPT.search(match[0]))
    if not tag or tag[1] or not is_kept or match[0].endswith("/>") or name in unclosed:
        return None
    if name not in names and len(unclosed) >= MOST_UNCLOSED:
        return None
    depth = 1
    for other in re.compile(rf"<(/?){name}(?=[\s/>])[^<>]*>", re.IGNORECASE).finditer(text, match.end()):
        if other[1]:
            depth -= 1
        elif name not in names or name == "svg":  # others do not nest, and a script is not markup
            depth += not other[0].endswith("/>")
        if not depth:
            return other.end()
    unclosed.add(name)
    return None


def _text(escaped: str) -> str:
    return SPACES.sub(" ", JOINT.sub("", html.unescape(escaped)))


class Tag(NamedTuple):
    """A tag, a comment or an element that is not translated, and the index in the text before which it stands."""

    at: int
    text: str
    name: str = ""
    stand_in: str = ""
    """The character of the text that stands for the element."""


@dataclass
class Element:
    """An HTML element: its start and end tag, equal for a single tag, and the elements within it.

    A tag is empty if it stands before or behind the line: ``<b>one<br>two</b>`` has two lines.
    """

    first: Tag
    last: Tag
    start: int = 0
    """Index of its start tag in the line."""
    inside: list[Element] = field(default_factory=list)

    @property
    def side(self) -> int:
        """-1 for an element that begins before the line, 1 for one that ends behind it, and 0 for others."""
        return (not self.last.text) - (not self.first.text)


class Fragment(NamedTuple):
    """The text of a fragment of HTML, its outermost elements, and the stand-ins of those that are not translated."""

    text: str
    elements: Sequence[Element]
    stand_ins: frozenset[str]

    @classmethod
    def read(cls, line: str, visible: Callable[[str], str] = str) -> Fragment:
        """Split a fragment of HTML into its text and its elements. ``visible`` changes parts of the text."""
        reader = _Reader(line)
        unclosed = set[str]()
        end = 0
        while match := MARKUP.search(line, end):
            start = match.start()
            reader.add(visible(_text(line[end:start])))
            tag = TAG.match(match[0])
            name = tag[2].lower() if tag else ""
            end = untranslated_end(line, match, OPAQUE, unclosed) or match.end()
            if end > match.end():
                reader.keep(line[start:end])
            elif tag and tag[1]:
                reader.close(name, start, end)
            elif not tag or match[0].endswith("/>") or name in VOID:
                reader.add_tag(match[0])
                reader.is_between = reader.is_between or bool(tag and name != "wbr")
            else:
                reader.stack.append(reader.add_tag(match[0], name, start=start))
        reader.add(visible(_text(line[end:])))
        root, *opened = reader.stack
        for element in opened:
            element.last = Tag(len(reader.text), "")
        return cls(reader.text, root.inside, frozenset(reader.stand_ins))

    @property
    def plain(self) -> str:
        """The text without elements that are not translated."""
        return self._without_stand_ins(self.text)

    def _without_stand_ins(self, text: str) -> str:
        return text if self.stand_ins.isdisjoint(text) else re.sub(f" ?[{''.join(self.stand_ins)}]", "", text)

    def write(self, translation: Translation) -> Translation:
        """Return a translation of ``text`` as HTML, with all tags and elements, and without an alignment."""
        text = ""
        end = 0
        for start, stop, tag in [*place_tags(translation, self), (len(translation.text), 0, "")]:
            text += html.escape(self._without_stand_ins(translation.text[end:start]), quote=False) + tag
            end = stop
        return replace(translation.without_alignment(), text=text)


class _Reader:
    """The text and elements of a line, as far as they have been read."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.text = ""
        self.is_between = False  # after a single tag, which separates words
        self.stack = [Element(Tag(0, ""), Tag(0, ""))]  # the elements that are open
        self.stand_ins = set[str]()
        used = {*line, *html.unescape(line)}
        self._unused = (character for character in map(chr, STAND_INS) if character not in used)

    def add(self, text: str) -> None:
        """Add text of the line."""
        if self.is_between and text:
            self.is_between = False
            ends_word = self.text and not (self.text[-1].isspace() or WITHOUT_BLANKS.match(self.text[-1]))
            if ends_word and not text[0].isspace() and not TAIL.match(text):
                self.text += " "
        self.text += text

    def add_tag(self, text: str, name: str = "", stand_in: str = "", start: int = 0) -> Element:
        """Add and return an element that has this tag only."""
        tag = Tag(len(self.text) - len(stand_in), text, name, stand_in)
        self.stack[-1].inside.append(Element(tag, tag, start))
        return self.stack[-1].inside[-1]

    def keep(self, element: str) -> None:
        """Add a stand-in for an element that is not translated."""
        stand_in = next(self._unused, "")
        self.stand_ins |= {*stand_in}
        self.add(stand_in)
        self.add_tag(element, stand_in=stand_in)

    def close(self, name: str, start: int, end: int) -> None:
        """End the innermost element of this name with the tag from ``start`` to ``end`` of the line.

        Elements within it that are open end where they begin. If nothing in it is translated, it becomes one tag.
        """
        tag = Tag(len(self.text), self.line[start:end])
        if all(element.first.name != name for element in self.stack[1:]):
            root = self.stack[0]
            root.inside = [Element(Tag(0, ""), tag, inside=root.inside)]
            self.stack = [root]
            return
        while (element := self.stack.pop()).first.name != name:
            self.stack[-1].inside += element.inside
            element.inside = []
        element.last = tag
        text = self.text[element.first.at :]
        has_kept = not self.stand_ins.isdisjoint(text)
        is_note = name in NOTES and not re.match(r"\w", self.line[end : end + 1])  # models lose notes
        if any(map(str.isalpha if name in ("sup", "sub") else str.isalnum, text)):
            return
        if text == text.strip() if has_kept else is_note or not text:
            self.text = self.text[: element.first.at]
            self.stack[-1].inside.pop()
            (self.keep if has_kept else self.add_tag)(self.line[element.start : end])


def markup_step(visible: Callable[[str], str], line: str) -> Steps:
    """Translate the text of a line of HTML, without characters that are not ``visible``, such as ``&shy;``."""
    fragment = Fragment.read(line, visible)
    [translation] = yield [fragment.text]
    if translation.alignment is None:  # nothing was translated
        return replace(translation, text=line.strip())
    return translation.each(fragment.write)


_Placed = tuple[int, int, str] | Iterator["_Placed"]
"""A tag with start and end of what it replaces in the translation, or those of an element."""


class _Placement:
    """Finds the places of tags in an aligned translation. Stand-ins are units, which are linked to themselves."""

    def __init__(self, fragment: Fragment, translation: Translation) -> None:
        self.translation = translation
        units = aligned_units(translation)
        self.source, self.target, self.weights = units
        self.links = units.links()
        characters = [translation.source[start] for start, _ in self.source]
        columns = {character: i for i, character in enumerate(characters) if character in fragment.stand_ins}
        self.kept = dict[str, int]()  # the unit of each stand-in
        for j, (start, _) in reversed([*enumerate(self.target)]):
            if (character := translation.text[start]) in columns:
                self.links[j] = columns[character]
                self.kept[character] = j
        self.linked: list[list[int]] = [[] for _ in self.source]
        for j, i in enumerate(self.links):
            if i >= 0:
                self.linked[i].append(j)
        self.gains = [-1.0] * len(self.target)  # of each unit for a run without its source
        for j in self.kept.values():
            self.gains[j] = -inf

    def place(self, elements: Sequence[Element], low: int, high: int, around: range) -> Iterator[_Placed]:
        """Yield the places of elements between the target units ``low`` and ``high``.

        ``around`` are the source units of their parent. Elements may change their order, but never overlap. One that
        goes on beyond the line begins or ends with it.
        """
        taken = set[int]()
        placed: list[tuple[int, bool, int, Element, int]] = []
        points = list[tuple[int, Element]]()
        bounds = [low, high]
        others = self.gains[low:high]
        for number, element in sorted(enumerate(elements), key=lambda item: not item[1].side):
            covered = self._covered(element)
            run = (low, low)
            if covered and covered == around and not taken:
                run = (low, high)
            elif element.side or (covered and not element.first.stand_in):
                gains = others.copy()
                for j in chain.from_iterable(self.linked[i] for i in covered):
                    if low <= j < high and j not in taken:
                        # A run has all of its own stand-ins that it can have, and no others.
                        gains[j - low] = 1 if self.gains[j] == -1 else len(self.target) + 1
                run = self._run(gains, low, element.side)
                if run[0] == run[1] and low < high and not element.side:
                    # No unit has its largest share there, so take the word with the largest weight.
                    is_free = [others[j - low] > -inf and not self._is_mark(j) for j in range(low, high)]
                    strength = self.weights[low:high, covered].sum(axis=1) * is_free
                    best = low + int(strength.argmax())
                    run = (best, best + bool(strength.any()))
            if element.side:
                bounds[element.side > 0] = run[element.side < 0]
            elif element.first.stand_in or run[0] == run[1]:
                points.append((number, element))
                continue
            taken.update(range(*run))
            others[run[0] - low : run[1] - low] = [-inf] * (run[1] - run[0])
            placed.append((run[0], run[0] < run[1], number, element, run[1]))
        runs = [(start, stop) for start, _, _, _, stop in placed]
        for number, element in points:
            at = self.kept.get(element.first.stand_in, -1)
            at = min(max(self._index(element.first.at) if at < 0 else at, bounds[0]), bounds[1])
            at = max([at, *(stop for start, stop in runs if start < at < stop)])
            placed.append((at, False, number, element, at))
        for start, _, _, element, stop in sorted(placed, key=lambda item: item[:3]):
            yield self._with_inside(element, start, stop, range(low, high))

    def _with_inside(self, element: Element, start: int, stop: int, parent: range) -> Iterator[_Placed]:
        first, last = element.first, element.last
        covered = self._covered(element)
        if start == stop:
            if self.kept.get(first.stand_in) == start:
                yield *self.target[start], first.text
                return
            at, before, after = self._point(first, start, parent)
            yield at, at, before + first.text
            yield self.place(element.inside, start, stop, range(0))
            yield at, at, (last.text if last is not first else "") + after
            return
        opening = self.target[start][0]
        is_within = last.at < self.source[covered[-1]][1]  # a word, such as before the full stop
        while is_within and stop - 1 > start and self._is_mark(stop - 1):
            stop -= 1
        closing = self.target[stop - 1][1]
        if first.at > self.source[covered[0]][0]:  # inside a word, such as after a quotation mark
            opening = (core_span(self.translation.text, *self.target[start]) or (opening, 0))[0]
        if is_within:
            closing = (core_span(self.translation.text, *self.target[stop - 1]) or (0, closing))[1]
        yield opening, opening, first.text
        yield self.place(element.inside, start, stop, covered)
        yield closing, closing, last.text

    def _is_mark(self, j: int) -> bool:
        """Return whether a target unit has no letters, digits or stand-ins."""
        return self.gains[j] == -1 and not core_span(self.translation.text, *self.target[j])

    def _covered(self, element: Element) -> range:
        start, stop = element.first.at, element.last.at
        return overlaps(self.source, [(start, stop)])[0] if start < stop else range(0)

    def _run(self, gains: Sequence[float], low: int, side: int) -> tuple[int, int]:
        """Return the run of units from ``low`` with the largest sum of ``gains``; with a ``side``, it begins there."""
        first, length = low, len(gains)
        if side:
            edge = [(length + 1.0) ** 2]  # more than all others
            gains, low = ([*edge, *gains], low - 1) if side < 0 else ([*gains, *edge], low)
        best = (0.0, low, low)
        start, total = low, 0.0
        for j, gain in enumerate(gains, low):
            total += gain
            if total <= 0:
                start = j + 1
                total = 0
            if total > best[0] or (total == best[0] and start == best[1]):
                best = (total, start, j + 1)
        return max(best[1], first), min(best[2], first + length)

    def _index(self, position: int) -> int:
        """Return the target unit before which a tag at this index of the source belongs."""
        before = sum(start < position for start, _ in self.source)
        if before in (0, len(self.source)):
            return 0 if before == 0 else len(self.target)
        return insertion_index(self.links, before, before)

    def _point(self, tag: Tag, index: int, parent: range) -> tuple[int, str, str]:
        """Return the position before the target unit ``index``, and blanks before and after a single tag.

        ``parent`` are the target units of its parent.
        """
        text, end = self.translation.source, tag.at + len(tag.stand_in)
        left, right = text[: tag.at][-1:], text[end : end + 1]
        core = None
        if TAIL.match(text, end):  # the tag stands before the full stop
            while index > parent.start and not (core := core_span(self.translation.text, *self.target[index - 1])):
                index -= 1
        is_behind = core or index == parent.stop or not left.isspace()
        if index == len(self.target) > 0 or (index > parent.start and is_behind):
            return (core or self.target[index - 1])[1], left if left.isspace() else "", ""
        return (self.target[index][0] if self.target else 0), "", right if right.isspace() else ""


def place_tags(translation: Translation, fragment: Fragment) -> Iterator[tuple[int, int, str]]:
    """Yield each tag of the source with start and end of the part of the translation that it replaces, in order.

    An element stands around the words that are aligned to its content, and around its stand-ins. If it has neither, it
    is empty and stands beside the translation of its neighbours. Elements stay within their parents.
    """
    placement = _Placement(fragment, translation)
    everything = placement.place(fragment.elements, 0, len(placement.target), range(len(placement.source)))
    stack: list[Iterator[_Placed]] = [everything]  # Python limits the depth of calls
    end = 0
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif isinstance(item, tuple):
            start = max(end, item[0])  # around one word, an inner tag may stand outside its punctuation
            end = max(start, item[1])
            yield start, end, item[2]
        else:
            stack.append(item)
