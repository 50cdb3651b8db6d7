"""The settings of a construction: the checked keys of a command line, the domain, and the shapes of workflows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from yaml import YAMLError

from grid import CONF
from grid.core.errors import ConfigError
from grid.core.untrusted import shown
from grid.core.util import derive_seed
from grid.datasets.slate.shop import SHAPES, Complexity
from grid.settings.config import ClusterConfig
from grid.settings.make import config_error
from grid.text.objects import LOADER

_MOST_BYTES = 100_000
_GROUPS = ("model", "domain", "cluster", "retriever")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _plain(text: str) -> str:
    if shown(text) != text or not text.strip():
        raise ValueError("a text on one line is expected")
    return text


def slug(topic: str) -> str:
    """A topic in the form used in ids."""
    return re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")


def _apart(topics: dict[str, str]) -> dict[str, str]:
    slugs = [slug(topic) for topic in topics]
    if not all(slugs) or len(set(slugs)) < len(slugs):
        raise ValueError("topics must have names that differ in letters or digits (a to z, 0 to 9)")
    return topics


_Text = Annotated[str, Field(max_length=500), AfterValidator(_plain)]


class Domain(_Strict):
    """The domain of a set: its name, its users, and its topics with their descriptions."""

    name: _Text
    description: _Text
    users: Annotated[list[_Text], Field(min_length=1, max_length=20)]
    topics: Annotated[dict[_Text, _Text], Field(min_length=1, max_length=100), AfterValidator(_apart)]


class Sizes(_Strict):
    """The sizes of a set: tools and workflows for each topic, queries for each workflow, equivalents and distractors.

    `equivalents` is the share of used tools that get an equivalent; `distractors` is the number of distractors per used
    tool.
    """

    tools: Annotated[int, Field(ge=1, le=1000)]
    workflows: Annotated[int, Field(ge=1, le=1000)]
    queries: Annotated[int, Field(ge=1, le=100)]
    equivalents: Annotated[float, Field(ge=0, le=1)]
    distractors: Annotated[int, Field(ge=0, le=20)]


class Construction(_Strict):
    """All keys of a construction. `label` is the model's name."""

    model: dict[str, Any]
    label: str
    domain: Domain
    out: Path
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    order: Literal["tools", "queries"]
    retriever: dict[str, Any]
    sizes: Sizes
    complexity: dict[Complexity, Annotated[float, Field(ge=0)]]
    repairs: Annotated[int, Field(ge=0, le=20)]
    temperature: Annotated[float, Field(ge=0, le=10)]
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    at_once: Annotated[int, Field(ge=1, le=1024)]
    cluster: ClusterConfig


def read(arguments: Sequence[str]) -> Construction:
    """The construction that `KEY=VALUE` arguments describe.

    Raises:
        ConfigError: a key is wrong or missing; the error names the key, its value (not for the model's own keys), and
            the allowed values.
    """
    try:
        config = _merged(arguments)
    except OmegaConfBaseException as error:  # an interpolation (`${...}`) without a value
        key, values = str(error.full_key), dict(one.lstrip("+").partition("=")[::2] for one in arguments)
        why = str(error.msg).partition("\n")[0]
        raise ConfigError(key, _shown(key, values.get(key)), f"a value that can be read ({why})") from None
    for key in ("model", "domain", "out"):
        if config.get(key) in (None, "???"):
            raise ConfigError(key, None, "a value, because model, domain and out have no default")
    config["domain"] = _domain(config["domain"])
    try:
        config["out"] = Path(str(config["out"])).expanduser()
    except RuntimeError as error:
        raise ConfigError("out", config["out"], f"a folder ({error})") from None
    try:
        found = Construction.model_validate(config)
    except ValidationError as error:
        raise config_error("", error, [key for key in Construction.model_fields if key != "label"]) from None
    if not sum(found.complexity.values()):
        raise ConfigError("complexity", dict(found.complexity), "a share above 0 for at least one complexity")
    if found.sizes.tools * len(found.domain.topics) < 2:
        raise ConfigError(
            "sizes.tools",
            found.sizes.tools,
            "2 or more if the domain has one topic, because a single tool leaves no choice",
        )
    return found


def _merged(arguments: Sequence[str]) -> dict[str, Any]:
    """The keys of conf/construct.yaml with the arguments' values.

    The keys `model`, `cluster` and `retriever` have the contents of the chosen file; `domain` has the name as given.
    """
    choices, rest = dict[str, str](), list[str]()
    for one in arguments:
        key, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(one, None, "KEY=VALUE, such as domain=bicycle_workshop")
        if key in _GROUPS:
            choices[key] = value
        else:
            rest.append(one)
    config = cast(DictConfig, OmegaConf.load(CONF / "construct.yaml"))
    known = cast(dict[str, Any], OmegaConf.to_container(config))
    choices = {key: choices.get(key, known[key]) for key in _GROUPS}
    for group in ("model", "cluster", "retriever"):
        if choices[group] != "???":
            config[group] = _group(group, choices[group])
    config.domain = choices["domain"]
    config.label = choices["model"] if choices["model"] != "???" else ""
    OmegaConf.set_struct(config, True)
    if choices["model"] != "???":
        OmegaConf.set_struct(config.model, False)  # the engine checks its own keys
    for one in rest:
        config = _with(config, one)
    if missing := sorted(OmegaConf.missing_keys(config) - {"domain", "out"}):
        raise ConfigError(missing[0], "???", "this key has no default and must be given")
    return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))


def _with(config: DictConfig, argument: str) -> DictConfig:
    """The config with the value of one more argument; raises ConfigError for an unknown key or an unreadable value."""
    key, _, value = argument.lstrip("+").partition("=")
    shown_value = _shown(key, value)
    try:
        return cast(DictConfig, OmegaConf.unsafe_merge(config, OmegaConf.from_dotlist([argument.lstrip("+")])))
    except OmegaConfBaseException as error:
        node = error.parent_node
        if not isinstance(error, ConfigKeyError) or not isinstance(node, DictConfig):
            raise ConfigError(key, shown_value, str(error.msg or error).partition("\n")[0]) from None
        keys = ", ".join(str(name) for name in node if name != "label")
        raise ConfigError(key, shown_value, f"no such key; the keys here are {keys}") from None
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(key, shown_value, f"a value that can be read ({type(error).__name__})") from None


def _shown(key: str, value: str | None) -> str | None:
    """A key's value as errors show it; a value of a model's key may be a secret."""
    return "(not shown)" if key.startswith("model.") else value


def _group(group: str, name: str) -> Any:
    files = {file.stem: file for file in (CONF / group).glob("*.yaml")}
    if name not in files:
        raise ConfigError(group, name, f"one of {', '.join(sorted(files))}")
    return OmegaConf.load(files[name])


def _domain(name: object) -> Domain:
    """The domain from a file in `conf/domain`, or from the file at a path."""
    files = {file.stem: file for file in (CONF / "domain").glob("*.yaml")}
    allowed = f"a YAML file with {', '.join(Domain.model_fields)}, or one of {', '.join(sorted(files))}"
    try:
        path = files.get(str(name)) or Path(str(name)).expanduser()
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise ConfigError(
                "domain", name, f"{allowed} (there is no such file, or it has more than {_MOST_BYTES:,} bytes)"
            )
        found = yaml.load(path.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - it loads plain values only
    except (OSError, ValueError, RuntimeError, YAMLError) as error:
        raise ConfigError("domain", name, f"{allowed} ({error})") from None
    try:
        return Domain.model_validate(found)
    except ValidationError as error:
        if not isinstance(found, Mapping):
            raise ConfigError("domain", name, allowed) from None
        raise config_error("domain.", error, [*Domain.model_fields]) from None


# Shapes of workflows (egb_slate, figures 10 and 12), drawn at random because a model's habits would reveal which
# substeps call tools.


@dataclass(frozen=True)
class Shape:
    """The shape of a workflow: its user, its complexity, and its high-level steps.

    For each substep of each high-level step, `steps` says whether the substep calls a tool.
    """

    user: str
    complexity: Complexity
    steps: tuple[tuple[bool, ...], ...]

    def numbered(self) -> Iterator[tuple[str, bool]]:
        """The number `i.j` of each substep, and whether the substep calls a tool."""
        for i, substeps in enumerate(self.steps, 1):
            for j, calls in enumerate(substeps, 1):
                yield f"{i}.{j}", calls


def drawn(seed: int, topic: str, users: Sequence[str], shares: Mapping[Complexity, float], count: int) -> list[Shape]:
    """The shapes of a topic's workflows.

    Users take turns, complexities are drawn according to their shares, and everything else is drawn uniformly.
    """
    rng = random.Random(derive_seed(seed, "complexity", topic))
    kinds = rng.choices([*shares], weights=[*shares.values()], k=count)
    return [
        Shape(users[number % len(users)], kind, _steps(kind, random.Random(derive_seed(seed, "shape", topic, number))))
        for number, kind in enumerate(kinds)
    ]


def _steps(complexity: Complexity, rng: random.Random) -> tuple[tuple[bool, ...], ...]:
    steps, per_step, substeps, calls = SHAPES[complexity]
    least, most = per_step.start, per_step.stop - 1
    number = rng.choice(steps)
    total = rng.choice(range(max(substeps.start, least * number), min(substeps.stop - 1, most * number) + 1))
    counts = [least] * number
    while sum(counts) < total:
        counts[rng.choice([place for place, count in enumerate(counts) if count < most])] += 1
    calling = {*rng.sample(range(total), rng.choice([one for one in calls if one <= total]))}
    places = iter(range(total))
    return tuple(tuple(next(places) in calling for _ in range(count)) for count in counts)
