"""``slots=`` translates with the first slots only, as a model that never had more would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import expect_error, write_lines
from commands.texts import Call

from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.commands.translate import translate
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.translator import Translator
from nmt.model.build import build_model
from nmt.settings.build import ModelSettings

LINES = ["the dog sees a cat", "a red house", "the small cat sleeps"]
USED = 2


@pytest.fixture(scope="module")
def small(nested: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model whose attention has only the first rows of the weights."""
    trained = load_folder(nested)
    config = trained.config | {"attention": trained.config["attention"] | {"slots": USED}}
    model = build_model(ModelSettings.of(config), source_vocabulary=300, target_vocabulary=300, longest_source=20)
    weights = trained.model.state_dict()
    model.load_state_dict({name: weights[name][:USED] if "attention.W" in name else weights[name] for name in weights})
    folder = tmp_path_factory.mktemp("small")
    save_folder(folder, replace(trained, model=model.eval(), config=config))
    return folder


def translations(folder: Path, **settings: Any) -> list[tuple[str, float]]:
    translator = Translator.load(folder, **settings)
    return [(best.text, round(best.score, 3)) for best in translator.translate(LINES)]


def test_first_slots_translate_as_a_model_with_cut_weights(nested: Path, small: Path) -> None:
    expected = translations(small, engine="torch")
    assert translations(nested, slots=USED) == expected
    assert translations(nested, slots=6) == translations(nested, engine="torch") != expected


@pytest.mark.thorough
def test_exported_graphs_have_the_chosen_slots(nested: Path, small: Path, tmp_path: Path) -> None:
    export([f"model={nested}", f"slots={USED}", "engine=onnx", f"output={tmp_path / 'deployed'}"])
    assert translations(tmp_path / "deployed") == translations(small, engine="torch")
    expect_error(
        r"slots=4: the number of slots of exported graphs is fixed; use engine=torch",
        Translator.load,
        tmp_path / "deployed",
        slots=4,
    )


def test_commands_use_the_chosen_slots(nested: Path, small: Path, files: Path, call: Call) -> None:
    write_lines("links", ["0-0", "", "0-0", "0-0"])
    models = ([f"model={small}"], [f"model={nested}", f"slots={USED}"])
    for command, words in (
        (translate, ["input=src"]),
        (evaluate, ["src=src", "tgt=tgt", "links=links", "json=true"]),
    ):
        expected, lines = (call(command, *model, *words, "engine=torch").lines for model in models)
        assert lines == expected
