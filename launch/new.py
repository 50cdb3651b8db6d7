"""Create a plugin: `agent-grid new planner|dataset|robustness NAME` writes a class, its YAML and its test.

The files can be run immediately. The files form a package in the current folder (`--package`); a `pyproject.toml` is
written too, so that `pip install` can install the package. Nothing is overwritten.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from grid import CONF, plugins
from grid.core.errors import ConfigError, GridError

TEMPLATES = Path(__file__).parent / "templates"
_ROOMS = {"planner": "planners", "dataset": "datasets", "robustness": "robustness"}
_LONGEST = 30
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TRIES = {
    "planner": "planner={name},react dataset=slate robustness=none",
    "dataset": "dataset={name} planner=react robustness=none",
    "robustness": "robustness=none,{name} planner=react",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files into the current folder; returns 0, or 2 if a name is invalid or a file already exists."""
    parser = argparse.ArgumentParser(prog="agent-grid new", description=__doc__)
    parser.add_argument("kind", choices=sorted(_ROOMS))
    parser.add_argument("name", help="the name of the new YAML file: lowercase letters, digits and _")
    parser.add_argument(
        "--package", default="mylab", help="the plugin's package, which is created if it does not exist"
    )
    given = parser.parse_args(arguments)
    try:
        written = write(given.kind, given.name, given.package, Path.cwd())
    except GridError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in written:
        print(f"wrote {path.relative_to(Path.cwd())}")
    project = Path("pyproject.toml")
    if plugins.ENTRY_POINTS not in project.read_text(encoding="utf-8", errors="replace"):
        lines = f'[project.entry-points."{plugins.ENTRY_POINTS}"] {given.package} = "{given.package}"'
        print(f"{project} was not changed: before you install the plugin, add {lines} and package-data **/*.yaml to it")
    if given.kind == "dataset":
        print(f"check it: agent-grid data {given.name} --plugin {given.package} --check")
    tried = _TRIES[given.kind].format(name=given.name)
    print(f"run it:  agent-grid sweep -m 'plugins=[{given.package}]' {tried} name={given.name}")
    print(f"test it: pytest tests/test_{given.name}.py; pytest --pyargs grid.contracts --plugin {given.package}")
    return 0


def write(kind: str, name: str, package: str, folder: Path) -> list[Path]:
    """Write the files below a folder; returns their paths.

    Raises:
        ConfigError: a name is invalid for a module or a file, or is already used by agent-grid, or one of the files
            already exists.
    """
    plugins.check_name("--package", package)
    plugins.check_module("NAME", name)
    for key, given in (("--package", package), ("NAME", name)):
        if not _NAME.fullmatch(given) or len(given) > _LONGEST:
            raise ConfigError(
                key, given, f"must be at most {_LONGEST} lowercase letters, digits and _, starting with a letter"
            )
    taken = sorted(path.stem for path in (CONF / kind).glob("*.yaml"))
    if name in taken:
        raise ConfigError("NAME", name, f"a name that agent-grid does not use; it uses {', '.join(taken)}")
    room, own = _ROOMS[kind], folder / package
    files = {
        own / room / f"{name}.py": f"{kind}.py.txt",
        own / "conf" / kind / f"{name}.yaml": f"{kind}.yaml.txt",
        folder / "tests" / f"test_{name}.py": f"{kind}_test.py.txt",
    }
    if not (folder / "pyproject.toml").exists():
        files[folder / "pyproject.toml"] = "pyproject.toml.txt"
    if kind == "dataset":
        files[own / room / f"{name}.jsonl"] = "dataset.jsonl.txt"
    for path in files:
        if path.exists():
            raise ConfigError("NAME", name, f"must be a name whose files do not exist yet, but {path} exists")
    values = {"name": name, "package": package, "cls": "".join(part.title() for part in name.split("_"))}
    texts = {path: Template((TEMPLATES / file).read_text("utf-8")).substitute(values) for path, file in files.items()}
    needed = (own / "__init__.py", own / "py.typed", own / room / "__init__.py")
    texts = {path: "" for path in needed if not path.exists()} | texts
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


if __name__ == "__main__":
    sys.exit(main())
