"""What planners, datasets, engines and robustness settings promise, as tests: of ours, or of a plugin.

`pytest --pyargs grid.contracts --plugin mylab` runs them over the files of `mylab/conf`.
"""
