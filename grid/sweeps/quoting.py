"""What of an override has to stand in quotes, so that Hydra's grammar reads it as text; shown as a shell takes it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from functools import lru_cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from grid.core.errors import ConfigError
from grid.settings.setting import FURTHER, GROUPS

_WANTED = ("Input should be a valid string", "a folder")
"""How it is said that a value has to be a text: by pydantic, and of a data set's path."""
_MOST = 400  # characters of what is shown
_CHARACTERS = 5  # that are named
_PARTS = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\[\]{},'"]+|.""", re.DOTALL)
_PAIR = re.compile(r"((?:[\w.-]+\s*)?:\s*)(.+)", re.DOTALL)  # of a mapping; its key may stand in quotes before
_CHOICE = re.compile(r"(choice\()(.*)(\))", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_/\-\\+.$%*@?|:\s]")
"""What Hydra's grammar takes in a text without quotes."""
_LIVE = frozenset('"$`\\!')
"""What a shell takes for more than itself within double quotes."""
_AWAKE, _ESCAPE = re.compile(r'(["\\])'), r"\\\1"
_KINDS = {float: "a number", int: "a number", bool: "true or false", type(None): "null"}
"""What a text may be taken for."""


def unreadable(text: str, reason: str) -> ConfigError:
    """An override that Hydra's grammar has no reading of: what has to be quoted, and how.

    Args:
        text: the override.
        reason: what Hydra says; told where quotes would not help.
    """
    key, _, value = text.partition("=")
    found = _quoted(text, lambda part: _override(f"k={part}") is None)
    if found is None:
        return ConfigError(key, value, f"Hydra's grammar of overrides ({reason})")
    shown, texts = found
    odd = [repr(char) for char in dict.fromkeys("".join(texts)) if not _PLAIN.match(char)]
    which = f" with {' '.join(odd[:_CHARACTERS])}" if odd else ""
    return ConfigError(key, value, f"a text{which} has to be quoted: {shown}")


def several(text: str) -> ConfigError:
    """An override with several values where one setting is asked for."""
    key, _, value = text.partition("=")
    ways = ["with -m each is a setting"]
    if "(" not in value and (key not in (*GROUPS, *FURTHER) or key == "robustness"):
        ways.append(f"a list is {key}=[{value}]")
    if "(" not in value and key not in (*GROUPS, *FURTHER):
        ways.append(f"a text is quoted: {_for_shell(f'{key}={_in_quotes(value)}')}")
    return ConfigError(key, value, f"one value; {', '.join(ways)}")


def kept(error: ConfigError, overrides: Sequence[str]) -> ConfigError:
    """The error; where an override gives a text that Hydra reads as a number or the like, one that shows it quoted."""
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
        return alike and ("{" not in text or repr(found) == repr(wanted))  # other keys may want numbers

    quoted = _quoted(text, needs)
    if quoted is None:
        return error
    shown, texts = quoted
    told = f"a text, and {texts[0]:.80} without quotes is {_KINDS[type(wanted)]}; quoted it stays one: {shown}"
    return ConfigError(error.key, wanted, told)


def _quoted(text: str, needs: Callable[[str], bool]) -> tuple[str, list[str]] | None:
    """An override with quotes around what needs them, as a shell takes it, and what these texts are.

    None where quotes make no reading of it, or one that is too long to be shown.
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
    """A value with quotes around those of its parts that need them: of a list, a mapping, or several to sweep over.

    `texts` gets what was quoted.
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
    """A text in Hydra's quotes; of both kinds the one that makes it shorter as a shell takes it.

    Backslashes count there before a quote alone, also before the one that ends it.
    """
    mark = '"' if '"' not in text and ("'" in text or _LIVE & set(text)) else "'"
    return mark + re.sub(rf"(\\*)({mark}|\Z)", _escaped, text) + mark


def _escaped(found: re.Match[str]) -> str:
    return found[1] * 2 + (f"\\{found[2]}" if found[2] else "")


def _for_shell(text: str) -> str:
    """A word as a shell takes it, in quotes of one kind where that can be."""
    if not _LIVE & set(text):
        return f'"{text}"'
    if "'" not in text:
        return f"'{text}'"
    return shlex.quote(text) if set("$`!") & set(text) else f'"{_AWAKE.sub(_ESCAPE, text)}"'


@lru_cache(maxsize=256)
def _override(text: str) -> Override | None:
    """An override as Hydra reads it; None where its grammar has no reading."""
    try:
        (found,) = OverridesParser.create().parse_overrides([text])
    except (HydraException, ValueError, ArithmeticError, RecursionError):
        return None
    return found
