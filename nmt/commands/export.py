"""nmt-export: write a model's ONNX graphs, so that nmt-translate starts quickly and needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.bounds import Count
from nmt.commands.models import load_model
from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run
from nmt.commands.streams import require_stdout
from nmt.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from nmt.inference.model_folder import TrainedModel

HELP = """nmt-export: write a model's ONNX graphs into its folder, so that nmt-translate is faster and needs no torch.

  nmt-export model=runs/demo
  nmt-translate model=runs/demo < in.txt                     uses the fastest engine: now onnx-int8
  nmt-translate model=runs/demo engine=onnx < in.txt         engine=torch | onnx | onnx-int8
  nmt-export model=runs/demo shortlist=50                    also writes a list of likely target pieces
  nmt-translate model=runs/demo shortlist=true < in.txt      uses only the listed pieces: faster

onnx-int8 multiplies in 8-bit integers. It is faster, but some translations differ slightly. Attentions that write one
source state after the other (delta, general_covariance with recall=true) still need torch to encode the source."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """The settings in conf/export.yaml."""

    model: str
    shortlist: Count | None
    corpus: str | None
    trust: list[str]


def main() -> None:
    run(export)


def export(arguments: list[str]) -> None:
    """Run the command. Raises UserError for errors the user can fix."""
    if asks_for_help(arguments):
        show_help(HELP, "export")
        return
    options = read_options("export", Export, arguments)
    require_stdout()
    from nmt.inference.model_folder import MODEL_FILE
    from nmt.storage import archive_fingerprint

    model = Path(options.model) / MODEL_FILE
    # Taken before loading: if the model is replaced during the export, the graphs must not count as its graphs.
    # If there is no model, load_model raises the error.
    fingerprint = archive_fingerprint(model) if model.is_file() else None
    translator = load_model(options.model, device="cpu", threads=None, trust=options.trust)
    from nmt.inference.onnx.export import export as write

    shortlist = _shortlist(translator.trained, options, options.shortlist) if options.shortlist is not None else None
    folder = write(translator.trained, Path(options.model), shortlist, model_identity=fingerprint)
    if translator.trained.model.attention.sequential:
        print(f"note: {translator.attention.name} attention is sequential, so torch still encodes the source")
    for file in sorted([*folder.glob("*.onnx"), *folder.glob("*.npz")]):
        print(f"{file}  {file.stat().st_size / 2**20:.1f} MB")


def _shortlist(trained: TrainedModel, options: Export, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Learn a shortlist from ``corpus=``, or by default from the model's training corpus.

    Raises UserError if there is no such corpus, or if its tokenizers differ from the model's.
    """
    from nmt.inference.onnx.shortlist import learn_translations
    from nmt.tasks.sources import is_prepared
    from nmt.text.prepare import open_prepared

    data = trained.config["data"]
    trained_on = Path(str(data.get("folder"))) if is_prepared(data) else Path(options.model) / "data"
    folder = trained_on if options.corpus is None else Path(options.corpus)
    if not (folder / "train.arrow").is_file():
        raise UserError(f"shortlist={size}: {folder} has no train.arrow to learn from; set corpus=FOLDER")
    prepared = open_prepared(folder)
    tokenizers = ((prepared.source, trained.source), (prepared.target, trained.target))
    if any(corpus_side.to_bytes() != model_side.to_bytes() for corpus_side, model_side in tokenizers):
        raise UserError(
            f"corpus={folder}: its tokenizers differ from the model's; prepare it again with the model's tokenizers "
            "(tokenizer.source_model=FILE)"
        )
    return learn_translations(prepared.corpora["train"], source_vocabulary=len(trained.source), size=size)


if __name__ == "__main__":
    main()
