"""Advice for a key that does not exist, and for a word that is not a setting."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nmt.inference.engines import ABOUT
from nmt.inference.run_files import ADAPTER, MODEL_FILE
from nmt.settings.arguments import suggestion

LAUNCHER = "torchrun --nproc-per-node=2 --no-python nmt-train …, or srun on a cluster with Slurm"
# Names from other toolkits, and from earlier versions of this one.
NAMES = {
    "attention_type": "attention",
    "batch_size": "batches.max_tokens (pieces) or batches.max_sentences",
    "beam": "search.beam_size",
    "beam_size": "search.beam_size",
    "clip_norm": "training.clip_norm",
    "devices": LAUNCHER,
    "dropout": "encoder.dropout and decoder.dropout",
    "early_stopping": "training.patience",
    "embedding_size": "embeddings.size",
    "epochs": "training.max_epochs",
    "hidden_size": "encoder.hidden_size and decoder.hidden_size",
    "input_feeding": "decoder.input_feeding",
    "label_smoothing": "training.label_smoothing",
    "layers": "encoder.layers and decoder.layers",
    "learning_rate": "optimizer.lr",
    "lr": "optimizer.lr",
    "max_epochs": "training.max_epochs",
    "max_steps": "training.max_steps",
    "nodes": LAUNCHER,
    "num_gpus": LAUNCHER,
    "num_layers": "encoder.layers and decoder.layers",
    "output_dir": "runs and name",
    "patience": "training.patience",
    "slots": "attention.slots",
    "src": "data=text data.train.src",
    "tgt": "data=text data.train.tgt",
    "steps": "training.max_steps",
    "training.betas": "optimizer.betas",
    "training.decay": "schedule=plateau schedule.factor",
    "training.decay_patience": "schedule=plateau schedule.patience",
    "training.lr": "optimizer.lr",
    "training.optimizer": "optimizer",
    "training.schedule": "schedule",
    "training.warmup_steps": "schedule.warmup_steps",
    "training.weight_decay": "optimizer.weight_decay",
    "vocab_size": "tokenizer.vocab_size",
    "warmup_steps": "schedule.warmup_steps",
}


def advice(key: str, known: Iterable[str], folders: Sequence[Path]) -> str:
    """Return what to write instead of the unknown ``key``, or nothing.

    ``known`` are the keys of the configuration, ``folders`` those of the YAML files.
    """
    known = list(known)
    name = NAMES.get(key)
    # The command has this group, or is nmt-train, which a launcher can start.
    if name is not None and (re.split(r"\W", name)[0] in known or (name == LAUNCHER and "training" in known)):
        return f"; use {name}"
    group, _, rest = key.partition(".")
    choices = sorted(set(_choices_with(rest, group, folders))) if rest else []
    if choices:
        *others, last = (f"{group}={choice}" for choice in choices)
        return f"; {', '.join(others)} and {last} have it" if others else f"; {last} has it"
    return suggestion(key, [name for name in known if not key.startswith(f"{name}.")])


def setting_of(word: str, folders: Sequence[Path]) -> str:
    """Return the setting that a ``word`` without a key stands for: a choice of a group, or the folder of a model."""
    # os.path.isfile, unlike Path.is_file, accepts names that are too long.
    if any(os.path.isfile(Path(word, file)) for file in (MODEL_FILE, ADAPTER, ABOUT)):
        return f"model={word}"
    files = [file for folder in folders for file in folder.glob("*/*.yaml") if file.stem == word]
    groups = sorted({file.parent.name for file in files})
    if not groups or word == "default":
        return "settings as key=value"
    return " or ".join(f"+experiment={word}" if group == "experiment" else f"{group}={word}" for group in groups)


def _choices_with(key: str, group: str, folders: Sequence[Path]) -> Iterator[str]:
    """Yield the choices of a group whose own YAML file sets ``key``."""
    for folder in folders:
        for file in (folder / group).glob("*.yaml"):
            if _has(OmegaConf.to_container(OmegaConf.load(file), resolve=False), key.split(".")):
                yield file.stem


def _has(tree: Any, path: Sequence[str]) -> bool:
    return not path or (isinstance(tree, dict) and path[0] in tree and _has(tree[path[0]], path[1:]))
