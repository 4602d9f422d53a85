"""The password of ZooKeeper is in no log line, whatever the level."""

from __future__ import annotations

import logging

import pytest
from kazoo.protocol.serialization import Auth, Exists

from zenitmq.controller.zookeeper import kazoo_log


def test_what_kazoo_says_of_its_login_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for request in (Auth(0, "digest", "zenit:hush"), Exists("/zenit", None)):
        kazoo_log.log(logging.DEBUG, "Sending request(xid=%s): %s", 1, request)
    assert "hush" not in caplog.text
    assert "/zenit" in caplog.text
