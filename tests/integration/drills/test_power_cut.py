"""What was synced outlives a power cut, what was not is gone: a real process writes, is killed, and the power goes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from store_kit import make_store, read_queue

from zenitmq.deploy.drills.faults.power_cut import CutReport, PowerCut, prepare

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> PowerCut:
    folder = tmp_path_factory.mktemp("library")
    return prepare(str(folder / "store"), str(folder / "log"))


class Machine:
    """Runs programs that write below a store directory, and cuts the power."""

    def __init__(self, folder: Path, library: PowerCut) -> None:
        self.store = folder / "store"
        (folder / "log").mkdir()
        self.store.mkdir()
        self._cut = PowerCut(str(self.store.resolve()), str(folder / "log"), library.library)

    def run(self, program: str) -> None:
        """Runs it in the store directory; it ends by kill -9, so that nothing is tidied up at its exit."""
        text = "import os, signal\n" + textwrap.dedent(program) + "\nos.kill(os.getpid(), signal.SIGKILL)\n"
        environment = {**os.environ, **self._cut.environment()}
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=self.store, env=environment, capture_output=True, timeout=30, check=False
        )
        assert done.returncode == -9, done.stderr.decode()

    def cut(self, seed: int | None = None, *, any_pages: bool = False) -> CutReport:
        return self._cut.cut(seed, any_pages=any_pages)

    def files(self) -> dict[str, bytes]:
        return {p.relative_to(self.store).as_posix(): p.read_bytes() for p in self.store.rglob("*") if p.is_file()}

    def log_files(self) -> list[str]:
        return sorted(p.name for p in Path(self._cut.log).iterdir())

    def folders(self) -> set[str]:
        return {p.relative_to(self.store).as_posix() for p in self.store.rglob("*") if p.is_dir()}


@pytest.fixture
def machine(tmp_path: Path, library: PowerCut) -> Machine:
    return Machine(tmp_path, library)


SYNC_FOLDER = "d = os.open('.', os.O_RDONLY); os.fsync(d); os.close(d)"


def test_synced_bytes_stay_and_later_ones_go(machine: Machine) -> None:
    machine.run(f"""
        fd = os.open('log', os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(fd, 0, 4096)
        os.pwritev(fd, [b'synced', b'!'], 0)
        os.fdatasync(fd)
        {SYNC_FOLDER}
        os.pwritev(fd, [b'lost'], 7)
        os.pwrite(fd, b'SYNC', 0)
    """)
    assert machine.files()["log"].startswith(b"SYNCed!lost")
    assert machine.cut() == CutReport(2, 2, 0, 0)
    assert machine.files() == {"log": b"synced!" + bytes(4089)}
    assert machine.log_files() == ["boot_id"]


def test_what_a_sync_had_not_begun_to_write_is_not_settled_by_it_later(machine: Machine) -> None:
    """A second process goes on where the first was killed: what that one did not sync is still not synced."""
    machine.run(f"""
        fd = os.open('log', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'aaaa', 0); os.fdatasync(fd)
        {SYNC_FOLDER}
        os.pwrite(fd, b'bbbb', 4)
    """)
    machine.run("fd = os.open('log', os.O_RDWR); os.pwrite(fd, b'cccc', 8)")
    assert machine.files()["log"] == b"aaaabbbbcccc"
    machine.cut()
    assert machine.files()["log"] == b"aaaa"


def test_a_second_process_syncs_what_the_first_wrote(machine: Machine) -> None:
    machine.run(f"fd = os.open('log', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'aaaa', 0); {SYNC_FOLDER}")
    machine.run("fd = os.open('log', os.O_RDWR); os.fdatasync(fd)")
    machine.cut()
    assert machine.files()["log"] == b"aaaa"


def test_truncated_and_rewritten_files_come_back(machine: Machine) -> None:
    machine.run(f"""
        with open('state', 'wb') as f: f.write(b'first version'); f.flush(); os.fsync(f.fileno())
        with open('short', 'wb') as f: f.write(b'0123456789'); f.flush(); os.fsync(f.fileno())
        {SYNC_FOLDER}
        with open('state', 'wb') as f: f.write(b'second')
        os.truncate('short', 3)
    """)
    assert machine.files() == {"state": b"second", "short": b"012"}
    machine.cut()
    assert machine.files() == {"state": b"first version", "short": b"0123456789"}


REPLACE = """
    with open('state', 'wb') as f: f.write(b'old'); f.flush(); os.fsync(f.fileno())
    {sync}
    with open('state.tmp', 'wb') as f: f.write(b'new'); f.flush(); os.fsync(f.fileno())
    os.replace('state.tmp', 'state')
"""


def test_a_replaced_file_is_the_old_one_until_its_directory_is_synced(machine: Machine) -> None:
    machine.run(textwrap.dedent(REPLACE.format(sync=SYNC_FOLDER)))
    assert machine.cut().names_undone == 2
    assert machine.files() == {"state": b"old"}


def test_a_replaced_file_stays_once_its_directory_is_synced(machine: Machine) -> None:
    machine.run(textwrap.dedent(REPLACE.format(sync=SYNC_FOLDER)) + SYNC_FOLDER)
    assert machine.cut() == CutReport(0, 0, 0, 0)
    assert machine.files() == {"state": b"new"}


def test_new_files_vanish_and_unlinked_ones_come_back(machine: Machine) -> None:
    machine.run(f"""
        with open('kept', 'wb') as f: f.write(b'kept'); f.flush(); os.fsync(f.fileno())
        {SYNC_FOLDER}
        os.unlink('kept')
        with open('new', 'wb') as f: f.write(b'new'); f.flush(); os.fsync(f.fileno())
    """)
    machine.cut()
    assert machine.files() == {"kept": b"kept"}


def test_new_folders_vanish_with_all_in_them_and_removed_ones_come_back_empty(machine: Machine) -> None:
    machine.run("""
        os.mkdir('kept'); os.mkdir('emptied')
        with open('emptied/file', 'wb') as f: f.write(b'old'); f.flush(); os.fsync(f.fileno())
        for folder in ('emptied', 'kept', '.'): d = os.open(folder, os.O_RDONLY); os.fsync(d); os.close(d)
        os.unlink('emptied/file'); os.rmdir('emptied')
        os.makedirs('new/inner')
        with open('new/inner/file', 'wb') as f: f.write(b'new'); f.flush(); os.fsync(f.fileno())
        for folder in ('new/inner', 'new'): d = os.open(folder, os.O_RDONLY); os.fsync(d); os.close(d)
    """)
    assert machine.folders() == {"kept", "new", "new/inner"}
    assert machine.cut().names_undone == 2  # what is inside the new one was synced, but not where to find it
    assert machine.folders() == {"kept", "emptied"}
    assert machine.files() == {}


def test_a_folder_that_was_removed_for_good_gets_nothing_back(machine: Machine) -> None:
    machine.run(f"""
        os.mkdir('gone')
        with open('gone/file', 'wb') as f: f.write(b'old'); f.flush(); os.fsync(f.fileno())
        d = os.open('gone', os.O_RDONLY); os.fsync(d); os.close(d)
        os.unlink('gone/file'); os.rmdir('gone')
        {SYNC_FOLDER}
    """)
    machine.cut()
    assert machine.folders() == set()
    assert machine.files() == {}


def test_the_machine_is_another_boot_after_a_cut(machine: Machine) -> None:
    look = f"""
        boot = open('/proc/sys/kernel/random/boot_id', 'rb').read()
        with open('boot', 'wb') as f: f.write(boot); f.flush(); os.fsync(f.fileno())
        {SYNC_FOLDER}
    """
    boots = []
    for _ in range(3):
        machine.run(look)
        boots.append(machine.files()["boot"])
        machine.cut()
    assert boots[0] == Path("/proc/sys/kernel/random/boot_id").read_bytes()
    assert len(set(boots)) == 3


@pytest.mark.parametrize("seed", range(12))
def test_any_cut_leaves_a_first_part_of_the_writes(machine: Machine, seed: int) -> None:
    """Whatever is kept, it is a prefix, torn at most in its last write, and all that was synced."""
    machine.run(f"""
        fd = os.open('log', os.O_RDWR | os.O_CREAT); os.posix_fallocate(fd, 0, 8192)
        os.pwrite(fd, b'S' * 1000, 0); os.fdatasync(fd)
        {SYNC_FOLDER}
        for k in range(6): os.pwrite(fd, bytes([97 + k]) * 1000, 1000 + 1000 * k)
    """)
    written = machine.files()["log"]
    report = machine.cut(seed)
    left = machine.files()["log"]
    length = len(left.rstrip(b"\0"))
    assert left == written[:length] + bytes(8192 - length)
    kept = report.writes_unsynced - report.writes_undone
    assert length in (1000 * (kept + 1), 1000 * (kept + 1) + 512)


def test_any_page_may_be_lost_and_what_was_synced_is_not(machine: Machine) -> None:
    machine.run(f"""
        fd = os.open('log', os.O_RDWR | os.O_CREAT); os.posix_fallocate(fd, 0, 65536)
        os.pwrite(fd, b'S' * 1000, 0); os.fdatasync(fd)
        {SYNC_FOLDER}
        for k in range(15): os.pwrite(fd, b'x' * 4096, 1000 + 4096 * k)
    """)
    machine.cut(seed=5, any_pages=True)
    left = machine.files()["log"]
    assert left[:1000] == b"S" * 1000
    pages = [left[4096 * number : 4096 * (number + 1)].strip(b"\0") != b"" for number in range(1, 15)]
    assert pages != sorted(pages, reverse=True), "a hole: a page is gone before one that is there"


def test_files_elsewhere_are_left_alone(machine: Machine, tmp_path: Path) -> None:
    machine.run("with open('../elsewhere', 'wb') as f: f.write(b'text')")
    assert machine.cut() == CutReport(0, 0, 0, 0)
    assert (tmp_path / "elsewhere").read_bytes() == b"text"


STORE = """
    import sys; sys.path.insert(0, {tests!r})
    from store_kit import StillClock, make_store, message, put
    clock = StillClock()
    with make_store('s', clock) as store:
        for topic in 'abc':
            for number in range(30):
                put(store, topic, number % 3, message(topic, b'%d' % number * 20))
                store.flush_all(20_000)
            for _ in range(2):
                clock.time_ms += 100; store.on_tick(clock.time_ms)
                store._upkeep.run_in_worker(lambda: None).result(20)
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""A store of several segments, whose every topic was in a checkpoint when it was killed."""


@pytest.mark.parametrize("any_pages", [False, True])
@pytest.mark.parametrize("seed", [None, *range(12)])
def test_what_a_store_has_flushed_and_dispatched_keeps_its_names(
    machine: Machine, seed: int | None, any_pages: bool
) -> None:
    """Messages, queues and checksum entries: files that are synced in a folder that was not would be gone with it."""
    machine.run(STORE.format(tests=str(TESTS)))
    entries = machine.files().keys() & {f"s/checksum/{4096 * n:020d}" for n in range(9)}
    machine.cut(seed, any_pages=any_pages)
    assert entries <= machine.files().keys()
    with make_store(machine.store / "s") as store:
        for topic in "abc":
            found = {m.body: m.physical_offset for q in range(3) for m in read_queue(store, topic, q)}
            assert found.keys() == {b"%d" % number * 20 for number in range(30)}
