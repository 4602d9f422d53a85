"""Builds the optional extensions: the two kernels, compiled from the same source that runs interpreted."""

from Cython.Build import cythonize
from setuptools import Extension, setup

# Without the vectorizer of straight-line code: it gathers the bytes of a big-endian integer into a vector register through
# memory, and each store then waits for the one before; without it they become one byte swap and one store.
flags = ["-O3", "-fno-tree-slp-vectorize"]
kernels = [
    Extension(f"zenitmq.store.{name}", [f"store/{name}.py"], extra_compile_args=flags)
    for name in ("record_kernel", "column_kernel")
]
extensions = cythonize(kernels, language_level=3, quiet=True)
for extension in extensions:
    extension.optional = True  # set here, since cythonize drops it: without a compiler they run interpreted
setup(ext_modules=extensions, script_name="setup.py")  # named, so that it is not taken for a module of the package
