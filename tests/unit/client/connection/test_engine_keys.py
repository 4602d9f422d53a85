"""An engine is inside the program: a key for it is a mistake, one in the environment is for something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from zenitmq.client.admin import Admin
from zenitmq.client.producer import Producer
from zenitmq.model.errors import InvalidParameter


@pytest.mark.parametrize("namesrv", ["memory://keyed", "local:///nowhere", "embedded:///nowhere"])
def test_a_key_for_an_engine_is_refused(namesrv: str) -> None:
    for client in (Producer, Admin):
        with pytest.raises(InvalidParameter, match="inside this program, and asks for no key"):
            client(namesrv=namesrv, key="app.key")


def test_a_key_in_the_environment_is_not_for_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZENIT_KEY", str(tmp_path / "none.key"))
    with Admin("memory://unkeyed") as admin:
        assert admin.topics() == []
