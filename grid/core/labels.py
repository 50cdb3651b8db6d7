"""Labels of settings for people: no longer than necessary to tell settings apart.

Rows keep the labels that they were written with. A model behind a general interface has the name that its server knows.
If settings would still have the same name, their labels also show the differences between their configs, and nothing
else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MARK = " ("
"""The text in a label before the difference that tells settings of the same name apart."""
_ESCAPED = re.compile(r"\\(.)")
_PART = re.compile(r"(?:\\.|\[(?:\\.|[^\[\]])*\]|\{(?:\\.|[^{}])*\}|'(?:\\.|[^'])*'|\"(?:\\.|[^\"])*\"|[^,])+")
_FOLDER = re.compile(r"(?<![\w:/.*])(?:file://)?(?:~|/)[^,:=\[\]{}'\"]*/(?=[^,:=\[\]{}'\"/])")
_MODEL = "model"
_SAME = ("serving", "price", "path", "limit", "parallel")
"""Keys that change no result in any part of a config: a different value of such a key makes no other setting."""
_LONGEST = 30  # characters of a value


def plain(label: str) -> str:
    """A label without the escapes that Hydra's command line needs."""
    return _ESCAPED.sub(r"\1", label)


def without_folders(label: str) -> str:
    """The label with each absolute path in it as the path's last part: `mcp[args=[/home/me/desk.py]]`, `[desk.py]`."""
    return _FOLDER.sub("", label)


def short(labels: Iterable[str]) -> dict[str, str]:
    """Map each label of a model to a short name that differs from the other labels' names: `fake-1`, `fake-1[seed=2]`.

    A label is only shortened if one of its keys names the model (`openai_http[model=fake-1,base_url=…]`).
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
    """For each setting, the keys and values that tell it from the others of its name: `seed=1`; None if that fails.

    Args:
        settings: the values of each setting by key: the parts of the setting's config, and any further values.
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
    """Split `name[key=value,…]` into the name and the changed values by key."""
    name, _, rest = label.partition("[")
    changes = (part.partition("=") for part in _PART.findall(rest.removesuffix("]")))
    return name, {key.strip(): plain(value) for key, _, value in changes}


def _flat(part: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """The values in a part, as texts, by dotted key."""
    if isinstance(part, Mapping) and part:
        for key, value in part.items():
            yield from _flat(value, f"{above}.{key}" if above else str(key))
    else:
        yield above, part if isinstance(part, str) else json.dumps(part)


def _differences(settings: Iterable[Mapping[str, str]]) -> list[str]:
    """For each setting, the few keys (with values) that are needed to tell it from the others."""
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
