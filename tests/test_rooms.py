"""The structure of the package: the order of imports, which rooms import heavy packages, function sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from commands.processes import LATER, run_python

import nmt

ROOT = Path(__file__).resolve().parents[1]
# In the order of the data flow: a room imports only from itself and from the names before it.
ORDER = (
    *("version", "errors", "settings", "files", "system", "data", "text", "kernels", "attention"),
    *("self_attention", "model", "testing", "search", "alignment", "inference", "documents", "server", "training"),
    *("config", "comparison", "commands", "api"),
)
MODULES = {"version", "errors", "testing", "documents", "api"}  # the others are folders
MODULE_NAME = re.compile(r"nmt(\.\w+)+")  # strings for import_module and _target_ count as imports too
LONGEST_FUNCTION = 60  # lines; files are concepts and have no limit


def files(package: Path) -> Iterator[tuple[Path, str]]:
    """Yield every Python file of ``package`` and its dotted module name."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, name: str) -> Iterator[tuple[int, str]]:
    """Yield line and full dotted name of each import of a file, also in functions, for types and in strings."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE_NAME.fullmatch(node.value):
            yield node.lineno, node.value


def wrong_imports(package: Path) -> list[str]:
    """Return one message per import of a later room, or of a lazy name of ``nmt`` itself."""
    messages = []
    for path, name in files(package):
        if name == "nmt":
            continue  # nmt/__init__.py belongs to no room: it offers the public names lazily
        room = name.split(".")[1]
        for line, target in read_imports(path, name):
            if target.split(".")[0] != "nmt":
                continue
            other = target.split(".")[1] if "." in target else ""
            if room not in ORDER or other not in ORDER or ORDER.index(other) > ORDER.index(room):
                messages.append(f"{path.relative_to(package.parent)}:{line}: {target}")
    return messages


read_imports = cache(lambda path, name: [*imports(path, name)])


def users(*packages: str) -> set[str]:
    """Return the rooms whose files import one of these packages."""
    return {
        name.partition(".")[2].partition(".")[0]
        for path, name in files(ROOT / "nmt")
        for _, target in read_imports(path, name)
        if target.split(".")[0] in packages
    }


def test_rooms_import_only_earlier_rooms() -> None:
    assert wrong_imports(ROOT / "nmt") == []


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("text/files.py", "from nmt.errors import UserError", False),
        ("commands/train.py", "from nmt.version import __version__\nfrom nmt import config", False),
        ("commands/train.py", "from nmt import __version__", True),
        ("text/files.py", "import nmt.model", True),
        ("text/files.py", "def function():\n    from nmt.model.decoder import State", True),
        ("text/files.py", "if TYPE_CHECKING:\n    from nmt.model.decoder import State", True),
        ("text/files.py", "import_module('nmt.model.decoder')", True),
        ("commands/train.py", "from nmt import Translator", True),
        ("attic/old.py", "import nmt.text", True),
        ("__init__.py", "from nmt.inference.translator import Translator", False),
    ],
)
def test_wrong_import_is_detected(tmp_path: Path, file: str, text: str, wrong: bool) -> None:
    path = tmp_path / "nmt" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert len(wrong_imports(tmp_path / "nmt")) == wrong


def test_order_lists_every_room_and_module() -> None:
    assert {path.parent.name for path in (ROOT / "nmt").glob("*/*.py")} == set(ORDER) - MODULES
    assert {path.stem for path in (ROOT / "nmt").glob("*.py")} == {"__init__", *MODULES}


@pytest.mark.thorough
def test_heavy_packages_stay_in_their_rooms() -> None:
    # Equality, not ⊆, for rooms that need the package: an empty set would mean that no import was recognised.
    assert users("lightning", "pytorch_lightning") == {"training"}
    assert users("hydra", "omegaconf") <= {"config", "commands"}
    assert "search" not in users("torch")
    assert {"model", "training"} <= users("torch")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import nmt", ("torch", "hydra", "pytorch_lightning")),
        ("from nmt.testing import check_attention", ("hydra", "pytorch_lightning", "nmt.inference")),
        (
            "import pkgutil, importlib, nmt.search, nmt.search.search\n"
            "for file in pkgutil.iter_modules(nmt.search.__path__): importlib.import_module('nmt.search.' + file.name)",
            ("torch",),
        ),
        (
            "import nmt.commands.translate, nmt.inference.translator",
            (*LATER, "hashlib"),
        ),
    ],
    ids=["nmt", "testing", "search", "translator"],
)
def test_import_stays_light(code: str, unwanted: tuple[str, ...]) -> None:
    # In a new interpreter, because other tests have already imported everything in this one.
    code += f"\nimport sys; print([name for name in {unwanted} if name in sys.modules])"
    process = run_python(code, env={"OMP_NUM_THREADS": "1"})
    assert (process.stdout, process.returncode) == ("[]\n", 0), process.stderr


def test_functions_are_short() -> None:
    for path, _ in files(ROOT / "nmt"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= LONGEST_FUNCTION, f"{path}:{node.lineno}: {node.name} has {lines} lines; split it"


def test_helpers_of_tests_and_benchmarks_have_different_names() -> None:
    """Tests import both by their names alone."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    names = [file.name for file in files if not file.name.startswith(("test_", "conftest"))]
    assert sorted(names) == sorted({*names})


def test_lazy_names_are_listed() -> None:
    assert {*nmt.__all__} <= {*dir(nmt)}
