"""One setting: model, planner, data set and robustness, read from a config, checked and built.

Read it in this order: `config` (what the command line gives), `setting` (a setting and its cells), `make` (a class by
its name), `parts` (planner, data set and robustness, and what they ask models for), `roles` (who is asked), `build`
(all of it, short of engines), `check` (a whole sweep before a model is loaded), `plan` (what is to be run). The
others are parts of these: `pooled` (data sets and pools, each built once), `remembered` (what other cases showed),
`fitting` (whether parts go together), `prices`, `keeping` (whose requests are kept).

Only `make`, `parts`, `roles` and `build` know what a config looks like. Nothing here runs a cell or knows Ray.
"""
