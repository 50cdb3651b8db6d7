"""Models that take turns on GPUs which do not hold all of them: pretended GPUs, and an engine that claims them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grid.store.schema import TIMES
from tests.support.claiming import package
from tests.support.clusters import UNGUARDED, head, member, wait_for
from tests.support.commands import Ended, launch, started

WAITS = r"a: has waited \d+ s for GPUs that others hold or the cluster does not have yet"
SWEEP = ("-m", "plugins=[claimers]", "planner=react,egb_logits", "robustness=none", "dataset.limit=3", "trials=1")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with head("--num-gpus=2") as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With four models, of which `d` needs both GPUs, and `b` has no memory while there is a file `broken`."""
    log = f"log: {tmp_path / 'loads'}\n"
    return package(
        tmp_path,
        a=f"gpus: 1\n{log}",
        b=f"gpus: 1\n{log}fails: {tmp_path / 'broken'}\n",
        c=f"gpus: 1\n{log}",
        d=f"gpus: 2\n{log}",
        half=f"gpus: 0.5\n{log}",
    )


def words(address: str, *more: str) -> list[str]:
    return [*SWEEP, "cluster=address", f"cluster.address={address}", "cluster.auth=disabled", *more]


def sweep(folder: Path, address: str, *more: str) -> Ended:
    return launch("sweep", folder, *words(address, *more), environment=UNGUARDED | {"PYTHONPATH": str(folder)})


def loads(folder: Path) -> list[str]:
    """Who was loaded, in that order."""
    return [json.loads(line)[0] for line in (folder / "loads").read_text().splitlines()]


def rows(done: Ended, name: str) -> dict[str, dict[str, Any]]:
    """What lasts of a sweep's rows, by the cell."""
    found = done.rows(name)
    assert len({row["cell_id"] for row in found}) == len(found)
    away = {*TIMES, "sweep"}
    return {row["cell_id"]: {key: value for key, value in row.items() if key not in away} for row in found}


@pytest.mark.long
def test_models_that_do_not_fit_together_take_turns_and_answer_as_alone(folder: Path, address: str) -> None:
    turns = sweep(folder, address, "model=a,b,c,d", "name=turns")
    assert turns.status == 0, turns.out + turns.err
    assert (
        "models take turns on 2 GPUs, because together they need 5: a (1 GPU), 6 cells; b (1 GPU), 6 cells;"
        in turns.out
    )
    assert "c: done, GPUs given back: 1" in turns.out
    told = loads(folder)
    assert set(told[:2]) == {"a", "b"}
    assert told[2:] == ["c", "d"], "each once"
    alone: dict[str, dict[str, Any]] = {}
    for model in "cd":
        alone |= rows(sweep(folder, address, f"model={model}", "name=alone"), "alone")
    found = rows(turns, "turns")
    assert len(found) == 4 * 2 * 3
    assert {cell: found[cell] for cell in alone} == alone
    assert len(alone) == 2 * 2 * 3


@pytest.mark.slow
def test_a_judge_stays_beside_actors_that_take_turns(folder: Path, address: str) -> None:
    done = sweep(folder, address, "model=a,b", "model@judge=c", "planner=tooltree", "planner.rollouts=2", "name=judged")
    assert done.status == 0, done.out + done.err
    assert "a (1 GPU) with c (1 GPU), 3 cells; b (1 GPU) with c (1 GPU), 3 cells" in done.out
    assert sorted(loads(folder)) == ["a", "b", "c"], "the judge once"
    assert "a: done, GPUs given back: 1" in done.out
    assert len(done.rows("judged")) == 6


@pytest.mark.long
def test_a_model_that_is_not_loaded_costs_its_own_cells_and_is_tried_again(folder: Path, address: str) -> None:
    (folder / "broken").touch()
    done = sweep(folder, address, "model=a,b,c", "name=broken", "cluster.retries=0", "most_unknown=null")
    assert done.status == 1, done.out + done.err
    assert "b cannot be loaded, so cells that need it do not run: " in done.out
    found = done.rows("broken")
    assert len(found) == 18
    failed = [row for row in found if row["status"] != "ok"]
    assert {row["error_kind"] for row in failed} == {"infrastructure"}
    assert {"no memory on this card" in row["error_message"] for row in failed} == {True}
    assert len(failed) == 6
    (folder / "broken").unlink()
    (folder / "loads").unlink()
    again = sweep(folder, address, "model=a,b,c", "name=broken", "retry_failed=true")
    assert again.status == 0, again.out + again.err
    assert loads(folder) == ["b"], "nothing else has cells left"
    assert {row["status"] for row in again.rows("broken")} == {"ok"}


@pytest.mark.slow
def test_a_sweep_that_is_killed_while_models_change_goes_on(folder: Path, address: str) -> None:
    environment = UNGUARDED | {"PYTHONPATH": str(folder)}
    with started("sweep", folder, *words(address, "model=a,b,c,d", "name=killed"), environment=environment) as (
        command,
        said,
    ):
        wait_for(lambda: "given back" in said("out"))
        command.kill()
    done = sweep(folder, address, "model=a,b,c,d", "name=killed")
    assert done.status == 0, done.out + done.err
    assert len(rows(done, "killed")) == 24
    assert {row["status"] for row in done.rows("killed")} == {"ok"}


@pytest.mark.slow
def test_halves_share_a_gpu_and_more_replicas_than_fit_are_fewer(folder: Path, address: str) -> None:
    done = sweep(
        folder, address, "model=half,c", "model@judge=half", "planner=react", "name=halves", "cluster.replicas=3"
    )
    assert done.status == 0, done.out + done.err
    assert "c: only 2 of 3 replicas start, because the cluster's GPUs hold no more" in done.out
    assert "models take turns on 2 GPUs, because together they need 3.5" in done.out


@pytest.mark.slow
def test_replicas_wait_for_the_machines_of_a_cluster_that_grows(folder: Path) -> None:
    environment = UNGUARDED | {"PYTHONPATH": str(folder)}
    with head() as empty:
        asked = words(empty, "model=a", "name=grown", "cluster.grows_to=1")
        with started("sweep", folder, *asked, environment=environment) as (command, said):
            wait_for(lambda: re.search(WAITS, said("out")) is not None)
            with member(empty, "--num-gpus=1"):
                command.join(600)
                assert command.exitcode == 0, said("out") + said("err")
