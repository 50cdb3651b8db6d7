"""How classes that YAML names check their values: no unknown keys, no silent conversion, infinities refused."""

from __future__ import annotations

from pydantic import ConfigDict

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
