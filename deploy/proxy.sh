#!/bin/sh
# A proxy in the foreground, for a service manager or a container; SIGTERM stops it.
#
#   ZENIT_CONFIG          configuration file; config/proxy.toml beside this script unless set
#   ZENIT_PROXY__PORT   and so on: single keys, over the file
#   ZENIT_LOG             DEBUG, INFO (default), WARNING
#   ZENIT_BIN             the `zenit` command; ../.venv/bin/zenit or the one on the PATH unless set
#
# Arguments are passed on: deploy/proxy.sh --set namesrv=ns1:9876,ns2:9876
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
zenit=${ZENIT_BIN:-$here/../.venv/bin/zenit}
[ -x "$zenit" ] || zenit=zenit

exec "$zenit" proxy --config "${ZENIT_CONFIG:-$here/config/proxy.toml}" "$@"
