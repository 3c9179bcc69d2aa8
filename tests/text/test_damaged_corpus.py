"""Damaged and forged prepared text is refused in one line. tests/attacks damages it in random ways."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from builders import refusal
from commands.processes import run_python
from sharded import SETTINGS

from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.settings.build import plain
from nmt.text.corpus import SCHEMA, Corpus
from nmt.text.pair_counts import PairCounts
from nmt.text.prepare import open_prepared, prepare
from nmt.text.prepared_settings import SETTINGS_FILE, settings_checksum

pytestmark = pytest.mark.attack("forged corpora")
TOKENIZER = replace(SETTINGS, joint=False, vocab_size=290)
PAIRS = [
    Pair("the dog sees a cat", "der Hund sieht eine Katze", ((0, 0), (1, 1)), ((3, 3),)),
    Pair("a red house", "ein rotes Haus", ((0, 0),)),
    Pair("ä€😀 \0", "zwei", ()),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a prepared folder with three parts and two vocabularies."""
    parts = {"train": PAIRS * 20, "valid": PAIRS, "test": PAIRS[:2]}
    prepare(parts, Filters(), TOKENIZER, tmp_path / "prepared")
    return tmp_path / "prepared"


@pytest.mark.parametrize("name", ["train.arrow", "valid.arrow", "test.arrow", "source.model", "target.model"])
def test_every_file_is_checked(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    middle = len(content) // 2
    changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    kind = "a corpus" if name.endswith(".arrow") else "a tokenizer"
    for damaged in (changed, content[:-1], content + b"\0", b""):
        (folder / name).write_bytes(damaged)
        message = f"{folder / name}: cannot be read as {kind} (wrong checksum); prepare the text again with nmt-prepare"
        assert refusal(open_prepared, folder) == message


@pytest.mark.parametrize(
    "change",
    [
        {"lowercase": 1},
        {"remove_invisible": "some"},
        {"tokenizer": {"kind": "bpe"}},
        {"tokenizer": {**plain(TOKENIZER), "source_model": "${oc.env:HOME}"}},
        {"checksums": {"train.arrow": "1"}},
        {"checksums": []},
        {"accounts": {"train": {**plain(PairCounts()), "kept": 1.5}}},
        {"accounts": {"train": {**plain(PairCounts()), "dropped": {"empty source": "1"}}}},
        {"accounts": {"train": {**plain(PairCounts()), "source": {"examples": [1]}}}},
        {"more": 1},
    ],
    ids=str,
)
def test_settings_of_other_types_are_refused(folder: Path, change: dict[str, Any]) -> None:
    file = folder / SETTINGS_FILE
    stored = json.loads(file.read_text()) | change
    del stored["checksum"]
    file.write_text(json.dumps({**stored, "checksum": settings_checksum(stored)}))
    message = f"data.folder={folder}: its settings.json is damaged; prepare the text again with nmt-prepare"
    assert refusal(open_prepared, folder) == message


def test_a_pipe_is_refused_at_once(folder: Path) -> None:
    (folder / "train.arrow").unlink()
    os.mkfifo(folder / "train.arrow")
    with pytest.raises(UserError, match=r"train\.arrow"):
        open_prepared(folder)
    with pytest.raises(UserError, match=r"train\.arrow: no such corpus"):
        Corpus.open(folder / "train.arrow")


ROW = {"source_ids": [4, 5], "target_ids": [6], "source": "a", "target": "b", "links": [0, 0], "possible": []}


def write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, *, batches: int = 1) -> Path:
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, schema) as writer:
        for _ in range(batches):
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
    return path


def test_the_smallest_corpus_is_accepted(tmp_path: Path) -> None:
    corpus = Corpus.open(write(tmp_path / "c.arrow", [ROW, {**ROW, "links": None}], batches=2), vocabularies=(6, 7))
    assert (len(corpus), corpus.sources(), corpus.links()) == (4, ["a"] * 4, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_ids": [6]}, "source_ids: ids outside the vocabulary of the tokenizer"),
        *[({"target_ids": [piece]}, "target_ids: ids outside the vocabulary of the tokenizer") for piece in (0, 2, 3)],
        ({"source_ids": [4, None]}, "source_ids: 1 missing value"),
        ({"target": None}, "target: 1 missing value"),
        ({"links": [1]}, "links: not pairs of word numbers"),
        ({"possible": [0, 1, 2]}, "possible: not pairs of word numbers"),
    ],
    ids=str,
)
def test_rows_that_no_text_gives_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "c.arrow", [ROW, {**ROW, **change}, ROW])
    expected = f"{path}: not a corpus ({message}); prepare the corpus again with nmt-prepare"
    assert refusal(Corpus.open, path, vocabularies=(6, 7)) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda schema: schema.append(pa.field("more", pa.int32())),
        lambda schema: schema.set(0, pa.field("source_ids", pa.list_(pa.int64()))),
        lambda schema: schema.set(2, pa.field("source", pa.dictionary(pa.int32(), pa.string()))),
        lambda schema: schema.with_metadata({**schema.metadata, b"more": b"1"}),
    ],
)
def test_another_schema_is_refused(tmp_path: Path, change: Callable[[pa.Schema], pa.Schema]) -> None:
    with pytest.raises(UserError, match="not a corpus \\(other columns than nmt-prepare writes\\)"):
        Corpus.open(write(tmp_path / "c.arrow", [ROW], change(SCHEMA)))


@pytest.mark.parametrize(("rows", "batches"), [([], 0), ([], 1)])
def test_a_corpus_without_pairs_is_refused(tmp_path: Path, rows: list[dict[str, Any]], batches: int) -> None:
    with pytest.raises(UserError, match="not a corpus \\(it holds no pairs\\)"):
        Corpus.open(write(tmp_path / "c.arrow", rows, batches=batches))


SHORTEN = """
import sys
from pathlib import Path
import nmt.text.corpus
from nmt.text.corpus import Corpus
if sys.argv[2] == "mapped":
    nmt.text.corpus.MAPPED_BYTES = 0
corpus = Corpus.open(sys.argv[1])
texts = corpus.sources()
total = sum(int(side.sum()) for row in range(len(corpus)) for side in corpus.ids(row))
with open(sys.argv[1], "r+b") as file:
    file.truncate(100)
assert corpus.sources() == texts
assert sum(int(side.sum()) for row in range(len(corpus)) for side in corpus.ids(row)) == total
"""


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["read", "mapped"])
def test_corpus_in_use_can_be_shortened(tmp_path: Path, way: str) -> None:
    """Unless it is so large that it is memory-mapped: then the system ends the process."""
    pairs = [Pair("the dog sees a cat " * 10, "der Hund sieht eine Katze " * 10, (), ())] * 2000
    prepare({"train": pairs}, Filters(), TOKENIZER, tmp_path / "prepared")
    file = tmp_path / "prepared" / "train.arrow"
    assert file.stat().st_size > 500_000
    run = run_python(SHORTEN, str(file), way)
    assert run.returncode == (0 if way == "read" else -signal.SIGBUS), run.stderr
