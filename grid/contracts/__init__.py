"""The promises of planners, datasets, engines and robustness settings, as tests: for ours, or for a plugin's.

`pytest --pyargs grid.contracts --plugin mylab` runs them over the files of `mylab/conf`.
"""
