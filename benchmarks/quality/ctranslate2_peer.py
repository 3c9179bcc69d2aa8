"""Translate with CTranslate2 or the toolkit, or convert a Transformer to CTranslate2; ctranslate2.py starts this.

It runs in any Python that has the program and sentencepiece. A job is a line of JSON on stdin, and so is its answer on
stdout: the processor seconds since the start, those of the job, and its seconds of the clock. ``pieces`` is the mean
length of a source line, because the toolkit counts the pieces of a batch, not its lines.

    python -P ctranslate2_peer.py ct2 FOLDER THREADS
    {"input": "test.src", "output": "test.tgt", "lines": 100, "batch": 32, "beam": 5, "pieces": 16}
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Translate = Callable[[list[str], dict[str, Any]], list[str]]
MAX_LENGTH_RATIO = 1.5  # of the toolkit's search, which is exact; CTranslate2 stops when a beam of hypotheses has ended


def main() -> None:
    engine, folder = sys.argv[1:3]
    if engine == "convert":
        convert(Path(folder))
        return
    engines = {"ct2": ct2, "nmt": nmt, "nmt-short": partial(nmt, shortlist=True)}
    translate = engines[engine](Path(folder), int(sys.argv[3]))
    for request in sys.stdin:
        job = json.loads(request)
        lines = Path(job["input"]).read_text(encoding="utf-8").splitlines()[: job["lines"]]
        processor, clock = time.process_time(), time.perf_counter()
        groups = [lines] if job["batch"] > 1 else [[line] for line in lines]
        translations = [text for group in groups for text in translate(group, job)]
        now = time.process_time()
        if job["output"]:
            Path(job["output"]).write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
        answer = {"start": now, "processor": now - processor, "clock": time.perf_counter() - clock}
        print(json.dumps(answer), flush=True)


def ct2(folder: Path, threads: int) -> Translate:
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    tokenizer = SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    translator = ctranslate2.Translator(str(folder), compute_type="default", inter_threads=threads, intra_threads=1)

    def translate(lines: list[str], job: dict[str, Any]) -> list[str]:
        sources = [tokenizer.encode(line, out_type=str) for line in lines]
        options = {"beam_size": job["beam"], "max_batch_size": job["batch"], "batch_type": "examples"}
        options["use_vmap"] = (folder / "vmap.txt").is_file()
        longest = 3 * max(map(len, sources), default=1)
        results = translator.translate_batch(sources, max_decoding_length=longest, **options)
        return [tokenizer.decode(result.hypotheses[0]) for result in results]

    return translate


def nmt(folder: Path, threads: int, shortlist: bool = False) -> Translate:
    from nmt import Translator
    from nmt.search.options import SearchOptions

    translator = Translator.load(folder, engine="onnx-int8", threads=threads, shortlist=shortlist)

    def translate(lines: list[str], job: dict[str, Any]) -> list[str]:
        translator.max_tokens = job["pieces"] * max(job["batch"], 32)
        return translator.texts(lines, SearchOptions(beam_size=job["beam"], max_length_ratio=MAX_LENGTH_RATIO))

    return translate


def convert(folder: Path) -> None:
    """Turn the files that ctranslate2.py wrote into a model of CTranslate2 in the same folder."""
    import numpy as np
    from ctranslate2.specs import TransformerSpec

    shape = json.loads((folder / "shape.json").read_text(encoding="utf-8"))
    spec = TransformerSpec.from_config(tuple(shape["layers"]), shape["heads"])
    for name, array in dict(np.load(folder / "weights.npz")).items():
        *path, last = name.split("/")
        part = spec
        for key in path:
            part = part[int(key)] if key.isdigit() else getattr(part, key)
        setattr(part, last, array)
    spec.register_source_vocabulary(shape["pieces"])
    spec.register_target_vocabulary(shape["pieces"])
    spec.config.add_source_eos = True
    if (folder / "lists.txt").is_file():
        spec.register_vocabulary_mapping(str(folder / "lists.txt"))
    spec.validate()
    spec.optimize(quantization="int8")
    spec.save(str(folder))
    for name in ("weights.npz", "shape.json", "lists.txt"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
