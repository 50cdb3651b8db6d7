"""Replace old module names by today's names in Python, YAML and text files: `python launch/renamed.py FOLDER...`.

In plugins that were written with older names (`grid/core/moved.py`), the script renames imports, `_target_`, names in
texts, and file paths. Files that git ignores in a checkout are left alone; the names of changed files are printed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from grid.core.moved import MOVED

_ENDINGS = frozenset({".py", ".pyi", ".yaml", ".yml", ".toml", ".md", ".txt", ".cfg", ".ipynb", ".html", ".run", ""})
_OWN = frozenset({"moved.py", "CHANGELOG.md", "test_moved.py"})
"""Files that contain old names on purpose."""


def main() -> int:
    """Exit status 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    for path in sorted({path for folder in parser.parse_args().folders for path in _files(folder)}):
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError) as error:
            print(f"left as it is: {path} ({error})", file=sys.stderr)
            continue
        python = path.suffix in (".py", ".pyi")
        found = _notebook(text) if path.suffix == ".ipynb" else renamed(text, python)
        if found != text:
            path.write_text(found, encoding="utf-8")
            print(path)
    return 0


def _files(folder: Path) -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=folder, capture_output=True, check=False,
    )  # fmt: skip
    names = listed.stdout.decode().split("\0") if not listed.returncode else map(str, folder.rglob("*"))
    paths = (folder / name for name in names if name)
    yield from (path for path in paths if path.suffix in _ENDINGS and path.name not in _OWN and path.is_file())


def _notebook(text: str) -> str:
    """A notebook with today's names in its cells; a text that is not a notebook, or has no old names, is unchanged."""
    try:
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            source = renamed("".join(cell["source"]), python=cell["cell_type"] == "code")
            cell["source"] = source.splitlines(keepends=True)
    except (ValueError, KeyError, TypeError):
        return text
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n" if notebook != json.loads(text) else text


def renamed(text: str, python: bool, moved: Mapping[str, str] = MOVED) -> str:
    """A file's text with today's names."""
    if python:
        text = _imports(text, moved)
    text = re.sub(r"(?<![\w.])[a-z_]\w*(?:\.\w+)+", lambda found: _today(found[0], moved), text)
    return re.sub(
        r"(?<![\w/])([a-z_]\w*(?:/\w+)+)\.py\b",
        lambda found: moved.get(found[1].replace("/", "."), found[1]).replace(".", "/") + ".py",
        text,
    )


def _today(name: str, moved: Mapping[str, str]) -> str:
    """A dotted name, with its longest moved prefix replaced by today's name."""
    parts = name.split(".")
    for many in range(len(parts), 1, -1):
        old = ".".join(parts[:many])
        if old in moved:
            return ".".join([moved[old], *parts[many:]])
    return name


def _imports(text: str, moved: Mapping[str, str]) -> str:
    """Rename modules in `from grid.datasets import base`; an alias keeps the old name valid in the rest of the file."""
    try:
        statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module]
    except SyntaxError:
        return text
    lines = text.splitlines(keepends=True)
    for node in sorted(statements, key=lambda node: -node.lineno):
        gone = [name for name in node.names if f"{node.module}.{name.name}" in moved]
        if not gone:
            continue
        indent = " " * node.col_offset
        kept = [_alias(name) for name in node.names if name not in gone]
        written = [f"{indent}from {node.module} import {', '.join(kept)}\n"] * bool(kept)
        for name in gone:
            package, _, last = moved[f"{node.module}.{name.name}"].rpartition(".")
            known = name.asname or name.name
            written.append(f"{indent}from {package} import {last}{f' as {known}' if known != last else ''}\n")
        lines[node.lineno - 1 : node.end_lineno] = written
    return "".join(lines)


def _alias(name: ast.alias) -> str:
    return f"{name.name} as {name.asname}" if name.asname else name.name


if __name__ == "__main__":
    raise SystemExit(main())
