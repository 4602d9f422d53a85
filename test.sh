#!/usr/bin/env bash
# Everything that must hold before a change lands: set-up, style, types, tests. Arguments go to pytest.
# Usage: ./test.sh [-k expression ...]     On a fresh Debian with Python >= 3.11 it installs what it needs by itself.
set -euo pipefail
cd "$(dirname "$0")"
. deploy/set_up.sh

missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v iptables >/dev/null || missing+=(iptables)
command -v ip >/dev/null || missing+=(iproute2)
for shell in zsh fish; do # whose completion is tried in themselves
  command -v "$shell" >/dev/null || missing+=("$shell")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt_install "tools of the tests" "${missing[@]}" || say "tests that need them are skipped, and say so"
fi
set_up '[dev]'
# The tests start hundreds of processes: without this, where the environment says so, each compiles the package anew.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$PWD/.venv/pycache"

say "ruff"
"$python" -m ruff check .
"$python" -m ruff format --check .

# The root of the clone is the package, whatever the clone is called: give it its name.
mkdir -p .venv/typecheck .venv/parts
ln -sfn "$PWD" .venv/typecheck/zenitmq
types=(env -C .venv/typecheck "$python" -m mypy --strict --config-file ../../pyproject.toml -p zenitmq)
pytest=("$python" -m pytest --durations=6 --durations-min=8)

if [ $# -gt 0 ]; then
  say "mypy --strict"
  "${types[@]}"
  say "pytest"
  exec "${pytest[@]}" "$@"
fi

# The rest in parts, two more at a time than there are cores: many mostly wait. What starts clusters does so in a network of
# its own, since all of them would take the usual ports; where that is not allowed, one part after the other.
lanes=$(($(nproc) + 2))
clusters=apart
unshare --net true 2>/dev/null || clusters=in_turn
running=0 status=0

part() { # part HOW NAME COMMAND...: runs it, then prints what it said
  local how=$1 name=$2 log=.venv/parts/$2.log began=$SECONDS told=passed lock scratch room_kib
  shift 2
  scratch=$(mktemp -d)
  room_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || true
  if [ "$how" = in_memory ] && [ "${room_kib:-0}" -gt 1000000 ]; then
    rmdir "$scratch"
    scratch=$(mktemp -d -p /dev/shm)
  fi
  # A shell's background jobs are deaf to Ctrl-C, and what nohup starts to hangups; what they start would be too.
  set -- env --default-signal=INT,HUP TMPDIR="$scratch" "$@"
  case $how in
    computes | in_memory) nice "$@" ;; # what waits for a reply in time comes first
    apart) unshare --net sh -c 'ip link set lo up && exec "$@"' "$name" "$@" ;;
    in_turn) flock .venv/parts/ports "$@" ;;
  esac >"$log" 2>&1 || told=FAILED
  exec {lock}>.venv/parts/printing
  flock "$lock"
  printf '\n== %s: %s after %d s\n' "$name" "$told" $((SECONDS - began))
  cat "$log"
  [ "$told" = passed ] && rm -rf "$scratch"
}
ended() {
  wait -n || status=1
  running=$((running - 1))
}
start() { # start HOW NAME COMMAND...: as soon as a lane is free
  [ "$running" -lt "$lanes" ] || ended
  say "$2"
  part "$@" &
  running=$((running + 1))
}

# Long ones first, what computes and what waits by turns. Each folder has its place: what is not named runs in the last of
# its kind.
here=tests/integration
start "$clusters" spark "${pytest[@]}" tests/spark --ignore=tests/spark/matrix # its Java comes with the dev extra, where there is none
start computes others "${pytest[@]}" tests --ignore=tests/{unit,spark,integration,crash,fuzz}
start in_memory fuzz "${pytest[@]}" tests/fuzz # a minute of it; skipped, in so many words, where there is no compiler
start "$clusters" cli "${pytest[@]}" $here/cli
start "$clusters" docs "${pytest[@]}" $here/docs
start "$clusters" matrix "${pytest[@]}" tests/spark/matrix # apart: one Java for all of Spark's tests ended after ten minutes
start computes covered "${pytest[@]}" tests/unit --cov # alone: to trace what properties run as well would take them thrice as long
start "$clusters" client "${pytest[@]}" $here/client
start in_memory crash "${pytest[@]}" tests/crash # it tears files itself, thousands of times: a disk's syncs would be most of it
if "$zenit" --version | grep -q compiled; then
  # Of these it takes the files that lead to a kernel, by their imports; see tests/conftest.py.
  start in_memory interpreted "${pytest[@]}" --kernel interpreted tests/unit tests/property tests/wire tests/crash
fi
start "$clusters" drills "${pytest[@]}" $here/drills $here/deploy
start "$clusters" bench "${pytest[@]}" $here/bench
start "$clusters" broker "${pytest[@]}" $here/broker
start "$clusters" soak "${pytest[@]}" $here/soak
start "$clusters" rest "${pytest[@]}" $here --ignore=$here/{client,cli,drills,deploy,docs,bench,broker,soak}
start computes site "$python" -m mkdocs build --strict # not --quiet: what is not printed is no warning to it
start computes types "${types[@]}"
while [ "$running" -gt 0 ]; do ended; done
exit "$status"
