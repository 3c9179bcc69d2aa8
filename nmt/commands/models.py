"""Load a command's model, translate its input, and warn about lines that have no translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.commands.streams import GROUP
from nmt.errors import UserError, print_message
from nmt.inference.engines import EngineName, LoadSettings
from nmt.search.options import SearchOptions
from nmt.settings.bounds import Threads
from nmt.system.progress import Progress

if TYPE_CHECKING:
    from nmt.inference.translation import Translation
    from nmt.inference.translator import Translator


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The settings with which a command loads a model."""

    adapter: str | None
    device: str
    threads: Threads | None
    trust: list[str]

    def load_settings(
        self, *, engine: EngineName = "torch", shortlist: bool = False, slots: int | None = None
    ) -> LoadSettings:
        """Return these settings in the form that ``load_model`` takes."""
        return LoadSettings(
            engine=engine,
            device=self.device,
            threads=self.threads,
            trust=self.trust,
            shortlist=shortlist,
            slots=slots,
            adapter=self.adapter,
        )


def load_model(folder: str, settings: LoadSettings) -> Translator:
    """Load the translator of ``folder``. If ``auto`` selects an ONNX engine, its name is printed to stderr.

    Raises UserError if the folder holds no model for this engine.
    """
    # Imported here, after the arguments were checked: torch takes seconds to import.
    from nmt.inference.load import load
    from nmt.inference.onnx.model import OnnxModel
    from nmt.inference.translator import Translator

    runtime = load(folder, settings)
    if settings.engine == "auto" and isinstance(runtime, OnnxModel):
        print_message(f"engine: {runtime.engine_name}")
    return Translator(runtime)


def require_attention(translator: Translator, setting: str) -> None:
    """Raise UserError if the model has no attention; ``setting`` is the argument that needs alignments."""
    if not translator.attention.reads_source:
        raise UserError(f"{setting}: needs alignments, but this model has no attention; use another model")


def warn_of_line(place: str, consequence: str, *, first: int = 0) -> Callable[[int, str], None]:
    """Return an ``on_failure`` function that prints a warning to stderr.

    ``place`` is the file of the lines, ``first`` the number of lines before them.
    """

    def warn(row: int, reason: str) -> None:
        print_message(f"warning: {place}:{first + row + 1}: {reason}; {consequence}")

    return warn


def translate_lines(
    translator: Translator, lines: Sequence[str], search: SearchOptions, *, place: str, alignments: bool
) -> list[Translation]:
    """Translate the lines of the file ``place``, and show progress."""
    progress = Progress(total=lambda: len(lines))
    translations: list[Translation] = []
    warn = warn_of_line(place, "its translation is empty")
    groups = (lines[first : first + GROUP] for first in range(0, len(lines), GROUP))
    for group in translator.translate_groups(groups, search, alignments=alignments, on_failure=warn):
        translations += group
        progress.show(len(translations))
    progress.close()
    return translations
