"""Translate a large text in shards of consecutive lines, with several workers, and continue after a stop.

The finished shards are records in a folder beside the output, which is deleted when the output is complete. A record
of other lines, of another model or of other settings counts as missing.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from nmt.errors import counted, print_message
from nmt.files.atomic import load_record, own_folder, save_record
from nmt.files.checksum import fingerprint
from nmt.inference.engines import LoadSettings
from nmt.inference.ensemble import members
from nmt.inference.load import load
from nmt.inference.onnx.model import OnnxModel
from nmt.inference.translation import Done, ScoreColumn, alignment_lines, cuts, output_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.system.processes import run_tasks
from nmt.text.coverage import TextCheck
from nmt.text.glossary import read_glossary
from nmt.version import __version__

CHECKED = 32  # lines of each shard


class Shard(NamedTuple):
    """Consecutive lines of the input. ``first`` is the number of lines before it."""

    number: int
    first: int
    lines: list[str]


@dataclass(frozen=True, kw_only=True)
class TranslateShard:
    """Function that translates a shard and stores the result, unless its record exists, and returns the result.

    A line that the model or the machine cannot hold gives an empty line and a warning.
    """

    model: str | Path | Sequence[str | Path]
    settings: LoadSettings
    search: SearchOptions
    scores: ScoreColumn
    alignments: bool
    folder: Path
    fingerprints: list[str]
    """Those of the model: see ``model_fingerprints``."""

    @cached_property
    def key(self) -> str:
        """A fingerprint of everything besides its lines that the result depends on."""
        glossary = None if self.search.glossary is None else read_glossary(self.search.glossary).targets
        settings = asdict(replace(self.settings, threads=None, device="auto", trust=()))
        return fingerprint([__version__, glossary, asdict(self) | {"model": "", "folder": "", "settings": settings}])

    def __call__(self, shard: Shard) -> Done:
        record = self.folder / f"{shard.number:08d}.shard", fingerprint([self.key, shard.first, shard.lines])
        if (stored := load_record(*record)) is not None:
            return Done(*stored)
        failures: list[tuple[int, str]] = []
        before = self._translator.split_lines
        translations = self._translator.translate(
            shard.lines,
            self.search,
            alignments=self.alignments,
            on_failure=lambda row, reason: failures.append((row, reason)),
        )
        output = [*output_lines(translations, shard.first, n_best=self.search.n_best, scores=self.scores)]
        links = alignment_lines(translations) if self.alignments else []
        split_lines = self._translator.split_lines - before
        lost = [(row, best.lost) for row, best in enumerate(translations) if best.lost]
        done = Done(len(shard.lines), output, links, sorted(failures + cuts(translations)), lost, split_lines)
        save_record(*record, done)
        return done

    @cached_property
    def _translator(self) -> Translator:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the command that started this worker has shown them
            # The command has read a part of every shard.
            return Translator(load(self.model, self.settings), check_text=False)


def model_fingerprints(translator: Translator, model: str | Path | Sequence[str | Path]) -> list[str]:
    """Return strings that change whenever a model in ``model`` changes, or its engine."""
    fingerprints = list[str]()
    folders = [model] if isinstance(model, str | Path) else model
    for folder, loaded in zip(folders, members(translator.loaded_model), strict=True):
        if isinstance(loaded, OnnxModel):
            fingerprints += [loaded.engine_name, fingerprint(loaded.properties.checksums)]
        else:
            from nmt.inference.model_folder import model_fingerprint  # imports torch

            fingerprints.append(model_fingerprint(Path(folder)))
    return fingerprints


@contextmanager
def shard_results(
    translator: Translator, job: TranslateShard, groups: Iterable[list[str]], workers: int
) -> Iterator[Iterator[Done]]:
    """Yield the results of the shards, one for each group of lines, in order, while workers translate later ones.

    ``translator`` has the model of the ``job``. The folder of finished shards is deleted when the block succeeds.
    Otherwise it stays, and a message says how to continue.
    """
    shards = _shards(groups, translator.source_check, translator.change_text)
    del translator  # its model would stay in memory, and each worker loads its own
    busy = "another process is writing into it; wait until it ends, or choose another output="
    with own_folder(job.folder, busy=busy, fix="rename it, or choose another output="):
        if count := _count(job.folder):
            print_message(f"{job.folder}: {counted(count, 'finished shard')}; continuing")
        try:
            with closing(run_tasks(job, shards, workers)) as results:
                yield (done for _, done in results)
        except BaseException:
            if count := _count(job.folder):
                kept = f"{counted(count, 'finished shard')} kept; run the same command again to continue"
                print_message(f"{job.folder}: {kept}")
            else:
                shutil.rmtree(job.folder, ignore_errors=True)
            raise
    shutil.rmtree(job.folder, ignore_errors=True)


def _count(folder: Path) -> int:
    return len([*folder.glob("*.shard")])


def _shards(groups: Iterable[list[str]], check: TextCheck, change: Callable[[str], str]) -> Iterator[Shard]:
    """Yield the shards. ``check`` reads some lines of each, to warn about a text that the model cannot read."""
    first = 0
    for number, lines in enumerate(groups):
        for line in map(change, lines[:CHECKED]):
            check.encode(line)
        check.conclude()
        yield Shard(number, first, lines)
        first += len(lines)
