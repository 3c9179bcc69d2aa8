"""Stored memories: texts are encoded once, and later requests are answered from their memories, without the texts."""

from __future__ import annotations

import secrets
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.errors import UserError
from nmt.inference.translator import Translator
from nmt.server.answers import Details, torch_problem, translation_json
from nmt.server.models import ServedModel, Work
from nmt.server.reading import Refused

if TYPE_CHECKING:
    from nmt.inference.memories import EncodedLine

ENTRY_BYTES = 1000  # of Python objects around the tensors of a text


class StoredMemory(NamedTuple):
    """Encoded texts, and the translator that encoded them, which alone can read them."""

    model: ServedModel
    translator: weakref.ref[Translator]
    texts: Sequence[EncodedLine]
    size: int
    """Bytes in RAM."""
    aligned: bool
    """Whether alignments are possible: then the memories keep traces, which grow with the texts."""

    def translate(self, translator: Translator, work: Work) -> list[dict[str, Any]]:
        """Return the translations of the texts as JSON. Raises Refused if one fails."""
        from nmt.inference.memories import translate_encoded

        self._require_same(translator)
        details = work.details or Details()
        if details.weights or details.slots:
            field = "weights" if details.weights else "slots"
            raise Refused(400, f"{field}: a memory does not keep the words of its text; remove {field}, or send q")
        if details.alignments and not self.aligned:
            raise Refused(400, "alignments: this memory was stored without them; store it with alignments=true")
        failures: list[str] = []
        try:
            translations = translate_encoded(
                translator,
                self.texts,
                work.options,
                alignments=details.alignments,
                on_failure=lambda _, reason: failures.append(reason),
            )
        except UserError as error:
            raise Refused(400, f"memory: {error}") from None
        if failures:
            raise Refused(400, f"memory: {failures[0]}")
        return [translation_json(translator, "", translation, details) for translation in translations]

    def score(self, translator: Translator, targets: Sequence[str]) -> list[float]:
        """Return the log-probability of one given translation for each text."""
        import torch

        from nmt.inference.forced_decoding import read_targets
        from nmt.text.specials import EOS

        self._require_same(translator)
        trained = translator.trained
        scores = list[float]()
        with torch.inference_mode():
            for line, target in zip(self.texts, targets, strict=True):
                source = line.source or trained.engine(trace=False).encode([[EOS]])
                ids = torch.tensor([translator.encode_target(target)], device=trained.model.embedding.weight.device)
                scores += read_targets(trained, source, ids)[0]
        return scores

    def _require_same(self, translator: Translator) -> None:
        if self.translator() is not translator:
            raise unknown_memory()


class Memories:
    """The stored memories of a server by id: those used least recently are dropped for new ones.

    There are at most ``limit``, with ``max_bytes`` in total. Each is dropped ``minutes`` after its last use. Only the
    thread of the event loop may use this object.
    """

    def __init__(self, *, limit: int, max_bytes: int, minutes: float) -> None:
        self.limit = limit
        self.max_bytes = max_bytes
        self.minutes = minutes
        self._stored: dict[str, tuple[StoredMemory, float]] = {}  # with the time of the last use, least recent first

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def size(self) -> int:
        """Bytes in RAM."""
        return sum(memory.size for memory, _ in self._stored.values())

    def add(self, memory: StoredMemory) -> str:
        """Store a memory and return its id, which nobody can guess. Raises Refused if it is too large."""
        require_room(memory.size, self.max_bytes)
        name = secrets.token_urlsafe(16)
        self._stored[name] = memory, time.monotonic()
        self.drop_expired()
        while len(self) > self.limit or self.size > self.max_bytes:
            del self._stored[next(iter(self._stored))]
        return name

    def get(self, name: str) -> StoredMemory:
        """Return a memory, and count it as used now. Raises Refused if it is not stored."""
        self.drop_expired()
        if name not in self._stored:
            raise unknown_memory()
        memory, _ = self._stored.pop(name)
        self._stored[name] = memory, time.monotonic()
        return memory

    def remove(self, name: str) -> None:
        """Drop a memory. Raises Refused if it is not stored."""
        if self._stored.pop(name, None) is None:
            raise unknown_memory()

    def drop_expired(self) -> None:
        oldest = time.monotonic() - 60 * self.minutes
        for name in [name for name, (_, used) in self._stored.items() if used < oldest]:
            del self._stored[name]


def unknown_memory() -> Refused:
    return Refused(
        404, "memory: unknown (it expired, was dropped for others, or the server was restarted); store it again"
    )


def require_room(size: int, max_bytes: int) -> None:
    """Raise Refused if a memory of ``size`` bytes cannot be stored."""
    if size > max_bytes:
        fix = "send less text at once, or ask the operator to raise max_memories_mb"
        raise Refused(413, f"q: its memory has {size:,} bytes, more than this server stores; {fix}")


def encode(
    model: ServedModel, translator: Translator, texts: Sequence[str], *, aligned: bool, max_bytes: int
) -> StoredMemory:
    """Return the memories of these texts. Raises Refused if a text is too long for the model, or all for the server."""
    if problem := torch_problem(translator):
        raise Refused(400, f"memories: {problem}")
    from nmt.inference.memories import encode_line

    encoded = []
    size = 0
    for text in texts:
        try:
            encoded.append(encode_line(translator, text, trace=aligned))
        except UserError as error:
            raise Refused(400, f"q: {text[:40]!r}…: {error}") from None
        size += ENTRY_BYTES + _ram_bytes(encoded[-1])
        require_room(size, max_bytes)  # before the next one takes RAM
    return StoredMemory(model=model, translator=weakref.ref(translator), texts=encoded, size=size, aligned=aligned)


def _ram_bytes(line: EncodedLine) -> int:
    """Return the number of bytes that the tensors of an encoded line, and its lists of numbers, take."""
    fields = [] if line.source is None else [*line.source.memory, *line.source.final]
    storages = {field.data_ptr(): field.untyped_storage().nbytes() for field in fields if field is not None}
    return sum(storages.values()) + 36 * (len(line.ids or ()) + 2 * len(line.words or ()))
