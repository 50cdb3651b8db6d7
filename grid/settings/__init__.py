"""One setting: model, planner, data set and robustness, read from a config, checked and built.

Read it in this order: `config` (what the command line gives), `setting` (a setting and its cells), `roles` (who is
asked), `make` (a class by its name), `build` (all of it, short of engines), `check` (a whole sweep before a model is
loaded), `plan` (what is to be run). The others are parts of these: `plain_values`, `ordering`, `pooled`, `turns`,
`solved` and `remembered` (cases and pools), `fitting`, `caps`, `prices`, `keeping`.

Only `build` and `make` know what a config looks like. Nothing here runs a cell or knows Ray.
"""
