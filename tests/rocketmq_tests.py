"""RocketMQ's own integration tests, unchanged, against a proxy: those of rocketmq-test whose classes need no broker inside.

python tests/rocketmq_tests.py [NAME ...] [--write]     all of them, or those whose names hold one of these words; three at a
                                                        time, ten minutes in all. --write: the table in
                                                        docs/rocketmq-tests.md is that of this run
It needs javac, mvn and Maven's index. proxy/java_its has the class in the place of the one that starts RocketMQ's brokers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proxy_clients import DRIVERS, fetch_jars, has_jars, jars_folder

NAME, VERSION = "rocketmq-test", "5.5.0"
SOURCES: Final = DRIVERS / "java_its"
PAGE: Final = Path(__file__).parents[1] / "docs" / "rocketmq-tests.md"
PACKAGE: Final = "org/apache/rocketmq/test/"
FOLDERS: Final = ("client", "delay", "offset", "recall", "retry", "route", "smoke")
"""Others test what is in RocketMQ's own processes alone: containers of brokers, replication, their proxy, TLS of brokers."""
SMALL: Final = ("store.segment_bytes=67108864", "store.index_slots=65536", "store.index_entries=262144")
AT_A_TIME: Final = 3
CONSUME_MS: Final = 30_000
"""So long a test that will fail waits for messages."""
_MARKED: Final = re.compile(r"(<!-- rocketmq-tests -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_EXTRA: Final = (
    "org.apache.rocketmq:rocketmq-test:5.5.0:jar:tests",
    "junit:junit:4.13.2",
    "org.assertj:assertj-core:3.22.0",
)

Outcome = tuple[str, str, str, str]
"""passed or failed, class, test, why or how long"""


def has_tests() -> bool:
    """Whether they are there, and Java to run them."""
    return has_jars(NAME, VERSION) and (_lib() / f"{NAME}-{VERSION}-tests.jar").exists()


def fetch_tests() -> None:
    """What is not there. Raises OSError, CalledProcessError."""
    if has_tests():
        return
    fetch_jars(NAME, VERSION)
    for old in _lib().glob("junit-4.1*.jar"):
        old.unlink()
    for artefact in _EXTRA:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artefact}", f"-DoutputDirectory={_lib()}"]
        subprocess.run(command, check=True, cwd=_lib().parent)


def test_classes() -> list[str]:
    """All that there are, with points between the parts of a name."""
    with zipfile.ZipFile(_lib() / f"{NAME}-{VERSION}-tests.jar") as jar:
        names = [name.removesuffix(".class") for name in jar.namelist() if name.endswith("IT.class")]
    return sorted(name.replace("/", ".") for name in names if name.removeprefix(PACKAGE).split("/")[0] in FOLDERS)


def run_classes(classes: Sequence[str], namesrv: str, *, timeout_s: float) -> list[Outcome]:
    """Runs them one after the other in one process. `namesrv`: the proxy's address for remoting."""
    command = [
        *_java(),
        f"-Dproxy={namesrv}",
        f"-DconsumeMs={CONSUME_MS}",
        "-cp",
        f"{_compiled()}:{_lib()}/*",
        "RunTests",
    ]
    ran = subprocess.run([*command, *classes], capture_output=True, text=True, timeout=timeout_s, check=False)
    rows = [line.split("\t") for line in ran.stdout.splitlines() if line.startswith(("passed\t", "failed\t"))]
    if ran.returncode and not rows:
        raise RuntimeError(ran.stderr[-2000:])
    return [(what, name, test, why) for what, name, test, why in rows]


def _lib() -> Path:
    return jars_folder(NAME, VERSION) / "lib"


def _java() -> list[str]:
    home = jars_folder(NAME, VERSION)
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.home={home}"]


def _compiled() -> Path:
    """The folder of our classes, as new as their sources."""
    classes, sources = jars_folder(NAME, VERSION) / "classes", sorted(SOURCES.glob("*.java"))
    made = classes / "RunTests.class"
    if not made.exists() or made.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        command = ["javac", "-nowarn", "-cp", f"{_lib()}/*", "-d", str(classes), *map(str, sources)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    return classes


@contextmanager
def running_cluster(*, groups: int = 3, settings: Sequence[str] = SMALL) -> Iterator[str]:
    """So many broker names, three if you do not say, and a proxy; its address for remoting. `settings`: of the brokers."""
    zenit = [str(Path(sys.executable).with_name("zenit"))]
    words = [word for one in settings for word in ("--set", one)]
    with tempfile.TemporaryDirectory() as folder:
        up = [*zenit, "up", "--dir", folder, "--groups", str(groups), "--proxy", *words, "--detach", "--json"]
        told = json.loads(subprocess.run(up, check=True, capture_output=True, text=True).stdout)
        try:
            (proxy,) = [row for row in told["processes"] if row["role"] == "proxy"]
            yield proxy["remoting"]
        finally:
            subprocess.run([*zenit, "down", "--dir", folder], check=True, capture_output=True)


def run_all(classes: Sequence[str], namesrv: str) -> list[Outcome]:
    """Several processes at a time, each with its share."""
    outcomes: list[Outcome] = []

    def run(share: Sequence[str]) -> None:
        for name in share:
            found = run_classes([name], namesrv, timeout_s=900)
            outcomes.extend(found)
            for what, _, test, why in found:
                print(what, name.rpartition(".")[2], test, why[:200], flush=True)

    threads = [threading.Thread(target=run, args=(classes[number::AT_A_TIME],)) for number in range(AT_A_TIME)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(outcomes, key=lambda one: one[1:3])


def table(outcomes: Sequence[Outcome], reasons: dict[str, str]) -> str:
    """A row for each class. `reasons`: those in the table before."""
    rows = ["| class | passed | failed | why |", "|---|---|---|---|"]
    for name in sorted({one[1] for one in outcomes}):
        short = name.removeprefix(PACKAGE.replace("/", "."))
        passed = sum(one[:2] == ("passed", name) for one in outcomes)
        failed = sum(one[:2] == ("failed", name) for one in outcomes)
        rows.append(f"| `{short}` | {passed} | {failed} | {reasons.get(short, '') if failed else ''} |")
    return "\n".join(rows) + "\n"


def reasons_of(page: str) -> dict[str, str]:
    """Why tests fail, as the page says."""
    return dict(re.findall(r"^\| `([\w.]+)` \| \d+ \| \d+ \| (.*) \|$", page, re.MULTILINE))


def main(words: Sequence[str]) -> None:
    """See above."""
    fetch_tests()
    wanted = [word for word in words if not word.startswith("-")]
    classes = [name for name in test_classes() if not wanted or any(word in name for word in wanted)]
    with running_cluster() as namesrv:
        outcomes = run_all(classes, namesrv)
    page = PAGE.read_text("utf-8")
    made = table(outcomes, reasons_of(page))
    print(made)
    if "--write" in words and not wanted:
        PAGE.write_text(_MARKED.sub(lambda mark: mark[1] + made + mark[3], page), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
