"""The command line before Hydra sees it: what would cut a sweep in two, or write elsewhere, is refused by its key."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Container, Sequence
from typing import NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, OverrideType
from hydra.errors import HydraException

from grid.core.errors import ConfigError
from grid.settings.setting import FURTHER, GROUPS

MAX_CHARACTERS = 10_000  # of an override; Hydra's parser takes seconds for longer ones
MAX_DEPTH = 30
_PILOT, _DRY_RUN = "dry_run.pilot=", "dry_run="
_FLAGS = ("config_name", "config_path", "experimental_rerun")
_INFO = ("--info", "-i")
_OF_HYDRA = re.compile(r"hydra(?=[./@]|$)")
_TAKEN = re.compile(r"hydra\.(searchpath|sweeper\.params(\..+)?)")


def completed(arguments: Sequence[str]) -> list[str]:
    """`--info` with what it shows where that is left out: argparse would take the override behind it."""
    found: list[str] = []
    for one, behind in zip(arguments, [*arguments[1:], "="], strict=True):
        found += [one, "all"] if one in _INFO and ("=" in behind or behind.startswith("-")) else [one]
    return found


def flags_first(arguments: Sequence[str]) -> list[str]:
    """All flags with their values before all overrides: argparse takes no override behind a flag that stands between.

    So `planner=react --cfg job name=mine` is what `--cfg job planner=react name=mine` is.
    """
    known = get_args_parser()._option_string_actions
    flags, overrides, rest = list[str](), list[str](), iter(arguments)
    for one in rest:
        if not one.startswith("-"):
            overrides.append(one)
            continue
        flags.append(one)
        names = [one] if one in known else [name for name in known if one.startswith("--") and name.startswith(one)]
        if any(known[name].nargs != 0 for name in names):
            flags += [value] if (value := next(rest, None)) is not None else []
    return [*flags, *overrides]


def with_pilot(arguments: Sequence[str]) -> list[str]:
    """`dry_run.pilot=N` as a value of `dry_run`, whatever else is given for it: Hydra sets no key below a boolean."""
    given = [text for text in arguments if text.startswith(_PILOT)]
    if not given:
        return list(arguments)
    kept = [text for text in arguments if text == given[-1] or not text.startswith((_PILOT, _DRY_RUN))]
    value = given[-1].removeprefix(_PILOT)
    return [f"{_DRY_RUN}{{pilot: {value}}}" if text == given[-1] else text for text in kept]


def beside_sweeps(arguments: Sequence[str]) -> list[str]:
    """Checked arguments, with single values below a swept group as sweeps of one: `planner=a,b planner.key=choice(1)`.

    Hydra sets what is no sweep in the file that a group has by default, which may not have the key. A preset may sweep
    any group.
    """
    given = [text for text in get_args_parser().parse_args(list(arguments)).overrides if text]
    found = dict(zip(given, OverridesParser.create().parse_overrides(given), strict=True))
    swept = {one.key_or_group for one in found.values() if one.is_sweep_override()}
    if any(one.key_or_group == "experiment" for one in found.values()):
        swept |= {*GROUPS, *FURTHER}
    return [_of_one(text, found[text], swept) if text in found else text for text in arguments]


def _of_one(text: str, override: Override, swept: Container[str]) -> str:
    group, dot, _ = override.key_or_group.partition(".")
    if not dot or group not in swept or override.type != OverrideType.CHANGE or override.is_sweep_override():
        return text
    one = f"{override.key_or_group}=choice({text.partition('=')[2]})"
    try:
        (sweep,) = OverridesParser.create().parse_overrides([one])
        same = [*sweep.sweep_string_iterator()] == [override.get_value_element_as_str()]
    except HydraException:  # choice(null), choice()
        same = False
    return one if same else text


def check(arguments: Sequence[str]) -> None:
    """Check the arguments of `launch/sweep.py`.

    Raises:
        ConfigError: a flag or key of Hydra that a sweep does not take, a list that names a setting twice.
        OverrideParseException: no override at all.
    """
    parser = get_args_parser()
    parser.error = _refuse  # argparse's own prints its usage and ends the process
    given = parser.parse_args(list(arguments))
    _check_flags(given)
    overrides = OverridesParser.create()
    for text in [] if given.shell_completion else given.overrides:
        _check_size(text)
        try:
            (override,) = overrides.parse_overrides([text])
        except (ValueError, ArithmeticError, RecursionError) as error:  # a number of 5,000 digits, say
            key, _, value = text.partition("=")
            raise ConfigError(key, value, f"what Hydra can read ({error})") from None
        _check_override(override)


def _refuse(message: str) -> NoReturn:
    raise ConfigError("arguments", message, "overrides as key=value, and the flags that --help lists")


def _check_flags(given: Namespace) -> None:
    for name in _FLAGS:
        value = getattr(given, name)
        if value is not None:
            allowed = "nothing: a sweep has one config; --config-dir adds a folder with files of your own"
            raise ConfigError("--" + name.replace("_", "-"), value, allowed)
    if given.multirun and given.cfg:
        raise ConfigError("--cfg", given.cfg, "without -m: it shows one setting")


def _check_size(text: str) -> None:
    key, _, value = text.partition("=")
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(key, value, f"an override of at most {MAX_CHARACTERS:,} characters")
    depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if depth > MAX_DEPTH:
            raise ConfigError(key, value, f"at most {MAX_DEPTH} levels of brackets")


def _check_override(override: Override) -> None:
    key, text = override.key_or_group, str(override.input_line).partition("=")[2]
    if not key:
        raise ConfigError("", override.input_line, "an override with a key: key=value")
    if any(_OF_HYDRA.match(name) for name in (key, override.package or "")) and not _TAKEN.fullmatch(key):
        allowed = "no key of Hydra's own but hydra.searchpath and hydra.sweeper.params: others would cut a sweep in two"
        raise ConfigError(key, text, f"{allowed}, or write elsewhere")
    if key in (*GROUPS, *FURTHER, "cluster", "experiment") and not override.is_delete():
        _check_choice(key, text, override.value())


def _check_choice(group: str, text: str, value: object) -> None:
    """A group is a file's name or, where files compose, a list of such; each of a sweep's values is looked at."""
    if isinstance(value, ChoiceSweep):
        for one in value.list:
            _check_choice(group, text, Override._convert_value(one))
    elif isinstance(value, list):
        if len(set(map(str, value))) < len(value) or not all(isinstance(one, str) for one in value):
            raise ConfigError(group, text, f"a list that names each file of conf/{group} once")
    elif not isinstance(value, str | dict | Glob):  # a mapping is one of values, not of files
        raise ConfigError(group, text, f"the name of a file in conf/{group}")
