"""The YAML loader for plain values: ten times as fast where libyaml is installed."""

from __future__ import annotations

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Builds strings, numbers, dates, lists and mappings, and nothing else."""
