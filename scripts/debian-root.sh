#!/usr/bin/env bash
# Makes a Debian in a folder, from the mirror that apt uses here; needs root.
#
#   scripts/debian-root.sh SUITE FOLDER PACKAGE,...
set -euo pipefail
[[ $(id -u) == 0 ]] || { echo "debian-root: chroot needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -q --no-install-recommends debootstrap >/dev/null
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
debootstrap --variant=minbase --include="$3" "$1" "$2" ${mirror:+"$mirror"} >"$log" 2>&1 || { tail -5 "$log" >&2; exit 1; }
rm -f "$2"/var/cache/apt/archives/*.deb
