"""``nmt-compare`` from training to the report, on two tiny models."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import sacrebleu
import yaml
from builders import call_before, expect_error, write_lines, write_parts

from nmt.alignment.aer import alignment_error_rate
from nmt.commands.compare import compare
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.comparison import models, speed
from nmt.comparison.alignments import slot_weights
from nmt.comparison.figures import draw_lengths
from nmt.comparison.measures import Column, Difference, Measurements
from nmt.comparison.models import (
    FinishedRun,
    choose_baseline,
    differing_settings,
    group_runs,
    read_run,
    read_test_set,
)
from nmt.comparison.page import comparison_page, latex, markdown, table_of
from nmt.comparison.results import Row, _paired_run, best_models
from nmt.comparison.wording import describe_budget, explain_conditions, summarise
from nmt.comparison.worker import measure
from nmt.data.links import parse_links
from nmt.errors import UserError
from nmt.inference.forced_decoding import force_decode
from nmt.inference.scores import corpus_scores
from nmt.inference.translator import Translator
from nmt.training import run as training_run

pytestmark = pytest.mark.thorough

SMALL = [
    *("data.train_pairs=40", "data.valid_pairs=4", "data.test_pairs=3", "tokenizer.vocab_size=400"),
    *("embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8", "training.max_epochs=1"),
    *("training.decode_sentences=2", "search.max_length=6", "device=cpu", "threads=1"),
]
TIMED = ["engines=[torch]", "beams=[1,2]", "rounds=1", "examples=1"]
COMMAND = ["attention=luong,memory", "name=report", *SMALL, *TIMED, "baseline=memory"]
REPORT = Path("runs/report")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a comparison has finished. Only for reading, or for calls that train nothing."""
    with chdir(folder := tmp_path_factory.mktemp("compared")):
        compare(COMMAND)
    return folder


@pytest.fixture
def report(compared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to that folder and return the folder of the report."""
    monkeypatch.chdir(compared)
    return compared / REPORT


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure no times."""
    monkeypatch.setattr(speed, "run_worker", fake_worker([]))


def table(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


def lines(run: Path, name: str) -> list[str]:
    return (run / name).read_text("utf-8").splitlines()


def refuse(words: list[str], message: str) -> None:
    """Assert that comparing with these arguments is an error of one line that matches the message."""
    with pytest.raises(UserError, match=message) as caught:
        compare(words)
    assert len(caught.value.problems) == 1 and "\n" not in str(caught.value)


def other_seed(run: Path, folder: Path) -> Path:
    """Copy a run as if another seed had given other translations and links."""
    shutil.copytree(run, folder)
    config = folder / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("\nseed: 1\n", "\nseed: 2\n"), encoding="utf-8")
    shorter = (" ".join(line.split()[:4]) for line in lines(run, "test.references.txt"))
    write_lines(folder / "test.translations.txt", shorter)
    summary = json.loads((run / "summary.json").read_text())
    summary["test"]["aer"] = 0.25
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def test_rows_are_the_scores_of_the_runs(report: Path, tmp_path: Path, timed: None) -> None:
    first = report / "attention=luong"
    runs = [first, other_seed(first, tmp_path / "second")]
    models = f"models=[runs/report,{runs[1]}]"
    compare([models, f"runs={tmp_path}", "name=table", "engines=[torch]", "examples=0", "rounds=1", "baseline=memory"])
    rows = table(tmp_path / "table")
    assert [*rows] == ["luong", "memory"]
    row = rows["luong"]
    assert (row["n"], row["folders"]) == ("2", f"{REPORT}/{first.name} {runs[1]}")
    texts = [(lines(run, "test.translations.txt"), lines(run, "test.references.txt")) for run in runs]
    scores = [corpus_scores(*pair).chrf for pair in texts]
    assert scores[0] != scores[1]
    assert float(row["chrf_mean"]) == pytest.approx(np.mean(scores))
    assert float(row["chrf_sd"]) == pytest.approx(np.std(scores, ddof=1))
    written, gold = (lines(first, f"test.{kind}.links.txt") for kind in ("references", "gold"))
    rate = alignment_error_rate([pair.possible for pair in parse_links(written, "")], parse_links(gold, ""))
    assert float(row["aer_mean"]) == pytest.approx((rate + 0.25) / 2)
    assert float(row["updates_mean"]) == json.loads((first / "summary.json").read_text())["updates"]
    deltas = [corpus_scores(*pair).chrf - float(rows["memory"]["chrf_mean"]) for pair in texts]
    assert [float(delta) for delta in row["chrf_delta"].split()] == pytest.approx(deltas, rel=1e-3)
    untranslated = corpus_scores(lines(first, "test.source.txt"), texts[0][1]).bleu  # what the fake worker returns
    assert float(row["bleu_torch_beam_5_mean"]) == pytest.approx(untranslated)
    count = len(texts[0][0])
    buckets = sum(key.startswith("bleu_length_") and key.endswith("_mean") for key in row)
    assert float(row["sentences_per_s_torch_beam_5_mean"]) == pytest.approx(count / (0.1 * buckets))
    assert (rows["memory"]["n"], rows["memory"]["chrf_sd"], rows["memory"]["bleu_p"]) == ("1", "", "")
    assert len(row["chrf_p"].split()) == 2


def test_entropy_and_slots_agree_with_forced_decoding(report: Path) -> None:
    folders = [report / f"attention={kind}" for kind in ("memory", "luong")]
    memory, luong = (Translator.load(folder, engine="torch") for folder in folders)
    pairs = lines(folders[0], "test.source.txt"), lines(folders[0], "test.references.txt")
    entropies = []
    for source, target, decoding in zip(*pairs, force_decode(memory, *pairs), strict=True):
        slots = slot_weights(memory, source, target)
        assert slots is not None
        np.testing.assert_allclose(slots.read @ slots.write, decoding.alignment, rtol=1e-4)
        assert slot_weights(luong, source, target) is None  # it writes the states themselves
        for weights in decoding.alignment:
            shares = [abs(float(weight)) / float(np.abs(weights).sum()) for weight in weights]
            entropies.append(-sum(share * math.log(share) for share in shares if share))
    row = table(report)["memory"]
    assert float(row["entropy_mean"]) == pytest.approx(np.mean(entropies), rel=1e-5)
    assert float(row["parameters_mean"]) == sum(weight.numel() for weight in memory.trained.model.parameters())
    for beam in (1, 2):
        assert float(row[f"sentences_per_s_torch_beam_{beam}_mean"]) > 0


def test_second_call_measures_and_trains_nothing(report: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    before = (report / "report.html").read_text("utf-8")
    forbidden = Mock(side_effect=AssertionError("measured or trained again"))
    with monkeypatch.context() as patch:
        for name in ("training.run.fit", "comparison.speed.run_worker", "comparison.alignments.force_decode"):
            patch.setattr(f"nmt.{name}", forbidden)
        compare(COMMAND)
        output = capsys.readouterr()
        assert "0 new measurements" in output.err
        assert f"{REPORT}/report.html" in output.out
        assert (report / "report.html").read_text("utf-8") == before
    # Speed depends on the number of threads, training does not.
    monkeypatch.setattr("nmt.training.run.fit", forbidden)
    monkeypatch.setattr(speed, "run_worker", fake_worker([]))
    compare([*(word for word in COMMAND if word != "threads=1"), "threads=2", "runs=runs"])
    assert "has finished already" in capsys.readouterr().err


def run_of(
    folder: object, summary: Mapping[str, Any] | None = None, *, weights: str = "", **config: Any
) -> FinishedRun:
    """Return a run in a folder that does not exist, with this summary, configuration and fingerprint."""
    run = FinishedRun(Path(str(folder)), config, dict(summary or {}))
    vars(run)["fingerprint"] = weights
    return run


def fake_worker(calls: list[str], *, stop_at: int = 99) -> Any:
    def run_worker(job: Any) -> dict[str, Any]:
        if len(calls) == stop_at:
            calls.append("stop")
            raise KeyboardInterrupt
        calls.append(f"{Path(job['model']).name} {job['beams']}")
        timed = {"seconds": [0.1] * len(job["groups"]), "texts": job["groups"]}
        return {"memory_mb": None, "beams": {str(beam): dict(timed) for beam in job["beams"]}}

    return run_worker


def test_interrupted_comparison_continues_and_a_changed_setting_is_measured(
    report: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    words = ["models=[runs/report]", "name=again", "rounds=2", "engines=[torch]", "examples=0"]
    words += ["device=cpu", "threads=1"]
    calls: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(speed, "run_worker", fake_worker(calls, stop_at=3))
        with pytest.raises(KeyboardInterrupt):
            compare([*words, "beams=[1]"])
    assert "stopped; measurements so far are in runs/again; repeat the command to continue" in capsys.readouterr().err
    assert not Path("runs/again/report.html").exists()
    monkeypatch.setattr(speed, "run_worker", fake_worker(calls))
    compare([*words, "beams=[1]"])
    # In turns; the second round in the opposite order.
    kinds = [call.partition("attention=")[2].partition(" ")[0] for call in calls]
    assert kinds == ["luong", "memory", "memory", "", "luong"]
    compare([*words, "beams=[3]"])
    assert [call[-3:] for call in calls[5:]] == ["[3]"] * 4
    assert table(Path("runs/again"))["memory"]["memory_mb_torch_mean"] == ""


def prepared_run(seed: int, checksum: int) -> FinishedRun:
    data = {"_target_": "nmt.data.sources.PreparedData"}
    return run_of(f"text{checksum}", {"text_checksum": checksum}, seed=seed, data=data)


@pytest.mark.parametrize(
    ("runs", "groups"),
    [
        (
            [run_of("a", seed=2, name="x", threads=2), run_of("b", seed=1, slots=3), run_of("a", seed=1, name="y")],
            {"a": [1, 2], "b": [1]},
        ),
        ([run_of("x/a", seed=1), run_of("y/a", seed=1, precision="bf16")], {"x/a": [1], "y/a": [1]}),
        (  # other code or another machine
            [run_of("a", seed=1, weights="1"), run_of("b", seed=2), run_of("c", seed=1, weights="2")],
            {"a": [1, 2], "c": [1]},
        ),
        ([prepared_run(1, 1), prepared_run(2, 2), prepared_run(3, 1)], {"text1": [1, 3], "text2": [2]}),
        ([run_of("a", {"text_checksum": seed}, seed=seed, data={}) for seed in (1, 2)], {"a": [1, 2]}),
        ([run_of("attention=b,attention.slots=8,seed=3", seed=3)], {"b, attention.slots=8": [3]}),
        ([run_of(".", {"attention": "LuongAttention"}, seed=3)], {"Luong": [3]}),
    ],
)
def test_runs_that_differ_in_their_seed_are_one_model(runs: list[FinishedRun], groups: dict[str, list[int]]) -> None:
    assert {model.label: [run.config["seed"] for run in model.runs] for model in group_runs(runs)} == groups


def test_copy_of_a_run_is_refused() -> None:
    with pytest.raises(UserError, match=r"^models=b: is a copy of a; remove one of them$"):
        group_runs([run_of("a", seed=1), run_of("b", seed=1)])


@pytest.mark.parametrize(
    "baseline", ["runs/report/attention=memory", "runs/../runs/report/attention=memory/", "memory"]
)
def test_baseline_may_be_any_path_of_a_run(report: Path, baseline: str) -> None:
    models = group_runs([read_run(report / f"attention={kind}") for kind in ("luong", "memory")])
    assert choose_baseline(models, baseline).label == "memory"
    assert choose_baseline(models, None).label == "luong"


NAMES = [
    *(
        "a_b",
        "50%",
        "x & y",
        "$5$",
        "#1",
        "{z}",
        "^~",
        "back\\slash",
        "<b>|",
        "two\nlines",
        "日本語",
        "a*b*`c`",
        "[x]",
        "*x",
    )
]


@pytest.mark.parametrize("name", NAMES)
def test_tables_for_papers_escape_names(name: str) -> None:
    rows = [Row(name, [], {"bleu": [20.0], "repetition": [0.1]}, {}), Row("b", [], {"bleu": [30.0]}, {})]
    columns = [Column("bleu", "BLEU", ".2f"), Column("repetition", "repetition", ".2%")]
    table = table_of("Quality", rows, columns, baseline=name, best={"bleu": "b"})
    tex, md = latex([table], "report_1"), markdown([table], "<b>_1")
    row = next(line for line in tex if "10.00" in line)
    bare = re.sub(r"\\[&%$#_{}]|\\text\w+\{\}|\\\\$|\$[+-]?[\d.]+\$|\$\\pm\$", "", row)
    bare = re.sub(r"\{[*\[]\}", "", bare)
    assert not row.startswith(("[", "*"))  # arguments of the \\ before
    assert bare.count("&") == len(table.columns) - 1 and not re.search(r"[%$#_^~|<>{}\\]", bare)
    assert tex[0] == r"% \usepackage{booktabs}" and r"\textbf{30.00}" in "\n".join(tex)
    assert r"\caption{report\_1: Quality}" in tex and row.endswith(r"\\")
    assert md[0] == r"# \<b\>\_1"
    cells = [line for line in md if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in cells} == {len(table.columns) + 1}
    assert "| **30.00** |" in cells[-1] and len(cells) == 4


@pytest.mark.parametrize(
    ("bleu", "p", "best"),
    [([20.0, 30.0, 25.0], 0.01, {"bleu": "m1"}), ([20.0, 30.0, 29.9], 0.4, {}), ([0.2, 0.9, 0.3], 0.001, {})],
)
def test_only_a_significantly_better_model_is_marked(
    bleu: list[float], p: float, best: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = [run_of(f"m{number}", seed=1) for number in range(3)]
    tests = [{}, *({"bleu": [Difference(score - bleu[0], 0.001)]} for score in bleu[1:])]
    rows = [Row(f"m{i}", [runs[i]], {"bleu": [bleu[i]]}, tests[i]) for i in range(3)]

    def differences(run: FinishedRun, other: FinishedRun, *_: Any) -> dict[str, Difference]:
        return {"bleu": Difference(bleu[runs.index(run)] - bleu[runs.index(other)], p)}

    monkeypatch.setattr("nmt.comparison.results._differences", differences)
    monkeypatch.setattr("nmt.comparison.results.TESTED", ("bleu",))
    assert best_models(rows, models.TestSet([], [], None), Measurements(tmp_path)) == best


def test_page_needs_no_other_file(report: Path) -> None:
    text = (report / "report.html").read_text("utf-8")
    places = re.findall(r'\b(?:src|href|srcset|data|action)="([^"]*)"', text)
    assert places and all(place.startswith("data:image/png;base64,") for place in places)
    assert {"script", "link", "iframe", "object", "embed"}.isdisjoint(re.findall(r"<(\w+)", text))
    assert not re.search(r"url\(|@import|https?:", text)
    for name in ("learning-curves", "pareto", "lengths", "alignments-1", "slots-1", "slot-colours-1"):
        for form in ("png", "svg", "pdf"):
            assert (report / "figures" / f"{name}.{form}").is_file()


def test_page_escapes_text_and_marks_significant_differences() -> None:
    def row(label: str, *tests: Difference) -> Row:
        return Row(label, [], {"bleu": [20.0, 22.0]}, {"bleu": [*tests]} if tests else {})

    tests = {
        "up": [Difference(2.0, 0.01), Difference(4.0, 0.04)],
        "same": [Difference(0.0, 0.001)],
        "mixed": [Difference(4.0, 0.001), Difference(-2.0, 0.001)],
        "worse": [Difference(-4.0, 0.001), Difference(-2.0, 0.001)],
    }
    rows = [row("<b>&"), *(row(label, *differences) for label, differences in tests.items())]
    quality = table_of("<u>", rows, [Column("bleu", "BLEU", ".2f")], baseline="<b>&", best={"bleu": "up"})
    text = comparison_page("<i>", [("", ["a & <b>", quality]), ("<u>", [[("<p1>", "x")]])])
    assert text.count('class="best"') == 1
    for tag in ("<i>", "<b>", "<u>", "<p1>"):
        assert tag not in text
    assert "&lt;b&gt;&amp;" in text
    assert "+3.00* (0.010, 0.040)" in text
    assert "+0.00 (0.001)" in text  # equal systems are not better
    assert "+1.00 (0.001, 0.001)" in text and "-3.00* (0.001, 0.001)" in text  # a star needs one direction
    assert "21.00" in text and "± 1.41" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["models=[runs/none]"], "models=runs/none: no such folder; name folders that nmt-train has finished"),
        (["models=[runs/report]", "attention=luong"], "attention=luong: has no effect with models=, which trains"),
        (["models=[runs/report]", "baseline=kernel"], "baseline=kernel: not one of the compared models; choose one"),
        (["models=[runs/report]", "beams=[1,1]"], "beams=[1,1]: names a value twice; remove one"),
        (["models=[runs/report]", "name=a/b"], "name=a/b: must be the name of a folder"),
        ([], "models=null: nothing to compare"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_folder(report: Path, words: list[str], message: str) -> None:
    refuse(["name=bad", *words], re.escape(message))
    assert not Path("runs/bad/report.html").exists() and not Path("runs/bad/measurements").exists()


def set_value(key: str, value: Any) -> Callable[[Path], None]:
    """Return a function that sets a value of config.yaml or summary.json, such as ``config.yaml:seed``."""

    def change(folder: Path) -> None:
        file, _, keys = key.partition(":")
        tree = part = yaml.safe_load((folder / file).read_text("utf-8"))
        *parents, last = keys.split(".")
        for name in parents:
            part = part[name]
        part[last] = value
        (folder / file).write_text(json.dumps(tree), encoding="utf-8")  # JSON is YAML

    return change


def set_text(text: str, *names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / f"test.{name}.txt").write_text(text) for name in names] and None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "summary.json").unlink(), "has not finished"),
        (lambda folder: (folder / "model.pt").unlink(), "has no model.pt"),
        (set_text("x\n" * 3, "references"), "has another test set than"),
        (set_text("x\n", "translations"), "1 translation of 3 sources"),
        (set_text("0-0\n" * 3, "gold.links"), "has other gold links than"),
        (set_value("config.yaml:search", "fast"), "config.yaml is damaged"),
        (set_value("summary.json:test", [1]), "was trained without a test set"),
        (set_value("summary.json:test.aer", {}), "summary.json is damaged"),
        (set_value("summary.json:averaged_epochs", 3), "summary.json is damaged"),
    ],
)
def test_runs_that_cannot_be_compared_are_named(
    report: Path, tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    folder = shutil.copytree(report / "attention=luong", tmp_path / "run")
    change(folder)
    refuse([f"models=[runs/report,{folder}]", "name=bad"], f"^models={folder}: .*{message}")


def test_empty_test_set_is_refused(report: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(report / "attention=luong", tmp_path / "empty")
    set_text("", "source", "references", "translations")(folder)
    message = f"^models={folder}: its test set is empty; train with another one$"
    refuse([f"models=[{folder}]", "name=bad"], message)


def test_damaged_measurement_is_measured_again(tmp_path: Path) -> None:
    key, store = {"kind": "speed", "beams": (1, 2)}, Measurements(tmp_path)
    assert store.measure(key, lambda: {"a": [1]}) == {"a": [1]} == store.measure(key, lambda: 2)
    (file,) = (tmp_path / "measurements").iterdir()
    for text in ("", "[]", '{"key": {}, "result": 3}'):
        file.write_text(text)
        assert store.measure(key, lambda text=text: text) == text == store.measure(key, lambda: 2)
    assert store.measure({**key, "beams": [1]}, lambda: 3) == 3 and store.measured == 5


def test_worker_translates_as_the_translator(report: Path) -> None:
    groups = [["a dog", "a small dog"], ["dog dog dog"]]
    job = {"model": f"{report}/attention=luong", "engine": "torch", "device": "cpu", "threads": 1, "trust": []}
    job |= {"beams": [1, 3], "groups": groups, "search": {"length_penalty": 1.0, "max_length": 5}}
    in_process, alone = measure(job), speed.run_worker(job)
    assert [*alone["beams"]] == ["1", "3"]
    for beam, timed in alone["beams"].items():
        assert timed["texts"] == in_process["beams"][beam]["texts"]
        assert len(timed["seconds"]) == len(groups)
    expect_error("has no model.pt|no such folder", speed.run_worker, {**job, "model": f"{report}/missing"})


def test_worker_translates_several_lines_and_one_before_the_clock_starts(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    call_before(monkeypatch, Translator, "texts", lambda _, lines, *__, **___: events.append(len(lines)))
    clock = SimpleNamespace(perf_counter=lambda: float(len(events.append("clock") or events)))
    monkeypatch.setattr("nmt.comparison.worker.time", clock)
    job = {"model": f"{report}/attention=luong", "engine": "torch", "device": "cpu", "threads": 1, "trust": []}
    measure({**job, "beams": [1], "groups": [["a dog"], ["a cat", "a red cat"]], "search": {}})
    assert events == [2, 1, "clock", 1, "clock", "clock", 2, "clock"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import os; from nmt.comparison.worker import end_with_parent\n"
        "parent = os.getppid(); print(parent, flush=True); end_with_parent(parent)"
    )
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    with subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.kill()
        assert parent.stdout.read() == ""  # returns when the worker, the last writer, has ended


def test_failed_runs_are_left_out_and_named(
    report: Path, timed: None, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def diverge(config: Any, *_: Any, **__: Any) -> None:
        if config.attention["_target_"].endswith("MemoryAttention"):
            raise UserError("loss=nan: training cannot continue")

    call_before(monkeypatch, training_run, "fit", diverge)
    words = ["attention=luong,memory", "name=partial", *SMALL, *TIMED]
    failure = "^1 of 2 jobs failed; repeat the command to run them again\n.*memory: loss=nan"
    with pytest.raises(UserError, match=failure):
        compare([*words, "baseline=memory"])
    assert not Path("runs/partial/report.html").exists()  # without the baseline
    with pytest.raises(UserError, match=failure):
        compare(words)
    page = Path("runs/partial/report.html").read_text("utf-8")
    assert "Left out, because they have not finished: runs/partial/attention=memory." in page
    assert [*table(Path("runs/partial"))] == ["luong"]
    compare(["models=[runs/partial]", "name=given", *TIMED])
    assert "runs/partial/attention=memory: has not finished, so it is left out" in capsys.readouterr().err
    assert [*table(Path("runs/given"))] == ["luong"]


def test_missing_test_set_is_found_before_training(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.training.run.fit", lambda *_, **__: pytest.fail("trained"))
    files = write_parts(tmp_path, dict.fromkeys(("train", "valid"), [("a small dog sees a cat",) * 2] * 20))
    words = [word for word in SMALL if not word.startswith(("data.", "tokenizer."))]
    words += ["attention=luong,memory", "name=untested", *TIMED]
    missing = "^data.test.src=null: must be given, as data.test.src=FILE$"
    refuse([*words, "data=text", *files, "tokenizer.vocab_size=280"], missing)
    prepare([f"output={tmp_path}/prepared", *files, "tokenizer.vocab_size=280"])
    missing = "^data.folder=.*prepared: has no test.arrow; prepare the text again and add"
    refuse([*words, "data=prepared", f"data.folder={tmp_path}/prepared"], missing)


def test_report_counts_runs_once_and_explains_missing_examples_and_times(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "run_worker", Mock(side_effect=UserError("out of <memory>")))
    monkeypatch.setattr("nmt.comparison.report.LONGEST_EXAMPLE", 1)
    places = [report / "attention=luong", (report / "attention=luong").resolve()]
    compare([f"models=[{places[0]},{places[1]}]", "name=twice", *TIMED])
    assert table(Path("runs/twice"))["luong"]["n"] == "1"
    text = Path("runs/twice/report.html").read_text("utf-8")
    assert "None is drawn: every test source has more than" in text
    assert "<dt>not timed: luong, torch</dt><dd>out of &lt;memory&gt;</dd>" in text


def test_report_names_a_run_whose_name_is_not_utf_8(report: Path) -> None:
    named = report.with_name(os.fsdecode(b"n\xe9"))
    shutil.copytree(report / "attention=luong", named)
    compare([f"models=[{named},{report}/attention=memory]", "name=bytes", *TIMED])
    assert r"| n\\udce9 |" in Path("runs/bytes/report.md").read_text("utf-8")
    assert table(Path("runs/bytes"))[r"n\udce9"]["folders"] == str(named).replace("\udce9", r"\udce9")


def row_of(label: str, updates: dict[int, int | None], **training: Any) -> Row:
    """A row whose runs, by seed, made these updates; None: unknown."""
    runs = [
        run_of(f"{label}-{seed}", {"updates": count}, seed=seed, training=training) for seed, count in updates.items()
    ]
    return Row(label, runs, {"updates": [float(count) for count in updates.values() if count is not None]}, {})


@pytest.mark.parametrize(
    ("updates", "training", "text"),
    [
        ([{1: 8, 2: 8}, {1: 8}], {}, "Budget: 8 updates each."),
        ([{1: 8, 2: 9}, {1: 8, 2: 9}], {}, "Budget: the same updates for each seed, 8 to 9."),
        ([{1: 8, 2: 9}, {1: 9, 2: 8}], {}, "The budgets differ, so the scores are not comparable. Updates:"),
        ([{1: 8, 2: None}, {1: 8}], {}, "The budgets differ, so the scores are not comparable. Updates:"),
        ([{1: 8}, {1: 9}], {"max_minutes": 5}, "Budget: 5 minutes each (training.max_minutes). Updates: 0 8; 1 9."),
    ],
)
def test_budgets_are_equal_if_they_are_equal_for_each_seed(updates: Any, training: Any, text: str) -> None:
    rows = [row_of(str(number), counts, **training) for number, counts in enumerate(updates)]
    assert describe_budget(rows).startswith(text)
    assert "Not counted" not in describe_budget(rows)
    rows[1].runs[0].config["init_from"] = "runs/old"  # type: ignore[index]
    assert describe_budget(rows).endswith(" Not counted: updates of the models that init_from= named for 1.")


def test_differing_settings_are_listed() -> None:
    shared = {"seed": 1, "precision": "bf16"}
    runs = {
        "a": run_of("a", **shared, attention={"slots": 4, "read": None}, name="a"),
        "b": run_of("b", **shared, attention={"read": True}, name="b"),
    }
    expected = {"a": ["attention.slots=4", "attention.read=null"], "b": ["attention.read=true"]}
    assert differing_settings(runs) == expected


def with_chinese_test_set(run: Path, folder: Path, tokenizer: str = "null") -> Path:
    """Copy a run as if it had been trained to translate into Chinese, and scored with this tokenizer."""
    shutil.copytree(run, folder)
    references = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。", "他在学校里学习德语和英语。"]
    write_lines(folder / "test.references.txt", references)
    write_lines(folder / "test.translations.txt", [line[:4] + line[5:] for line in references])
    (folder / "test.gold.links.txt").unlink()
    config = folder / "config.yaml"
    text = config.read_text("utf-8").replace("  tokenizer: null\n", f"  tokenizer: {tokenizer}\n")
    config.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.filterwarnings("ignore:no installed font has", "ignore:target text")  # the model has seen no Chinese
def test_all_scores_of_a_comparison_have_the_tokenizer_of_the_language(report: Path, tmp_path: Path) -> None:
    runs = [with_chinese_test_set(report / f"attention={name}", tmp_path / name) for name in ("luong", "memory")]
    (runs[1] / "test.translations.txt").write_text("我喜欢散步。\n今天天气好。\n他学习。\n", encoding="utf-8")
    references = lines(runs[0], "test.references.txt")
    compare([f"models=[{runs[0]},{runs[1]}]", f"runs={tmp_path}", "name=zh", *TIMED])
    rows = table(tmp_path / "zh")
    scores = []
    for run in runs:
        score = sacrebleu.corpus_bleu(lines(run, "test.translations.txt"), [references], tokenize="zh")
        assert float(rows[run.name]["bleu_mean"]) == pytest.approx(score.score) and score.score > 0
        assert float(rows[run.name]["length_ratio_mean"]) == pytest.approx(score.sys_len / score.ref_len)
        scores.append(score.score)
    assert float(rows["memory"]["bleu_delta"]) == pytest.approx(scores[1] - scores[0], abs=1e-2)
    assert "|tok:zh|" in (tmp_path / "zh" / "report.html").read_text("utf-8")


def test_runs_with_other_tokenizers_need_one_for_all(report: Path, tmp_path: Path) -> None:
    first = with_chinese_test_set(report / "attention=luong", tmp_path / "a")
    other = with_chinese_test_set(report / "attention=memory", tmp_path / "b", "char")
    message = r"b: was scored with evaluation\.tokenizer=char, but .*a with zh; add evaluation"
    refuse([f"models=[{first},{other}]", "name=bad"], message)
    runs = [read_run(first), read_run(other)]
    assert read_test_set(runs, "char").tokenizer == "char"
    same = with_chinese_test_set(report / "attention=memory", tmp_path / "c", "zh")  # what null chooses too
    assert read_test_set([read_run(first), read_run(same)]).tokenizer == "zh"


def test_bars_are_sample_deviations_and_one_run_has_none() -> None:
    rows = [Row("three", [], {"b": [1.0, 2.0, 3.0], "t": [1.0]}, {}), Row("_one", [], {"b": [2.0], "t": [2.0]}, {})]
    columns = [[Column("b", "BLEU", ".2f")], [Column("t", "ms", ".2f")]]
    figure = draw_lengths(rows, ["1–9"], *columns, "torch")
    axes = figure.axes[0]
    bars = [container.lines[2][0].get_segments() for container in axes.containers]  # type: ignore[attr-defined]
    assert bars[0][0][:, 1].tolist() == [1.0, 3.0]
    assert all(np.isnan(bar).any() or not bar.size for bar in bars[1])
    legend = figure.axes[1].get_legend()
    assert [text.get_text().strip() for text in legend.get_texts()] == ["three", "_one"]


def test_adapters_are_compared_with_their_model(report: Path) -> None:
    base = report / "attention=luong"
    words = [f"init_from={base}", "adapt=lora", "adapt.rank=2", "training.max_epochs=1", "training.decode_sentences=2"]
    train([*words, "name=adapter", "search.max_length=6", "device=cpu", "threads=1"])
    compare([f"models=[{base},runs/adapter]", "name=adapters", "engines=[torch,onnx]", "beams=[1]", "rounds=1"])
    row = table(Path("runs/adapters"))["adapter"]
    assert float(row["sentences_per_s_torch_beam_1_mean"]) > 0
    assert float(row["sentences_per_s_onnx_beam_1_mean"]) > 0


def test_runs_are_paired_by_their_seeds_or_else_by_their_places() -> None:
    first, *others = runs = [run_of(seed, seed=seed) for seed in (1, 2, 3)]
    assert [_paired_run(run_of("x", seed=seed), runs, 0) for seed in (3, 2, 1)] == runs[::-1]
    other = run_of("x", seed=9)
    assert [_paired_run(other, runs, index) for index in range(5)] == [first, *others, first, first]


def test_conditions_say_which_weights_each_run_kept() -> None:
    cases = [
        (None, {"kept_epoch": 4}, "0 (epoch 4)"),
        (None, {"kept_epoch": 4, "averaged_epochs": [3, 5]}, "1 (mean of epochs 3, 5)"),
        (None, {}, "2"),
        (0.9, {"kept_epoch": 2}, "3 (epoch 2, moving average of the weights with decay 0.9)"),
    ]
    rows = [
        Row(str(number), [run_of(number, summary, training={"ema_decay": decay})], {}, {})
        for number, (decay, summary, _) in enumerate(cases)
    ]
    machine = {"processor": "p", "threads": 1, "device": "cpu", "system": "s"}
    conditions = {"machine": machine, "versions": {}, "toolkit": "1"}
    facts = dict(explain_conditions(rows, conditions, "nmt-compare"))
    for number, (*_, text) in enumerate(cases):
        assert facts[str(number)].partition(";")[0] == text


@pytest.mark.parametrize("threads", [[1, 1, None], [1, 2, 2]])
def test_runs_of_different_machines_are_named(threads: list[int | None]) -> None:
    runs = [run_of(number, {"machine": {"threads": count}} if count else None) for number, count in enumerate(threads)]
    lines = summarise([Row("a", runs[:1], {}, {}), Row("b", runs[1:], {}, {})], "a", 1000, [])
    expected = "Trained on different machines, so training times are not comparable: threads 1; threads 2."
    assert lines[2:] == [expected] * (2 in threads)


@pytest.mark.parametrize("words", [[], ["training.patience=2"], ["training.max_minutes=3"]])
def test_runs_stop_early_only_on_request(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("nmt.commands.sweep.sweep", sweep)
    with pytest.raises(KeyboardInterrupt):
        compare(["attention=none,luong", "name=report", *words])
    assert ("training.patience=null" in sweep.call_args.args[0]) is (not words)


@pytest.mark.parametrize(("beams", "strength"), [([1, 3], 0.0), ([3], 0.2)])
def test_all_beam_sizes_have_the_same_coverage_penalty(
    beams: list[int], strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy search has none."""
    worker = Mock(return_value={"beams": {}})
    monkeypatch.setattr(speed, "run_worker", worker)
    options: Any = SimpleNamespace(beams=beams, device="cpu", threads=1, trust=[])
    timing = speed.Timing(options, models.TestSet(["x"], ["y"], None), [[0]], {})
    run = run_of("a", search={"coverage_penalty": 0.2})
    speed._measure(run, "torch", timing, lambda run: run.folder, "")
    (job,) = worker.call_args.args
    assert job["search"]["coverage_penalty"] == strength
