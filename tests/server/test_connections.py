"""Connections that send nothing, or too slowly, end, and keep nobody out."""

from __future__ import annotations

import asyncio
import errno
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from served import Client, serving

from nmt.server import connections

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def connect(client: Client, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", client.port), timeout=30)
    connection.sendall(sent)
    return connection


def ended(connection: socket.socket) -> bool:
    """Wait until the server has ended the connection."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    connection.close()
    return True


def test_connections_without_a_complete_header_end_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENT_S", 0.2)
    with serving() as client, ThreadPoolExecutor(1) as pool:
        answer = client.hold(pool)
        for _ in range(3):  # the request waits longer than a silent connection may
            silent = [connect(client, sent) for sent in (b"", b"GET", REQUEST, REQUEST + b"\r\n" + REQUEST)]
            assert all(map(ended, silent))
        client.translator.released.set()
        assert answer.result() == "A"


@pytest.mark.parametrize("sent", [b"", REQUEST])
def test_silent_connections_give_their_place_to_others(sent: bytes) -> None:
    with serving(connections=5) as client, ThreadPoolExecutor(1) as pool:
        answer = client.hold(pool)
        silent = [connect(client, sent) for _ in range(20)]
        assert client.send("/health") == (200, {"status": "ok"})
        client.translator.released.set()
        assert answer.result() == "A"
        assert all(map(ended, silent[:15]))
        for connection in silent[15:]:
            connection.close()


def test_headers_have_a_limit() -> None:
    with serving() as client:
        connection = connect(client, REQUEST + b"X: ")
        with pytest.raises(ConnectionError):
            for _ in range(100):
                connection.sendall(b"x" * (1 << 18))
        connection.close()
        assert client.send("/health")[0] == 200


def test_full_table_of_files_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    loop = asyncio.new_event_loop()
    handle = connections.LoopErrors()
    for _ in range(1000):
        handle(loop, {"message": "socket.accept() out of system resource", "exception": OSError(errno.EMFILE, "full")})
    loop.close()
    assert capsys.readouterr().err.count("\n") == 1
