"""The promises of planners, datasets, engines and robustness settings, as tests of our own files or of a plugin's.

`pytest --pyargs grid.contracts --plugin mylab` tests the files of `mylab/conf`.
"""
