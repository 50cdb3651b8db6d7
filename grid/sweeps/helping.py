"""What `agent-grid sweep --help` prints: examples, the files to choose from, the flags."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path

_GROUPS = {
    "model": "",
    "planner": "",
    "dataset": "",
    "robustness": "also several in one setting: robustness=[extraneous,broken_tool]",
    "retriever": "",
    "pool": "which tools there are to retrieve from",
    "refine": "plans are criticised and written again",
    "memory": "prompts show what the planner did on other cases, in an earlier sweep",
    "cluster": "",
    "experiment": "a whole study, as +experiment=NAME",
}
_HEAD = """\
Run a grid of experiments: model x planner x dataset x robustness, on Ray. Results go to results/NAME where you stand;
the same command again resumes. `agent-grid sweep` and `python launch/sweep.py` are the same.

  agent-grid sweep -m                                     the default grid
  agent-grid sweep -m planner=react,egb_logits trials=5 name=mine
  agent-grid sweep planner=react                          one setting
  agent-grid sweep -m dry_run=true                        what would run, what is invalid, what it may cost
  agent-grid sweep -m +experiment=planning_horizon        a whole study
  agent-grid sweep --cfg job planner=react                every key with its value

Files to choose from, as GROUP=NAME; with -m several, GROUP=NAME,NAME:
"""
_FLAGS = """
Flags:
  -m                      every combination of what is given, instead of one setting
  --cfg job [-p GROUP]    print the composed config, or a part of it, and run nothing
  --info [WHAT]           how it was composed: config, defaults, defaults-tree, plugins, searchpath (default: all)
  --config-dir FOLDER     a folder with files of your own beside these, in folders of the same names
  -sc install=bash        print what switches on tab completion: eval "$(agent-grid -sc install=bash)" (zsh: the same;
                          fish: agent-grid -sc install=fish | source)
"""


def text(folders: Sequence[Path]) -> str:
    """The help, as wide as the terminal.

    Args:
        folders: the folders of config files: ours, and those of plugins.
    """
    width = max(60, min(shutil.get_terminal_size((120, 24)).columns, 120))
    return "\n".join([_HEAD, *(_of(group, about, folders, width) for group, about in _GROUPS.items()), _FLAGS])


def _of(group: str, about: str, folders: Sequence[Path], width: int) -> str:
    names = sorted(file.stem for folder in folders for file in (folder / group).glob("*.yaml"))
    told = ", ".join(names) + (f" ({about})" if about else "")
    return textwrap.fill(
        told, width, initial_indent=f"  {group:<12}", subsequent_indent=" " * 14, break_on_hyphens=False
    )
