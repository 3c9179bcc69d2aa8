"""Measure translation in a new process, which keeps the memory of one model out of the measurement of the next.

This file imports little: modules that the engine does not need would count as memory of the model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Translate ``groups`` of lines with each of ``beams``.

    Return memory, and by beam the seconds and the written tokens of the groups, and the texts.

    Before the clock starts, the first lines of the groups are translated together, and one of them alone, because an
    ONNX engine loads another graph for a single line.
    """
    from nmt.inference.translator import Translator
    from nmt.search.options import SearchOptions
    from nmt.system.machine import peak_memory_mb

    translator = Translator.load(**job["load"])
    # A run of an earlier version may have options that were removed since.
    search = {key: value for key, value in job["search"].items() if hasattr(SearchOptions, key)}
    beams: dict[int, tuple[list[float], list[int], list[str]]] = {}
    for beam in job["beams"]:
        options = SearchOptions(**{**search, "beam_size": beam})
        translate = partial(
            translator.translate, options=options, alignments=False, on_failure=lambda row, reason: None
        )
        first = [group[0] for group in job["groups"]]
        translate(first)
        translate(first[:1])
        seconds, tokens, texts = beams[beam] = [], [], []
        for group in job["groups"]:
            before = time.perf_counter()
            translations = translate(group)
            seconds.append(time.perf_counter() - before)
            tokens.append(sum(len(best.tokens) for best in translations))
            texts += [best.text for best in translations]
    return {"beams": beams, "memory_mb": peak_memory_mb()}
