"""The kinds of stored files, and how the toolkit reads and uses each of them."""

from __future__ import annotations

import copy
import functools
import json
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from mutations import damage_bytes, damage_member, damage_text
from runner import Trial
from safetensors.torch import load, save_file

from nmt.config.compose import compose_train, to_yaml, train_problems
from nmt.config.init_from import inherit_settings, read_yaml
from nmt.errors import UserError, printable
from nmt.files.checksum import checksum, fingerprint
from nmt.inference import adapter_file, model_folder
from nmt.inference.engines import ABOUT, FOLDER, LoadSettings, OnnxEngineName
from nmt.inference.model_folder import TrainedModel, load_folder
from nmt.inference.onnx.model import open_onnx
from nmt.inference.onnx.shortlist import Shortlist
from nmt.inference.translator import Translator
from nmt.model.adapter import adapt
from nmt.search.options import SearchOptions
from nmt.settings.build import build
from nmt.text.batches import collate
from nmt.text.prepare import open_prepared
from nmt.text.specials import EOS, UNK
from nmt.text.tokenizer import Tokenizer
from nmt.training.checkpoints import SafeCheckpoints
from nmt.training.logs import MetricsFile, optional
from nmt.training.metrics import read_metrics, read_rows
from nmt.training.report import save_curve
from nmt.training.settings import Train

FINISHED = Path("runs/finished")
ABOUT_FILE = FINISHED / FOLDER / ABOUT
SECRET = "NMT_CANARY"  # an environment variable that no result may contain
GREEDY = SearchOptions(beam_size=1, max_length=4)
LONGEST_MESSAGE = 10_000  # a message quotes the value of a setting
LINES = ["ban gin", "", "des \u2581日"]
Use = Callable[[Path], object]
"""Reads the files in the current folder and uses the result. Returns what the reader gave, for a comparison.

Its argument is the damaged file.
"""


@dataclass(frozen=True)
class Kind:
    """A kind of stored file, and how it is damaged.

    ``files`` are patterns of file names. ``damage`` returns a description and a damaged copy. ``forge`` then writes
    checksums again, as an attacker would, also in the file ``beside``.
    With ``free``, a damaged file may also give other values, because nothing says which ones were written.
    ``by_key``: a message may name the setting instead of the file.
    """

    files: tuple[str, ...]
    use: Use
    damage: Callable[[bytes, Random], tuple[str, bytes]] = damage_bytes
    forge: Callable[[Path], None] | None = None
    beside: Path | None = None
    free: bool = False
    by_key: bool = False


def digest(value: Any) -> Any:
    """Return nested plain data with a tuple instead of each tensor, so that ``==`` compares values, also NaN."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, dict):
        return {key: digest(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [digest(item) for item in value]
    return repr(value)


@functools.cache
def trained() -> TrainedModel:
    return load_folder(FINISHED)


@functools.cache
def config(name: str) -> Train:
    # The archive has settings that were removed later, and lacks settings that were added.
    settings = defaults()
    for group, stored in read_yaml(Path("runs") / name / "config.yaml").items():
        if isinstance(stored, dict) and "_target_" not in stored:
            settings[group] |= {key: value for key, value in stored.items() if key in settings[group]}
        elif group in settings:
            settings[group] = stored
    return build(Train, settings)


def defaults() -> dict[str, Any]:
    return copy.deepcopy(composed())


@functools.cache
def composed() -> dict[str, Any]:
    return compose_train(["name=new"])  # Hydra takes 50 ms


def use_model(file: Path) -> object:
    model = load_folder(file.parent)
    texts = Translator(model).texts(LINES, GREEDY, on_failure=lambda *_: None)
    assert len(texts) == len(LINES) and not any("\n" in text for text in texts)
    return model_folder.pack(model)["longest_source"], texts, digest(model.config), digest(model.model.state_dict())


def write_adapter(folder: Path) -> None:
    """Write an adapter with random numbers into runs/adapted, for the model in runs/finished."""
    place = folder / "runs" / "adapted"
    place.mkdir()
    model = load_folder(folder / FINISHED).model
    adapt(model, rank=2, alpha=1, parts=["decoder"])
    for weight in model.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight)
    base = adapter_file.Base(folder / FINISHED, adapter_file.model_fingerprint(folder / FINISHED))
    adapter_file.save_adapter(place, model, base, rank=2, alpha=1)


def use_adapter(file: Path) -> object:
    return digest(dict(load_folder(file.parent).model.state_dict()))


def forge_digest(file: Path, *, inside: str | None = None) -> None:
    """Write the digest of the damaged content, if the format can hold it. ``inside``: the key of a JSON text."""
    content = file.read_bytes()
    try:
        (length,) = struct.unpack("<Q", content[:8])
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        about = json.loads(metadata[inside]) if inside else metadata
        tensors = load(content)
        about.pop("digest", None)
        forged = {**about, "digest": fingerprint(about, tensors)}
    except Exception:
        return
    save_file(tensors, file, {inside: json.dumps(forged)} if inside else forged)


def use_checkpoint(file: Path) -> object:
    return digest(SafeCheckpoints().load_checkpoint(file))


def use_inherited_config(file: Path, *, resumed: bool = False) -> object:
    """Read the settings of a run that another run starts from, or that is being resumed."""
    start = {**defaults(), "init_from": None if resumed else str(file.parent)}
    inherited = inherit_settings(start, [], file.parent if resumed else None, text=False)
    if problems := train_problems(inherited):
        raise UserError(*problems)
    return without_secret(inherited)


def without_secret(settings: dict[str, Any] | Train) -> object:
    """Return the settings, which a run would store. They must contain no environment variable."""
    text = to_yaml(settings)
    assert os.environ[SECRET] not in text, "the settings contain an environment variable"
    return text


def use_metrics(file: Path) -> object:
    before = read_rows(file)
    MetricsFile(file.parent).forget(1 << 62)
    rows = read_rows(file)
    assert rows == [row for row in before if int(row["step"]) < 1 << 62]
    if len(rows) % 16 == 0:  # drawing takes time
        with optional("curve.png"):
            save_curve(file, file.with_name("curve.png"))
    return {name: repr(points) for name, points in read_metrics(file).items()}


def use_export(file: Path) -> object:
    """Load and use the graphs of which ``file`` is one."""
    engine: OnnxEngineName = "onnx-int8" if ".int8" in file.name else "onnx"
    shortlist = "short" in file.name or file == ABOUT_FILE
    model = open_onnx(FINISHED, LoadSettings(engine=engine, threads=1, shortlist=shortlist))
    translator = Translator(model)
    texts = translator.texts(LINES, GREEDY, on_failure=lambda *_: None)
    texts += translator.texts(LINES[:1], GREEDY, on_failure=lambda *_: None)  # in one call of the search graph
    assert len(texts) == len(LINES) + 1 and not any("\n" in text for text in texts)
    return texts, model.properties.lowercase, model.properties.attention, model.torch_encodes


def use_shortlist(file: Path) -> object:
    sizes = [len(tokenizer) for tokenizer in (trained().source, trained().target)]
    shortlist = Shortlist.load(file, source_vocabulary=sizes[0], target_vocabulary=sizes[1])
    ids = shortlist.candidates([[5, 6, EOS], [sizes[0] - 1]])
    assert ids.min() >= 0 and ids.max() < sizes[1] and EOS in ids
    shortlist.weight[ids], shortlist.bias[ids]
    return [(array.dtype, array.shape, array.tobytes()) for array in vars(shortlist).values() if array is not None]


def use_tokenizer(file: Path) -> object:
    tokenizer = Tokenizer.from_file(file)
    results = []
    for line in ("ban gin", "x \u2581日😀\0", ""):
        ids = tokenizer.encode(line)
        assert all(0 <= piece < len(tokenizer) for piece in ids)
        text = tokenizer.decode(ids)
        assert "\n" not in text
        results.append((ids, text, tokenizer.pieces(ids), tokenizer.words(line), tokenizer.decoded_words(ids)))
    return tokenizer.to_bytes(), tokenizer.decode(range(len(tokenizer))), results


def use_prepared(_: Path) -> object:
    """Return what training and evaluation see of the text."""
    prepared = open_prepared(Path("prepared"))
    seen = []
    for part, corpus in prepared.corpora.items():
        batch = collate(corpus, range(len(corpus)))
        for ids, tokenizer in ((batch.source, prepared.source), (batch.target_out, prepared.target)):
            assert int(ids.min()) >= 0 and int(ids.max()) < len(tokenizer)
        rows = [[side.tolist() for side in corpus.ids(row)] for row in range(len(corpus))]
        assert all(piece == UNK or piece > EOS for row in rows for side in row for piece in side)
        seen.append((part, rows, corpus.sources(), corpus.targets(), corpus.links()))
    return seen, prepared.lowercase, prepared.tokenizer, prepared.source.to_bytes(), prepared.target.to_bytes()


def forge_export(file: Path) -> None:
    about = json.loads(ABOUT_FILE.read_bytes())
    about["checksums"][file.name] = checksum(file)
    ABOUT_FILE.write_text(json.dumps(about))


ADAPTERS = ("runs/adapted/adapter.safetensors",)
GRAPHS = tuple(f"runs/finished/onnx/{name}" for name in ("*.onnx", "*.bin", "source.model"))
KINDS = {
    "model.pt": Kind(("runs/finished/model.pt",), use_model),
    "model.pt, right checksums": Kind(("runs/finished/model.pt",), use_model, damage_member, free=True),
    "adapter": Kind(ADAPTERS, use_adapter),
    "adapter, right digest": Kind(ADAPTERS, use_adapter, forge=partial(forge_digest, inside="adapter"), free=True),
    "checkpoint": Kind(("runs/stopped/checkpoints/last.ckpt",), use_checkpoint),
    "checkpoint, right checksums": Kind(
        ("runs/stopped/checkpoints/last.ckpt",), use_checkpoint, damage_member, free=True
    ),
    "config.yaml, init_from": Kind(
        ("runs/finished/config.yaml",), use_inherited_config, damage_text, free=True, by_key=True
    ),
    "config.yaml, resume": Kind(
        ("runs/stopped/config.yaml",), partial(use_inherited_config, resumed=True), damage_text, free=True, by_key=True
    ),
    "metrics.csv": Kind(("runs/stopped/metrics.csv",), use_metrics, damage_text, free=True),
    "about.json": Kind((str(ABOUT_FILE),), use_export, damage_text, free=True),
    "export": Kind((*GRAPHS, "runs/finished/onnx/shortlist.npz"), use_export),
    "graphs, right checksums": Kind(GRAPHS, use_export, forge=forge_export, beside=ABOUT_FILE, free=True),
    "shortlist.npz": Kind(("runs/finished/onnx/shortlist.npz",), use_shortlist, free=True),
    "shortlist.npz, right checksums": Kind(
        ("runs/finished/onnx/shortlist.npz",), use_shortlist, damage_member, free=True
    ),
    "tokenizer": Kind(("prepared/source.model",), use_tokenizer, free=True),
    "prepared text": Kind(("prepared/*",), use_prepared),
}


def file_trial(folder: Path, name: str) -> Trial:
    """Return the trials of the kind ``name``: damage one of its files in ``folder``, then read and use it."""
    os.chdir(folder)
    os.environ[SECRET] = "the-value-of-a-secret"
    kind = KINDS[name]
    files = sorted(file for pattern in kind.files for file in Path().glob(pattern))
    content = {file: file.read_bytes() for file in [*files, *([kind.beside] if kind.beside else [])]}
    expected = {file: kind.use(file) for file in files}
    for file in files:
        file.write_bytes(content[file])  # metrics.csv is written again when it is used

    def trial(random: Random) -> tuple[str, Callable[[], str]]:
        file = random.choice(files)
        what, damaged = kind.damage(content[file], random)

        def run() -> str:
            try:
                file.write_bytes(damaged)
                if kind.forge is not None:
                    kind.forge(file)
                result = kind.use(file)
            except UserError as error:
                require_one_line(error, (file.name, str(file.parent)) if not kind.by_key else ())
                return "refused"
            finally:
                for place, original in content.items():
                    if place in (file, kind.beside):
                        place.write_bytes(original)
            if result == expected[file]:
                return "equal"
            assert kind.free, "accepted, with another result"
            return "other"

        return f"{file}: {what}", run

    return trial


def require_one_line(error: UserError, names: Sequence[str]) -> None:
    """Raise AssertionError unless each problem is shown as one line, and the first contains one of ``names``."""
    for problem in error.problems:
        line = printable(problem)
        controls = any(character < " " or character == "\x7f" for character in line)
        assert line.strip() and not controls and len(line.splitlines()) == 1, f"message: {line[:300]!r}"
        assert len(line) < LONGEST_MESSAGE, f"message: {line[:300]!r}"
    assert not names or any(name in error.problems[0] for name in names), f"message without a file: {error}"
