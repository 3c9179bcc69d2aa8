"""nmt-translate: one line out per line in, in order, for any content and any way of arriving."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.commands.shell import run
from nmt.commands.translate import describe_scores, translate
from nmt.errors import UserError
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

Pipe = Callable[[bytes], None]
Reader = Callable[[], list[str]]
COMMAND = [sys.executable, "-c", "from nmt.commands.programs import translate; translate()"]
LINES = ["the dog sees a cat", "", "a red house", "  \t ", "the cat\r", "ein\u2028Haus\x85 \x0b da", "日本 🙂 ▁"]


def test_each_input_line_gives_one_output_line(model: Path, pipe_in: Pipe, read_output: Reader) -> None:
    pipe_in("\n".join(LINES).encode())
    translate([f"model={model}"])
    lines = read_output()
    assert lines == Translator.load(model).texts(LINES)
    assert [not line for line in lines] == [not line.strip() for line in LINES]


@pytest.mark.parametrize(("name", "data"), [("in.txt", b""), ("in.gz", gzip.compress(b""))], ids=["text", "gz"])
def test_empty_file_gives_an_empty_file(
    name: str, data: bytes, model: Path, tmp_path: Path, pipe_in: Pipe, read_output: Reader
) -> None:
    pipe_in(b"")
    translate([f"model={model}"])
    assert read_output() == []
    (tmp_path / name).write_bytes(data)
    translate([f"model={model}", f"input={tmp_path / name}"])
    assert read_output() == []
    translate([f"model={model}", f"input={tmp_path / name}", f"output={tmp_path}/out", f"alignments={tmp_path}/links"])
    assert (tmp_path / "out").read_bytes() == (tmp_path / "links").read_bytes() == b""


@pytest.mark.thorough
@pytest.mark.parametrize("extra", [[], ["workers=1"]])
def test_log_file_gets_lines_with_a_share(
    model: Path, tmp_path: Path, extra: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nmt.system.progress.FIRST_S", 0.0)
    monkeypatch.setattr("nmt.system.progress.EVERY_S", 0.0)
    (tmp_path / "in.txt").write_text("the dog\n" * 1024)
    words = [f"input={tmp_path}/in.txt", f"output={tmp_path}/out.txt", "search=greedy", "search.max_length=2"]
    translate([f"model={model}", *words, *extra])
    first, second = (line for line in capsys.readouterr().err.splitlines() if "lines/s" in line)
    assert first.startswith("512 lines in ") and ", 50%, about " in first
    assert second.startswith("1,024 lines in ") and second.endswith(", 100%, about 0 s left")


def test_many_lines_keep_their_order(model: Path, pipe_in: Pipe, read_output: Reader) -> None:
    lines = [LINES[n % 5].strip() * (1 + n % 3) for n in range(1100)]  # more than two groups
    pipe_in("".join(f"{line}\n" for line in lines).encode())
    translate([f"model={model}", "search=greedy", "search.max_length=6"])
    assert read_output() == Translator.load(model).texts(lines, SearchOptions(beam_size=1, max_length=6))


def test_gzipped_files_give_the_same_output_as_plain_ones(model: Path, tmp_path: Path, read_output: Reader) -> None:
    text = "".join(f"{line}\n" for line in LINES).encode()
    (tmp_path / "in.gz").write_bytes(gzip.compress(text))
    (tmp_path / "in.txt").write_bytes(text)
    files = [f"input={tmp_path}/in.gz", f"output={tmp_path}/out.gz", f"alignments={tmp_path}/out.pharaoh"]
    translate([f"model={model}", *files])
    assert read_output() == []
    translations = gzip.decompress((tmp_path / "out.gz").read_bytes()).decode().split("\n")[:-1]
    translate([f"model={model}", f"input={tmp_path}/in.txt"])
    assert translations == read_output()
    links = (tmp_path / "out.pharaoh").read_text().split("\n")[:-1]
    assert len(links) == len(LINES)
    for line, translation, source in zip(links, translations, LINES, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert sorted(j for _, j in pairs) == list(range(len(translation.split())))  # one link per target word
        assert all(i < len(source.split()) for i, _ in pairs)


def test_n_best_lists_have_the_format_of_moses(model: Path, pipe_in: Pipe, read_output: Reader) -> None:
    pipe_in(b"the dog\n\na cat\n")
    translate([f"model={model}", "search.n_best=3"])
    lines = [line.split(" ||| ") for line in read_output()]
    assert [line[0] for line in lines] == ["0", "0", "0", "1", "2", "2", "2"]
    n_best = Translator.load(model).translate(["the dog"], SearchOptions(n_best=3))[0].n_best
    assert [line[1] for line in lines[:3]] == [hypothesis.text for hypothesis in n_best]
    scores = [hypothesis.score for hypothesis in n_best]
    assert [float(line[2]) for line in lines[:3]] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_scores_come_with_their_normalisation(
    alpha: float, model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(b"the dog\n")
    translate([f"model={model}", "scores=true", f"search.length_penalty={alpha}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    score, text = out.rstrip("\n").split("\t")
    best = Translator.load(model).translate(["the dog"], SearchOptions(length_penalty=alpha))[0]
    assert text == best.text and float(score) == pytest.approx(best.score, abs=1e-4)
    assert float(score) == pytest.approx(best.log_prob / ((5 + len(best.tokens)) / 6) ** alpha, abs=1e-4)
    assert describe_scores(SearchOptions(length_penalty=alpha)) in error and ("not length-normalised" in error) == (
        alpha == 0
    )


def test_equal_seeds_give_equal_samples(model: Path, pipe_in: Pipe, read_output: Reader) -> None:
    samples = []
    for seed in (1, 1, 2):
        pipe_in(b"the dog sees\na cat\n")
        translate([f"model={model}", "search.temperature=2.0", "search.max_length=8", f"search.seed={seed}"])
        samples.append(read_output())
    assert samples[0] == samples[1] != samples[2]


def test_translation_of_a_very_long_line_is_limited_in_length(model: Path, pipe_in: Pipe, read_output: Reader) -> None:
    pipe_in(b"a cat\n" + b"dog " * 10_000 + b"\na cat\n")
    translate([f"model={model}", "search=greedy"])
    lines = read_output()
    assert len(lines) == 3 and lines[0] == lines[2]
    assert len(lines[1]) > 0 and len(lines[1].split()) <= 1000


def test_only_the_line_too_long_for_the_attention_is_skipped(
    short_model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(b"a cat\n" + b"dog " * 20 + b"\na cat\n")
    translate([f"model={short_model}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    translations = out.split("\n")[:-1]
    assert translations[1] == "" and translations[0] == translations[2] != ""
    (warning,) = error.splitlines()
    assert warning.startswith("warning: <stdin>:2: a source of ") and "reads at most 20" in warning


def test_lines_before_invalid_bytes_are_translated(model: Path, pipe_in: Pipe, read_output: Reader) -> None:
    pipe_in(b"a cat\nthe dog\n\xff\xfe\na cat\n")
    with pytest.raises(UserError, match=r"^<stdin>:3: invalid UTF-8"):
        translate([f"model={model}"])
    assert read_output() == Translator.load(model).texts(["a cat", "the dog"])


def test_failure_keeps_the_old_output_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a cat\n\xff\n")
    (tmp_path / "out").write_text("old\n")
    with pytest.raises(UserError, match=r"in:2: invalid UTF-8"):
        translate([f"model={model}", f"input={tmp_path}/in", f"output={tmp_path}/out"])
    assert (tmp_path / "out").read_text() == "old\n"
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out", "out.unfinished"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "model: must be given"),
        (["model=nowhere"], "model=nowhere: no such folder"),
        (["model=MODEL", "input=nowhere.txt"], "nowhere.txt: No such file"),
        (["model=MODEL", "output=nowhere/out.txt"], "nowhere/out.txt: cannot write"),
        (["model=MODEL", "search.beam_size=0"], "search.beam_size=0: must be at least 1"),
        (["model=MODEL", "search.n_best=6"], "search.n_best=6: must be at most search.beam_size=5"),
        (["model=MODEL", "search.beam_sise=3"], "did you mean search.beam_size"),
        (["model=MODEL", "scores=maybe"], "scores=maybe: must be true or false"),
        (["model=MODEL", "device=gpu"], "device=gpu: must be auto | cpu | cuda"),
        (["model=MODEL", "device=cuda:99"], "device=cuda:99: not available"),
        (["model=nowhere", "output=."], ".: cannot write: Is a directory"),  # checked before the model is loaded
        (["model=MODEL", "output=x", "alignments=x"], "alignments=x: same file as output=x; choose"),
        (["model=MODEL", "output=x", "alignments=./x"], "alignments=./x: same file as output=x; choose"),
        (["model=MODEL", "input=x", "output=./x"], "input=x: same file as output=./x; choose"),
        (["model=MODEL", "input=x", "alignments=./x"], "alignments=./x: same file as input=x; choose"),
        (["model=NONE", "alignments=x"], "no attention"),
        (["in.txt"], "in.txt: not a setting; write settings as key=value"),
        (["MODEL"], ": not a setting; write model="),
    ],
)
def test_bad_input_gives_one_error_line(
    arguments: list[str], message: str, model: Path, model_without_attention: Path, pipe_in: Pipe, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    pipe_in(b"a cat\n")
    models = {"MODEL": str(model), "model=MODEL": f"model={model}", "model=NONE": f"model={model_without_attention}"}
    with pytest.raises(UserError) as caught:
        translate([models.get(argument, argument) for argument in arguments])
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_slow_writer_gets_each_line_at_once_and_closed_pipe_is_silent(model: Path) -> None:
    command = [*COMMAND, f"model={model}", "threads=1"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert child.stdin and child.stdout and child.stderr
    watchdog = threading.Timer(60, child.kill)
    watchdog.start()
    for _ in range(2):
        child.stdin.write(b"a cat\n")
        assert os.read(child.stdout.fileno(), 4096).endswith(b"\n")  # while stdin is still open
    child.stdout.close()
    child.stdin.write(b"a cat\n")
    child.stdin.close()
    assert child.stderr.read() == b"" and child.wait() == 141
    watchdog.cancel()
    child.stderr.close()


@pytest.mark.thorough
def test_closed_stdout_does_not_matter_for_an_output_file(model: Path, tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, f"model={model}", "output=out"]
    process = subprocess.run(command, input=b"a cat\n", stderr=subprocess.PIPE, cwd=tmp_path)
    assert (process.returncode, process.stderr) == (0, b"") and (tmp_path / "out").read_text().count("\n") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("redirection", [">", ">>"])
def test_output_to_the_redirected_stdout_keeps_what_it_holds(model: Path, redirection: str, tmp_path: Path) -> None:
    script = f'(echo before; "$@"; echo after) {redirection} log'
    command = ["sh", "-c", script, "sh", *COMMAND, f"model={model}", "output=/dev/stdout"]
    subprocess.run(command, input=b"a cat\na dog\n", cwd=tmp_path, check=True)
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 4 and (lines[0], lines[-1]) == ("before", "after")


@pytest.mark.thorough
def test_closed_stderr_loses_only_warnings(model: Path) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *COMMAND, f"model={model}"]
    process = subprocess.run(command, input=b"a cat\n\na dog\n", stdout=subprocess.PIPE)
    assert process.returncode == 0 and process.stdout.count(b"\n") == 3, process.stdout


def test_user_errors_exit_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(translate, ["model=nowhere"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: model=nowhere: no such folder")


@pytest.mark.thorough
def test_terminal_gets_a_prompt(model: Path) -> None:
    pty = pytest.importorskip("pty")
    keyboard, terminal = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, f"model={model}"], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.write(keyboard, b"a cat\n\x04")  # \x04 is Ctrl-D
    out, error = child.communicate(timeout=60)
    os.close(keyboard)
    os.close(terminal)
    assert out.decode().split("\n")[:-1] == Translator.load(model).texts(["a cat"])
    assert error.decode().startswith("Type a line") and error.decode().count("> ") == 2
