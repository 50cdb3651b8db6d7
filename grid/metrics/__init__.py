"""The scores of a trajectory: each scorer is a pure function of the trajectory and the reference.

Read it in this order: `scores` (what all share; a plan's shape, replaced arguments, whether a case can be solved),
`stepwise` (egb_slate §6.1, traject_bench §4.1, repeated calls), `failure_patterns` (traject_bench §4.1, §4.2),
`closed_set` (tooltree §4.2), `milestones` (what a case wants on the way, and what it forbids). The code that measures a
metric declares the meaning of its name (`grid.core.metric`). This package imports `worlds` and the packages below it.
"""
