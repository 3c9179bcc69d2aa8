"""nmt-translate keeps lines and their order, whatever they hold and however they arrive."""

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
from nmt.inference.translator import Translation, Translator
from nmt.search.options import SearchOptions

Pipe = Callable[[bytes], None]
LINES = ["the dog sees a cat", "", "a red house", "  \t ", "the cat\r", "ein\u2028Haus\x85 \x0b da", "日本 🙂 ▁"]


def spoken(arguments: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> list[str]:
    """The lines on stdout."""
    translate(arguments)
    out = capfdbinary.readouterr().out.decode()
    assert out.endswith("\n") or not out
    return out.split("\n")[:-1]


def test_one_line_out_for_one_line_in(model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe_in("\n".join(LINES).encode())
    found = spoken([f"model={model}"], capfdbinary)
    assert found == Translator.load(model).texts(LINES)
    assert [not line for line in found] == [not line.strip() for line in LINES]


def test_no_input_gives_no_output(model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe_in(b"")
    assert spoken([f"model={model}"], capfdbinary) == []


def test_many_lines_keep_their_order(model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lines = [LINES[n % 5].strip() * (1 + n % 3) for n in range(1100)]  # more than two groups
    pipe_in("".join(f"{line}\n" for line in lines).encode())
    found = spoken([f"model={model}", "search=greedy", "search.max_length=6"], capfdbinary)
    assert found == Translator.load(model).texts(lines, SearchOptions(beam_size=1, max_length=6))


def test_files_plain_and_gzipped(model: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    text = "".join(f"{line}\n" for line in LINES).encode()
    (tmp_path / "in.gz").write_bytes(gzip.compress(text))
    (tmp_path / "in.txt").write_bytes(text)
    places = [f"input={tmp_path}/in.gz", f"output={tmp_path}/out.gz", f"alignments={tmp_path}/out.pharaoh"]
    assert spoken([f"model={model}", *places], capfdbinary) == []
    translations = gzip.decompress((tmp_path / "out.gz").read_bytes()).decode().split("\n")[:-1]
    assert translations == spoken([f"model={model}", f"input={tmp_path}/in.txt"], capfdbinary)
    links = (tmp_path / "out.pharaoh").read_text().split("\n")[:-1]
    assert len(links) == len(LINES)
    for line, translation, source in zip(links, translations, LINES, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert sorted(j for _, j in pairs) == list(range(len(translation.split())))  # one link a target word
        assert all(i < len(source.split()) for i, _ in pairs)


def test_n_best_as_moses_writes_it(model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    pipe_in(b"the dog\n\na cat\n")
    found = [line.split(" ||| ") for line in spoken([f"model={model}", "search.n_best=3"], capfdbinary)]
    assert [line[0] for line in found] == ["0", "0", "0", "1", "2", "2", "2"]
    best = Translator.load(model).translate(["the dog"], SearchOptions(n_best=3))[0].n_best
    assert [line[1] for line in found[:3]] == [one.text for one in best]
    assert [float(line[2]) for line in found[:3]] == pytest.approx([one.score for one in best], abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_scores_say_how_they_are_normalised(
    alpha: float, model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(b"the dog\n")
    translate([f"model={model}", "scores=true", f"search.length_penalty={alpha}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    score, text = out.rstrip("\n").split("\t")
    one = Translator.load(model).translate(["the dog"], SearchOptions(length_penalty=alpha))[0]
    assert text == one.text and float(score) == pytest.approx(one.score, abs=1e-4)
    assert float(score) == pytest.approx(one.log_prob / ((5 + len(one.tokens)) / 6) ** alpha, abs=1e-4)
    assert describe_scores(SearchOptions(length_penalty=alpha)) in error and ("not length-normalised" in error) == (
        alpha == 0
    )


def test_sampling_repeats_itself(model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sample = [f"model={model}", "search.temperature=2.0", "search.max_length=8"]
    found = []
    for seed in (1, 1, 2):
        pipe_in(b"the dog sees\na cat\n")
        found.append(spoken([*sample, f"search.seed={seed}"], capfdbinary))
    assert found[0] == found[1] != found[2]


def test_a_very_long_line_is_translated_up_to_the_ceiling(
    model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(b"a cat\n" + b"dog " * 10_000 + b"\na cat\n")
    found = spoken([f"model={model}", "search=greedy"], capfdbinary)
    assert len(found) == 3 and found[0] == found[2]
    assert len(found[1]) > 0 and len(found[1].split()) <= 1000


@pytest.mark.parametrize("lack", ["not enough memory", "can't allocate memory"])  # torch on Windows, on Linux
def test_a_line_that_does_not_fit_into_memory_is_refused_alone(
    lack: str, model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Translator.translate

    def small(self: Translator, lines: list[str], *given: SearchOptions, **named: bool) -> list[Translation]:
        if any(len(line) > 100 for line in lines):
            raise RuntimeError(f"DefaultCPUAllocator: {lack}: you tried to allocate 9 bytes.")
        return whole(self, lines, *given, **named)

    monkeypatch.setattr(Translator, "translate", small)
    pipe_in(b"a cat\nthe dog\n" + b"dog " * 100 + b"\nthe dog\na cat\n")
    translate([f"model={model}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    found = out.split("\n")[:-1]
    assert found[2] == "" and found[:2] == found[:2:-1] and all(found[:2])
    assert error.splitlines() == [
        "warning: <stdin>:3: not enough memory for this line of 100 words; its translation is empty"
    ]


def test_a_line_longer_than_the_attention_holds_is_refused_alone(
    model_of: Callable[..., Path], pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    model = model_of({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    pipe_in(b"a cat\n" + b"dog " * 20 + b"\na cat\n")
    translate([f"model={model}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    found = out.split("\n")[:-1]
    assert found[1] == "" and found[0] == found[2] != ""
    (line,) = error.splitlines()
    assert line.startswith("warning: <stdin>:2: a source of ") and "reads at most 20" in line


def test_any_other_failure_is_not_taken_for_lack_of_memory(
    model: Path, pipe_in: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> list[Translation]:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Translator, "translate", broken)
    pipe_in(b"a cat\n")
    with pytest.raises(RuntimeError, match="shapes differ"):
        translate([f"model={model}"])


def test_invalid_bytes_name_their_line_and_lose_none_before(
    model: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(b"a cat\nthe dog\n\xff\xfe\na cat\n")
    with pytest.raises(UserError, match=r"^<stdin>:3: invalid UTF-8"):
        translate([f"model={model}"])
    assert capfdbinary.readouterr().out.decode().split("\n")[:-1] == Translator.load(model).texts(["a cat", "the dog"])


def test_a_failure_leaves_the_old_output_as_it_was(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a cat\n\xff\n")
    (tmp_path / "out").write_text("old\n")
    with pytest.raises(UserError, match=r"in:2: invalid UTF-8"):
        translate([f"model={model}", f"input={tmp_path}/in", f"output={tmp_path}/out"])
    assert (tmp_path / "out").read_text() == "old\n" and len(list(tmp_path.iterdir())) == 2


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
        (["model=MODEL", "device=tpux"], "device=tpux: not available"),
        (["model=nowhere", "output=."], ".: cannot write: Is a directory"),  # before the model is looked for
        (["model=MODEL", "output=x", "alignments=x"], "is the output as well"),
        (["model=MODEL", "output=x", "alignments=./x"], "is the output as well"),
        (["model=MODEL", "input=x", "output=./x"], "input=x: is the output as well"),
        (["model=MODEL", "input=x", "alignments=./x"], "is the input as well"),
        (["model=BLIND", "alignments=x"], "no attention"),
        (["in.txt"], "written key=value"),
    ],
)
def test_bad_input_gets_one_clear_line(
    arguments: list[str], message: str, model: Path, blind_model: Path, pipe_in: Pipe, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    pipe_in(b"a cat\n")
    given = [word.replace("MODEL", str(model)).replace("BLIND", str(blind_model)) for word in arguments]
    with pytest.raises(UserError) as caught:
        translate(given)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_help_shows_every_key_and_needs_no_torch() -> None:
    code = "import sys; sys.argv[1:] = ['--help']; from nmt.commands.translate import translate; translate(['--help']);"
    done = subprocess.run([sys.executable, "-c", f"{code} assert 'torch' not in sys.modules"], capture_output=True)
    assert done.returncode == 0, done.stderr
    for word in ("nmt-translate model=runs/demo < in.txt", "length_penalty", "scores: false", "temperature", "Moses"):
        assert word in done.stdout.decode()


def test_a_slow_writer_sees_each_line_at_once_and_a_closed_pipe_ends_quietly(model: Path) -> None:
    script = "from nmt.commands.translate import main; main()"
    command = [sys.executable, "-c", script, f"model={model}", "threads=1"]
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line(model: Path, tmp_path: Path) -> None:
    script = "from nmt.commands.translate import main; main()"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, f"model={model}"], input=b"a cat\n", stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 2 and done.stderr.decode().count("\n") == 1, done.stderr
    assert "No space left" in done.stderr.decode()


@pytest.mark.parametrize("words", [[], ["output=out"]])
def test_a_closed_stdout_is_one_line_unless_a_file_is_named(words: list[str], model: Path, tmp_path: Path) -> None:
    script = "from nmt.commands.translate import main; main()"
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", script, f"model={model}", *words]
    done = subprocess.run(command, input=b"a cat\n", stderr=subprocess.PIPE, cwd=tmp_path)
    if words:
        assert (done.returncode, done.stderr) == (0, b"") and (tmp_path / "out").read_text().count("\n") == 1
    else:
        assert done.returncode == 2 and done.stderr.startswith(b"error: <stdout>: closed;"), done.stderr


def test_a_closed_stderr_loses_warnings_only(model: Path) -> None:
    script = "from nmt.commands.translate import main; main()"
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", script, f"model={model}"]
    done = subprocess.run(command, input=b"a cat\n\na dog\n", stdout=subprocess.PIPE)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 3, done.stdout


def test_the_exit_code_is_2_for_what_the_user_can_put_right(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(translate, ["model=nowhere"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: model=nowhere: no such folder")


def test_a_terminal_gets_a_prompt(model: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    script = "from nmt.commands.translate import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", script, f"model={model}"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.write(ours, b"a cat\n\x04")  # and Ctrl-D
    out, error = child.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert out.decode().split("\n")[:-1] == Translator.load(model).texts(["a cat"])
    assert error.decode().startswith("Type a line") and error.decode().count("> ") == 2
