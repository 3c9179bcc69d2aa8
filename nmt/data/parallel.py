"""Sentence pairs from parallel text files: the data source of ``data=text``."""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from nmt.data.pair import Pair
from nmt.data.text_files import iterate_pairs, missing_problem, read_lines, read_pairs
from nmt.errors import counted
from nmt.settings.arguments import Above, AtMost

NO_FILES: Files = {"src": None, "tgt": None}
Weight = Annotated[float, Above(0), AtMost(1000)]


class Sides(TypedDict):
    """The files of one part, one sentence per line, plain or ``.gz``; null where the part is absent.

    Each side may be a list of files, which are mixed.
    """

    src: str | list[str] | None
    tgt: str | list[str] | None


class Files(Sides, total=False):
    """The files of a part, with ``links``: gold word alignments whose words are counted from ``links_base``.

    ``weights`` says how often the pairs of each file occur.
    """

    links: str | None
    links_base: Literal[0, 1]
    weights: list[Weight] | None


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
            return read_pairs(sources[0], targets[0], links[0], links_base=files.get("links_base", 0))
        return FilePairs(sources, targets, files.get("weights") or [1.0] * len(sources))

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
        weights = files.get("weights")
        if sources != len(names["tgt"]):
            targets = f"data.{part}.tgt: {counted(len(names['tgt']), 'file')}"
            yield f"{targets}, data.{part}.src has {sources}; give equally many"
        if weights is not None and sources != len(weights):
            yield f"data.{part}.weights={weights}: must be one weight per file of data.{part}.src, which has {sources}"
        if (base := files.get("links_base")) and not names["links"]:
            yield f"data.{part}.links_base={base}: has an effect only with data.{part}.links=; add it, or remove this"
        if names["links"] and (sources > 1 or weights is not None):
            yield f"data.{part}.links={files.get('links')}: needs one file per side without weights; remove it"


def _names(files: Files) -> dict[str, list[str]]:
    """Return the names of the files of each side, and of the links."""
    sides = {"src": files["src"], "tgt": files["tgt"], "links": files.get("links")}
    return {key: [side] if isinstance(side, str) else list(side or ()) for key, side in sides.items()}


SEED = 1  # draws the pairs of a file with a fractional weight


class FilePairs:
    """The sentence pairs of parallel files, which are read again for each iteration.

    With weight 2, a file is read twice. With weight 0.5, a random half of its pairs is read. The files are interleaved
    evenly, whatever their sizes.
    """

    def __init__(self, sources: Sequence[Path], targets: Sequence[Path], weights: Sequence[float]) -> None:
        self._files = list(zip(sources, targets, weights, strict=True))
        self._sizes: list[int] | None = None

    def __iter__(self) -> Iterator[Pair]:
        if len(self._files) == 1 and self._files[0][2] == 1:
            return iterate_pairs(*self._files[0][:2])
        return self._mixed()

    def _mixed(self) -> Iterator[Pair]:
        if self._sizes is None:
            self._sizes = [sum(1 for _ in read_lines(source)) for source, _, _ in self._files]
        streams = [self._placed(number, size) for number, size in enumerate(self._sizes)]
        yield from (pair for _, _, pair in heapq.merge(*streams))

    def _placed(self, number: int, size: int) -> Iterator[tuple[float, int, Pair]]:
        """Yield the pairs of one file with the share of its pairs before the middle of each, and the file's number."""
        expected = self._files[number][2] * size
        return (((row + 0.5) / expected, number, pair) for row, pair in enumerate(self._weighted(number)))

    def _weighted(self, number: int) -> Iterator[Pair]:
        """Yield the pairs of one file as often as its weight says."""
        source, target, weight = self._files[number]
        times, fraction = divmod(weight, 1)
        for _ in range(int(times)):
            yield from iterate_pairs(source, target)
        if fraction:
            generator = random.Random(f"{SEED} {number}")
            yield from (pair for pair in iterate_pairs(source, target) if generator.random() < fraction)
