#!/bin/sh
# Debian gives remove or upgrade, Red Hat how many versions remain.
set -e
[ -d /run/systemd/system ] || exit 0
case "$1" in
remove | 0) systemctl disable --now odradek.service || true ;;
esac
