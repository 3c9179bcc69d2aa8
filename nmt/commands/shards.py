"""Translate with several workers: ``nmt-translate workers=N``, with or without ``cluster=ray``."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.commands import streams
from nmt.commands.translate_options import Translate
from nmt.errors import UserError, counted, print_message
from nmt.inference.engines import EngineName
from nmt.inference.onnx.model import OnnxModel
from nmt.inference.shards.shard import Done, Shard, TranslateShard, translator_fingerprint
from nmt.inference.shards.store import ShardStore, open_store, run_shards
from nmt.system.machine import usable_cores
from nmt.system.processes import ProcessWorkers, Workers
from nmt.version import __version__

if TYPE_CHECKING:
    from nmt.inference.translator import Translator

CHECKED = 32  # lines of each shard


@contextmanager
def shard_results(translator: Translator, options: Translate) -> Iterator[Generator[Done]]:
    """Yield the results of the shards of the input, in order, while workers translate later ones.

    ``translator`` is the loaded model, which says what the workers load. The folder of finished shards is deleted when
    the block succeeds. Otherwise it stays, and a message says how to continue.
    """
    assert options.output is not None and options.workers is not None
    job = _job(translator, options)
    folder = Path(f"{options.output}.shards")
    with open_store(folder, _settings(job)) as store, _kept_shards(store):
        if count := store.count():
            print_message(f"{folder}: {counted(count, 'finished shard')}; continuing")
        with closing(run_shards(_shards(options.input, translator), store, _workers(job, options))) as results:
            yield results


def worker_threads(options: Translate) -> int:
    """Return the threads of each worker. The default shares the cores of this machine; on a cluster it is 1."""
    if options.threads is not None:
        return options.threads
    return max(1, usable_cores() // (options.workers or 1)) if options.cluster is None else 1


def _job(translator: Translator, options: Translate) -> TranslateShard:
    runtime = translator.runtime
    engine: EngineName = runtime.engine_name if isinstance(runtime, OnnxModel) else "torch"
    settings = replace(
        options.load_settings(engine=engine, shortlist=options.shortlist, slots=options.slots),
        threads=worker_threads(options),
        adapter=None if options.adapter is None else Path(options.adapter).absolute(),
    )
    model = Path(options.model).absolute()
    return TranslateShard(
        model=model,
        settings=settings,
        search=options.search,
        scores=options.scores,
        alignments=options.alignments is not None,
        fingerprint=translator_fingerprint(translator, model, settings.adapter),
    )


def _settings(job: TranslateShard) -> dict[str, Any]:
    """Return what the translation of a line depends on, as plain data."""
    settings = job.settings
    return {
        "version": __version__,
        "model": job.fingerprint,
        **{name: getattr(settings, name) for name in ("engine", "shortlist", "slots")},
        # A shortlist depends on the batch, and this on the number of threads.
        "threads": settings.threads if settings.shortlist else None,
        "scores": job.scores,
        "alignments": job.alignments,
        **{f"search.{name}": value for name, value in asdict(job.search).items()},
        "lines per shard": streams.GROUP,
    }


def _shards(path: str | None, translator: Translator) -> Iterator[Shard]:
    """Return an iterator of the lines of the input in shards of the groups that a single process translates together.

    The tokenizer reads some lines of each, to warn about a text that the model cannot read.
    """
    # Not the translator itself, whose model would stay in memory.
    check, change, tokenizer = translator.source_check, translator.change_text, translator.runtime.source
    return _checked_shards(path, lambda line: check.read(change(line), tokenizer.encode(change(line))), check.conclude)


def _checked_shards(path: str | None, read: Callable[[str], None], conclude: Callable[[], None]) -> Iterator[Shard]:
    first = 0
    for number, lines in enumerate(streams.full_groups(path)):
        for line in lines[:CHECKED]:
            read(line)
        yield Shard(number, first, lines)
        first += len(lines)
    conclude()


def _workers(job: TranslateShard, options: Translate) -> Workers:
    assert options.workers is not None
    if options.cluster is None:
        return ProcessWorkers(job, options.workers)
    from nmt.inference.shards.ray_actors import RayWorkers

    return RayWorkers(job, options.workers, threads=worker_threads(options), address=options.address)


@contextmanager
def _kept_shards(store: ShardStore) -> Iterator[None]:
    """Say how to continue if the block fails after shards were finished."""
    try:
        yield
    except (UserError, KeyboardInterrupt) as error:
        if count := store.count():
            kept = f"{counted(count, 'finished shard')} kept in {store.folder}; run the same command again to continue"
            if isinstance(error, UserError):
                raise UserError(*error.problems[:-1], f"{error.problems[-1]}; {kept}") from error
            print_message(f"stopped; {kept}")
        raise
