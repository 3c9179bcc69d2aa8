"""A sharded corpus holds the same pairs as one file, whatever the processes, and is read a few shards at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sharded import SETTINGS, in_shards, random_pairs

from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.files.checksum import checksum
from nmt.text.corpus import SCHEMA, SHARD_KEY, Corpus
from nmt.text.prepare import open_prepared, prepare
from nmt.text.shards import ShardedCorpus, Sharding

PAIRS = [*random_pairs(230), Pair("", "ein"), Pair("man " * 90, "Mann"), *random_pairs(20, seed=6)]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with seven training shards; the pairs that are too long or empty are dropped."""
    folder: Path = tmp_path_factory.mktemp("sharded") / "data"
    in_shards(folder, PAIRS, size=40, max_length=60)
    return folder


def test_shards_hold_the_pairs_of_one_file(folder: Path, tmp_path: Path) -> None:
    plain = prepare({"train": PAIRS}, Filters(max_length=60), SETTINGS, tmp_path / "plain")
    sharded = open_prepared(folder)
    plain_corpus, many = plain.corpora["train"], sharded.corpora["train"]
    assert isinstance(many, ShardedCorpus) and len(many.paths) == 7
    assert type(plain_corpus) is Corpus and len(plain_corpus) == len(many) == 250
    assert sharded.pair_counts["train"] == plain.pair_counts["train"]
    assert sharded.pair_counts["train"].dropped == {"empty source": 1, "longer than 60 pieces": 1}
    many.window = 2
    for row in np.random.default_rng(0).permutation(250).tolist():
        values = ((*corpus.ids(row), corpus.sure_links(row)) for corpus in (plain_corpus, many))
        assert all(np.array_equal(left, right) for left, right in zip(*values, strict=True))
        assert len(many._open) <= 2
    assert (plain_corpus.sources(), plain_corpus.targets()) == (many.sources(), many.targets())
    assert plain_corpus.source_lengths.tolist() == many.source_lengths.tolist()
    assert plain_corpus.target_lengths.tolist() == many.target_lengths.tolist()
    lengths = plain_corpus.source_lengths
    assert many.longest_source() == plain_corpus.longest_source() == (lengths.max(), lengths.argmax())
    assert plain_corpus.has_links is many.has_links is False and many.links() is None


def test_result_does_not_depend_on_the_number_of_processes(folder: Path, tmp_path: Path) -> None:
    in_shards(tmp_path / "two", PAIRS, size=40, workers=2, max_length=60)
    assert files(tmp_path / "two") == files(folder)


def test_opening_reads_headers_and_a_damaged_shard_is_reported_when_it_is_used(folder: Path, tmp_path: Path) -> None:
    in_shards(tmp_path / "data", PAIRS, size=40)
    path = tmp_path / "data" / "train-00003.arrow"
    content = path.read_bytes()
    middle = content.index(b"Mann")
    path.write_bytes(content[:middle] + b"B" + content[middle + 1 :])
    corpus = open_prepared(tmp_path / "data").corpora["train"]
    corpus.ids(0)
    with pytest.raises(UserError, match=rf"^{path}: cannot be read as a corpus \(wrong checksum\); prepare the corpus"):
        corpus.ids(130)


@pytest.mark.parametrize("keep", [0, 100, -100])
def test_a_truncated_shard_is_reported_at_once(tmp_path: Path, keep: int) -> None:
    in_shards(tmp_path / "data", PAIRS, size=40)
    path = tmp_path / "data" / "train-00003.arrow"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=rf"^{path}: not a corpus \(.*\); prepare the corpus again with nmt-prepare$"):
        open_prepared(tmp_path / "data")
    path.unlink()
    with pytest.raises(UserError, match=r"train-00003\.arrow: no such corpus; prepare"):
        open_prepared(tmp_path / "data")


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b"3", b"{}", b"[]", b"[" * 9999, b'[1,[[3],[1]],[2,0],"', b"\xff"),
        *(b"[2,[[3],[1]],[2,0],true]", b"[1,[[3],[1]],[2,1],true]", b"[1,[[-3],[1]],[2,0],true]"),
        *(b"[2,[[3,3],[1,1]],[2,0],true]", b"[2,[[3],[1,1]],[2,0],true]", b"[0,[[],[]],[2,0],true]"),
        b"[1.0,[[3],[1]],[2,0],true]",
    ],
)
def test_a_forged_header_is_refused(tmp_path: Path, header: bytes) -> None:
    schema = SCHEMA.with_metadata({**SCHEMA.metadata, SHARD_KEY: header})
    with pa.OSFile(str(tmp_path / "c.arrow"), "wb") as stream, pa.ipc.new_file(stream, schema):
        pass
    with pytest.raises(UserError, match=r"not a corpus \(a damaged shard header\)"):
        ShardedCorpus([tmp_path / "c.arrow"], {})


def test_a_header_of_other_rows_is_refused(folder: Path, tmp_path: Path) -> None:
    """Its checksum is right, as a forger would write it."""
    table = pa.ipc.open_file(str(folder / "train-00001.arrow")).read_all()
    other = pa.ipc.open_file(str(folder / "train-00002.arrow")).schema
    path = tmp_path / "c.arrow"
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, other) as writer:
        writer.write_table(table.replace_schema_metadata(other.metadata))
    corpus = ShardedCorpus([path], {path.name: checksum(path)})
    with pytest.raises(UserError, match=r"c\.arrow: not a corpus \(its header is that of other text\)"):
        corpus.ids(0)


def test_shards_without_a_kept_pair_are_left_out(tmp_path: Path) -> None:
    pairs = [*random_pairs(20), *[Pair("", "x")] * 10, *random_pairs(5)]
    prepared = in_shards(tmp_path / "data", pairs, size=10)
    assert sorted(path.name for path in (tmp_path / "data").glob("train*")) == [
        f"train-0000{number}.arrow" for number in (0, 1, 3)
    ]
    assert len(prepared.corpora["train"]) == len(open_prepared(tmp_path / "data").corpora["train"]) == 25
    with pytest.raises(UserError, match=r"data.train: 0 of 30 pairs kept \(30 empty source\); relax the filters"):
        given = replace(SETTINGS, source_model=str(tmp_path / "data" / "source.model"))
        prepare({"train": [Pair("", "x")] * 30}, Filters(), given, tmp_path / "data", sharding=Sharding(10))
