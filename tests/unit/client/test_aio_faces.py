"""The classes of zenitmq.aio against those of zenitmq: the same names, the same arguments, coroutines where those block."""

import inspect

import pytest

import zenitmq
from zenitmq import aio


def public(face: type) -> dict[str, object]:
    return {name: value for name, value in inspect.getmembers(face) if not name.startswith("_")}


@pytest.mark.parametrize("name", aio.__all__)
def test_both_faces_have_the_same_names_and_arguments(name: str) -> None:
    face, twin = getattr(zenitmq, name), getattr(aio, name)
    plain, waiting = public(face), public(twin)
    assert set(plain) <= set(waiting)
    assert inspect.signature(face) == inspect.signature(twin)
    for method in plain:
        if callable(plain[method]):
            ours, theirs = inspect.signature(plain[method]), inspect.signature(waiting[method])
            assert list(ours.parameters) == list(theirs.parameters), method


@pytest.mark.parametrize("name", aio.__all__)
def test_what_blocks_there_is_a_coroutine_here(name: str) -> None:
    face, twin = getattr(zenitmq, name), getattr(aio, name)
    blocking = [method for method, value in public(face).items() if inspect.iscoroutinefunction(inspect.unwrap(value))]
    assert blocking
    for method in blocking:
        assert not inspect.iscoroutinefunction(getattr(face, method)), method
        assert inspect.iscoroutinefunction(getattr(twin, method)), method
