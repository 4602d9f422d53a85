"""What a proxy says at its metrics' port: no name server knows of it, so it is asked there."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from typing import Final

from ...model.clock import monotonic_ms, now_ms
from ...model.errors import InvalidParameter
from ...model.examination.finding import Finding, Severity
from ...model.examination.machine_rules import judge_clock
from ...remoting.addresses import split_address
from .report import Examined

TIMEOUT_S: Final = 3.0
BYTES_MAX: Final = 4 * 1024 * 1024
READY: Final = "ready: proxy"
NOT_READY: Final = "not ready: "
_VERSION: Final = re.compile(r'^zenit_build_info\{[^}\n]*\bversion="([^"\n]{1,64})"', re.MULTILINE)
_CLOCK: Final = re.compile(r"^zenit_clock_seconds(?:\{[^}\n]*\})? ([0-9.e+]{1,32})$", re.MULTILINE)


def examine_proxy(address: str) -> Examined:
    """`address`: "host:port" of its metrics."""
    what = f"proxy {address}"
    try:
        host, port = split_address(address)
        status, ready = _page(host, port, "/readyz")
        asked_ms = monotonic_ms()
        _, metrics = _page(host, port, "/metrics")
        took_ms = monotonic_ms() - asked_ms
    except InvalidParameter as error:
        return Examined(what, (Finding(Severity.PROBLEM, "--proxy", str(error)),))
    except (OSError, http.client.HTTPException) as error:
        remedy = "is it running, and is this its `metrics.bind`? Its log says where metrics and health are served"
        return Examined(what, (Finding(Severity.PROBLEM, "reach", f"no answer: {error}", remedy),))
    version = _VERSION.search(metrics)
    findings = (*judged_readiness(status, ready), *judged_metrics(metrics, now_ms(), took_ms))
    return Examined(what, findings, "" if version is None else version[1])


def _page(host: str, port: int, path: str) -> tuple[int, str]:
    """(status, body). Raises OSError, HTTPException."""
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(BYTES_MAX).decode("utf-8", "replace")
    finally:
        connection.close()


def judged_readiness(status: int, text: str) -> Iterator[Finding]:
    """The page /readyz. Pure."""
    lines = text.splitlines()
    if status == http.client.OK and lines == [READY]:
        yield Finding(Severity.OK, "ready", "it serves, and the cluster answers it")
        return
    reasons = [line.removeprefix(NOT_READY) for line in lines if line.startswith(NOT_READY)]
    for reason in reasons:
        yield Finding(
            Severity.PROBLEM, "ready", reason, "its log says more; `namesrv` and `key` are in its configuration"
        )
    if not reasons:
        told = lines[0][:80] if lines else f"status {status}"
        yield Finding(
            Severity.PROBLEM, "ready", f"no proxy answers there, but: {told}", "name a proxy's `metrics.bind`"
        )


def judged_metrics(text: str, at_ms: int, took_ms: int) -> Iterator[Finding]:
    """The page /metrics, which came at the time `at_ms` and took so long. Pure."""
    clock = _CLOCK.search(text)
    try:
        seconds = None if clock is None else float(clock[1])
    except ValueError:
        seconds = None
    if seconds is None:
        yield Finding(
            Severity.NOTE,
            "metrics",
            "it tells its version and its clock only to who brings a token (metrics.token_file)",
        )
        return
    yield judge_clock(seconds * 1000 - at_ms + took_ms / 2, took_ms / 2 + 1)
