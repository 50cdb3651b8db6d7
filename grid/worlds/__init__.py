"""What tools do when they are called: pure transitions of immutable states, so that branches run side by side.

Read it in this order: `lookup` (recorded outcomes, egb_slate §3.4), `functions` (Python's), `layers` (a world around
another one: it records calls, lets planners refuse a request, retrieves), `handles` (earlier results as `$n`),
`simulated` (tools that nobody can call as they are, and somebody to talk to), `search` (over a corpus; `readers`
answer its questions). A folder a world of its own: `kopl`, `sparql` and `programs` (over facts), `scenes`. A world
that one benchmark alone has stands beside it.

`equivalence` says when two values mean the same, moments and units included; `schema` is what the settings of tool
robustness need to know of a world. It imports `core`, `text` and `retrievers`.
"""
