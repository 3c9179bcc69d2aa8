"""The step for inline HTML: remove the tags of a line before its translation, and put them around the aligned words."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from nmt.alignment.word_weights import Units, aligned_units
from nmt.data.words import overlapping
from nmt.inference.steps import Steps
from nmt.inference.terms import core_span, insertion_index
from nmt.inference.translation import Translation
from nmt.text.writing import JOINT, WITHOUT_BLANKS

# A comment, which may lack its end, a declaration, or a tag, whose quoted attributes may hold ">".
MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(?=[a-zA-Z/!?])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>", re.DOTALL)
TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)")
SPACES = re.compile(r"[ \t\r\n\f]+")  # as HTML reads them
OPAQUE = frozenset({"code", "kbd", "samp", "var", "tt", "math"})  # inline elements whose text is not translated
VOID = frozenset({"br", "img", "wbr", "input", "hr"})
NOTE = re.compile(r"<(su[pb]|a)\b[^<>]*>((?:(?!</?\1\b).)*)</\1\s*>(?!\w)", re.DOTALL | re.IGNORECASE)
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
    """A tag or comment, and the index in the plain text before which it stands."""

    at: int
    text: str
    name: str


class Fragment(NamedTuple):
    """The text of a fragment of HTML, with a stand-in for each of the untranslated ``elements``, and its tags."""

    text: str
    tags: Sequence[Tag]
    elements: Mapping[str, str]

    @classmethod
    def read(cls, line: str) -> Fragment:
        """Split a fragment of HTML into its text and its tags."""
        text = ""
        tags = list[Tag]()
        elements = dict[str, str]()
        unused = (chr(number) for number in count(0xF0000) if chr(number) not in line)
        unclosed = set[str]()
        end = 0
        while match := MARKUP.search(line, end):
            text += _text(line[end : match.start()])
            tag = TAG.match(match[0])
            name = tag[1] + tag[2].lower() if tag else ""
            end = match.end()
            if stop := untranslated_end(line, match, OPAQUE, unclosed):
                elements[stand_in := next(unused)] = line[match.start() : stop]
                text += stand_in
                end = stop
            elif (note := NOTE.match(line, match.start())) and not any(
                map(str.isalnum if name == "a" else str.isalpha, _text(MARKUP.sub("", note[2])))
            ):  # such as the number of a footnote or the link ↩ back to it, which models lose
                tags.append(Tag(len(text), note[0], ""))
                end = note.end()
            else:
                is_single = match[0].endswith("/>") or name in VOID
                if is_single and name != "wbr" and text and not (text[-1].isspace() or WITHOUT_BLANKS.match(text[-1])):
                    text += " "  # between two words
                tags.append(Tag(len(text), match[0], "" if is_single else name))
        return cls(text + _text(line[end:]), tags, elements)

    def write(self, translation: Translation) -> Translation:
        """Return a translation of ``text`` as HTML, with all tags and elements, and without an alignment."""
        text = ""
        end = 0
        for position, tag in place_tags(translation, self.tags):
            text += html.escape(translation.text[end:position], quote=False) + tag
            end = position
        text += html.escape(translation.text[end:], quote=False)
        for stand_in, element in self.elements.items():
            text = text.replace(stand_in, element)
        return replace(translation.without_alignment(), text=text)


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


@dataclass(frozen=True)
class _Placement:
    """Finds the places of tags in an aligned translation."""

    tags: Sequence[Tag]
    translation: Translation
    units: Units
    links: Sequence[int]

    def place(self, elements: Sequence[_Element], low: int, high: int, around: range) -> Iterator[tuple[int, str]]:
        """Yield position and text of the tags of elements between the target units ``low`` and ``high``.

        ``around`` are the source units of their parent. Elements may change their order, but never overlap.
        """
        taken = set[int]()
        placed: list[tuple[int, bool, int, _Element, int]] = []
        points = list[_Element]()
        for element in elements:
            covered = self._covered(element)
            if covered and covered == around and not taken:
                run = (low, high)
            else:
                run = self._run([j not in taken and self.links[j] in covered for j in range(low, high)], taken, low)
            if run[0] == run[1]:
                points.append(element)
                continue
            taken.update(range(*run))
            placed.append((run[0], True, element.first, element, run[1]))
        for element in points:
            at = min(max(self._index(self.tags[element.first].at), low), high)
            at = max([at, *(stop for start, _, _, _, stop in placed if start < at < stop)])
            placed.append((at, False, element.first, element, at))
        for start, _, _, element, stop in sorted(placed, key=lambda item: item[:3]):
            yield from self._with_inside(element, start, stop)

    def _with_inside(self, element: _Element, start: int, stop: int) -> Iterator[tuple[int, str]]:
        first = self.tags[element.first]
        last = self.tags[element.last]
        covered = self._covered(element)
        if start == stop:
            at, before, after = self._point(first.at, start)
            yield at, before + first.text
            yield from ((at, text) for _, text in self.place(element.inside, start, stop, range(0)))
            yield at, (last.text if last is not first else "") + after
            return
        opening = self.units.target[start][0]
        closing = self.units.target[stop - 1][1]
        if first.at > self.units.source[covered[0]][0]:  # inside a word, such as after a quotation mark
            opening = (core_span(self.translation.text, *self.units.target[start]) or (opening, 0))[0]
        if last.at < self.units.source[covered[-1]][1]:
            closing = (core_span(self.translation.text, *self.units.target[stop - 1]) or (0, closing))[1]
        yield opening, first.text
        yield from self.place(element.inside, start, stop, covered)
        yield closing, last.text

    def _covered(self, element: _Element) -> range:
        start = self.tags[element.first].at
        stop = self.tags[element.last].at
        return overlapping(self.units.source, start, stop) if start < stop else range(0)

    def _run(self, inside: Sequence[bool], taken: Set[int], low: int) -> tuple[int, int]:
        """Return the run of units from ``low`` with the largest number of ``inside`` units minus others.

        No run contains ``taken`` units.
        """
        best = (0, low, low)
        start, total = low, 0
        for j, is_inside in enumerate(inside, low):
            total += 1 if is_inside else -1
            if total <= 0 or j in taken:
                start = j + 1
                total = 0
            if total > best[0] or (total == best[0] and start == best[1]):
                best = (total, start, j + 1)
        return best[1], best[2]

    def _index(self, position: int) -> int:
        """Return the target unit before which a tag at this index of the source belongs."""
        before = sum(start < position for start, _ in self.units.source)
        if before in (0, len(self.units.source)):
            return 0 if before == 0 else len(self.units.target)
        return insertion_index(self.links, before, before)

    def _point(self, position: int, index: int) -> tuple[int, str, str]:
        """Return the position before the target unit ``index``, and spaces before and after a single tag."""
        left = self.translation.source[:position][-1:]
        right = self.translation.source[position:][:1]
        spaced = " " if (left + right).isspace() else ""
        if index > 0 and (index == len(self.units.target) or not left.isspace()):
            return self.units.target[index - 1][1], spaced, ""
        return (self.units.target[index][0] if self.units.target else 0), "", spaced and right


def place_tags(translation: Translation, tags: Sequence[Tag]) -> Iterator[tuple[int, str]]:
    """Yield each of the ``tags`` of the source with its position in the translation, in order of position.

    An element stands around the words that are aligned to its content. If no words are, it is empty and stands beside
    the translation of its neighbours. Elements stay within their parents.
    """
    units = aligned_units(translation)
    placement = _Placement(tags, translation, units, units.links())
    end = 0
    for position, text in placement.place(_tree(tags), 0, len(units.target), range(len(units.source))):
        end = max(end, position)  # around one word, an inner tag may stand outside its punctuation
        yield end, text
