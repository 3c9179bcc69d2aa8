"""The writing guide: phrases that readers must hear twice, and variable names that name nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[1]

# (regular expression, what to write instead). A space also matches line breaks, "_" in names, and the quotes or "#"
# between two lines of a message or comment. Patterns start and end at a word boundary.
PHRASES = [
    # Error messages: value, problem, fix.
    (r"leav(e|es|ing)( [\w=.`]+){0,3} away|left( [\w=.`]+){0,3} away", "remove …"),
    (r"(is|are|was|were) there already|already there|there already", "already exists"),
    (r"(?-i:(is|are|was|be|were) none)", "does not exist, unknown, missing, or: no X was found"),
    # "there is no X" is allowed, and so are comparisons.
    (
        r"(?<!here\s)is no(?! (better|worse|longer|shorter|slower|faster|larger|smaller|more|less|easier|matter)\b)",
        "is not",
    ),
    (r"put(s|ting)? right", "fix"),
    (r"has to be typed|have to be typed", "must be given"),
    (r"is what to", "name the values that conflict; give only one"),
    # Archaic, poetic or home-made.
    (r"anew", "again, or override"),
    (r"perhaps", "may, possibly, optional, or remove the word"),
    (r"so many", "name the number: ``count`` words, N rows"),
    (r"of (its|their|our|his|one's) own", "its own X, a separate X"),
    (r"such that", "so that"),
    (r"lest", "so that … not"),
    (r"whither|whence|whereof|wherein|whereupon|thereof|thereby|hither|thither", "where, from which, of which, so"),
    (r"by turns", "alternately"),
    (r"but for", "except for, without"),
    (r"(?<=[,;.]\s)nor", "and … not"),
    (r"said", "given, set, written, stated"),
    (r"told", "given, reported, distinguished"),
    (r"(?<=[,;]\s)for (it|they|there|he|she|we)", "because …"),
    (r"in (its|their) stead", "instead"),
    (r"of ours|of yours|of theirs", "our X, or remove it"),
    (r"half as (long|much|many|large|fast) again", "1.5 times as …"),
    (r"a (third|quarter|fifth|sixth|seventh|eighth|ninth|tenth) too (high|low|much|many|long|large)", "… % too …"),
    (r"seen late|the worse end|the same without a", "a full sentence with a subject and a verb"),
    # Paraphrases of standard terms.
    (r"slopes?", "gradient, grad_output"),
    (r"squashed", "tanh, sigmoid, activation"),
]

# First words of docstrings and comments, with their capital. A question, "What does a step cost?", is allowed.
OPENINGS = [
    (r"(?-i:What|Whatever)", 'say what it does, returns or is: "Return …", "Load …", "Yield …"'),
    (r"(?-i:Whose|Of|By what|By which)", "start with the subject or the verb"),
    (r"(?-i:(?<=\"\"\")(Where(?!:)|The same (without|with|but|as)|As ``))", "start with the subject or the verb"),
]

# Names that say nothing about the data (write a noun) or about the action (write a verb).
FILLER = {
    *("one", "each", "found", "there", "apart", "whole", "looks", "said", "told", "settled"),
    *("squashed", "slope", "enter", "leave", "this", "them"),
}

# Right uses: (file or folder, phrase) and (file or folder, name).
ALLOWED_PHRASES = {
    ("benchmarks/speed/cost.py", "slope"),  # of a fitted line
    ("nmt/grammar/", "perhaps"),  # words of the generated English
    ("nmt/grammar/", "said"),
    ("nmt/grammar/", "told"),
    ("tests/grammar/", "perhaps"),
    ("tests/grammar/", "said"),
    ("tests/grammar/", "told"),
    ("tests/data/", "said"),
}
ALLOWED_NAMES: set[tuple[str, str]] = set()

GAP = r"""(?:[\s_#"'>*]|f(?="))+"""


def compiled(table: list[tuple[str, str]], before: str) -> re.Pattern[str]:
    """Return one pattern for the whole table, with a named group ``p0``, ``p1``, … per entry."""
    entries = (f"(?P<p{number}>{pattern.replace(' ', GAP)})" for number, (pattern, _) in enumerate(table))
    return re.compile(f"{before}(?:{'|'.join(entries)})(?![A-Za-z])", re.IGNORECASE)


PHRASE = compiled(PHRASES, r"(?<![A-Za-z])")
OPENING = compiled(OPENINGS, r'(?:"""|(?:^|\n)[ ]*# )(?![^."\n]*\?)')


def texts() -> Iterator[tuple[str, str]]:
    """Yield the path, relative to the root, and the content of every file that people read."""
    paths = [path for folder in ("nmt", "conf", "scripts", "tests", "docs") for path in (ROOT / folder).rglob("*")]
    paths += [path for path in (ROOT / "benchmarks").rglob("*") if "results" not in path.parts]
    paths += [*(ROOT / "data").glob("*.md"), *ROOT.glob("*.md")]
    for path in sorted(paths):
        if path.suffix in (".py", ".yaml", ".md") and path != Path(__file__) and "_build" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def phrases(name: str, text: str) -> Iterator[str]:
    """Yield one message per phrase of the table in ``text``, the content of the file ``name``."""
    searches = [(PHRASE, PHRASES)]
    if not name.endswith(".md"):
        searches.append((OPENING, OPENINGS))  # in Markdown, "# What …" is a heading
    for pattern, table in searches:
        for match in pattern.finditer(text):
            group = next(key for key, value in match.groupdict().items() if value is not None)
            phrase = re.sub(r'[\s_#]*"\s*f?"|[\s_#]+', " ", match[group])
            if not any(name.startswith(path) and phrase.lower() == right for path, right in ALLOWED_PHRASES):
                line = text.count("\n", 0, match.start(group)) + 1
                yield f"{name}:{line}: {phrase!r}; write: {table[int(group[1:])][1]}"


def bindings(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of every variable, parameter, attribute, function and class that a Python file binds."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def filler_names(name: str, text: str) -> Iterator[str]:
    """Yield one message per filler name that the Python file ``name`` binds."""
    for line, binding in bindings(text):
        plain = binding.lstrip("_")
        if plain in FILLER and not any(name.startswith(path) and plain == right for path, right in ALLOWED_NAMES):
            yield f"{name}:{line}: {binding}; use a noun for data, a verb for functions"


def test_no_phrase_of_the_writing_guide_is_left() -> None:
    problems = [problem for name, text in texts() for problem in phrases(name, text)]
    assert not problems, "\n".join([f"{len(problems)} phrases to rewrite", *problems])


def test_no_filler_names_are_bound() -> None:
    problems = [problem for name, text in texts() if name.endswith(".py") for problem in filler_names(name, text)]
    assert not problems, "\n".join([f"{len(problems)} names to replace", *problems])


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("x=1: leave it away", "leave it away"),
        ('"remove it; leave "\n    f"engine away"', "leave engine away"),
        ("def test_an_engine_that_is_none_is_named():", "is none"),
        ("if name is None:", ""),
        ("'x' is no link", "is no"),
        ("there is no file; it is not a link; it is no better", ""),
        ("Perhaps in\n    bfloat16", "Perhaps"),
        ("It is fast. Nor is it large.", "Nor"),
        ('"""What a run leaves."""', "What"),
        ('"""What does a step cost?"""', ""),
        ("    # the number\n    # of rows\n    # Where it is empty, nothing is written.", ""),
        ('    """Where dropout stands."""', "Where"),
        ('"""Return a file of\n    its own."""', "of its own"),
    ],
)
def test_phrases_are_recognised(text: str, phrase: str) -> None:
    messages = list(phrases("nmt/module.py", text))
    assert [message.split("'")[1] for message in messages] == ([phrase] if phrase else [])


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("for one in []:\n    found, _each = 1, 2", [1, 2, 2]),
        ("import os as said", [1]),
        ("print(one.found)\ndef __enter__(self): ...", []),
    ],
)
def test_filler_names_are_recognised(code: str, lines: list[int]) -> None:
    assert sorted(int(message.split(":")[1]) for message in filler_names("nmt/module.py", code)) == lines
