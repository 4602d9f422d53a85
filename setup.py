"""Builds the one optional extension: the record kernel, compiled from the same source that runs interpreted."""

from Cython.Build import cythonize
from setuptools import Extension, setup

kernel = Extension("zenitmq.store.record_kernel", ["store/record_kernel.py"], extra_compile_args=["-O3"])
extensions = cythonize([kernel], language_level=3, quiet=True)
for extension in extensions:
    extension.optional = True  # set here, since cythonize drops it: without a compiler the kernel runs interpreted
setup(ext_modules=extensions, script_name="setup.py")  # named, so that it is not taken for a module of the package
