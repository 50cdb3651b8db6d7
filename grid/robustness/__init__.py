"""Robustness settings: seeded, pure changes of a case, its world, its plan or its retriever. No planner is told.

Read it in this order: `base`; `extraneous` (adds tools like the needed ones), `broken_tool` (one answers with errors),
`unsolvable` (takes a needed one away, or contradicts) and `costs` (agent_planning_benchmark §3.1), `inaccurate_plan`
(egb_slate B.4), `schema_matching` (strict and forgiving tools: planning_horizon §3.2). What they share is `offering`:
what is offered beside what, and a tool's double under other names. It imports `worlds`, `retrievers` and what is below.
"""
