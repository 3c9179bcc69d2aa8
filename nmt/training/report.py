"""Evaluate a finished run: translations, scores, alignments and pictures of the test set, and the model card."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nmt.alignment.aer import AER_METHOD, LostWords, alignment_error_rate
from nmt.alignment.figures import fonts_for, new_figure, save_figure
from nmt.alignment.heatmap import save_heatmap
from nmt.alignment.page import Example, alignment_page, escape_markdown, spread
from nmt.alignment.word_weights import argmax_links, display_pieces, display_weights, word_weights
from nmt.data.links import Links, format_gold, format_pharaoh
from nmt.data.words import count_words
from nmt.errors import counted, print_message, printable
from nmt.files.atomic import write_lines
from nmt.inference import run_files
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.inference.model_folder import TrainedModel
from nmt.inference.scores import EvaluationSettings, choose_tokenizer, corpus_scores
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.settings.build import describe_setting
from nmt.text.corpus import Corpus
from nmt.training.fit import Fitted
from nmt.training.logs import optional, warn
from nmt.training.metrics import read_metrics
from nmt.training.provenance import commit_text
from nmt.training.settings import Train

GROUP = 4096  # test sentences that are translated at once: their alignments are in memory
PICTURES = 6  # heatmaps of the test set, as PNG
EXAMPLES = 24  # sentences on the HTML page
MAX_DRAWN = 100  # words or pieces per side of a drawn sentence: larger pictures are unreadable
MIN_SPAN = 2.0  # BLEU: a smaller range would draw noise as if it were progress

CARD = """---
library_name: nmt-memory-attention
pipeline_tag: translation
metrics: [bleu, chrf]
---

# {title}

A translation model with {parameters:,} parameters and {vocabulary}, trained with nmt-memory-attention {version}:

- encoder: {encoder}
- attention: {attention}
- decoder: {decoder}

Translate, one sentence per line:

    nmt-translate {model} < in.txt > out.txt

## Scores

{scores}

## Training

{training}

## Limits

{limits}
"""
NAMES = {"bleu": "BLEU", "chrf": "chrF", "aer": "alignment error rate"}
PARTS = {"train": "training", "valid": "validation", "test": "testing"}


def report(
    config: Train, fitted: Fitted, test: Corpus | None, folder: Path, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Write every result file of a run into ``folder`` and return the contents of ``summary.json``.

    ``origin`` is the ``provenance`` of the run and the checksum of its text.
    """
    attention = config.attention["_target_"].rpartition(".")[2]
    if (folder / run_files.METRICS_FILE).is_file():
        with optional(f"{folder}/{run_files.CURVE_FILE}"):
            save_curve(
                folder / run_files.METRICS_FILE,
                folder / run_files.CURVE_FILE,
                title=f"{folder.resolve().name}: {attention}",
            )
    average = fitted.average
    summary: dict[str, Any] = {
        "test": None,
        "tokens_per_s": round(fitted.tokens_per_s),
        "seconds": round(fitted.seconds, 1),
        "epochs": fitted.epochs,
        "updates": fitted.updates,
        "kept_epoch": fitted.kept,
        "averaged_epochs": average.epochs if average is not None and average.kept else None,
        "valid_best": average.score if average is not None and average.kept else fitted.best,
        "attention": attention,
        "seed": config.seed,
        "settings": run_files.CONFIG_FILE,
        "signatures": {},
        **origin,
    }
    if test is not None:
        translator = Translator(fitted.trained, check_text=False)
        summary.update(test_report(translator, test, folder, config.search, config.evaluation))
    card = model_card(printable(folder.resolve().name), config, fitted.trained, summary)
    write_lines(folder / run_files.CARD_FILE, card.splitlines())
    write_lines(folder / run_files.SUMMARY_FILE, json.dumps(summary, indent=2).split("\n"))
    return summary


def test_report(
    translator: Translator, test: Corpus, folder: Path, search: SearchOptions, evaluation: EvaluationSettings
) -> dict[str, Any]:
    """Translate the test set by beam search and score it. A model with attention also aligns and draws it."""
    sources, references, golds = _test_set(test)
    write_lines(folder / run_files.SOURCES, sources)
    write_lines(folder / run_files.REFERENCES, references)
    hypotheses, own_links = _translate(translator, sources, search)
    write_lines(folder / run_files.TRANSLATIONS, hypotheses)
    tokenizer = choose_tokenizer(references, evaluation.tokenizer).tokenizer
    scores = corpus_scores(hypotheses, references, lowercase=translator.lowercase, tokenizer=tokenizer)
    results = {"bleu": scores.bleu, "chrf": scores.chrf, "aer": None}
    if golds is None and test.has_links:
        warn(f"data.test: no gold links in {counted(len(sources), 'pair')}, so there is no AER; give links")
    if golds is not None:
        write_lines(folder / run_files.GOLD_LINKS, [format_gold(gold) for gold in golds])
    if translator.attention.reads_source:
        write_lines(folder / run_files.TRANSLATION_LINKS, own_links)
        lost = LostWords({"source": run_files.SOURCES, "target": run_files.REFERENCES})
        failed = partial(_warn_of_sentence, "alignment", 0)
        links = forced_links(translator, sources, references, on_failure=failed, on_lost=lost.add)
        lost.warn()
        write_lines(folder / run_files.REFERENCE_LINKS, [format_pharaoh(sentence_links) for sentence_links in links])
        if golds is not None:
            results["aer"] = alignment_error_rate(links, golds)
        with optional(f"{folder}: {run_files.ALIGNMENTS} and {run_files.HEATMAPS}"):
            draw(translator, test, folder)
    return {"test": results, "signatures": {**scores.signatures, "aer": AER_METHOD}}


def _translate(translator: Translator, sources: Sequence[str], options: SearchOptions) -> tuple[list[str], list[str]]:
    """Return the translations, and their word links in Pharaoh format (empty without attention)."""
    texts = []
    links = []
    for first in range(0, len(sources), GROUP):
        translations = translator.translate(
            sources[first : first + GROUP],
            options,
            alignments=translator.attention.reads_source,
            on_failure=partial(_warn_of_sentence, "translation", first),
        )
        for best in translations:
            texts.append(best.text)
            links.append("" if best.alignment is None else format_pharaoh(argmax_links(word_weights(best))))
    return texts, links


def _warn_of_sentence(missing: str, first: int, row: int, reason: str) -> None:
    """Warn that a test sentence, counted from ``first``, is too long for the model or the machine."""
    warn(f"test sentence {first + row + 1}: {reason}; it has no {missing}")


def draw(translator: Translator, test: Corpus, folder: Path) -> None:
    """Draw heatmaps of a few test sentences of different lengths, and a page with more. Long sentences are skipped."""
    sources, references, golds = _test_set(test)
    rows = _drawable_rows(translator, test)
    if not rows:
        print_message(f"every test sentence is longer than {MAX_DRAWN} words or pieces: no alignments are drawn")
        return
    chosen = [[side[row] for row in rows] for side in (sources, references)]
    decoded = force_decode(translator, *chosen, on_failure=lambda row, reason: None)  # forced_links has warned
    rows = [row for row, decoding in zip(rows, decoded, strict=True) if decoding.tokens]
    decoded = [decoding for decoding in decoded if decoding.tokens]
    signed = translator.attention.signed
    for index in spread([len(decoding.tokens) for decoding in decoded], PICTURES):
        decoding = decoded[index]
        number = rows[index] + 1
        picture = folder / run_files.HEATMAPS / f"test-{number}.png"
        with optional(str(picture)):
            picture.parent.mkdir(exist_ok=True)
            save_heatmap(
                *display_pieces(decoding, signed=signed),
                picture,
                title=f"{folder.name}, {translator.attention.name} attention\ntest sentence {number}, force-decoded",
                signed=signed,
            )
    examples = []
    for row, decoding in zip(rows, decoded, strict=True):
        gold = golds[row].possible if golds else None
        display = display_weights(decoding, sources[row], references[row], split=gold is None)
        examples.append(Example(row + 1, *display, gold))
    note = "References, force-decoded. A word's weight: the sum over its source, the mean over its target pieces."
    page = alignment_page(examples, title="Alignments of the test set", attention=translator.attention.name, note=note)
    write_lines(folder / run_files.ALIGNMENTS, page.split("\n"))


def _test_set(test: Corpus) -> tuple[list[str], list[str], list[Links] | None]:
    """Return sources, references and gold links (or None). Each text is one line: tables may contain line breaks. Gold
    links count words, which only spaces and tabs separate. Without a single gold link, there is nothing to score.
    """
    golds = test.links()
    golds = golds if golds and any(gold.possible for gold in golds) else None
    space = " " if golds is None else "\u00a0"
    sources, references = (
        [re.sub(r"[\r\n]+", space, text) for text in side] for side in (test.sources(), test.targets())
    )
    return sources, references, golds


def _drawable_rows(translator: Translator, test: Corpus) -> list[int]:
    """Return up to ``EXAMPLES`` rows of the test set that are short enough to be drawn, of different lengths."""
    pieces = [lengths + 1 for lengths in (test.source_lengths, test.target_lengths)]  # with </s>
    words = [np.array([count_words(line) for line in side]) for side in (test.sources(), test.targets())]
    short = np.flatnonzero(np.max([*pieces, *words], axis=0) <= MAX_DRAWN)
    return [int(short[index]) for index in spread(pieces[1][short], EXAMPLES)]


def save_curve(metrics: Path, picture: Path, *, title: str) -> None:
    """Plot losses (nats per piece) and validation BLEU against updates, from the CSV file ``metrics``."""
    columns = read_metrics(metrics)
    with fonts_for([title]):
        figure = new_figure(7, 4)
        losses = figure.add_subplot()
    for name, style in (("train_loss", {"alpha": 0.4}), ("valid_loss", {"marker": "o"})):
        if points := columns.get(name):
            losses.plot(*zip(*points, strict=True), label=name.replace("_", " "), **style)
    losses.set_xlabel("updates")
    losses.set_ylabel("loss (nats per piece)")
    losses.set_ylim(0, 1.05 * losses.get_ylim()[1])
    losses.set_title(title, parse_math=False)  # the name of a run may contain $
    losses.grid(alpha=0.3)
    if points := columns.get("valid_bleu"):
        scores = losses.twinx()
        scores.plot(*zip(*points, strict=True), color="tab:green", marker="s", label="valid BLEU (greedy)")
        scores.set_ylim(*score_limits([value for _, value in points]))
        scores.set_ylabel("BLEU")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, picture)


def score_limits(scores: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis for these scores in percent: their range and a margin, within [0, 100]."""
    low = min(scores)
    high = max(scores)
    missing = max(0.0, MIN_SPAN - (high - low))
    low, high = low - missing / 2, high + missing / 2
    shift = max(0.0, -low) - max(0.0, high - 100)
    margin = 0.05 * (high - low)
    return max(0.0, low + shift - margin), min(100.0, high + shift + margin)


def model_card(name: str, config: Train, trained: TrainedModel, summary: Mapping[str, Any]) -> str:
    """Return the card of a finished run, ``summary`` of its summary.json, as Markdown.

    It names no folder and no file of the machine.
    """
    source = len(trained.source)
    target = len(trained.target)
    joint = f"a joint vocabulary of {counted(source, 'piece')}"
    return CARD.format(
        title=escape_markdown(name),
        model=shlex.quote(f"model={name}"),
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
    averaged = summary["averaged_epochs"]
    if averaged is None:
        kept = f"the weights of epoch {summary['kept_epoch']} were"
    else:
        kept = f"the mean of the weights of epochs {', '.join(map(str, averaged))} was"
    start = []
    if config.init_from is not None:
        kind = "further training" if config.adapt is None else f"a low-rank update of rank {config.adapt.rank}"
        start.append(f"- {kind} of a model, whose text and updates are not counted here")
    return [
        *start,
        f"- pairs of sentences: {parts}",
        f"- {counted(summary['epochs'], 'epoch')}, {counted(summary['updates'], 'update')}, "
        f"{summary['seconds']:,.0f} s on {machine['processor'] if machine['device'] == 'cpu' else machine['device']}; "
        f"{kept} kept",
        f"- optimizer: {describe_setting(config.optimizer)}",
        f"- seed {summary['seed']}, commit {commit_text(summary['toolkit'])}; "
        "`config.yaml` of the run has all settings",
    ]


def _limits(trained: TrainedModel, summary: Mapping[str, Any]) -> list[str]:
    limits = ["The scores hold for text like the test set. Nobody has tested it on other text, or for harmful output."]
    longest = counted(trained.longest_source - 1, "source piece")  # without </s>
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
