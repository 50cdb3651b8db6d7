"""The experiment grid for tool-using LLM agents.

`from grid import sweep, load` runs sweeps as the command line does (`sweep("planner=react,egb_logits")`) and reads
their results (`load("results/default")`). The package also has the names that you need to write your own planners, data
sets, robustness settings and engines. Each name is loaded when it is first used; everything else in the package is
private.
"""

from __future__ import annotations

import pathlib as _pathlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

import grid.core.moved  # noqa: F401 - old names of modules load
from grid.core import beside as _beside

if TYPE_CHECKING:
    from grid.core.engine import CHOOSE as CHOOSE
    from grid.core.engine import JUDGE as JUDGE
    from grid.core.engine import SAMPLE as SAMPLE
    from grid.core.engine import Choice as Choice
    from grid.core.engine import ChoiceAnswer as ChoiceAnswer
    from grid.core.engine import Engine as Engine
    from grid.core.engine import Prompt as Prompt
    from grid.core.engine import Sampled as Sampled
    from grid.core.engine import Section as Section
    from grid.core.engine import TextAnswer as TextAnswer
    from grid.core.errors import BudgetError as BudgetError
    from grid.core.errors import ConfigError as ConfigError
    from grid.core.errors import DataError as DataError
    from grid.core.errors import ToolError as ToolError
    from grid.core.metric import Metric as Metric
    from grid.core.problem import BRANCHING as BRANCHING
    from grid.core.problem import DEMONSTRATIONS as DEMONSTRATIONS
    from grid.core.problem import OUTLINE as OUTLINE
    from grid.core.problem import REFERENCES as REFERENCES
    from grid.core.problem import Dataset as Dataset
    from grid.core.problem import Index as Index
    from grid.core.problem import Milestone as Milestone
    from grid.core.problem import Problem as Problem
    from grid.core.problem import Reference as Reference
    from grid.core.problem import Retriever as Retriever
    from grid.core.types import Case as Case
    from grid.core.types import Observation as Observation
    from grid.core.types import Parameter as Parameter
    from grid.core.types import Plan as Plan
    from grid.core.types import Step as Step
    from grid.core.types import Substep as Substep
    from grid.core.types import ToolCall as ToolCall
    from grid.core.types import ToolSpec as ToolSpec
    from grid.core.types import Trajectory as Trajectory
    from grid.core.types import Usage as Usage
    from grid.core.util import STRICT as STRICT
    from grid.core.util import derive_seed as derive_seed
    from grid.core.world import State as State
    from grid.core.world import World as World
    from grid.datasets.dataset import FileDataset as FileDataset
    from grid.datasets.dataset import UnusableError as UnusableError
    from grid.datasets.files import read_jsonl as read_jsonl
    from grid.datasets.functions import FunctionTasks as FunctionTasks
    from grid.episode.acting import Acting as Acting
    from grid.episode.acting import Action as Action
    from grid.episode.acting import Decision as Decision
    from grid.episode.acting import Path as Path
    from grid.episode.acting import Policy as Policy
    from grid.episode.acting import Rollout as Rollout
    from grid.episode.acting import View as View
    from grid.episode.acting import begin as begin
    from grid.episode.acting import rollout as rollout
    from grid.episode.acting import trajectory as trajectory
    from grid.episode.asking import sample_actions as sample_actions
    from grid.episode.asking import single_pass as single_pass
    from grid.episode.episode import Episode as Episode
    from grid.episode.episode import Planner as Planner
    from grid.episode.options import Options as Options
    from grid.episode.prompts import history_section as history_section
    from grid.episode.prompts import prompt as prompt
    from grid.episode.prompts import request_section as request_section
    from grid.episode.prompts import task_section as task_section
    from grid.episode.prompts import tools_section as tools_section
    from grid.episode.requests import Answers as Answers
    from grid.planners.outside.agent import Agent as Agent
    from grid.planners.outside.agent import Tools as Tools
    from grid.planners.votes import vote as vote
    from grid.robustness.base import Robustness as Robustness
    from grid.sweeps.api import Results as Results
    from grid.sweeps.api import load as load
    from grid.sweeps.api import sweep as sweep
    from grid.worlds.functions import Function as Function
    from grid.worlds.lookup import LookupSimulator as LookupSimulator
    from grid.worlds.lookup import build_entries as build_entries

_beside.find()
CONF = (_pathlib.Path(__file__).parent / "conf").resolve()
"""The folder with the config files: `conf/` in a checkout or in the installed package."""
FACE = {
    "grid.core.engine": (
        *("CHOOSE", "JUDGE", "SAMPLE", "Choice", "ChoiceAnswer", "Engine", "Prompt", "Sampled", "Section"),
        "TextAnswer",
    ),
    "grid.core.errors": ("BudgetError", "ConfigError", "DataError", "ToolError"),
    "grid.core.metric": ("Metric",),
    "grid.core.problem": (
        *(
            "BRANCHING",
            "DEMONSTRATIONS",
            "OUTLINE",
            "REFERENCES",
            "Dataset",
            "Index",
            "Milestone",
            "Problem",
            "Reference",
        ),
        "Retriever",
    ),
    "grid.core.types": (
        *("Case", "Observation", "Parameter", "Plan", "Step", "Substep", "ToolCall", "ToolSpec", "Trajectory", "Usage"),
    ),
    "grid.core.util": ("STRICT", "derive_seed"),
    "grid.core.world": ("State", "World"),
    "grid.datasets.dataset": ("FileDataset", "UnusableError"),
    "grid.datasets.files": ("read_jsonl",),
    "grid.datasets.functions": ("FunctionTasks",),
    "grid.episode.acting": (
        *("Acting", "Action", "Decision", "Path", "Policy", "Rollout", "View", "begin", "rollout", "trajectory"),
    ),
    "grid.episode.asking": ("sample_actions", "single_pass"),
    "grid.episode.episode": ("Episode", "Planner"),
    "grid.episode.options": ("Options",),
    "grid.episode.prompts": ("history_section", "prompt", "request_section", "task_section", "tools_section"),
    "grid.episode.requests": ("Answers",),
    "grid.planners.outside.agent": ("Agent", "Tools"),
    "grid.planners.votes": ("vote",),
    "grid.robustness.base": ("Robustness",),
    "grid.sweeps.api": ("Results", "load", "sweep"),
    "grid.worlds.functions": ("Function",),
    "grid.worlds.lookup": ("LookupSimulator", "build_entries"),
}
"""Maps each module to the public names that it defines."""
_MODULES = {name: module for module, names in FACE.items() for name in names}


def __getattr__(name: str) -> Any:
    """The value of a public name, loaded when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return sorted({"CONF", *_MODULES})
