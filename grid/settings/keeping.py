"""Of which cells it is kept what they asked and were answered (`store.transcripts`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from grid.core.errors import ConfigError, Status

Cells = Literal["all", "failed", "none"]
REST_SHARE = 0.05  # of cells, once a sweep's transcripts are as large as they may be
_ALLOWED = "all, failed, none, or sample:SHARE with a share of the cells above 0 and up to 1, such as sample:0.05"


@dataclass(frozen=True)
class Keep:
    """Of which cells it is kept what they asked: all, those that failed, or none; of these a `share`, by their keys.

    A cell failed where it broke off or did not resolve its case.
    """

    cells: Cells = "all"
    share: float = 1.0

    @classmethod
    def of(cls, text: str) -> Keep:
        """From `store.transcripts`; raises ConfigError."""
        for cells in get_args(Cells):
            if text == cells:
                return cls(cells)
        share = re.fullmatch(r"sample:(\d*\.?\d+)", text)
        if share is None or not 0 < float(share[1]) <= 1:
            raise ConfigError("store.transcripts", text, _ALLOWED)
        return cls("all", float(share[1]))

    def rest(self) -> Keep:
        """What is kept of further cells once there is no room for more."""
        return replace(self, share=min(self.share, REST_SHARE))

    def keeps(self, episode: dict[str, Any]) -> bool:
        """Whether it is kept of the cell with this row."""
        if self.cells == "none" or int(episode["cell_key"][-8:], 16) >= self.share * 16**8:
            return False
        return self.cells == "all" or episode["status"] != Status.OK or episode["success"] is False


KEEP_NONE = Keep("none")
