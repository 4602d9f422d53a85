"""Twenty seconds of the fuzz under AddressSanitizer, every target in turn; and that what it looks for, it finds.

`python -m tests.fuzz --hours H` goes on for longer, with other seeds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random

import pytest
from fuzz import campaign, worker
from fuzz.asan_kernels import NoCompiler
from fuzz.target import Case, Target, made_case

from zenitmq.model.errors import RemoteProtocolError

SECONDS = 20.0
SEED = 1
NAMES = """zmtp zmtp-peer stamp scan sequences lights batches decode select search stranger is-record columns index accumulator
    request reply replication-frame chunk-payload packed-body places texts properties trace http-head beginning compacted-list
    group-node group-seen cluster-file event-line traceparent audit-entry security-rows trusted-file rocketmq-acl
    state-events state-snapshots registration reply-document retry-policy cluster-record broadcast-offsets
    backup-manifest backup-point waiting-records checkpoint checksum-log
    classic-frame classic-fields classic-bodies classic-batch classic-sent-batch classic-records
    grpc-message grpc-settings grpc-http2 grpc-metadata grpc-lite-receipt
    query-cursor queue-file queue-checker index-file replica-file epoch-file abort-file store""".split()


@pytest.fixture(scope="session")
def outcome() -> campaign.Outcome:
    try:
        return campaign.run(SECONDS, SEED)
    except NoCompiler as missing:
        pytest.skip(f"not fuzzed: {missing} is missing, so that there is no AddressSanitizer here")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_its_typed_error_comes_of_hostile_bytes(outcome: campaign.Outcome, name: str) -> None:
    assert not outcome.ended, f"see {campaign.FAILURES}"
    decoded, refused, failed = outcome.counts[name]
    assert not failed, f"see {campaign.FAILURES}"
    assert decoded, "no case was near enough to what it expects"
    assert decoded + refused >= 4  # in a second or so, on a busy machine


@pytest.mark.timeout(600)
def test_every_target_is_asked_for_above(outcome: campaign.Outcome) -> None:
    assert sorted(outcome.counts) == sorted(NAMES)


# ---- the fuzz itself


def refuse(_: bytes, __: Random) -> None:
    raise RemoteProtocolError("no")


def break_down(_: bytes, __: Random) -> None:
    raise KeyError("not named")


def hoard(_: bytes, __: Random) -> None:
    bytearray(200 << 20).replace(b"\0", b"\1")


def target(check: object) -> Target:
    return Target("it", lambda draw: draw.randbytes(8), check, (RemoteProtocolError,))  # type: ignore[arg-type]


def test_a_typed_error_is_a_refusal_and_any_other_a_failure() -> None:
    case = Case("it", 1, b"")
    assert worker.check(target(lambda data, draw: None), case)
    assert not worker.check(target(refuse), case)
    with pytest.raises(KeyError):
        worker.check(target(break_down), case)


def work_for_a_while(_: bytes, __: Random) -> None:
    begin_s = time.process_time()
    while time.process_time() - begin_s < 0.05:
        pass


def test_time_and_memory_of_a_case_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "CPU_S", 0.01)
    with pytest.raises(worker.Failed, match="CPU time"):
        worker.check(target(work_for_a_while), Case("it", 1, b""))
    monkeypatch.setattr(worker, "CPU_S", 100.0)
    with pytest.raises(worker.Failed, match="memory"):
        worker.check(target(hoard), Case("it", 1, b""))


def test_a_case_is_the_same_each_time_and_in_its_file() -> None:
    case = made_case(target(refuse), 7, 3)
    assert case == made_case(target(refuse), 7, 3) != made_case(target(refuse), 7, 4)
    assert Case.decode(case.encode()) == case


def test_a_failure_is_kept_with_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desk = worker.Desk.make(tmp_path / "desk")
    runner = worker.Worker(desk, tmp_path / "failures", seed=1)
    runner.run([target(break_down)], 0.01)
    assert runner.counts["it"][2] > worker.SAME_FAILURES_MAX
    kept = sorted((tmp_path / "failures").glob("*.case"))
    assert len(kept) == worker.SAME_FAILURES_MAX
    assert f"--replay {kept[0]}" in capsys.readouterr().err
    assert Case.decode(kept[0].read_bytes()).target == "it"
    assert "not named" in kept[0].with_suffix(".txt").read_text()
    assert desk.look() == (sum(runner.counts["it"]), made_case(target(break_down), 1, sum(runner.counts["it"]) - 1))


def test_a_worker_that_is_ended_leaves_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As AddressSanitizer ends it: another goes on."""
    dies = "import json, os, pathlib, sys; sys.path.insert(0, 'tests')\n"
    dies += "from fuzz.worker import Desk; from fuzz.target import Case\n"
    dies += "a = sys.argv; Desk(a[a.index('--desk') + 1]).put(Case('it', 5, b'x'))\n"
    dies += "print('ERROR: AddressSanitizer', file=sys.stderr)\n"
    dies += "seed = int(a[a.index('--seed') + 1])\n"
    dies += "os._exit(99) if seed < 9 else pathlib.Path(a[a.index('--counts') + 1]).write_text(json.dumps({'it': [3, 2, 0]}))\n"
    monkeypatch.setattr(campaign, "_WORKER", (sys.executable, "-c", dies))
    monkeypatch.setattr(campaign, "FAILURES", tmp_path)
    monkeypatch.setattr(campaign.asan_kernels, "environment", dict)
    outcome = campaign.Outcome()
    for seed in (8, 9):
        folder = tmp_path / str(seed)
        folder.mkdir()
        campaign._run_worker(folder, tmp_path, outcome, 1.0, seed, ())
    assert (outcome.counts, outcome.failed, len(outcome.ended)) == ({"it": [3, 2, 0]}, 1, 1)
    (kept,) = tmp_path.glob("*.case")
    assert Case.decode(kept.read_bytes()) == Case("it", 5, b"x")
    assert "AddressSanitizer" in kept.with_suffix(".txt").read_text()
    assert "it" in outcome.table()
