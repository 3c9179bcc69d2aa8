"""Tables in every format give the same pairs, and a bad one is refused with its name."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import expect_error
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.prepare import prepare
from nmt.data.sources import DataSettings, load_pairs
from nmt.data.tables import TableFile, Tables
from nmt.settings.build import build

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress
}  # fmt: skip
CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('",;|" \t\n'), max_size=9)
PAIRS = [("a man", "ein Mann"), ('"a", b', "x;y"), ("", "leer"), ("two\u2028lines", 'say "hi"')]


def rows(path: Path, columns: tuple[str, str] | None = ("en", "de")) -> list[Any]:
    return [tuple(row) for row in TableFile(path, "train", columns)]


def csv_bytes(table: list[Any]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(table)
    return stream.getvalue().encode()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_text_formats(tmp_path: Path, compression: str) -> None:
    table = [("id", "en", "de", "id"), *((str(row), *pair, "x") for row, pair in enumerate(PAIRS))]
    contents = {
        "t.csv": csv_bytes(table),
        "t.tsv": "".join("\t".join(row) + "\n" for row in table).encode(),
        "t.jsonl": "".join(
            f'{{"id": 1, "en": {json.dumps(en)}, "de": {json.dumps(de)}, "id": 2}}\n' for en, de in PAIRS
        ).encode(),
        "n.jsonl": "".join(json.dumps({"translation": {"en": en, "de": de}}) + "\n" for en, de in PAIRS).encode(),
    }
    for name, content in contents.items():
        (tmp_path / (name + compression)).write_bytes(COMPRESSIONS[compression](content))
        assert rows(tmp_path / (name + compression)) == PAIRS
    plain = tmp_path / f"plain.TSV{compression}"
    plain.write_bytes(COMPRESSIONS[compression]("".join(f"{en}\t{de}\n" for en, de in PAIRS).encode()))
    assert rows(plain, None) == PAIRS


@given(table=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_any_text_survives_csv(tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_bytes(csv_bytes([("en", "de"), *table]))
    assert rows(path) == table


def test_parquet_reads_two_columns_also_nested_ones(tmp_path: Path) -> None:
    en, de = (list(side) for side in zip(*PAIRS, strict=True))
    pq.write_table(pa.table({"en": en, "x": [[1]] * 4, "de": de, "translation": de}), tmp_path / "t.parquet")
    nested = [{"en": a, "de": b, "fr": "z"} for a, b in PAIRS]
    pq.write_table(pa.table({"translation": nested, "x": [1] * 4}), tmp_path / "n.parquet")
    assert rows(tmp_path / "t.parquet") == rows(tmp_path / "n.parquet") == PAIRS


def test_missing_texts_are_dropped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"en": "a man", "de": "ein Mann"}] * 8 + [{"en": None, "de": "x"}, {"de": "x"}, {"en": "", "de": "x"}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["data=table", f"data.train={tmp_path}/t.jsonl", "data.columns=[en,de]", "tokenizer.vocab_size=270"]
    prepare([*words, f"output={tmp_path}/out"])
    printed = capsys.readouterr().out
    assert {"train: 2 dropped: a text is missing", "train: 1 dropped: empty source"} <= {*printed.splitlines()}


def parquet_bytes(*columns: str) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * len(columns), names=columns), stream)
    return stream.getvalue()


BAD: list[tuple[str, bytes, tuple[str, str] | None]] = [
    ("empty.tsv", b"", None),
    ("one.tsv", b"a\nb\n", None),
    ("ragged.tsv", b"a\tb\nc\td\te\n", None),
    ("latin.tsv", "a\tß\n".encode("latin-1"), None),
    ("ragged.csv", b"en,de\na,b,c\n", ("en", "de")),
    ("open.csv", b'en,de\n"a,b\n', ("en", "de")),
    ("list.jsonl", b"[1]\n", ("en", "de")),
    ("cut.jsonl", b'{"en": "a"\n', ("en", "de")),
    ("number.jsonl", b'{"en": "a", "de": 3}\n', ("en", "de")),
    ("names.jsonl", b'{"x": "a", "y": "b"}\n', ("en", "de")),
    ("twice.csv", b"en,de,en\na,b,c\n", ("en", "de")),
    ("twice.tsv", b"de\ten\tde\na\tb\tc\n", ("en", "de")),
    ("twice.jsonl", b'{"en": "a", "de": "b", "en": "c"}\n', ("en", "de")),
    ("nested.jsonl", b'{"translation": {"en": "a", "de": "b", "en": "c"}}\n', ("en", "de")),
    ("twice.parquet", parquet_bytes("en", "de", "en"), ("en", "de")),
    ("not.parquet", b"PAR1 but not really", ("en", "de")),
    ("cut.tsv.gz", gzip.compress(b"a\tb\n" * 999)[:-9], None),
]


@pytest.mark.parametrize(("name", "content", "columns"), BAD, ids=[name for name, *_ in BAD])
def test_bad_tables_are_refused(tmp_path: Path, name: str, content: bytes, columns: tuple[str, str] | None) -> None:
    (tmp_path / name).write_bytes(content)
    data = {"_target_": "nmt.data.tables.Tables", "folder": str(tmp_path), "train": name, "columns": columns}
    settings = build(DataSettings, data)
    expect_error(rf"{name}|part train", lambda: list(load_pairs(settings)["train"]))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"train": "none.tsv"}, "data.train=none.tsv: no such file"),
        ({"train": "."}, "data.train=.: a folder"),
        ({"train": "t.txt"}, "data.train=t.txt: unknown format"),
        ({"train": "t.csv"}, "data.columns=null: "),
        ({"train": "t.csv", "columns": ("en", "en")}, "data.columns="),
    ],
)
def test_wrong_settings_are_named(
    tmp_path: Path, settings: dict[str, Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("t.txt", "t.csv"):
        Path(name).write_text("a\n")
    with pytest.raises(ValueError, match=f"^{key}"):
        Tables(**settings)
