"""As one_cluster, on a Ray of its own, so that a second process can run these tests beside those."""

from __future__ import annotations

from tests.ray.one_cluster.conftest import cluster, joined

__all__ = ["cluster", "joined"]
