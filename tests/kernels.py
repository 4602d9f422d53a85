"""Both forms of the kernel side by side, whatever was built: for tests that hold each to the same table."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import zenitmq.record

NAME = "zenitmq.record.kernel"


def interpreted_kernel() -> ModuleType:
    """The kernel run from its sources, as on a machine without a C compiler."""
    own_name = NAME + "_interpreted"
    if own_name not in sys.modules:
        source = Path(zenitmq.record.__path__[0]) / "kernel.py"
        spec = importlib.util.spec_from_loader(own_name, importlib.machinery.SourceFileLoader(own_name, str(source)))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[own_name] = module
        spec.loader.exec_module(module)
    return sys.modules[own_name]


def use_interpreted_kernel() -> None:
    """Makes the whole package run on the interpreted kernel; call before anything of it is imported."""
    if NAME in sys.modules:
        raise RuntimeError("the kernel is imported already")
    sys.modules[NAME] = interpreted_kernel()
