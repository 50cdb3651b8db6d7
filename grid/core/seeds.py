"""Seeds that derive from a seed and the names of what it is for."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, *key: object) -> int:
    """A 63-bit seed that depends on `seed` and on every part of `key`, and on nothing else."""
    text = "\x1f".join([str(seed), *map(str, key)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
