"""Make today's code count as the code of an earlier checkout: `python launch/same_code.py FOLDER`.

Use it if you have changed the code of configured classes, and have checked, by comparing rows from before and after,
that no result is different: stored cells then keep their ids. The code that each class reaches is digested in both
checkouts; if the two digests differ, a line is written to `grid/settings/same_code.txt`. The first digest in a line is
today's, and the second is the oldest. Combinations of several robustness settings get no line, so their cells run again
unless `accept_code=true` keeps them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from omegaconf import OmegaConf

from grid import CONF
from grid.code_digest import code_digest
from grid.core.engine import ASKED
from grid.core.moved import MOVED
from grid.core.problem import DRAFTED, GIVEN
from grid.settings import build
from grid.settings.parts import Parts
from grid.settings.setting import FURTHER, GROUPS

TABLE = Path(build.__file__).with_name("same_code.txt")
_DIGEST = """
import json, sys
from importlib import import_module
from grid.code_digest import code_digest
names, before = json.load(sys.stdin)
def there(one):
    module, _, name = one.rpartition(".")
    for known in (module, *before.get(module, ())):
        try:
            found = import_module(known)
            getattr(found, name)
            return f"{found.__name__}.{name}"
        except (ImportError, AttributeError):
            pass  # there is none of that name
found = {}
for label, ours in names.items():
    theirs = tuple(filter(None, map(there, ours)))
    if len(theirs) == len(ours):
        found[label] = code_digest(theirs)
print(json.dumps(found))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkout of the commit before the change")
    folder: Path = parser.parse_args(arguments).folder
    names = dict(_named())
    there = _digests(folder, names)
    known = dict(line.split()[:2] for line in _lines(folder / TABLE.relative_to(Path(__file__).parents[1])))
    now = {label: code_digest(names[label]) for label in there}
    first = {now[label]: (known.get(digest, digest), label) for label, digest in there.items()}
    lines = [f"{digest} {old} {label}" for digest, (old, label) in first.items() if digest != old]
    TABLE.write_text("".join(f"{line}\n" for line in sorted(lines, key=lambda line: line.split(" ", 2)[2])), "utf-8")
    for label in sorted(names.keys() - there.keys()):
        print(f"not in {folder}, so it counts as new code: {label}")
    print(f"{len(lines)} of {len(first)} kinds of code differ, but count as the earlier code: {TABLE}")
    return 0


def _named() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield labels, each with the names of code that is digested together: a class, and the code that it may need."""
    classes: dict[str, list[str]] = {}
    for group in (*GROUPS, *FURTHER):
        files = [OmegaConf.to_container(OmegaConf.load(file)) for file in (CONF / group).glob("*.yaml")]
        parts = [part for file in files if isinstance(file, dict) for part in (file, *file.values())]
        classes[group] = sorted(
            {str(part["_target_"]) for part in parts if isinstance(part, dict) and "_target_" in part}
        )
    first: dict[str, Any] = {group: {"_target_": targets[0]} for group, targets in classes.items()}
    one = first | {"robustness": {"one": first["robustness"]}}
    for group, targets in classes.items():
        for target in targets:
            part = {"_target_": target}
            yield from _counted(group, one | {group: {"one": part} if group == "robustness" else part})
    for target in classes["planner"]:
        for solved in (False, True):
            for outline in (GIVEN, DRAFTED):
                yield from _counted("planner", one | {"planner": {"_target_": target}}, _parts(outline, solved=solved))
    for role in ASKED:
        for target in classes["model"]:
            for asks in (False, True):
                yield from _counted(
                    role, one | {role: {"_target_": target}}, _parts(asks="one.judge" if asks else None)
                )
    yield from _counted("metrics", one)


def _parts(outline: str = GIVEN, solved: bool = False, asks: str | None = None) -> Parts:
    """A stand-in for a setting's parts, with only the attributes on which the code of a setting depends."""
    found = SimpleNamespace(dataset=SimpleNamespace(outline=outline), goes_by_solved=solved, tools_ask=asks)
    return cast(Parts, found)


def _counted(
    group: str, config: Mapping[str, Any], parts: Parts | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    names = build.code_names(config, parts or _parts())[group]
    yield f"{group} {' '.join(names)}", names


def _digests(folder: Path, names: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """The digests that a checkout's own code computes for these names, or for the older names that it has instead."""
    before: dict[str, list[str]] = {}
    for old, new in MOVED.items():
        before.setdefault(new, []).append(old)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    asked = subprocess.run(
        [sys.executable, "-P", "-c", _DIGEST],
        input=json.dumps([names, before]), env=environment, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, str] = json.loads(asked.stdout)
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


if __name__ == "__main__":
    raise SystemExit(main())
