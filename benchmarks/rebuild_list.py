"""The entries of ``rebuild.py``, in order: trained models come before the scripts that need them."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A results file, and the script and arguments that write it.

    ``minutes`` are those of two cores. ``timing``: it measures time or memory, and needs a quiet machine. ``needs``:
    files and folders, relative to the repository. An entry without ``script`` trains a ``model`` for later entries.
    """

    name: str
    script: str
    minutes: int
    arguments: tuple[str, ...] = ()
    timing: bool = False
    needs: tuple[str, ...] = ()
    model: str = ""


MULTI30K = "data/multi30k/train.en.gz"
TATOEBA = "data/tatoeba-de-en"
TEST2016 = "data/multi30k/test2016.en.gz"
TALKS = "data/iwslt15-en-vi/noapos"
BABI = "data/babi-qa1-en-10k"
REFERENCE = "runs/reference"
GAP_MODELS = ("runs/memory_gap/memory-s1", "runs/memory_gap/bahdanau-s1")
# ch01-02-hello-world.html of the Rust book of rustc 1.95, conf/locale/en/LC_MESSAGES/django.po of Django 5.2, and
# PGM/Welcome_0535.en.srt of github.com/acli/Coursera-subtitles.
DOCUMENTS = ("data/documents/rust-book.html", "data/documents/django.po", "data/documents/lecture.srt")
MODELS = ("runs/multi30k/m30k-bahdanau-s1", "runs/multi30k/m30k-memory-s1", REFERENCE)
ENGINE_MODELS = ("runs/multi30k/m30k-bahdanau-s3", "runs/multi30k/m30k-memory-no-encodings-s1")
FOLDERS = tuple(f"{model}/model.pt" for model in MODELS)
ENGINE_FOLDERS = tuple(f"{model}/model.pt" for model in ENGINE_MODELS)
SIZES = [f"{part}.{size}" for part in ("encoder", "decoder") for size in ("hidden_size=512", "layers=2")]
REFERENCE_RUN = (
    *("+experiment=multi30k", "attention=luong", "name=reference", "tokenizer.vocab_size=8000", *SIZES),
    *("embeddings.size=512", "decoder.input_feeding=true", "training.max_epochs=3"),
)
# Another toolkit: its scripts, and the text that it reads as pieces. See peers.py and train.py.
PEER = ("peers/bench_round.sh", "peers/pieces")
PEER_TRAINING = ("peers/onmt.sh", "peers/pieces")
ONMT = "OpenNMT-py 3.5.1"
CT2 = "ct2/bin/python"  # python -m venv ct2 && ct2/bin/pip install ctranslate2 sentencepiece pyyaml
STUDENTS_CT2 = "benchmarks/results/students_ct2.md"
STUDENTS_OF_TWO = "runs/students_of_two"  # links to the runs of students.py that two teachers have taught
ENSEMBLE_CT2 = "benchmarks/results/students_ct2_ensemble.md"
MARIAN = "marian/bin/python"  # python -m venv marian && marian/bin/pip install pymarian sentencepiece
STUDENTS = "runs/students/teacher/model.pt"
SHORTLIST = ("--engine", "onnx-int8", *"--lines 50 --batch 1 --shortlist 50 --ct2".split(), CT2)
GPU = "/dev/nvidia0"
GPU_TRAINING = (
    *"--device cuda --threads 4 --precision float32 --updates 8 --rounds 3 --model bahdanau memory".split(),
    *("luong general", "memory, input feeding", "transformer, softmax"),
    *("--output", "benchmarks/results/train_gpu.md"),
)
GPU_DECODING = tuple("--device cuda --engine torch onnx --threads 16 --rounds 3".split())

RIDGE = ("delta", "gated_delta", "mesa")
GENERAL = "general_covariance mean=false"
RECALL = ("covariance_paper", GENERAL, f"{GENERAL} recall=true")
RECALLED = (*RECALL, f"{GENERAL} recall=true recall_by=value")

ENTRIES = [
    Entry("inversion", "papers.inversion", 1),
    Entry("dependencies", "papers.dependencies", 8),
    Entry("attentions", "quality.attentions", 220),
    Entry("streaming_settings", "quality.streaming_settings", 60),
    Entry("memory_settings", "quality.memory_settings", 40),
    Entry("memory_future", "papers.memory_future", 45),
    Entry("cloze", "papers.cloze", 60, ("--data", BABI, "--distractors", "0", "1"), needs=(BABI,)),
    Entry("cloze_2000", "papers.cloze", 35, ("--updates", "2000", "--kinds", *RECALLED)),
    Entry("cloze_3000", "papers.cloze", 10, ("--updates", "3000", "--distractors", "0", "--kinds", *RIDGE)),
    Entry(
        "cloze_400", "papers.cloze", 2, ("--updates", "400", "--distractors", "0", "--seeds", "1", "--kinds", *RECALL)
    ),
    Entry("multi30k", "quality.multi30k", 450, needs=(MULTI30K,)),
    Entry("lora", "papers.lora", 165, ("--data", TATOEBA, "data/multi30k"), needs=(f"{TATOEBA}/train.en.gz", MULTI30K)),
    Entry("lora_digits", "papers.lora_digits", 12, timing=True),
    Entry("memory_gap", "quality.memory_gap", 240, needs=(MULTI30K,)),
    Entry(*("memory_gap_talks", "quality.memory_gap", 75), ("--corpus", "talks"), needs=(f"{TALKS}/train30k.en.gz",)),
    Entry(
        *("memory_gap_tatoeba", "quality.memory_gap", 150),
        ("--corpus", "tatoeba"),
        needs=(f"{TATOEBA}/train.en.gz",),
    ),
    Entry("students", "quality.students", 110, needs=(MULTI30K,), timing=True),
    Entry(
        *("students_tatoeba", "quality.students", 180),
        ("--corpus", "tatoeba"),
        needs=(f"{TATOEBA}/train.en.gz",),
        timing=True,
    ),
    Entry(
        *("students_ct2", "quality.marian", 15),
        ("--marian", MARIAN, "--ct2", CT2, "--report-only", "--output", STUDENTS_CT2),
        timing=True,
        needs=(MULTI30K, STUDENTS, CT2),
    ),
    Entry(  # the two students of the text "ensemble"
        *("students_ct2_ensemble", "quality.marian", 5),
        ("--marian", MARIAN, "--ct2", CT2, "--report-only", "--students", STUDENTS_OF_TWO, "--output", ENSEMBLE_CT2),
        timing=True,
        needs=(MULTI30K, STUDENTS_OF_TWO, CT2),
    ),
    Entry(
        *("students_ct2_tatoeba", "quality.marian", 15),
        ("--marian", MARIAN, "--ct2", CT2, "--report-only", "--corpus", "tatoeba", "--output", STUDENTS_CT2),
        timing=True,
        needs=(f"{TATOEBA}/train.en.gz", STUDENTS, CT2),
    ),
    Entry(
        *("marian", "quality.marian", 200),
        ("--marian", MARIAN, "--ct2", CT2),
        timing=True,
        needs=(MULTI30K, STUDENTS, MARIAN, CT2),
    ),
    Entry(
        *("confidence", "quality.confidence", 6),
        ("--model", *GAP_MODELS, "--sets", "data/multi30k/test2016", "data/multi30k/test2017", f"{TATOEBA}/test"),
        needs=(*(f"{model}/model.pt" for model in GAP_MODELS), TEST2016, f"{TATOEBA}/test.en.gz"),
    ),
    Entry(
        *("long_text", "quality.long_text", 3),
        ("--model", *GAP_MODELS, "--set", "data/multi30k/test2016"),
        needs=(*(f"{model}/model.pt" for model in GAP_MODELS), TEST2016),
    ),
    Entry(
        *("steering", "quality.steering", 8),
        ("--model", *GAP_MODELS, "--set", "data/multi30k/test2016", "--documents", *DOCUMENTS),
        needs=(*(f"{model}/model.pt" for model in GAP_MODELS), TEST2016, *DOCUMENTS),
    ),
    Entry("little_text", "quality.little_text", 100, ("--data", "data/multi30k"), needs=(MULTI30K,)),
    Entry("reference", "", 20, REFERENCE_RUN, needs=(MULTI30K,), model=f"{REFERENCE}/model.pt"),
    Entry("attacks", "limits.attacks", 50),
    Entry("demo", "quality.demo", 4, timing=True),
    Entry("products", "speed.products", 2, timing=True),
    Entry("cost", "speed.cost", 20, timing=True),
    Entry("cost_paper", "speed.cost", 1, ("--paper",), timing=True),
    Entry("cost_gpu", "speed.cost", 1, ("--gpu", "--rounds", "5", "--threads", "4"), timing=True, needs=(GPU,)),
    Entry("train_gpu", "speed.train", 1, GPU_TRAINING, timing=True, needs=(GPU,)),
    Entry("decode_gpu", "speed.decode", 1, (*GPU_DECODING, "--name", "decode_gpu"), timing=True, needs=(GPU,)),
    Entry(
        *("decode_gpu_at_once", "speed.decode", 1),
        (*GPU_DECODING, "--batch", "320", "--name", "decode_gpu_at_once"),
        timing=True,
        needs=(GPU,),
    ),
    Entry("startup", "speed.startup", 2, ("--size", "reference"), timing=True),
    Entry("decode", "speed.decode", 3, timing=True),
    Entry("decode_one", "speed.decode", 3, ("--lines", "50", "--batch", "1", "--name", "decode_one"), timing=True),
    Entry(
        *("decode_long", "speed.decode", 5),
        tuple("--rounds 3 --lines 100 --length 111 --steps 150 --attention memory --name decode_long".split()),
        timing=True,
    ),
    Entry(
        *("decode_natural", "speed.decode", 5),
        tuple(f"--rounds 3 --steps natural --model {REFERENCE} --input {TEST2016} --name decode_natural".split()),
        timing=True,
        needs=(f"{REFERENCE}/model.pt", TEST2016),
    ),
    Entry("workers", "speed.workers", 15, timing=True),
    Entry(
        *("decode_ct2", "speed.decode", 4),
        ("--at-once", "--ct2", CT2, "--rounds", "3", "--name", "decode_ct2"),
        timing=True,
        needs=(CT2,),
    ),
    Entry(
        *("decode_one_ct2", "speed.decode", 3),
        ("--lines", "50", "--batch", "1", "--ct2", CT2, "--name", "decode_one_ct2"),
        timing=True,
        needs=(CT2,),
    ),
    Entry(
        *("decode_one_greedy_ct2", "speed.decode", 3),
        ("--lines", "50", "--batch", "1", "--beam", "1", "--ct2", CT2, "--name", "decode_one_greedy_ct2"),
        timing=True,
        needs=(CT2,),
    ),
    Entry(
        "decode_one_shortlist_ct2",
        "speed.decode",
        3,
        (*SHORTLIST, "--name", "decode_one_shortlist_ct2"),
        timing=True,
        needs=(CT2,),
    ),
    Entry(
        *("decode_one_shortlist_32000_ct2", "speed.decode", 5),
        (*SHORTLIST, "--vocabulary", "32000", "--name", "decode_one_shortlist_32000_ct2"),
        timing=True,
        needs=(CT2,),
    ),
    Entry(
        *("decode_at_once", "speed.decode", 3),
        ("--at-once", "--rounds", "3", "--name", "decode_at_once"),
        timing=True,
    ),
    Entry("serving", "speed.serving", 6, ("--ct2", CT2), timing=True, needs=(CT2,)),
    Entry("corpora", "limits.corpora", 30, timing=True),
    Entry("lengths", "speed.lengths", 15, timing=True),
    Entry("streaming", "speed.streaming", 5, timing=True),
    Entry("few_states", "papers.few_states", 5, timing=True),
    Entry("self_attention", "speed.self_attention", 15, timing=True),
    Entry("steps", "speed.steps", 3, timing=True),
    Entry("scaling", "speed.scaling", 1, timing=True),
    Entry("completion", "papers.completion", 25, timing=True),
    Entry("completion_images", "papers.completion_images", 16, ("--updates", "500", "--seeds", "1"), timing=True),
    Entry("engines", "speed.engines", 5, ("--model", *ENGINE_MODELS), timing=True, needs=(*ENGINE_FOLDERS, TEST2016)),
    Entry(
        *("integers", "speed.integers", 5),
        ("--model", *MODELS[:2], "--rounds", "2"),
        timing=True,
        needs=(*FOLDERS[:2], TEST2016),
    ),
    Entry(
        *("peers", "speed.peers", 15),
        ("--name", ONMT, "--source", PEER[1], "--command", f'bash {PEER[0]} {{out}} onmt "fixs fix1"'),
        timing=True,
        needs=PEER,
    ),
    Entry(
        *("train", "speed.train", 20),
        (
            *("--precision", "float32", "bf16", "--pieces", f"{PEER[1]}/train.sp.en", f"{PEER[1]}/train.sp.de"),
            *("--peer-name", ONMT, "--peer"),
            *(
                f"{attention}=bash {PEER_TRAINING[0]} {score}"
                for attention, score in (("bahdanau", "mlp"), ("luong", "general"))
            ),
        ),
        timing=True,
        needs=PEER_TRAINING,
    ),
    Entry(
        *("train_transformers", "speed.train", 5),
        (
            *("--model", "luong general", "memory", "transformer, softmax", "transformer, linear"),
            *("--output", "benchmarks/results/train_transformers.md"),
        ),
        timing=True,
    ),
]
