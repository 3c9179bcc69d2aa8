"""Evaluate a finished run: translations, scores, alignments and pictures of the test set."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nmt.alignment.aer import AER_METHOD, alignment_error_rate
from nmt.alignment.figures import save_figure
from nmt.alignment.heatmap import draw_heatmap
from nmt.alignment.page import Example, alignment_page, spread
from nmt.alignment.word_weights import argmax_links, display_pieces, display_weights, word_weights
from nmt.data.links import Links, format_gold, format_pharaoh
from nmt.files.atomic import write_lines
from nmt.inference import run_files
from nmt.inference.engines import AttentionProperties
from nmt.inference.forced_decoding import force_decode
from nmt.inference.model_folder import TrainedModel
from nmt.inference.scores import EvaluationSettings, corpus_scores
from nmt.inference.sentences import say_split
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.corpus import Corpus
from nmt.training.logs import optional, warn
from nmt.training.metrics import draw_curves, read_metrics
from nmt.training.settings import Train

PICTURES = 6  # heatmaps of the test set, as PNG
EXAMPLES = 24  # sentences on the HTML page
MAX_DRAWN = 100  # pieces per side of a drawn sentence: larger pictures are unreadable


def report(
    config: Train, trained: TrainedModel, test: Corpus | None, folder: Path, numbers: Mapping[str, Any]
) -> dict[str, Any]:
    """Write every result file of a run into ``folder`` and return the contents of ``summary.json``.

    ``numbers`` are those of the training, the ``provenance`` of the run and the checksum of its text.
    """
    attention = config.attention["_target_"].rpartition(".")[2]
    if (folder / run_files.METRICS_FILE).is_file():
        picture = folder / run_files.CURVE_FILE
        with optional(str(picture)):
            title = f"{folder.resolve().name}: {attention}"
            save_figure(draw_curves({title: [read_metrics(folder / run_files.METRICS_FILE)]}), picture)
    summary = {"test": None, "signatures": {}, "attention": attention, "seed": config.seed, **numbers}
    if test is not None:
        translator = Translator(trained, check_text=False)
        summary |= test_report(translator, test, folder, config.search, config.evaluation)
    write_lines(folder / run_files.SUMMARY_FILE, json.dumps(summary, indent=2).split("\n"))
    return summary


def test_report(
    translator: Translator, test: Corpus, folder: Path, search: SearchOptions, evaluation: EvaluationSettings
) -> dict[str, Any]:
    """Translate the test set by beam search and score it. A model with attention also aligns and draws it."""
    sources, references, golds = _test_set(test)
    write_lines(folder / run_files.SOURCES, sources)
    write_lines(folder / run_files.REFERENCES, references)
    aligned = translator.attention.reads_source
    failed = partial(_warn_of_sentence, "translation")
    translations = [*translator.translate(sources, search, alignments=aligned, on_failure=failed)]
    say_split(translator.split_lines)
    hypotheses = [best.text for best in translations]
    write_lines(folder / run_files.TRANSLATIONS, hypotheses)
    scores = corpus_scores(hypotheses, references, lowercase=translator.lowercase, tokenizer=evaluation.tokenizer)
    results = {"bleu": scores.bleu, "chrf": scores.chrf, "aer": None}
    if golds is not None:
        write_lines(folder / run_files.GOLD_LINKS, [format_gold(gold) for gold in golds])
    if aligned:
        failed = partial(_warn_of_sentence, "alignment")
        decoded = force_decode(translator, sources, references, on_failure=failed)
        own_links, links = (
            [frozenset() if line.alignment is None else argmax_links(word_weights(line)) for line in aligned_lines]
            for aligned_lines in (translations, decoded)
        )
        write_lines(folder / run_files.TRANSLATION_LINKS, map(format_pharaoh, own_links))
        write_lines(folder / run_files.REFERENCE_LINKS, map(format_pharaoh, links))
        if golds is not None:
            results["aer"] = alignment_error_rate(links, golds)
        with optional(f"{folder}: {run_files.ALIGNMENTS} and {run_files.HEATMAPS}"):
            draw(translator.attention, decoded, golds, folder)
    return {"test": results, "signatures": {**scores.signatures, "aer": AER_METHOD}}


def _warn_of_sentence(missing: str, row: int, reason: str) -> None:
    """Warn that a test sentence is too long for the model or the machine."""
    warn(f"test sentence {row + 1}: {reason}; it has no {missing}")


def draw(
    attention: AttentionProperties,
    decoded: Sequence[Translation],
    golds: Sequence[Links] | None,
    folder: Path,
) -> None:
    """Draw heatmaps of a few test sentences of different lengths, and a page with more. Long sentences are skipped."""
    lengths = [len(decoding.tokens) for decoding in decoded]
    longest = [max(length, len(decoding.source_tokens)) for length, decoding in zip(lengths, decoded, strict=True)]
    short = [row for row, length in enumerate(lengths) if length and longest[row] <= MAX_DRAWN]
    drawn = spread(short, lengths, EXAMPLES)
    name, signed = attention.name, attention.signed
    for row in spread(drawn, lengths, PICTURES):
        picture = folder / run_files.HEATMAPS / f"test-{row + 1}.png"
        title = f"{folder.name}, {name} attention\ntest sentence {row + 1}, force-decoded"
        with optional(str(picture)):
            picture.parent.mkdir(exist_ok=True)
            pieces = display_pieces(decoded[row], signed=signed)
            save_figure(draw_heatmap(*pieces, title=title, signed=signed), picture)
    examples = []
    for row in drawn:
        gold = golds[row].possible if golds else None
        examples.append(Example(row + 1, *display_weights(decoded[row], split=gold is None), gold))
    note = "References, force-decoded. A word's weight: the sum over its source, the mean over its target pieces."
    page = alignment_page(examples, title="Alignments of the test set", attention=name, note=note)
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
