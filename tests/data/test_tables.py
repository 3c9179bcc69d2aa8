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
from builders import expect_error, refusal
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.prepare import prepare
from nmt.data.from_python import rows_as_pairs
from nmt.data.pair import MissingPair, Pair
from nmt.data.sources import DataSettings, load_pairs, pairs_from_python
from nmt.data.tables import TableFile
from nmt.errors import UserError
from nmt.files.atomic import write_lines
from nmt.settings.build import build
from nmt.text.corpus import Corpus
from nmt.text.prepare import open_prepared

PAIRS = [("the dog sees a cat", "der Hund sieht eine Katze"), ("", "x"), ('a "red" house', "ein\u2028rotes Haus")] * 5


def load_tables(folder: Path, **settings: Any) -> dict[str, Any]:
    return load_pairs(build(DataSettings, {"_target_": "nmt.data.tables.Tables", "folder": str(folder), **settings}))


def load_python(pairs: Sequence[Any], columns: list[str] | None = None) -> list[Any]:
    data = build(DataSettings, {"_target_": "nmt.data.from_python.from_python", "columns": columns})
    return list(pairs_from_python({"train": pairs}, data)["train"])


def write(folder: Path, name: str, *, nested: bool = False) -> str:
    rows: list[dict[str, Any]] = [{"en": source, "de": target} for source, target in PAIRS]
    return write_rows(folder / name, [{"score": 0.5, **({"translation": row} if nested else row)} for row in rows])


def write_rows(file: Path, rows: list[dict[str, Any]]) -> str:
    """Write a table in the format that the end of the name says; as tab-separated text only its English and German."""
    if file.suffix.lower() == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), file)
        return str(file)
    is_tsv = file.name.lower().startswith("a.tsv")
    lines = [f"{row['en']}\t{row['de']}" if is_tsv else json.dumps(row) for row in rows]
    write_lines(file, lines)
    return str(file)


@pytest.mark.parametrize(
    "name", ["a.tsv", "a.TSV.gz", "a.jsonl", "a.Jsonl.gz", "a.parquet", "b.tsv.PARQUET", "b.tsv.jsonl"]
)
@pytest.mark.parametrize("nested", [False, True])
def test_written_pairs_are_read_in_order_and_again(tmp_path: Path, name: str, nested: bool) -> None:
    is_tsv = name.lower().startswith("a.tsv")
    write(tmp_path, name, nested=nested and not is_tsv)
    parts = load_tables(tmp_path, train=name, valid=name, columns=None if is_tsv else ["en", "de"])
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
            expect_error(rf"a\.tsv:{wrong[0]}: \d columns?[,;]", list, read)
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


@pytest.mark.parametrize(
    "names",
    [
        *("en,de", "source,target", "text_en,text_de", "en-US,de-DE", "Sentence 1,Sentence 2"),
        *("한국어,영어", "日本語,英語", "İngilizce,Türkçe", "Русский,English", "el,en", "Korean,eng"),
    ],
)
def test_a_header_that_nobody_named_is_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: str
) -> None:
    (tmp_path / "a.tsv").write_text("id\t" + names.replace(",", "\t") + "\n1\ta\tb\n")
    load_tables(tmp_path, train="a.tsv")
    assert f"a.tsv:1: read as a pair, but looks like a header; set data.columns=[{names}]" in capsys.readouterr().err


@pytest.mark.parametrize("row", ["1\t2.", "\t!", "it is in German\tes ist auf Deutsch"])
def test_a_pair_is_not_taken_for_a_header(tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str) -> None:
    (tmp_path / "a.tsv").write_text(f"{row}\nno\tnein\n")
    load_tables(tmp_path, train="a.tsv")
    assert not capsys.readouterr().err


ROWS = [{"en": x, "de": y} for x, y in (("a", None), ("b", "B"), (None, "C"), (None, None), ("", "E"))]
NESTED = [{"translation": row if row["en"] or row["de"] else None} for row in ROWS]
KEYS = [{key: text for key, text in row.items() if text is not None} for row in ROWS]
TEXTS = [MissingPair("", ""), Pair("b", "B"), MissingPair("", ""), MissingPair("", ""), Pair("", "E")]


@pytest.mark.parametrize(
    ("name", "rows"),
    [("a.jsonl", ROWS), ("a.jsonl", KEYS), ("a.jsonl", NESTED), ("a.parquet", ROWS), ("a.parquet", NESTED)],
)
def test_pairs_of_tables_without_text_are_dropped(tmp_path: Path, name: str, rows: list[Any]) -> None:
    write_rows(tmp_path / name, rows)
    assert list(load_tables(tmp_path, train=name, columns=["en", "de"])["train"]) == TEXTS


def test_pairs_from_python_without_text_are_dropped() -> None:
    pairs = [("a", float("nan")), ("b", "B"), (np.float32("nan"), "C"), (None, None), ("", "E")]
    assert load_python(pairs) == load_python([{"en": x, "de": y} for x, y in pairs], ["en", "de"]) == TEXTS


def test_dropped_pairs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_rows(tmp_path / "a.parquet", [*ROWS, ROWS[1]])
    words = ["data=table", f"data.train={table}", f"data.valid={table}", "data.columns=[en,de]"]
    prepare([*words, "tokenizer.vocab_size=264", "data.duplicates=exact", f"output={tmp_path}/out"])
    lines = capsys.readouterr().out.splitlines()
    dropped = {"train: 3 dropped: a text is missing", "train: 1 dropped: empty source", "train: 1 dropped: duplicate"}
    assert {*lines[1:4]} == dropped
    assert lines[4].startswith("valid: 3 of 6 pairs kept") and "valid: 3 dropped: a text is missing" in lines


def test_missing_values_of_pandas_are_dropped() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pairs = load_python([("a", pandas.NA), ("b", pandas.NaT), ("c", "C")])
    assert pairs == [MissingPair("", "")] * 2 + [Pair("c", "C")]


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
    problem = refusal(list, TableFile(file, "train", ["en", "fr"]))
    assert problem.endswith("a.parquet: no column fr; choose from en, de, translation")
    for wrong, shown in (([b"x", b"y"], "b'x'"), ([[1], [2]], "[1]")):
        pa.parquet.write_table(pa.table({"en": wrong, "de": pairs["de"]}), file)
        expected = f"pair 1 of part train: column en is {shown}; must be text"
        assert expected in refusal(list, TableFile(file, "train", ["en", "de"]))
    pa.parquet.write_table(pa.Table.from_arrays([pa.array(["x"])] * 3, ["en", "de", "en"]), file)
    assert "a.parquet: 2 columns are called en; rename" in refusal(list, TableFile(file, "train", ["en", "de"]))


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
    assert len(Corpus(folder / "out" / "train.arrow")) == 10


def test_text_may_begin_after_many_rows_without_it() -> None:
    rows = [{"en": "a", "de": None}] * 1001 + [{"en": "b", "de": "c"}]
    assert [*rows_as_pairs(rows, "train", ["en", "de"])][-1] == ("b", "c")
    with pytest.raises(UserError, match="part train has no text in column de; choose from en"):
        [*rows_as_pairs(rows[:1001], "train", ["en", "de"])]
