"""Runs of other tools as rows of our tables, so that the same statistics can be computed for their runs and ours.

`inspect_logs` reads logs of Inspect with Inspect's own library; `tau2_results` reads files of τ²-bench's runner. Both
modules return the samples of a run, and the data that all its samples have in common. `episodes` defines the types of
samples and data, and makes rows from them. Values that a file does not have are null.

This package imports `cells`, `store` and the layers below; no module of a sweep imports it. `launch/importing.py` is
the command.
"""

IMPORTED = "imported"
"""The key of a row's `config` that says where the row came from; rows of sweeps do not have this key."""
RECORDED = {"inspect_ai": "Inspect", "tau2": "τ²-bench's runner"}
"""The programs that recorded imported rows, as named in the rows' `engine`; rows of sweeps have other engines."""
