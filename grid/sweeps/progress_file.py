"""What a sweep tells of its progress in a file, for whoever follows it from elsewhere."""

from __future__ import annotations

from pathlib import Path

from pydantic import FiniteFloat, TypeAdapter
from typing_extensions import TypedDict

FILE = "progress.json"
RUNNING, STOPPING, ENDED = "running", "stopping", "ended"


class ToldSetting(TypedDict):
    """One setting: its labels, its cells and what came of them; tokens of prompts and answers."""

    model: str
    planner: str
    dataset: str
    robustness: str
    retriever: str
    pool: str
    cells: int
    done: int
    ok: int
    failed: int
    tokens: int


class Told(TypedDict):
    """The file: seconds since the start, the time of the day in seconds, counts of cells, and rates."""

    state: str
    updated_at: FiniteFloat
    seconds: FiniteFloat
    cells: int
    done: int
    ok: int
    failed: int
    lost: int
    in_flight: int
    cells_per_second: FiniteFloat
    tokens_per_second: FiniteFloat
    seconds_left: FiniteFloat | None
    settings: list[ToldSetting]


_TOLD = TypeAdapter(Told)


def read_told(folder: Path) -> Told:
    """The progress that a sweep last wrote to its results folder.

    Raises:
        OSError: it is not there or cannot be read.
        ValidationError: it is cut, or no document of a sweep's.
    """
    return _TOLD.validate_json((folder / FILE).read_bytes())


def line(told: Told, short: bool = False) -> str:
    """A progress document as one line of text."""
    settings = told["settings"]
    ended = sum(1 for one in settings if one["done"] == one["cells"])
    lost = f"lost {told['lost']:,}  " if told["lost"] else ""
    text = (
        f"settings {ended}/{len(settings)}  ok {told['ok']:,}  failed {told['failed']:,}  {lost}"
        f"{told['cells_per_second']:,.1f} cells/s  {told['tokens_per_second']:,.0f} tokens/s  "
        f"left {_clock(told['seconds_left'])}"
    )
    return text if short else f"cells {told['done']:,}/{told['cells']:,}  {text}  elapsed {_clock(told['seconds'])}"


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
