"""All drawings of a results folder.

`drawings` lists them, and has those of the planning-horizon study; `plans` and `search` have those of their tables.
Figures of one table stand in its file in `tables`: cost against success in `tables/frontier`, say.

It imports all rooms before it. What `from analysis import figures` gave before there was a room stands here.
"""

from analysis.figures.drawings import success_against, tokens
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, legend, svg_of

__all__ = ["ACROSS", "COLOURS", "MARKERS", "Drawing", "legend", "success_against", "svg_of", "tokens"]
