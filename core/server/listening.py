"""The socket: who may connect, and how long a client may keep it waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.api.errors import InvalidRequestError

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"
HEAD_S = 15.0
# A client that takes nothing for this long is gone.
SEND_S = 60.0
# Half of them may hold a socket open and send nothing, for HEAD_S.
MOST_CONNECTIONS = 256
_CLOSING_S = 3


class _Protocol(H11Protocol):
    """uvicorn itself waits without end for a request's head, and for a client to take a
    response."""

    _head_timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    # uvicorn narrows the type of asyncio's own method, too.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Or a response's body waits for the client's acknowledgement of its head: 40 ms on Linux.
        # asyncio does it only for sockets that name their protocol, which `create_server`'s don't.
        connection: socket.socket = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # on macOS if the client is gone already
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Writing pauses as soon as anything waits for the client.
        transport.set_write_buffer_limits(high=0)
        self._head_timer = self.loop.call_later(HEAD_S, self._end_silent)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answered = self.cycle is None or self.cycle.response_complete
        if not answered:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._end_silent)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Closing would wait for the client, too.
        self._send_timer = self.loop.call_later(SEND_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_send_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_send_timer()
        super().connection_lost(exc)

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_silent(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


def bound(port: int, lan: bool) -> socket.socket:
    """Port 0 is any free one. Raises InvalidRequestError."""
    try:
        return socket.create_server((EVERYWHERE if lan else LOOPBACK, port))
    except OSError as error:
        # The address that Python adds has nothing new.
        reason, _, _ = str(error.strerror).partition(" (while")
        words = f"Port {port} can't be used: {reason}."
    except OverflowError:
        words = f"Port {port} can't be used: the highest is 65535."
    raise InvalidRequestError(words, "The server can't listen")


def address_of(listening: socket.socket) -> str:
    """The address without a path, in the network if other machines can connect. Sends nothing."""
    host, port = listening.getsockname()
    if host == EVERYWHERE:
        host = LOOPBACK
        with socket.socket(type=socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            # The route to any other network, here one for documentation, has our address.
            probe.connect(("192.0.2.1", port))
            host = probe.getsockname()[0]
    return f"http://{host}:{port}"


class _ChildServer(uvicorn.Server):
    """Ctrl-C reaches children too; the window handles it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: ASGIApp, listening: socket.socket, child: bool = False) -> None:
    """Serve until cancelled or, unless a `child`, until a signal; open requests get a moment to
    end."""
    # uvicorn's messages may quote requests; errors are reported by `application`.
    logging.getLogger("uvicorn").disabled = True
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).disabled = True
    options: dict[str, Any] = {
        "loop": "asyncio",
        "http": _Protocol,
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "limit_concurrency": MOST_CONNECTIONS,
        "timeout_graceful_shutdown": _CLOSING_S,
    }
    server = (_ChildServer if child else uvicorn.Server)(uvicorn.Config(app, **options))
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise
