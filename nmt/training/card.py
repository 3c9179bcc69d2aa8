"""The model card of a run: what the model is, its scores, how it was trained, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nmt.errors import counted
from nmt.inference.model_folder import TrainedModel
from nmt.settings.build import describe_setting
from nmt.training.settings import Train

CARD = """---
library_name: nmt-memory-attention
pipeline_tag: translation
metrics: [bleu, chrf]
---

# {name}

A translation model with {parameters:,} parameters and {vocabulary}, trained with nmt-memory-attention {version}:

- encoder: {encoder}
- attention: {attention}
- decoder: {decoder}

Translate, one sentence per line:

    nmt-translate model={name} < in.txt > out.txt

## Scores

{scores}

## Training

{training}

## Limits

{limits}
"""


NAMES = {"bleu": "BLEU", "chrf": "chrF", "aer": "alignment error rate"}
PARTS = {"train": "training", "valid": "validation", "test": "testing"}


def model_card(name: str, config: Train, trained: TrainedModel, summary: Mapping[str, Any]) -> str:
    """Return the card of a finished run, ``summary`` of its summary.json, as Markdown.

    It names no folder and no file of the machine.
    """
    source = len(trained.source)
    target = len(trained.target)
    joint = f"a joint vocabulary of {counted(source, 'piece')}"
    return CARD.format(
        name=name,
        attention=describe_setting(config.attention),
        encoder=describe_setting(config.encoder),
        decoder=describe_setting(config.decoder),
        parameters=sum(weight.numel() for weight in trained.model.parameters()),
        vocabulary=joint
        if trained.source is trained.target
        else f"{source:,} source and {counted(target, 'target piece')}",
        version=summary["toolkit"]["version"],
        scores="\n".join(_scores(summary)),
        training="\n".join(_training(config, summary)),
        limits="\n".join(f"- {limit}" for limit in _limits(trained, summary)),
    )


def _scores(summary: Mapping[str, Any]) -> list[str]:
    """Return a line for each test score, with the signature that says how it was computed."""
    scores = [
        f"- {NAMES[name]} {score:.2f} (`{summary['signatures'][name]}`)"
        for name, score in (summary["test"] or {}).items()
        if score is not None
    ]
    return scores or ["It had no test set, so its quality is unknown."]


def _training(config: Train, summary: Mapping[str, Any]) -> list[str]:
    parts = ", ".join(f"{count:,} for {PARTS[part]}" for part, count in summary["pairs"].items())
    machine = summary["machine"]
    commit = summary["toolkit"]["commit"]
    return [
        f"- pairs of sentences: {parts}",
        f"- {counted(summary['epochs'], 'epoch')}, {counted(summary['updates'], 'update')}, "
        f"{summary['seconds']:,.0f} s on {machine['processor'] if machine['device'] == 'cpu' else machine['device']}; "
        f"the weights of epoch {summary['kept_epoch']} were kept",
        f"- optimizer: {describe_setting(config.optimizer)}",
        f"- seed {summary['seed']}{f', commit {commit}' if commit else ''}; `config.yaml` of the run has all settings",
    ]


def _limits(trained: TrainedModel, summary: Mapping[str, Any]) -> list[str]:
    limits = ["The scores hold for text like the test set. Nobody has tested it on other text, or for harmful output."]
    longest = counted(trained.longest_source, "source piece")
    limits.append(f"Its longest training sentence had {longest}: write one sentence per line.")
    limits.append(
        "It reads and writes lower case." if trained.properties.lowercase else "It keeps upper and lower case."
    )
    unknown = {
        side: f"{100 * counts['unknown']:.1f} % of its {side} tokens"
        for side, counts in summary["reading"]["train"].items()
        if counts["unknown"] > 0
    }
    if unknown:
        limits.append(f"In the training text, {' and '.join(unknown.values())} were unknown.")
    return limits
