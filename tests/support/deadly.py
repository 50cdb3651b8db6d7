"""Chunks with a case that ends, blocks or stops the worker that runs it, or that wait; imported by the workers."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from unittest.mock import patch

from grid import store
from grid.cluster import worker
from grid.cluster.worker import Chunk, Report
from grid.core.errors import UnfinishedError
from grid.core.types import Trajectory
from grid.datasets.slate.dataset import Slate
from grid.episode.episode import Episode
from grid.planners.react import ReAct

DEADLY = Slate().case_ids()[3]  # the fourth that `limit` draws
GO = "go"  # a file: what waiting chunks and cases wait for
BEGUN = "begun"  # a folder: a file for each case that began
STOPPED = "stopped"  # a file: there when a worker was stopped once
solve_chunk = worker.solve_chunk


def deadly(chunk: Chunk) -> Report:
    """A worker that gets the deadly case dies."""
    if any(cell.case_id == DEADLY for cell in chunk.cells):
        os.kill(os.getpid(), signal.SIGKILL)
    return solve_chunk(chunk)


def waiting(chunk: Chunk) -> Report:
    """Nothing begins before it may."""
    while not (chunk.root / GO).exists():
        time.sleep(0.05)
    return solve_chunk(chunk)


def blocking(chunk: Chunk) -> Report:
    """The deadly case holds the event loop."""

    async def block(episode: Episode) -> None:
        if episode.case.id == DEADLY:
            time.sleep(600)

    return disturbed(chunk, block)


def sleeping(chunk: Chunk) -> Report:
    """The deadly case waits for something of its own."""

    async def sleep(episode: Episode) -> None:
        if episode.case.id == DEADLY:
            await asyncio.sleep(600)

    return disturbed(chunk, sleep)


def dying_once(chunk: Chunk) -> Report:
    """The deadly case ends its worker when all others have rows; the first time only."""

    async def die(episode: Episode) -> None:
        if episode.case.id == DEADLY and not (chunk.root / STOPPED).exists():
            while store.read(chunk.root, "episodes", ["cell_id"]).num_rows < len(chunk.cells) - 1:
                await asyncio.sleep(0.05)
            (chunk.root / STOPPED).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return disturbed(chunk, die)


def stopping_once(chunk: Chunk) -> Report:
    """The deadly case stops its worker, as a debugger or a full machine may; the first time only."""

    async def stop(episode: Episode) -> None:
        if episode.case.id == DEADLY and not (chunk.root / STOPPED).exists():
            (chunk.root / STOPPED).touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    return disturbed(chunk, stop)


def stopping_early(chunk: Chunk) -> Report:
    """The worker that first gets the deadly case stops before it says anything, and tells its number."""
    if any(cell.case_id == DEADLY for cell in chunk.cells) and not (chunk.root / STOPPED).exists():
        (chunk.root / STOPPED).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    return solve_chunk(chunk)


def lasting(chunk: Chunk) -> Report:
    """Cases that begin tell so, and end when they may."""

    async def wait(episode: Episode) -> None:
        (chunk.root / BEGUN).mkdir(exist_ok=True)
        (chunk.root / BEGUN / episode.case.id).touch()
        while not (chunk.root / GO).exists():
            await asyncio.sleep(0.05)

    return disturbed(chunk, wait)


def disturbed(chunk: Chunk, first: Callable[[Episode], Awaitable[None]]) -> Report:
    """The chunk, in which ReAct's cases do something else first; rows are written every half second."""
    solve = ReAct.solve

    async def after(self: ReAct, episode: Episode) -> Trajectory:
        await first(episode)
        return await solve(self, episode)

    with (
        patch.object(ReAct, "solve", after),
        patch.object(worker, "_WRITE_SECONDS", 0.5),
        patch.object(worker, "_BEAT_SECONDS", 0.2),
    ):
        return solve_chunk(chunk)


def hopeless(chunk: Chunk) -> Report:
    """Nothing is left that could answer."""
    raise UnfinishedError("no replica is left")
