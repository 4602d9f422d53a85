"""Builds the one optional extension: the record kernel, compiled from the same source that runs interpreted."""

from Cython.Build import cythonize
from setuptools import Extension, setup

# Without the vectorizer of straight-line code: it gathers the bytes of a big-endian integer into a vector register through
# memory, and each store then waits for the one before; without it they become one byte swap and one store.
flags = ["-O3", "-fno-tree-slp-vectorize"]
kernel = Extension("zenitmq.store.record_kernel", ["store/record_kernel.py"], extra_compile_args=flags)
extensions = cythonize([kernel], language_level=3, quiet=True)
for extension in extensions:
    extension.optional = True  # set here, since cythonize drops it: without a compiler the kernel runs interpreted
setup(ext_modules=extensions, script_name="setup.py")  # named, so that it is not taken for a module of the package
