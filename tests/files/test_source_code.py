"""A run records the source files of its classes, and an edit of one of them is found."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt import __version__
from nmt.files.source_code import changed_modules, code_of

# "student" is a package, "student_layers" a module beside it.
FILES = {
    "student/__init__.py": "",
    "student/attention.py": "from nmt.attention import LuongAttention\nfrom .base import Base\nimport student_layers\n"
    "class Mine(Base, LuongAttention):\n    pass\ndef late():\n    from student.inner import deep\n",
    "student/base.py": "class Base:\n    pass\n",
    "student/inner/__init__.py": "",
    "student/inner/deep.py": "from .. import constants\n",
    "student/constants.py": "SCALE = 0.5\n",
    "student/plots.py": "import student.attention\n",
    "student_layers.py": "import json, numpy\n",
    "unrelated.py": "",
}
DEFINING = {
    *("student", "student.attention", "student.base", "student.constants", "student.inner", "student.inner.deep"),
    "student_layers",
}
CONFIG = {
    "trust": ["student"],
    "seed": 1,
    "attention": {"_target_": "nmt.attention.NoAttention", "inner": {"_target_": "student.attention.Mine"}},
    "optimizer": {"_target_": "torch.optim.Adam", "lr": 0.1},
    "logger": {"_target_": "student.plots.Log"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget()


def write(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def forget() -> None:
    """Let the next import read the files again, as another process does."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("student", "student_layers")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def stored_code() -> Any:
    importlib.import_module("student.attention")
    code = json.loads(json.dumps(code_of(CONFIG)))
    forget()
    return code


def test_code_is_the_modules_of_the_classes_and_their_imports(folder: Path) -> None:
    code = stored_code()
    assert code["toolkit"] == __version__
    assert {*code["code"]} == {"attention"}  # neither torch.optim nor the logger
    ours = {name for name in code["code"]["attention"] if name.split(".")[0] == "nmt"}
    assert {*code["code"]["attention"]} - ours == DEFINING
    assert ours == {"nmt.attention.base", "nmt.attention.luong", "nmt.attention.none"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.dictionaries(st.sampled_from(sorted(FILES)), st.sampled_from(["\n", "# note\n", "x = 1\n"])))
def test_changed_modules_are_the_edited_ones_that_define_a_class(folder: Path, edits: dict[str, str]) -> None:
    write(folder)
    stored = stored_code()
    for name, text in edits.items():
        with (folder / name).open("a") as file:
            file.write(text)
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in edits}
    assert changed_modules(stored) == sorted(modules & DEFINING)
    assert changed_modules(stored, groups=["decoder"]) == []


def test_deleted_module_counts_as_changed(folder: Path) -> None:
    stored = stored_code()
    (folder / "student_layers.py").unlink()
    assert changed_modules(stored) == ["student_layers"]


def test_module_that_was_imported_before_the_edit_is_unchanged(folder: Path) -> None:
    """This process still runs the old code, so its runs equal the stored one."""
    stored = stored_code()
    importlib.import_module("student.attention")
    before = code_of(CONFIG)
    (folder / "student" / "attention.py").write_text("edited = True\n")
    assert code_of(CONFIG) == before and changed_modules(stored) == []
    forget()
    assert changed_modules(stored) == ["student.attention"]


def test_toolkit_counts_only_in_its_version_and_if_asked() -> None:
    module = {"attention": {"nmt.attention.luong": "other"}}
    assert changed_modules({"toolkit": __version__, "code": module}) == []
    assert changed_modules({"toolkit": __version__, "code": module}, toolkit=True) == ["nmt.attention.luong"]
    assert changed_modules({"toolkit": "0.0.1", "code": module}, toolkit=True) == []


@pytest.mark.parametrize(
    "stored",
    [
        None,
        3,
        [],
        {},
        {"toolkit": "1", "code": 3},
        {"toolkit": "1", "code": {"a": 3}},
        {"toolkit": 1, "code": {"a": []}},
    ],
)
def test_damaged_record_is_ignored(stored: object) -> None:
    assert changed_modules(stored) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a..b", "__main__", "nowhere.at_all", "sys", "a b", "os.path"])
def test_record_of_a_stranger_imports_nothing(name: str) -> None:
    before = {*sys.modules}
    assert changed_modules({"toolkit": "1", "code": {"attention": {name: "0"}}}) == [name]
    assert {*sys.modules} == before
