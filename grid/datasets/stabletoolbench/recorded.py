"""A folder of recorded responses in the form of StableToolBench's `tool_response_cache`.

`<category>/<tool>_for_<category>/<api>.json` is an object from an input, as Python writes its dictionary, to
`{"error": text, "response": anything}`. Inputs are parsed as literals and never run; the order of arguments does not
matter, nor whether a number is written as a text, since all of them travel in a query string.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from grid.core.errors import DataError
from grid.core.types import Json, Skipped, to_json
from grid.core.untrusted import loads, loads_storable
from grid.datasets.files import folder
from grid.datasets.stabletoolbench import names
from grid.datasets.stabletoolbench.records import Api
from grid.worlds.simulated import Response

_LONGEST_INPUT = 10_000
"""Characters of an input; longer ones match no call."""
_LARGEST_FILE = 100_000_000  # bytes
_EXAMPLES, _EXAMPLE_CHARACTERS = 5, 2048
"""Examples of an API, and what they may have in all, as the benchmark's own server shows them."""


class Recorded:
    """The recorded responses of some APIs; files are read when their API is first called.

    A file that cannot be read has no responses, and is among `unreadable`.
    """

    def __init__(self, path: str, apis: Iterable[Api]) -> None:
        root = folder("dataset.responses", path).resolve()
        self._files = {api: place for api in apis if (place := _place(root, api))}
        self.unreadable: list[Skipped] = []
        self._calls = lru_cache(maxsize=64)(_calls)
        digest = hashlib.sha256()
        for api, file in sorted(self._files.items(), key=lambda pair: str(pair[1])):
            try:
                content = _content(file)
                _object(file, content)
            except DataError as error:
                self.unreadable.append(Skipped(str(file.relative_to(root)), f"recorded responses: {error.message}"))
                del self._files[api]
            else:
                digest.update(f"{file.relative_to(root)} {hashlib.sha256(content).hexdigest()}\n".encode())
        self.fingerprint = digest.hexdigest()[:12]

    def find(self, api: Api, arguments: Mapping[str, Json]) -> Response | None:
        """What was recorded for a call; None where nothing was that a table could hold."""
        if api not in self._files:
            return None
        found = self._calls(self._files[api]).get(_key({names.identifier(name): arguments[name] for name in arguments}))
        return found[1] if found and _storable(found[1]) else None

    def examples(self, api: Api) -> list[str]:
        """A few recorded calls with their responses, a line each; none where the first alone is too long."""
        shown: list[str] = []
        for text, response in (self._calls(self._files[api]) if api in self._files else {}).values():
            line = f"{text} -> {to_json(response._asdict())}"
            if not _storable((text, response)):
                continue
            if len(shown) == _EXAMPLES or sum(map(len, shown)) + len(line) > _EXAMPLE_CHARACTERS:
                break
            shown.append(line)
        return shown


def _place(root: Path, api: Api) -> Path | None:
    """The file of an API; None where there is none inside the folder, whatever the API's names say."""
    category = names.category(api.category)
    tool, name = f"{names.standardized(api.tool)}_for_{category}", names.identifier(api.name)
    try:
        file = (root / category / tool / f"{name}.json").resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError):  # a name that no file can have
        return None


def _content(file: Path) -> bytes:
    """A file's bytes. Raises DataError."""
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise DataError(file, None, f"a file of more than {_LARGEST_FILE:,} bytes")
        return file.read_bytes()
    except OSError as error:
        raise DataError(file, None, f"cannot be read: {error.strerror}") from None


def _object(file: Path, content: bytes) -> dict[str, Any]:
    """The calls as they stand there. Raises DataError."""
    try:
        read = loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(file, None, f"broken JSON: {error}") from None
    if not isinstance(read, dict):
        raise DataError(file, None, "an object of calls is expected")
    return read


def _storable(value: Any) -> bool:
    try:
        loads_storable(to_json(value))
    except (ValueError, RecursionError):
        return False
    return True


def _calls(file: Path) -> dict[str, tuple[str, Response]]:
    """By its arguments each call as it is written there, with its response. Raises DataError."""
    found: dict[str, tuple[str, Response]] = {}
    for text, answer in _object(file, _content(file)).items():
        arguments, response = _input(text), _response(answer)
        if arguments is not None and response is not None:
            found.setdefault(_key(arguments), (text, response))
    return found


def _input(text: str) -> Mapping[str, Any] | None:
    if len(text) > _LONGEST_INPUT:
        return None
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return {str(name): found[name] for name in found} if isinstance(found, dict) else None


def _response(answer: Any) -> Response | None:
    if not isinstance(answer, dict) or "response" not in answer:
        return None
    return Response(str(answer.get("error") or ""), answer["response"])


def _key(arguments: Mapping[str, Any]) -> str:
    return to_json(sorted((name, str(value)) for name, value in arguments.items()))
