"""Retrievers: the tools that a decision is offered from a pool, by words, by meaning, all, or the right ones first.

Read it in this order: `scored` (BM25, dense and hybrid retrieval: how tools, and any other texts, are ranked, by words
or by meaning, and how many are kept), `oracle` (the right ones first), `unranked` (all of them). `sources` gets an
embedding model. `conf/retriever` names their classes. The room imports `core`, `text` and `engines`.
"""
