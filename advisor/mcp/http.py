"""The server over streamable HTTP, on this machine's loopback alone, for clients that send the token."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from advisor.errors import UsageError
from advisor.mcp.server import build
from advisor.mcp.workspace import Workspace

HOST = "127.0.0.1"
PATH = "/mcp"
MOST_BODY = 1_000_000
"""Bytes of a request."""
LEAST_TOKEN = 16

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Guarded:
    """An application that answers nobody who does not send ``Authorization: Bearer TOKEN``."""

    def __init__(self, app: App, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        text = b"send the header Authorization: Bearer TOKEN, with the token that the server was started with\n"
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def check_token(token: str) -> str:
    """Return the token. Raises ``UsageError`` for one that can be guessed or that no header can hold."""
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"the token needs {LEAST_TOKEN} printable ASCII characters or more, without blanks")
    return token


def serve(workspace: Workspace, port: int, token: str, say: Callable[[str], None]) -> None:
    """Serve on 127.0.0.1 until the process is ended; port 0 takes a free one. *say* is called with the address."""
    import uvicorn

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        raise UsageError(f"--http {port}: {error.strerror or error}; name another port, or 0 for a free one") from error
    with listener:
        app = build(workspace).streamable_http_app(
            streamable_http_path=PATH, host=HOST, json_response=True, max_request_body_size=MOST_BODY
        )
        config = uvicorn.Config(Guarded(app, token), log_level="warning", access_log=False, lifespan="on")
        say(f"http://{HOST}:{listener.getsockname()[1]}{PATH}")
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
