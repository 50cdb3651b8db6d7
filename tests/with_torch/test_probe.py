"""A model that puts its probability on no option of a plain choice is found out when it is loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from grid.core.errors import ConfigError
from grid.engines.hosted import CHOICE_PROBE, unassigned, warning
from grid.engines.language_model import Renderer
from grid.engines.transformers.engine import HuggingFace
from tests.support.engines import RawText
from tests.support.extras import needs
from tests.support.models import make_model

pytestmark = needs("torch", "transformers")


def test_the_share_is_what_no_number_of_an_option_gets(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = make_model(tmp_path)
    share = asyncio.run(unassigned(HuggingFace(path=str(folder), dtype="float32", structured=False)))
    renderer = Renderer(AutoTokenizer.from_pretrained(folder))
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def behind(*digits: int) -> Any:
        ids = torch.tensor([[*renderer.encode(CHOICE_PROBE), *digits]])
        with torch.inference_mode():
            return model(input_ids=ids).logits[0, -1].double().softmax(-1)

    of = [label[0] for label in renderer.labels(10)]
    ended = sum(float(behind()[digit] * (1 - behind(digit)[renderer.digits].sum())) for digit in of)
    longer = float(behind()[of[1]] * behind(of[1])[of[:2]].sum())  # 10 and 11
    assert share == pytest.approx(1 - ended - longer, abs=1e-5)


def test_the_printed_form_is_not_asked_since_one_digit_numbers_have_nothing_there() -> None:
    assert asyncio.run(unassigned(HuggingFace(path="x", printed_form=True))) is None


def test_an_engine_that_only_samples_is_not_asked() -> None:
    assert asyncio.run(unassigned(RawText("x"))) is None


@pytest.mark.parametrize(("share", "warned"), [(None, False), (0.0, False), (0.5, False), (0.51, True), (1.0, True)])
def test_above_half_the_user_is_told_where_to_look(share: float | None, warned: bool) -> None:
    told = warning("qwen3-4b-instruct[context=4096]", share)
    assert (told is not None) == warned
    if told:
        for words in (f"{share:.2f}", "conf/model/qwen3-4b-instruct.yaml", "chat_template_kwargs", "answer_prefix"):
            assert words in told


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"labels": "padded", "printed_form": True}, "model.labels"),
        ({"chat_template_kwargs": {"tokenize": True}}, "model.chat_template_kwargs"),
    ],
)
def test_values_that_do_not_go_together(values: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HuggingFace(path="x", **values)
    assert caught.value.key == key
