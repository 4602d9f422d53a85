"""Both forms of the record kernel side by side, whatever was built: for tests that hold each to the same table."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import zenitmq.store

NAME = "zenitmq.store.record_kernel"
SOURCE = Path(zenitmq.store.__path__[0]) / "record_kernel.py"


def interpreted_kernel() -> ModuleType:
    """The kernel run from its source, as on a machine without a C compiler."""
    name = NAME + "_interpreted"
    if name not in sys.modules:
        spec = importlib.util.spec_from_loader(name, importlib.machinery.SourceFileLoader(name, str(SOURCE)))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def use_interpreted_kernel() -> None:
    """Makes the whole package run on the interpreted kernel; call before anything of it is imported."""
    if NAME in sys.modules:
        raise RuntimeError("the kernel is imported already")
    sys.modules[NAME] = interpreted_kernel()
