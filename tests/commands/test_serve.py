"""nmt-serve: a real model answers many requests at once, and the program starts, drains and ends as it should."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import refusal

from nmt.commands.serve import PACKAGES, model_folders, serve

LINES = ["a cat sleeps", "the small dog sees a red house", "red", "a red cat sees the small house"] * 8


@contextmanager
def server_of(model: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process of a server, and its address. The server ends with code 143, and logs no text."""
    words = (f"model={model}", "languages=en:de", "port=0", "threads=1", "max_characters=null", *words)
    command = [sys.executable, "-m", "nmt.commands.programs", "serve", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process, re.search(r"http://\S+?(?=;)", process.stderr.readline())[0]  # type: ignore[index]
        assert process.wait(60) == 128 + signal.SIGTERM
        log = process.stderr.read()
    assert not {word for word in ("cat", "Traceback", "terminate", "upgrade") if word in log}, log


def translate_many(url: str) -> list[str]:
    body = json.dumps({"q": "\n".join(LINES * 20), "source": "en", "target": "de"}).encode()
    request = urllib.request.Request(f"{url}/translate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        text: str = json.loads(answer.read())["translatedText"]
    return text.split("\n")


@pytest.mark.thorough
def test_signal_finishes_the_requests_that_have_arrived(model: Path) -> None:
    with server_of(model, "engine=torch") as (process, url), ThreadPoolExecutor(1) as pool:
        answer = pool.submit(translate_many, url)
        while b"nmt_waiting_lines 0.0" in urllib.request.urlopen(f"{url}/metrics").read():
            pass
        java = http.client.HTTPConnection(url.removeprefix("http://"))  # Java's client gets HTTP/1.1, as it should
        java.request("GET", "/health", headers={"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"})
        assert java.getresponse().read() == b'{"status":"ok"}'
        java.close()
        process.send_signal(signal.SIGTERM)
        assert len(answer.result()) == len(LINES) * 20


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
def test_server_without_a_free_file_shows_no_traceback_and_recovers(exported: Path) -> None:
    import resource

    with server_of(exported, "engine=onnx") as (process, url):
        host, port = url.removeprefix("http://").split(":")
        files = len(os.listdir(f"/proc/{process.pid}/fd")) + 10
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (files, files))
        silent = [socket.create_connection((host, int(port))) for _ in range(60)]
        for connection in silent:
            connection.close()
        assert urllib.request.urlopen(f"{url}/health", timeout=30).status == 200
        process.send_signal(signal.SIGTERM)


@pytest.mark.thorough
def test_server_ends_while_a_request_that_took_too_long_is_translated(exported: Path) -> None:
    with server_of(exported, "engine=onnx", "search.beam_size=100", "timeout_s=0.5") as (process, url):
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            translate_many(url)
        refused.value.close()
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"models": ["en:de=x/a", "de:en=a", "en:de=y/a/", "en:de=z/b", "en:de=a"]},
            {("en", "de"): {"a": "x/a", "a-2": "y/a/", "b": "z/b", "a-3": "a"}, ("de", "en"): {"a": "a"}},
        ),
        (  # a plus between folders makes an ensemble, unless it belongs to the name of a folder
            {"models": ["en:de=x+y", "en:de=a+b", "en:de=c"]},
            {("en", "de"): {"x+y": ["x", "y"], "a+b": "a+b", "c": "c"}},
        ),
        ({"model": ["x/a", "b"], "languages": "en:de"}, {("en", "de"): {"a+b": ["x/a", "b"]}}),
    ],
)
def test_models_have_the_names_of_their_folders(
    settings: dict[str, Any], expected: dict[tuple[str, str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a+b").mkdir()
    options: Any = SimpleNamespace(**{"model": None, "languages": None, "models": None, **settings})
    assert model_folders(options) == expected


def test_missing_packages_are_named_as_pip_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.commands.serve.find_spec", lambda _: None)
    message = refusal(serve, ["model=a", "languages=en:de"])
    assert message.startswith(", ".join(PACKAGES)) and "prometheus-client" in message
    extra = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {re.split("[>=<]", requirement)[0].replace("-", "_") for requirement in extra["serve"]} == {*PACKAGES}
