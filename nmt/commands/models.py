"""The trained model that a filter works with, and how it survives a line that is too long for the memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from nmt.commands.streams import GROUP
from nmt.errors import UserError
from nmt.search.options import SearchOptions

if TYPE_CHECKING:
    from nmt.inference.forced import Forced
    from nmt.inference.translator import Translation, Translator

Found = TypeVar("Found")


def load_model(
    folder: str,
    *,
    device: str,
    threads: int | None,
    trust: Sequence[str],
    engine: Literal["auto", "torch", "onnx", "onnx-int8"] = "torch",
    shortlist: bool = False,
) -> Translator:
    """The translator of ``folder``, run by ``engine``; ``auto`` is the fastest that is there, and says which.

    Raises UserError where it holds no model, or not for that engine.
    """
    # Nothing is imported before the arguments are known to be good; torch takes seconds.
    from nmt.inference.translator import Translator

    if engine == "auto":
        from nmt.inference.onnx.folder import fastest

        engine = fastest(Path(folder), device)
        if engine != "torch":
            print(f"engine: {engine}", file=sys.stderr)
    if engine == "torch" and threads is not None:
        import torch

        torch.set_num_threads(threads)
    return Translator.load(folder, engine=engine, device=device, threads=threads, trust=trust, shortlist=shortlist)


def require_attention(translator: Translator, asked: str) -> None:
    """Raises UserError where the model looks at nothing, so that there is nothing to align by."""
    if not translator.attention.looks:
        raise UserError(f"{asked}: this model has no attention and aligns nothing; use a model trained with one")


def translate_lines(
    translator: Translator, lines: Sequence[str], search: SearchOptions, *, place: str, alignments: bool
) -> list[Translation]:
    """The translation of each line of the file ``place``, with progress on a terminal."""
    progress = Progress(shown=sys.stderr.isatty())
    found: list[Translation] = []
    for first in range(0, len(lines), GROUP):
        group = lines[first : first + GROUP]
        found += translate_whatever_fits(translator, group, search, place=place, first=first, alignments=alignments)
        progress.show(len(found))
    progress.close()
    return found


def translate_whatever_fits(
    translator: Translator, lines: Sequence[str], search: SearchOptions, *, place: str, first: int, alignments: bool
) -> list[Translation]:
    """The translation of each line. One that the model or the machine cannot hold is refused alone, with a warning.

    ``place`` is the file of the lines, ``first`` the number of lines before them.
    """
    from nmt.inference.translator import Translation

    def work(rows: slice) -> list[Translation]:
        return translator.translate(lines[rows], search, alignments=alignments)

    nothing = Translation("", score=float("-inf"), log_prob=float("-inf"))
    return _whatever_fits(work, lines, nothing, place=place, first=first, loss="its translation is empty")


def force_whatever_fits(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], *, place: str
) -> list[Forced]:
    """Each source with its given target; a source in the file ``place`` that does not fit is refused as above."""
    import numpy as np

    from nmt.inference.forced import Forced, force

    def work(rows: slice) -> list[Forced]:
        return force(translator, sources[rows], targets[rows])

    nothing = Forced([], [], [], [], np.zeros((0, 0)), float("-inf"))
    return _whatever_fits(work, sources, nothing, place=place, first=0, loss="it is not aligned")


def link_whatever_fits(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], *, place: str
) -> list[frozenset[tuple[int, int]]]:
    """The links of each source with its given target; a source that does not fit is refused as above."""
    from nmt.inference.forced import forced_links

    def work(rows: slice) -> list[frozenset[tuple[int, int]]]:
        return forced_links(translator, sources[rows], targets[rows])

    return _whatever_fits(work, sources, frozenset(), place=place, first=0, loss="it is not aligned")


def _whatever_fits(
    work: Callable[[slice], list[Found]], lines: Sequence[str], nothing: Found, *, place: str, first: int, loss: str
) -> list[Found]:
    """What ``work`` finds for each line, and ``nothing`` for one that does not fit; ``loss`` says what this means.

    The lines are halved until the culprit stands alone, so that the others are still worked on in batches.
    """

    def halved(start: int, stop: int) -> list[Found]:
        try:
            return work(slice(start, stop))
        except Exception as error:
            if (reason := why_too_long(error, lines[start])) is None:
                raise
        if stop - start == 1:
            print(f"warning: {place}:{first + stop}: {reason}; {loss}", file=sys.stderr)
            return [nothing]
        middle = (start + stop) // 2
        return halved(start, middle) + halved(middle, stop)

    return halved(0, len(lines))


# torch has no class for it on a CPU and onnxruntime has none at all; "can't allocate memory" is torch's on Linux.
LACK = ("not enough memory", "out of memory", "allocate memory", "bad_alloc")


def why_too_long(error: Exception, line: str) -> str | None:
    """Why the model or the machine cannot hold ``line``, in words for its reader; None for an error of another kind."""
    from nmt.inference.translator import SourceTooLong

    if isinstance(error, SourceTooLong):
        return str(error)
    if isinstance(error, MemoryError) or any(words in str(error).lower() for words in LACK):
        return f"not enough memory for this line of {len(line.split()):,} words"
    return None


class Progress:
    """Lines done and lines a second, rewritten in place on stderr; nothing where no one looks."""

    def __init__(self, *, shown: bool) -> None:
        self.shown = shown
        self.started = time.perf_counter()

    def show(self, done: int) -> None:
        if self.shown:
            rate = done / max(time.perf_counter() - self.started, 1e-9)
            print(f"\r{done:,} lines, {rate:,.0f} lines/s ", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown:
            print(file=sys.stderr)
