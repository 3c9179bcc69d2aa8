"""nmt-encode: write the memory of each input line, to be translated later without the text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.commands.options import ModelOptions, command, load_model, output_folder
from nmt.commands.streams import STDIN, input_groups, line_counter
from nmt.errors import counted, print_message
from nmt.settings.arguments import Count, Folder
from nmt.system.progress import Progress

if TYPE_CHECKING:
    from nmt.inference.translator import Translator

HELP = """nmt-encode: encode each line once and store its memory, to translate it later without the text.

  nmt-encode model=runs/demo output=memories < in.txt
  nmt-translate model=runs/demo memory=memories > out.txt
  nmt-encode model=runs/demo input=in.txt output=memories trace=true           to align the translations later
  nmt-encode model=runs/stream input=book.txt output=memories piece_length=1000

A line that is too long for the model or the machine gets an empty memory and a warning on stderr. With piece_length, a
line of any length fits. This needs a model with encoder=lstm or encoder=gru, and an attention that reads the source in
parts: none, abc, covariance, gated_covariance, general_covariance, delta, gated_delta, mesa, kernel, low_rank up to its
longest source, memory or nested_memory with attention.position_encoding=false, or multi_head of these."""


@dataclass(frozen=True, kw_only=True)
class EncodeOptions(ModelOptions):
    """The settings in conf/encode.yaml."""

    model: str
    input: str | None
    output: Folder
    piece_length: Count | None
    trace: bool


@command(HELP, EncodeOptions)
def encode(options: EncodeOptions) -> None:
    """Write the memory of each input line."""
    with output_folder(Path(options.output)) as folder:
        translator = load_model(options.model, options.load_settings)
        count = _encode_all(translator, options, folder)
    print_message(f"{options.output}: {counted(count, 'memory', 'memories')} written")


def _encode_all(translator: Translator, options: EncodeOptions, folder: Path) -> int:
    """Write one memory per input line into ``folder`` and return their number."""
    from nmt.inference.bulk import SourceTooLong
    from nmt.inference.memories import (
        COUNT,
        EncodedLine,
        encode_line,
        memory_name,
        require_streaming,
        save_memory,
        weights_fingerprint,
    )

    if options.piece_length is not None:
        require_streaming(translator)
    attention = translator.attention.class_name
    model = weights_fingerprint(translator.trained)
    progress = Progress(total=line_counter(options.input))
    done = 0
    previous = ""
    for lines in input_groups(options.input):
        for line in lines:
            done += 1
            try:
                encoded = encode_line(translator, line, piece_length=options.piece_length, trace=options.trace)
            except SourceTooLong as error:
                print_message(f"warning: {options.input or STDIN}:{done}: {error}; its memory is empty")
                encoded = EncodedLine(None)
            path = folder / memory_name(done)
            previous = save_memory(path, encoded, attention=attention, model=model, number=done, previous=previous)
            progress.show(done)
    progress.close()
    translator.conclude_text()
    (folder / COUNT).write_text(f"{done}\n", encoding="utf-8")
    return done
