"""How a judge's answer in words is read: a number from 0 to 10, or none."""

from __future__ import annotations

import pytest

from grid.text.answers import read_score
from grid.text.objects import UnreadableError
from tests.support.loops import each

ODD: list[tuple[str, float | None]] = [
    ('{"score": 7, "explanation": "it fits"}', 0.7),
    ('{"score": 0}', 0.0),
    ('{"score": 10, "explanation": ""}', 1.0),
    ('{"score": 1}', 0.1),
    ('{"explanation": "first", "score": 4}', 0.4),
    ('{"score": 7.5}', 0.75),
    ('{"score": 7.0}', 0.7),
    ('{"score": -0.0}', 0.0),
    ('{"score": "8"}', 0.8),
    ('{"score": " 8 "}', 0.8),
    ('{"score": "7/10"}', 0.7),
    ('{"score": "7 / 10"}', 0.7),
    ('{"score": "7 out of 10"}', 0.7),
    ('{"score": "70%"}', 0.7),
    ('{"score": "7.5/10"}', 0.75),
    ('{"score": "0.5/10"}', 0.05),
    ('```json\n{"score": 6, "explanation": "x"}\n```', 0.6),
    ('I would say {"score": 3} since it fails.', 0.3),
    ('{"note": "none"} {"score": 2}', 0.2),
    ('{"score": 2} {"score": 9}', None),
    ('{"score": 2}. Sorry, {"score": 9}', 0.9),
    ("{'score': 2,}", 0.2),
    ('{"score": 5, "explanation": "{\\"score\\": 9}"}', 0.5),
    ('{broken {"score": 9}', 0.9),
    ('{"score": 0.7}', None),
    ('{"score": 1.0}', None),
    ('{"score": "0.7"}', None),
    ('{"score": 11}', None),
    ('{"score": -1}', None),
    ('{"score": "11/10"}', None),
    ('{"score": "101%"}', None),
    ('{"score": "7/5"}', None),
    ('{"score": "7 of 10, or 8"}', None),
    ('{"score": NaN}', None),
    ('{"score": Infinity}', None),
    ('{"score": 1e400}', None),
    ('{"score": ' + "9" * 400 + "}", None),
    ('{"score": "seven"}', None),
    ('{"score": ""}', None),
    ('{"score": null}', None),
    ('{"score": true}', None),
    ('{"score": [7]}', None),
    ('{"score": {"value": 7}}', None),
    ('{"judgement": {"score": 7}}', None),
    ('{"Score": 7}', None),
    ('{"explanation": "good"}', None),
    ('{"score": 7', None),
    ("7", None),
    ("Score: 7/10", None),
    ("A good call.", None),
    ("", None),
    ("{" * 20_000, None),
    ('{"score": "٧"}', None),
]


@each(("text", "score"), ODD)
def test_a_score_is_read_or_it_is_none(text: str, score: float | None) -> None:
    if score is None:
        with pytest.raises(UnreadableError):
            read_score(text)
    else:
        assert read_score(text) == pytest.approx(score)
