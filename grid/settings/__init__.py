"""One setting: model, planner, data set and robustness, read from a config, checked and built.

Read it in this order: `config` (the keys of a whole sweep: store, trials, budget, cluster), `setting` (a setting, its
cells, their ids and seeds), `make` (a class by its name; its keys and values are checked), `parts` (planner, data set
and robustness, each built once; what they ask models for; the order of options), `roles` (which engine answers for
which role, and what its tokens cost), `remembered` (reads the traces of an earlier sweep's cases), `build` (builds a
whole setting without loading engines), `named` (the cases that a sweep names), `served` (rows whose ids say
where a model is), `weights` (the identity of a model in your own folder), `check` (checks a whole sweep before a model
is loaded), `extras` (packages that parts need), `plan` (the schedule: chunks, and how settings take turns).

Only `make`, `parts`, `roles` and `build` know the form of a config. Nothing here runs a cell or knows Ray.
"""
