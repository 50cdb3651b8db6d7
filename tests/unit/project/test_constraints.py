"""The files of constraints hold what pyproject.toml asks for, and nothing that ties them to a machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from launch.constraints.pin import FREE, SETS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", SETS)
def test_constraints_meet_what_the_project_asks_for(name: str) -> None:
    lines = (ROOT / "launch" / "constraints" / f"{name}.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert all(re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line) for line in lines if not line.startswith("#"))
    assert not [pin for pin in pins if pin.startswith(FREE)]
    versions = {canonicalize_name(pin): version for pin, version in pins.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"]]
    for extra in SETS[name].split(","):
        asked += project["optional-dependencies"][extra]
    for requirement in map(Requirement, asked):
        pinned = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pinned, prereleases=True), f"{requirement}, pinned {pinned}"
