"""The viewer's web application."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from analysis.viewer import addresses
from analysis.viewer.addresses import Filters, Served, read
from analysis.viewer.pages import Found, Pages
from analysis.viewer.runs import Run
from grid.core.errors import StoreError, one_line

STATIC = Path(__file__).parent / "static"
_LONGEST = 300  # maximum length of a cell's id, in characters
_MOST = 10_000_000  # limit for the numbers of requests and branches
_SERVED = Served()


def app(runs: Sequence[Run], port: int, token: str | None = None) -> Starlette:
    """The web application for one or two folders; if there is a token, only people who have it get access."""
    pages = Pages(runs)

    def route(path: str, answer: Callable[[Request, Filters, Sequence[str]], Found]) -> Route:
        async def endpoint(request: Request) -> Response:
            filters, wrong = read(request.query_params)
            found = await run_in_threadpool(_answered, pages, lambda: answer(request, filters, wrong))
            return HTMLResponse(found.html, found.status)

        return Route(path, endpoint, methods=["GET", "HEAD"])

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = "There is no such page." if status == 404 else "This request cannot be answered."
        found = pages.missing(_SERVED, text, status)
        return HTMLResponse(found.html, found.status)

    return Starlette(
        routes=[
            route(addresses.SWEEPS, lambda request, filters, wrong: pages.sweeps(_SERVED, filters, wrong)),
            route(addresses.CASES, lambda request, filters, wrong: pages.cases(_SERVED, filters, wrong)),
            route(
                addresses.EPISODE,
                lambda request, filters, wrong: pages.episode(
                    _SERVED, filters, _cell(request), _whole(request, "branch"), _whole(request, "first")
                ),
            ),
            route(
                addresses.TREE,
                lambda request, filters, wrong: pages.tree(
                    _SERVED, filters, _cell(request), request.query_params.get("node", "")[:_LONGEST]
                ),
            ),
            route(
                addresses.ASKED,
                lambda request, filters, wrong: pages.asked(
                    _SERVED, filters, _cell(request), _whole(request, "request") or 0
                ),
            ),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, port=port, token=token)],
        exception_handlers={HTTPException: missing},
    )


def _answered(pages: Pages, answer: Callable[[], Found]) -> Found:
    """A page; or, if the folder is gone or a file is damaged, a page that says so."""
    try:
        return answer()
    except StoreError as error:
        return pages.missing(_SERVED, one_line(error), 503)


def _cell(request: Request) -> str:
    """The id of an episode; an id that cannot be used is changed to an id that no episode has."""
    found = request.query_params.get("cell", "")
    return found if len(found) <= _LONGEST and "\0" not in found else f"{found[:_LONGEST]}…"


def _whole(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 and int(text) < _MOST else None


# Access: without a token, only under this machine's own name; otherwise, only with the token. A page may load only its
# own files.


POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
TOKEN = "token"  # noqa: S105
"""The parameter that holds the token in the first address.

Afterwards the token is in a cookie. The cookie's name contains the port, because browsers do not separate cookies of
different ports.
"""
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
    """Answer a request or refuse it.

    If there is a token, everyone who has it gets access. Without a token, requests get access only if they call this
    machine by its own name.

    A foreign page whose name was pointed at this machine (DNS rebinding) is refused, because it uses that foreign name.
    """

    def __init__(self, app: ASGIApp, port: int, token: str | None = None) -> None:
        self._app, self._token, self._cookie = app, token, f"agent-grid-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI call."""
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
                return PlainTextResponse("This viewer answers only requests to 127.0.0.1 or localhost.\n", 403)
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in query if name == TOKEN), None)
        if given is not None and _same(given, self._token):
            rest = urlencode([(name, value) for name, value in query if name != TOKEN])
            path = "/" + scope["path"].lstrip("/\\")  # so that the path cannot name another host
            found = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            found.set_cookie(self._cookie, self._token, httponly=True, samesite="lax", path="/")
            return found
        if _same(_cookies(headers.get("cookie", "")).get(self._cookie, ""), self._token):
            return None
        return PlainTextResponse("Open the address that the viewer printed, including its token.\n", 403)


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _cookies(text: str) -> dict[str, str]:
    try:
        return {name: part.value for name, part in SimpleCookie(text).items()}
    except CookieError:
        return {}
