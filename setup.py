"""Builds the one optional extension: the record kernel, compiled from the same source that runs interpreted."""

from Cython.Build import cythonize
from setuptools import Extension, setup

kernel = Extension("zenitmq.store.record_kernel", ["store/record_kernel.py"], extra_compile_args=["-O3"], optional=True)
setup(ext_modules=cythonize([kernel], language_level=3, quiet=True))
