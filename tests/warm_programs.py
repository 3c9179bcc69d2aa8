"""Start programs without their imports: a server that has imported torch, Lightning and Hydra forks for each command.

The pages hold about 150 commands, which import for longer than they work. Programs that start by themselves are tested
in commands/, and by the installed wheel in .ci/run. ``nmt-python`` runs a file as ``python`` does.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from saved_time import save_time

COMMANDS = ("align", "compare", "distill", "evaluate", "export", "heatmap", "prepare", "train", "translate")
IMPORTS = (
    *("torch", "pytorch_lightning", "hydra", "matplotlib.figure", "sacrebleu", "onnxruntime", "nmt.training.run"),
    "pandas",  # pyarrow imports it, if it is installed
    "nmt.inference.onnx.export",
    *(f"nmt.commands.{command}" for command in COMMANDS),
)
CLIENT = """#!{python} -ISE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([{command!r}, sys.argv, os.getcwd(), dict(os.environ)])
socket.send_fds(server, [request.encode("utf-8", "surrogateescape")], [0, 1, 2])
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.makefile().read()))
"""


@contextmanager
def warm_programs(folder: Path) -> Iterator[Path]:
    """Yield a folder of programs such as ``nmt-train``, which the server runs while this context lasts."""
    address = str(folder / "server")
    for command in (*COMMANDS, "python"):
        program = folder / f"nmt-{command}"
        program.write_text(CLIENT.format(python=sys.executable, address=address, command=command))
        program.chmod(0o755)
    with Popen([sys.executable, __file__, address], stdin=PIPE, stdout=PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
        server.terminate()


def serve(address: str) -> None:
    """Fork for each connection. The child runs the command, and the client exits with its code."""
    gc.disable()
    for name in IMPORTS:
        import_module(name)
    save_time()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            if os.fork() == 0:  # a grandchild, so that nobody has to wait for it
                answer(connection)
            os._exit(0)
        connection.close()
        os.wait()


def answer(connection: socket.socket) -> None:
    """Run the command of a request in another process, and send its exit code."""
    content, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while part := connection.recv(1 << 20):
        content += part
    request = json.loads(content.decode("utf-8", "surrogateescape"))
    child = os.fork()
    if child == 0:
        connection.close()
        run(*request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.wait()[1])
    connection.sendall(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def run(command: str, argv: list[str], folder: str, environment: dict[str, str], descriptors: list[int]) -> Any:
    """Run a command in this process, with these streams, as the program of that name does, and end the process."""
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = argv
    code = 1
    try:
        if command == "python":
            sys.path.insert(0, folder)
            runpy.run_path(argv[1], run_name="__main__")
            code = 0
        else:
            getattr(import_module("nmt.commands.programs"), command)()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()  # the modules of these programs registered them
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
