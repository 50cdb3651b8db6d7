"""What tools do when they are called: pure transitions of immutable states, so that branches run side by side.

Read it in this order: `lookup` (recorded outcomes, egb_slate §3.4), `functions` and `instances` (Python's), `layers`
(a world around another one: it records, rejects, retrieves), `handles` (earlier results as `$n`), `talking` (somebody
to talk to), `simulated` (tools that nobody can call as they are). A folder a world of its own: `kopl`, `sparql` and
`programs` (over facts), `search`, `scenes`, `rest`, `mcp`, `workbench`, `tau2`.

`equivalence` says when two values mean the same, moments and units included; `schema` is what the settings of tool
robustness need to know of a world. It imports `core`, `text` and `retrievers`.
"""
