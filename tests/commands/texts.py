"""Sentences for the tests of commands, and what a command prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps"]
TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", "die Katze schläft"]
TEXT = b"the dog sees a cat\n\na red house\nthe cat\n"


class Printed(NamedTuple):
    """The lines that a command wrote to stdout, and what it wrote to stderr."""

    lines: list[str]
    error: str


Call = Callable[..., Printed]
