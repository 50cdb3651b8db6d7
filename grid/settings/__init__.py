"""One setting: model, planner, data set and robustness, read from a config, checked and built.

Read it in this order: `config` (the keys of a whole sweep: store, trials, budget, cluster), `setting` (a setting, its
cells, their ids and seeds), `make` (a class by its name; its keys and values are checked), `parts` (planner, data set
and robustness, each built once, what they ask models for, and in which order options stand), `roles` (which engine
answers for which role, and what its tokens cost), `remembered` (reads what an earlier sweep's cases showed), `build`
(all of it, short of engines), `named` (the cases that a sweep names), `served` (rows whose ids say where a
model is), `weights` (the identity of a model in a folder of your own), `check` (a whole sweep before a model is
loaded), `extras` (packages that parts need), `plan` (the schedule: chunks, and how settings take turns).

Only `make`, `parts`, `roles` and `build` know what a config looks like. Nothing here runs a cell or knows Ray.
"""
