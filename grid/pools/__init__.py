"""Pools: the tools from which a case's tools are retrieved, or which are offered if nothing is retrieved.

Read it in this order: `whole` (the protocol, and the pool of every tool), `domain` (the tools of the case's
domain), `case` (the tools that the case itself names), `grown` (as many tools as are wanted, tooltree A.11, also from
files). `conf/pool` names its classes. It imports `datasets` and the rooms below it.
"""
