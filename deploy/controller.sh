#!/bin/sh
# A controller in the foreground, for a service manager or a container; SIGTERM stops it.
#
#   ZENIT_CONFIG          configuration file; config/controller.toml beside this script unless set
#   ZENIT_CONTROLLER__PORT   and so on: single keys, over the file
#   ZENIT_LOG             DEBUG, INFO (default), WARNING
#   ZENIT_BIN             the `zenit` command; ../.venv/bin/zenit or the one on the PATH unless set
#
# Arguments are passed on: deploy/controller.sh --set zookeeper=zk1:2181,zk2:2181
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
zenit=${ZENIT_BIN:-$here/../.venv/bin/zenit}
[ -x "$zenit" ] || zenit=zenit

exec "$zenit" controller --config "${ZENIT_CONFIG:-$here/config/controller.toml}" "$@"
