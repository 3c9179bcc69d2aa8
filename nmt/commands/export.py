"""nmt-export: a model's graphs, with which nmt-translate starts at once and needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nmt.commands.models import load_model
from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run

HELP = """nmt-export: write a model's ONNX graphs into its folder, for nmt-translate to run without torch.

  nmt-export model=runs/demo
  nmt-translate model=runs/demo < in.txt                     now the fastest engine that is there
  nmt-translate model=runs/demo engine=onnx < in.txt         engine=torch | onnx | onnx-int8

onnx-int8 multiplies in 8-bit integers: faster, and not quite the same translations. Attentions that write one source
state after the other (delta, general_covariance with recall) stay with torch."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """conf/export.yaml."""

    model: str
    trust: list[str]


def main() -> None:
    run(export)


def export(arguments: list[str]) -> None:
    """Run the command. Raises UserError for whatever the user can put right."""
    if asks_for_help(arguments):
        show_help(HELP, "export")
        return
    options = read_options("export", Export, arguments)
    translator = load_model(options.model, device="cpu", threads=None, trust=options.trust)
    from nmt.inference.onnx_export import export as write

    folder = write(translator.trained, Path(options.model))
    for file in sorted(folder.glob("*.onnx")):
        print(f"{file}  {file.stat().st_size / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
