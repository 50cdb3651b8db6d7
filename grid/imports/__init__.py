"""Runs made with other tools, as rows of ours: so that one set of statistics serves both.

`inspect_logs` reads logs of Inspect with its own library, `tau2_results` what τ²-bench's runner wrote; each gives
what all its samples share, and the samples. `episodes` says what these are, and makes rows of them: what a file does
not tell is null.

It imports `store` and what is below; nothing of a sweep imports it. `launch/importing.py` is the command.
"""

IMPORTED = "imported"
"""The key of a row's `config` that says where it came from; rows of sweeps have none."""
RECORDED = {"inspect_ai": "Inspect", "tau2": "τ²-bench's runner"}
"""What recorded imported rows, by their `engine`; it is no sweep's."""
