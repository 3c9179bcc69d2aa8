"""nmt-evaluate: BLEU, chrF and TER with sacrebleu's signatures; precision, recall and AER of word links."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nmt.alignment.aer import LostWords
from nmt.commands.options import (
    EMPTY,
    ModelOptions,
    command,
    load_model,
    refuse_both,
    require_attention,
    translate_lines,
    warn_of_line,
)
from nmt.commands.streams import require_stdout
from nmt.data.links import Links
from nmt.errors import UserError
from nmt.inference.engines import EngineName
from nmt.inference.scores import EvaluationSettings, ignore_case
from nmt.search.options import SearchOptions

if TYPE_CHECKING:
    from nmt.alignment.aer import AlignmentScores
    from nmt.inference.translator import Translator

HELP = """nmt-evaluate: score translations against references with BLEU, chrF, TER and alignment error rate (AER).

  nmt-evaluate model=runs/demo src=test.en tgt=test.de               translate src, then score
  nmt-evaluate model=runs/demo src=test.en.gz tgt=test.de.gz links=test.links
  nmt-evaluate model=runs/demo src=test.en tgt=test.de engine=onnx-int8    what does this engine cost in BLEU?
  nmt-evaluate hypotheses=out.txt tgt=test.de                        score finished translations
  nmt-evaluate hypotheses=out.txt tgt=test.de lowercase=true json=true
  nmt-evaluate alignments=out.links links=test.links    score word links of any tool

Prints one line per score: name, value, signature. BLEU, chrF and TER are in percent. With links=, it also
prints precision, recall and AER, all between 0 and 1; the links are those that the model gives to the references.
With model= and at least 20 lines, the last line says how well confidence predicts the chrF of a line.
A model that was trained on lower-cased text is scored without case: its signatures say case:lc. lowercase=false counts
case.
For several references of each line, use sacrebleu itself: sacrebleu one.de two.de -i out.txt -m bleu chrf ter
BLEU counts the tokens of evaluation.tokenizer=. By default, it is that of the model's run. If the run has none, it
depends on the script of the references: 13a for languages with spaces between words."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ModelOptions):
    """The settings in conf/evaluate.yaml."""

    OWNERS = {
        **dict.fromkeys(("search", "engine"), ["model"]),
        **dict.fromkeys(("lowercase", "evaluation"), ["model", "hypotheses"]),
    }
    model: str | list[str] | None
    hypotheses: str | None
    src: str | None
    tgt: str | None
    alignments: str | None
    links: str | None
    lowercase: bool | None
    json: bool
    search: SearchOptions
    evaluation: EvaluationSettings
    engine: EngineName

    def __post_init__(self) -> None:
        self.search.require_one_best("only the best translation of a line is scored")
        if self.alignments is not None:
            self._check_alignments()
            return
        if self.model is None and self.hypotheses is None:
            raise UserError(
                "hypotheses=null: nothing to score; give hypotheses=FILE, or model=FOLDER src=FILE, or alignments=FILE"
            )
        refuse_both(self, "hypotheses", "model")
        if self.model is not None and self.src is None:
            raise UserError(f"src=null: model={self.model} needs a source text to translate; add src=FILE")
        if self.hypotheses is not None and self.links is not None:
            raise UserError(
                f"links={self.links}: AER needs alignments; replace hypotheses= by model=FOLDER src=FILE"
                " or alignments=FILE"
            )
        if self.hypotheses is not None and self.src is not None:
            raise UserError(f"src={self.src}: hypotheses={self.hypotheses} needs no source text; remove src=")
        if self.tgt is None:
            raise UserError("tgt=null: no references; add tgt=FILE")

    def _check_alignments(self) -> None:
        refuse_both(self, "alignments", "model", "hypotheses")
        if self.links is None:
            raise UserError(f"links=null: alignments={self.alignments} needs gold links; add links=FILE")
        if (self.src is None) != (self.tgt is None):
            missing = "src" if self.src is None else "tgt"
            raise UserError(f"{missing}=null: links are checked against both texts or none; add {missing}=FILE")


@command(HELP, EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
    """Print the scores."""
    require_stdout()
    lines, result = _score_texts(options) if options.alignments is None else _score_link_file(options)
    print(json.dumps(result, indent=2) if options.json else "\n".join(lines))


def _score_link_file(options: EvaluateOptions) -> tuple[list[str], dict[str, Any]]:
    """Return the output, as lines and as JSON."""
    from nmt.alignment.aer import SIGNATURES, alignment_scores, read_both, score_lines

    assert options.alignments is not None and options.links is not None
    sides = (options.src, options.tgt) if options.src is not None and options.tgt is not None else None
    hypotheses, golds = read_both(options.alignments, options.links, sides)
    scores = alignment_scores(hypotheses, golds)
    return score_lines(scores), {
        "precision": scores.precision,
        "recall": scores.recall,
        "aer": scores.error_rate,
        "sentences": len(golds),
        "links": sum(map(len, hypotheses)),
        "sure": sum(len(gold.sure) for gold in golds),
        "possible": sum(len(gold.possible) for gold in golds),
        "signatures": SIGNATURES,
    }


def _score_texts(options: EvaluateOptions) -> tuple[list[str], dict[str, Any]]:
    """Return the output, as lines and as JSON, for translations of a file or of a model."""
    from nmt.alignment.aer import AER_METHOD, SIGNATURES, score_lines
    from nmt.data.text_files import read_gold, read_pairs
    from nmt.inference.scores import calibrate, choose_tokenizer, corpus_scores, print_hints

    source = options.src if options.hypotheses is None else options.hypotheses
    assert source is not None and options.tgt is not None
    pairs = read_pairs(source, options.tgt)
    texts, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    lowercase, tokenizer = bool(options.lowercase), options.evaluation.tokenizer
    confidence: float | None = None
    links: AlignmentScores | None = None
    if options.model is not None:
        sentences = list(zip(texts, references, strict=True))
        golds = None if options.links is None else read_gold(options.links, sentences)
        translator = load_model(options.model, replace(options.load_settings, engine=options.engine))
        if golds is not None:
            require_attention(translator, f"links={options.links}")
            _ = translator.trained  # links need torch: if it is missing, the error comes before the translations
        translations = translate_lines(translator, texts, options.search, on_failure=warn_of_line(source, EMPTY))
        links = None if golds is None else _score_model_links(translator, texts, references, golds, options)
        lowercase = ignore_case(options.lowercase, trained_on_lowercase=translator.lowercase)
        tokenizer = tokenizer or translator.score_tokenizer
        confidence = calibrate(translations, references, lowercase=lowercase)
        texts = [translation.text for translation in translations]
    choice = choose_tokenizer(references, tokenizer)
    scores = corpus_scores(texts, references, ter=True, lowercase=lowercase, tokenizer=choice.tokenizer)
    print_hints(choice, texts, references)
    signatures = scores.signatures
    names = {"BLEU": scores.bleu, "chrF": scores.chrf, "TER": scores.ter}
    lines = [f"{name} {value:.2f}  {signatures[name.lower()]}" for name, value in names.items()]
    if links is not None:
        lines += score_lines(links, AER_METHOD)
        signatures = {**signatures, **SIGNATURES, "aer": AER_METHOD}
    if confidence is not None:
        lines.append(f"confidence {confidence:.2f}  Spearman's rho with the chrF of a line")
    return lines, {
        **{name.lower(): value for name, value in names.items()},
        "precision": links and links.precision,
        "recall": links and links.recall,
        "aer": links and links.error_rate,
        "confidence": confidence,
        "sentences": len(references),
        "lowercase": lowercase,
        "tokenizer": choice.tokenizer,
        "signatures": signatures,
    }


def _score_model_links(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    golds: Sequence[Links],
    options: EvaluateOptions,
) -> AlignmentScores:
    """Score the links of the force-decoded references."""
    from nmt.alignment.aer import alignment_scores
    from nmt.inference.forced_decoding import forced_links

    lost = LostWords({"source": str(options.src), "target": str(options.tgt)})
    warn = warn_of_line(str(options.src), "it is not aligned")
    links = forced_links(translator, sources, targets, on_failure=warn, on_lost=lost.add)
    lost.warn()
    return alignment_scores(links, golds)
