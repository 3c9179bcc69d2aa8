"""The kinds of stored files, and how the toolkit reads and uses each of them."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from builders import write_parts
from mutations import damage_bytes, damage_member, damage_text
from runner import Trial
from safetensors.torch import save_file

from nmt.commands.export import export
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config.compose import compose_train, inherit_settings, to_yaml, train_problems
from nmt.errors import UserError, printable
from nmt.files.checkpoint import read_tensors
from nmt.files.checksum import checksum, fingerprint
from nmt.inference import model_folder
from nmt.inference.engines import ABOUT, FOLDER
from nmt.inference.model_folder import load_folder
from nmt.inference.translator import Translator
from nmt.model.adapter import adapt
from nmt.search.options import SearchOptions
from nmt.text.batches import collate
from nmt.text.prepare import open_prepared
from nmt.text.specials import EOS, UNK
from nmt.text.tokenizer import Tokenizer
from nmt.training.metrics import read_metrics

RUN, PREPARED = Path("runs/run"), Path("prepared")
ABOUT_FILE = RUN / FOLDER / ABOUT
SECRET = "NMT_CANARY"  # an environment variable that no result may contain
GREEDY = SearchOptions(beam_size=1, max_length=4)
LONGEST_MESSAGE = 10_000  # a message quotes the value of a setting
LINES = ["ban gin", "", "des \u2581日"]
TRAIN = [
    *("data=prepared", "data.folder=prepared", "name=run", "training.max_epochs=1", "training.decode_sentences=0"),
    *("embeddings.size=8", "encoder.hidden_size=12", "decoder.hidden_size=12", "attention.slots=4"),
    *("training.monitor=valid_loss", "search.max_length=4", "device=cpu", "threads=1", "export=false"),
]
Use = Callable[[Path], object]
"""Reads the files in the current folder and uses the result. Returns what the reader gave, for a comparison.

Its argument is the damaged file.
"""


def make(folder: Path) -> None:
    """Write tiny files of every stored kind into ``folder``."""
    words = ("ban", "gin", "kor", "des")
    lines = [" ".join(words[(row >> shift) % 4] for shift in (0, 2)[: 1 + row % 2]) for row in range(64)]
    with chdir(folder):
        pairs = [(line, line.upper()) for line in lines]
        files = write_parts(Path(), {"train": pairs, "valid": pairs[:8]})
        prepare([*files, "tokenizer.vocab_size=300", f"output={PREPARED}"])
        train(TRAIN)
        export([f"model={RUN}", "engine=onnx"])
        base = model_folder.Base(RUN.absolute(), model_folder.model_fingerprint(RUN))
        trained = replace(load_folder(RUN), base=base)
        adapt(trained.model, rank=2, alpha=1, parts=["decoder"])
        Path("runs/adapted").mkdir()
        model_folder.save_adapter(Path("runs/adapted"), trained, rank=2, alpha=1)


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


def texts(translator: Translator) -> list[str]:
    """Return the translations of the lines, of which some may fail."""
    found = translator.texts(LINES, GREEDY, on_failure=lambda *_: None)
    assert len(found) == len(LINES) and not any("\n" in text for text in found)
    return found


def use_model(file: Path) -> object:
    model = load_folder(file.parent)
    return texts(Translator(model)), model.longest_source, digest(model.config), digest(model.model.state_dict())


@functools.cache
def defaults() -> dict[str, Any]:
    return compose_train(["name=new"])  # Hydra takes 50 ms


def use_config(file: Path, *, resumed: bool = False) -> object:
    """Read the settings of a run that another run starts from, or that goes on: no environment variable is in them."""
    start = {**defaults(), "init_from": None if resumed else str(file.parent)}
    inherited = inherit_settings(start, [], file.parent if resumed else None, text=False)
    if problems := train_problems(inherited):
        raise UserError(*problems)
    text = to_yaml(inherited)
    assert os.environ[SECRET] not in text, "the settings contain an environment variable"
    return text


def use_export(_: Path) -> object:
    return texts(Translator.load(RUN, engine="onnx", threads=1))


def use_tokenizer(file: Path) -> object:
    tokenizer = Tokenizer.from_file(file)
    results = []
    for line in ("ban gin", "x \u2581日😀\0", ""):
        ids = tokenizer.encode(line)
        assert all(0 <= piece < len(tokenizer) for piece in ids)
        text = tokenizer.decode(ids)
        assert "\n" not in text
        results.append((ids, text, tokenizer.pieces(ids), tokenizer.spans(line)))
    return tokenizer.to_bytes(), tokenizer.decode(range(len(tokenizer))), results


def use_prepared(_: Path) -> object:
    """Return what training and evaluation see of the text."""
    prepared = open_prepared(PREPARED)
    seen = []
    for part, corpus in prepared.corpora.items():
        batch = collate(corpus, range(len(corpus)))
        for ids, tokenizer in ((batch.source, prepared.source), (batch.target_out, prepared.target)):
            assert int(ids.min()) >= 0 and int(ids.max()) < len(tokenizer)
        rows = [[side.tolist() for side in corpus.ids(row)] for row in range(len(corpus))]
        assert all(piece == UNK or piece > EOS for row in rows for side in row for piece in side)
        seen.append((part, rows, corpus.sources(), corpus.targets(), corpus.links()))
    return seen, prepared.lowercase, prepared.tokenizer, prepared.source.to_bytes(), prepared.target.to_bytes()


def forge_digest(file: Path) -> None:
    """Write the digest of a damaged adapter, if its format can hold it."""
    try:
        stored, tensors = read_tensors(file)
        about = json.loads(stored["adapter"])
        about.pop("digest", None)
        forged = {**about, "digest": fingerprint(about, tensors)}
    except Exception:
        return
    save_file(tensors, file, {"adapter": json.dumps(forged)})


def forge_export(file: Path) -> None:
    about = json.loads(ABOUT_FILE.read_bytes())
    about["checksums"][file.name] = checksum(file)
    ABOUT_FILE.write_text(json.dumps(about))


MODEL, CONFIG = (f"{RUN}/model.pt",), (f"{RUN}/config.yaml",)
ADAPTER = ("runs/adapted/adapter.safetensors",)
GRAPHS = tuple(f"{RUN}/{FOLDER}/{name}" for name in ("*.onnx", "*.bin", "source.model"))
use_adapter = lambda file: digest(dict(load_folder(file.parent).model.state_dict()))  # noqa: E731
KINDS = {
    "model.pt": Kind(MODEL, use_model),
    "model.pt, right checksums": Kind(MODEL, use_model, damage_member, free=True),
    "adapter": Kind(ADAPTER, use_adapter),
    "adapter, right digest": Kind(ADAPTER, use_adapter, forge=forge_digest, free=True),
    "config.yaml, init_from": Kind(CONFIG, use_config, damage_text, free=True, by_key=True),
    "config.yaml, resumed": Kind(CONFIG, partial(use_config, resumed=True), damage_text, free=True, by_key=True),
    "metrics.csv": Kind((f"{RUN}/metrics.csv",), lambda file: repr(read_metrics(file)), damage_text, free=True),
    "about.json": Kind((str(ABOUT_FILE),), use_export, damage_text, free=True),
    "export": Kind(GRAPHS, use_export),
    "export, right checksums": Kind(GRAPHS, use_export, forge=forge_export, beside=ABOUT_FILE, free=True),
    "tokenizer": Kind((f"{PREPARED}/source.model",), use_tokenizer, free=True),
    "prepared text": Kind((f"{PREPARED}/*",), use_prepared),
}


def file_trial(folder: Path, name: str) -> Trial:
    """Return the trials of the kind ``name``: damage one of its files in ``folder``, then read and use it."""
    os.chdir(folder)
    os.environ[SECRET] = "the-value-of-a-secret"
    kind = KINDS[name]
    files = sorted(file for pattern in kind.files for file in Path().glob(pattern) if file.name != ".lock")
    content = {file: file.read_bytes() for file in [*files, *([kind.beside] if kind.beside else [])]}
    expected = {file: kind.use(file) for file in files}

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
