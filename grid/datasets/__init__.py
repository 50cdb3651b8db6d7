"""Benchmarks: each one reads its files, or generates its cases from a seed, and provides problems.

A problem has a case, its tools, a world, a reference and a scorer. A file in `conf/dataset` names a benchmark's class.

Start with `dataset` (the shared base, which makes cases from records, skips unusable records and orders the cases).
Then read `ultratool` (one file) or `functions` (a JSON Lines file and Python functions), then the folder `slate`, whose
`slate/dataset` generates its cases from a seed. `null` is for measurements. `files` reads untrusted files. `milestones`
reads a task's milestones and forbidden calls from its line in a task file. Three modules are each shared by several
data sets: `question_answering` (with demonstrations) by data sets that ask questions over facts, `parameters` by data
sets whose tools come from JSON schemas, and `grading` (a model grades a final answer) by benchmarks that a model grades
or whose tools are not available.

Benchmarks that consist of one or more modules: `apb` and `apb_records`, `apibench` and `apibench_trees`, `bfcl` and
`bfcl_records`, `gta`, `mcp` with `mcp_tasks`, `mcp_world`, `mcp_session` and `mcp_links`, `mnms` and `mnms_records`,
`restbench` and `restbench_world`, `stabletoolbench` and `stabletoolbench_records`, `workbench` with `workbench_tools`
and `workbench_table`. The others are folders whose module `dataset` contains the class: `kqa`, `apb_synthetic` and
`gta_generated` (cases from a seed), `freebase` (cases from a seed, or from files), `hotpotqa`, `tau2`, `traject_bench`.
A world that only one benchmark uses is next to that benchmark. This package imports `metrics`, `episode`, `worlds` and
the packages below them.
"""
