"""Builds the optional extension: the kernel, compiled from the same sources that run interpreted."""

import importlib.util
import os
import sys
import sysconfig
import zlib

from Cython.Build import cythonize
from setuptools import Distribution, Extension, setup

FOLDER = os.path.join("build", "kernels")


def _join():
    """record/kernel_join.py, without the package around it: what that needs is not installed yet."""
    spec = importlib.util.spec_from_file_location("kernel_join", os.path.join("record", "kernel_join.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def kernel():
    """The path of the joined source of the kernel, which tells at its import what it is made of."""
    join, path = _join(), os.path.join(FOLDER, "kernel.py")
    parts = {part: _read(os.path.join("record", f"{part}.py")) for part in join.PARTS}
    text = join.joined({part: source.decode() for part, source in parts.items()})
    checksum = zlib.crc32(b"".join(parts.values()))
    text += f"\n\nfrom .kernel_source import check_source\n\ncheck_source(__file__, {checksum})\n"
    if not os.path.exists(path) or _read(path) != text.encode():
        os.makedirs(FOLDER, exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode())
    return path


# Without the vectorizer of straight-line code: it gathers the bytes of a big-endian integer into a vector register through
# memory, and each store then waits for the one before; without it they become one byte swap and one store.
# The limit on how much a file may grow by inlining is raised: under gcc's own, code added anywhere in a kernel takes the
# helpers that touch each record out of the loops of others.
# Names and lines for a debugger take a third of the compiler's time.
flags = ["-O3", "-fno-tree-slp-vectorize", "--param=inline-unit-growth=200", "-g0"]
kernels = [Extension("zenitmq.record.kernel", [kernel()], extra_compile_args=flags)]
extensions = cythonize(kernels, language_level=3, quiet=True)
for extension in extensions:
    extension.optional = True  # set here, since cythonize drops it: without a compiler it runs interpreted


class Zenit(Distribution):
    """Asked by an editable install, in these words, whether it has data files."""

    has_data = Distribution.has_data_files


# Spark finds modules in the folders of the path only, and an editable install has none there: this one is put among them.
site = os.path.relpath(sysconfig.get_path("purelib"), sysconfig.get_path("data"))
setup(
    distclass=Zenit,
    ext_modules=extensions,
    data_files=[(site, ["pyspark_zenit.py"])] if "editable_wheel" in sys.argv else [],
    script_name="setup.py",  # named, so that it is not taken for a module of the package
)
