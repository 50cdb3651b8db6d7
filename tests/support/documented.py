"""The commands that README.md, BENCHMARKS.md and docs/ show, and what a test does with each of them.

A command is run, is held against what its program takes, or is excused with a reason. One that is none of these fails.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from docs import facts
from docs.facts import commands
from launch.main import main

ROOT = Path(__file__).parents[2]
_FILES = [ROOT / "README.md", ROOT / "BENCHMARKS.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [file.name for file in _FILES]
_FENCED = re.compile(r"^ *```bash\n(?P<body>.*?)^ *```$", re.S | re.M)
_TOLD = commands.told
_SMALL = ("dataset.limit=4", "cluster.cpus=2", "cluster.dashboard=false")
ENDPOINTS = (
    "agent-grid sweep -m --config-dir endpoints model=lab-7b,lab-70b planner=react,plan_first robustness=none "
    "dataset.limit=20 name=two"
)
"""Of two servers; `tests/openai_http/test_two_endpoints.py` runs it."""
FIRST = (
    "agent-grid sweep -m planner=react,zero_shot,self_consistency robustness=none dataset.limit=20 trials=2 name=first"
)
"""Of the first page; what is run after it reads its results."""
CELL = "CELL_ID"
RUN: Mapping[str, Sequence[str]] = {
    FIRST: _SMALL,
    "agent-grid report results/first": (),
    "agent-grid report results/first --wide": (),
    "agent-grid report results/first --tables tables --figures figures": (),
    "agent-grid report results/first --follow": (),
    "agent-grid report results/first results/mine --into results/both": (),
    "agent-grid report results/first results/mine": (),
    "agent-grid view results/first --export pages": (),
    f"agent-grid view results/first --export one --cell {CELL}": (),
    "agent-grid power results/first --planners react,self_consistency --difference 10": ("--studies", "200"),
    "agent-grid power --simulated planner=react,self_consistency dataset.limit=20 trials=2 --difference 10": (
        "--studies", "200",
    ),
    "agent-grid power --rate 0.3 --difference 5": ("--studies", "200"),
    "agent-grid power --rate 0.3 --difference 5 --cluster-size 4 --icc 0.5 --comparisons 6": ("--studies", "200"),
    "agent-grid show slate 0 --planner react": (),
    "agent-grid show slate 0 --planner react dataset.outline=hidden": (),
    "agent-grid sweep --cfg job planner=react": (),
    "agent-grid sweep --info defaults planner=react": (),
    "agent-grid new planner careful": (),
    "agent-grid new dataset desk": (),
    "agent-grid sweep -m 'plugins=[mylab]' planner=careful,react dataset=desk robustness=none trials=1 name=first": (
        "dry_run=true",
    ),
    "agent-grid data desk --plugin mylab --check": (),
    "agent-grid data desk --plugin mylab --show 1": (),
    "agent-grid sweep -m 'plugins=[mylab]' dataset=desk planner=react,plan_first robustness=none trials=1 name=try": (
        "cluster=inline",  # workers of this cluster do not know the package
    ),
    "agent-grid sweep -m --config-dir mine planner=my_agent,react dataset.limit=20 robustness=none name=beside": (
        *_SMALL, "trials=1",
    ),
    ENDPOINTS: ("dry_run=true",),
    f"python -m grid.store transcript results/first {CELL}": (),
    "python -m grid.store compact results/first": (),
    "agent-grid data slate --show 5": (),
    "agent-grid data gta_generated --stats --show 5": (),
}  # fmt: skip
"""Commands that run for real in a scratch folder, in this order, with what is added so that they are small."""


def with_agent(folder: Path) -> None:
    """Put the file of `your-agent.md` into a scratch folder, with an agent of which it is."""
    found = re.search(r"```yaml\n(defaults:.*?)```", (ROOT / "docs/your-agent.md").read_text(encoding="utf-8"), re.S)
    assert found
    (folder / "mine/planner").mkdir(parents=True)
    (folder / "mine/planner/my_agent.yaml").write_text(
        found[1].replace("command: python", f"command: {sys.executable}")
    )
    agent = Path(__file__).with_name("agent.py").read_text(encoding="utf-8")
    (folder / "my_agent.py").write_text(agent.replace("sys.argv[1]", "'loop'"))


def with_desk(folder: Path) -> None:
    """Put the tools and tasks of `tools.md` into the package that `agent-grid new dataset desk` has written."""
    page = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
    for kind, ending in (("python", "py"), ("json", "jsonl")):
        blocks = re.findall(rf"```{kind}\n(.*?)```", page, re.S)
        text = next(block for block in blocks if "find_book" in block)
        (folder / f"mylab/datasets/desk.{ending}").write_text(text, encoding="utf-8")


def with_endpoints(folder: Path, urls: Sequence[str]) -> None:
    """Put the files of `endpoint.md` into a scratch folder, with the addresses of servers."""
    page = (ROOT / "docs/endpoint.md").read_text(encoding="utf-8")
    files = re.findall(r"```yaml\n# (endpoints/\S+)\n(.*?)```", page, re.S)
    for (name, text), url in zip(files, urls, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(re.sub(r"http://\S+", url, text))


EXCUSED: Mapping[str, str] = {
    r"python slate/score\.py .*": "a file that --export writes; tests/unit/datasets/test_slate_scoring.py runs it",
    r"(python3 -m venv|pip install|pip wheel) .*": "takes packages from a registry; .ci/run runs those of README",
    r"\. \.venv/bin/activate": "the environment that the line before has made",
    r"pip uninstall .*": "changes the environment; .ci/run runs it",
    r"eval .*": "sets up the reader's shell; tests/unit/sweeps/test_main.py completes words",
    r"export .*": "sets a variable of the reader's shell",
    r"(python )?launch/offline/\w+\.(sh|py) .*": "needs a kit; tests/with_torch/test_sources.py converts a file",
    r"\. site/environment\.sh": "what the line before has made",
    r"(mkdir|cd) .*": "makes or enters the folder in which the next commands stand",
    r"ray start .*": "a cluster of several machines; tests/ray starts one",
    r"sbatch .*": "a Slurm cluster; tests/unit/cluster/test_cluster_files.py reads the script",
    r"kubectl .*": "a Kubernetes cluster; tests/unit/cluster/test_cluster_files.py holds the file against its schema",
    r"inspect view .*": "a server of others; tests/unit/analysis/test_inspect_logs.py reads what it lists",
    r"(prometheus|grafana) .*": "programs of others; tests/ray/test_metrics.py reads what they would show",
    r"(python -m )?pytest.*": "minutes; .ci/run runs the tests, and the contracts for examples/mylab",
    r"python -m sphinx .*": "the extra docs; .ci/run makes the pages",
}  # fmt: skip
"""By pattern, why a command is neither run nor held against anything."""


class Shown(NamedTuple):
    """A command as a page shows it, comments and line ends left out."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """As a shell splits it."""
        return shlex.split(self.text)

    @property
    def program(self) -> str:
        """`agent-grid sweep`, also of `python launch/sweep.py`; `python -m MODULE`; else the first word."""
        first, *rest = self.words
        if first == "agent-grid":
            return f"agent-grid {rest[0]}"
        if first == "python" and rest[0] == "-m":
            return f"python -m {rest[1]}"
        if first == "python" and rest[0].startswith("launch/"):
            return f"agent-grid {Path(rest[0]).stem}"
        return first

    @property
    def arguments(self) -> list[str]:
        """What stands behind the program."""
        return self.words[3 if self.program.startswith("python -m") else 2 :]


@cache
def pages() -> dict[str, str]:
    """The text of every page, facts filled in; what commands say of themselves is said in this process."""
    with patch.object(commands, "told", said):
        return {file.name: facts.expanded(file.read_text(encoding="utf-8")) for file in _FILES}


def said(arguments: Sequence[str]) -> str:
    """What `docs.facts.commands.told` gives, without the second that a process takes; Hydra's own help needs one."""
    if arguments[0] == "sweep":
        return _TOLD(arguments)
    out = StringIO()
    with (
        patch.object(sys, "argv", ["main.py", *arguments]),
        patch.dict(os.environ, {"COLUMNS": commands.WIDTH}),
        redirect_stdout(out),
        suppress(SystemExit),
    ):
        main()
    return out.getvalue()


@cache
def shown() -> tuple[Shown, ...]:
    """Every command of every page, each once a page."""
    found = [Shown(page, text) for page, body in pages().items() for text in _commands(body)]
    return tuple(dict.fromkeys(found))


def excuse(command: Shown) -> str | None:
    """Why a command is not run, where there is a reason."""
    return next((why for pattern, why in EXCUSED.items() if re.fullmatch(pattern, command.text)), None)


def _commands(text: str) -> Iterator[str]:
    for block in _FENCED.finditer(text):
        lines = block["body"].replace("\\\n", " ").split("\n")
        for line in lines:
            words = shlex.split(line, comments=True)
            if words:
                yield from _simple(line)


def _simple(line: str) -> Iterator[str]:
    """The commands that `&&` joins, without a comment, the environment's folder and further blanks."""
    bare = re.sub(r"\s+# .*$", "", line).replace(".venv/bin/python ", "python ").replace(".venv/bin/pip ", "pip ")
    for part in bare.split("&&"):
        yield " ".join(part.split())
