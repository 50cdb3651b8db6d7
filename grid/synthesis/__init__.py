"""Making data with a model: your own benchmark, which the model writes and which is checked by running it.

Cases that code draws from a seed are made in `datasets`. This package is above all that a sweep uses, and no sweep
imports it. `slate` is egb_slate's construction: its command and the order of its stages. `config` has the keys of a
construction, `asking` asks the model and checks its answers. The stages are `tools`, `plans`, `queries`, `substeps`
(with outcomes); `by_queries` is the paper's order, queries first.
"""
