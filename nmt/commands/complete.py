"""nmt-complete: complete settings and choices of all commands in the shell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nmt.config.overrides import config_dir, key_of, keys
from nmt.config.yaml_files import YamlFile
from nmt.errors import UserError

HELP = """nmt-complete: print the code that lets a shell complete the settings of all nmt commands.

  eval "$(nmt-complete bash)"                       in ~/.bashrc
  eval "$(nmt-complete zsh)"                        in ~/.zshrc, after compinit
  nmt-complete fish | source                        in ~/.config/fish/config.fish

Then nmt-train att<Tab> gives attention=, and nmt-train attention=<Tab> all attentions."""

COMMANDS = sorted(file.stem for file in config_dir().glob("*.yaml"))
NAMES = " ".join(f"nmt-{name}" for name in COMMANDS)

# readline replaces what follows the last "=" only; a key is not finished by a space.
BASH = """
_nmt_complete() {
  local line="${COMP_LINE:0:COMP_POINT}" word IFS=$'\\n'
  word="${line##* }"
  COMPREPLY=($(nmt-complete words "$word" "${COMP_LINE// /$'\\n'}" 2> /dev/null))
  [[ "$word" == *=* ]] && COMPREPLY=("${COMPREPLY[@]#*=}")
  [[ "${COMPREPLY[0]}" == *= ]] && compopt -o nospace
}
complete -o default -F _nmt_complete """

ZSH = """
_nmt_complete() {
  local -a found
  found=(${(f)"$(nmt-complete words "$PREFIX" "${(F)words}" 2> /dev/null)"})
  compadd -S '' -a found || { compset -P '*='; _files }
}
compdef _nmt_complete """

FISH = """
for name in NAMES
  complete --command $name --arguments '(nmt-complete words (commandline -ct) (commandline -opc | string collect))'
end"""

SCRIPTS = {"bash": BASH + NAMES, "zsh": ZSH + NAMES, "fish": FISH.replace("NAMES", NAMES)}


def complete(arguments: list[str]) -> None:
    """Print the script of a shell, or, for the script, the completions of a word."""
    match arguments:
        case ["--help" | "-h"]:
            print(HELP)
        case ["words", word, line]:
            command, *others = line.split("\n")
            print("\n".join(completions(Path(command).name.removeprefix("nmt-"), others, word)))
        case [shell] if shell in SCRIPTS:
            print(SCRIPTS[shell].lstrip("\n"))
        case _:
            raise UserError(f"{' '.join(arguments) or 'nmt-complete'}: not a shell; give one of {', '.join(SCRIPTS)}")


def completions(command: str, others: Sequence[str], word: str) -> list[str]:
    """Return the settings of ``command`` that begin with ``word``.

    ``others`` are the other words of the line. They may choose a file of a group, such as ``attention=luong``.
    """
    file = config_dir() / f"{command}.yaml"
    if not file.is_file():
        return []
    chosen = {key_of(other): other.partition("=")[2] for other in others}
    return sorted({setting for setting in _settings(YamlFile(file), chosen) if setting.startswith(word)} - {word})


def _settings(file: YamlFile, chosen: Mapping[str, str], prefix: str = "") -> Iterator[str]:
    """Yield ``key=`` for all keys of a YAML file and of the files that it includes, and ``group=choice``."""
    for parent in file.parents:
        yield from _settings(parent, chosen, prefix)
    for group, default in file.chosen:
        folder, _, inner = group.removeprefix("/").partition("@")
        files = {path.stem: path for path in (config_dir() / folder).glob("*.yaml")}
        key = prefix + (inner or folder)
        yield f"{key}="
        yield from (f"{key}={name}" for name in files)
        choice = chosen.get(key, default)
        if choice in files:
            yield from _settings(YamlFile(files[choice]), chosen, f"{key}.")
    yield from (f"{prefix}{key}=" for key in keys(file.own) if not key.endswith("_target_"))
