"""The Python interface: ``train`` is nmt-train, and ``Translator`` has the methods of the other commands."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from nmt.arguments import iterable, text, text_list
from nmt.errors import Interrupted, UserError, counted
from nmt.inference.oversized import OnFailure
from nmt.inference.run_files import METRICS_FILE
from nmt.inference.translator import Translator as InferenceTranslator
from nmt.search.options import SearchOptions
from nmt.text.links import Link, Links, links_from_python

if TYPE_CHECKING:
    from nmt.alignment.page import Example
    from nmt.inference.forced_decoding import ForcedDecoding

Pairs = Iterable[tuple[str, str]]
Rows = Iterable[tuple[str, str] | Mapping[str, Any]]

SEVERAL = re.compile(r"""[^\s='"\[{]+=[^'"\[{]*\s[+~]*[A-Za-z_][\w.]*=.*""", re.DOTALL)
"""Matches two settings in one string, unless quotes or brackets make them one value."""


class Evaluation(NamedTuple):
    """Scores of translations: BLEU, chrF and TER in percent, AER in [0, 1] or None, and the signature of each."""

    bleu: float
    chrf: float
    ter: float
    aer: float | None
    signatures: dict[str, str]
    translations: list[str]


@dataclass(frozen=True, kw_only=True)
class Heatmap:
    """The attention of one sentence pair, between words or pieces; Jupyter shows it as a table.

    ``weights`` (T, S) has one row per target word or piece, and one column per source word or piece. Words of scripts
    without spaces are split into pieces, unless there are ``gold`` links (source word, target word). ``signed`` weights
    can be negative.
    """

    weights: np.ndarray
    source: list[str]
    target: list[str]
    title: str
    gold: frozenset[Link] | None = None
    signed: bool = False

    def save(self, path: str | Path, *, title: bool = True) -> Path:
        """Write the heatmap as a PNG, SVG, PDF or HTML file, chosen by the suffix of ``path``.

        A picture for a paper needs no ``title``.
        """
        path, shown = Path(path), self.title if title else ""
        if path.suffix.lower() == ".html":
            from nmt.alignment.page import alignment_page
            from nmt.files.atomic import write_lines

            page = alignment_page([self._example()], title=self.title, signed=self.signed, heading=title)
            write_lines(path, page.rstrip("\n").split("\n"), user_named=True)
            return path
        from nmt.alignment.heatmap import save_heatmap

        settings: Any = {"signed": self.signed, "gold": self.gold, "user_named": True}
        save_heatmap(self.weights, self.source, self.target, path, title=shown, **settings)
        return path

    def __repr__(self) -> str:
        return f"Heatmap({self.title!r}, {len(self.target)} × {len(self.source)})"

    def _repr_html_(self) -> str:
        from nmt.alignment.page import alignment_table

        return alignment_table(self._example(), signed=self.signed)

    def _example(self) -> Example:
        from nmt.alignment.page import Example

        return Example(1, self.weights, self.source, self.target, self.gold)


@dataclass(frozen=True)
class Run:
    """A finished training run. ``summary`` is the content of its ``summary.json``."""

    folder: Path
    summary: dict[str, Any]

    @property
    def scores(self) -> dict[str, float | None]:
        """``bleu``, ``chrf`` and ``aer`` of the test set; empty without a test set."""
        return self.summary["test"] or {}

    @property
    def history(self) -> dict[str, list[tuple[int, float]]]:
        """The (update, value) points of each metric during training, such as ``valid_loss``."""
        from nmt.training.curve import read_metrics

        return read_metrics(self.folder / METRICS_FILE)


def train(
    *settings: str,
    train: Rows | None = None,
    valid: Rows | None = None,
    test: Rows | None = None,
    columns: tuple[str, str] | None = None,
) -> Run:
    """Train a model with the settings and checks of ``nmt-train``, such as ``train("name=quick", "attention=luong")``.

    ``train``, ``valid`` and optionally ``test`` are the text, instead of a ``data`` setting: (source, target) tuples or
    rows that are mappings, such as those of a Hugging Face ``Dataset``. ``columns`` are then the names of source and
    target, in the row or in its column ``translation``.

    Progress goes to stderr. Raises UserError for anything that the user can fix, and Interrupted, a KeyboardInterrupt,
    if the run was stopped; its folder can be resumed with ``resume=true``.
    """
    from nmt.commands.train import run_training

    settings = tuple(text(setting, f"settings[{number}]") for number, setting in enumerate(settings))
    for number, setting in enumerate(settings):
        if SEVERAL.fullmatch(setting):
            fix = "give each as a separate string, such as 'name=quick', 'attention=luong'"
            raise UserError(f"settings[{number}]={setting!r:.80}: several settings in one string; {fix}")
    given = {"train": train, "valid": valid, "test": test}
    what = "(source, target) pairs, or of rows with columns="
    pairs = {part: iterable(rows, part, what=what) for part, rows in given.items() if rows is not None}
    words = [*_data_settings(settings, pairs, columns), *settings]
    result = run_training(words, pairs or None)
    if result.stop_signal is not None or result.summary is None:
        raise Interrupted(result.stop_signal or signal.SIGINT)
    return Run(result.folder, result.summary)


def _data_settings(settings: Sequence[str], pairs: Mapping[str, Rows], columns: Sequence[str] | None) -> list[str]:
    """Return the settings that describe text from Python. Raises UserError where other ``settings`` contradict them."""
    if not pairs:
        if columns is not None:
            raise UserError("columns=: needs train= and valid= too; give them, or remove columns=")
        return []
    for setting in settings:
        if setting.startswith("data="):
            raise UserError(f"{setting}: the text is given as {', '.join(f'{part}=' for part in pairs)}; remove one")
    if columns is None:
        return ["data=python"]
    columns = text_list(columns, "columns", what="the names of source and target, such as ('en', 'de')")
    if len(columns) != 2 or columns[0] == columns[1]:
        raise UserError(f"columns={columns!r:.80}: must be the names of source and target, such as ('en', 'de')")
    return ["data=python", f"data.columns={json.dumps(columns, ensure_ascii=False)}"]


class Translator(InferenceTranslator):
    """A trained model: translates, scores, aligns, evaluates and draws.

    ``score``, ``align`` and ``heatmap`` need the torch model. If another engine translates, it is loaded on first use.
    """

    def score(self, pairs: Pairs, *, on_failure: OnFailure | None = None) -> list[ForcedDecoding]:
        """Return the model's log-probability (``log_prob``) and alignment of each (source, translation) pair."""
        _ = self.trained  # raises UserError without torch, which the next import needs
        from nmt.inference.forced_decoding import force_decode

        sources, targets = _sides(pairs)
        return force_decode(self, sources, targets, on_failure=on_failure)

    def align(self, pairs: Pairs, *, on_failure: OnFailure | None = None) -> list[frozenset[Link]]:
        """Return links (source word, target word), counted from 0, of each (source, translation) pair."""
        self._require_attention()
        _ = self.trained  # raises UserError without torch, which the next import needs
        from nmt.inference.forced_decoding import forced_links

        sources, targets = _sides(pairs)
        return forced_links(self, sources, targets, on_failure=on_failure)

    def evaluate(
        self,
        sources: Iterable[str],
        references: Iterable[str],
        options: SearchOptions | None = None,
        *,
        links: Iterable[Links | Iterable[Link] | str] | None = None,
        lowercase: bool | None = None,
        tokenizer: str | None = None,
    ) -> Evaluation:
        """Translate ``sources`` and score the translations against ``references``.

        ``links`` are gold word alignments, which add the alignment error rate: for each pair a set of sure links
        (source word, target word), a line in Pharaoh format, or a ``Links``. ``lowercase`` ignores case. By default,
        case is ignored if the model was trained on lower-cased text. ``tokenizer`` is the setting evaluation.tokenizer:
        one of sacrebleu's, by default that of the run, or one that fits the script of the references. The signatures
        record both. What is unusual in the texts is printed on stderr.
        """
        from nmt.alignment.aer import AER_METHOD, alignment_error_rate
        from nmt.evaluation import choose_tokenizer, corpus_scores, ignore_case
        from nmt.score_hints import print_hints

        sources, references = text_list(sources, "sources"), text_list(references, "references")
        if len(sources) != len(references):
            sizes = f"{counted(len(sources), 'source')}, {counted(len(references), 'reference')}"
            raise UserError(f"{sizes}: give one reference per source")
        pairs = [*zip(sources, references, strict=True)]
        golds = None if links is None else links_from_python(links, pairs)
        choice = choose_tokenizer(references, tokenizer or self.score_tokenizer)
        translations = self.texts(sources, options)
        how: dict[str, Any] = {
            "lowercase": ignore_case(lowercase, trained_on_lowercase=self.lowercase),
            "tokenizer": choice.tokenizer,
        }
        scores = corpus_scores(translations, references, ter=True, **how)
        print_hints(choice, translations, references, sources=sources, **how)
        aer, signatures = None, scores.signatures
        if golds is not None:
            aer = alignment_error_rate(self.align(pairs), golds)
            signatures = {**signatures, "aer": AER_METHOD}
        assert scores.ter is not None
        return Evaluation(scores.bleu, scores.chrf, scores.ter, aer, signatures, translations)

    def heatmap(
        self,
        source: str,
        target: str | None = None,
        *,
        links: Links | Iterable[Link] | str | None = None,
        granularity: Literal["word", "piece"] = "word",
    ) -> Heatmap:
        """Return what the model attends to when it produces ``target``, or its own translation of ``source``.

        ``links`` are the gold links of this pair, which are outlined: pairs of (source word, target word) or a line in
        Pharaoh format. They need a given ``target`` and ``granularity="word"``.
        """
        from nmt.alignment.unspaced import display_weights, piece_labels
        from nmt.alignment.word_weights import piece_weights

        self._require_attention()
        if granularity not in ("word", "piece"):
            raise TypeError(f"granularity={granularity!r}: must be 'word' or 'piece'")
        if links is not None and (target is None or granularity == "piece"):
            raise UserError(
                "links=: gold links connect words of a given translation; give target=, remove granularity="
            )
        source, own = text(source, "source"), target is None
        target = self.texts([source])[0] if target is None else text(target, "target")
        gold = None if links is None else links_from_python([links], [(source, target)])[0]
        decoding = self.score([(source, target)])[0]
        title = f"{self.attention.name} attention, {'own translation' if own else 'given translation'}"
        if granularity == "piece":
            signed = self.attention.signed
            return Heatmap(
                weights=piece_weights(decoding, signed=signed),
                source=piece_labels(decoding.source_tokens),
                target=piece_labels(decoding.tokens),
                title=title,
                signed=signed,
            )
        display = display_weights(decoding, self.change_text(source), target, split=gold is None)
        outlined = None if gold is None else gold.sure | gold.possible
        return Heatmap(**display._asdict(), title=title, gold=outlined)

    def _require_attention(self) -> None:
        if not self.attention.reads_source:
            raise UserError("this model has no attention, so it has no alignments; use a model with attention")


def _sides(pairs: Pairs) -> tuple[list[str], list[str]]:
    listed = list(iterable(pairs, "pairs", what="(source, translation) pairs"))
    for row, pair in enumerate(listed):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise TypeError(f"pairs[{row}]={pair!r:.80}: must be (source, translation), both strings")
    return [source for source, _ in listed], [target for _, target in listed]
