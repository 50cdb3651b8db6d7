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
from io import StringIO
from pathlib import Path
from tokenize import COMMENT, generate_tokens

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
    data = text.encode()  # columns count bytes
    starts = [0, *(found.end() for found in re.finditer(b"\n", data))]
    for node in sorted(statements, key=lambda node: (-node.lineno, -node.col_offset)):
        gone = [name for name in node.names if f"{node.module}.{name.name}" in moved]
        if not gone:
            continue
        statement = ast.get_source_segment(text, node) or ""
        start = starts[node.lineno - 1] + node.col_offset
        before = data[starts[node.lineno - 1] : start].decode()
        comments = [one.string for one in generate_tokens(StringIO(statement).readline) if one.type == COMMENT]
        if comments and before.strip():  # there is no place for them; the old name stays, and still works
            continue
        kept = [_alias(name) for name in node.names if name not in gone]
        written = [*comments, *[f"from {node.module} import {', '.join(kept)}"] * bool(kept)]
        for name in gone:
            package, _, last = moved[f"{node.module}.{name.name}"].rpartition(".")
            known = name.asname or name.name
            written.append(f"from {package} import {last}{f' as {known}' if known != last else ''}")
        apart = "; " if before.strip() else f"\n{before}"
        data = data[:start] + apart.join(written).encode() + data[start + len(statement.encode()) :]
    return data.decode()


def _alias(name: ast.alias) -> str:
    return f"{name.name} as {name.asname}" if name.asname else name.name


if __name__ == "__main__":
    raise SystemExit(main())
