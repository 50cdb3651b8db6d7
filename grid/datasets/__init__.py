"""Benchmarks: each reads its files, or generates its cases from a seed, and gives problems.

A problem has a case, its tools, a world, a reference and a scorer. `conf/dataset` names a benchmark's class.

Begin with `dataset` (the shared base: it makes cases from records, skips unusable records and orders the cases). Then
read `ultratool` (one file) or `functions` (a JSON Lines file and Python functions), then the folder `slate`, whose
`slate/dataset` generates its cases from a seed. `null` is for measurements. `files` reads untrusted files. `milestones`
reads the milestones and the forbidden calls that a line of a file of tasks gives. Three modules are shared by several
data sets: `question_answering` (with demonstrations) by data sets of questions over facts, `parameters` by data sets
whose tools come from JSON schemas, and `grading` (a model's grade of a final answer) by benchmarks that a model grades,
or whose tools are not available.

Benchmarks of one file or several: `apb` and `apb_records`, `apibench` and `apibench_trees`, `bfcl` and `bfcl_records`,
`gta`, `mcp` with `mcp_tasks`, `mcp_world`, `mcp_session` and `mcp_links`, `mnms` and `mnms_records`, `restbench` and
`restbench_world`, `stabletoolbench` and `stabletoolbench_records`, `workbench` with `workbench_tools` and
`workbench_table`. The others are folders, in which `dataset` has the class: `kqa`, `apb_synthetic` and `gta_generated`
(cases from a seed), `freebase` (cases from a seed, or from files), `hotpotqa`, `tau2`, `traject_bench`. A world that
only one benchmark uses is beside that benchmark. This package imports `metrics`, `episode`, `worlds` and the packages
below them.
"""
