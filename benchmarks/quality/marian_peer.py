"""Train Marian, convert to CTranslate2, or translate with Marian, CTranslate2 or the toolkit; marian.py starts this.

It runs in any Python that has the program and sentencepiece. A folder to translate with holds the model and
``pieces.model``, except for the toolkit's, which nmt-export writes. A job is a line of JSON on stdin, and so is its
answer on stdout: the processor seconds since the start, those of the job, its seconds of the clock, and the words that
it wrote. For the toolkit, ``pieces`` is the mean length of a source line, because it counts the pieces of a batch, not
its lines, and ``ratio`` is its ``search.max_length_ratio``.

    python marian_peer.py marian FOLDER THREADS
    {"input": "test.src", "output": "test.tgt", "lines": 100, "batch": 32, "beam": 5, "pieces": 16, "ratio": 1.5}
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


def main() -> None:
    engine, folder = sys.argv[1:3]
    if engine == "train":
        from pymarian import Trainer

        Trainer(folder).train()
        return
    if engine == "convert":
        convert(Path(folder))
        return
    engines = {"marian": marian, "ct2": ct2, "nmt": nmt, "nmt-short": partial(nmt, shortlist=True)}
    translate = engines[engine](Path(folder), int(sys.argv[3]))
    for request in sys.stdin:
        job = json.loads(request)
        lines = Path(job["input"]).read_text(encoding="utf-8").splitlines()[: job["lines"]]
        processor, clock = time.process_time(), time.perf_counter()
        groups = [lines] if job["batch"] > 1 else [[line] for line in lines]
        translations = [text for group in groups for text in translate(group, job)]
        now = time.process_time()
        answer = {"start": now, "processor": now - processor, "clock": time.perf_counter() - clock}
        answer["words"] = sum(len(line.split()) for line in translations)
        if job["output"]:
            Path(job["output"]).write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
        print(json.dumps(answer), flush=True)


def marian(folder: Path, threads: int) -> Translate:
    from pymarian import Translator

    encode, decode = pieces(folder)
    model = next(path for path in folder.iterdir() if path.name in ("model.npz", "model.bin"))
    vocabulary = folder / "vocab.yml"
    options = "--mini-batch 32 --maxi-batch 100 --maxi-batch-sort src --workspace 128 --normalize 1 --quiet"
    options += f" --cpu-threads {threads}"
    translator = Translator(f"--models {model} --vocabs {vocabulary} {vocabulary} {options}")

    def translate(lines: list[str], job: dict[str, Any]) -> list[str]:
        sources = [" ".join(encode(line)) for line in lines]
        return [decode(target.split()) for target in translator.translate(sources, beam_size=job["beam"])]

    return translate


def ct2(folder: Path, threads: int) -> Translate:
    import ctranslate2

    encode, decode = pieces(folder)
    translator = ctranslate2.Translator(str(folder), compute_type="default", inter_threads=threads, intra_threads=1)

    def translate(lines: list[str], job: dict[str, Any]) -> list[str]:
        sources = [encode(line) for line in lines]
        options = {"beam_size": job["beam"], "max_batch_size": job["batch"], "batch_type": "examples"}
        options["use_vmap"] = (folder / "vmap.txt").is_file()
        longest = 3 * max(map(len, sources), default=1)  # as in Marian
        results = translator.translate_batch(sources, max_decoding_length=longest, **options)
        return [decode(result.hypotheses[0]) for result in results]

    return translate


def convert(folder: Path) -> None:
    """Turn the files that marian.py wrote into a model of CTranslate2 in the same folder."""
    import numpy as np
    from ctranslate2.specs import TransformerSpec

    arrays = dict(np.load(folder / "weights.npz"))
    shape = json.loads((folder / "shape.json").read_text(encoding="utf-8"))
    spec = TransformerSpec.from_config(tuple(shape["layers"]), shape["heads"])
    for name, array in arrays.items():
        *path, last = name.split("/")
        part = spec
        for key in path:
            part = part[int(key)] if key.isdigit() else getattr(part, key)
        setattr(part, last, array)
    spec.register_source_vocabulary(shape["pieces"])
    spec.register_target_vocabulary(shape["pieces"])
    spec.config.add_source_eos = True
    lists = folder / "lists.txt"
    if lists.is_file():
        spec.register_vocabulary_mapping(str(lists))
    spec.validate()
    spec.optimize(quantization="int8")
    spec.save(str(folder))
    for file in (folder / "weights.npz", folder / "shape.json", lists):
        file.unlink(missing_ok=True)


def nmt(folder: Path, threads: int, shortlist: bool = False) -> Translate:
    from nmt import Translator
    from nmt.search.options import SearchOptions

    translator = Translator.load(folder, engine="onnx-int8", threads=threads, shortlist=shortlist)

    def translate(lines: list[str], job: dict[str, Any]) -> list[str]:
        translator.max_tokens = job["pieces"] * max(job["batch"], 32)
        return translator.texts(lines, SearchOptions(beam_size=job["beam"], max_length_ratio=job["ratio"]))

    return translate


def pieces(folder: Path) -> tuple[Callable[[str], list[str]], Callable[[list[str]], str]]:
    """Return functions that turn a lower-cased line into pieces, and pieces into a line."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    return (lambda line: model.encode(line, out_type=str)), model.decode


if __name__ == "__main__":
    main()
