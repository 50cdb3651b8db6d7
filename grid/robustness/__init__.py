"""Robustness settings: seeded, pure changes of a case, its world, its plan or its retriever. Planners are not told.

Read it in this order: `base`; `extraneous` (adds tools like the needed ones), `broken_tool` (one answers with errors),
`unsolvable` (takes a needed one away) and `costs` (agent_planning_benchmark §3.1), `inaccurate_plan` (egb_slate B.4),
`schema_matching` (strict and forgiving tools: planning_horizon §3.2). They share `offering`: tools that are offered
beside others, and a tool's double under other names. It imports `worlds`, `retrievers` and the rooms below them.
"""
