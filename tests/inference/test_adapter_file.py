"""An adapter is stored apart from its base, belongs to this base only, and is checked before it is used."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import MEMORY, refusal, save_random, tiny_config
from safetensors.torch import load_file, save_file

from nmt.errors import UserError
from nmt.files.checksum import fingerprint
from nmt.inference.model_folder import Base, TrainedModel, load_folder, model_fingerprint, save_adapter
from nmt.inference.shards import translator_fingerprint
from nmt.inference.translator import Translator
from nmt.model import Seq2Seq
from nmt.model.adapter import adapt, merge
from nmt.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer.train(["the small dog sees a red house", "der kleine Hund sieht ein rotes Haus"], vocab_size=280)
CONFIG = tiny_config(MEMORY, decoder={"tied": True})


def save_base(folder: Path, *, seed: int = 1) -> Path:
    save_random(folder, CONFIG, TOKENIZER, seed=seed, scale=2)
    return folder


def make_adapter(folder: Path, base: Path, *, seed: int = 1, **settings: Any) -> Seq2Seq:
    """Write an adapter with random numbers for the model in ``base``, and return the merged model."""
    folder.mkdir(parents=True)
    model = load_folder(base).model
    chosen = {"rank": 2, "alpha": 3.0, **settings}
    torch.manual_seed(seed)
    adapt(model, **chosen)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.normal_()
    save_adapter(folder, model, Base(base, model_fingerprint(base)), rank=chosen["rank"], alpha=chosen["alpha"])
    merge(model)
    return model


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return save_base(tmp_path / "runs" / "a")


@pytest.fixture
def adapter(base: Path) -> Path:
    make_adapter(base.parent / "b", base)
    return base.parent / "b"


def equal(left: Seq2Seq, right: Seq2Seq) -> bool:
    return all(torch.equal(weight, right.state_dict()[name]) for name, weight in left.state_dict().items())


def test_loaded_adapters_equal_the_merged_models(base: Path) -> None:
    before = (base / "model.pt").read_bytes()
    merged = [make_adapter(base.parent / name, base, seed=seed) for seed, name in enumerate("bc")]
    assert not equal(*merged)
    for name, expected in zip("bc", merged, strict=True):
        assert equal(load_folder(base, adapter=base.parent / name).model, expected)
        assert equal(load_folder(base.parent / name).model, expected)
    assert (base / "model.pt").read_bytes() == before
    assert [file.name for file in (base.parent / "b").iterdir()] == ["adapter.safetensors"]


def test_adapter_of_an_adapter(base: Path, adapter: Path) -> None:
    expected = make_adapter(base.parent / "c", adapter)
    assert equal(load_folder(base.parent / "c").model, expected)
    assert equal(load_folder(adapter, adapter=base.parent / "c").model, expected)
    with pytest.raises(UserError, match="trained for another model than model="):
        load_folder(base, adapter=base.parent / "c")
    (adapter / "adapter.safetensors").unlink()
    make_adapter(base.parent / "d", base, seed=5)
    shutil.copy(base.parent / "d" / "adapter.safetensors", adapter)
    with pytest.raises(UserError, match="which has changed since; give that model and adapter="):
        load_folder(base.parent / "c")


def test_equal_adapters_are_equal_files(base: Path, adapter: Path) -> None:
    make_adapter(base.parent / "c", base)
    files = [base.parent / name / "adapter.safetensors" for name in "bc"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_another_base_is_refused(base: Path, adapter: Path) -> None:
    other = save_base(base.parent / "other", seed=2)
    expected = f"adapter={adapter}: trained for another model than model={other}; name the model of its init_from"
    assert refusal(load_folder, other, adapter=adapter) == expected
    shutil.copy(other / "model.pt", base)
    with pytest.raises(UserError, match=f"^init_from={adapter}: an adapter of the model in {base}, which has changed"):
        load_folder(adapter, key="init_from")
    shutil.rmtree(base)
    with pytest.raises(UserError, match="which does not exist any more; give that model and adapter="):
        load_folder(adapter)


def test_runs_can_be_moved_together(base: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_folder(adapter).model
    base.parent.rename(tmp_path / "moved")
    assert equal(load_folder(tmp_path / "moved" / "b").model, expected)
    monkeypatch.chdir(tmp_path / "moved" / "b")
    assert equal(load_folder(Path()).model, expected)


def replace_by_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda file: shutil.rmtree(file.parent), "no such folder; name a run"),
        (lambda file: file.unlink(), "has no adapter.safetensors; name a run of nmt-train adapt=lora"),
        (replace_by_pipe, "has no adapter.safetensors"),
        *(
            (lambda file, data=data: file.write_bytes(data), "cannot be read as an adapter .*; train the adapter")
            for data in (b"", b"x" * 100, struct.pack("<Q", 1 << 40) + b"{}", struct.pack("<Q", 2) + b"{}")
        ),
    ],
)
def test_folder_without_a_readable_adapter_is_refused(
    base: Path, adapter: Path, damage: Callable[[Path], object], problem: str
) -> None:
    damage(adapter / "adapter.safetensors")
    with pytest.raises(UserError, match=rf"^(adapter=)?{adapter}(/adapter\.safetensors)?: {problem}"):
        load_folder(base, adapter=adapter)


def test_exported_graphs_are_not_used_with_an_adapter(base: Path, adapter: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(adapter, tmp_path / "my adapter")
    assert isinstance(Translator.load(base, adapter=adapter).loaded_model, TrainedModel)
    for words, arguments in (
        (f"model={base} adapter={adapter}", {"folder": base, "adapter": adapter}),
        (f"model={adapter}", {"folder": adapter}),
        (f"model={base} 'adapter={copy}'", {"folder": base, "adapter": copy}),
    ):
        with pytest.raises(UserError, match=f"^engine=onnx: adapters need engine=torch; .* nmt-export {words} output="):
            Translator.load(**arguments, engine="onnx")


def forge(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change metadata and tensors of an adapter, and write it with the right digest."""
    file = folder / "adapter.safetensors"
    content, tensors = file.read_bytes(), load_file(file)
    (length,) = struct.unpack("<Q", content[:8])
    about = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["adapter"])
    del about["digest"]
    change(about, tensors)
    about.setdefault("digest", fingerprint(about, tensors))
    save_file(tensors, file, {"adapter": json.dumps(about)})


NAME = "encoder.forwards.0.weight_hh_l0"
CHANGES: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], object], str]] = {
    "newer format": (lambda about, _: about.update(format=2), "format 2, but this version reads format 1; update"),
    "no format": (lambda about, _: about.pop("format"), "no valid format version; train the adapter again"),
    "no base": (lambda about, _: about.pop("base"), "its metadata are not those of an adapter"),
    "rank 0": (lambda about, _: about.update(rank=0), "its metadata are not those of an adapter"),
    "infinite": (lambda about, _: about.update(alpha=float("inf")), "its metadata are not those of an adapter"),
    "not a number": (lambda about, _: about.update(alpha="1"), "its metadata are not those of an adapter"),
    "digest": (lambda about, _: about.update(digest="0"), "damaged .wrong digest.; train the adapter again"),
    "unknown": (lambda _, t: t.update({"x.A": torch.ones(2, 8)}), "x: not an update of a matrix of the model"),
    "bias": (
        lambda _, t: t.update({"decoder.output.bias.A": torch.ones(1), "decoder.output.bias.B": torch.ones(1)}),
        "decoder.output.bias: not an update of a matrix",
    ),
    "one half": (lambda _, t: t.pop(f"{NAME}.A"), f"{NAME}: not an update of a matrix of the model"),
    "shape": (lambda _, t: t.update({f"{NAME}.A": torch.ones(2, 5)}), f"{NAME}: A or B has another shape or type"),
    "rank": (lambda about, _: about.update(rank=3), "A or B has another shape or type than the model needs"),
    "type": (lambda _, t: t.update({f"{NAME}.A": t[f"{NAME}.A"].half()}), f"{NAME}: A or B has another shape or type"),
    "NaN": (lambda _, t: t[f"{NAME}.B"].fill_(float("nan")), f"{NAME}: contains infinite values or NaN"),
    "overflow": (
        lambda _, t: t[f"{NAME}.B"].fill_(3e38),
        f"{NAME} has infinite values or NaN; train the adapter again",
    ),
    "third part": (lambda _, t: t.update({f"{NAME}.C": torch.ones(1)}), "not an adapter; name a run of nmt-train"),
    "empty": (lambda _, t: t.clear(), "not an adapter; name a run of nmt-train adapt=lora"),
}


@pytest.mark.attack("forged adapter")
@pytest.mark.parametrize(("change", "problem"), CHANGES.values(), ids=CHANGES)
def test_forged_adapter_is_refused(
    base: Path, adapter: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], problem: str
) -> None:
    forge(adapter, change)
    with pytest.raises(UserError, match=problem) as caught:
        load_folder(base, adapter=adapter)
    assert str(adapter) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.attack("forged adapter")
@pytest.mark.parametrize("place", ["../b", ".", "\0", "x" * 5000, "/dev/zero", "../b/adapter.safetensors"])
def test_path_of_the_base_cannot_lead_astray(adapter: Path, place: str) -> None:
    forge(adapter, lambda about, _: about.update(base_folder=place, base="0" * 64))
    with pytest.raises(UserError, match=f"^model={adapter}: an adapter of the model in .*; give that model"):
        load_folder(adapter)


def test_shards_of_another_adapter_have_another_identity(base: Path, adapter: Path) -> None:
    """nmt-translate workers= continues shards of the same model with the same adapter only."""
    make_adapter(base.parent / "c", base, seed=2)
    translator = Translator.load(base, engine="torch")
    fingerprints = [translator_fingerprint(translator, [base], place) for place in (None, adapter, base.parent / "c")]
    assert len({*fingerprints, translator_fingerprint(translator, [save_base(base.parent / "d", seed=2)], None)}) == 4
    assert fingerprints == [
        translator_fingerprint(translator, [base], place) for place in (None, adapter, base.parent / "c")
    ]
