"""Pools: the tools from which a case's tools are retrieved. If nothing is retrieved, the whole pool is offered.

Read it in this order: `whole` (the protocol, and the pool of all tools), `domain` (the tools of the case's domain),
`case` (the tools that the case itself names), `grown` (any number of tools, also from files: tooltree A.11). The files
in `conf/pool` name the pools' classes. This package imports `datasets` and the packages below it.
"""
