"""nmt-train adapt=lora: the run stores an adapter only, resumes bit for bit, and every command can use it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
import torch
from builders import expect_error, write_parts
from safetensors.torch import load_file
from tiny import refuse, same_weights, stop_at, summary

from nmt import Translator
from nmt.commands.align import align
from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.commands.heatmap import heatmap
from nmt.commands.train import train
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.adapter_file import model_fingerprint
from nmt.inference.model_folder import load_folder
from nmt.search.options import SearchOptions

ADAPT = ["init_from=runs/demo", "adapt=lora", "adapt.rank=2", "name=b", "optimizer.lr=0.05", "schedule=constant"]
ADAPT += ["training.max_epochs=2", "training.decode_sentences=5", "search.max_length=8", "device=cpu", "threads=1"]
ADAPT += ["batches.max_tokens=300"]
QUICK = ["search.max_length=8", "search.beam_size=1", "threads=1", "device=cpu"]


@pytest.fixture(scope="session")
def adapted_once(tmp_path_factory: pytest.TempPathFactory, finished_once: Path) -> Path:
    """A folder with the runs ``demo`` and ``b``, an adapter. Only for copying."""
    with chdir(folder := tmp_path_factory.mktemp("adapted")):
        shutil.copytree(finished_once, folder / "runs" / "demo")
        train(ADAPT)
    return folder


@pytest.fixture
def runs(run: Path, adapted_once: Path) -> Path:
    """A copy of that folder, as the current one."""
    shutil.copytree(adapted_once, run.parents[1], dirs_exist_ok=True)
    return run.parent


@pytest.mark.thorough
def test_run_stores_only_its_adapter(runs: Path) -> None:
    assert not (runs / "b" / "model.pt").exists() and not (runs / "b" / "onnx").exists()
    tensors = load_file(runs / "b" / "adapter.safetensors")
    assert any(tensors[name].any() for name in tensors if name.endswith(".B"))
    model = load_folder(runs / "demo").model
    size = sum(2 * sum(weight.shape) for weight in model.parameters() if weight.ndim == 2)
    assert sum(tensor.numel() for tensor in tensors.values()) == size
    for file in (runs / "b" / "checkpoints").iterdir():
        stored = torch.load(file, weights_only=True)
        assert {name.rpartition(".")[2] for name in stored["state_dict"]} == {"A", "B"}
        averages = stored["optimizer_states"][0]["state"].values()
        assert sum(state["exp_avg"].numel() for state in averages) == size
    assert summary(runs / "b")["test"] is not None
    assert "- a low-rank update of rank 2 of a model, whose text and" in (runs / "b" / "card.md").read_text("utf-8")


@pytest.mark.thorough
def test_base_is_unchanged_and_the_folder_is_enough(runs: Path, finished_once: Path) -> None:
    assert (runs / "demo" / "model.pt").read_bytes() == (finished_once / "model.pt").read_bytes()
    lines = (runs / "b" / "test.source.txt").read_text().splitlines()
    kept = (runs / "b" / "test.translations.txt").read_text().splitlines()
    options = SearchOptions(max_length=8)
    assert Translator.load(runs / "b").texts(lines, options) == kept  # those of the report, which merged in memory
    assert Translator.load(runs / "demo").texts(lines, options) != kept


def test_interrupted_adapter_resumes_bit_for_bit_from_the_same_base(runs: Path) -> None:
    """With dropout, which the model of ``runs/demo`` has."""
    stop_at(12, [*ADAPT, "name=stopped"])
    assert Translator.load(runs / "stopped").translate(["ban"])
    resume = ["name=stopped", "resume=true"]
    changed = "^resume=true: adapt: not the same as when runs/stopped was started; rem"
    refuse([*resume, "init_from=runs/demo", "adapt=lora", "adapt.rank=3"], changed)
    base = shutil.move(runs / "demo" / "model.pt", "base.pt")
    shutil.copy(runs / "b" / "test.source.txt", runs / "demo" / "model.pt")
    refuse(resume, "^init_from=runs/demo: its model has changed since the run started; start a")
    shutil.copy(base, runs / "demo" / "model.pt")
    shutil.move(runs / "demo", runs / "moved")
    refuse(resume, "^init_from=runs/demo: no such folder; name a folder that nmt-train has finished")
    train([*resume, "init_from=runs/moved"])
    assert same_weights(*(load_file(runs / name / "adapter.safetensors") for name in ("stopped", "b")))
    assert Translator.load(runs / "stopped").translate(["ban"])


@pytest.mark.thorough
def test_adapter_of_an_adapter_and_a_complete_run_from_one(runs: Path) -> None:
    start = load_folder(runs / "b").model.state_dict()
    train([*ADAPT, "init_from=runs/b", "name=c", "optimizer.lr=1e-12", "training.max_epochs=1"])
    complete = [word for word in ADAPT if not word.startswith("adapt")]
    train([*complete, "init_from=runs/b", "name=d", "training.max_epochs=1", "export=false"])
    model = load_folder(runs / "c").model.state_dict()
    assert all(torch.allclose(model[name], start[name], atol=1e-6) for name in start)
    assert (runs / "d" / "model.pt").is_file()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["adapt=lora"], "adapt: needs a trained model, whose matrices it updates; add init_from=FOLDER"),
        (["rank=9"], "adapt.rank=9: larger than the shorter side of every matrix in encoder, decoder, attention, emb"),
        (["to=[]"], "adapt.to=[]: no matrices to adapt there; add another part of encoder, decoder, attention, emb"),
        (["encoder.hidden_size=6"], "encoder.hidden_size=6: differs from the model in init_from=runs/demo, which an "),
        (["data.lowercase=true"], "data.lowercase=True: differs from the model in init_from=runs/demo, which an adap"),
        (["attention.slots=2"], "attention.slots=2: differs from the model in init_from=runs/demo, which an adapter c"),
    ],
)
def test_wrong_setting_is_refused(finished: Path, words: list[str], problem: str) -> None:
    given = [f"adapt.{word}" if word.startswith(("rank", "to")) else word for word in words]
    with pytest.raises(UserError, match=f"^{re.escape(problem)}") as caught:
        train(given if words == ["adapt=lora"] else [*ADAPT, *given])
    assert len(caught.value.problems) == 1 and not (finished.parent / "b").exists()


def test_every_command_uses_the_adapter(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (runs / "b" / "test.source.txt").read_text().splitlines()
    pairs = list(zip(lines, lines[::-1], strict=True))
    write_parts(Path(), {"in": pairs})
    base, adapted = (Translator.load(runs / name) for name in ("demo", "b"))
    both = ["model=runs/b", "src=in.src", "tgt=in.tgt", "threads=1"]

    def output(command: Callable[[list[str]], None], *arguments: str) -> str:
        capsys.readouterr()
        command([*arguments])
        return capsys.readouterr().out

    scored = [*QUICK, "scores=true"]
    outputs = [output(translate, f"model=runs/{name}", *scored, "input=in.src") for name in ("b", "demo")]
    assert outputs[0] != outputs[1]

    assert [d.log_prob for d in adapted.score(pairs)] != [d.log_prob for d in base.score(pairs)]
    links = [sorted(f"{i}-{j}" for i, j in links) for links in adapted.align(pairs)]
    assert [sorted(line.split()) for line in output(align, *both).splitlines()] == links

    expected = adapted.evaluate(lines, lines[::-1], SearchOptions(beam_size=1, max_length=8))
    assert json.loads(output(evaluate, *both, *QUICK, "json=true"))["chrf"] == expected.chrf
    heatmap([*both, "output=pictures", "limit=1"])
    assert [file.suffix for file in Path("pictures").glob("[!.]*")] == [".png"]


@pytest.mark.thorough
def test_export_merges_the_adapter(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect_error("model=runs/b: graphs with an adapter need a new folder; add output=FOLDER", export, ["model=runs/b"])
    export(["model=runs/b", "output=deployed", "engine=onnx"])
    assert json.loads(Path("deployed/about.json").read_text())["model"] == model_fingerprint(runs / "b")
    outputs = []
    for model in ("deployed", "runs/b", "runs/demo"):
        capsys.readouterr()
        translate([f"model={model}", *QUICK, "input=runs/b/test.source.txt"])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
