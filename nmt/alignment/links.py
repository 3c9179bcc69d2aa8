"""Word links, to and from files in Pharaoh's notation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nmt.text.files import read_lines
from nmt.text.links import Link, Links, parse_pharaoh

__all__ = ["Link", "Links", "format_pharaoh", "parse_pharaoh", "read_gold"]


def format_pharaoh(links: Iterable[Link]) -> str:
    """``i-j`` items counted from 0, in source order."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def read_gold(path: str | Path, *, base: int = 0) -> list[Links]:
    """The gold links of a file, one line a sentence. Raises UserError naming the line."""
    return [parse_pharaoh(line, base=base, place=f"{path}:{n}") for n, line in enumerate(read_lines(path), start=1)]
