"""One setting: model, planner, data set and robustness, read from a config, checked and built.

Read it in this order: `config` (the keys of a whole sweep: store, trials, budget, cluster), `setting` (a setting, its
cells, their ids and seeds), `make` (a class by its name; its keys and values are checked), `parts` (planner, data set
and robustness, each built once, what they ask models for, and in which order options stand), `roles` (who is asked, and
what that costs), `remembered` (what other cases showed), `build` (all of it, short of engines), `check` (a whole sweep
before a model is loaded), `plan` (what is to be run: chunks, and how settings take turns).

Only `make`, `parts`, `roles` and `build` know what a config looks like. Nothing here runs a cell or knows Ray.
"""
