"""The scores of a trajectory: each scorer is a pure function of the trajectory and the reference.

Read this package in this order: `scores` (the common part of scorers; a plan's shape, replaced arguments, whether a
case can be solved), `stepwise` (egb_slate §6.1, traject_bench §4.1, repeated calls), `failure_patterns` (traject_bench
§4.1, §4.2), `closed_set` (tooltree §4.2), `milestones` (the calls and states that a case requires on the way, and the
ones that it forbids). The meanings of the metrics' names are in `grid/core/declared.txt` (`grid.core.metric`). This
package imports `worlds` and the packages below it.
"""
