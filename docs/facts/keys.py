"""The keys of a file in `conf/`, with their defaults and the comments beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from docs.facts.markdown import code, prose, table
from grid import CONF

_CLASS, _DEFAULTS = "_target_", "defaults"
_ROLE = re.compile(r"  - (?P<group>model@\w+): null +# (?P<text>.+)")
_MEANINGS = Path(__file__).with_name("keys.txt")
_LONG = 60  # characters of a default
_CONTINUES = ("after ", "for ", "in ", "on ", "per ")  # a comment that begins with one of these continues the meaning


class Key(NamedTuple):
    """A key as command lines name it, its default as in the file (empty if it has keys below it), and its comment."""

    name: str
    default: str
    text: str


def render(argument: str) -> str:
    """A table of the keys of `conf/ARGUMENT.yaml`; for `FILE KEY...`, only of these keys and the keys below them."""
    name, *wanted = argument.split()
    found = list(read(CONF / f"{name}.yaml"))
    if wanted:
        found = [key for one in wanted for key in found if key.name == one or key.name.startswith(f"{one}.")]
    rows = [(code(_prefix(name) + key.name), _default(key.default), meaning(name, key)) for key in found]
    told = f"`conf/{name}.yaml`" + (f", class `{target}`" if (target := _target(CONF / f"{name}.yaml")) else "")
    if not rows:
        return f"It has no keys ({told})."
    keys = table(["key", "default", "meaning"], rows)
    return keys if wanted else f"{keys}\n\n{told}"


def _prefix(file: str) -> str:
    """The prefix of a file's keys on a command line; the keys of robustness settings already contain their own name."""
    group, slash, _ = file.partition("/")
    return f"{group}." if slash and group != "analysis" else ""


def render_roles(_: str) -> str:
    """A table of the roles that a model can have besides the acting role, as described in `conf/config.yaml`."""
    lines = (CONF / "config.yaml").read_text(encoding="utf-8").split("\n")
    found: list[list[str]] = []
    for line in lines:
        if role := _ROLE.fullmatch(line):
            found.append([code(f"{role['group']}=NAME"), role["text"]])
        elif found and line.lstrip().startswith("# ") and line.startswith("   "):
            found[-1][1] += " " + line.lstrip(" #")
        elif found and line.startswith("  - "):
            break
    return table(["key", "what it does"], [(key, prose(text)) for key, text in found])


def meaning(file: str, key: Key) -> str:
    """The meaning of a key of `conf/FILE.yaml`, in Markdown, from the file and `keys.txt`; empty if neither has one."""
    known = _meanings()
    parts = key.name.split(".")
    places = (f"{file}:{key.name}", key.name, ".".join(parts[-2:]), parts[-1])
    lead = next((known[place] for place in places if place in known), "")
    own = prose(key.text)
    if lead.endswith(":"):
        joined = lead.removesuffix(":") if not own or own.startswith(_CONTINUES) else lead
        return f"{joined} {own}".rstrip()
    return own or lead


@cache
def _meanings() -> dict[str, str]:
    lines = [line for line in _MEANINGS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name.strip(): text.strip() for name, _, text in (line.partition("|") for line in lines)}


def read(path: Path) -> Iterator[Key]:
    """The keys of a file in the file's order, without `_target_` and `defaults`; names of nested keys have dots."""
    text = path.read_text(encoding="utf-8")
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(node, yaml.MappingNode):
        yield from _below(node, "", text, _comments(text))


def _below(node: yaml.MappingNode, prefix: str, text: str, comments: dict[int, str]) -> Iterator[Key]:
    for name, value in node.value:
        if name.value in (_CLASS, _DEFAULTS):
            continue
        full = prefix + name.value
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            if comment := comments.get(name.start_mark.line):
                yield Key(full, "", comment)
            yield from _below(value, f"{full}.", text, comments)
            continue
        if isinstance(value, yaml.SequenceNode) and not value.flow_style:
            yield Key(full, f"{len(value.value)} values", comments.get(name.start_mark.line, ""))
            continue
        default = text[value.start_mark.index : value.end_mark.index]
        yield Key(full, default, comments.get(value.end_mark.line, ""))


def _comments(text: str) -> dict[int, str]:
    """By line number, the comment after the line's value, joined with the comment lines that continue it."""
    ends: dict[int, int] = {}
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        ends[token.end_mark.line] = max(ends.get(token.end_mark.line, 0), token.end_mark.column)
    found: dict[int, str] = {}
    last: int | None = None
    for place, line in enumerate(text.split("\n")):
        alone = line.lstrip().startswith("#")
        said = "" if alone else line[ends.get(place, 0) :].strip()
        if said.startswith("#"):
            found[place], last = said.lstrip("# "), place
        elif alone and line.startswith(" ") and last is not None:
            found[last] += " " + line.strip().lstrip("# ")
        else:
            last = None
    return found


def _target(path: Path) -> str:
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(given, dict):
        return ""
    inner = [value for value in given.values() if isinstance(value, dict)]
    found = [part[_CLASS] for part in (given, *inner) if _CLASS in part]
    return str(found[0]) if found else ""


def _default(text: str) -> str:
    """The default as code; for a value that must be given, the word *required*."""
    return "*required*" if text == "???" else code(text if len(text) <= _LONG else f"{text[:_LONG]}...")
