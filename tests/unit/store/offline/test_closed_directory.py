"""A directory into which this user may not look is no empty one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zenitmq.broker.group.group_membership import check_is_store
from zenitmq.model.errors import StoreFormatError
from zenitmq.store.offline.offline import inspect_store, verify_store

NOBODY = 65_534


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[str]:
    """Nobody of other users may enter; root may everywhere, and is another user meanwhile."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    user = os.geteuid()
    (tmp_path / "store").chmod(0o700 if user == 0 else 0)
    if user == 0:
        os.seteuid(NOBODY)
    yield str(tmp_path / "store")
    if user == 0:
        os.seteuid(user)
    (tmp_path / "store").chmod(0o700)


@pytest.mark.parametrize("command", [verify_store, inspect_store, check_is_store])
def test_a_store_that_may_not_be_read_says_so(closed: str, command: Callable[[str], object]) -> None:
    with pytest.raises(PermissionError):
        command(closed)


@pytest.mark.parametrize("command", [verify_store, inspect_store, check_is_store])
def test_a_directory_without_a_log_is_no_store(tmp_path: Path, command: Callable[[str], object]) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(StoreFormatError):
            command(str(place))
