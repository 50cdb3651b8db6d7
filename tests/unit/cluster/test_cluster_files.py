"""The launch files for Slurm and KubeRay; Slurm's and Ray's programs are stood in for, but for the slow test."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
import yaml
from omegaconf import OmegaConf

from grid import store
from grid.sweeps import arguments
from grid.sweeps.composing import multirun

ROOT = Path(__file__).parents[3]
SBATCH = ROOT / "launch/slurm.sbatch"
SCHEMA = Path(__file__).parents[1] / "data/kuberay_rayjob_schema.yaml"
PATIENCE_SECONDS = 300.0
_JOBS = itertools.count()

# Slurm's programs: srun runs its command on this machine once, as the second node would.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
SCONTROL = """#!/bin/bash
echo "$@" >>"$STAND_IN/scontrol"
"""
# `ray start` writes where the head is and lasts until it is ended.
RAY = """#!/bin/bash
echo $$ "$@" >>"$STAND_IN/ray"
for option in "$@"; do
    if [[ $option == --temp-dir=* ]]; then temp=${option#*=}; fi
done
if [[ " $* " == *" --head "* ]]; then
    if [[ -e $STAND_IN/no_head ]]; then exit 1; fi
    mkdir -p "$temp"
    echo 10.0.0.1:4321 >"$temp/ray_current_cluster"
fi
exec sleep 600
"""
# `python -` is the wait for the nodes, `python launch/sweep.py` the sweep; the rest is Python's.
PYTHON = """#!/bin/bash
case $1 in
-) cat >/dev/null; if [[ -e $STAND_IN/no_join ]]; then exit 1; fi ;;
launch/sweep.py) shift; exec REAL "$STAND_IN/sweep.py" "$@" ;;
*) exec REAL "$@" ;;
esac
"""
SWEEP = """
import json, os, sys, time
here, token = os.environ["STAND_IN"], os.environ["RAY_AUTH_TOKEN_PATH"]
seen = {"arguments": sys.argv[1:], "auth": os.environ["RAY_AUTH_MODE"], "token": open(token).read().strip(),
        "token_path": token, "mode": os.stat(token).st_mode}
with open(f"{here}/new", "w") as file:
    json.dump(seen, file)
os.replace(f"{here}/new", f"{here}/sweep")
try:
    while not os.path.exists(f"{here}/status"):
        time.sleep(0.02)
except KeyboardInterrupt:
    sys.exit(1)
sys.exit(int(open(f"{here}/status").read()))
"""


class Allocation:
    """The script as Slurm runs it on the first of its nodes, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = f"{os.getpid()}{next(_JOBS)}"  # as short as Slurm's: it is part of the path of Ray's sockets
        self.output = folder / "output"
        programs = folder / "environment/bin"
        programs.mkdir(parents=True)
        python = PYTHON.replace("REAL", shlex.quote(sys.executable))
        for name, text in {"srun": SRUN, "scontrol": SCONTROL, "ray": RAY, "python": python}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        (programs / "activate").write_text(f"PATH={shlex.quote(str(programs))}:$PATH\n")
        (folder / "sweep.py").write_text(SWEEP)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, nodes: int = 2, restarted: int = 0) -> subprocess.Popen[bytes]:
        slurm = {
            "SLURM_JOB_ID": self.job,
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_CPUS_PER_TASK": "1",
            "SLURM_RESTART_COUNT": str(restarted),
            "SLURMD_NODENAME": "first",
        }
        environment = os.environ | slurm | {"VIRTUAL_ENV": str(self.folder / "environment")}
        environment["STAND_IN"] = str(self.folder)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", str(SBATCH), *arguments], cwd=self.folder, env=environment, stdout=output, stderr=output
            )
        return self.process

    def run(self, *arguments: str, status: int = 0, nodes: int = 2) -> int:
        (self.folder / "status").write_text(str(status))
        return self.start(*arguments, nodes=nodes).wait(PATIENCE_SECONDS)

    def sweep(self) -> dict[str, Any]:
        """What the sweep saw when it began; waits for it."""
        until((self.folder / "sweep").exists)
        seen: dict[str, Any] = yaml.safe_load((self.folder / "sweep").read_text())
        return seen

    def lines(self, program: str) -> list[str]:
        """How a program was called."""
        path = self.folder / program
        return path.read_text().splitlines() if path.exists() else []


def composed(overrides: list[str]) -> dict[str, Any]:
    """The config that launch/sweep.py makes of its arguments, once they have passed its check."""
    arguments.check(overrides)
    with multirun(overrides) as settings:
        return cast(dict[str, Any], OmegaConf.to_container(next(settings).config))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def allocation(tmp_path: Path) -> Iterator[Allocation]:
    made = Allocation(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.terminate()
        made.process.wait(PATIENCE_SECONDS)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_has_nothing_to_say() -> None:
    checked = subprocess.run(["shellcheck", str(SBATCH)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("chosen", "root"),
    [
        (None, "results"),
        ("store.root=elsewhere/results", "elsewhere/results"),
        ("store.root='a b'", "a b"),
        ("++store.root='été, \\'95'", "été, '95"),
        ("store.root=s3://bucket/results", "results"),  # where Ray's own files are
    ],
)
def test_a_sweep_gets_the_arguments_and_its_cluster(allocation: Allocation, chosen: str | None, root: str) -> None:
    given = ["-m", "name=mine", "planner=react,egb_logits", "robustness=[inaccurate_plan,extraneous]"]
    given += [chosen] if chosen else []
    assert allocation.run(*given) == 0
    seen = allocation.sweep()
    cluster = seen["arguments"][len(given) :]
    assert seen["arguments"][: len(given)] == given
    assert cluster[:3] == ["cluster=address", "cluster.address=10.0.0.1:4321", "cluster.auth=token"]
    config = composed([*given[4:], *cluster])
    whole = "s3://bucket/results" if chosen and "://" in chosen else str(allocation.folder / root)
    assert (config["cluster"]["kind"], config["cluster"]["auth"], config["store"]["root"]) == (
        "address",
        "token",
        whole,
    )
    assert Path(seen["token_path"]).is_relative_to(allocation.folder / root / ".slurm")


def test_a_project_whose_path_is_not_ascii(tmp_path: Path) -> None:
    folder = tmp_path / "Projekt 'ä'"
    folder.mkdir()
    allocation = Allocation(folder)
    assert allocation.run("-m") == 0
    assert composed(allocation.sweep()["arguments"][1:])["store"]["root"] == str(folder / "results")


@pytest.mark.parametrize(("nodes", "started"), [(1, 1), (2, 2)])
def test_a_head_starts_and_the_others_join_it(allocation: Allocation, nodes: int, started: int) -> None:
    assert allocation.run("-m", nodes=nodes) == 0
    calls = allocation.lines("ray")
    assert len(calls) == started
    assert "--head" in calls[0]
    assert all("--address=10.0.0.1:4321" in call for call in calls[1:])
    assert not any(alive(int(call.split()[0])) for call in calls)


def test_the_token_is_the_users_alone_and_goes_with_the_job(allocation: Allocation) -> None:
    assert allocation.run("-m") == 0
    seen = allocation.sweep()
    assert seen["auth"] == "token"
    assert len(seen["token"]) == 64
    assert stat.S_IMODE(seen["mode"]) == 0o600
    assert not Path(seen["token_path"]).exists()
    assert not any(seen["token"] in line for name in ("output", "ray", "scontrol") for line in allocation.lines(name))


@pytest.mark.long
@pytest.mark.parametrize("status", [0, 1, 2])
def test_the_exit_status_is_the_sweeps(allocation: Allocation, status: int) -> None:
    assert allocation.run("-m", status=status) == status
    assert allocation.lines("scontrol") == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "restarted", "queued"),
    [(signal.SIGINT, 0, True), (signal.SIGINT, 10, False), (signal.SIGTERM, 0, False)],
)
def test_a_signal_interrupts_the_sweep(
    allocation: Allocation, sent: signal.Signals, restarted: int, queued: bool
) -> None:
    script = allocation.start("-m", restarted=restarted)
    allocation.sweep()
    script.send_signal(sent)
    assert script.wait(PATIENCE_SECONDS) == 1
    assert allocation.lines("scontrol") == ([f"requeue {allocation.job}"] if queued else [])


@pytest.mark.parametrize(("missing", "told"), [("no_head", "no Ray head on first"), ("no_join", "")])
def test_without_all_nodes_no_sweep_begins(allocation: Allocation, missing: str, told: str) -> None:
    (allocation.folder / missing).touch()
    assert allocation.run("-m") == 1
    assert not (allocation.folder / "sweep").exists()
    assert told in allocation.output.read_text()
    assert not any(alive(int(call.split()[0])) for call in allocation.lines("ray"))


@pytest.mark.slow
def test_two_nodes_of_this_machine_run_a_sweep(allocation: Allocation) -> None:
    programs = allocation.folder / "environment/bin"
    for name in ("ray", "python"):
        (programs / name).unlink()
    (programs / "activate").write_text(f"PATH={programs}:{Path(sys.executable).parent}:$PATH\ncd {ROOT}\n")
    root = allocation.folder / "results"
    overrides = ["planner=react", "robustness=none", "dataset.limit=5", "trials=1", "name=two", f"store.root={root}"]
    assert allocation.start("-m", *overrides).wait(PATIENCE_SECONDS * 5) == 0, allocation.output.read_text()
    assert store.read(root / "two", "episodes").num_rows == 5


@pytest.fixture(scope="module")
def rayjob() -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load((ROOT / "launch/kuberay.yaml").read_text())
    return job


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def test_a_rayjob_is_what_kuberay_takes(rayjob: dict[str, Any]) -> None:
    assert (rayjob["apiVersion"], rayjob["kind"]) == ("ray.io/v1", "RayJob")
    schema = yaml.safe_load(SCHEMA.read_text())
    jsonschema.validate(rayjob["spec"], schema)
    with pytest.raises(jsonschema.ValidationError, match="authOption"):
        jsonschema.validate({"rayClusterSpec": {"headGroupSpec": {"template": {}}, "authOption": {}}}, schema)


def test_a_rayjob_may_give_every_pod_the_credentials_of_a_secret() -> None:
    text = (ROOT / "launch/kuberay.yaml").read_text()
    job: dict[str, Any] = yaml.safe_load(text.replace("# envFrom", "envFrom"))
    jsonschema.validate(job["spec"], yaml.safe_load(SCHEMA.read_text()))
    for pod in pods(job):
        assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "agent-grid"}}]


def test_a_rayjob_runs_the_pinned_ray_with_a_token(rayjob: dict[str, Any]) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    cluster = rayjob["spec"]["rayClusterSpec"]
    assert f"ray[default]=={cluster['rayVersion']}" in wanted
    assert cluster["authOptions"] == {"mode": "token"}


def test_a_rayjobs_entrypoint_is_a_sweep_on_its_cluster(rayjob: dict[str, Any]) -> None:
    entrypoint = rayjob["spec"]["entrypoint"]
    assert not set(entrypoint) & set("'\"$`;&|\n")  # it passes through a shell of KubeRay's
    python, script, multirun, *overrides = shlex.split(entrypoint)
    assert (python, Path(script).parts[-2:], multirun) == ("python", ("launch", "sweep.py"), "-m")
    config = composed(overrides)
    cluster = config["cluster"]
    assert (cluster["kind"], cluster["address"], cluster["auth"]) == ("address", "127.0.0.1:6379", "token")
    workers = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    gpus = int(pods(rayjob)[1]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
    assert workers["replicas"] * gpus == cluster["replicas"] * config["model"]["serving"]["tensor_parallel"]
    for pod in pods(rayjob):
        mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        claims = [volume["name"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
        assert config["store"]["root"] in [mounts[name] for name in claims]
