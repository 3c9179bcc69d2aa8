"""Markdown (CommonMark with tables and footnotes): its text as lines of HTML, in which each mark is a tag, and back."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from nmt.documents.segments import has_letters
from nmt.errors import UserError, print_message
from nmt.inference.markup import MARKUP
from nmt.inference.protection import AFTER_ADDRESS
from nmt.text.writing import JOINT

FRONT_MATTER = re.compile(  # YAML, or TOML
    r"(?:---[ \t]*\n.*?\n(?:---|\.\.\.)|\+\+\+[ \t]*\n.*?\n\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL
)
# Lines of other programs, such as ::: note, !!! note, {% include x %}, {{< figure >}}, {: .class}, [TOC] or a formula
DIRECTIVE = re.compile(
    r"(?:::|!!!|\?\?\?).*|(?:\{%[^{}]*\}|\{\{[^{}]*\}\}|\{:[^{}]*\}|\[\[?_?TOC_?\]\]?)[ \t]*|\$\$[^$]*(?:\$\$)?"
)
ALERT = re.compile(r"\[![A-Za-z]+\][ \t]*")  # the first line of a quotation that GitHub shows in a coloured box
SOFT_BREAK = re.compile(r" *\n[ \t]*")
HARD_BREAK = re.compile(r"(?: {2,}|\\)\n[ \t]*")
FOOTNOTE = re.compile(r"\[\^[^\[\]\s]+\](:[ \t]*)?")
# The text of a term, which is the line before, or an item of a list of Pandoc, such as a. or ii)
ITEM = re.compile(r":[ \t]+|(?:[A-Za-z][.)] |[ivx]{2,}[.)]|#\.) +(?! )")
# Tables with frames and lines of verse of Pandoc, which are paragraphs for CommonMark
PANDOC = re.compile(r"^ *(?:\+(?:[-=:]+\+)+ *$|\| )", re.MULTILINE)
RULES = r" *-{2,}(?: +-{2,})+ *\n"  # the line of a table of Pandoc that shows its columns
TABLE = re.compile(  # the first two end as they begin, and may have blank lines between their rows
    rf"(?<![^\n]\n)(^{RULES})(?= *\S)(?:.*\n)*?\1"
    rf"|^( *-{{3,}} *\n)(?: *[^\s-].*\n)+{RULES}(?:.*\n)*?\2"
    rf"|^ *\S.*\n{RULES}(?: *\S.*\n)*",
    re.MULTILINE,
)
ATTRIBUTES = r"\{(?:[#.:=-]|[\w-]+=)[^{}]*\}"  # of a heading, a picture or a text of Pandoc, such as {.class width=3cm}
SPAN = re.compile(rf"\[[^\[\]]*(\]{ATTRIBUTES})")
FIELD = re.compile(
    r"\[(?:[^\[\]\n]*[\s;-])?@\w[^\[\]\n]*\](?![(\[:{])|(?<!\w)@\w(?:[\w.:/-]*\w)?"  # citations of Pandoc
    rf"|{ATTRIBUTES}|\{{%[^{{}}\n]*\}}|\{{\{{[^{{}}\n]*\}}\}}"  # attributes, and fields of templates
    r"|\^\[(?:[^\[\]]|\[[^\[\]]*\])*\]"  # footnotes of Pandoc
    r"|(?<=\w)(?P<level>[~^])[\d+-]+(?P=level)(?!\w)"  # exponents and indices of Pandoc
)
FORMULA = re.compile(r"\$\$[^$]+\$\$|\$(?!\s)(?:[^$\\]|\\.)+(?<!\s)\$(?!\d)", re.DOTALL)  # not $5 or $10
TASK = re.compile(r"\[[ xX]\][ \t]+")
ADDRESS = re.compile(
    rf"{MARKUP.pattern}|"
    rf"(?P<address>(?<![a-zA-Z0-9_])(?:https?://|www\.)(?:[^\s<>\"'`&{AFTER_ADDRESS}]|&amp;)*[\w/])",
    re.DOTALL,
)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
AUTOLINK = re.compile(r"<[^<>\s]+>")
QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)"""
TARGET = re.compile(  # of a link: (address "title"), [label], or nothing
    rf"\](?:\(\s*(?:<[^<>\n]*>|[^\s()<]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+(?:{QUOTED}))?\s*\)|\[[^\[\]]*\])?", re.DOTALL
)
PATTERNS = {"softbreak": SOFT_BREAK, "hardbreak": HARD_BREAK, "code_inline": CODE, "link_close": TARGET}
TEXTS = ("text", "text_special", "softbreak")
EMPHASIS = ("em", "strong", "s")
EMPTY = re.compile(r"<(nmt-\d+)></\1>")
SPECIAL = re.compile(r"([\\`*\[\]<~|]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|!$)")
BLOCK_MARK = re.compile(r"\A(\d{1,9}(?=[.)])|(?=[-+#>=]))(.)", re.DOTALL)  # such as 1. or #


class Mark(NamedTuple):
    """A mark as Markdown writes it, and the tokens that markdown-it-py reads in its place."""

    text: str
    tokens: tuple[str, ...]


class Segment(NamedTuple):
    """A part of a document that is translated: where it is, as a line of HTML, and its marks by their tags."""

    start: int
    stop: int
    line: str
    marks: dict[str, Mark]


class Markdown:
    """A document in Markdown. Warnings about text that stays as it is call the file ``name``.

    Raises UserError if the package markdown-it-py is not installed.
    """

    def __init__(self, text: str, name: str) -> None:
        self._parser = _parser()
        self._name = name
        self._text = text.replace("\r", " ")
        self._references: dict[str, Any] = {}
        self._segments = [*self._find_segments()]

    @property
    def lines(self) -> list[str]:
        """The lines to translate."""
        return [segment.line for segment in self._segments]

    def fill(self, translations: Sequence[str]) -> str:
        """Return the document with these translations of its lines. A line that is unchanged stays as it was."""
        filled = ""
        end = 0
        for segment, translation in zip(self._segments, translations, strict=True):
            filled += self._text[end : segment.start]
            end = segment.stop
            written = None if translation == segment.line else self._written(translation, segment.marks)
            if written is None and translation != segment.line:
                self._warn(segment.start, "Markdown cannot express its translation")
            filled += self._text[segment.start : end] if written is None else written
        return filled + self._text[end:]

    def _warn(self, start: int, problem: str) -> None:
        row = self._text.count("\n", 0, start) + 1
        print_message(f"warning: {self._name}:{row}: {problem}; it stays as it is")

    def _find_segments(self) -> Iterator[Segment]:
        matter = FRONT_MATTER.match(self._text)
        first = matter.end() if matter else 0
        lines = self._text[first:].split("\n")
        starts = [*accumulate((len(line) + 1 for line in lines), initial=first)]
        tokens = self._parser.parse(self._text[first:], self._references)
        tables = [table.span() for table in TABLE.finditer(self._text + "\n")]
        row = end = table = -1
        is_note = False
        for before, token in zip(tokens, tokens[1:], strict=False):
            if token.type == "code_block" and is_note and token.map:
                self._warn(starts[token.map[0]], "an indented paragraph of a note is read as code")
            if token.type == "directive" and token.map:
                is_note = lines[token.map[0]].lstrip().startswith(("!!!", "???"))
            if token.type != "inline" or token.map is None:
                continue
            is_note = bool((match := FOOTNOTE.match(token.content)) and match[1])
            content = token.content
            children = token.children or []
            top = token.map[0]
            if ALERT.fullmatch(content.partition("\n")[0]):
                content = content.partition("\n")[2]
                if not content:
                    continue
                children = self._parser.parseInline(content, self._references)[0].children or []
                top += 1
            parts = content.split("\n")
            within = next((start for start, stop in tables if start <= starts[top] < stop), -1)
            if within >= 0 or PANDOC.search(content):
                if within != table or within < 0:
                    self._warn(starts[top], "a table or verse of Pandoc, which pandoc -t gfm converts")
                table = within
                continue
            if before.type in ("td_open", "th_open"):
                cell = parts[0].replace("|", r"\|")
                columns = [lines[top].find(cell, end if top == row else 0)]
                row = top
                end = columns[0] + len(cell) if columns[0] >= 0 else len(lines[top])
                if cell != parts[0]:
                    columns = [-1]
            else:
                columns = [line.rfind(part) for line, part in zip(lines[top:], parts, strict=False)]
            fragment = _fragment(content, children)
            if fragment is None or min(columns) < 0:
                if any(character.isalpha() for child in children for character in child.content):
                    self._warn(starts[top], "its marks cannot be found again, such as an escaped | in a table")
                continue
            if any(token.markup.startswith("^[") and any(map(str.isalpha, token.markup)) for token in children):
                self._warn(starts[top], "a footnote between ^[ and ] is not translated")
            if not has_letters(fragment[0]):
                continue
            stop = starts[top + len(parts) - 1] + columns[-1] + len(parts[-1])
            yield Segment(starts[top] + columns[0], stop, *fragment)

    def _written(self, translation: str, marks: dict[str, Mark]) -> str | None:
        """Return a translation as Markdown, or None if it cannot express it, such as a line with only a tag of HTML.

        Emphasis that it cannot express beside these words is left out.
        """
        emphasised = {tag: mark for tag, mark in marks.items() if mark.tokens[0].split("_")[0] in EMPHASIS}
        before = ""
        while before != translation:
            before = translation
            translation = EMPTY.sub(lambda tags: "" if f"<{tags[1]}>" in emphasised else tags[0], translation)
        underscored = {
            tag: mark._replace(text="_") if mark.tokens[0].startswith("em_") else mark for tag, mark in marks.items()
        }
        starred = marks | {
            tag: mark._replace(text=re.sub("^_+", lambda match: "*" * len(match[0]), mark.text))
            for tag, mark in emphasised.items()
        }
        plain = marks | dict.fromkeys(emphasised, Mark("", ()))
        for choice in (marks, underscored, starred, plain):  # within a word, as in Chinese, only stars are marks
            text, expected = _markdown(translation, choice)
            if self._tokens(text) == expected:
                return text
        return None

    def _tokens(self, text: str) -> list[str] | None:
        """Return the tokens of a text besides plain text; None if it is not one paragraph, but another block."""
        references = {"references": {**self._references.get("references", {})}}
        tokens = self._parser.parse(text, references)
        if [token.type for token in tokens] != ["paragraph_open", "inline", "paragraph_close"]:
            return None
        return [token.type for token in tokens[1].children or [] if token.type not in TEXTS]


def _parser() -> Any:
    """Return a parser of CommonMark with tables, deleted text, footnotes and marks of tasks."""
    try:
        from markdown_it import MarkdownIt
        from markdown_it.rules_block.paragraph import paragraph
    except ImportError:
        fix = "install the extra: pip install 'nmt-memory-attention[markdown]'"
        raise UserError(f"format=markdown: the package markdown-it-py is not installed; {fix}") from None

    def footnote(state: Any, start: int, stop: int, silent: bool) -> bool:
        """Read the text of a footnote as a paragraph, which ends the one before."""
        at = state.bMarks[start] + state.tShift[start]
        match = FOOTNOTE.match(state.src, at)
        if state.is_code_block(start) or not ((match and match[1]) or ITEM.match(state.src, at)):
            return False
        return silent or paragraph(state, start, stop, silent)

    def directive(state: Any, start: int, stop: int, silent: bool) -> bool:
        """Read a line for another program, or a formula up to its last line, which ends a paragraph."""
        line = state.getLines(start, start + 1, state.blkIndent, False).strip()
        if state.is_code_block(start) or not DIRECTIVE.fullmatch(line):
            return False
        end = start + 1
        if line.count("$$") == 1:
            close = state.src.find("$$", state.eMarks[start])
            end = next((row + 1 for row in range(end, stop) if 0 <= close < state.eMarks[row]), end)
        if not silent:
            state.push("directive", "", 0).map = [start, end]
            state.line = end
        return True

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
    parser.block.ruler.before("reference", "footnote", footnote, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.before("footnote", "directive", directive, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("text", "footnote", _read_mark)
    parser.inline.ruler.before("link", "span", _read_span)
    return parser


def _read_mark(state: Any, silent: bool) -> bool:
    """Read a mark without words: of a footnote, such as [^1], a field, a formula, a task or a definition."""
    match = FOOTNOTE.match(state.src, state.pos) or FIELD.match(state.src, state.pos)
    if state.pos == 0:
        match = match or TASK.match(state.src) or ITEM.match(state.src)
    formula = FORMULA.match(state.src, state.pos)
    match = match or formula
    if match is None:
        return False
    if not silent:
        state.push("formula" if formula else "footnote", "", 0).markup = match[0]
    state.pos = match.end()
    return True


def _read_span(state: Any, silent: bool) -> bool:
    """Read text between brackets, with a class of Pandoc behind."""
    if (match := SPAN.match(state.src, state.pos)) is None:
        return False
    if not silent:
        stop = state.posMax
        state.push("span_open", "", 1).markup = "["
        state.pos, state.posMax = state.pos + 1, match.start(1)
        state.md.inline.tokenize(state)
        state.push("span_close", "", -1).markup = match[1]
        state.posMax = stop
    state.pos = match.end()
    return True


def _fragment(content: str, tokens: Sequence[Any]) -> tuple[str, dict[str, Mark]] | None:
    """Return text with Markdown as HTML, and the mark of each tag; None if a part of it cannot be found again."""
    line = tag = ""
    marks = dict[str, Mark]()
    open_marks = list[tuple[int, int]]()  # number, and end in the source
    at = 0
    rest = iter([token for token in tokens if token.type != "text" or token.content])
    for token in rest:
        length = _length(token, content, at)
        if not length:
            return None
        source = SOFT_BREAK.sub(" ", content[at : at + length])
        around = content[max(at - 1, 0) : at + length + 1]
        at += length
        types: tuple[str, ...] = (token.type,)
        if token.type in TEXTS:
            blank = "" if JOINT.search(around) else " "
            line += html.escape(token.content, quote=False) if token.type != "softbreak" else blank
            continue
        if token.type == "html_inline":
            line += source
            continue
        if source.startswith("{") and tag and line.endswith(tag):  # attributes belong to the mark before
            marks[tag] = Mark(marks[tag].text + source, (*marks[tag].tokens, token.type))
            continue
        if token.markup == "autolink":
            next(rest)  # its text
            types = (token.type, next(rest).type)
            tag = f"<code>nmt-{len(marks)}</code>"
        elif token.type in ("code_inline", "formula"):
            tag = f"<code>nmt-{len(marks)}</code>"
        elif token.type.endswith("_close"):
            number, start = open_marks.pop()
            tag = f"</nmt-{number}>"
            if source in ("]", "][]"):  # the text is the label of an address, and must remain there
                source = f"][{SOFT_BREAK.sub(' ', content[start : at - length])}]"
        elif token.type.endswith("_open"):
            open_marks.append((len(marks), at))
            tag = f"<nmt-{len(marks)}>"
        elif token.type == "footnote":
            tag = f"<!nmt-{len(marks)}>"  # like a comment, it needs no blank before it
        else:
            tag = f"<nmt-{len(marks)}/>"
        marks[tag] = Mark("\\\n" if token.type == "hardbreak" else source, types)
        line += tag
    return (ADDRESS.sub(lambda match: _address(match, marks), line), marks) if at == len(content) else None


def _address(match: re.Match[str], marks: dict[str, Mark]) -> str:
    """Return a tag of HTML as it is, and a stand-in for an address, which is added to the marks."""
    if match["address"] is None:
        return match[0]
    marks[tag := f"<code>nmt-{len(marks)}</code>"] = Mark(html.unescape(match[0]), ("text",))
    return tag


def _length(token: Any, content: str, start: int) -> int:
    """Return the length of a token in its source, which begins at ``start``; 0 if it is not there."""
    pattern = AUTOLINK if token.markup == "autolink" else PATTERNS.get(token.type)
    if pattern is None:
        source = {"link_open": "[", "image": f"![{token.content}"}.get(token.type) or token.markup or token.content
        if not content.startswith(source, start):
            return 0
        if token.type != "image":
            return len(source)
        target = TARGET.match(content, start + len(source))
        return len(source) + len(target[0]) if target else 0
    match = pattern.match(content, start)
    return len(match[0]) if match else 0


def _markdown(translation: str, marks: dict[str, Mark]) -> tuple[str, list[str]]:
    """Return HTML as Markdown, and the tokens other than text that it should have."""
    tags = "|".join([*map(re.escape, marks), MARKUP.pattern])
    text = ""
    tokens = list[str]()
    for number, piece in enumerate(re.split(f"({tags})", translation, flags=re.DOTALL)):
        if number % 2:
            mark = marks.get(piece) or Mark(piece, ("html_inline",))
            text += mark.text
            tokens += [token for token in mark.tokens if token not in TEXTS]
        else:
            piece = SPECIAL.sub(r"\\\1", html.unescape(piece))
            if not text or text.endswith("\n"):  # where a list or a heading could begin
                piece = BLOCK_MARK.sub(r"\1\\\2", piece.lstrip())
            text += piece
    return text, tokens
