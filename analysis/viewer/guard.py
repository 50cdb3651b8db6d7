"""Who may look: hosts by name on loopback, a token elsewhere; and what a page may do: load its own files, no more."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
TOKEN = "token"  # noqa: S105
"""The parameter of the address, once; then it is a cookie of a port's own, as cookies know no ports."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
Call = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Answers, or refuses. With a token whoever has it may look; without, whoever calls this machine by its own name.

    A page elsewhere whose name was pointed at this machine (DNS rebinding) calls it by that name.
    """

    def __init__(self, app: ASGIApp, port: int, token: str | None = None) -> None:
        self._app, self._token, self._cookie = app, token, f"agent-grid-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._token is None:
            host = headers.get("host", "").rpartition(":")
            name = host[0] if host[0] and host[2].isdigit() else headers.get("host", "")
            if name.lower() not in _NAMES:
                return PlainTextResponse("This viewer answers to 127.0.0.1 and localhost only.\n", 403)
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in query if name == TOKEN), None)
        if given is not None and _same(given, self._token):
            rest = urlencode([(name, value) for name, value in query if name != TOKEN])
            path = "/" + scope["path"].lstrip("/\\")  # never another host's
            found = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            found.set_cookie(self._cookie, self._token, httponly=True, samesite="lax", path="/")
            return found
        if _same(_cookies(headers.get("cookie", "")).get(self._cookie, ""), self._token):
            return None
        return PlainTextResponse("Open the address with its token, as the viewer printed it.\n", 403)


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _cookies(text: str) -> dict[str, str]:
    try:
        return {name: part.value for name, part in SimpleCookie(text).items()}
    except CookieError:
        return {}
