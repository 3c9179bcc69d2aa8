"""Tables and Hugging Face datasets give the pairs that were written, or one line that says what is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from nmt.commands.prepare import prepare
from nmt.errors import UserError
from nmt.tasks.sources import load_pairs
from nmt.text.pair import Pair
from nmt.text.prepare import open_prepared

PAIRS = [("the dog sees a cat", "der Hund sieht eine Katze"), ("", "x"), ('a "red" house', "ein\u2028rotes Haus")] * 5
TABLES = "nmt.tasks.tables.Tables"
HUB = "nmt.tasks.hub.Hub"


def write(folder: Path, name: str, *, header: bool = False, nested: bool = False) -> str:
    rows: list[dict[str, Any]] = [{"id": 1, "en": source, "de": target} for source, target in PAIRS]
    if nested:
        rows = [{"translation": {"en": source, "de": target}, "score": 0.5} for source, target in PAIRS]
    if name.endswith(".parquet"):
        pa.parquet.write_table(pa.Table.from_pylist(rows), folder / name)
        return str(folder / name)
    if ".tsv" in name:
        lines = ["id\ten\tde"] if header else []
        lines += [f"1\t{x}\t{y}" if header else f"{x}\t{y}" for x, y in PAIRS]
    else:
        lines = [json.dumps(row) for row in rows]
    data = "".join(f"{line}\n" for line in lines).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(folder / name)


@pytest.mark.parametrize(
    ("name", "header", "nested"),
    [
        *(("a.tsv", False, False), ("a.tsv.gz", False, False), ("a.tsv", True, False)),
        *(("a.jsonl", True, False), ("a.jsonl.gz", True, False), ("a.jsonl", True, True)),
        *(("a.parquet", True, False), ("a.parquet", True, True)),
    ],
)
def test_written_pairs_are_read_in_order_and_again(tmp_path: Path, name: str, header: bool, nested: bool) -> None:
    write(tmp_path, name, header=header, nested=nested)
    columns = ["en", "de"] if header else None
    data = {"_target_": TABLES, "train": name, "valid": name, "columns": columns, "folder": str(tmp_path)}
    parts = load_pairs(data)
    expected = [Pair(*pair) for pair in PAIRS]
    assert not isinstance(parts["train"], list)  # a large table is not in memory
    assert list(parts["train"]) == list(parts["train"]) == parts["valid"] == expected


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.tsv", b"a\tb\nc\n", None, "a.tsv:2: 1 column; at least 2 are needed, separated by tabs"),
        ("a.tsv", b"en\tfr\na\tb\n", ["en", "de"], "a.tsv:1: no column de; choose from en, fr"),
        ("a.tsv", b"a\t\xff\n", None, "a.tsv:1: invalid UTF-8"),
        ("a.tsv", b"", None, "a.tsv: empty file"),
        (
            "a.jsonl",
            b'{"en": "a", "de": "b"}\n{"en": \n',
            ["en", "de"],
            "a.jsonl:2: not a JSON object; write one per line",
        ),
        ("a.jsonl", b"[" * 99_999, ["en", "de"], "a.jsonl:1: not a JSON object"),
        ("a.jsonl", b'{"en": "a"}\n', ["en", "de"], "pair 1 of part train has no column de; choose from en"),
        ("a.jsonl", b'{"en": "a", "de": 3}\n', ["en", "de"], "pair 1 of part train: column de is 3; must be text"),
        ("a.parquet", b"PAR1", ["en", "de"], "a.parquet: not a Parquet file ("),
    ],
)
def test_damaged_tables_are_named_with_their_line(
    tmp_path: Path, name: str, content: bytes, columns: list[str] | None, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        list(load_pairs({"_target_": TABLES, "train": str(tmp_path / name), "columns": columns})["train"])
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data=table"], "data.train: must be given"),
        (["data=table", "data.train=none.tsv"], "data.train=none.tsv: no such file (conf/data/table.yaml)"),
        (
            ["data=table", "data.train=a.txt"],
            "data.train=a.txt: unknown format; use a file that ends in",
        ),
        (["data=table", "data.train=a.jsonl"], "data.columns=null: a.jsonl needs the names of its columns"),
        (["data=table", "data.train=a.tsv", "data.columns=[en]"], "data.columns="),
        (["data=table", "data.train=a.tsv", "data.duplicates=some"], "data.duplicates=some: must be exact | near"),
        (["data=hub", "data.path=x"], "data.columns: must be given"),
    ],
)
def test_wrong_settings_are_named(
    tmp_path: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "a.tsv", "a.jsonl"):
        Path(name).write_text("a\tb\n")
    with pytest.raises(UserError) as caught:
        prepare([*words, "output=out"])
    assert message in str(caught.value).splitlines()[0]
    assert not Path("out").exists()


def test_a_table_is_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path, "a.tsv")
    words = ["data=table", f"data.train={table}", f"data.valid={table}", "data.duplicates=exact"]
    prepare([*words, "tokenizer.vocab_size=290", f"output={tmp_path}/out"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("train: 2 of 15 pairs kept")
    assert lines[1:3] == ["train: 8 dropped: duplicate", "train: 5 dropped: empty source"]
    assert lines[3].startswith("valid: 15 of 15 pairs kept")


def test_local_parquet_files_are_read_by_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra hub")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    folder = tmp_path / "set"
    folder.mkdir()
    for split in ("train", "validation"):
        write(folder, f"{split}-00000-of-00001.parquet", nested=True)
    words = ["data=hub", f"data.path={folder}", "data.columns=[en,de]"]
    prepare([*words, "tokenizer.vocab_size=290", f"output={tmp_path}/out"])
    corpora = open_prepared(tmp_path / "out").corpora
    assert corpora["valid"].sources() == [source for source, _ in PAIRS]
    assert corpora["train"].targets() == [target for source, target in PAIRS if source]
    for setting, message in {
        "data.valid=dev": f"data.valid=dev: {folder} has no such split; choose from train, validation",
        "data.columns=[en,fr]": "data: pair 1 of part valid has no column fr; choose from en, de",
        "data.path=/nowhere": "data.path=/nowhere: cannot be loaded (",
    }.items():
        with pytest.raises(UserError) as caught:
            others = [word for word in words if word.partition("=")[0] != setting.partition("=")[0]]
            prepare([*others, setting, "output=x"])
        assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"^data=hub: the package datasets is not installed; install it with pip"):
        load_pairs({"_target_": HUB, "path": "x", "columns": ["en", "de"]})


def test_the_end_of_a_name_decides_its_format(tmp_path: Path) -> None:
    for name in ("a.tsv.jsonl", "a.tsv.parquet", "a.parquet.jsonl"):
        data = {"_target_": TABLES, "train": name, "valid": name, "columns": ["en", "de"], "folder": str(tmp_path)}
        rows = [{"en": source, "de": target} for source, target in PAIRS]
        if name.endswith("parquet"):
            pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / name)
        else:
            (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        assert list(load_pairs(data)["train"]) == [Pair(*pair) for pair in PAIRS]
