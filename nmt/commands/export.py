"""nmt-export: write a model's ONNX graphs, so that nmt-translate starts quickly and needs no torch."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.commands.options import command, load_model
from nmt.commands.streams import require_stdout
from nmt.config.overrides import read_yaml
from nmt.errors import UserError
from nmt.files.atomic import create_folder
from nmt.inference.engines import GRAPH_SUFFIX, LoadSettings, OnnxEngineName
from nmt.inference.run_files import CONFIG_FILE, has_adapter
from nmt.settings.arguments import Count

if TYPE_CHECKING:
    from nmt.inference.model_folder import TrainedModel
    from nmt.inference.onnx.shortlist import LikelyPieces

HELP = """nmt-export: write a model's ONNX graphs into its folder, so that nmt-translate is faster and needs no torch.

  nmt-export model=runs/demo
  nmt-translate model=runs/demo < in.txt                     uses engine=onnx: the same translations as torch
  nmt-translate model=runs/demo engine=onnx-int8 < in.txt    8-bit integers: faster, some translations differ slightly
  nmt-export model=runs/demo engine=onnx-int8                writes only these graphs: then they are the default
  nmt-export model=runs/demo shortlist=20                    also writes a list of likely target pieces
  nmt-translate model=runs/demo shortlist=true < in.txt      uses only the listed pieces: faster with engine=onnx
  nmt-export model=runs/demo output=deployed                 a new folder to copy to a machine without torch
  nmt-export model=runs/adapter output=deployed              merges an adapter that nmt-train adapt=lora has trained
  nmt-translate model=deployed < in.txt                      needs only the packages in deployed/requirements.txt

Attentions that write the source states one by one (delta, gated_delta, general_covariance with recall) cannot be
exported."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The settings in conf/export.yaml."""

    model: str
    output: str | None
    engine: OnnxEngineName | None
    shortlist: Count | None
    trust: list[str]


@command(HELP, ExportOptions)
def export(options: ExportOptions) -> None:
    """Write the graphs."""
    require_stdout()
    if options.output is None:
        if has_adapter(Path(options.model)):
            raise UserError(f"model={options.model}: graphs with an adapter need a new folder; add output=FOLDER")
        print_files(_write(options))
        return
    with create_folder(Path(options.output)) as folder:
        _write(options, folder)
    print_files(Path(options.output))
    print(f"translate with: nmt-translate {shlex.join([f'model={options.output}'])} < in.txt > out.txt")


def _write(options: ExportOptions, deployment: Path | None = None) -> Path:
    """Write the graphs into the run's folder, or a complete ``deployment``. Return the folder that was written."""
    from nmt.inference.model_folder import model_fingerprint

    # Taken before loading: if the model is replaced during the export, the graphs must not count as its graphs.
    # If there is no model, load_model raises the error.
    fingerprint = model_fingerprint(Path(options.model))
    settings = LoadSettings(engine="torch", device="cpu", trust=options.trust)
    trained = load_model(options.model, settings).trained
    from nmt.inference.onnx.export import export, write_deployment

    likely = likely_pieces(trained, options)
    engines = list(GRAPH_SUFFIX) if options.engine is None else [options.engine]
    if deployment is not None:
        name = Path(options.output or "").name
        write_deployment(deployment, trained, likely, name=name, engines=engines, fingerprint=fingerprint)
        return deployment
    return export(trained, Path(options.model), likely, engines=engines, fingerprint=fingerprint)


def print_files(folder: Path) -> None:
    """Print the size of each graph and table in the folder, and of the whole folder."""
    files = sorted(folder.iterdir())
    for file in files:
        if file.suffix in (".onnx", ".bin", ".npz"):
            print(f"{file}  {file.stat().st_size / 10**6:.1f} MB")
    print(f"{folder}  {sum(file.stat().st_size for file in files) / 10**6:.1f} MB in total")


def likely_pieces(trained: TrainedModel, options: ExportOptions) -> LikelyPieces | None:
    """Return the pieces of a shortlist, learned from the model's training text; None if none is asked for.

    Raises UserError if there is no such text, or if it was prepared with other tokenizers since.
    """
    size = options.shortlist
    if size is None:
        return None
    from nmt.data.sources import is_prepared
    from nmt.inference.onnx.shortlist import learn_translations
    from nmt.text.prepare import open_prepared
    from nmt.text.tokenizer import other_side

    run = Path(options.model)
    # The configuration of an adapted model is that of its base, which has learned from other text.
    data = read_yaml(run / CONFIG_FILE)["data"] if has_adapter(run) else trained.config["data"]
    folder = Path(str(data.get("folder"))) if is_prepared(data) else run / "data"
    prepared = open_prepared(folder)
    if other_side(prepared, trained):
        raise UserError(f"shortlist={size}: the tokenizers of {folder} are not those of the model; prepare it again")
    return learn_translations(prepared.corpora["train"], source_vocabulary=len(trained.source), size=size)
