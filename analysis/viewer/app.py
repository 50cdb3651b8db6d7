"""The viewer's web application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from analysis.viewer import links
from analysis.viewer.addresses import Served
from analysis.viewer.filters import Filters, read
from analysis.viewer.guard import Guard
from analysis.viewer.pages import Found, Pages
from analysis.viewer.runs import Run
from grid.core.errors import StoreError, one_line

STATIC = Path(__file__).parent / "static"
_LONGEST = 300  # characters of a cell's id
_MOST = 10_000_000  # requests, branches
_SERVED = Served()


def app(runs: Sequence[Run], port: int, token: str | None = None) -> Starlette:
    """The application over one folder or two; with a token only who has it may look."""
    pages = Pages(runs)

    def route(path: str, answer: Callable[[Request, Filters, Sequence[str]], Found]) -> Route:
        async def endpoint(request: Request) -> Response:
            filters, wrong = read(request.query_params)
            found = await run_in_threadpool(_answered, pages, lambda: answer(request, filters, wrong))
            return HTMLResponse(found.html, found.status)

        return Route(path, endpoint, methods=["GET", "HEAD"])

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = "There is no such page." if status == 404 else "This cannot be answered."
        found = pages.missing(_SERVED, text, status)
        return HTMLResponse(found.html, found.status)

    return Starlette(
        routes=[
            route(links.SWEEPS, lambda request, filters, wrong: pages.sweeps(_SERVED, filters, wrong)),
            route(links.CASES, lambda request, filters, wrong: pages.cases(_SERVED, filters, wrong)),
            route(
                links.EPISODE,
                lambda request, filters, wrong: pages.episode(
                    _SERVED, filters, _cell(request), _whole(request, "branch"), _whole(request, "first")
                ),
            ),
            route(
                links.TREE,
                lambda request, filters, wrong: pages.tree(
                    _SERVED, filters, _cell(request), request.query_params.get("node", "")[:_LONGEST]
                ),
            ),
            route(
                links.ASKED,
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
    """A page, or one that says why there is none: the folder is gone, or a file is damaged."""
    try:
        return answer()
    except StoreError as error:
        return pages.missing(_SERVED, one_line(error), 503)


def _cell(request: Request) -> str:
    """An id of an episode; too long ones are nobody's."""
    found = request.query_params.get("cell", "")
    return found if len(found) <= _LONGEST and "\0" not in found else f"{found[:_LONGEST]}…"


def _whole(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 and int(text) < _MOST else None
