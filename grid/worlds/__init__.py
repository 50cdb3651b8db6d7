"""The worlds, in which a call is a pure transition of immutable states, so that branches can run side by side.

Read it in this order: `lookup` (recorded outcomes, egb_slate §3.4), `functions` (Python's), `layers` (a world around
another one: it records calls, lets planners refuse a request, retrieves), `handles` (earlier results as `$n`),
`simulated` (tools that are answered from records or by a model, and a user to talk to; the models are asked in
`grid/roles`), `search` (over a corpus; `readers` answer its questions). These worlds have a folder each: `kopl`,
`sparql` and `programs` (over facts), `scenes`. A world that only one benchmark has is in `grid/datasets`, beside that
benchmark.

`equivalence` says by rule when two values mean the same, moments and units included; `schema` tells the settings of
`grid/robustness` which names a world's calls may get wrong. It imports `core`, `text` and `retrievers`.
"""
