"""The error tree: one code one class both ways, facts that survive pickling, texts that render."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from zenitmq.model import errors
from zenitmq.model.errors import ZenitError, error_classes, error_from_wire


def tree(root: type[ZenitError] = ZenitError) -> list[type[ZenitError]]:
    return [root, *(found for child in root.__subclasses__() for found in tree(child))]


OURS = [cls for cls in tree() if cls.__module__.startswith(errors.__name__)]


def example(cls: type[ZenitError]) -> ZenitError:
    """An error with a telling value for each argument of its class."""
    if cls is ZenitError:
        return ZenitError("plain")
    samples = {"int": 7, "str": "tele", "object": 12}
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return cls(*(samples[parameter.annotation] for parameter in parameters))


def test_every_error_of_the_module_is_in_the_tree() -> None:
    declared = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert declared == set(OURS)
    assert len(OURS) >= 25


def test_one_code_is_one_class() -> None:
    codes = [cls.code for cls in OURS]
    assert sorted(codes) == sorted(set(codes))
    assert all("code" in vars(cls) for cls in OURS), "a class without its own code would share its parent's"


def test_codes_are_rocketmqs_or_ours_from_9000() -> None:
    rocketmq = {1, 2, 3, 10, 12, 13, 14, 15, 16, 17, 18, 22, 23, 25, 26, 29, 501, *range(2000, 2017)}
    assert all(cls.code in rocketmq or 9000 <= cls.code < 10_000 for cls in OURS)


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_facts_survive_pickling_and_copying(cls: type[ZenitError]) -> None:
    error = example(cls)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is cls
        assert twin.args == error.args
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_arguments_are_facts_in_order_and_rendered(cls: type[ZenitError]) -> None:
    """`args` rebuilds the error (the wire does so), each is an attribute of its name, and each is plain data."""
    error = example(cls)
    assert all(isinstance(arg, (int, str)) for arg in error.args)
    names = list(inspect.signature(cls.__init__).parameters)[1:] if cls is not ZenitError else []
    for name, arg in zip(names, error.args, strict=False):
        assert getattr(error, name) == arg
        assert str(arg) in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("cls", [cls for cls in OURS if cls is not ZenitError], ids=lambda cls: cls.__name__)
def test_docstrings_name_the_arguments(cls: type[ZenitError]) -> None:
    documentation = cls.__doc__ or ""
    assert "Args: " in documentation
    for name in list(inspect.signature(cls.__init__).parameters)[1:]:
        assert name in documentation.partition("Args: ")[2]


def test_the_wires_table_finds_every_class_by_its_code() -> None:
    assert {cls.code: cls for cls in OURS}.items() <= error_classes().items()


@pytest.mark.parametrize("cls", [cls for cls in OURS if cls is not ZenitError], ids=lambda cls: cls.__name__)
def test_facts_from_the_wire_make_the_same_error(cls: type[ZenitError]) -> None:
    error = example(cls)
    twin = error_from_wire(cls.code, list(error.args), str(error))
    assert (type(twin), twin.args, str(twin)) == (cls, error.args, str(error))


@pytest.mark.parametrize(("code", "facts"), [(9999, []), (9999, ["a"]), (1, ["a"]), (501, []), (501, ["a", 1, 2])])
def test_what_we_do_not_know_keeps_its_remark(code: int, facts: list[object]) -> None:
    error = error_from_wire(code, facts, "the peer's own words")
    assert type(error) is ZenitError
    assert str(error) == "the peer's own words"
    assert str(error_from_wire(9999, [], "")) == "error 9999"
