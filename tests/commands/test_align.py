"""nmt-align: links of given pairs equal those of forced decoding, from files and from stdin."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.alignment.word_weights import word_weights
from nmt.commands.align import align
from nmt.data.lexicon import read_lexicon
from nmt.errors import UserError
from nmt.inference.forced_decoding import force_decode
from nmt.inference.translator import Translator

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps"]
TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", ""]
Pipe = Callable[[bytes], None]
Read = Callable[[], list[str]]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files src and tgt."""
    for name, lines in {"src": SOURCE, "tgt": TARGET}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def naive_links(model: Path) -> list[str]:
    """Return a line of links per pair: for each target word, the first source word with the largest weight."""
    lines = []
    for decoding in force_decode(Translator.load(model), SOURCE, TARGET):
        weights = word_weights(decoding).tolist() if decoding.source_words else []
        links = sorted((row.index(max(row)), j) for j, row in enumerate(weights))
        lines.append(" ".join(f"{i}-{j}" for i, j in links))
    return lines


def test_links_of_files_and_of_stdin_are_those_of_forced_decoding(
    model: Path, files: Path, pipe_in: Pipe, read_output: Read
) -> None:
    expected = naive_links(model)
    assert [len(line.split()) for line in expected] == [5, 0, 3, 0]
    align([f"model={model}", f"src={files}/src", f"tgt={files}/tgt"])
    assert read_output() == expected
    pairs = zip(SOURCE, TARGET, strict=True)
    pipe_in("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
    align([f"model={model}"])
    assert read_output() == expected


def test_lexicon_has_the_most_frequent_link_of_each_word(model: Path, files: Path, read_output: Read) -> None:
    counts: dict[str, list[str]] = {}
    for line, source, target in zip(naive_links(model), SOURCE, TARGET, strict=True):
        for i, j in (map(int, link.split("-")) for link in line.split()):
            counts.setdefault(source.split()[i], []).append(target.split()[j])
    lexicon = files / "lexicon.tsv.gz"
    arguments = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"lexicon={lexicon}"]
    for least in (1, 2):
        align([*arguments, f"lexicon_min_count={least}"])
        best = {
            source: min(targets, key=lambda word: (-targets.count(word), word)) for source, targets in counts.items()
        }
        expected = {source: best[source] for source, words in counts.items() if words.count(best[source]) >= least}
        assert read_lexicon(lexicon) == expected if expected else not gzip.decompress(lexicon.read_bytes())
    assert read_output() == 2 * naive_links(model)


def test_empty_input_gives_empty_output(model: Path, tmp_path: Path, pipe_in: Pipe, read_output: Read) -> None:
    (tmp_path / "empty").touch()
    align([f"model={model}", f"src={tmp_path}/empty", f"tgt={tmp_path}/empty"])
    pipe_in(b"")
    align([f"model={model}"])
    assert read_output() == []


def test_pairs_before_a_wrong_line_are_aligned(model: Path, pipe_in: Pipe, read_output: Read) -> None:
    pipe_in(b"the dog\tder Hund\n   \nthe\tdog\tder Hund\nthe cat\tdie Katze\n")
    with pytest.raises(UserError, match=r"^<stdin>:3: 2 tabs; write a source"):
        align([f"model={model}"])
    first, blank = read_output()
    assert len(first.split()) == 2 and not blank


@pytest.mark.thorough
def test_pairs_of_stdin_are_aligned_as_they_arrive(model: Path) -> None:
    code = "from nmt.commands.programs import align; align()"
    arguments = [sys.executable, "-c", code, f"model={model}", "threads=1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        for _ in range(2):
            process.stdin.write(b"the dog\tder Hund\n")
            process.stdin.flush()
            assert len(process.stdout.readline().split()) == 2
        process.stdin.close()
        assert (process.stdout.read(), process.stderr.read(), process.wait()) == (b"", b"", 0)


def test_source_that_is_too_long_gives_an_empty_line(
    short_model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(f"a cat\teine Katze\n{'cat ' * 30}\tKatze\na cat\tKatze\n".encode())
    align([f"model={short_model}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert [len(line.split()) for line in out.splitlines()] == [2, 0, 1]
    assert error.startswith("warning: <stdin>:2: a source of ") and error.endswith("; it is not aligned\n")


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ([], b"a\tb\na cat eine Katze\n", "<stdin>:2: 0 tabs; write a source, one tab and a translation"),
        ([], b"a\tb\tc\n", "<stdin>:1: 2 tabs; write"),
        ([], b"a\t\xff\n", "<stdin>:1: invalid UTF-8"),
        (["src=src"], b"", "tgt=null: a file of one side is not enough; add tgt=FILE"),
        (["src=src", "tgt=nowhere"], b"", "nowhere: No such file"),
        (["src=src", "tgt=one"], b"", "src has 4 lines, one has 1 line:"),
        (["model=NONE", "src=src", "tgt=tgt"], b"", "this model has no attention"),
        (["source=src"], b"", "source: no such key; did you mean src?"),
    ],
)
def test_bad_input_gives_one_error_line(
    arguments: list[str], text: bytes, message: str, model: Path, model_without_attention: Path, files: Path,
    pipe_in: Pipe, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(files)
    (files / "one").write_text("Katze\n")
    pipe_in(text)
    folder = model_without_attention if "model=NONE" in arguments else model
    with pytest.raises(UserError) as caught:
        align([f"model={folder}", *(argument for argument in arguments if argument != "model=NONE")])
    assert message in str(caught.value) and "\n" not in str(caught.value)
