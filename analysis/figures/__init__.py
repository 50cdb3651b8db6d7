"""All drawings of a results folder.

`drawings` lists all drawings, and draws those of the planning-horizon study. `plans` and `search` draw the figures of
the tables of the same name. A figure of a single table is in that table's file in `tables`: for example, cost against
success is in `tables/frontier`.

It imports all rooms that come before it. All names that `from analysis import figures` gave before this room existed
can be imported from here.
"""

from analysis.figures.drawings import success_against, tokens
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, legend, svg_of

__all__ = ["ACROSS", "COLOURS", "MARKERS", "Drawing", "legend", "success_against", "svg_of", "tokens"]
