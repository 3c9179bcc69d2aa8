"""``slots=`` translates with the first slots only, as a model that never had more would."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.commands.encode import encode
from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.commands.translate import translate
from nmt.errors import UserError
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
    with pytest.raises(UserError, match=r"slots=4: the number of slots of exported graphs is fixed; use engine=torch"):
        Translator.load(tmp_path / "deployed", slots=4)


def test_commands_use_the_chosen_slots(
    nested: Path, small: Path, tmp_path: Path, read_output: Callable[[], list[str]]
) -> None:
    text, links = tmp_path / "a.en", tmp_path / "a.links"
    text.write_text("".join(f"{line}\n" for line in LINES))
    links.write_text("0-0 1-1\n" * 3)
    words = [f"input={text}", "engine=torch"]
    translate([f"model={small}", *words])
    expected = read_output()
    translate([f"model={nested}", *words, f"slots={USED}"])
    assert read_output() == expected
    scores = []
    for arguments in ([f"model={small}"], [f"model={nested}", f"slots={USED}"]):
        evaluate([*arguments, f"src={text}", f"tgt={text}", f"links={links}", "engine=torch", "json=true"])
        scores.append(json.loads("\n".join(read_output())))
    assert scores[0] == scores[1]


def test_other_numbers_and_models_are_refused(nested: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^slots=7: this model was trained with 6 slots; use 1 to 6$"):
        translate([f"model={nested}", "slots=7"])
    with pytest.raises(UserError, match=r"slots=0: must be at least 1"):
        translate([f"model={nested}", "slots=0"])
    with pytest.raises(UserError, match=r"slots=2: BahdanauAttention was trained to use all of its slots; train with"):
        translate([f"model={model}", "slots=2"])
    with pytest.raises(UserError, match=r"slots=2: the number of slots of exported graphs is fixed"):
        translate([f"model={nested}", "slots=2", "engine=onnx"])
    with pytest.raises(UserError, match=r"slots=2: the graphs of a run have all of its slots; add output=FOLDER"):
        export([f"model={nested}", "slots=2"])
    source = tmp_path / "a.en"
    source.write_text("a cat sleeps\n")
    encode([f"model={nested}", f"input={source}", f"output={tmp_path / 'memories'}"])
    with pytest.raises(UserError, match=r"slots=2: a stored memory has a fixed number of slots; remove slots="):
        translate([f"model={nested}", "slots=2", f"memory={tmp_path / 'memories'}"])
