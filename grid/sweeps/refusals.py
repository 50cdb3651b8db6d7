"""What cannot be composed, in one line: the key, its value and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from grid.core.errors import ConfigError, GridError, one_line
from grid.sweeps import quoting

_NO_SUCH_KEY = re.compile(r"Could not override '([^']*)'")
_SEVERAL = re.compile(r"(?:Ambiguous value for argument|Sweep parameters) '(.*?)'(?:\n| requires)", re.DOTALL)


def refusal(error: Exception, overrides: Sequence[str] = ()) -> str:
    """One line for whatever was raised before a sweep was composed and checked."""
    if isinstance(error, ConfigError):
        return one_line(quoting.kept(error, overrides))
    if isinstance(error, GridError):
        return one_line(error)
    if isinstance(error, RecursionError):
        return one_line(ConfigError("arguments", list(overrides), "less deep nesting"))
    if isinstance(error, OverrideParseException):
        return one_line(quoting.unreadable(str(error.override), error.message.splitlines()[0]))
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        return one_line(
            ConfigError(group, name, f"one of {', '.join(sorted(error.options))}{nearest(name, error.options)}")
        )
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _of_hydra(error, overrides)
    reason = one_line(f"{type(error).__name__}: {error}", 400)
    return f"{one_line(' '.join(overrides), 200)}: cannot be composed ({reason})"


def _of_hydra(error: Exception, overrides: Sequence[str]) -> str:
    """Hydra names the key, what it is given as, or the file; the reason may be in the error's cause."""
    if sweep := _SEVERAL.search(str(error)):
        return one_line(quoting.several(sweep[1]))
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    reason = str(cause).splitlines()[0] if cause and str(cause) else ""
    found = _NO_SUCH_KEY.search(str(error))
    if not found:
        return one_line(f"{error} ({reason})" if reason else error)
    key = found[1]
    values = [text.partition("=")[2] for text in overrides if text.partition("=")[0].lstrip("+~") == key]
    siblings = [str(name) for name in cause.parent_node or () if name != "hydra"] if cause else []
    allowed = (
        f"no such key{nearest(key.rpartition('.')[2], siblings)}; the keys here are {', '.join(siblings) or 'none'}"
    )
    return one_line(ConfigError(key, values[-1] if values else None, allowed))


def nearest(name: str, names: Sequence[str]) -> str:
    """What may have been meant, as part of a sentence."""
    close = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
