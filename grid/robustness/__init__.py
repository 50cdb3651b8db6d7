"""Robustness settings: seeded, pure changes of a case, its world, its plan or its retriever. No planner is told.

Read it in this order: `base`; `extraneous`, `broken_tool`, `unsolvable` and `costs` (agent_planning_benchmark §3.1),
`inaccurate_plan` (egb_slate B.4), `tools_forgiving` and `tools_strict` (planning_horizon §3.2). What they share:
`offering` (what is offered beside what), `naming` (a tool's double under other names), `composites` (tools that do
several calls), `schema_matching` (what a tool does with a name it does not know). It imports `worlds`, `retrievers`
and what is below.
"""
