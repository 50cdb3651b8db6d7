"""Benchmarks: each reads its files, or makes its cases from a seed, and gives problems.

A problem has a case, its tools, a world, a reference and a scorer.

A folder or file a benchmark; `conf/dataset` names its class. Begin with `dataset` (what all share: cases out of
records, what is skipped, a first part that is a sample), then `ultratool` (one file) or `functions` (a JSON Lines
file and Python functions), then `slate`; `null` is for measurements. `files` reads what nobody vouches for,
`sampling` says which cases are taken and in which order.

`question_answering` and `nearest` (demonstrations) are shared by questions over facts, `parameters` and
`alternatives` by tools out of schemas, `grading` by benchmarks that a model grades, or whose tools nobody has. It
imports `metrics`, `episode`, `worlds` and what is below.
"""
