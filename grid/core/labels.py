"""Labels of settings for people to read, no longer than necessary to tell settings apart.

Rows keep the labels with which they were written. A model behind a general interface is shown under the name that its
server uses. If settings would still have the same name, their labels also show values that differ between their
configs, only as many as are needed, and no other values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MARK = " ("
"""The text that precedes, in a label, the difference between settings with the same name."""
_ESCAPED = re.compile(r"\\(.)")
_PART = re.compile(r"(?:\\.|\[(?:\\.|[^\[\]])*\]|\{(?:\\.|[^{}])*\}|'(?:\\.|[^'])*'|\"(?:\\.|[^\"])*\"|[^,])+")
_FOLDER = re.compile(r"(?<![\w:/.*])(?:file://)?(?:~|/)[^,:=\[\]{}'\"]*/(?=[^,:=\[\]{}'\"/])")
_MODEL = "model"
_SAME = ("serving", "price", "path", "limit", "parallel")
"""Keys that change no result, in any part of a config: settings that differ only in these keys are the same setting."""
_LONGEST = 30  # characters of a value


def plain(label: str) -> str:
    """A label without the escapes that Hydra's command line needs."""
    return _ESCAPED.sub(r"\1", label)


def without_folders(label: str) -> str:
    """The label with each absolute path shortened to its last part: `[/home/me/desk.py]` becomes `[desk.py]`."""
    return _FOLDER.sub("", label)


def short(labels: Iterable[str]) -> dict[str, str]:
    """Map each model label to a short name that no other label has, such as `fake-1` or `fake-1[seed=2]`.

    A label is shortened only if one of its keys names the model (`openai_http[model=fake-1,base_url=…]`).
    """
    found = {label: _taken_apart(label) for label in dict.fromkeys(labels)}
    names = {label: changes.get(_MODEL) for label, (_, changes) in found.items()}
    shown = {label: plain(label) if name is None else name for label, name in names.items()}
    for name in set(names.values()) - {None}:
        alike = [label for label in found if shown[label] == name]
        if len(alike) > 1:
            every = {label: {"": found[label][0], **found[label][1]} for label in alike}
            for label, told in zip(alike, _differences(every.values()), strict=True):
                shown[label] = f"{name}[{told}]" if told else str(name)
    return shown


def differences(settings: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """For each setting, the keys and values that distinguish it (`seed=1`); None if settings remain indistinguishable.

    Args:
        settings: for each setting with the same name, a mapping of keys to values (parts of its config, and any further
            values).
    """
    flat = [dict(_flat(one)) for one in settings]
    told = _differences(flat)
    return told if len(set(told)) == len(told) else None


def of_config(text: str | None) -> dict[str, Any]:
    """The config of a row, without the keys that change no result."""
    config = json.loads(text or "{}")
    return {
        group: {key: value for key, value in part.items() if key not in _SAME} if isinstance(part, dict) else part
        for group, part in config.items()
    }


def _taken_apart(label: str) -> tuple[str, dict[str, str]]:
    """Split `name[key=value,…]` into the name and a mapping of keys to changed values."""
    name, _, rest = label.partition("[")
    changes = (part.partition("=") for part in _PART.findall(rest.removesuffix("]")))
    return name, {key.strip(): plain(value) for key, _, value in changes}


def _flat(part: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """The values in a part of a config, as texts, keyed by dotted key."""
    if isinstance(part, Mapping) and part:
        for key, value in part.items():
            yield from _flat(value, f"{above}.{key}" if above else str(key))
    else:
        yield above, part if isinstance(part, str) else json.dumps(part)


def _differences(settings: Iterable[Mapping[str, str]]) -> list[str]:
    """For each setting, the few keys (with values) that are needed to distinguish it from all other settings."""
    flat = list(settings)
    keys = list(dict.fromkeys(key for one in flat for key in one))
    varying = [key for key in keys if len({one.get(key) for one in flat}) > 1]
    chosen: list[str] = []
    parts = 1
    while parts < len(flat) and varying:
        split = {key: len({tuple(one.get(name) for name in (*chosen, key)) for one in flat}) for key in varying}
        best = max(varying, key=lambda key: split[key])
        if split[best] == parts:
            break
        chosen.append(best)
        varying.remove(best)
        parts = split[best]
    return [",".join(_told(key, one[key]) for key in chosen if key in one) for one in flat]


def _told(key: str, value: str) -> str:
    shown = value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"
    return f"{key}={shown}" if key else shown
