"""The Python reference: signature, docstring and source file of each public name."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from inspect import Parameter
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"(``[^`]+``)")
STARS = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
ALIGNED = re.compile(r"\S {3,}\S")  # columns of a table, or equations with remarks
BOUNDED = re.compile(r"(?:typing\.)?Annotated\[([^\[\],]+), (?:[^\[\]]|\([^()]*\))*\]")


def names(patterns: str) -> Iterator[str]:
    """Yield the lines of an entry per name: ``nmt.train, nmt.api.Run, nmt.api.Run.*``.

    ``*`` stands for all public names of a class or module. A class with ``()`` has no signature.
    """
    for pattern in patterns.split(", "):
        path, _, last = pattern.rpartition(".")
        owner = resolve_name(path)
        for name in members(owner) if last == "*" else [last]:
            yield from entry(owner, name)


def members(owner: Any) -> Iterable[str]:
    """Return the public names of a module, or those of a class that have a docstring."""
    if inspect.ismodule(owner):
        return owner.__all__
    kinds = (FunctionType, classmethod, staticmethod, property)
    return [
        name for name, thing in vars(owner).items() if name[0] != "_" and isinstance(thing, kinds) and thing.__doc__
    ]


def entry(owner: Any, name: str) -> Iterator[str]:
    """Yield heading, signature, docstring and file of a class, function, method or property."""
    title = name.removesuffix("()")
    thing = getattr(owner, title)
    source = inspect.getsourcefile(inspect.unwrap(thing.fget if isinstance(thing, property) else thing))
    path = Path(str(source)).relative_to(ROOT).as_posix()
    if inspect.ismodule(thing):
        title = thing.__name__
    elif inspect.isclass(owner):
        title = f"{owner.__name__}.{title}"
    yield from [f"### {title}", ""]
    if callable(thing) and not name.endswith("()"):
        yield from ["```py", signature(title, thing), "```", ""]
    yield from markdown(inspect.getdoc(thing) or "")
    if inspect.isclass(thing) and (described := [*attributes(thing)]):
        yield from [*described, ""]
    yield from [f"[{path}](../../{path})", ""]


def attributes(owner: type) -> Iterator[str]:
    """Yield a line for each attribute of a class that a comment ``#:`` or a docstring below describes."""
    source = inspect.getsource(owner)
    [body] = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    for node, after in pairwise([*body.body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign):
            last = source.splitlines()[(node.end_lineno or 0) - 1]
            text = last.partition("#: ")[2]
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = str(after.value.value)
            if text:
                yield f"- `{ast.unparse(node.target)}`: {escape(' '.join(text.split()))}"


def signature(title: str, thing: Any) -> str:
    """Return a call with its annotations, on several lines if it is long."""
    called = inspect.signature(thing)
    arguments = [argument for name, argument in called.parameters.items() if name != "self"]
    texts = [
        f"{STARS.get(argument.kind, '')}{argument.name}{words(argument.annotation, ': ')}"
        + ("" if argument.default is argument.empty else f" = {default(argument.default)}")
        for argument in arguments
    ]
    kinds = [argument.kind for argument in arguments]
    if Parameter.KEYWORD_ONLY in kinds and Parameter.VAR_POSITIONAL not in kinds:
        texts.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
    returns = "" if inspect.isclass(thing) else words(called.return_annotation, " -> ")
    line = f"{title}({', '.join(texts)}){returns}"
    return line if len(line) <= 100 else "\n".join([f"{title}(", *(f"    {text}," for text in texts), f"){returns}"])


def default(value: Any) -> str:
    """Return the value as it is written, or dots for a function and for a factory of values."""
    return "..." if repr(value).startswith("<") else repr(value)


def words(annotation: Any, before: str) -> str:
    """Return an annotation without bounds, which the settings have, and with ``before`` in front if there is one."""
    if annotation is Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", repr(annotation))
    return before + BOUNDED.sub(r"\1", text)


def markdown(docstring: str) -> Iterator[str]:
    """Yield the lines of a docstring. Indented and aligned paragraphs, such as equations, become code blocks."""
    for paragraph in re.split(r"\n\s*\n", docstring.strip("\n")):
        lines = paragraph.splitlines()
        if all(line.startswith("    ") for line in lines) or any(map(ALIGNED.search, lines)):
            indent = min(len(line) - len(line.lstrip()) for line in lines)
            yield from ["```text", *(line[indent:] for line in lines), "```", ""]
        else:
            yield from [*map(escape, lines), ""]


def escape(line: str) -> str:
    """Escape the characters that Markdown would read as markup, except in code."""
    pieces = CODE.split(line)
    pieces[::2] = [re.sub(r"[*$<]", r"\\\g<0>", piece) for piece in pieces[::2]]
    return "".join(pieces)
