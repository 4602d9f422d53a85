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
if [ ${#missing[@]} -gt 0 ]; then
  apt_install "tools of the fault tests" "${missing[@]}" || say "tests that need them are skipped, and say so"
fi
set_up '[dev]'

say "ruff"
"$python" -m ruff check .
"$python" -m ruff format --check .

say "mypy --strict"
# The root of the clone is the package, whatever the clone is called: give it its name.
mkdir -p .venv/typecheck
ln -sfn "$PWD" .venv/typecheck/zenitmq
(cd .venv/typecheck && "$python" -m mypy --strict --config-file ../../pyproject.toml -p zenitmq)

if [ $# -gt 0 ]; then
  say "pytest"
  exec "$python" -m pytest "$@"
fi

# Two lanes, one a core: what computes, in the background; what waits for processes and ports, in front, but for some of it
# that the background takes over once it is done, in a network of its own: both lanes start clusters on the usual ports.
beside=(tests/integration/{controller,deploy,docs,drills,namesrv,remoting})
unshare --net true 2>/dev/null || beside=()
computing() {
  local failed=0
  "$python" -m pytest tests/architecture tests/crash tests/model tests/sim tests/wire || failed=1
  if "$zenit" --version | grep -q compiled; then
    say "pytest on the interpreted kernel"
    "$python" -m pytest --kernel interpreted tests/unit tests/property tests/wire tests/crash || failed=1
  fi
  if [ ${#beside[@]} -gt 0 ]; then
    unshare --net sh -c 'ip link set lo up && exec "$@"' beside "$python" -m pytest "${beside[@]}" || failed=1
  fi
  return "$failed"
}
say "pytest in the background: architecture, crash, model, sim, wire; on the interpreted kernel; some of integration"
computing >.venv/computing.log 2>&1 &
lane=$!

say "pytest: unit and property, with branch coverage of the pure files; then the rest of integration"
status=0
"$python" -m pytest tests/unit tests/property --cov || status=1
"$python" -m pytest tests/integration "${beside[@]/#/--ignore=}" || status=1

wait "$lane" || status=1
cat .venv/computing.log
exit "$status"
