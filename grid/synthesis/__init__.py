"""Makes data: a benchmark of one's own, written by a model and checked by running it.

It stands above all that a sweep uses, and no sweep imports it. `slate` is egb_slate's construction.
"""
