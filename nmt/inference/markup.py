"""The step for inline HTML: remove the tags of a line before its translation, and put them around the aligned words."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf
from typing import NamedTuple

from nmt.alignment.word_weights import aligned_units
from nmt.data.words import Span, overlapping
from nmt.inference.steps import Steps
from nmt.inference.terms import core_span, insertion_index
from nmt.inference.translation import Translation
from nmt.text.writing import JOINT, WITHOUT_BLANKS

# A comment, which may lack its end, a declaration, or a tag, whose quoted attributes may hold ">".
MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(?=[a-zA-Z/!?])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>", re.DOTALL)
TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)")
SPACES = re.compile(r"[ \t\r\n\f]+")  # as HTML reads them
STAND_INS = range(0xF0000, 0xFFFFE)  # for private use
PART = re.compile("[\U000f0000-\U000ffffd]|[^\U000f0000-\U000ffffd]+")
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


class Fragment(NamedTuple):
    """The text of a fragment of HTML, and its tags."""

    text: str
    tags: Sequence[Tag]

    @classmethod
    def read(cls, line: str) -> Fragment:
        """Split a fragment of HTML into its text and its tags."""
        reader = _Reader(line)
        unclosed = set[str]()
        end = 0
        while match := MARKUP.search(line, end):
            reader.add(_text(line[end : match.start()]))
            tag = TAG.match(match[0])
            name = tag[1] + tag[2].lower() if tag else ""
            end = untranslated_end(line, match, OPAQUE, unclosed) or match.end()
            if end > match.end():
                reader.keep(line[match.start() : end])
            elif match[0].endswith("/>") or name in VOID:
                reader.tags.append(Tag(len(reader.text), match[0]))
                reader.is_between = reader.is_between or name != "wbr"
            elif not (name.startswith("/") and reader.merge(name[1:], end)):
                reader.open(Tag(len(reader.text), match[0], name), match.start())
        reader.add(_text(line[end:]))
        return cls(reader.text, reader.tags)

    @property
    def plain(self) -> str:
        """The text without elements that are not translated."""
        return self._stand_ins().sub("", self.text)

    def _stand_ins(self) -> re.Pattern[str]:
        stand_ins = "".join(tag.stand_in for tag in self.tags)
        return re.compile(f" ?[{stand_ins}]" if stand_ins else "(?!)")

    def write(self, translation: Translation) -> Translation:
        """Return a translation of ``text`` as HTML, with all tags and elements, and without an alignment."""
        stand_ins = self._stand_ins()
        text = ""
        end = 0
        for start, stop, tag in [*place_tags(translation, self.tags), (len(translation.text), 0, "")]:
            text += html.escape(stand_ins.sub("", translation.text[end:start]), quote=False) + tag
            end = stop
        return replace(translation.without_alignment(), text=text)


class _Reader:
    """The text and tags of a line, as far as they have been read."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.text = ""
        self.tags = list[Tag]()
        self.is_between = False  # after a single tag, which separates words
        used = {*line, *html.unescape(line)}
        self._unused = (character for character in map(chr, STAND_INS) if character not in used)
        self._opened = list[tuple[int, int]]()  # the number of each start tag, and its index in the line

    def add(self, text: str) -> None:
        """Add text of the line."""
        if self.is_between and text:
            self.is_between = False
            ends_word = self.text and not (self.text[-1].isspace() or WITHOUT_BLANKS.match(self.text[-1]))
            if ends_word and not text[0].isspace() and not TAIL.match(text):
                self.text += " "
        self.text += text

    def keep(self, element: str) -> None:
        """Add a stand-in for an element that is not translated."""
        stand_in = next(self._unused, "")
        self.add(stand_in)
        self.tags.append(Tag(len(self.text) - len(stand_in), element, stand_in=stand_in))

    def open(self, tag: Tag, start: int) -> None:
        """Add a tag that begins at this index of the line, which may open an element."""
        if tag.name and not tag.name.startswith("/"):
            self._opened.append((len(self.tags), start))
        self.tags.append(tag)

    def merge(self, name: str, end: int) -> bool:
        """Make the innermost element, which ends here, one tag if nothing in it is translated; return whether it did.

        Models lose notes, so they do not read them.
        """
        if not self._opened or self.tags[self._opened[-1][0]].name != name:
            return False
        number, start = self._opened.pop()
        at = self.tags[number].at
        inside = self.text[at:]
        if any(map(str.isalpha if name in ("sup", "sub") else str.isalnum, inside)):
            return False
        has_kept = any(tag.stand_in for tag in self.tags[number:])
        is_note = name in NOTES and not re.match(r"\w", self.line[end : end + 1])
        if inside != inside.strip() if has_kept else inside and not is_note:
            return False
        self.text = self.text[:at]
        del self.tags[number:]
        if has_kept:
            self.keep(self.line[start:end])
        else:
            self.tags.append(Tag(at, self.line[start:end]))
        return True


def markup_step(line: str) -> Steps:
    """Translate the text of a line of HTML."""
    fragment = Fragment.read(line)
    [translation] = yield [fragment.text]
    if translation.alignment is None:  # nothing was translated
        return replace(translation, text=line.strip())
    return translation.each(fragment.write)


@dataclass
class _Element:
    """An HTML element: the numbers of its start and end tag, equal for a single tag, and the elements within it."""

    first: int
    last: int
    inside: list[_Element] = field(default_factory=list)


_Placed = tuple[int, int, str] | Iterator["_Placed"]
"""A tag with start and end of what it replaces in the translation, or those of an element."""


def _completed(tags: Sequence[Tag], end: int) -> list[Tag]:
    """Return the tags with empty ones for the tags before and behind the line: ``<b>one<br>two</b>`` has two lines."""
    opened = list[str]()
    starts = list[Tag]()
    for tag in tags:
        name = tag.name.removeprefix("/")
        if name == tag.name:
            opened += [name] if name else []
        elif name in opened:
            while opened.pop() != name:
                pass
        else:
            opened.clear()
            starts.append(Tag(0, "", name))
    return [*reversed(starts), *tags, *(Tag(end, "", f"/{name}") for name in reversed(opened))]


def _tree(tags: Sequence[Tag]) -> list[_Element]:
    """Return the outermost elements. A start or end tag without its counterpart is an element without content."""
    stack = [_Element(-1, -1)]

    def close() -> _Element:
        """Remove the innermost element, whose content belongs to its parent as long as it has no end."""
        element = stack.pop()
        stack[-1].inside += element.inside
        element.inside = []
        return element

    for number, tag in enumerate(tags):
        opened = [tags[element.first].name for element in stack[1:]]
        if tag.name.startswith("/") and tag.name[1:] in opened:
            while tags[stack[-1].first].name != tag.name[1:]:
                close()
            stack.pop().last = number
        else:
            stack[-1].inside.append(_Element(number, number))
            if tag.name and not tag.name.startswith("/"):
                stack.append(stack[-1].inside[-1])
    while len(stack) > 1:
        close()
    return stack[0].inside


def _cut(text: str, units: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Yield the parts of units, which are cut around stand-ins, and the number of the unit of each."""
    for number, unit in enumerate(units):
        for part in PART.finditer(text, *unit):
            yield part.span(), number


class _Placement:
    """Finds the places of tags in an aligned translation. Units end at stand-ins, which are linked to themselves."""

    def __init__(self, tags: Sequence[Tag], translation: Translation) -> None:
        self.tags = tags
        self.translation = translation
        units = aligned_units(translation)
        source, target = [*_cut(translation.source, units.source)], [*_cut(translation.text, units.target)]
        self.source, self.target = [span for span, _ in source], [span for span, _ in target]
        numbers = {tag.stand_in: number for number, tag in enumerate(tags) if tag.stand_in}
        columns = {translation.source[start]: i for i, (start, _) in enumerate(self.source)}
        # A word is linked to the first part of another one that is no stand-in.
        parts = sorted(enumerate(source), key=lambda part: (translation.source[part[1][0][0]] not in numbers, -part[0]))
        words = {-1: -1} | {unit: i for i, (_, unit) in parts}
        links = units.links()
        self.links = [words[links[unit]] for _, unit in target]
        self.kept = dict[int, int]()  # the unit of each stand-in, by the number of its tag
        for j, (start, _) in reversed([*enumerate(self.target)]):
            if (character := translation.text[start]) in numbers:
                self.links[j] = columns.get(character, -1)
                self.kept[numbers[character]] = j
        self._stand_ins = {*self.kept.values()}

    def place(self, elements: Sequence[_Element], low: int, high: int, around: range) -> Iterator[_Placed]:
        """Yield the places of elements between the target units ``low`` and ``high``.

        ``around`` are the source units of their parent. Elements may change their order, but never overlap. One that
        goes on beyond the line begins or ends with it.
        """
        taken = set[int]()
        placed: list[tuple[int, bool, int, _Element, int]] = []
        points = list[_Element]()
        bounds = [low, high]
        for element in sorted(elements, key=lambda element: not self._goes_on(element)):
            covered = self._covered(element)
            side = self._goes_on(element)
            if covered and covered == around and not taken:
                run = (low, high)
            else:
                gains = [-inf if j in taken else self._gain(j, covered) for j in range(low, high)]
                run = self._run(gains, low, side)
            if side:
                bounds[side > 0] = run[side < 0]
            elif self.tags[element.first].stand_in or run[0] == run[1]:
                points.append(element)
                continue
            taken.update(range(*run))
            placed.append((run[0], run[0] < run[1], element.first, element, run[1]))
        for element in points:
            at = self.kept.get(element.first, -1)
            if at < 0:
                at = self._index(self.tags[element.first].at)
            at = min(max(at, bounds[0]), bounds[1])
            at = max([at, *(stop for start, _, _, _, stop in placed if start < at < stop)])
            placed.append((at, False, element.first, element, at))
        for start, _, _, element, stop in sorted(placed, key=lambda item: item[:3]):
            yield self._with_inside(element, start, stop, range(low, high))

    def _goes_on(self, element: _Element) -> int:
        """Return -1 for an element that begins before the line, 1 for one that ends behind it, and 0 for others."""
        return (not self.tags[element.last].text) - (not self.tags[element.first].text)

    def _gain(self, j: int, covered: range) -> float:
        """Return what a target unit adds to a run for ``covered``, which has its own stand-ins and no others."""
        is_inside = self.links[j] in covered
        if j in self._stand_ins:
            return len(self.target) + 1 if is_inside else -inf
        return 1 if is_inside else -1

    def _with_inside(self, element: _Element, start: int, stop: int, parent: range) -> Iterator[_Placed]:
        first = self.tags[element.first]
        last = self.tags[element.last]
        covered = self._covered(element)
        if start == stop:
            if self.kept.get(element.first) == start:
                yield *self.target[start], first.text
                return
            at, before, after = self._point(first, start, parent)
            yield at, at, before + first.text
            yield self.place(element.inside, start, stop, range(0))
            yield at, at, (last.text if last is not first else "") + after
            return
        opening = self.target[start][0]
        closing = self.target[stop - 1][1]
        if first.at > self.source[covered[0]][0]:  # inside a word, such as after a quotation mark
            opening = (core_span(self.translation.text, *self.target[start]) or (opening, 0))[0]
        if last.at < self.source[covered[-1]][1]:
            closing = (core_span(self.translation.text, *self.target[stop - 1]) or (0, closing))[1]
        yield opening, opening, first.text
        yield self.place(element.inside, start, stop, covered)
        yield closing, closing, last.text

    def _covered(self, element: _Element) -> range:
        start = self.tags[element.first].at
        stop = self.tags[element.last].at
        return overlapping(self.source, start, stop) if start < stop else range(0)

    def _run(self, gains: Sequence[float], low: int, side: int) -> tuple[int, int]:
        """Return the run of units from ``low`` with the largest sum of ``gains``; with a ``side``, it begins there."""
        if side:
            sums = [*accumulate(gains[::-side], initial=0.0)]
            length = sums.index(max(sums))
            return (low, low + length) if side < 0 else (low + len(gains) - length, low + len(gains))
        best = (0.0, low, low)
        start, total = low, 0.0
        for j, gain in enumerate(gains, low):
            total += gain
            if total <= 0:
                start = j + 1
                total = 0
            if total > best[0] or (total == best[0] and start == best[1]):
                best = (total, start, j + 1)
        return best[1], best[2]

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


def place_tags(translation: Translation, tags: Sequence[Tag]) -> Iterator[tuple[int, int, str]]:
    """Yield each of the ``tags`` of the source with start and end of the part of the translation that it replaces.

    They are in order. An element stands around the words that are aligned to its content, and around its stand-ins. If
    it has neither, it is empty and stands beside the translation of its neighbours. Elements stay within their parents.
    """
    tags = _completed(tags, len(translation.source))
    placement = _Placement(tags, translation)
    everything = placement.place(_tree(tags), 0, len(placement.target), range(len(placement.source)))
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
