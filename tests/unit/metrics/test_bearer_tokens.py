"""Scrapes with a token: which are let in, how a token is replaced, and what a file of tokens must be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zenitmq.metrics.bearer_tokens import BearerTokens
from zenitmq.metrics.config import MetricsConfig
from zenitmq.metrics.endpoint import UNAUTHORIZED, MetricsEndpoint
from zenitmq.model.errors import KeyFileRefused

from .test_endpoint import Told, ask

OLD, NEW = "0123456789abcdef", "fedcba9876543210"


def written(path: Path, text: str) -> str:
    """Put in place whole, as a new file."""
    beside = path.with_suffix(".new")
    beside.touch(0o600)
    beside.write_text(text)
    os.replace(beside, path)
    return str(path)


def test_one_of_the_tokens_is_needed_for_numbers_and_none_for_health(tmp_path: Path) -> None:
    path = written(tmp_path / "tokens", f"# Prometheus\n{OLD}\n\n{NEW}\n")
    with MetricsEndpoint(MetricsConfig(bind="127.0.0.1:0", token_file=path), version="1", kernel="none") as endpoint:
        endpoint.serve(Told())
        for page in ("/metrics", "/metrics/detail?topic=trades"):
            for wrong in ({}, {"Authorization": OLD}, {"Authorization": f"Basic {OLD}"}, {"Authorization": "Bearer x"}):
                status, text, headers = ask(endpoint.address, page, headers=wrong)
                assert (status, text, headers["WWW-Authenticate"]) == (401, UNAUTHORIZED, "Bearer")
            for token in (f"Bearer {OLD}", f"bearer {NEW}"):
                assert ask(endpoint.address, page, headers={"Authorization": token})[0] == 200
        assert ask(endpoint.address, "/metrics", "HEAD")[0] == 401
        for page in ("/livez", "/readyz", "/"):
            assert ask(endpoint.address, page)[0] == 200
        for page in ("//metrics", "/%6detrics", "/Metrics"):
            assert ask(endpoint.address, page)[0] == 404


def test_a_token_is_replaced_without_a_pause(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tokens"
    tokens = BearerTokens(written(path, OLD))
    assert (tokens.accepts(f"Bearer {OLD}"), tokens.accepts(f"Bearer {NEW}")) == (True, False)
    written(path, f"{OLD}\n{NEW}\n")
    assert (tokens.accepts(f"Bearer {OLD}"), tokens.accepts(f"Bearer {NEW}")) == (True, True)
    written(path, NEW)
    assert (tokens.accepts(f"Bearer {OLD}"), tokens.accepts(f"Bearer {NEW}")) == (False, True)
    written(path, "short")
    assert tokens.accepts(f"Bearer {NEW}"), "what can no longer be read stays as it was"
    path.unlink()
    assert tokens.accepts(f"Bearer {NEW}")
    assert len([record for record in caplog.records if "stay as they were" in record.message]) == 2
    assert NEW not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# none\n",
        "short",
        f"{OLD} {NEW}",
        "é" * 20,
        f"{OLD}\x07",
        "\n".join(f"{OLD}{n}" for n in range(9)),
        "x" * 5000,
    ],
)
def test_what_is_no_file_of_tokens_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "tokens", text)
    with pytest.raises(KeyFileRefused) as raised:
        BearerTokens(path)
    assert OLD not in str(raised.value)


def test_a_file_that_others_may_read_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "tokens", OLD)
    os.chmod(path, 0o640)
    with pytest.raises(KeyFileRefused, match="chmod 600"):
        MetricsEndpoint(MetricsConfig(bind="127.0.0.1:0", token_file=path), version="1", kernel="none")
    with pytest.raises(KeyFileRefused, match="openssl rand"):
        BearerTokens(str(tmp_path / "absent"))
