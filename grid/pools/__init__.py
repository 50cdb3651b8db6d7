"""Pools: out of which tools a case's tools are retrieved, or offered where nothing is retrieved.

Read it in this order: `whole` (what all share, and every tool), `domain` (those of the case's domain), `case`
(those that the case itself names), `grown` (as many as are wanted, tooltree A.11, also out of files). `conf/pool` names
its classes. It imports `datasets` and what is below.
"""
