"""A finished run is exported, and no failure of the export costs the run anything."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from builders import LUONG, save_random, tiny_config
from tiny import ONE_EPOCH

import nmt
from nmt.commands.train import train
from nmt.errors import Interrupted
from nmt.inference.model_folder import TrainedModel
from nmt.inference.onnx import export as exporter
from nmt.inference.onnx.model import OnnxModel, exported_engines
from nmt.model.decoder import LSTMDecoder
from nmt.text.tokenizer import Tokenizer
from nmt.training.run import export_run

TOKENIZER = Tokenizer.train(["a small dog sees red houses"], vocab_size=280)


@pytest.mark.thorough
def test_finished_run_translates_with_its_graphs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[nmt.Run] = []
    thread = threading.Thread(target=lambda: runs.append(nmt.train(*ONE_EPOCH, "export=true")))
    thread.start()
    thread.join()
    (result,) = runs
    assert exported_engines(result.folder) == ["onnx"]
    assert re.search(r"^exported in \d+\.\d s; export=false skips this$", capsys.readouterr().err, re.MULTILINE)
    translator = nmt.Translator.load(result.folder)
    assert isinstance(translator.loaded_model, OnnxModel)
    lines = ["ban des gin", "kor"]
    assert translator.texts(lines) == nmt.Translator.load(result.folder, engine="torch").texts(lines)


@pytest.mark.thorough
def test_failed_export_leaves_a_finished_run(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exporter, "write_graph", Mock(side_effect=RuntimeError("no such\noperator")))
    train([*ONE_EPOCH, "export=true", "trust=[builders]"])
    out, error = capsys.readouterr()
    command = f"nmt-export model={run.relative_to(Path.cwd())} 'trust=[builders]'"
    assert f"\nwarning: not exported: no such operator; repeat with: {command}\n" in error
    assert "translate with: nmt-translate" in out
    assert (run / "summary.json").exists() and not [*run.glob("*onnx*"), *run.glob(".onnx*")]


class OtherDecoder(LSTMDecoder):
    """A decoder that does not declare that it can be exported."""


def save_run(folder: Path, target: str) -> TrainedModel:
    decoder = {"_target_": target}
    config = tiny_config(LUONG, decoder=decoder) | {"trust": [__name__]}
    return save_random(folder, config, TOKENIZER)


def test_a_decoder_without_graphs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_run(save_run(tmp_path, f"{__name__}.OtherDecoder"), tmp_path, trust=[])
    message = f"not exported: {__name__}.OtherDecoder: nmt-export cannot export this decoder; use engine=torch"
    assert capsys.readouterr().err.splitlines()[1:] == [message]
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]


def test_interrupted_export_says_how_to_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exporter, "write_graph", Mock(side_effect=Interrupted(signal.SIGINT)))
    with pytest.raises(Interrupted):
        export_run(save_run(tmp_path, "nmt.model.LSTMDecoder"), tmp_path, trust=[])
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"export stopped; {tmp_path} has finished; export it with: nmt-export model={tmp_path}"
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]


def test_longer_training_repeats_the_last_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(exporter, "export", lambda *args, **kwargs: calls.append(kwargs))
    trained = save_run(tmp_path, "nmt.model.LSTMDecoder")
    export_run(trained, tmp_path, trust=[])
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "step.int8.onnx").touch()
    export_run(trained, tmp_path, trust=[])
    assert calls == [{"engines": ["onnx"]}, {"engines": ["onnx-int8"]}]
