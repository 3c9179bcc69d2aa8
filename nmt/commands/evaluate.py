"""nmt-evaluate: BLEU, chrF and TER with their sacrebleu signatures, and AER against gold word alignments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from nmt.commands.models import load_model, require_attention, translate_lines, warn_of_line
from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run
from nmt.commands.streams import require_stdout
from nmt.config.schema import Threads
from nmt.errors import UserError
from nmt.inference.engines import EngineName
from nmt.search.options import SearchOptions
from nmt.text.pair import Pair

if TYPE_CHECKING:
    from nmt.evaluation import Scores
    from nmt.inference.translator import Translator

HELP = """nmt-evaluate: score translations against references with BLEU, chrF, TER and alignment error rate (AER).

  nmt-evaluate model=runs/demo src=test.en tgt=test.de               translate src, then score
  nmt-evaluate model=runs/demo src=test.en.gz tgt=test.de.gz links=test.links links_base=1
  nmt-evaluate model=runs/demo src=test.en tgt=test.de engine=onnx-int8    what does this engine cost in BLEU?
  nmt-evaluate hypotheses=out.txt tgt=test.de                        score finished translations
  nmt-evaluate hypotheses=out.txt tgt=test.de lowercase=true json=true

Prints one line per score: name, value, signature. BLEU, chrF and TER are in percent. AER is between 0 and 1, and is
printed if links= is given. A model that was trained on lower-cased text is scored without case: its signatures say
case:lc. lowercase=false counts case."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """The settings in conf/evaluate.yaml."""

    model: str | None
    hypotheses: str | None
    src: str | None
    tgt: str
    links: str | None
    links_base: Literal[0, 1]
    lowercase: bool | None
    json: bool
    search: SearchOptions
    engine: EngineName
    device: str
    threads: Threads | None
    trust: list[str]

    def __post_init__(self) -> None:
        if self.model is None and self.hypotheses is None:
            raise UserError("hypotheses=null: nothing to score; give hypotheses=FILE, or model=FOLDER src=FILE")
        if self.model is not None and self.hypotheses is not None:
            raise UserError(f"hypotheses={self.hypotheses}: model={self.model} is given too; give only one of them")
        if self.model is not None and self.src is None:
            raise UserError(f"src=null: model={self.model} needs a source text to translate; add src=FILE")
        if self.links is not None and self.model is None:
            raise UserError(
                f"links={self.links}: AER needs a model's alignments; replace hypotheses= by model=FOLDER src=FILE"
            )


def main() -> None:
    run(evaluate)


def evaluate(arguments: list[str]) -> None:
    """Run the command. Raises UserError for errors the user can fix."""
    if asks_for_help(arguments):
        show_help(HELP, "evaluate")
        return
    options = read_options("evaluate", Evaluate, arguments)
    require_stdout()
    texts = _load_or_translate(options)
    from nmt.evaluation import corpus_scores

    scores = corpus_scores(texts.hypotheses, texts.references, lowercase=texts.lowercase, ter=True)
    print(_as_json(scores, texts) if options.json else "\n".join(_as_lines(scores, texts.aer)))


class _Texts(NamedTuple):
    """Translations and their unchanged references, whether to ignore case, and the AER (None without gold links)."""

    hypotheses: list[str]
    references: list[str]
    lowercase: bool
    aer: float | None


def _load_or_translate(options: Evaluate) -> _Texts:
    from nmt.text.files import read_pairs

    if options.hypotheses is not None:
        pairs = read_pairs(options.hypotheses, options.tgt)
        return _Texts([pair.source for pair in pairs], [pair.target for pair in pairs], bool(options.lowercase), None)
    assert options.model is not None and options.src is not None
    pairs = read_pairs(options.src, options.tgt, options.links, links_base=options.links_base)
    translator = load_model(
        options.model, engine=options.engine, device=options.device, threads=options.threads, trust=options.trust
    )
    if options.links is not None:
        require_attention(translator, f"links={options.links}")
    sources = [pair.source for pair in pairs]
    translations = translate_lines(translator, sources, options.search, place=options.src, alignments=False)
    hypotheses, references = [translation.text for translation in translations], [pair.target for pair in pairs]
    lowercase = translator.ignores_case(options.lowercase)
    return _Texts(hypotheses, references, lowercase, _aer(translator, pairs, options))


def _aer(translator: Translator, pairs: Sequence[Pair], options: Evaluate) -> float | None:
    """Return the alignment error rate of the force-decoded references, or None without gold links."""
    if options.links is None:
        return None
    from nmt.alignment.aer import alignment_error_rate
    from nmt.alignment.links import read_gold
    from nmt.inference.forced_decoding import forced_links

    assert options.src is not None
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    warn = warn_of_line(options.src, "it is not aligned")
    links = forced_links(translator, sources, targets, on_failure=warn)
    return alignment_error_rate(links, read_gold(options.links, base=options.links_base))


def _as_lines(scores: Scores, aer: float | None) -> list[str]:
    from nmt.alignment.aer import AER_METHOD

    lines = [
        f"BLEU {scores.bleu:.2f}  {scores.signatures['bleu']}",
        f"chrF {scores.chrf:.2f}  {scores.signatures['chrf']}",
        f"TER {scores.ter:.2f}  {scores.signatures['ter']}",
    ]
    return lines if aer is None else [*lines, f"AER {aer:.4f}  {AER_METHOD}"]


def _as_json(scores: Scores, texts: _Texts) -> str:
    from nmt.alignment.aer import AER_METHOD

    result = {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "ter": scores.ter,
        "aer": texts.aer,
        "sentences": len(texts.references),
        "lowercase": texts.lowercase,
        "signatures": scores.signatures if texts.aer is None else {**scores.signatures, "aer": AER_METHOD},
    }
    return json.dumps(result, indent=2)


if __name__ == "__main__":
    main()
