"""`pytest --kernel interpreted` runs a suite on the kernel's source instead of the compiled extension.

It leaves out tests that run on both forms by themselves. `pytest --secured` gives each test cluster keys and users, but those
that say `secure=False`. Which files `./test.sh` runs so: parts.py.

Spark, wherever a test starts it, starts as spark/quick_start.py says; numpy, wherever a process imports it, starts no
threads, which cost each Python process of Spark's a third more. How long an example of a property test takes, and how late a
log's next segment is, says something of the machine, not of the code.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))
gc.set_threshold(
    20_000, *gc.get_threshold()[1:]
)  # tests make much that stays: the usual 700 costs a twentieth of their time
settings.register_profile("zenitmq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zenitmq")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kernel", choices=("compiled", "interpreted", "installed"), default="installed")
    parser.addoption("--secured", action="store_true", help="test clusters have keys and users")
    parser.addoption(
        "--durations-to", type=Path, help="a file for what each test file took, in seconds: see durations.py"
    )
    parser.addoption("--spare-traces", action="store_true", help="coverage traces no test that untraced.txt lists")
    parser.addoption("--test-times-to", type=Path, help="with --cov: a file for what each test took: see tracing.py")


def pytest_configure(config: pytest.Config) -> None:
    from durations import Stopwatch
    from spark import quick_start
    from tracing import Tracing

    from kernels import NAME, use_interpreted_kernel

    for variable, value in (quick_start.environment() | {"OPENBLAS_NUM_THREADS": "1"}).items():
        os.environ.setdefault(variable, value)
    if report := config.getoption("--durations-to"):
        config.pluginmanager.register(Stopwatch(report))
    if config.pluginmanager.has_plugin("_cov"):
        spares, times = config.getoption("--spare-traces"), config.getoption("--test-times-to")
        config.pluginmanager.register(Tracing(spares=spares, times=times))
    if config.getoption("--secured"):
        os.environ["ZENIT_TEST_SECURE"] = "1"
    wanted = config.getoption("--kernel")
    if wanted == "interpreted":
        use_interpreted_kernel()
    elif wanted == "compiled" and not importlib.import_module(NAME).COMPILED:
        raise pytest.UsageError("the kernel is not compiled here; a C compiler and Python's headers are needed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--kernel") == "interpreted":
        twice = [item for item in items if "kernel" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=twice)
        items[:] = [item for item in items if item not in set(twice)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and tests stay to the end: whoever looks for garbage need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["installed", "interpreted"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """The kernel as the package uses it, and as it runs from source."""
    from kernels import NAME, interpreted_kernel

    return importlib.import_module(NAME) if request.param == "installed" else interpreted_kernel()


@pytest.fixture(autouse=True, scope="session")
def patient_allocator() -> Iterator[None]:
    """A log that rolls waits for its segment for as long as a busy machine needs; a user's send would be told to try again."""
    from zenitmq.store.log import allocator

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator, "TAKE_WAIT_MS", 30_000)
        yield


@pytest.fixture(params=["file", "rocksdb"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What keeps the consume queues of `store_kit`'s stores."""
    from store_kit import SMALL

    monkeypatch.setitem(SMALL, "consume_queue", request.param)
    return str(request.param)
