"""A Ray that is slow to start, without one."""

from __future__ import annotations

import pytest
import ray

from grid.cluster import connection

SLOW = "The current node timed out during startup. This could happen because some of the raylet failed to startup"


@pytest.mark.parametrize(
    ("errors", "tries"), [([], 1), ([SLOW], 2), ([SLOW, SLOW], 2), (["no such address"], 1)], ids=str
)
def test_a_node_that_is_not_up_in_time_is_begun_once_more(
    errors: list[str], tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, ended, left = list[dict[str, object]](), list[int](), [*errors]

    def init(**how: object) -> str:
        tried.append(how)
        if left:
            raise Exception(left.pop(0))
        return "begun"

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(len(tried)))
    if len(errors) < tries:
        assert connection._begun(address="local") == "begun"
    else:
        with pytest.raises(Exception, match=errors[-1][:20]):
            connection._begun(address="local")
    assert tried == [{"address": "local"}] * tries
    assert ended == ([1] if errors else []), "what a failed start left is ended first"
