#!/bin/sh
# A broker in the foreground, for a service manager or a container; at SIGTERM it hands over and ends.
#
#   ZENIT_CONFIG               configuration file; config/broker.toml beside this script unless set
#   ZENIT_BROKER__STORE_DIR    and so on: single keys, over the file
#   ZENIT_STORE__FLUSH_MODE    and so on: keys of the table [store]
#   ZENIT_LOG                  DEBUG, INFO (default), WARNING
#   ZENIT_BIN                  the `zenit` command; ../.venv/bin/zenit or the one on the PATH unless set
#
# Arguments are passed on: deploy/broker.sh --set store_dir=/var/lib/zenit/broker-a
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
zenit=${ZENIT_BIN:-$here/../.venv/bin/zenit}
[ -x "$zenit" ] || zenit=zenit

# A descriptor for each connection and each open file of the store; as many as we may have is kept where it is less.
ulimit -S -n 65536 2>/dev/null || ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || :

exec "$zenit" broker --config "${ZENIT_CONFIG:-$here/config/broker.toml}" "$@"
