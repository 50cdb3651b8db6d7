"""The columns of what was asked and answered: requests, the parts of their prompts, and the cases themselves."""

from __future__ import annotations

import pyarrow as pa

MESSAGES = pa.schema(
    [
        ("cell_id", pa.string()),
        ("attempt_id", pa.string()),
        ("message", pa.int32()),
        ("role", pa.string()),
        ("decision", pa.string()),
        ("request", pa.string()),
        ("wanted", pa.string()),
        ("seed", pa.int64()),
        ("n", pa.int64()),
        ("temperature", pa.float64()),
        ("max_tokens", pa.int64()),
        ("prompt", pa.list_(pa.string())),
        ("answers", pa.list_(pa.string())),
        ("probabilities", pa.list_(pa.float64())),
        ("unreadable", pa.list_(pa.struct([("place", pa.int32()), ("why", pa.string())]))),
        ("altered", pa.string()),
    ]
)
"""One row a request: `prompt` has the digests of its sections, in order; `altered` says what is not verbatim."""

SECTIONS = pa.schema(
    [
        ("digest", pa.string()),
        ("kind", pa.string()),
        ("entries", pa.list_(pa.string())),
        ("options", pa.list_(pa.string())),
        ("altered", pa.string()),
    ]
)
"""Parts of prompts by their content; equal rows may stand in several files, and readers take any."""

CASES = pa.schema(
    [
        ("digest", pa.string()),
        ("case_id", pa.string()),
        ("domain", pa.string()),
        ("query", pa.string()),
        ("messages", pa.list_(pa.string())),
        ("outline", pa.list_(pa.struct([(name, pa.string()) for name in ("id", "goal", "text")]))),
        ("calls", pa.list_(pa.struct([(name, pa.string()) for name in ("substep_id", "tool", "arguments")]))),
        ("followed", pa.bool_()),
        ("ordered", pa.bool_()),
        ("answer", pa.string()),
    ]
)
"""Cases by their contents (`episodes.case_digest`): what was asked for, and the reference's calls, in order.

Equal rows may stand in several files, and readers take any.
"""
