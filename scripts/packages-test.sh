#!/usr/bin/env bash
# Installs, starts, upgrades, stops and removes the packages of a release, as an administrator does: the Debian package in a Debian
# with systemd of its own, in namespaces, beside a broker in memory; the Red Hat package in an empty root, by rpm. It needs Linux, root,
# Go and Debian's debootstrap and rpm, and the Debian mirror that apt uses. `make packages-test` runs it.
#
#   scripts/packages-test.sh FOLDER    # of scripts/release.sh
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# == 1 ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
release=$(cd "$1" && pwd)
[[ $(id -u) == 0 ]] || { echo "packages-test: namespaces and dpkg need root" >&2; exit 1; }
command -v rpm >/dev/null || apt-get install -y -q --no-install-recommends rpm >/dev/null
work=$(mktemp -d /var/tmp/odradek-packages.XXXXXX)
root=$work/root
started=()
ended() {
	kill -9 "${started[@]}" 2>/dev/null || true # unshare ignores others; with it ends all in its namespaces
	wait 2>/dev/null || true
	rm -rf --one-file-system "$work"
}
trap ended EXIT
fail() { echo "packages-test: $*" >&2; exit 1; }
say() { echo "== $*"; }

# A second version: the same files, so that nothing but the number is new.
deb=$(echo "$release"/odradek_*_amd64.deb)
mkdir "$work/next"
dpkg-deb -R "$deb" "$work/next"
sed -i 's/^Version:.*/Version: 99.0.0-1/' "$work/next/DEBIAN/control"
dpkg-deb --root-owner-group -b "$work/next" "$work/next.deb" >/dev/null

say "a Debian with systemd"
scripts/debian-root.sh bookworm "$root" systemd,systemd-sysv,dbus
cp "$deb" "$root/root/odradek.deb"
cp "$work/next.deb" "$root/root/next.deb"
cat >"$work/boot" <<'END'
set -e
mount --bind "$1" "$1"
for d in run tmp dev; do mount -t tmpfs tmpfs "$1/$d"; done
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
for d in null zero full random urandom tty; do touch "$1/dev/$d"; mount --bind "/dev/$d" "$1/dev/$d"; done
mkdir "$1/dev/shm" "$1/dev/pts"
mount -t devpts devpts "$1/dev/pts"
ln -s /proc/self/fd "$1/dev/fd"
exec env -i container=odradek PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" /sbin/init
END
unshare --fork --pid --mount --propagation private --uts --ipc --cgroup --kill-child bash "$work/boot" "$root" >"$work/boot.log" 2>&1 &
started+=($!)
inside() { nsenter -t "$(pgrep -P "${started[0]}")" -p -m -u -i -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
up() { [[ $(inside systemctl is-system-running 2>/dev/null) =~ running|degraded ]]; }
for ((i = 0; i < 60; i++)); do up && break; sleep 1; done
up || { cat "$work/boot.log" >&2; fail "systemd did not start"; }

say "a broker with records"
go build -o "$work/up" ./processor/kafkatest/up
"$work/up" kfake >"$work/broker" &
started+=($!)
for ((i = 0; i < 60; i++)); do grep -q REGISTRY "$work/broker" && break; sleep 1; done
brokers=$(sed -n 's/^export ODRADEK_KAFKA_BROKERS=//p' "$work/broker")
dpkg-deb --fsys-tarfile "$deb" | tar -xOf - ./usr/bin/odradek >"$work/odradek"
chmod +x "$work/odradek"
ODRADEK_KAFKA_BROKERS=$brokers "$work/odradek" generate -topic sensors -format json -records 5000 >/dev/null 2>"$work/generate.log" ||
	{ cat "$work/generate.log" >&2; fail "generate"; }

logged() { [[ $(inside journalctl -u odradek --no-pager) == *"$1"* ]]; }
state() { inside systemctl show -P "$1" odradek; }
expect() { # PROPERTY VALUE SECONDS: of the unit, at the latest then
	for ((i = 0; i < $3 * 5; i++)); do
		[[ $(state "$1") == "$2" ]] && return
		sleep 0.2
	done
	inside journalctl -u odradek -n 20 --no-pager >&2 || true
	fail "$1 of the unit is $(state "$1"), not $2"
}

say "install: the worker is neither started nor enabled, and its settings are there"
inside dpkg -i /root/odradek.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg -i"; }
expect LoadState loaded 5
expect ActiveState inactive 5
[[ $(inside systemctl is-enabled odradek) == disabled ]] || fail "the unit is enabled"
[[ $(inside odradek version) == "$("$work/odradek" version)" ]] || fail "another program is installed"
settings=$root/etc/odradek/odradek.yaml
[[ -f $settings ]] || fail "no $settings"

say "start: ready by Type=notify, with a user and a state folder of its own"
sed -i "s/^kafka_brokers:.*/kafka_brokers: [$brokers]/" "$settings"
inside systemctl enable --now odradek 2>/dev/null || { inside journalctl -u odradek -n 30 --no-pager >&2; fail "systemctl enable --now"; }
expect ActiveState active 30
[[ $(inside stat -c %U "/proc/$(state MainPID)") != root ]] || fail "the worker runs as root"
[[ -d $root/var/lib/private/odradek ]] || fail "no state folder"

say "upgrade: the running worker is restarted, changed settings stay"
before=$(state MainPID)
inside dpkg -i /root/next.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg -i of the next version"; }
expect ActiveState active 60
[[ $(state MainPID) != "$before" ]] || fail "an upgrade has not restarted the worker"
grep -q "$brokers" "$settings" || fail "an upgrade has replaced the settings"

say "faulty settings: exit code 78, and no restart"
sed -i 's/^format:.*/format: morse/' "$settings"
inside systemctl restart odradek 2>/dev/null && fail "a worker with faulty settings starts"
expect ActiveState failed 10
[[ $(state ExecMainStatus) == 78 && $(state NRestarts) == 0 ]] || fail "exit code $(state ExecMainStatus), $(state NRestarts) restarts"
logged morse || fail "the journal does not name the setting"
sed -i 's/^format:.*/format: json/' "$settings"
inside systemctl restart odradek
expect ActiveState active 30

say "remove: the worker is drained, the unit is gone, settings stay until purge"
inside dpkg -r odradek >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg -r"; }
expect ActiveState inactive 40
logged 'msg=drained' || fail "the worker was not drained"
[[ ! -e $root/usr/bin/odradek && ! -e $root/usr/lib/systemd/system/odradek.service ]] || fail "files stay"
[[ -f $settings ]] || fail "dpkg -r has removed the settings"
inside dpkg -P odradek >/dev/null 2>&1
[[ ! -e $root/etc/odradek/odradek.yaml ]] || fail "dpkg -P leaves the settings"

say "rpm: the same files"
rpm=$(echo "$release"/odradek-*.x86_64.rpm)
mkdir "$work/rpm"
rpm --root "$work/rpm" --initdb
rpm --root "$work/rpm" -i --nodeps --noscripts --ignorearch --nosignature "$rpm"
files() { (cd "$1" && find etc usr -type f -path '*odradek*' | sort | xargs sha256sum); }
dpkg-deb -x "$deb" "$work/deb"
diff <(files "$work/deb") <(files "$work/rpm") || fail "the packages differ"
rpm --root "$work/rpm" -e --nodeps --noscripts odradek
[[ ! -e $work/rpm/usr/bin/odradek ]] || fail "rpm -e leaves the program"
echo "packages-test: all as expected"
