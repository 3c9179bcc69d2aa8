"""Overrides on the command line: settings as ``key=value``, lists and quotes in their values, advice for wrong ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.errors import UserError
from nmt.inference.engines import ABOUT
from nmt.inference.run_files import ADAPTER, MODEL_FILE
from nmt.settings.arguments import suggestion

QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
SEPARATOR = re.compile(r" *(?:,|$)")
NO_KEY = re.compile("")
MISSING = object()
INSIDE = "self_attention@"
LONGEST_KEY = 200  # characters; Hydra looks for a file of this name, and file systems allow 255 bytes
LAUNCHER = "torchrun --nproc-per-node=2 --no-python nmt-train …, or srun on a cluster with Slurm"
PROCESSES = ("devices", "nodes", "num_gpus")  # settings of other toolkits that a launcher replaces
# Names from other toolkits.
NAMES = {
    "attention_type": "attention",
    "batch_size": "batches.max_tokens (pieces) or batches.max_sentences",
    "beam": "search.beam_size",
    "beam_size": "search.beam_size",
    "clip_norm": "training.clip_norm",
    "dropout": "encoder.dropout and decoder.dropout",
    "early_stopping": "training.patience",
    "embedding_size": "embeddings.size",
    "epochs": "training.max_epochs",
    "hidden_size": "encoder.hidden_size and decoder.hidden_size",
    "input_feeding": "decoder.input_feeding",
    "label_smoothing": "training.label_smoothing",
    "layers": "encoder.layers and decoder.layers",
    "learning_rate": "optimizer.lr",
    "lr": "optimizer.lr",
    "max_epochs": "training.max_epochs",
    "max_steps": "training.max_steps",
    "num_layers": "encoder.layers and decoder.layers",
    "output_dir": "runs and name",
    "patience": "training.patience",
    "self_attention": "encoder.self_attention or decoder.self_attention",
    "slots": "attention.slots",
    "src": "data=text data.train.src",
    "tgt": "data=text data.train.tgt",
    "steps": "training.max_steps",
    "vocab_size": "tokenizer.vocab_size",
    "warmup_steps": "schedule.warmup_steps",
}


def config_dir() -> Path:
    """Return the folder of the YAML files: inside an installed package, beside the package in a checkout."""
    inside = Path(__file__).resolve().parents[1] / "conf"
    return inside if inside.is_dir() else inside.parents[1] / "conf"


def key_of(argument: str) -> str:
    """Return ``name`` of ``name=value``, ``+name=value``, ``++name=value``, and of what ``choice_inside`` returns."""
    return argument.partition("=")[0].lstrip("+~").removeprefix(INSIDE)


def choice_inside(argument: str) -> str:
    """Return ``encoder.self_attention=name`` as Hydra writes the choice of a block that is inside another one."""
    is_choice = re.fullmatch(r"(encoder|decoder)\.self_attention=(?!null$)[\w/,-]+", argument)
    return INSIDE + argument if is_choice else argument


def require_override(argument: str) -> None:
    """Raise UserError unless ``argument`` is ``key=value``."""
    if argument.startswith("-"):
        raise UserError(f"{argument}: no such option; write settings as key=value (see --help)")
    if "=" not in argument:
        raise UserError(f"{argument}: not a setting; write {_setting_of(argument, [config_dir()])}")
    if len(argument.partition("=")[0]) > LONGEST_KEY:
        raise UserError(f"{argument:.80}…: no such key; --help lists the settings")
    if re.search(r"^[^=]*\s|=$|=\s*=", argument) and not re.fullmatch(r"[^\s=]+=", argument):
        raise UserError(f"{argument}: not a setting; write key=value without spaces")


def name_problems(name: str) -> Iterator[str]:
    """Yield a message unless ``name`` can be that of a folder."""
    if name.strip() in ("", "..") or Path(name).name != name:
        yield f"name={name}: must be the name of a folder, such as name=mine; use runs=FOLDER for its parent"


def split_list(text: str, key: re.Pattern[str] = NO_KEY) -> list[str]:
    """Split at commas that are outside of quotes, lists and mappings. In a mapping, a ``key`` is before each element.

    Quotes and brackets count only around a whole element: those inside a name, as in ``it's.en``, are part of it.
    """
    elements = []
    start = 0
    while True:
        start += len(text[start:]) - len(text[start:].lstrip(" "))
        before = key.match(text, start)
        end = _end_of_element(text, before.end() if before else start)
        elements.append(text[start:end].rstrip(" "))
        separator = SEPARATOR.match(text, end)
        if separator is None or (separator.end() == len(text) and not separator[0].endswith(",")):
            return elements
        start = separator.end()


def _end_of_element(text: str, start: int) -> int:
    """Return the end of the element that begins at ``start``: its comma, or the end of the text."""
    ends = []
    if match := QUOTED.match(text, start):
        ends.append(match.end())
    elif text.startswith(("[", "{", "${"), start):
        ends.append(_end_of_brackets(text, start))
    complete = [end for end in ends if SEPARATOR.match(text, end)]
    comma = text.find(",", start)
    return complete[0] if complete else len(text) if comma < 0 else comma


def _end_of_brackets(text: str, start: int) -> int:
    """Return the end of the brackets that open at ``start``, or ``start`` if they are not closed."""
    depth = 0
    index = start
    while index < len(text):
        if (match := QUOTED.match(text, index)) and text[index - 1] in "[{,: ":
            index = match.end()
            continue
        depth += (text[index] in "[{") - (text[index] in "]}")
        index += 1
        if depth == 0 and text[index - 1] in "]}":
            return index
    return start


def unquoted(text: str) -> str:
    """Return the text inside quotes, where backslashes before a quote, or at the end, escape it and each other."""
    quote = text[0]
    pattern = rf"(\\+)({quote}|$)"
    return re.sub(pattern, lambda match: match[1][: len(match[1]) // 2] + match[2], text[1:-1])


def located(problem: str, name: str, choices: Mapping[str, str], folders: Sequence[Path]) -> str:
    """Return the problem with the YAML file of its key, searched in ``folders`` in this order."""
    group = re.split(r"[.=:\[]", problem, maxsplit=1)[0]
    file = f"{group}/{choices[group]}.yaml" if group in choices else f"{name}.yaml"
    folder = next((folder for folder in folders if (folder / file).is_file()), config_dir())
    return f"{problem} ({'conf' if folder == config_dir() else folder}/{file})"


def unknown_choice(group: str, choice: str, folders: Sequence[Path]) -> str:
    """Return the message that ``group`` has no such ``choice``."""
    choices = sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
    return f"{group}={choice}: no such choice{suggestion(choice, choices)}; choose from {', '.join(choices)}"


def unknown_key(key: str, config: Mapping[str, Any], folders: Sequence[Path]) -> str:
    """Return the message that ``config``, composed from the YAML ``folders``, has no such ``key``."""
    return f"{key}: no such key{_advice(key, [*keys(config)], folders)}"


def _advice(key: str, known: Sequence[str], folders: Sequence[Path]) -> str:
    """Return advice for the unknown ``key``. ``known`` are the keys of the configuration."""
    if key in PROCESSES and "training" in known:
        return f"; use {LAUNCHER}"
    group, _, rest = key.partition(".")
    inner, _, last_name = key.rpartition(".")  # encoder.self_attention.window
    for owner, name, inside in ((group, rest, group), (inner, last_name, inner.rpartition(".")[2])):
        choices = sorted(set(_choices_with(name, inside, folders))) if owner and name else []
        if choices:
            *others, last = (f"{owner}={choice}" for choice in choices)
            return f"; {', '.join(others)} and {last} have it" if others else f"; {last} has it"
    use = NAMES.get(last_name)
    if use is not None and re.split(r"\W", use)[0] in known:  # the command has this group
        return f"; use {use}"
    names = [name for name in known if not key.startswith(f"{name}.")]
    siblings = [name.rpartition(".")[2] for name in names if name.rpartition(".")[0] == inner]
    near = suggestion(last_name, siblings, before=f"{inner}.") if inner and siblings else suggestion(key, names)
    return near or "; --help lists the settings"


def _setting_of(argument: str, folders: Sequence[Path]) -> str:
    """Return the setting that an argument without a key stands for: a choice of a group, or the folder of a model."""
    # os.path.isfile, unlike Path.is_file, accepts names that are too long.
    if any(os.path.isfile(Path(argument, file)) for file in (MODEL_FILE, ADAPTER, ABOUT)):
        return f"model={argument}"
    files = [file for folder in folders for file in folder.glob("*/*.yaml") if file.stem == argument]
    groups = sorted({file.parent.name for file in files})
    if not groups or argument == "default":
        return "settings as key=value"
    return " or ".join(
        f"+experiment={argument}" if group == "experiment" else f"{group}={argument}" for group in groups
    )


def _choices_with(key: str, group: str, folders: Sequence[Path]) -> Iterator[str]:
    """Yield the choices of a group whose own YAML file sets ``key``."""
    for folder in folders:
        for file in (folder / group).glob("*.yaml"):
            tree = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
            chosen = [name for entry in tree.get("defaults", []) if isinstance(entry, dict) for name in entry]
            if key in [*keys(tree), *(name.partition("@")[2] for name in chosen)]:
                yield file.stem


def keys(tree: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """Yield the dotted keys of a configuration: the keys of blocks, and the keys inside them."""
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from keys(value, f"{prefix}{key}.")


def value_at(tree: Any, key: str) -> Any:
    """Return the value at the dotted key of nested dictionaries, or ``MISSING``."""
    for name in key.split("."):
        tree = tree.get(name, MISSING) if isinstance(tree, dict) else MISSING
    return tree


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at the dotted key of nested dictionaries, which may be new."""
    *path, last = key.split(".")
    for name in path:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            return  # encoder: null, say; the check of the configuration reports it
    tree[last] = value
