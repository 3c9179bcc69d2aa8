"""nmt-evaluate: BLEU, chrF and TER with their signatures, and alignment error rate where there is gold."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nmt.commands.models import link_whatever_fits, load_model, require_attention, translate_lines
from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run
from nmt.config.schema import Threads
from nmt.errors import UserError
from nmt.search.options import SearchOptions
from nmt.text.pair import Pair

if TYPE_CHECKING:
    from nmt.evaluation import Scores
    from nmt.inference.translator import Translator

HELP = """nmt-evaluate: score a model's translations, or translations that are there already, against references.

  nmt-evaluate model=runs/demo src=test.en tgt=test.de
  nmt-evaluate model=runs/demo src=test.en.gz tgt=test.de.gz links=test.links links_base=1
  nmt-evaluate hypotheses=out.txt tgt=test.de lowercase=true
  nmt-evaluate hypotheses=out.txt tgt=test.de json=true

Prints one line a score: its name, its value, its sacrebleu signature. BLEU, chrF and TER are in percent; AER,
in [0, 1], is printed where links are given."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """conf/evaluate.yaml."""

    model: str | None
    hypotheses: str | None
    src: str | None
    tgt: str
    links: str | None
    links_base: Literal[0, 1]
    lowercase: bool
    json: bool
    search: SearchOptions
    device: str
    threads: Threads | None
    trust: list[str]

    def __post_init__(self) -> None:
        if (self.model is None) == (self.hypotheses is None):
            raise UserError("model, hypotheses: give one of them, as model=FOLDER src=FILE or as hypotheses=FILE")
        if self.model is not None and self.src is None:
            raise UserError(f"model={self.model}: needs something to translate; add src=FILE")
        if self.links is not None and self.model is None:
            raise UserError(
                f"links={self.links}: are compared with a model's alignment; give model=FOLDER, not hypotheses"
            )


def main() -> None:
    run(evaluate)


def evaluate(arguments: list[str]) -> None:
    """Run the command. Raises UserError for whatever the user can put right."""
    if asks_for_help(arguments):
        show_help(HELP, "evaluate")
        return
    options = read_options("evaluate", Evaluate, arguments)
    hypotheses, references, aer = _judged(options)
    from nmt.evaluation import corpus_scores

    scores = corpus_scores(hypotheses, references, lowercase=options.lowercase, ter=True)
    print(_as_json(scores, aer, options, len(references)) if options.json else "\n".join(_as_lines(scores, aer)))


def _judged(options: Evaluate) -> tuple[list[str], list[str], float | None]:
    """Translations, references as they stand in their file, and AER where gold links are given."""
    from nmt.text.files import read_pairs

    if options.hypotheses is not None:
        pairs = read_pairs(options.hypotheses, options.tgt)
        return [pair.source for pair in pairs], [pair.target for pair in pairs], None
    assert options.model is not None and options.src is not None
    pairs = read_pairs(options.src, options.tgt, options.links, links_base=options.links_base)
    translator = load_model(options.model, device=options.device, threads=options.threads, trust=options.trust)
    if options.links is not None:
        require_attention(translator, f"links={options.links}")
    if translator.lowercase and not options.lowercase:
        note = "this model was trained on lower-cased text and writes lower case, the references are scored as given"
        print(f"note: {note}; lowercase=true lower-cases both sides", file=sys.stderr)
    sources = [pair.source for pair in pairs]
    found = translate_lines(translator, sources, options.search, place=options.src, alignments=False)
    return [one.text for one in found], [pair.target for pair in pairs], _aer(translator, pairs, options)


def _aer(translator: Translator, pairs: Sequence[Pair], options: Evaluate) -> float | None:
    if options.links is None:
        return None
    from nmt.alignment.aer import alignment_error_rate
    from nmt.alignment.links import read_gold

    assert options.src is not None
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    links = link_whatever_fits(translator, sources, targets, place=options.src)
    return alignment_error_rate(links, read_gold(options.links, base=options.links_base))


def _as_lines(scores: Scores, aer: float | None) -> list[str]:
    from nmt.alignment.aer import AER_METHOD

    lines = [
        f"BLEU {scores.bleu:.2f}  {scores.signatures['bleu']}",
        f"chrF {scores.chrf:.2f}  {scores.signatures['chrf']}",
        f"TER {scores.ter:.2f}  {scores.signatures['ter']}",
    ]
    return lines if aer is None else [*lines, f"AER {aer:.4f}  {AER_METHOD}"]


def _as_json(scores: Scores, aer: float | None, options: Evaluate, sentences: int) -> str:
    from nmt.alignment.aer import AER_METHOD

    result = {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "ter": scores.ter,
        "aer": aer,
        "sentences": sentences,
        "lowercase": options.lowercase,
        "signatures": scores.signatures if aer is None else {**scores.signatures, "aer": AER_METHOD},
    }
    return json.dumps(result, indent=2)


if __name__ == "__main__":
    main()
