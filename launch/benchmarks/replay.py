"""Recorded requests answered by vLLM's offline interface, in a separate process: `python -m ... ARGUMENTS.json`.

This module imports nothing but vLLM and the code that sets vLLM's environment. vLLM 0.32 replaces Triton's kernels with
its own. To do so, it reads every imported module (`vllm.triton_utils.dispatcher`), and it fails on the modules of
llvmlite, which bm25s imports through numba if numba is installed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from grid.engines.vllm.engine import CPU_ENVIRONMENT

NICE = 15  # the niceness that Ray gives its workers, and so a replica


def serve(model: str, arguments: dict[str, Any]) -> None:
    """Load the model, then replay each file of requests named on stdin; writes a line with the result for each."""
    os.nice(max(NICE - os.nice(0), 0))
    # Use as many threads as a single replica does; by default, vLLM would use one thread in a serving process.
    os.environ.update(CPU_ENVIRONMENT, OMP_NUM_THREADS=str(os.cpu_count()), VLLM_LOGGING_LEVEL="ERROR")
    answers, sys.stdout = sys.stdout, sys.stderr  # vLLM writes to stdout too
    from vllm import LLM

    llm = LLM(model=model, disable_log_stats=True, **arguments)
    for line in sys.stdin:
        print(json.dumps(_replay(llm, json.loads(Path(line.strip()).read_text()))), file=answers, flush=True)


def _replay(llm: Any, rows: list[dict[str, Any]]) -> dict[str, float]:
    """The seconds and tokens of all requests, sent in one call with a cold cache; vLLM batches as many as it can."""
    from vllm import SamplingParams
    from vllm.inputs import tokens_input
    from vllm.sampling_params import StructuredOutputsParams

    prompts, params = [], []
    for row in rows:
        how = dict(row["how"])
        if how.get("structured_outputs"):
            how["structured_outputs"] = StructuredOutputsParams(grammar=how["structured_outputs"])
        prompts.append(tokens_input(row["tokens"]))
        params.append(SamplingParams(**how))
    if not llm.reset_prefix_cache():
        raise RuntimeError("vLLM's prefix cache cannot be emptied")
    started = time.perf_counter()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    return {
        "seconds": time.perf_counter() - started,
        "input": sum(len(output.prompt_token_ids) for output in outputs),
        "output": sum(len(output.outputs[0].token_ids) for output in outputs),
        "cached": sum(output.num_cached_tokens or 0 for output in outputs),
    }


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    serve(given["model"], given["arguments"])
