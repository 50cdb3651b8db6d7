"""All drawings of a results folder.

`drawings` lists them, and draws those of the planning-horizon study; `plans` and `search` draw those of their tables.
Figures of a single table are in that table's file in `tables`: cost against success in `tables/frontier`, for example.

It imports all rooms before it. The names that `from analysis import figures` gave before this room existed are here.
"""

from analysis.figures.drawings import success_against, tokens
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, legend, svg_of

__all__ = ["ACROSS", "COLOURS", "MARKERS", "Drawing", "legend", "success_against", "svg_of", "tokens"]
