"""nmt-export: a model's graphs, with which nmt-translate starts at once and needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.commands.models import load_model
from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run
from nmt.config.schema import Count
from nmt.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from nmt.inference.model_folder import TrainedModel

HELP = """nmt-export: write a model's ONNX graphs into its folder, for nmt-translate to run without torch.

  nmt-export model=runs/demo
  nmt-translate model=runs/demo < in.txt                     now the fastest engine that is there
  nmt-translate model=runs/demo engine=onnx < in.txt         engine=torch | onnx | onnx-int8
  nmt-export model=runs/demo shortlist=50                    and what limits translations to likely pieces
  nmt-translate model=runs/demo shortlist=true < in.txt

onnx-int8 multiplies in 8-bit integers: faster, and not quite the same translations. Sources of attentions that write
one source state after the other (delta, general_covariance with recall) are still encoded by torch."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """conf/export.yaml."""

    model: str
    shortlist: Count | None
    corpus: str | None
    trust: list[str]


def main() -> None:
    run(export)


def export(arguments: list[str]) -> None:
    """Run the command. Raises UserError for whatever the user can put right."""
    if asks_for_help(arguments):
        show_help(HELP, "export")
        return
    options = read_options("export", Export, arguments)
    from nmt.inference.model_folder import MODEL_FILE
    from nmt.storage import archive_fingerprint

    model = Path(options.model) / MODEL_FILE
    # Of what is about to be loaded; where there is nothing, loading says so.
    loaded = archive_fingerprint(model) if model.is_file() else None
    translator = load_model(options.model, device="cpu", threads=None, trust=options.trust)
    from nmt.inference.onnx.export import export as write

    lists = _lists(translator.trained, options, options.shortlist) if options.shortlist is not None else None
    folder = write(translator.trained, Path(options.model), lists, model_identity=loaded)
    if translator.trained.model.attention.sequential:
        print(f"{translator.attention.name} attention writes one source state after the other: torch goes on to encode")
    for file in sorted([*folder.glob("*.onnx"), *folder.glob("*.npz")]):
        print(f"{file}  {file.stat().st_size / 2**20:.1f} MB")


def _lists(trained: TrainedModel, options: Export, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A shortlist's lists, learnt from the corpus asked for, or else from the one that the model was trained on."""
    from nmt.inference.onnx.shortlist import learn_translations
    from nmt.text.prepare import open_prepared

    data = trained.config["data"]
    own = Path(data["folder"]) if data["kind"] == "prepared" else Path(options.model) / "data"
    folder = own if options.corpus is None else Path(options.corpus)
    if not (folder / "train.arrow").is_file():
        raise UserError(f"shortlist={size}: no train.arrow in {folder} to learn from; name a corpus with corpus=FOLDER")
    prepared = open_prepared(folder)
    if any(
        one.to_bytes() != other.to_bytes()
        for one, other in ((prepared.source, trained.source), (prepared.target, trained.target))
    ):
        raise UserError(
            f"corpus={folder}: cut into other pieces than the model's; prepare it with the model's tokenizer"
        )
    return learn_translations(prepared.corpora["train"], source_vocabulary=len(trained.source), size=size)


if __name__ == "__main__":
    main()
