"""`.ci/run` sets $ZENIT_REQUIRE_CLIENTS: RocketMQ's Python and Java clients must be there, where their registries answer.

So no test of the proxy with them is skipped in silence.
"""

from __future__ import annotations

import os

import pytest
from classic_clients import JAVA_VERSIONS, has_java
from proxy_clients import JAVA_CLIENT, PYTHON_CLIENT, UNREACHABLE, has_jars, python_client


@pytest.mark.skipif("ZENIT_REQUIRE_CLIENTS" not in os.environ, reason="they are not required here")
def test_the_clients_of_python_and_java_are_there() -> None:
    missing = [] if python_client() else [PYTHON_CLIENT]
    assert not missing, "python tests/proxy_clients.py"
    missing += [f"rocketmq-client-{version}" for version in JAVA_VERSIONS if not has_java(version)]
    missing += [] if has_jars(*JAVA_CLIENT) else ["-".join(JAVA_CLIENT)]
    if missing and UNREACHABLE.exists():
        pytest.skip(f"Maven cannot reach its repository: {UNREACHABLE.read_text()}")
    assert not missing, "python tests/proxy_clients.py; python tests/classic_clients.py"
