"""Runs of other tools as rows of our tables, so that the same statistics serve both.

`inspect_logs` reads logs of Inspect with its own library, `tau2_results` reads files of τ²-bench's runner; each gives
the common data of all samples, and the samples. `episodes` defines these, and makes rows of them: a value that a file
does not have is null.

It imports `store` and the layers below; no module of a sweep imports it. `launch/importing.py` is the command.
"""

IMPORTED = "imported"
"""The key of a row's `config` that says where the row came from; rows of sweeps do not have it."""
RECORDED = {"inspect_ai": "Inspect", "tau2": "τ²-bench's runner"}
"""The programs that recorded imported rows, by the rows' `engine`, which no sweep's row has."""
