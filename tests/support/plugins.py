"""A small plugin, written into a folder: a planner that is a plain dataclass and tells where it ran."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from grid import plugins

PLANNER = '''"""A planner of another laboratory."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from grid.core.engine import SAMPLE
from grid.episode.acting import Acting, begin, rollout, trajectory
from grid.episode.asking import single_pass
from mylab.told import told


@dataclass
class Telling:
    """Acts once at each point; its answer says where."""

    greeting: str
    seconds: float = 0.0
    needs = frozenset({SAMPLE})

    async def solve(self, episode):
        acting = Acting()
        await asyncio.sleep(self.seconds)
        done = await rollout(episode, partial(single_pass, acting=acting), acting, begin(episode))
        return replace(trajectory(episode, done.path), answer=told(self.greeting))
'''
TOLD = '''from importlib.resources import files


def told(greeting):
    """The greeting, a data file's text, this file, and the Ray node of this process."""
    text = files("mylab").joinpath("words/text.txt").read_text()
    import ray

    node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
    return "|".join((greeting, text, __file__, node))
'''
YAML = """# A planner of another laboratory that tells where it ran.
_target_: mylab.planners.telling.Telling
greeting: hello
seconds: 0.0
"""
ENGINE = '''from dataclasses import dataclass
from typing import ClassVar

from grid.engines.hosted import Occupancy
from grid.engines.null import Null


@dataclass
class Hosted:
    """The null engine in a replica; it needs the package's own files to load."""

    provides: ClassVar = Null.provides
    home: ClassVar = "replica"
    name: ClassVar = "hosted_null"
    sampler: ClassVar = None
    version: ClassVar = "hosted-1"
    gpus: ClassVar = 0
    environment: ClassVar = ()
    capacity: ClassVar = 4

    async def load(self):
        from mylab.told import told

        assert told("").startswith("|data|")

    async def check(self):
        pass

    def occupancy(self):
        return Occupancy(0, 0)

    async def sample(self, prompt, **how):
        return await Null().sample(prompt, **how)

    async def choose(self, prompt, **how):
        return await Null().choose(prompt, **how)
'''
FILES = {
    "mylab/__init__.py": "",
    "mylab/told.py": TOLD,
    "mylab/words/text.txt": "data",
    "mylab/planners/__init__.py": "",
    "mylab/planners/telling.py": PLANNER,
    "mylab/conf/planner/telling.yaml": YAML,
    "mylab/engines/__init__.py": "",
    "mylab/engines/hosted.py": ENGINE,
    "mylab/conf/model/hosted.yaml": "# An engine that is held by replicas.\n_target_: mylab.engines.hosted.Hosted\n",
}


def write(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """Files below a folder, which is returned."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_distribution(site: Path, version: str, name: str = "mylab-tools") -> Path:
    """The plugin as pip installs it into a folder of packages, which is returned."""
    write(site)
    meta = f"{name.replace('-', '_')}-{version}.dist-info"
    return write(
        site,
        {
            f"{meta}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{meta}/entry_points.txt": "[agent_grid.plugins]\nany = mylab\n",
            f"{meta}/top_level.txt": "mylab\n",
        },
    )


@contextmanager
def standing_in(folder: Path) -> Iterator[None]:
    """As if the process had begun in a folder; what it allowed and imported is forgotten before and at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "meta_path", list(sys.meta_path))
        patch.delenv(plugins.VARIABLE, raising=False)
        forget("mylab")
        try:
            yield
        finally:
            forget("mylab")
            for cached in (plugins._expect, plugins._told):
                cached.cache_clear()
    # MonkeyPatch restores the variable only where it was set before.
    os.environ.pop(plugins.VARIABLE, None)


def follow_pythonpath() -> None:
    """For a process that began before the variable was set."""
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))


def forget(package: str) -> None:
    """As if a package had never been imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
