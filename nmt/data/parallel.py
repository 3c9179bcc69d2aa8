"""Sentence pairs from parallel text files: the data source of ``data=text``."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict

from nmt.data.links import Pair
from nmt.data.text_files import iterate_pairs, missing_problem, read_lines, read_pairs
from nmt.errors import counted

NO_FILES: Files = {"src": None, "tgt": None}


class Sides(TypedDict):
    """The files of one part, one sentence per line, plain or ``.gz``; null where the part is absent.

    Each side may be a list of files, which are mixed.
    """

    src: str | list[str] | None
    tgt: str | list[str] | None


class Files(Sides, total=False):
    """The files of a part, with ``links``: gold word alignments."""

    links: str | None


class ParallelFiles:
    """A data source: call it to read the pairs of every part that is given.

    File names are relative to ``folder``, or to the working directory. The constructor raises ValueError for a part
    with one side only, for missing files, and for lists of different lengths.
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
        sources, targets, links = ([self.folder / name for name in names] for names in _names(files).values())
        if links:
            return read_pairs(sources[0], targets[0], links[0])
        return FilePairs(sources, targets)

    def _problems(self, part: str, files: Files) -> Iterator[str]:
        names = _names(files)
        for key, side in names.items():
            if not side and key != "links":
                yield f"data.{part}.{key}=null: must be given, as data.{part}.{key}=FILE"
            for name in side:
                if not os.path.isfile(file := self.folder / name):  # unlike Path.is_file, also for names of any length
                    yield f"data.{part}.{key}={file}: {missing_problem(file)}"
        paths = [[os.path.realpath(self.folder / name) for name in names[key]] for key in ("src", "tgt")]
        if paths[0] and paths[0] == paths[1]:  # one of several files may be both, so that the model learns to copy
            yield f"data.{part}.tgt={files['tgt']}: is the source too; give the file of the translations"
        sources = len(names["src"])
        if sources != len(names["tgt"]):
            targets = f"data.{part}.tgt: {counted(len(names['tgt']), 'file')}"
            yield f"{targets}, data.{part}.src has {sources}; give equally many"
        if names["links"] and sources > 1:
            yield f"data.{part}.links={files.get('links')}: needs one file per side; remove it"


def _names(files: Files) -> dict[str, list[str]]:
    """Return the names of the files of each side, and of the links."""
    sides = {"src": files["src"], "tgt": files["tgt"], "links": files.get("links")}
    return {key: [side] if isinstance(side, str) else list(side or ()) for key, side in sides.items()}


class FilePairs:
    """The sentence pairs of parallel files, which are read again for each iteration.

    The files are interleaved evenly, whatever their sizes. A file that is named twice is read twice.
    """

    def __init__(self, sources: Sequence[Path], targets: Sequence[Path]) -> None:
        self._files = list(zip(sources, targets, strict=True))

    def __iter__(self) -> Iterator[Pair]:
        if len(self._files) == 1:
            return iterate_pairs(*self._files[0])
        sizes = [sum(1 for _ in read_lines(source)) for source, _ in self._files]
        streams = [self._placed(number, size) for number, size in enumerate(sizes)]
        return (pair for _, _, pair in heapq.merge(*streams))

    def _placed(self, number: int, size: int) -> Iterator[tuple[float, int, Pair]]:
        """Yield the pairs of one file with the share of its pairs before the middle of each, and the file's number."""
        return (((row + 0.5) / size, number, pair) for row, pair in enumerate(iterate_pairs(*self._files[number])))
