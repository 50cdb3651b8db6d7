"""`agent-grid replicas`: what it refuses before it asks a cluster for anything."""

from __future__ import annotations

import pytest
from rich.console import Console

from grid.core.errors import ConfigError
from grid.settings.config import sweep_config
from launch import replicas
from tests.support.configs import SHARED, yaml


@pytest.mark.parametrize("model", ["simulated", "lexical", "null_engine"])
def test_a_model_that_runs_in_each_worker_has_no_pool(model: str) -> None:
    with pytest.raises(ConfigError, match="a model that runs in replicas") as caught:
        replicas.start(model, sweep_config(SHARED), yaml("model", model), Console())
    assert (caught.value.key, caught.value.value) == ("model", model)
