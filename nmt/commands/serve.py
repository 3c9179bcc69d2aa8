"""nmt-serve: translate for other programs, over HTTP."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from nmt.commands.options import EngineOptions, command, load_model
from nmt.errors import UserError, print_message, reason
from nmt.settings.arguments import Above, AtLeast, AtMost, Count

if TYPE_CHECKING:
    import uvicorn

    from nmt.server.models import ServedModel

HELP = """nmt-serve: a translation server, with a web page, LibreTranslate's interface and its own.

  nmt-serve model=runs/demo languages=en:de              open http://127.0.0.1:8000 in a browser
  nmt-serve 'models=[en:de=runs/a,de:en=runs/b]' port=9000
  nmt-serve 'models=[en:de=runs/memory,en:de=runs/bahdanau]'    two models side by side on the page
  nmt-serve model=[runs/a,runs/b] languages=en:de        an ensemble; beside others: 'models=[en:de=runs/a+runs/b]'
  nmt-serve model=deployed languages=en:de engine=onnx-int8 search=greedy
  nmt-serve model=runs/demo languages=en:de host=0.0.0.0 keys=keys.txt

  curl -d q='a small test .' -d source=en -d target=de http://127.0.0.1:8000/translate

It needs the extra serve: pip install '.[serve]' in a clone. After Ctrl-C or SIGTERM, the server finishes the requests
that have arrived, and ends."""

PAIR = re.compile(r"([A-Za-z][\w-]*):([A-Za-z][\w-]*)")
HOST = re.compile(r"\*|[^\s/:*]+|\[?[0-9a-fA-F:]+\]?")  # the last is an address of IPv6
PACKAGES = ("prometheus_client", "pydantic", "starlette", "uvicorn")  # of requirements-serve.txt

Folders = Mapping[tuple[str, str], Mapping[str, str | list[str]]]  # of models, by (source, target) and by name


@dataclass(frozen=True, kw_only=True)
class ServeOptions(EngineOptions):
    """The settings in conf/serve.yaml."""

    model: str | list[str] | None
    languages: str | None
    models: list[str] | None
    host: str
    port: Annotated[int, AtLeast(0), AtMost(65_535)]
    keys: str | None
    origins: list[str]
    hosts: list[str]
    max_characters: Count | None
    max_waiting: Count
    timeout_s: Annotated[float, Above(0), AtMost(86_400)]

    def __post_init__(self) -> None:
        self.search.require_one_best("each request gives its n_best or alternatives")
        for name in self.hosts:
            if not HOST.fullmatch(name):
                raise UserError(f"hosts={name}: not a host name; write it without https:// and without a port")


@command(HELP, ServeOptions)
def serve(options: ServeOptions) -> None:
    """Load the models and answer requests until a signal ends the server."""
    folders = model_folders(options)
    keys = read_keys(options.keys)
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        packages = " ".join(package.replace("_", "-") for package in missing)
        raise UserError(f"{', '.join(missing)}: not installed; run pip install {packages}")
    with listen(options.host, options.port) as listener:  # a wrong port fails before the models are loaded
        config = uvicorn_config(options, folders, keys)
        host, port = listener.getsockname()[:2]
        print_message(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}; Ctrl-C ends")
        import uvicorn

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                if self.should_exit:  # the second signal ends the process at once, as in all commands
                    os._exit(128 + sig)
                super().handle_exit(sig, frame)

        Server(config).run(sockets=[listener])


def uvicorn_config(options: ServeOptions, folders: Folders, keys: Sequence[str]) -> uvicorn.Config:
    """Return the configuration of a server of the loaded models."""
    import uvicorn

    from nmt.server.app import Languages, Server
    from nmt.server.connections import BACKLOG, Connection, connection_limit

    models = {
        pair: {name: served_model(folder, options) for name, folder in of_pair.items()}
        for pair, of_pair in folders.items()
    }
    server = Server(
        languages=Languages(models, options.search),
        max_characters=options.max_characters,
        keys=keys,
        origins=options.origins,
        hosts=[options.host, *options.hosts],
        timeout_s=options.timeout_s,
    )
    connections = connection_limit()
    return uvicorn.Config(
        server.app(),
        http=Connection,
        loop="asyncio",
        log_level="error",  # warnings name the HTTP/2 that Java's client asks for in each request
        access_log=False,  # it would show query strings
        server_header=False,
        ws="none",
        limit_concurrency=connections,
        backlog=min(BACKLOG, connections),
        timeout_graceful_shutdown=int(options.timeout_s) + 1,
    )


def served_model(folder: str | list[str], options: ServeOptions) -> ServedModel:
    """Load the model or ensemble of a folder. It prints no warnings about texts: they may be private."""
    from nmt.inference.ensemble import members
    from nmt.inference.onnx.model import OnnxModel
    from nmt.inference.translator import Translator
    from nmt.server.models import ServedModel

    loaded = load_model(folder, options.load_settings).loaded_model
    versions = list[str]()
    for path, model in zip([folder] if isinstance(folder, str) else folder, members(loaded), strict=True):
        if isinstance(model, OnnxModel):
            model.load_graphs(options.search.beam_size)  # nmt-export may replace them before the first request
            versions.append(model.properties.model)
        else:
            from nmt.inference.model_folder import model_fingerprint  # imports torch

            versions.append(model_fingerprint(Path(path)))
    translator = Translator(loaded, check_text=False)
    return ServedModel(translator, max_waiting=options.max_waiting, version="+".join(versions))


def model_folders(options: ServeOptions) -> Folders:
    """Return the model folders of each (source, target), by name. Raises UserError if the settings name none.

    A model has the name of its folder, so that no answer names a path; further ones with this name have numbers.
    Several folders, with + between them, are an ensemble.
    """
    if (options.model is None) == (options.models is None) or (options.model is None) != (options.languages is None):
        raise UserError("model=: give either model=FOLDER languages=en:de, or models=[en:de=FOLDER,…]")
    entries = options.models
    if entries is None:
        members = [options.model] if isinstance(options.model, str) else options.model or []
        entries = [f"{options.languages}={'+'.join(members)}"]
    folders: dict[tuple[str, str], dict[str, str | list[str]]] = {}
    for entry in entries:
        codes, _, folder = entry.partition("=")
        match = PAIR.fullmatch(codes)
        if match is None or not folder:
            setting = "languages" if options.models is None else "models"
            raise UserError(f"{setting}={entry}: not source:target and a folder; write codes such as en:de")
        parts = [folder] if Path(folder).exists() else folder.split("+")
        of_pair = folders.setdefault((match[1], match[2]), {})
        name = "+".join(Path(part).resolve().name for part in parts)
        numbered = (f"{name}-{number}" if number > 1 else name for number in count(1))
        of_pair[next(name for name in numbered if name not in of_pair)] = parts if len(parts) > 1 else folder
    return folders


def read_keys(file: str | None) -> list[str]:
    """Return the API keys of a file. Raises UserError if it cannot be read or has none."""
    if file is None:
        return []
    try:
        keys = Path(file).read_text(encoding="utf-8").split()
    except (OSError, UnicodeError) as error:
        raise UserError(f"keys={file}: cannot be read ({reason(error)}); give a file with one key per line") from None
    if not keys:
        raise UserError(f"keys={file}: has no keys; write one per line, or remove keys=")
    return keys


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises UserError if it cannot."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UserError(f"host={host} port={port}: {reason(error)}; choose another port= or host=") from None
    # asyncio sets this only on sockets that it opens. Without it, the body of an answer waits 40 ms for the client to
    # acknowledge the header.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server
