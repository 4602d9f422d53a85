#!/bin/sh
# Takes out of a folder with installed packages what no server or command uses: tests, headers, compilers, and the names that a
# debugger wants. Usage: prune.sh FOLDER
set -eu
cd "$1"
rm -rf Cython cython.py pyximport Cython-*.dist-info cython-*.dist-info bin
find . -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} +
# numpy: what builds against it, and its types for mypy
rm -rf numpy/_core/include numpy/_core/lib numpy/f2py numpy/doc numpy/_pyinstaller
# pygments: colours for languages that nothing here prints
rm -f pygments/lexers/_*_builtins.py
find . \( -name '*.pyi' -o -name '*.pxd' -o -name '*.pyx' -o -name '*.c' -o -name '*.h' -o -name '*.a' \) ! -path './zenitmq/*' -delete
# Not what a wheel bundles in its folder NAME.libs: patchelf has moved parts of it, and strip would ruin it.
find . -name '*.so*' -type f ! -path './*.libs/*' -exec strip --strip-unneeded {} +
