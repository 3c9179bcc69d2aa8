"""Translate lines in a new process and report duration and peak memory: ``python -m nmt.comparison.worker``.

Reads one JSON object from stdin and writes one as the last line of stdout. A new process for each measurement keeps the
memory of one model out of the measurement of the next, and imports torch only for the engines that need it. A
worker of ``nmt.system.processes`` imports the modules of the command, which would count as memory of the model.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from nmt.system.machine import peak_memory_mb


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # end silently: the parent process prints the message
    from nmt.errors import UserError

    try:
        result = measure(json.load(sys.stdin))
    except UserError as error:
        result = {"error": error.problems[0]}
    print(json.dumps(result))


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Translate ``groups`` of lines with each of ``beams``; return seconds and texts of each group, and memory.

    Before the clock starts, the first lines of the groups are translated together, and one of them alone, because an
    ONNX engine loads another graph for a single line.
    """
    from nmt.inference.translator import Translator
    from nmt.search.options import SearchOptions

    translator = Translator.load(
        job["model"], engine=job["engine"], device=job["device"], threads=job["threads"], trust=job["trust"]
    )
    beams = {}
    for size in job["beams"]:
        options = SearchOptions(**{**job["search"], "beam_size": size})
        first = [group[0] for group in job["groups"]]
        for lines in (first, first[:1]):
            translator.texts(lines, options, on_failure=lambda row, reason: None)
        seconds: list[float] = []
        texts: list[list[str]] = []
        for group in job["groups"]:
            before = time.perf_counter()
            texts.append(translator.texts(group, options, on_failure=lambda row, reason: None))
            seconds.append(time.perf_counter() - before)
        beams[str(size)] = {"seconds": seconds, "texts": texts}
    return {"beams": beams, "memory_mb": peak_memory_mb()}


if __name__ == "__main__":
    main()
