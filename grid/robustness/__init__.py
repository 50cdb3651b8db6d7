"""Robustness settings: seeded, pure changes to a case, its world, its plan or its retriever, hidden from planners.

Read it in this order: `base`; `extraneous` (adds tools that resemble the needed tools), `broken_tool` (makes a tool
answer with errors), `unsolvable` (removes a needed tool) and `costs` (these four are from agent_planning_benchmark
§3.1), `inaccurate_plan` (egb_slate B.4), `schema_matching` (strict and forgiving tools: planning_horizon §3.2). The
settings share `offering`, which offers additional tools and creates doubles of tools under different names. This
package imports `episode`, `worlds`, `retrievers` and the packages below them.
"""
