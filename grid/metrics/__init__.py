"""What a trajectory is worth: each scorer is a pure function of what was done and of the reference.

Read it in this order: `scores` (what all share; a plan's shape, a tool that was replaced, whether a case can be
solved), `stepwise` (egb_slate §6.1, traject_bench §4.1, repeated calls), `failure_patterns` (traject_bench §4.1, §4.2),
`closed_set` (tooltree §4.2), `milestones` (what a case wants on the way, and what it forbids). What a metric's name
means is declared by who measures it (`grid.core.metric`). It imports `worlds` and what is below.
"""
