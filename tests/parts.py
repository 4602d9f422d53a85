"""What `./test.sh` runs side by side. A line for each part, the longest first: its lane, how it runs, its name, its arguments.

    python -m tests.parts                       everything
    python -m tests.parts --quick [FOLDER]      what is quick of the whole package, or of one folder of it
    python -m tests.parts --keep DIRECTORY      writes durations.json from what the parts left in DIRECTORY

A kind whose files take longer than one part should is divided, by the durations that were measured last. Each test file is of
the kind that names the longest folder around it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from . import durations
from .kernel_reach import reaches_kernel

ROOT = Path(__file__).parents[1]
PART_S = 220  # a part costs some seconds of a core before its first test; a much longer one would run alone at the end
IMPORT_S = 1 / 32  # what a test file takes before its first test; hundreds of files take ten seconds
QUICK_PARTS = 2  # as many as cores: nothing in them waits
SHARING = ("bench", "broker", "cli", "client", "drills", "soak")
QUICK_KINDS = ("unit", "property", "wire")


@dataclass(frozen=True, slots=True)
class Kind:
    """Test files that run alike. `folders`: of them, or files. `how`: see part() in test.sh. `whole`: not divided, since its
    tests share something dear.

    `busy`: keeps a core busy although it starts clusters.
    """

    name: str
    how: str
    folders: tuple[str, ...]
    options: tuple[str, ...] = ()
    whole: bool = False
    busy: bool = False

    @property
    def lane(self) -> str:
        """How many of a lane run at once: see has_room() in test.sh."""
        if self.how not in ("clusters", "outside"):
            return "computing"
        return "busy" if self.busy else "waiting"


KINDS = (
    # In memory: waiting for the disk's syncs would be a third of these parts, and most of those that tear files.
    Kind("others", "in_memory", ("tests",)),
    # Unit tests alone are traced: properties would take thrice as long. `--cov` would take a file behind it for its own.
    Kind("covered", "in_memory", ("tests/unit",), ("--cov", "--cov-report=term", "--spare-traces"), whole=True),
    Kind("fuzz", "in_memory", ("tests/fuzz",)),
    Kind("crash", "in_memory", ("tests/crash",)),
    # Apart from each other: one Java for all of Spark's tests ended early.
    Kind("spark", "clusters", ("tests/spark",), whole=True, busy=True),
    Kind("matrix", "clusters", ("tests/spark/matrix",), whole=True, busy=True),
    Kind("rest", "clusters", ("tests/integration",)),
    # Files of different folders share parts, and what a part costs before its first test: a server of forks, clusters.
    Kind("clusters", "clusters", tuple(f"tests/integration/{folder}" for folder in SHARING)),
    Kind("deploy", "clusters", ("tests/integration/deploy",)),  # its scripts take the usual ports
    Kind("docs", "clusters", ("tests/integration/docs",), busy=True),
    Kind("proxy", "clusters", ("tests/proxy",)),
    # Not in a network of its own: the engine publishes ports in this machine's. One cluster for all of its tests.
    Kind("containers", "outside", ("tests/containers",), whole=True),
)

# Each byte is written and read by the kernel's source too: their own suites, golden bytes, and stores cut at every byte.
INTERPRETED = Kind("interpreted", "in_memory", (), ("--kernel", "interpreted"), whole=True)
INTERPRETED_FOLDERS = ("tests/unit/record", "tests/property/record", "tests/wire")
INTERPRETED_STORE = "tests/crash/test_store_recovery.py"


# Each kind of client, of server and of connection between them, once more with keys and users.
SECURED = Kind("secured", "clusters", (), ("--secured",), whole=True)
SECURED_FILES = tuple(
    f"tests/integration/{name}.py"
    for name in (
        "cli/test_lite_commands",
        "cli/test_pop_group_commands",
        "client/administration/test_aio_admin",
        "client/connection/test_aio_cluster",
        "client/consuming/test_filtered_consumers",
        "client/requests/test_request_failover",
        "drills/test_static_cluster",
        "local/test_engine_contract",
        "metrics/test_canary",
    )
)


@dataclass(frozen=True, slots=True)
class Part:
    """What one pytest runs, and the seconds that it took last."""

    name: str
    kind: Kind
    files: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return " ".join((self.kind.lane, self.kind.how, self.name, *self.kind.options, *self.files))


def every_part() -> list[Part]:
    """Everything, the longest part first."""
    by_kind: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
    for file in test_files("tests"):
        by_kind[kind_of(file)].append(file)
    parts = [part for kind, files in by_kind.items() for part in divided(kind, files)]
    parts += divided(INTERPRETED, interpreted_files())
    parts += divided(SECURED, list(SECURED_FILES))
    return sorted(parts, key=lambda part: -part.seconds)


def quick_parts(folder: str | None) -> list[Part]:
    """The architecture, and unit, property and wire tests: all, or those of a folder of the package and of folders in it."""
    places = [f"tests/{kind}/{folder}" if folder else f"tests/{kind}" for kind in QUICK_KINDS]
    files = [file for place in ("tests/architecture", *places) for file in test_files(place)]
    return divided(Kind("quick", "in_memory", ()), files, count=QUICK_PARTS)


def interpreted_files() -> list[str]:
    """Those that lead to a kernel: the others would run the same lines twice."""
    files = [file for folder in INTERPRETED_FOLDERS for file in test_files(folder)]
    return [file for file in (*files, INTERPRETED_STORE) if reaches_kernel(ROOT / file)]


def test_files(folder: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("test_*.py"))


def kind_of(file: str) -> Kind:
    around = [(len(folder), kind) for kind in KINDS for folder in kind.folders if f"{file}/".startswith(f"{folder}/")]
    return max(around, key=lambda one: one[0])[1]


def divided(kind: Kind, files: list[str], count: int | None = None) -> list[Part]:
    """Parts of about the same length: each file, the longest first, goes where there is least."""
    taken = durations.kept()
    seconds = {file: taken.get(file, 0) + IMPORT_S for file in files}
    if count is None:
        count = 1 if kind.whole else max(1, ceil(sum(seconds.values()) / PART_S))
    shares: list[list[str]] = [[] for _ in range(min(count, len(files)))]
    length = dict.fromkeys(range(len(shares)), 0.0)
    for file in sorted(files, key=lambda file: -seconds[file]):
        least = min(length, key=lambda share: (length[share], len(shares[share])))
        shares[least].append(file)
        length[least] += seconds[file]
    names = [kind.name if len(shares) == 1 else f"{kind.name}-{number}" for number in range(1, len(shares) + 1)]
    return [
        Part(name, kind, tuple(sorted(share)), length[number])
        for number, (name, share) in enumerate(zip(names, shares, strict=True))
    ]


def keep(directory: Path) -> None:
    """What the interpreted and the secured run took is not a file's usual duration."""
    measured: dict[str, float] = {}
    for report in directory.glob("*.durations.json"):
        if not report.name.startswith((INTERPRETED.name, SECURED.name)):
            measured |= json.loads(report.read_text(encoding="utf-8"))
    durations.keep(measured)


def main(arguments: list[str]) -> None:
    match arguments:
        case []:
            print(*every_part(), sep="\n")
        case ["--quick"]:
            print(*quick_parts(None), sep="\n")
        case ["--quick", folder]:
            print(*quick_parts(folder.strip("/")), sep="\n")
        case ["--keep", directory]:
            keep(Path(directory))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
