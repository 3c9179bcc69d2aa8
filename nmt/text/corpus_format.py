"""The stored form of a corpus: an Arrow IPC file with these columns and this format version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from nmt.errors import UserError
from nmt.files.checksum import require_format

FORMAT = 2
FORMAT_KEY = b"nmt.corpus"
SHARD_KEY = b"nmt.shard"  # metadata of a file that is one shard of a large corpus
FIX = "prepare the corpus again with nmt-prepare"
IDS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    {
        "source_ids": IDS,
        "target_ids": IDS,
        "source": pa.string(),
        "target": pa.string(),
        "links": IDS,  # sure links as i₀ j₀ i₁ j₁ …, or null if the pair has no gold alignment
        "possible": IDS,  # possible links that are not sure, in the same form
    },
    metadata={FORMAT_KEY: str(FORMAT).encode()},
)


@contextmanager
def corpus_errors(path: Path) -> Iterator[None]:
    """Turn the errors of reading a damaged or missing corpus into a UserError that names it."""
    if not path.is_file():  # a pipe would never end
        raise UserError(f"{path}: no such corpus; {FIX}")
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: not a corpus ({reason}); {FIX}") from None


def open_arrow(path: Path, *, mapped: bool) -> Any:
    """Return the Arrow reader of a corpus file whose columns and format version are right."""
    name = os.fsencode(path)  # as text, pyarrow accepts UTF-8 names only
    reader = pa.ipc.open_file(pa.memory_map(name) if mapped else pa.OSFile(name).read_buffer())
    metadata = reader.schema.metadata or {}
    require_format(metadata.get(FORMAT_KEY), FORMAT, place=path, fix=FIX)
    if not reader.schema.equals(SCHEMA) or metadata.keys() - {FORMAT_KEY, SHARD_KEY}:
        raise ValueError("other columns than nmt-prepare writes")
    return reader
