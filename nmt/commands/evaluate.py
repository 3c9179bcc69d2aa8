"""nmt-evaluate: BLEU, chrF and TER with sacrebleu's signatures; precision, recall and AER of word links."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from nmt.alignment.aer import AER_METHOD, SIGNATURES, LostWords, alignment_scores, read_both
from nmt.commands.options import (
    EMPTY,
    ModelOptions,
    command,
    load_model,
    refuse_both,
    require_with,
    translate_lines,
    warn_of_line,
)
from nmt.commands.streams import require_stdout
from nmt.data.text_files import read_gold, read_pairs
from nmt.errors import UserError
from nmt.inference.engines import EngineName
from nmt.inference.scores import EvaluationSettings, choose_tokenizer, corpus_scores, ignore_case, print_hints
from nmt.inference.translation import NUMBER
from nmt.search.options import SearchOptions

HELP = """nmt-evaluate: score translations against references with BLEU, chrF, TER and alignment error rate (AER).

  nmt-evaluate model=runs/demo src=test.en tgt=test.de               translate src, then score
  nmt-evaluate model=runs/demo src=test.en.gz tgt=test.de.gz links=test.links
  nmt-evaluate model=runs/demo src=test.en tgt=test.de engine=onnx-int8    what does this engine cost in BLEU?
  nmt-evaluate hypotheses=out.txt tgt=test.de                        score finished translations
  nmt-evaluate hypotheses=out.txt tgt=test.de lowercase=true json=true
  nmt-evaluate alignments=out.links links=test.links    score word links of any tool

Prints one line per score: name, value, signature. BLEU, chrF and TER are in percent. With links=, it also
prints precision, recall and AER, all between 0 and 1; the links are those that the model gives to the references.
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
        **dict.fromkeys(("src", "links"), ["model", "alignments"]),
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
        refuse_both(self, "alignments", "model", "hypotheses")
        refuse_both(self, "hypotheses", "model")
        require_with(self, "model", "src", "tgt")
        require_with(self, "hypotheses", "tgt")
        require_with(self, "alignments", "links")
        require_with(self, "src", "tgt")
        if self.alignments is not None:
            require_with(self, "tgt", "src")
        elif self.model is None and self.hypotheses is None:
            fix = "give hypotheses=FILE, or model=FOLDER src=FILE, or alignments=FILE"
            raise UserError(f"hypotheses=null: nothing to score; {fix}")


@command(HELP, EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
    """Print the scores."""
    require_stdout()
    result = _score_texts(options) if options.alignments is None else _score_link_file(options)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, digits in (("BLEU", 2), ("chrF", 2), ("TER", 2), ("precision", 4), ("recall", 4), ("AER", 4)):
        if (value := result.get(name.lower())) is not None:
            print(f"{name} {value:.{digits}f}  {result['signatures'][name.lower()]}")


def _score_link_file(options: EvaluateOptions) -> dict[str, Any]:
    """Return the scores of a file of links, and the numbers of links."""
    assert options.alignments is not None and options.links is not None
    sides = (options.src, options.tgt) if options.src is not None and options.tgt is not None else None
    hypotheses, golds = read_both(options.alignments, options.links, sides)
    return {
        **alignment_scores(hypotheses, golds)._asdict(),
        "sentences": len(golds),
        "links": sum(map(len, hypotheses)),
        "sure": sum(len(gold.sure) for gold in golds),
        "possible": sum(len(gold.possible) for gold in golds),
        "signatures": SIGNATURES,
    }


def _score_texts(options: EvaluateOptions) -> dict[str, Any]:
    """Return the scores of translations of a file or of a model."""
    source = options.src if options.hypotheses is None else options.hypotheses
    assert source is not None and options.tgt is not None
    pairs = read_pairs(source, options.tgt)
    texts, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if options.hypotheses is not None and all(re.match(rf"{NUMBER}\t", text) for text in texts):
        texts = [text.partition("\t")[2] for text in texts]  # without scores
    lowercase, tokenizer = bool(options.lowercase), options.evaluation.tokenizer
    of_model: dict[str, Any] = {}
    if options.model is not None:
        sentences = list(zip(texts, references, strict=True))
        golds = None if options.links is None else read_gold(options.links, sentences)
        translator = load_model(options.model, replace(options.load_settings, engine=options.engine))
        if golds is not None:
            translator.require_attention(f"links={options.links}")
            _ = translator.trained  # links need torch: if it is missing, the error comes before the translations
        translations = translate_lines(translator, texts, options.search, on_failure=warn_of_line(source, EMPTY))
        if golds is not None:
            from nmt.inference.forced_decoding import forced_links

            lost = LostWords({"source": source, "target": options.tgt})
            warn = warn_of_line(source, "it is not aligned")
            links = forced_links(translator, texts, references, on_failure=warn, on_lost=lost.add)
            lost.warn()
            of_model = alignment_scores(links, golds)._asdict()
        lowercase = ignore_case(options.lowercase, trained_on_lowercase=translator.lowercase)
        tokenizer = tokenizer or translator.score_tokenizer
        texts = [translation.text for translation in translations]
    choice = choose_tokenizer(references, tokenizer)
    scores = corpus_scores(texts, references, ter=True, lowercase=lowercase, tokenizer=choice.tokenizer)
    print_hints(choice, texts, references)
    return {
        **scores._asdict(),
        **of_model,
        "sentences": len(references),
        "lowercase": lowercase,
        "tokenizer": choice.tokenizer,
        "signatures": {**scores.signatures, **SIGNATURES, "aer": AER_METHOD},
    }
