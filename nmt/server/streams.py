"""Translations as server-sent events, sent as soon as their batch is translated."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from starlette.responses import StreamingResponse

from nmt.inference.bulk import Failure
from nmt.server.fields import logged
from nmt.server.models import ServedModel, Work

Answers = Sequence[Any]  # in JSON, or failures
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx would keep events back


class EventStream(StreamingResponse):
    """One event ``translation`` or ``error`` per line, each with its ``index``, and at the end the event ``done``.

    An ``error`` without an index ends the stream. If the client disconnects, the lines that wait are dropped.
    """

    def __init__(
        self, model: ServedModel, lines: Sequence[str], work: Work, *, timeout_s: float, last: Mapping[str, Any]
    ) -> None:
        loop = asyncio.get_running_loop()
        batches = asyncio.Queue[Answers | None]()

        def send(batch: Answers | None) -> None:  # in the thread of the model
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(batches.put_nowait, batch)

        future = model.submit(lines, work, send)
        future.add_done_callback(lambda _: send(None))
        self.on_end: Callable[[], None] = lambda: None
        super().__init__(self._events(batches, future, timeout_s, last), 200, HEADERS, "text/event-stream")

    async def _events(
        self,
        batches: asyncio.Queue[Answers | None],
        future: Future[Any],
        timeout_s: float,
        last: Mapping[str, Any],
    ) -> AsyncIterator[str]:
        end = time.monotonic() + timeout_s
        index = 0
        try:
            while (batch := await asyncio.wait_for(batches.get(), max(0, end - time.monotonic()))) is not None:
                for result in batch:
                    if isinstance(result, Failure):
                        yield _event("error", index=index, error=result.reason)
                    else:
                        yield _event("translation", index=index, **result)
                    index += 1
            future.result()
            yield _event("done", lines=index, **last)
        except TimeoutError:
            yield _event("error", error=f"not finished within {timeout_s:g} s; send less text at once")
        except Exception as error:
            yield _event("error", error=logged("stream", error))
        finally:
            future.cancel()
            self.on_end()


def _event(name: str, **fields: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(fields, ensure_ascii=False, allow_nan=False)}\n\n"
