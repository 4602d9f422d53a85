"""What a machine must be like for a server, and what is said where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.model.examination.finding import Finding, Severity, finding_of, worst
from zenitmq.model.examination.machine_rules import DiskFacts, MachineFacts, judge, judge_clock

DISK = DiskFacts("/var/lib/zenit", "ext4", False, True, 100 << 30, 50 << 30, 1_000_000)
SOUND = MachineFacts(
    descriptors=1_048_576,
    is_clock_kept=True,
    memory_available_bytes=8 << 30,
    swappiness=10,
    swap_bytes=1 << 30,
    maps_max=262_144,
    backlog_max=4_096,
    disk=DISK,
)


def found(facts: MachineFacts, check: str, *, with_store: bool = True) -> list[Finding]:
    return [one for one in judge(facts, with_store=with_store) if one.check == check]


def test_a_sound_machine() -> None:
    findings = list(judge(SOUND, with_store=True))
    assert worst(findings) is Severity.OK
    assert [one.check for one in findings] == [
        *("open files", "clock", "memory", "connections", "swap", "mapped files", "disk", "disk space"),
    ]
    assert not any(one.remedy for one in findings)


def test_what_cannot_be_read_is_not_judged() -> None:
    assert [one.check for one in judge(MachineFacts(descriptors=-1), with_store=True)] == ["open files"]


def test_the_disk_matters_to_brokers_only() -> None:
    assert not {"disk", "disk space", "swap", "mapped files"} & {one.check for one in judge(SOUND, with_store=False)}


@pytest.mark.parametrize(
    ("changed", "check", "severity", "says"),
    [
        ({"descriptors": 1_024}, "open files", Severity.WARNING, "at most 1,024; raise the hard limit to 65,536"),
        ({"descriptors": 4_096}, "open files", Severity.NOTE, "at most 4,096"),
        ({"descriptors": 65_536}, "open files", Severity.OK, "at most 65,536"),
        ({"is_clock_kept": False}, "clock", Severity.WARNING, "nothing synchronizes it; run chrony"),
        (
            {"memory_available_bytes": (256 << 20) - 1},
            "memory",
            Severity.WARNING,
            "256.0 MiB available; leave it at least",
        ),
        ({"backlog_max": 128}, "connections", Severity.NOTE, "sysctl -w net.core.somaxconn=1024"),
        ({"swappiness": 60}, "swap", Severity.NOTE, "sysctl -w vm.swappiness=10"),
        ({"swappiness": 60, "swap_bytes": 0}, "swap", Severity.OK, "none"),
        ({"maps_max": 65_529}, "mapped files", Severity.WARNING, "sysctl -w vm.max_map_count=65530"),
    ],
)
def test_a_limit_that_is_too_low_is_named_with_its_remedy(
    changed: dict[str, int], check: str, severity: Severity, says: str
) -> None:
    (finding,) = found(replace(SOUND, **changed), check)
    assert finding.severity is severity
    assert says in finding.line()


@pytest.mark.parametrize(
    ("changed", "check", "severity", "says"),
    [
        ({"is_read_only": True}, "disk", Severity.PROBLEM, "is mounted read-only"),
        ({"is_writable": False}, "disk", Severity.PROBLEM, "may not be written by this user"),
        ({"filesystem": "tmpfs"}, "disk", Severity.WARNING, "is memory"),
        ({"filesystem": "overlay"}, "disk", Severity.WARNING, "mount a volume at store_dir"),
        ({"filesystem": "nfs4"}, "disk", Severity.WARNING, "is on another machine"),
        (
            {"free_bytes": (10 << 30) - 1},
            "disk space",
            Severity.WARNING,
            "10.0 GiB of 100.0 GiB free; lower store.retention",
        ),
        ({"free_bytes": 10 << 30}, "disk space", Severity.OK, "10.0 GiB of 100.0 GiB free"),
        ({"inodes_free": 9_999}, "disk space", Severity.WARNING, "room for 9,999 files only"),
        ({"inodes_free": None}, "disk space", Severity.OK, "50.0 GiB"),
        ({"total_bytes": 0, "free_bytes": 0}, "disk space", Severity.WARNING, "0 KiB of 0 KiB free"),
    ],
)
def test_a_disk_that_is_not_fit_for_a_store(
    changed: dict[str, object], check: str, severity: Severity, says: str
) -> None:
    (finding,) = found(replace(SOUND, disk=replace(DISK, **changed)), check)
    assert finding.severity is severity
    assert says in finding.line()


@pytest.mark.parametrize(
    ("offset_ms", "uncertainty_ms", "severity", "says"),
    [
        (3.0, 1.0, Severity.OK, "within 3 ms"),
        (-0.2, 1.0, Severity.OK, "within 1 ms"),
        (900.0, 500.0, Severity.OK, "within 900 ms"),
        (1_500.0, 10.0, Severity.WARNING, "1.5 s ahead of"),
        (-700.0, 10.0, Severity.WARNING, "690 ms behind"),
        (-90_000.0, 10.0, Severity.PROBLEM, "90.0 s behind"),
    ],
)
def test_clocks_that_are_apart(offset_ms: float, uncertainty_ms: float, severity: Severity, says: str) -> None:
    finding = judge_clock(offset_ms, uncertainty_ms)
    assert finding.severity is severity
    assert says in finding.text


def test_a_finding_survives_its_document_and_others_are_refused() -> None:
    finding = Finding(Severity.NOTE, "swap", "vm.swappiness = 60", "lower it")
    assert finding_of(finding.document()) == finding
    for wrong in ({}, {**finding.document(), "severity": "awful"}):
        with pytest.raises((KeyError, ValueError)):
            finding_of(wrong)


def test_nothing_found_is_no_problem() -> None:
    assert worst([]) is Severity.OK
