"""What a name server refuses to be told."""

from __future__ import annotations

import pytest

from zenitmq.model.config import load_config
from zenitmq.model.errors import ConfigError
from zenitmq.namesrv.config import NameServerConfig


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["port=65536"], "port"),
        (["heartbeat_timeout_ms=1999"], "heartbeat_timeout_ms"),
        (["heartbeat_timeout_ms=4000", "scan_interval_ms=1001"], "scan_interval_ms"),
        (["port=9000", "publish_port=9000"], "publish_port"),
    ],
)
def test_what_cannot_work_is_refused_by_name(overrides: list[str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(NameServerConfig, "namesrv", overrides=overrides)
    assert refused.value.key == key


def test_the_table_scans_often_enough_to_know_when_it_was_away() -> None:
    """A scan interval of a quarter of the timeout is still well below the half that counts as "away"."""
    config = NameServerConfig(heartbeat_timeout_ms=4000, scan_interval_ms=1000)
    assert config.scan_interval_ms < config.heartbeat_timeout_ms // 2
