"""The worlds. A call leads from one immutable state to the next, so that branches can run side by side.

Read it in this order: `lookup` (recorded outcomes, egb_slate §3.4), `functions` (tools that are Python functions),
`layers` (worlds around another world: they record calls, let planners refuse a request, or retrieve), `handles`
(earlier results as `$n`), `simulated` (tools that are answered from records or by a model, and a user to talk to; the
models are asked in `grid/roles`), `search` (questions to a corpus; `readers` answer them). Four kinds of worlds have
their own folders: `kopl`, `sparql` and `programs` (worlds of facts), and `scenes` (worlds of images). A world that only
one benchmark has is in `grid/datasets`, beside that benchmark.

`equivalence` says by rule when two values mean the same, moments and units included; `schema` declares which names the
calls of a world may get wrong, for the settings of `grid/robustness`. This room imports `core`, `text` and
`retrievers`.
"""
