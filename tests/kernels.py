"""Both forms of the kernels side by side, whatever was built: for tests that hold each to the same table."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import zenitmq.record

NAME = "zenitmq.record.record_kernel"
COLUMNS = "zenitmq.record.column_kernel"


def interpreted_kernel(name: str = NAME) -> ModuleType:
    """A kernel run from its source, as on a machine without a C compiler."""
    own_name = name + "_interpreted"
    if own_name not in sys.modules:
        source = Path(zenitmq.record.__path__[0]) / f"{name.rpartition('.')[2]}.py"
        spec = importlib.util.spec_from_loader(own_name, importlib.machinery.SourceFileLoader(own_name, str(source)))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[own_name] = module
        spec.loader.exec_module(module)
    return sys.modules[own_name]


def use_interpreted_kernel() -> None:
    """Makes the whole package run on the interpreted kernels; call before anything of it is imported."""
    if NAME in sys.modules:
        raise RuntimeError("the kernel is imported already")
    for name in (NAME, COLUMNS):
        sys.modules[name] = interpreted_kernel(name)
