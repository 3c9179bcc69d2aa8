"""The commands and Python blocks of README.md and of all pages in docs/ work, page by page, in an empty folder."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm_programs import warm_programs

from nmt.data.generated import generated
from nmt.data.links import format_pharaoh
from nmt.files.atomic import write_lines

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "index.md"
PAGES = [README, *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
OTHER_PAGES = [ROOT / "data" / "README.md", *sorted((ROOT / "benchmarks").rglob("*.md"))]
OTHER_PAGES += sorted({*ROOT.glob("*.md")} - {README})
# make pages runs these pages too.
HEAVY = {"adapters", "comparing", "fast", "index", "python", "training", "transformers"}
MAKE = {"make train", "make test", ". .venv/bin/activate"}  # .ci/run runs make test-all, which includes make test
DEMO = "nmt-train"  # the command that `make train` runs
# The commands as they are written, only smaller.
SIZES = "tokenizer.vocab_size=500 embeddings.size=8 encoder.hidden_size=8 decoder.hidden_size=8"
SMALL = f"{SIZES} training.max_epochs=1 training.decode_sentences=4 search.max_length=5 threads=1 export=false"
GENERATED = "data.train_pairs=200 data.valid_pairs=4 data.test_pairs=2"
TIMED = "engines=[torch] beams=[1]"  # of nmt-compare
LINES = 3  # in each test file
# A code block that belongs into a file: its name, in backquotes after "In", precedes the block.
FILE = re.compile(r"\b[Ii]n\s`(mine/[^`]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(page: Path) -> str:
    return page.read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of one language, without those that belong into files."""
    return re.findall(rf"^```{language}\n(.*?)^```$", FILE.sub("", text), flags=re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    return [line for block in blocks(read(page), "sh") for line in block.splitlines() if line not in MAKE]


def with_pages(pages: list[Path]) -> pytest.MarkDecorator:
    """Run a test for each page; those of heavy pages are slow."""
    slow = [[pytest.mark.slow] if page.stem in HEAVY else [] for page in pages]
    params = [pytest.param(page, id=page.stem, marks=marks) for page, marks in zip(pages, slow, strict=True)]
    return pytest.mark.parametrize("page", params)


def smaller(command: str) -> str:
    """Return the command with arguments that make its training as short as possible."""
    if "nmt-compare" in command and "models=" in command:
        return f"{command} {TIMED}"
    if not re.search("nmt-(train|compare)", command):
        return command
    if "resume=true" in command:  # a resumed run has its arguments
        return re.sub(r"max_epochs=\d+", "max_epochs=2", command)
    words = f"{SMALL} {TIMED}" if "nmt-compare" in command else SMALL
    command = command.replace("seed=1,2 ", "seed=1 ") if "nmt-compare" in command else command
    if "data=" not in command and ("experiment" not in command or "paper/copy" in command):
        words += f" {GENERATED}"
    if "paper/copy" in command:  # its text yields at most 350 pieces
        words = words.replace("vocab_size=500", "vocab_size=320")
    if "data=prepared" in command:
        words = words.replace("tokenizer.vocab_size=500 ", "")
    if "init_from=" in command:  # the sizes come from that run
        words = words[words.index("training") :]
    return f"{command} {words}"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_programs(tmp_path_factory.mktemp("programs")) as folder:
        yield folder


def shell(command: str, folder: Path, programs: Path) -> str:
    """Run the command in the folder and return its output."""
    environment = {**os.environ, "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, f"{command}\n{run.stderr}"
    return run.stdout


def results(command: str) -> list[str]:
    """Return the files that the command must write: a run's summary, ``output=FILE``, ``> FILE``."""
    files = re.findall(r"(?:> |\b(?:output|alignments)=)(\S+)", command)
    if "nmt-train" in command:
        name = re.search(r"\bname=(\S+)", command)
        result = "sweep.csv" if " -m " in command else "summary.json"
        files.append(f"runs/{name[1] if name else 'multi30k'}/{result}")
    if "nmt-compare" in command:
        files += [f"runs/{name}/report.html" for name in re.findall(r"\bname=(\S+)", command)]
    return files


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Path:
    """A folder with the run that `make train` makes."""
    folder = tmp_path_factory.mktemp("demo")
    shell(smaller(DEMO), folder, programs)
    shell("nmt-export model=runs/demo", folder, programs)  # not export=true, or each resumed run would export again
    return folder


@pytest.fixture
def folder(tmp_path: Path, demo: Path) -> Path:
    """A folder with ``runs/demo`` and with the text files that the pages name."""
    shutil.copytree(demo, tmp_path, dirs_exist_ok=True)
    pairs = generated(train_pairs=300, valid_pairs=LINES, test_pairs=LINES)
    for name in ("data/multi30k", "tables"):
        (tmp_path / name).mkdir(parents=True)
    for part, kept in pairs.items():
        table = "".join(f"{pair.source}\t{pair.target}\n" for pair in kept)
        (tmp_path / "tables" / f"{part}.tsv").write_text(table, encoding="utf-8")
        for side, ending in ((0, "en"), (1, "de")):
            text = "".join(f"{pair[side]}\n" for pair in kept).encode()
            (tmp_path / f"{part}.{ending}").write_bytes(text)
            if part == "train":
                (tmp_path / f"more.{ending}").write_bytes(text)
            if part == "test":
                write_links(tmp_path, [sorted(pair.links or ()) for pair in kept])
            name = "test2016" if part == "test" else part
            (tmp_path / "data" / "multi30k" / f"{name}.{ending}.gz").write_bytes(gzip.compress(text))
    sides = "".join(f'<tuv xml:lang="{code}"><seg>a <ph>{{1}}</ph>\n{code}</seg></tuv>' for code in ("de-DE", "en-GB"))
    (tmp_path / "memory.tmx").write_text(f"<tmx><body><tu>{sides}</tu></body></tmx>", encoding="utf-8")
    return tmp_path


def write_links(folder: Path, links: list[list[tuple[int, int]]]) -> None:
    """Write word links in the formats that a page converts into each other."""
    write_lines(folder / "test.links", map(format_pharaoh, links))
    write_lines(folder / "from1.links", [format_pharaoh((i + 1, j + 1) for i, j in pair) for pair in links])
    write_lines(folder / "exchanged.links", [format_pharaoh((j, i) for i, j in pair) for pair in links])
    numbered = [f"{number} {i + 1} {j + 1} S" for number, pair in enumerate(links, 1) for i, j in pair]
    write_lines(folder / "naacl.links", numbered)


@with_pages([page for page in PAGES if commands(page)])
def test_commands_of_a_page_work_in_order(page: Path, folder: Path, programs: Path) -> None:
    for name, text in FILE.findall(read(page)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    links = (folder / "test.links").read_text("utf-8").split()
    for command in commands(page):
        printed = shell(smaller(command), folder, programs)
        if command.endswith("> test.links"):  # made of the same links in another format
            assert sorted((folder / "test.links").read_text("utf-8").split()) == sorted(links), command
        for name in results(command):
            assert (folder / name).exists(), f"{command}\n{name} is missing"
        if " > " not in command:
            assert printed or "output=" in command, command
    if (folder / "out.txt").exists():
        assert len((folder / "out.txt").read_text("utf-8").splitlines()) == LINES
    if (folder / "memory.tsv").exists():
        assert (folder / "memory.tsv").read_text("utf-8") == "a en-GB\ta de-DE\n"
    if (folder / "pictures").exists():
        assert list((folder / "pictures").glob("*.png"))


@pytest.mark.parametrize(
    ("tmx", "languages", "table"),
    [
        ('<tmx><tu><tuv lang="EN"><seg>a</seg></tuv><tuv lang="DE"><seg>b</seg></tuv></tu></tmx>', "en de", "a\tb\n"),
        (
            '<tmx xmlns="http://www.lisa.org/tmx14"><tu><note>n</note><tuv xml:lang="en_US"><seg>a <hi>b</hi></seg>'
            '</tuv><tuv xml:lang="fil"><seg>c<ph>x</ph></seg></tuv></tu></tmx>',
            "en-us fil",
            "a b\tc\n",
        ),
        (
            '<tmx><tu><tuv xml:lang="pt-PT"><seg>a</seg></tuv><tuv xml:lang="pt-BR"><seg>b</seg></tuv></tu></tmx>',
            "pt pt-BR",
            "a\tb\n",
        ),
        ('<tmx><tu><tuv xml:lang="en"><seg>a</seg></tuv></tu></tmx>', "en de", ""),
    ],
    ids=["lang=", "namespace", "regions", "no pair"],
)
def test_translation_memories_become_tables(tmx: str, languages: str, table: str, tmp_path: Path) -> None:
    (tmp_path / "memory.tmx").write_text(tmx, encoding="utf-8")
    (tmp_path / "tmx.py").write_text(dict(FILE.findall(read(ROOT / "docs" / "own-text.md")))["mine/tmx.py"])
    command = [sys.executable, "tmx.py", "memory.tmx", *languages.split()]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (run.stdout, run.returncode == 0, run.stderr == "") == (table, table != "", table != "")


@with_pages([page for page in PAGES if blocks(read(page), "python")])
def test_python_blocks_of_a_page_work_in_order(page: Path, folder: Path, programs: Path) -> None:
    program = folder / "page.py"
    text = "\n".join(blocks(read(page), "python"))
    text = text.replace("nmt.train(", 'nmt.train("export=false", "threads=1", ')
    text = text.replace('"data.train_pairs=2000"', ", ".join(f'"{word}"' for word in f"{SIZES} {GENERATED}".split()))
    program.write_text(text, encoding="utf-8")
    assert shell("nmt-python page.py", folder, programs)


def links(page: Path) -> set[str]:
    """Return the relative links and images of a page, without anchors."""
    text = read(page)
    return {*re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text), *re.findall(r'src="([^"]+)"', text)}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: its headings, as the forge and the site name them."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_linked_files_and_sections_exist(page: Path) -> None:
    for link in links(page):
        assert (page.parent / link).exists(), link
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", read(page)):
        target = page.parent / path if path else page
        assert anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_forge_shows_all_of_a_page(page: Path) -> None:
    """Directives and labels of Sphinx are text there. Notebooks are code cells, which it shows."""
    assert not re.search(r"^(```|:::)\{(?!code-cell)|^\(\S+\)=$", read(page), re.MULTILINE)


def test_readme_leads_to_every_page() -> None:
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.is_file():
            reached.add(page)
            waiting += [(page.parent / link).resolve() for link in links(page)]
    assert reached >= {INDEX, *PAGES}, sorted({*PAGES} - reached)
