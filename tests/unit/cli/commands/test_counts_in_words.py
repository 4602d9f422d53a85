"""What is counted for a person is named in the singular where there is one of it."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from zenitmq.cli.commands.messages.produce import _sentence
from zenitmq.cli.commands.store import hand_over, verify
from zenitmq.model.errors import SendFailed


@pytest.mark.parametrize(
    ("count", "found"),
    [
        (1, "1 damaged range, 1 damaged unit of queues, 1 damaged checksum entry, 1 damaged compacted file in s;"),
        (2, "2 damaged ranges, 2 damaged units of queues, 2 damaged checksum entries, 2 damaged compacted files in s;"),
    ],
)
def test_damage_that_verify_finds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int, found: str
) -> None:
    places = [{"begin": 0, "end": 1}] * count
    document = {"damaged": places, "damaged_units": count, "damaged_entries": ["e"] * count}
    document["damaged_compacted"] = ["f"] * count
    monkeypatch.setattr("zenitmq.store.offline.offline.verify_store", lambda directory: document)
    with pytest.raises(typer.Exit):
        verify("s", as_json=True)
    assert found in capsys.readouterr().err


@pytest.mark.parametrize(("count", "deleted"), [(1, "1 spare file deleted"), (0, "0 spare files deleted")])
def test_spare_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int, deleted: str
) -> None:
    document = {
        "log_end": 9, "spare_files": count, "waiting": 0, "over": 0, "damaged": 0, "popped": 0, "retry_topics": 0,
        "converted": 0, "lite_again": 0, "lite_unbound": [], "broker_conf": {},
    }  # fmt: skip
    monkeypatch.setattr("zenitmq.broker.group.hand_over.hand_over", lambda *_, **__: document)
    hand_over("s", as_json=False)
    assert deleted in capsys.readouterr().out


@pytest.mark.parametrize(("count", "sent"), [(1, "sent 1 message, 5 B"), (2, "sent 2 messages, 5 B")])
def test_sent_messages(count: int, sent: str) -> None:
    summary: dict[str, Any] = {"sent": count, "bytes": 5, "seconds": 1, "messages_per_second": 1.0, "failed": 0}
    assert _sentence(summary).startswith(sent)


@pytest.mark.parametrize(("count", "told"), [(1, "1 message was not"), (2, "2 messages were not")])
def test_messages_that_were_not_acknowledged(count: int, told: str) -> None:
    assert str(SendFailed(count, "r")).startswith(told)
