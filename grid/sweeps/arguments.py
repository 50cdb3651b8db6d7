"""Checks a command line before Hydra sees it: keys that would split a sweep or make it write elsewhere are refused."""

from __future__ import annotations

import re
import shlex
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Callable, Container, Sequence
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, OverrideType
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from grid import plugins
from grid.core.errors import ConfigError, GridError, nearest, one_line
from grid.settings.setting import FURTHER, GROUPS

# The one-line message about a setting that cannot be composed: the key, its value and the allowed values.


_NO_SUCH_KEY = re.compile(r"Could not override '([^']*)'")
_SEVERAL = re.compile(r"(?:Ambiguous value for argument|Sweep parameters) '(.*?)'(?:\n| requires)", re.DOTALL)


def refusal(error: Exception, overrides: Sequence[str] = ()) -> str:
    """The one-line text of any error that is raised before a sweep has been composed and checked."""
    if isinstance(error, ConfigError):
        return one_line(kept(error, overrides))
    if isinstance(error, GridError):
        return one_line(error)
    if isinstance(error, RecursionError):
        return one_line(ConfigError("arguments", list(overrides), "must have fewer levels of nesting"))
    if isinstance(error, OverrideParseException):
        return one_line(unreadable(str(error.override), error.message.splitlines()[0]))
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        return one_line(
            ConfigError(
                group,
                name,
                f"one of {', '.join(sorted(error.options))}{nearest(name, error.options)}, or, with plugins=[PACKAGE], "
                f"a file of your own package{_without_files()}",
            )
        )
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _of_hydra(error, overrides)
    reason = one_line(f"{type(error).__name__}: {error}", 400)
    return f"{one_line(' '.join(overrides), 200)}: cannot be composed ({reason})"


def _without_files() -> str:
    """A text about plugins without YAML files.

    An installed plugin may lack these files because a wheel contains only the YAML files that its package data names.
    """
    lacking = [one for one in plugins.allowed().values() if not any(one.conf.rglob("*.yaml"))]
    return "".join(
        f"; the plugin {one.name} has no YAML files in {one.conf}"
        + (f": the package-data of {one.distribution} must name **/*.yaml" if one.distribution else "")
        for one in lacking
    )


def _of_hydra(error: Exception, overrides: Sequence[str]) -> str:
    """The line for a Hydra error, with the key, the override or the file, and with the reason if Hydra gives one."""
    if sweep := _SEVERAL.search(str(error)):
        return one_line(several(sweep[1]))
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    reason = str(cause).splitlines()[0] if cause and str(cause) else ""
    found = _NO_SUCH_KEY.search(str(error))
    if not found:
        return one_line(f"{error} ({reason})" if reason else error)
    key = found[1]
    values = [text.partition("=")[2] for text in overrides if text.partition("=")[0].lstrip("+~") == key]
    siblings = [str(name) for name in cause.parent_node or () if name != "hydra"] if cause else []
    above, _, last = key.rpartition(".")
    allowed = (
        f"no such key{nearest(last, siblings)}; the keys here are {', '.join(siblings)}"
        if siblings
        else f"must be a key of {above}, which has no keys; {above}={{{last}: VALUE}} adds this one"
    )
    group = key.partition(".")[0]
    if choices := next((one for one in overrides if one.startswith(f"{group}=") and "," in one), None):
        allowed += (
            f"; if only some of {choices} have this key, set it in a file of your own, "
            f"FOLDER/{group}/NAME.yaml, and add --config-dir FOLDER"
        )
    return one_line(ConfigError(key, values[-1] if values else None, allowed))


# Checking the command line before Hydra sees it: keys that would split a sweep or write elsewhere are refused.


MAX_CHARACTERS = 10_000  # maximum length of an override; Hydra's parser takes seconds for longer ones
MAX_DEPTH = 30
_PILOT, _DRY_RUN = "dry_run.pilot=", "dry_run="
_FLAGS = ("config_name", "config_path", "experimental_rerun")
_INFO = ("--info", "-i")
_OF_HYDRA = re.compile(r"hydra(?=[./@]|$)")
_TAKEN = re.compile(r"hydra\.(searchpath|sweeper\.params(\..+)?)")


def completed(arguments: Sequence[str]) -> list[str]:
    """Add `all` to an `--info` without a value, because argparse would use the next override as its value."""
    found: list[str] = []
    for one, behind in zip(arguments, [*arguments[1:], "="], strict=True):
        found += [one, "all"] if one in _INFO and ("=" in behind or behind.startswith("-")) else [one]
    return found


def flags_first(arguments: Sequence[str]) -> list[str]:
    """Put all flags, with their values, before all overrides, because argparse accepts no flags between overrides.

    `planner=react --cfg job name=mine` then means the same as `--cfg job planner=react name=mine`.
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
    """Turn `dry_run.pilot=N` into the only value of `dry_run`, because Hydra cannot set a key below a boolean."""
    given = [text for text in arguments if text.startswith(_PILOT)]
    if not given:
        return list(arguments)
    kept = [text for text in arguments if text == given[-1] or not text.startswith((_PILOT, _DRY_RUN))]
    value = given[-1].removeprefix(_PILOT)
    return [f"{_DRY_RUN}{{pilot: {value}}}" if text == given[-1] else text for text in kept]


def beside_sweeps(arguments: Sequence[str]) -> list[str]:
    """Turn single values below a swept group into sweeps of one value: `planner=a,b planner.key=choice(1)`.

    Hydra would set a single value in the group's default file, which may not have the key. A preset may sweep any
    group, so with a preset all groups count as swept. The arguments must have been checked before.
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
        ConfigError: an argument uses a flag or a key of Hydra that a sweep does not accept, is too long or too deeply
            nested, has no key, or gives a group something other than names of files, each once.
        OverrideParseException: an argument is not an override.
    """
    parser = get_args_parser()
    parser.error = _refuse  # argparse's own function prints the usage and ends the process
    given = parser.parse_args(list(arguments))
    _check_flags(given)
    overrides = OverridesParser.create()
    for text in [] if given.shell_completion else given.overrides:
        _check_size(text)
        try:
            (override,) = overrides.parse_overrides([text])
        except (ValueError, ArithmeticError, RecursionError) as error:  # for example a number of 5,000 digits
            key, _, value = text.partition("=")
            raise ConfigError(key, value, f"a value that Hydra can read ({error})") from None
        _check_override(override)


def _refuse(message: str) -> NoReturn:
    raise ConfigError("arguments", message, "overrides as key=value, and the flags that --help lists")


def _check_flags(given: Namespace) -> None:
    for name in _FLAGS:
        value = getattr(given, name)
        if value is not None:
            allowed = "not allowed, because a sweep has only one config; --config-dir adds a folder with your own files"
            raise ConfigError("--" + name.replace("_", "-"), value, allowed)
    if given.multirun and given.cfg:
        raise ConfigError("--cfg", given.cfg, "not allowed with -m, because this flag shows only one setting")


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
        allowed = (
            "of Hydra's keys, only hydra.searchpath and hydra.sweeper.params are allowed; others would split a sweep"
        )
        raise ConfigError(key, text, f"{allowed}, or write to other places")
    if key in (*GROUPS, *FURTHER, "cluster", "experiment") and not override.is_delete():
        _check_choice(key, text, override.value())


def _check_choice(group: str, text: str, value: object) -> None:
    """Check that a group's value is the name of a file, or a list of names if the group's files can be combined.

    In a sweep, each value is checked.
    """
    if isinstance(value, ChoiceSweep):
        for one in value.list:
            _check_choice(group, text, Override._convert_value(one))
    elif isinstance(value, list):
        if len(set(map(str, value))) < len(value) or not all(isinstance(one, str) for one in value):
            raise ConfigError(group, text, f"a list of different names of files in conf/{group}")
    elif not isinstance(value, str | dict | Glob):  # a mapping contains values, not files
        raise ConfigError(group, text, f"the name of a file in conf/{group}")


# The text of `agent-grid sweep --help`: examples, the files to choose from, and the flags.


_GROUPS = {
    "model": "",
    "planner": "",
    "dataset": "",
    "robustness": "one setting may have several: robustness=[extraneous,broken_tool]",
    "retriever": "",
    "pool": "the tools to retrieve from",
    "refine": "plans are criticized and rewritten",
    "memory": "prompts show the planner's work on other cases in an earlier sweep",
    "cluster": "",
    "experiment": "a whole study, as +experiment=NAME",
}
_HEAD = """\
Run a grid of experiments: model x planner x dataset x robustness, on Ray. Results go to results/NAME in the current
folder; running the same command again resumes the sweep. `agent-grid sweep` and `python launch/sweep.py` are the same.

  agent-grid sweep -m                                     the default grid
  agent-grid sweep -m planner=react,egb_logits trials=5 name=mine
  agent-grid sweep planner=react                          one setting
  agent-grid sweep -m dry_run=true                        the settings that would run, the invalid ones, and the cost
  agent-grid sweep -m +experiment=planning_horizon        a whole study
  agent-grid sweep --cfg job planner=react                every key with its value

Files to choose from, as GROUP=NAME; with -m also several, as GROUP=NAME,NAME:
"""
_HELPING_FLAGS = """
Flags:
  -m                      every combination of the given values, instead of one setting
  --cfg job [-p GROUP]    print the composed config, or a part of it, and run nothing
  --info [WHAT]           show how the config is composed; WHAT: config, defaults, defaults-tree, plugins, searchpath
                          (default: all)
  --config-dir FOLDER     a folder with your own files, in folders with the same names as these groups
  -sc install=bash        print the code for tab completion; to use it: eval "$(agent-grid -sc install=bash)" (zsh:
                          the same; fish: agent-grid -sc install=fish | source)
"""


def text(folders: Sequence[Path]) -> str:
    """The help text, as wide as the terminal, but at least 60 and at most 120 characters.

    Args:
        folders: the folders of config files: ours, and the plugins' folders.
    """
    width = max(60, min(shutil.get_terminal_size((120, 24)).columns, 120))
    return "\n".join([_HEAD, *(_of(group, about, folders, width) for group, about in _GROUPS.items()), _HELPING_FLAGS])


def _of(group: str, about: str, folders: Sequence[Path], width: int) -> str:
    names = sorted(file.stem for folder in folders for file in (folder / group).glob("*.yaml"))
    told = ", ".join(names) + (f" ({about})" if about else "")
    return textwrap.fill(
        told, width, initial_indent=f"  {group:<12}", subsequent_indent=" " * 14, break_on_hyphens=False
    )


# Quoting the parts of an override that Hydra's grammar would not read as text; the result is written for a shell.


_WANTED = ("Input should be a valid string", "a folder")
"""The beginnings of messages that say that a value must be a text: pydantic's, and ours for a data set's path."""
_MOST = 400  # maximum length, in characters, of an override that is shown
_CHARACTERS = 5  # maximum number of special characters that are named
_PARTS = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\[\]{},'"]+|.""", re.DOTALL)
_PAIR = re.compile(r"((?:[\w.-]+\s*)?:\s*)(.+)", re.DOTALL)  # a pair in a mapping; its key may precede it in quotes
_CHOICE = re.compile(r"(choice\()(.*)(\))", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_/\-\\+.$%*@?|:\s]")
"""The characters that Hydra's grammar allows in a text without quotes."""
_LIVE = frozenset('"$`\\!')
"""The characters that are special to a shell within double quotes."""
_AWAKE, _ESCAPE = re.compile(r'(["\\])'), r"\\\1"
_KINDS = {float: "a number", int: "a number", bool: "true or false", type(None): "null"}
"""The names for values that Hydra reads as a type other than text."""


def unreadable(text: str, reason: str) -> ConfigError:
    """The error for an override that Hydra's grammar cannot read: it shows which text needs quotes, and how.

    Args:
        text: the override.
        reason: Hydra's message, which is shown if quotes would not help.
    """
    key, _, value = text.partition("=")
    found = _quoted(text, lambda part: _override(f"k={part}") is None)
    if found is None:
        return ConfigError(key, value, f"Hydra cannot read this override ({reason})")
    shown, texts = found
    odd = [repr(char) for char in dict.fromkeys("".join(texts)) if not _PLAIN.match(char)]
    which = f" with {' '.join(odd[:_CHARACTERS])}" if odd else ""
    return ConfigError(key, value, f"a text{which} must be in quotes: {shown}")


def several(text: str) -> ConfigError:
    """The error for an override with several values in a command that runs only one setting."""
    key, _, value = text.partition("=")
    ways = ["use -m to make each value a setting"]
    if "(" not in value and (key not in (*GROUPS, *FURTHER) or key == "robustness"):
        ways.append(f"write a list as {key}=[{value}]")
    if "(" not in value and key not in (*GROUPS, *FURTHER):
        ways.append(f"write a text in quotes: {_for_shell(f'{key}={_in_quotes(value)}')}")
    return ConfigError(key, value, f"only one value is allowed; {', '.join(ways)}")


def kept(error: ConfigError, overrides: Sequence[str]) -> ConfigError:
    """The error unchanged, or with the value in quotes if Hydra reads a text as a number, a boolean or null."""
    wanted = error.value
    if not error.allowed.startswith(_WANTED) or type(wanted) not in _KINDS:
        return error
    given = {text.partition("=")[0].lstrip("+"): text for text in overrides}
    above = [error.key.rsplit(".", count)[0] for count in range(error.key.count(".") + 1)]
    text = next((given[key] for key in above if key in given), None)
    if text is None:
        return error

    def needs(part: str) -> bool:
        read = _override(f"k={part}")
        found = read.value() if read else part
        alike = type(found) is type(wanted)
        return alike and ("{" not in text or repr(found) == repr(wanted))  # other keys may need numbers

    quoted = _quoted(text, needs)
    if quoted is None:
        return error
    shown, texts = quoted
    told = f"must be a text, but {texts[0]:.80} without quotes is {_KINDS[type(wanted)]}; put it in quotes: {shown}"
    return ConfigError(error.key, wanted, told)


def _quoted(text: str, needs: Callable[[str], bool]) -> tuple[str, list[str]] | None:
    """An override, written for a shell, with quotes around the texts that need them, and the list of these texts.

    None if Hydra cannot read the quoted override either, or if it is too long to be shown.
    """
    key, _, value = text.partition("=")
    if not key or not value:
        return None
    texts = list[str]()
    parts = _by_parts(value, needs, texts)
    for made, of in ((parts, texts), (_in_quotes(value), [value])):
        if of and _override(f"{key}={made}") is not None:
            shown = _for_shell(f"{key}={made}")
            return (shown, of) if len(shown) <= _MOST else None
    return None


def _by_parts(value: str, needs: Callable[[str], bool], texts: list[str]) -> str:
    """The value, with quotes around those parts of a list, a mapping or a sweep that need quotes.

    The quoted texts are appended to `texts`.
    """
    choice = _CHOICE.fullmatch(value)
    if choice:
        return choice[1] + _by_parts(choice[2], needs, texts) + choice[3]
    made, within = "", list[str]()
    for part in _PARTS.findall(value):
        if part in ("[", "{"):
            within.append(part)
        elif part in ("]", "}"):
            del within[-1:]
        bare = part.strip()
        pair = _PAIR.fullmatch(bare) if within[-1:] == ["{"] else None
        leaf = pair[2] if pair else bare
        if not leaf or leaf in ("[", "]", "{", "}", ",") or leaf[0] in "'\"" or not needs(leaf):
            made += part
            continue
        texts.append(leaf)
        place = part.rindex(leaf)
        made += part[:place] + _in_quotes(leaf) + part[place + len(leaf) :]
    return made


def _in_quotes(text: str) -> str:
    """A text in Hydra's quotes, single or double, whichever is shorter in a shell.

    In such a text, a backslash is only special before a quote, including the closing quote.
    """
    mark = '"' if '"' not in text and ("'" in text or _LIVE & set(text)) else "'"
    return mark + re.sub(rf"(\\*)({mark}|\Z)", _escaped, text) + mark


def _escaped(found: re.Match[str]) -> str:
    return found[1] * 2 + (f"\\{found[2]}" if found[2] else "")


def _for_shell(text: str) -> str:
    """A text written for a shell, with only one kind of quotes if possible."""
    if not _LIVE & set(text):
        return f'"{text}"'
    if "'" not in text:
        return f"'{text}'"
    return shlex.quote(text) if set("$`!") & set(text) else f'"{_AWAKE.sub(_ESCAPE, text)}"'


@lru_cache(maxsize=256)
def _override(text: str) -> Override | None:
    """An override as read by Hydra; None if Hydra's grammar cannot read it."""
    try:
        (found,) = OverridesParser.create().parse_overrides([text])
    except (HydraException, ValueError, ArithmeticError, RecursionError):
        return None
    return found


# The command line of a sweep in a form that can be shown to others: without secrets or the paths of folders.


GIVEN: ContextVar[str] = ContextVar("given", default="")
"""The user's command in the form of `line` or `call`; the code that accepts a command line sets it."""
_HIDDEN = "***"
_SECRET = re.compile(
    r"""([\w.@-]{0,100}(?:key|token(?!s)|secret|passw)[\w.@-]*\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,}\]]+)""", re.IGNORECASE
)
_USER = re.compile(r"(\w://)[^/@\s]+@")
_FOLDER = re.compile(r"(?<![\w:/.*])(?:file://)?(?:~|/)[^,:=\[\]{}'\"]*/(?=[^,:=\[\]{}'\"/])")


def line(program: str, arguments: Sequence[str]) -> str:
    """A program and its arguments, `masked` and written for a shell."""
    return f"{program} {shlex.join(map(masked, arguments))}".rstrip()


def call(overrides: Sequence[str]) -> str:
    """A call of the Python API, as text, with its arguments `masked`."""
    return f"grid.sweep({', '.join(repr(masked(one)) for one in overrides)})"


def masked(argument: str) -> str:
    """An argument without the values of secret keys, the users in addresses, and the folders at the start of paths."""
    without = _USER.sub(rf"\1{_HIDDEN}@", _SECRET.sub(rf"\1{_HIDDEN}", argument))
    return _FOLDER.sub(".../", without)
