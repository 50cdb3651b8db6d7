"""The worlds. A call leads from one immutable state to the next, so that branches can run in parallel.

Read this package in this order. `lookup` has recorded outcomes (egb_slate §3.4). `functions` has tools that are Python
functions. `layers` has worlds that wrap another world (one lets planners refuse a request), a world that only records
calls, and the protocol of worlds that retrieve paragraphs. `handles` names earlier results as `$n`. `simulated` has
tools whose answers come from records or a model, and a user to talk to; `grid/roles` asks the models. `search` has
questions that are answered from a corpus, by the readers in `readers`. Four kinds of worlds have their own folders:
`kopl`, `sparql` and `programs` (worlds of facts), and `scenes` (worlds of images). A world that only one benchmark uses
is in `grid/datasets`, next to that benchmark.

`equivalence` decides by rules whether two values mean the same thing, including dates, times and units. `schema`
declares the protocol by which a world tells which arguments of a call must be names that the world has, for the
settings of `grid/robustness`. This package imports `core`, `text` and `retrievers`.
"""
