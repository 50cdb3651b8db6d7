"""Benchmarks: each reads its files, or makes its cases from a seed, and gives problems.

A problem has a case, its tools, a world, a reference and a scorer. `conf/dataset` names a benchmark's class.

Begin with `dataset` (what all share: cases out of records, what is skipped, in which order they are taken), then
`ultratool` (one file) or `functions` (a JSON Lines file and Python functions), then the folder `slate`, whose
`slate/dataset` generates its cases from a seed; `null` is for measurements. `files` reads what nobody vouches for,
`milestones` what a line names on the way and forbids. `question_answering` (with demonstrations) is shared by questions
over facts, `parameters` by tools out of schemas, `grading` (a model's grade of a final answer) by benchmarks that a
model grades, or whose tools nobody has.

Of one file or several: `apb` and `apb_records`, `apibench` and `apibench_trees`, `bfcl` and `bfcl_records`, `gta`,
`mcp` with `mcp_tasks`, `mcp_world`, `mcp_session` and `mcp_links`, `mnms` and `mnms_records`, `restbench` and
`restbench_world`, `stabletoolbench` and `stabletoolbench_records`, `workbench` with `workbench_tools` and
`workbench_table`. The others are folders, in which `dataset` has the class: `kqa`, `apb_synthetic` and `gta_generated`
(cases from a seed), `freebase` (cases from a seed, or from files), `hotpotqa`, `tau2`, `traject_bench`. A world that
only one benchmark has stands beside it. The room imports `metrics`, `episode`, `worlds` and what is below.
"""
