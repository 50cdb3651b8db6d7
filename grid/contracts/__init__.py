"""The promises of planners, datasets, engines and robustness settings, as tests of our own files or a plugin's files.

`pytest --pyargs grid.contracts --plugin mylab` tests the files of `mylab/conf`.
"""
