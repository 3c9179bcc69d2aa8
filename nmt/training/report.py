"""What a finished run leaves behind: translations, scores, alignments and pictures of the test set."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.alignment.aer import AER_METHOD, alignment_error_rate
from nmt.alignment.heatmap import save_heatmap
from nmt.alignment.links import format_pharaoh
from nmt.alignment.page import Example, alignment_page
from nmt.alignment.word_weights import fit_word_weights, piece_weights
from nmt.evaluation import corpus_scores
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.storage import write_lines
from nmt.text.corpus import Corpus
from nmt.training.curve import save_curve
from nmt.training.fit import Fitted
from nmt.training.metrics import METRICS_FILE

PICTURES = 6  # heatmaps of the test set, as PNG
EXAMPLES = 24  # sentences on the HTML page
LONGEST = 100  # words or pieces a side of what is drawn: more cannot be looked at, and cells grow with the square


def report(config: Mapping[str, Any], fitted: Fitted, test: Corpus | None, folder: Path) -> dict[str, Any]:
    """Write every result file of a run into ``folder`` and return what ``summary.json`` holds."""
    if (folder / METRICS_FILE).is_file():
        save_curve(folder / METRICS_FILE, folder / "curve.png")
    summary: dict[str, Any] = {
        "test": None,
        "tokens_per_s": round(fitted.tokens_per_s),
        "seconds": round(fitted.seconds, 1),
        "epochs": fitted.epochs,
        "valid_best": fitted.best,
        "attention": config["attention"]["_target_"].rpartition(".")[2],
        "signatures": {},
    }
    if test is not None:
        summary.update(test_report(config, Translator(fitted.trained), test, folder))
    write_lines(folder / "summary.json", json.dumps(summary, indent=2).split("\n"))
    return summary


def test_report(config: Mapping[str, Any], translator: Translator, test: Corpus, folder: Path) -> dict[str, Any]:
    """Translate the test set by beam search and score it; force-align it and draw some, where there is attention."""
    sources, references = test.sources(), test.targets()
    hypotheses = translator.texts(sources, SearchOptions(**config["search"]), on_failure=_warn("translation"))
    write_lines(folder / "test.translations.txt", hypotheses)
    scores = corpus_scores(hypotheses, references)
    found = {"bleu": scores.bleu, "chrf": scores.chrf, "aer": None}
    if translator.attention.reads_source:
        links = forced_links(translator, sources, references, on_failure=_warn("alignment"))
        golds = test.links()
        write_lines(folder / "test.alignments.pharaoh", [format_pharaoh(one) for one in links])
        if golds is not None:
            found["aer"] = alignment_error_rate(links, golds)
        draw(translator, test, folder)
    return {"test": found, "signatures": {**scores.signatures, "aer": AER_METHOD}}


def _warn(missing: str) -> Callable[[int, str], None]:
    """Return an ``on_failure`` function that prints which test sentence is too long for the model or the machine."""

    def warn(row: int, reason: str) -> None:
        print(f"warning: test sentence {row + 1}: {reason}; it has no {missing}", file=sys.stderr)

    return warn


def draw(translator: Translator, test: Corpus, folder: Path) -> None:
    """Heatmaps of a few test sentences of different lengths, and one page with more of them; none of endless ones."""
    sources, references, golds = test.sources(), test.targets(), test.links()
    pieces = [lengths + 1 for lengths in (test.source_lengths, test.target_lengths)]  # with </s>
    words = [np.array([len(line.split()) for line in side]) for side in (sources, references)]
    limit = translator.attention.max_source_length or LONGEST
    short = np.flatnonzero((np.max([*pieces, *words], axis=0) <= LONGEST) & (pieces[0] <= limit))
    if not len(short):
        print(f"every test sentence is longer than {LONGEST} words or pieces: no alignments are drawn", file=sys.stderr)
        return
    chosen = [int(short[row]) for row in spread(pieces[1][short], EXAMPLES)]
    forced = force_decode(translator, [sources[at] for at in chosen], [references[at] for at in chosen])
    signed = translator.attention.signed
    pictures = folder / "heatmaps"
    pictures.mkdir(exist_ok=True)
    for row in spread(pieces[1][chosen], PICTURES):
        at, one = chosen[row], forced[row]
        matrix = piece_weights(one, signed=signed)
        title = f"test sentence {at + 1}, force-decoded"
        save_heatmap(matrix, one.source_tokens, one.tokens, pictures / f"test-{at + 1}.png", title=title, signed=signed)
    examples = []
    for at, one in zip(chosen, forced, strict=True):
        left, right = sources[at].split(), references[at].split()
        gold = golds[at].possible if golds else None
        examples.append(Example(at + 1, fit_word_weights(one, left, right), left, right, gold))
    note = "References, force-decoded. A word's weight: the sum over its source, the mean over its target pieces."
    page = alignment_page(examples, title="Alignments of the test set", attention=translator.attention.name, note=note)
    write_lines(folder / "alignments.html", page.split("\n"))


def spread(lengths: np.ndarray, count: int) -> list[int]:
    """Up to ``count`` row numbers whose lengths spread evenly from short to long."""
    order = sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    if len(order) <= count:
        return order
    return [order[round(k * (len(order) - 1) / (count - 1))] for k in range(count)]
