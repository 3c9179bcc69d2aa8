"""Connections of the server: silent ones end, and give their place to others."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.errors import print_message, reason

CONNECTIONS = 1000  # open at the same time
BACKLOG = 100  # connections that are accepted at once, above the limit
FILES = 4096  # open at the same time, if the system allows it
SILENT_S = 20.0  # until a request has arrived, or until a client reads more of an answer
MESSAGE_S = 60.0  # between two messages of the same kind
NO_PLACE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Connection(H11Protocol):
    """An HTTP connection that ends if nothing happens on it for ``SILENT_S``.

    At the limit of connections, a new one ends the oldest that waits for a request. The parser is h11, because
    httptools has no limit for the size of a header.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        self.timer = self.loop.call_later(SILENT_S, self.look, None, 0)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            others = (other for other in self.connections if isinstance(other, Connection) and other is not self)
            oldest = min((other for other in others if other.waits), key=lambda other: other.since, default=None)
            if oldest is not None:
                self.connections.discard(oldest)
                oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.timer.cancel()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def look(self, cycle: object, unsent: int) -> None:
        """End the connection if nothing has changed since the last look, which saw this cycle and unsent bytes."""
        now = self.transport.get_write_buffer_size()
        if self.cycle is cycle and now == unsent and (now or self.waits):
            self.transport.abort()
        else:
            self.timer = self.loop.call_later(SILENT_S, self.look, self.cycle, now)


class LoopErrors:
    """Handler of the loop's errors: one line a minute, without a traceback, while no connection can be accepted."""

    def __init__(self) -> None:
        self.silent_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in NO_PLACE:
            loop.default_exception_handler(context)
        elif loop.time() >= self.silent_until:
            self.silent_until = loop.time() + MESSAGE_S
            print_message(
                f"error: cannot accept connections: {reason(error)}; raise the limit of open files, ulimit -n"
            )


def connection_limit() -> int:
    """Raise the limit of open files, and return how many connections may be open: a third of it at most."""
    try:
        import resource
    except ImportError:  # Windows
        return CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < FILES:
        soft = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, soft // 3))
