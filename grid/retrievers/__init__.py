"""Retrievers: they choose the tools of a pool that are offered for a decision.

Read it in this order: `scored` (BM25, dense and hybrid retrieval, which rank tools and other texts by words or by
meaning), `oracle` (offers the right tools first), `unranked` (offers all tools). `sources` fetches an embedding model.
The files in `conf/retriever` name the retrievers' classes. This package imports `core`, `text` and `engines`.
"""
