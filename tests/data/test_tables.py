"""Tables and Hugging Face datasets give the pairs that were written, or one line that says what is wrong."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from builders import refusal
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.prepare import prepare
from nmt.data.from_python import rows_as_pairs
from nmt.data.pair import MissingPair, Pair
from nmt.data.sources import DataSettings, load_pairs, pairs_from_python
from nmt.data.tables import TableFile
from nmt.errors import UserError
from nmt.settings.build import build
from nmt.text.corpus import Corpus
from nmt.text.prepare import open_prepared

PAIRS = [("the dog sees a cat", "der Hund sieht eine Katze"), ("", "x"), ('a "red" house', "ein\u2028rotes Haus")] * 5


def load_tables(folder: Path, **settings: Any) -> dict[str, Any]:
    return load_pairs(build(DataSettings, {"_target_": "nmt.data.tables.Tables", "folder": str(folder), **settings}))


def load_python(pairs: Sequence[Any], columns: list[str] | None = None) -> list[Any]:
    data = build(DataSettings, {"_target_": "nmt.data.from_python.from_python", "columns": columns})
    return list(pairs_from_python({"train": pairs}, data)["train"])


def write(folder: Path, name: str, *, header: bool = False, nested: bool = False) -> str:
    rows: list[dict[str, Any]] = [{"id": 1, "en": source, "de": target} for source, target in PAIRS]
    if nested:
        rows = [{"translation": {"en": source, "de": target}, "score": 0.5} for source, target in PAIRS]
    if name.lower().endswith(".parquet"):
        pa.parquet.write_table(pa.Table.from_pylist(rows), folder / name)
        return str(folder / name)
    if name.lower().endswith((".tsv", ".tsv.gz")):
        lines = ["id\ten\tde"] if header else []
        lines += [f"1\t{x}\t{y}" if header else f"{x}\t{y}" for x, y in PAIRS]
    else:
        lines = [json.dumps(row) for row in rows]
    data = "".join(f"{line}\n" for line in lines).encode()
    (folder / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return str(folder / name)


@pytest.mark.parametrize(
    ("name", "header", "nested"),
    [
        *(("a.tsv", False, False), ("a.tsv.gz", False, False), ("a.tsv", True, False)),
        *(("a.jsonl", True, False), ("a.jsonl.gz", True, False), ("a.jsonl", True, True)),
        *(("a.parquet", True, False), ("a.parquet", True, True)),
        *(("a.TSV.gz", False, False), ("a.Jsonl", True, True), ("a.PARQUET", True, False)),
        *(("a.tsv.jsonl", True, False), ("a.tsv.parquet", True, False), ("a.parquet.jsonl", True, False)),
    ],
)
def test_written_pairs_are_read_in_order_and_again(tmp_path: Path, name: str, header: bool, nested: bool) -> None:
    write(tmp_path, name, header=header, nested=nested)
    columns = ["en", "de"] if header else None
    parts = load_tables(tmp_path, train=name, valid=name, columns=columns)
    expected = [Pair(*pair) for pair in PAIRS]
    assert not isinstance(parts["train"], list)  # a large table is not in memory
    assert list(parts["train"]) == list(parts["train"]) == parts["valid"] == expected


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.tsv", b"a\nc\n", None, "a.tsv:1: 1 column; at least 2 are needed, separated by tabs"),
        ("a.tsv", b"a\tb\nc\n", None, "a.tsv:2: 1 column, but the first row has 2; add the missing text and its tab"),
        ("a.tsv", b"en\tfr\na\tb\n", ["en", "de"], "a.tsv: no column de; choose from en, fr"),
        ("a.tsv", b"EN\tDe\na\tb\n", ["en", "de"], "a.tsv: no column en; did you mean EN?; choose from EN, De"),
        ("a.tsv", b"en\ten\tde\na\tb\tc\n", ["en", "de"], "a.tsv:1: 2 columns are called en; rename the others"),
        (
            "a.tsv",
            b"a\tb\nc\td\te\n",
            None,
            "a.tsv:2: 3 columns, but the first row has 2; remove the tab inside a text",
        ),
        ("a.tsv", b"a\tb\n\n", None, "a.tsv:2: 1 column, but the first row has 2; remove the empty line"),
        ("a.tsv", b"en\tde\na\tb\tc\n", ["en", "de"], "a.tsv:2: 3 columns, but the header has 2; remove the tab"),
        ("a.tsv", b'a\tb\n"a\tb"\tc\n', None, "a.tsv:2: 3 columns, but the first row has 2; if the text is quoted"),
        ("a.tsv", b'"a"\t"b"\n' * 20, None, "a.tsv:20: quoted as in CSV"),
        ("a.csv", b"en,de\na,b,c\n", ["en", "de"], "a.csv:2: 3 columns, but the header has 2; put quotes around"),
        ("a.csv", b'en,de\na,"b\nc\n', ["en", "de"], "a.csv:2: not CSV ("),
        ("a.csv", b'en,de\r"a\nb",c\r', ["en", "de"], "a.csv: its lines end in CR; convert it: tr "),
        ("a.csv", b"sep=,\nen,de\na,b\n", ["en", "de"], "a.csv:1: sep=,: a line for Excel before the header; remove"),
        ("a.tsv", b"", None, "a.tsv: empty file"),
        (
            "a.jsonl",
            b'{"en": "a", "de": "b"}\n{"en": \n',
            ["en", "de"],
            "a.jsonl:2: not a JSON object; write one per line",
        ),
        ("a.jsonl", b'{"en": "a", "en": "b", "de": "c"}\n', ["en", "de"], "a.jsonl:1: key en occurs more than once"),
        ("a.jsonl", b'{"en": "a"}\n', ["en", "de"], "part train has no text in column de; choose from en"),
        ("a.jsonl", b'{"en": "a", "de": 3}\n', ["en", "de"], "pair 1 of part train: column de is 3; must be text"),
        ("a.parquet", b"PAR1", ["en", "de"], "a.parquet: not a Parquet file ("),
    ],
)
def test_damaged_tables_are_named_with_their_line(
    tmp_path: Path, name: str, content: bytes, columns: list[str] | None, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in refusal(lambda: list(load_tables(tmp_path, train=name, columns=columns)["train"]))


CELL = st.text(st.characters(codec="utf-8", exclude_characters='\t\n\r"\x00\ufeff'), min_size=1)


@given(rows=st.lists(st.lists(CELL, min_size=1, max_size=4), min_size=1, max_size=8), has_header=st.booleans())
def test_random_ragged_rows_are_read_as_written_or_named(rows: list[list[str]], has_header: bool) -> None:
    if has_header:
        rows = [["en", "de", *("x" for _ in rows[0][2:])], *rows]
    columns = ["en", "de"] if has_header else None
    with TemporaryDirectory() as folder:
        file = Path(folder, "a.tsv")
        file.write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())
        wrong = [number for number, row in enumerate(rows, start=1) if len(row) != len(rows[0]) or len(row) < 2]
        read = TableFile(file, "train", columns)
        if wrong:
            with pytest.raises(UserError, match=rf"a\.tsv:{wrong[0]}: \d columns?[,;]"):
                list(read)
        else:
            assert list(read) == [(row[0], row[1]) for row in rows[has_header:]]


@given(
    rows=st.lists(st.tuples(st.text(), st.text()), max_size=5),
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_csv_as_the_csv_module_writes_it_is_read_back(
    rows: list[tuple[str, str]], delimiter: str, quoting: int, end: str
) -> None:
    with TemporaryDirectory() as folder:
        rows = [tuple(re.sub("[\r\ud800-\udfff]", "", text) for text in row) for row in rows]  # type: ignore[misc]
        file = Path(folder, "a.csv")
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
            writer.writerows([("id", "de", "en"), *(("1", target, source) for source, target in rows)])
        assert list(TableFile(file, "train", ["en", "de"])) == rows


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", b"\xef\xbb\xbfen\tde\t\r\na\tb\t\r\nc\td\t", ["en", "de"]),
        ("a.tsv", b"id\tde\ten \n1\tb\ta\n2\td\tc", ["en", "de"]),
        ("a.tsv", b"a\tb\t\nc\td\t\n", None),
        ("a.csv", b'\xef\xbb\xbf"en";"de"\r\n"a";b\r\nc;"d"\r\n', ["en", "de"]),
        ("a.csv", b'"en", "de"\n"a", "b"\nc, d\n', ["en", "de"]),
        ("a.CSV.gz", gzip.compress(b"n,en,de\n1,a,b\n2,c,d\n", mtime=0), ["en", "de"]),
        ("a.tsv.xz", lzma.compress(b"a\tb\nc\td\n"), None),
    ],
)
def test_usual_tables_are_read(tmp_path: Path, name: str, content: bytes, columns: list[str] | None) -> None:
    (tmp_path / name).write_bytes(content)
    assert list(TableFile(tmp_path / name, "train", columns)) == [("a", "b"), ("c", "d")]


def test_raw_quotes_in_tab_separated_text_stay(tmp_path: Path) -> None:
    rows = [('"Hello", he said.', '"Hallo", sagte er.'), ('"Hi."', '"Na."'), ('the ""best""', 'das "beste'), ("x", '"')]
    (tmp_path / "a.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in rows * 9))
    assert list(TableFile(tmp_path / "a.tsv", "train", None)) == rows * 9


@pytest.mark.parametrize("names", ["en,de", "source,target", "text_en,text_de", "en-US,de-DE", "Sentence 1,Sentence 2"])
def test_a_header_that_nobody_named_is_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: str
) -> None:
    (tmp_path / "a.tsv").write_text("id\t" + names.replace(",", "\t") + "\n1\ta\tb\n")
    load_tables(tmp_path, train="a.tsv")
    assert f"a.tsv:1: read as a pair, but looks like a header; set data.columns=[{names}]" in capsys.readouterr().err
    (tmp_path / "a.tsv").write_text("1\t2.\n\t!\n")
    load_tables(tmp_path, train="a.tsv")
    assert not capsys.readouterr().err
    (tmp_path / "a.tsv").write_text("it is in German\tes ist auf Deutsch\nno\tnein\n")
    load_tables(tmp_path, train="a.tsv")
    assert not capsys.readouterr().err


MISSING = [("a", None), ("b", "B"), (float("nan"), "C"), ("d", "D"), (None, None), ("", "E"), ("f", np.float32("nan"))]


@pytest.mark.parametrize("source", ["jsonl", "keys", "nested", "parquet", "struct", "python", "tuples"])
def test_pairs_without_text_are_dropped_and_counted(
    tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"en": x if isinstance(x, str) else None, "de": y if isinstance(y, str) else None} for x, y in MISSING]
    nested: list[Any] = [{"translation": row if row["en"] or row["de"] else None} for row in rows]
    if source in ("python", "tuples"):
        given: Any = MISSING if source == "tuples" else [{"en": x, "de": y} for x, y in MISSING]
        pairs = load_python(given, ["en", "de"])
    else:
        name = f"a.{'parquet' if source in ('parquet', 'struct') else 'jsonl'}"
        written: list[Any] = nested if source in ("nested", "struct") else rows
        if source == "keys":
            written = [{key: text for key, text in row.items() if text is not None} for row in rows]
        if name == "a.parquet":
            pa.parquet.write_table(pa.Table.from_pylist(written), tmp_path / name)
        else:
            (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in written))
        pairs = load_tables(tmp_path, train=name, columns=["en", "de"])["train"]
    expected = [None, ("b", "B"), None, ("d", "D"), None, ("", "E"), None]
    assert [None if isinstance(pair, MissingPair) else tuple(pair[:2]) for pair in pairs] == expected
    if source == "parquet":
        table = tmp_path / "a.parquet"
        words = ["data=table", f"data.train={table}", f"data.valid={table}", "data.columns=[en,de]"]
        prepare([*words, "tokenizer.vocab_size=270", "data.duplicates=exact", f"output={tmp_path}/out"])
        lines = capsys.readouterr().out.splitlines()
        assert lines[1:3] == ["train: 4 dropped: a text is missing", "train: 1 dropped: empty source"]
        assert lines[3].startswith("valid: 3 of 7 pairs kept") and "valid: 4 dropped: a text is missing" in lines


def test_missing_values_of_pandas_are_dropped() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pairs = load_python([("a", pandas.NA), ("b", pandas.NaT), ("c", "C")])
    assert pairs == [MissingPair("", "")] * 2 + [Pair("c", "C")]
    with pytest.raises(UserError, match="pair 1 of part train is .'a', 3.; must be"):
        load_python([("a", 3)])


def test_parquet_columns_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    file, pairs = tmp_path / "a.parquet", {"en": ["a", "b"], "de": ["A", "B"]}
    other = pa.array([2**62, 2**61], pa.timestamp("ns")).cast(pa.timestamp("s"), safe=False)
    far = pa.array([2**40, 2**41], pa.timestamp("s"))  # years that Python's datetime does not have
    for columns in (pairs, {"translation": [{"en": x, "de": y} for x, y in zip(*pairs.values(), strict=True)]}):
        pa.parquet.write_table(pa.table({**columns, "date": far, "other": other, "a.b": ["x", "y"]}), file)
        assert list(TableFile(file, "train", ["en", "de"])) == [("a", "A"), ("b", "B")]
    kinds = {"en": pa.array(pairs["en"]).dictionary_encode(), "de": pa.array(pairs["de"], pa.large_string())}
    pa.parquet.write_table(pa.table({**kinds, "translation": pairs["en"]}), file)
    assert list(TableFile(file, "train", ["en", "de"])) == [("a", "A"), ("b", "B")]
    assert list(TableFile(file, "train", ["de", "translation"])) == [("A", "a"), ("B", "b")]
    with pytest.raises(UserError, match=r"a\.parquet: no column fr; choose from en, de, translation$"):
        list(TableFile(file, "train", ["en", "fr"]))
    for wrong, shown in ((pa.array([b"x", b"y"]), "b'x'"), (pa.array([[1], [2]]), r"\[1\]")):
        pa.parquet.write_table(pa.table({"en": wrong, "de": pairs["de"]}), file)
        with pytest.raises(UserError, match=rf"pair 1 of part train: column en is {shown}; must be text"):
            list(TableFile(file, "train", ["en", "de"]))
    pa.parquet.write_table(pa.Table.from_arrays([pa.array(["x"])] * 3, ["en", "de", "en"]), file)
    with pytest.raises(UserError, match=r"a\.parquet: 2 columns are called en; rename the others"):
        list(TableFile(file, "train", ["en", "de"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data=table"], "data.train: must be given"),
        (["data=table", "data.train=."], "data.train=.: a folder, not a file; use data=hub data.path=. if its files"),
        (["data=table", "data.train=none.tsv"], "data.train=none.tsv: no such file in "),
        (
            ["data=table", "data.train=a.txt"],
            "data.train=a.txt: unknown format; use a file that ends in",
        ),
        (["data=table", "data.train=a.jsonl"], "data.columns=null: a.jsonl needs the names of its columns"),
        (["data=table", "data.train=a.tsv", "data.columns=[en]"], "data.columns="),
        (["data=table", "data.train=a.tsv", "data.columns=[en,en]"], "data.columns=[en,en]: source and target are the"),
        (["data=hub", "data.path=x", "data.columns=[en,en]"], "data.columns=[en,en]: source and target are the same"),
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
        "data.columns=[en,fr]": "data: part valid has no text in column fr; choose from en, de",
        "data.path=/nowhere": "data.path=/nowhere: cannot be loaded (",
    }.items():
        others = [word for word in words if word.partition("=")[0] != setting.partition("=")[0]]
        assert refusal(prepare, [*others, setting, "output=x"]).startswith(message)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"^data=hub: the package datasets is not installed; install it with pip"):
        load_pairs(build(DataSettings, {"_target_": "nmt.data.hub.Hub", "path": "x", "columns": ["en", "de"]}))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no names that are not UTF-8")
def test_folders_whose_names_are_not_utf8_hold_tables_and_corpora(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    table = shutil.move(write(tmp_path, "a.parquet"), folder)  # pyarrow itself cannot write there
    words = ["data=table", f"data.train={table}", f"data.valid={table}", "data.columns=[en,de]"]
    prepare([*words, "tokenizer.vocab_size=290", f"output={folder}/out"])
    assert open_prepared(folder / "out").corpora["valid"].sources() == [source for source, _ in PAIRS]
    assert len(Corpus.open(folder / "out" / "train.arrow", mapped=True)) == 10


def test_text_may_begin_after_many_rows_without_it() -> None:
    rows = [{"en": "a", "de": None}] * 1001 + [{"en": "b", "de": "c"}]
    assert [*rows_as_pairs(rows, "train", ["en", "de"])][-1] == ("b", "c")
    with pytest.raises(UserError, match="part train has no text in column de; choose from en"):
        [*rows_as_pairs(rows[:1001], "train", ["en", "de"])]
