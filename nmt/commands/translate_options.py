"""The settings of nmt-translate, and which of them exclude each other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from nmt.commands.models import ModelOptions
from nmt.errors import UserError
from nmt.inference.engines import EngineName
from nmt.search.options import SearchOptions
from nmt.settings.bounds import AtLeast, AtMost, Size


@dataclass(frozen=True, kw_only=True)
class Translate(ModelOptions):
    """The settings in conf/translate.yaml."""

    model: str
    input: str | None
    memory: str | None
    output: str | None
    scores: bool
    alignments: str | None
    search: SearchOptions
    slots: Size | None
    engine: EngineName
    shortlist: bool
    workers: Annotated[int, AtLeast(1), AtMost(4096)] | None
    cluster: Literal["ray"] | None
    address: str | None


def require_consistent(options: Translate) -> None:
    """Raise UserError if settings exclude each other."""
    _require_different_files(options)
    if options.memory is not None and options.input is not None:
        raise UserError(f"memory={options.memory}: input={options.input} is given too; give only one of them")
    if options.memory is not None and options.engine not in ("auto", "torch"):
        raise UserError(f"engine={options.engine}: stored memories need engine=torch; remove engine={options.engine}")
    if options.memory is not None and options.slots is not None:
        raise UserError(f"slots={options.slots}: a stored memory has a fixed number of slots; remove slots=")
    if options.address is not None and options.cluster is None:
        raise UserError(f"address={options.address}: belongs to a cluster; add cluster=ray, or remove address=")
    if options.workers is not None:
        _require_shards(options)
    elif options.cluster is not None:
        raise UserError(f"cluster={options.cluster}: needs a number of workers; add workers=4")


def _require_shards(options: Translate) -> None:
    """Raise UserError if the input cannot be translated in shards."""
    if options.memory is not None:
        raise UserError(f"workers={options.workers}: stored memories are translated by one process; remove workers=")
    if options.output is None:
        raise UserError(
            f"workers={options.workers}: finished lines are kept in a folder beside the output; add output=FILE"
        )
    if Path(options.output).exists() and not Path(options.output).is_file():
        raise UserError(f"output={options.output}: not a regular file; choose another name, or remove workers=")


def _require_different_files(options: Translate) -> None:
    """Raise UserError if an output would overwrite an input or the other output."""
    paths = {"output": options.output, "input": options.input, "memory": options.memory}
    paths["alignments"] = options.alignments
    keys: dict[Path, str] = {}
    for key, path in paths.items():
        if path is not None and (other := keys.setdefault(Path(os.path.realpath(path)), key)) != key:
            raise UserError(f"{key}={path}: same file as {other}={paths[other]}; choose two different files")
