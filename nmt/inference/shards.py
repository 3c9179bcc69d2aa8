"""Translate a large text in shards of consecutive lines, with several workers, and continue after a stop.

The finished shards are kept in a folder beside the output, which is deleted when the output is complete. Its file
``settings.json`` has the settings of the call that wrote them. A shard whose lines have changed counts as missing.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

from nmt.errors import UserError, counted, print_message
from nmt.files.atomic import LOCK_FILE, own_folder, write_bytes
from nmt.files.checksum import fingerprint
from nmt.files.reading import read_json
from nmt.files.records import Records
from nmt.inference.engines import EngineName, LoadSettings
from nmt.inference.ensemble import members
from nmt.inference.load import load
from nmt.inference.onnx.model import OnnxModel
from nmt.inference.reader import TextCheck
from nmt.inference.translation import Done, ScoreColumn, alignment_lines, cuts, output_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.system.processes import Workers, run_tasks
from nmt.text.glossary import read_glossary
from nmt.version import __version__

CHECKED = 32  # lines of each shard


class Shard(NamedTuple):
    """Consecutive lines of the input."""

    number: int
    """Position among the shards, from 0."""
    first: int
    """Number of lines before it."""
    lines: list[str]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.lines)

    @property
    def label(self) -> str:
        """The shard as messages name it, with lines counted from 1."""
        return f"lines {self.first + 1:,} to {self.first + len(self.lines):,}"


@dataclass(frozen=True, kw_only=True)
class TranslateShard:
    """Function from a shard to its output lines. The model is loaded at the first call, in the process that calls.

    A line that the model or the machine cannot hold gives an empty line and a warning.
    """

    model: Path | list[Path]
    settings: LoadSettings
    search: SearchOptions
    scores: ScoreColumn
    alignments: bool
    fingerprint: str
    """The value of ``translator_fingerprint`` for the model when the command started."""
    contents: Mapping[str, str | None]
    """The value of ``_contents`` for ``search`` when the command started."""

    @classmethod
    def of(
        cls,
        translator: Translator,
        model: str | Path | Sequence[str | Path],
        settings: LoadSettings,
        *,
        search: SearchOptions,
        scores: ScoreColumn,
        alignments: bool,
    ) -> Self:
        """Return the job for the model of ``translator``, in the folder ``model``, or for an ensemble in several.

        Workers may have another working directory, and must use the engine of ``translator``.
        """
        models = members(translator.loaded_model)
        engines: set[EngineName] = {it.engine_name if isinstance(it, OnnxModel) else "torch" for it in models}
        settings = replace(
            settings,
            engine=engines.pop() if len(engines) == 1 else settings.engine,
        )
        folders = [Path(folder).absolute() for folder in ([model] if isinstance(model, str | Path) else model)]
        search = translator.search_options(search, alignments=alignments)
        if search.glossary is not None:
            search = replace(search, glossary=str(Path(search.glossary).absolute()))
        return cls(
            model=folders[0] if isinstance(model, str | Path) else folders,
            settings=settings,
            search=search,
            scores=scores,
            alignments=alignments,
            fingerprint=translator_fingerprint(translator, folders),
            contents=_contents(search),
        )

    def record(self) -> dict[str, Any]:
        """Return everything that the translation of a line depends on, as plain data."""
        settings = self.settings
        return {
            "version": __version__,
            "model": self.fingerprint,
            **{name: getattr(settings, name) for name in ("engine", "shortlist")},
            # A shortlist depends on the batch, and the batch on the number of threads.
            "threads": settings.threads if settings.shortlist else None,
            "scores": self.scores,
            "alignments": self.alignments,
            **{f"search.{name}": value for name, value in asdict(self.search).items()},
            **self.contents,
        }

    def __call__(self, shard: Shard) -> Done:
        for name, content in _contents(self.search).items():
            if content != self.contents[name]:
                file = getattr(self.search, name)
                raise UserError(f"search.{name}={file}: edited while it translated; restore it, and repeat the command")
        failures: list[tuple[int, str]] = []
        translations = self._translator.translate(
            shard.lines,
            self.search,
            alignments=self.alignments,
            on_failure=lambda row, reason: failures.append((row, reason)),
        )
        output = [*output_lines(translations, shard.first, n_best=self.search.n_best, scores=self.scores)]
        failures += cuts(translations)
        links = alignment_lines(translations) if self.alignments else []
        return Done(len(shard.lines), output, links, sorted(failures))

    @cached_property
    def _translator(self) -> Translator:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the command that started this worker has shown them
            # The command has read a part of every shard.
            translator = Translator(load(self.model, self.settings), check_text=False)
        folders = [self.model] if isinstance(self.model, Path) else self.model
        if translator_fingerprint(translator, folders) != self.fingerprint:
            raise UserError(
                f"{', '.join(map(str, folders))}: the model was replaced while it translated; repeat the command"
            )
        return translator

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_translator"}


def _contents(search: SearchOptions) -> dict[str, str | None]:
    """Return the fingerprint of the glossary; None without one."""
    glossary = search.glossary
    return {"glossary": None if glossary is None else fingerprint(read_glossary(glossary).targets)}


def translator_fingerprint(translator: Translator, folders: Sequence[Path]) -> str:
    """Return a string that changes whenever a model in ``folders`` changes."""
    fingerprints = list[str]()
    for folder, model in zip(folders, members(translator.loaded_model), strict=True):
        if isinstance(model, OnnxModel):
            fingerprints.append(fingerprint(model.properties.checksums))
            continue
        from nmt.inference.adapter_file import model_fingerprint  # imports torch

        fingerprints.append(model_fingerprint(Path(folder)))
    return " ".join(fingerprints)


SETTINGS = "settings.json"
CONTENTS = ("model", "glossary")  # stored as fingerprints, which say nothing to a reader
BUSY = "another process is writing into it; wait until it ends, or choose another output="


class ShardStore:
    """The finished shards in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records = Records(folder)

    def count(self) -> int:
        """Return the number of files of finished shards."""
        return sum(name.endswith(".shard") for name in os.listdir(self.folder))

    def save(self, shard: Shard, done: Done) -> None:
        """Write the result of a shard. Raises UserError if the file cannot be written, for example on a full disk."""
        self._records.save(_file(shard.number), shard.fingerprint, done)

    def load(self, number: int, fingerprint: str) -> Done | None:
        """Return the result of the shard ``number``; None if its file is missing, damaged or of other lines."""
        stored = self._records.load(_file(number), fingerprint)
        if stored is None:
            return None
        lines, output, links, warnings = stored
        return Done(lines, output, links, [(row, reason) for row, reason in warnings])

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Record the settings of this call. Raises UserError if the folder holds shards of a call with others."""
        file = self.folder / SETTINGS
        if not file.exists():
            write_bytes(file, json.dumps(settings).encode())
            return
        try:
            stored = read_json(file)
        except (OSError, ValueError):
            stored = None
        if not isinstance(stored, dict):
            raise UserError(f"{file}: damaged; delete the folder {self.folder} to start again")
        changed = [name for name in {**stored, **settings} if stored.get(name) != settings.get(name)]
        changed.sort(key=CONTENTS.__contains__)  # another engine= is another model too
        if changed:
            if changed[0] in CONTENTS and None not in (stored.get(changed[0]), settings.get(changed[0])):
                fix = "restore it to continue, or delete the folder"
                raise UserError(f"{self.folder}: holds shards of another call, whose {changed[0]} was different; {fix}")
            old, new = (f"{changed[0]}={json.dumps(values.get(changed[0])):.80}" for values in (stored, settings))
            raise UserError(
                f"{self.folder}: holds shards of another call ({old}, now {new}); "
                "repeat that call to continue, or delete the folder"
            )


@contextmanager
def open_store(folder: Path, settings: Mapping[str, Any]) -> Iterator[ShardStore]:
    """Yield the store in ``folder``, which is created if it does not exist and deleted if the block succeeds.

    If the block fails, the folder stays, unless it holds no finished shard. Raises UserError if another process uses
    the folder, if it cannot be written, or if its shards were written with other ``settings``, which are plain data.
    """
    keep = True
    try:
        with own_folder(folder, busy=BUSY, fix="rename it, or choose another output="):
            if set(os.listdir(folder)) - {LOCK_FILE} and not (folder / SETTINGS).is_file():
                raise UserError(f"{folder}: not a folder of finished shards; rename it, or choose another output=")
            store = ShardStore(folder)
            store.check_settings(settings)
            try:
                yield store
                keep = False
            finally:
                keep = keep and store.count() > 0
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shard_results(
    translator: Translator, job: TranslateShard, groups: Iterable[list[str]], workers: Workers, folder: Path
) -> Iterator[Generator[Done]]:
    """Yield the results of the shards, one for each group of lines, in order, while workers translate later ones.

    ``translator`` has the model of the ``job``. The ``folder`` of finished shards is deleted when the block succeeds.
    Otherwise it stays, and a message says how to continue.
    """
    shards = _shards(groups, translator.source_check, translator.change_text)
    del translator  # its model would stay in memory, and each worker loads its own
    with open_store(folder, job.record()) as store:
        try:
            if count := store.count():
                print_message(f"{folder}: {counted(count, 'finished shard')}; continuing")
            with closing(run_shards(shards, store, workers)) as results:
                yield results
        except (UserError, KeyboardInterrupt) as error:
            if count := store.count():
                kept = f"{counted(count, 'finished shard')} kept in {folder}; run the same command again to continue"
                if isinstance(error, UserError):
                    raise UserError(*error.problems[:-1], f"{error.problems[-1]}; {kept}") from error
                print_message(f"stopped; {kept}")
            raise


def _shards(groups: Iterable[list[str]], check: TextCheck, change: Callable[[str], str]) -> Iterator[Shard]:
    """Yield the shards. ``check`` reads some lines of each, to warn about a text that the model cannot read."""
    first = 0
    for number, lines in enumerate(groups):
        for line in map(change, lines[:CHECKED]):
            check.encode(line)
        yield Shard(number, first, lines)
        first += len(lines)
    check.conclude()


def run_shards(shards: Iterable[Shard], store: ShardStore, workers: Workers) -> Generator[Done]:
    """Yield the results of the shards in order. ``store`` keeps each result as soon as it exists.

    Shards that the store holds already are not translated again; see ``run_tasks`` for those that fail.
    """
    order = deque[tuple[int, str]]()  # number and fingerprint of each shard that was not yielded yet
    finished = set[int]()

    def unfinished() -> Iterator[Shard]:
        for shard in shards:
            order.append((shard.number, shard.fingerprint))
            if store.load(*order[-1]) is None:
                yield shard
            else:
                finished.add(shard.number)

    def ready() -> Iterator[Done]:
        while order and order[0][0] in finished:
            number, fingerprint = order.popleft()
            finished.remove(number)
            done = store.load(number, fingerprint)
            if done is None:
                raise UserError(f"{store.folder}: shard {number} was changed; run the same command again")
            yield done

    with closing(run_tasks(unfinished(), workers)) as results:
        for shard, done in results:
            store.save(shard, done)
            finished.add(shard.number)
            yield from ready()
    yield from ready()


def _file(number: int) -> str:
    return f"{number:08d}.shard"
