"""BPE-dropout: apply the merges of a SentencePiece BPE model and skip each with a given probability.

Provilkov, Emelianenko & Voita (2020), BPE-Dropout, arXiv 1910.13267. SentencePiece has a sampler too, but with
version 0.2.3 equal seeds give other pieces in each process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from random import Random

from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec  # type: ignore[attr-defined]

from nmt.errors import UserError
from nmt.text.specials import SPACE

WORDS = re.compile(f"{SPACE}?[^{SPACE}]+|{SPACE}")
CACHED_RESULTS = 100_000
CACHED_CHARACTERS = 32  # longer words rarely occur twice


class BpeMerges:
    """The merges of a SentencePiece BPE model. Without dropout they give the pieces that SentencePiece gives."""

    def __init__(self, serialized: bytes) -> None:
        """Read a serialized model that SentencePiece accepts. Raises UserError if it is not a BPE model."""
        self._ids: dict[str, int] = {}
        self._costs: dict[str, float] = {}  # of the merge into each piece, used or unused; the lowest comes first
        self._byte_ids: dict[int, int] = {}
        self._unknown_id = 0
        symbols: list[str] = []
        model = ModelProto.FromString(serialized)
        kinds = TrainerSpec.ModelType
        if model.trainer_spec.model_type != kinds.BPE:
            kind = kinds.Name(model.trainer_spec.model_type).lower()
            raise UserError(f"batches.bpe_dropout: {kind} pieces have no merges; remove batches.bpe_dropout")
        for number, item in enumerate(model.pieces):
            piece = item.piece
            if item.type == item.UNKNOWN:
                self._unknown_id = number
            elif item.type == item.BYTE:
                self._byte_ids[int(piece[3:5], 16)] = number
            elif item.type == item.USER_DEFINED:
                self._ids[piece] = number
                symbols.append(piece)
            elif item.type in (item.NORMAL, item.UNUSED):
                if item.type == item.NORMAL:
                    self._ids[piece] = number
                if len(piece) > 1:
                    self._costs[piece] = -item.score
        longest_first = sorted(symbols, key=len, reverse=True)
        self._symbols = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if symbols else None
        # Words are independent if no piece has a space after its start. SentencePiece splits all occurrences of an
        # unused piece in a text alike, so such a model gets whole texts.
        self._by_word = all(piece in self._ids and SPACE not in piece[1:] for piece in self._costs)
        # Ids and number of candidates of (word, indices of the skipped candidates).
        self._cache: dict[tuple[str, tuple[int, ...]], tuple[list[int], int]] = {}

    def sample(self, text: str, *, dropout: float, seed: int) -> list[int]:
        """Return the model's piece ids of a normalised text; each merge is skipped with probability ``dropout``."""
        random = Random(seed).random
        ids: list[int] = []
        for index, part in enumerate(self._symbols.split(text) if self._symbols else [text]):
            if index % 2:  # a user-defined symbol, which never merges
                ids.append(self._ids[part])
                continue
            for word in WORDS.findall(part) if self._by_word else [part]:
                ids += self._sample_word(word, dropout, random)
        if self._byte_ids or self._unknown_id not in ids:
            return ids
        unknown = self._unknown_id  # a run of unknown characters is one piece
        return [i for i, before in zip(ids, [-1, *ids], strict=False) if i != unknown or before != unknown]

    def _sample_word(self, word: str, dropout: float, random: Callable[[], float]) -> list[int]:
        """Return the ids of a word. Each candidate takes one draw, so that the cache does not change the result."""
        skipped: tuple[int, ...] = ()
        while cached := self._cache.get((word, skipped)):
            ids, candidates = cached
            for candidate in range(skipped[-1] + 1 if skipped else 0, candidates):
                if random() < dropout:
                    skipped += (candidate,)
                    break
            else:
                return ids
        ids, candidates, skipped = self._merge(word, dropout, random, skipped)
        if len(word) <= CACHED_CHARACTERS and len(skipped) <= 1:  # other results rarely occur twice
            if len(self._cache) >= CACHED_RESULTS:
                self._cache.clear()
            self._cache[word, skipped] = ids, candidates
        return ids

    def _merge(
        self, word: str, dropout: float, random: Callable[[], float], drawn: tuple[int, ...]
    ) -> tuple[list[int], int, tuple[int, ...]]:
        """Return the ids of a word, the number of candidates, and the indices of those that were skipped.

        A candidate is a pair of symbols whose turn it is to merge. Those in ``drawn`` are skipped, the others up to the
        last one in ``drawn`` are merged, and each later one takes a draw.
        """
        costs = self._costs
        ids = self._ids
        size = len(word)
        # The symbol at word[i:j] has ends[i] = j and starts[j] = i. The last entry of ``ends`` and the first one of
        # ``starts`` make the pair with a missing neighbour an empty string, which is never a piece.
        ends = [*range(1, size + 1), 0]
        starts = [size, *range(size)]
        queue = [(costs[pair], i, i + 1, i + 2) for i in range(size - 1) if (pair := word[i : i + 2]) in costs]
        heapify(queue)
        cuts: dict[str, int] = {}  # where the halves of an unused piece meet
        candidate = -1
        skipped = list(drawn)
        last_drawn = drawn[-1] if drawn else -1
        while queue:
            _, left, right, stop = heappop(queue)
            if ends[left] != right or ends[right] != stop:
                continue  # one of the two symbols has changed
            candidate += 1
            if candidate <= last_drawn:
                if candidate in drawn:
                    continue
            elif random() < dropout:
                skipped.append(candidate)
                continue
            ends[left], ends[right], starts[stop] = stop, 0, left
            for before, middle, after in ((starts[left], left, stop), (left, stop, ends[stop])):
                piece = word[before:after]
                if piece in costs:
                    heappush(queue, (costs[piece], before, middle, after))
                    if piece not in ids:
                        cuts[piece] = middle - before
        return self._symbol_ids(word, ends, cuts), candidate + 1, tuple(skipped)

    def _symbol_ids(self, word: str, ends: list[int], cuts: dict[str, int]) -> list[int]:
        """Return the ids of the symbols of a word, which start at 0, ends[0], ends[ends[0]], …"""
        ids: list[int] = []
        start = 0
        while start < len(word):
            piece = word[start : ends[start]]
            start = ends[start]
            if piece in self._ids:
                ids.append(self._ids[piece])
            else:
                ids += self._split(piece, cuts)
        return ids

    def _split(self, piece: str, cuts: dict[str, int]) -> list[int]:
        """Return the ids of both halves of an unused piece. An unknown character becomes its bytes or unknown."""
        if piece in self._ids:
            return [self._ids[piece]]
        if piece in self._costs:
            cut = cuts.get(piece, 1)  # ``cuts`` has no pairs of characters
            return self._split(piece[:cut], cuts) + self._split(piece[cut:], cuts)
        return [self._byte_ids[byte] for byte in piece.encode()] if self._byte_ids else [self._unknown_id]
