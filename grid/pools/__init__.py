"""Pools: out of which tools a case's tools are retrieved, or offered where nothing is retrieved.

Read it in this order: `base`, `whole`, `domain`, `case`, `grown` (tooltree A.11) with its `tool_files`. `conf/pool`
names its classes. It imports `datasets` and what is below.
"""
