"""All drawings that are made from a results folder.

`drawings` lists all drawings, and draws the figures of the planning-horizon study. `plans` and `search` draw the
figures for the modules of the same names in `tables`. A figure for a single table is in that table's file in `tables`;
for example, cost against success is in `tables/frontier`.

This package imports all packages that the list in `analysis` names before it. All names that were in `analysis.figures`
before it was a package can still be imported from here.
"""

from analysis.figures.drawings import success_against, tokens
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, legend, svg_of

__all__ = ["ACROSS", "COLOURS", "MARKERS", "Drawing", "legend", "success_against", "svg_of", "tokens"]
