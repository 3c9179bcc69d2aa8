"""Sentence pairs from parallel text files: the data source of ``data=text``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from nmt.text.files import iterate_pairs, read_pairs
from nmt.text.pair import Pair

NO_FILES: Files = {"src": None, "tgt": None}


class Sides(TypedDict):
    """The files of one part, one sentence per line, plain or ``.gz``; null where the part is absent."""

    src: str | None
    tgt: str | None


class Files(Sides, total=False):
    """The files of a part, with ``links``: gold word alignments whose words are counted from ``links_base``."""

    links: str | None
    links_base: Literal[0, 1]


@dataclass(frozen=True)
class FilePairs:
    """The sentence pairs of two parallel files, which are read again for each iteration."""

    source: Path
    target: Path

    def __iter__(self) -> Iterator[Pair]:
        return iterate_pairs(self.source, self.target)


class ParallelFiles:
    """A data source: call it to read the pairs of every part that is given.

    File names are relative to ``folder``, or to the working directory. The constructor raises ValueError for a part
    with one side only and for missing files.
    """

    def __init__(
        self,
        *,
        train: Files = NO_FILES,
        valid: Files = NO_FILES,
        test: Files = NO_FILES,
        folder: str | None = None,
    ) -> None:
        parts = {"train": train, "valid": valid, "test": test}
        self.folder = Path(folder or ".")
        self.parts = {part: files for part, files in parts.items() if any(_names(files).values())}
        problems = [problem for part, files in self.parts.items() for problem in self._problems(part, files)]
        if problems:
            raise ValueError("\n".join(problems))

    def __call__(self) -> dict[str, Iterable[Pair]]:
        """Return the pairs of each part. Text without links is read whenever its part is iterated.

        Raises UserError for text that is damaged or not parallel.
        """
        return {part: self._read(files) for part, files in self.parts.items()}

    def _read(self, files: Files) -> Iterable[Pair]:
        source, target, links = (name and self.folder / name for name in _names(files).values())
        assert source and target
        if links is None:
            return FilePairs(source, target)
        return read_pairs(source, target, links, links_base=files.get("links_base", 0))

    def _problems(self, part: str, files: Files) -> Iterator[str]:
        for key, name in _names(files).items():
            if name is None:
                if key != "links":
                    yield f"data.{part}.{key}=null: must be given, as data.{part}.{key}=FILE"
            elif not os.path.isfile(file := self.folder / name):  # unlike Path.is_file, also for names of any length
                yield f"data.{part}.{key}={file}: {'a folder, not a file' if os.path.isdir(file) else 'no such file'}"


def _names(files: Files) -> dict[str, str | None]:
    return {"src": files["src"], "tgt": files["tgt"], "links": files.get("links")}
