"""SLATE's construction in the test's own process, with a local server as its model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grid.core.types import Json
from grid.synthesis.slate import main
from tests.support.http_server import LocalServer, Play
from tests.support.scripted_slate import Flaw, counted

DOMAIN = {
    "name": "Workshop",
    "description": "A small workshop.",
    "users": ["customer", "mechanic"],
    "topics": {"Repairs": "what is broken", "Bike hire": "what is free"},
}
SMALL = ["sizes.tools=6", "sizes.workflows=2", "sizes.queries=2", "sizes.equivalents=0.3", "sizes.distractors=2"]
SIMPLE = ["complexity.simple=1", *(f"complexity.{kind}=0" for kind in ("moderate", "complex", "advanced"))]
ANSWERS = 4 + 4 + 8 + 8 + 8 + 2 + 5
"""What that takes, stage by stage, where nothing is refused."""


def arguments(url: str, folder: Path, out: str = "out", *more: str) -> list[str]:
    domain = folder / "domain.yaml"
    domain.write_text(json.dumps(DOMAIN), encoding="utf-8")
    model = ["model=openai_http", f"model.base_url={url}", "model.model=m", "model.serving.tries=1"]
    return [*model, f"domain={domain}", f"out={folder / out}", *SMALL, *SIMPLE, *more]


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.suffix == ".jsonl"}


def lines(out: Path, stage: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "stages" / f"{stage}.jsonl").read_text().splitlines()]


def of_stages(server: LocalServer) -> int:
    return sum(counted(server.asked).values())


def run_in(folder: Path, play: Play, out: str = "out", *more: str) -> tuple[int, LocalServer]:
    with LocalServer(play) as server:
        return main(arguments(server.url, folder, out, *more)), server


def changed(stage: str, change: Callable[[dict[str, Any]], object]) -> Flaw:
    """The first answers of a stage with a change, repairs without."""

    def flaw(at: str, repair: bool, answer: dict[str, Json]) -> Json:
        if at == stage and not repair:
            change(answer)
        return answer

    return flaw
