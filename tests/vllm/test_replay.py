"""The second half of `bench.py throughput`: vLLM's offline interface answers recorded requests."""

from __future__ import annotations

from pathlib import Path

from launch.benchmarks.throughput import replaying
from tests.support.models import make_model
from tests.vllm.running import SERVING, needs_vllm


@needs_vllm
def test_a_replay_answers_what_was_recorded_with_a_cold_cache(tmp_path: Path) -> None:
    model = {
        "_target_": "grid.engines.vllm.engine.VLLM",
        "path": str(make_model(tmp_path / "model")),
        "serving": SERVING.model_dump(),
    }
    rows = [{"tokens": [5] * 70, "how": {"max_tokens": 3, "seed": seed, "ignore_eos": True}} for seed in (1, 2)]
    with replaying(model, tmp_path) as replay:
        first, second = replay.run(rows), replay.run(rows)
    assert first["seconds"] > 0
    for found in (first, second):
        assert (found["input"], found["output"]) == (140, 6)
    assert first["cached"] == second["cached"] < 140
