"""Builds the optional extensions: the two kernels, compiled from the same source that runs interpreted."""

import os
import sys
import sysconfig
import zlib

from Cython.Build import cythonize
from setuptools import Distribution, Extension, setup

FOLDER = os.path.join("build", "kernels")


def signed(name):
    """The path of a copy of a kernel's source that tells at its import what it is: compiled, it is not taken for another."""
    source, path = os.path.join("record", f"{name}.py"), os.path.join(FOLDER, f"{name}.py")
    text = _read(source)
    text += b"\n\nfrom .kernel_source import check_source\n\ncheck_source(__file__, %d)\n" % zlib.crc32(text)
    if not os.path.exists(path) or os.path.getmtime(path) <= os.path.getmtime(source) or _read(path) != text:
        os.makedirs(FOLDER, exist_ok=True)
        with open(path, "wb") as file:
            file.write(text)
    return path


def _read(path):
    with open(path, "rb") as file:
        return file.read()


# Without the vectorizer of straight-line code: it gathers the bytes of a big-endian integer into a vector register through
# memory, and each store then waits for the one before; without it they become one byte swap and one store.
# The limit on how much a file may grow by inlining is raised: under gcc's own, code added anywhere in a kernel takes the
# helpers that touch each record out of the loops of others.
# Names and lines for a debugger take a third of the compiler's time.
flags = ["-O3", "-fno-tree-slp-vectorize", "--param=inline-unit-growth=200", "-g0"]
kernels = [
    Extension(f"zenitmq.record.{name}", [signed(name)], extra_compile_args=flags)
    for name in ("record_kernel", "column_kernel")
]
extensions = cythonize(kernels, language_level=3, quiet=True)
for extension in extensions:
    extension.optional = True  # set here, since cythonize drops it: without a compiler they run interpreted


class Zenit(Distribution):
    """Asked by an editable install, in these words, whether it has data files."""

    has_data = Distribution.has_data_files


# Spark finds modules in the folders of the path only, and an editable install has none there: this one is put among them.
site = os.path.relpath(sysconfig.get_path("purelib"), sysconfig.get_path("data"))
setup(
    distclass=Zenit,
    ext_modules=extensions,
    options={"build_ext": {"parallel": len(extensions)}},
    data_files=[(site, ["pyspark_zenit.py"])] if "editable_wheel" in sys.argv else [],
    script_name="setup.py",  # named, so that it is not taken for a module of the package
)
