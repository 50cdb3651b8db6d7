"""The engine `huggingface`: the distribution that it draws from, and requests that nobody waits for any more."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from grid.core.engine import Prompt, Section, TextAnswer
from grid.engines.transformers.engine import HuggingFace
from tests.support.extras import needs
from tests.support.models import make_model

pytestmark = needs("torch", "transformers")

TEXT = Prompt((Section("request", ("Request: book the flight",)),), TextAnswer())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def engine(folder: Path) -> HuggingFace:
    return HuggingFace(path=str(folder), dtype="float32")


def test_samples_come_from_the_plain_distribution_whatever_the_models_own_config_says(
    folder: Path, tmp_path: Path
) -> None:
    shaped = shutil.copytree(folder, tmp_path / "shaped")
    kept = json.loads((shaped / "generation_config.json").read_text())
    shape = {"do_sample": True, "top_k": 1, "top_p": 0.1, "repetition_penalty": 3.0, "temperature": 0.1}
    (shaped / "generation_config.json").write_text(json.dumps(kept | shape))

    def drawn(model: Path) -> Any:
        return asyncio.run(engine(model).sample(TEXT, n=4, temperature=1.0, max_tokens=8, seed=3))

    assert drawn(shaped) == drawn(folder)
    assert drawn(folder).computed_seconds > 0


def test_a_cancelled_request_costs_no_further_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, at_work, go_on = 0, threading.Event(), threading.Event()
    made = engine(folder)

    async def run() -> None:
        nonlocal steps
        loaded = await made._ready()
        forward = loaded.model._model.forward

        def counted(*args: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            at_work.set()
            assert go_on.wait(60)
            return forward(*args, **options)

        monkeypatch.setattr(loaded.model._model, "forward", counted)
        asked = asyncio.ensure_future(made.sample(TEXT, n=2, temperature=1.0, max_tokens=400, seed=0))
        await asyncio.to_thread(at_work.wait)
        asked.cancel()
        await asyncio.wait([asked])
        go_on.set()
        while made.occupancy().running:
            await asyncio.sleep(0.001)

    asyncio.run(run())
    assert steps == 1, "the step in which it was cancelled"
