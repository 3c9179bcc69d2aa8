"""Give shards to workers, repeat those that fail, and yield the results in the order of the input."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import Protocol

from nmt.errors import UserError, print_message
from nmt.inference.shards.shard import Done, Failed, Shard
from nmt.inference.shards.store import ShardStore

ATTEMPTS = 3


class Workers(Protocol):
    """Workers that each translate one shard at a time: processes, or actors on other machines."""

    count: int

    def start(self, shard: Shard) -> None:
        """Give the shard to a worker that has none. At most ``count`` shards run at the same time."""
        ...

    def wait(self) -> list[tuple[int, Done | Failed]]:
        """Wait until shards have ended, and return their numbers and results. A worker that died is replaced."""
        ...

    def dismiss(self) -> None:
        """End the workers that have no shard."""
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...


def run_shards(shards: Iterable[Shard], store: ShardStore, workers: Workers) -> Generator[Done]:
    """Yield the results of the shards in order. ``store`` keeps each result as soon as it exists.

    Shards that the store holds already are not translated again. A shard that fails is given to another worker, up to
    ``ATTEMPTS`` times in total; then UserError is raised. The worker that replaces a dead one gets a new shard if there
    is one: a worker that dies while it loads the model, which takes longer than a shard, must not use up the attempts
    of one shard. An error of ``shards`` is raised at once.
    """
    return _Schedule(store, workers).results(shards)


class _Schedule:
    def __init__(self, store: ShardStore, workers: Workers) -> None:
        self.store, self.workers = store, workers
        self.order: deque[tuple[int, str]] = deque()  # number and fingerprint of each shard that was not yielded yet
        self.finished: set[int] = set()
        self.running: dict[int, Shard] = {}
        self.again: deque[Shard] = deque()
        self.failures: Counter[int] = Counter()
        self.replacements = 0  # workers to start in place of those that failed

    def results(self, shards: Iterable[Shard]) -> Generator[Done]:
        unfinished = self._unfinished(shards)
        with closing(self.workers):
            while True:
                while len(self.running) < self.workers.count:
                    shard = self._next(unfinished)
                    if shard is None:
                        self.workers.dismiss()
                        break
                    self.running[shard.number] = shard
                    self.workers.start(shard)
                yield from self._ready()
                if not self.running:
                    return
                for number, result in self.workers.wait():
                    self._end(self.running.pop(number), result)

    def _next(self, unfinished: Iterator[Shard]) -> Shard | None:
        """Return the shard for the next free worker. None: all shards were started."""
        if self.again and not self.replacements:
            return self.again.popleft()
        self.replacements = max(0, self.replacements - 1)
        shard = next(unfinished, None)
        return self.again.popleft() if shard is None and self.again else shard

    def _unfinished(self, shards: Iterable[Shard]) -> Iterator[Shard]:
        for shard in shards:
            self.order.append((shard.number, shard.fingerprint))
            if self.store.load(*self.order[-1]) is None:
                yield shard
            else:
                self.finished.add(shard.number)

    def _ready(self) -> Iterator[Done]:
        """Yield the results that follow those that were yielded before, until one is missing."""
        while self.order and self.order[0][0] in self.finished:
            number, fingerprint = self.order.popleft()
            self.finished.remove(number)
            done = self.store.load(number, fingerprint)
            if done is None:
                raise UserError(f"{self.store.folder}: shard {number} was changed; run the same command again")
            yield done

    def _end(self, shard: Shard, result: Done | Failed) -> None:
        if isinstance(result, Done):
            self.store.save(shard, result)
            self.finished.add(shard.number)
            return
        self.failures[shard.number] += 1
        if result.final:
            raise UserError(result.reason)
        if self.failures[shard.number] == ATTEMPTS:
            raise UserError(f"{shard.place}: failed {ATTEMPTS} times ({result.reason}); give fewer workers=")
        print_message(f"warning: {shard.place}: {result.reason}; they are translated again")
        self.again.append(shard)
        self.replacements += 1
