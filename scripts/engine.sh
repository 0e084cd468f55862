# Docker in a Debian of its own, in namespaces of its own: nothing of a Docker that this machine has is touched. It is for
# scripts to source, after they have set
#
#   name      of the script: compose or cluster
#
# It sets work, the folder for Debian, programs and images. ENGINE_WORK=FOLDER keeps them there: for the next run, and for the
# other script, whose Debian and images they are, too.
work=${ENGINE_WORK:-$(mktemp -d "/var/tmp/odradek-$name.XXXXXX")}
engine=$work/engine
packages=ca-certificates,iproute2,docker.io,docker-cli,docker-buildx,iptables,jq,curl,git,make,gcc,libc6-dev
packages+=,docker-compose,wget,prometheus # of compose-test
packages+=,etcd-server,containernetworking-plugins,dnsmasq-base,procps # of cluster-test
mkdir -p "$work/programs"
commit=$(git describe --always --dirty --exclude '*')
started=()
ended() {
	kill -9 "${started[@]}" 2>/dev/null || true # unshare takes all in its namespaces with it
	wait 2>/dev/null || true
	local i
	for ((i = 0; i < 50; i++)); do # until the last of them has ended
		find /sys/fs/cgroup -depth -type d -path "*/odradek-$name*" -exec rmdir {} + 2>/dev/null || true
		[[ $(find /sys/fs/cgroup -maxdepth 2 -name "odradek-$name*") ]] || break
		sleep 0.2
	done
	[[ ${ENGINE_WORK:-} ]] || rm -rf --one-file-system "$work"
}
trap ended EXIT
trap 'exit 1' INT TERM
say() { printf '== %s (%d s)\n' "$*" "$SECONDS"; }
within() { # SECONDS COMMAND: succeeds when the command does
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 1
	done
}

# boot SOURCE=TARGET ...: a Debian with a dockerd, and folders of this machine in it, this tree as /tree and work as /work.
boot() {
	mkdir -p "$work/data"
	command -v slirp4netns >/dev/null || apt-get install -y -q --no-install-recommends slirp4netns >/dev/null
	if ! [[ -e $work/complete ]]; then
		say "a Debian"
		rm -rf --one-file-system "$engine"
		scripts/debian-root.sh trixie "$engine" "$packages"
		touch "$work/complete"
	fi
	cat >"$work/boot" <<'END'
set -e
work=$1 tree=$2 name=$3 engine=$1/engine
shift 3
mount --bind "$engine" "$engine"
mount -t tmpfs tmpfs "$engine/run"
mount -t tmpfs tmpfs "$engine/tmp"
mount -t proc proc "$engine/proc"
mount --rbind /sys "$engine/sys"
mount --rbind /dev "$engine/dev"
for pair in "$work/data=/var/lib/docker" "$work=/work" "$tree=/tree" "$@"; do
	mkdir -p "$engine${pair#*=}"
	mount --bind "${pair%%=*}" "$engine${pair#*=}"
done
cp /etc/resolv.conf "$engine/etc/"
cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$engine/etc/ca.pem"
ip link set lo up
mkdir -p "$engine/old"
cd "$engine"
pivot_root . old
cd /
umount -l /old
echo 1 >/proc/sys/net/ipv4/ip_forward
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
while true; do # dockerd that is ended is started again, as systemd does
	dockerd --host unix:///run/docker.sock --cgroup-parent "odradek-$name" --dns 10.0.2.3 --default-address-pool base=198.18.0.0/16,size=24 --bip 198.19.0.1/24 >>/work/dockerd.log 2>&1 || true
done
END
	: >"$work/dockerd.log"
	unshare --fork --pid --mount --propagation private --net --uts --ipc --kill-child bash "$work/boot" "$work" "$PWD" "$name" "$@" >"$work/boot.log" 2>&1 &
	started+=($!)
	sleep 1
	first=$(pgrep -P "${started[-1]}")
	slirp4netns --configure --mtu=1500 "$first" tap0 >"$work/slirp.log" 2>&1 &
	uplink=$!
	started+=($uplink)
	within 60 answers || { cat "$work/boot.log" >&2; tail -5 "$work/dockerd.log" >&2; echo "$name-test: dockerd does not start" >&2; exit 1; }
}
inside() { nsenter -t "$first" -p -m -n -u -i -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root COMMIT="$commit" "$@"; }
docker() { inside docker "$@"; }
answers() { docker version >/dev/null 2>&1; }
image() { docker build --progress plain "$@" >"$work/build.log" 2>&1 || { tail -30 "$work/build.log" >&2; false; }; }

# image_base: the stand-in for Debian, of which the other stand-ins are made.
image_base() {
	docker image inspect debian:odradek >/dev/null 2>&1 || tar -C "$engine" --one-file-system --exclude='*docker*' --exclude='*containerd*' -c . | docker import - debian:odradek >/dev/null
}

# jars: sets cache, kafka and registry, where the jars of both of docker-compose.yml are.
jars() {
	cache=${ODRADEK_TEST_CACHE:-$HOME/.cache/odradek-test}
	kafka=$(sed -n 's|.*image: apache/kafka:||p' docker-compose.yml)
	registry=$(sed -n 's|.*image: apicurio/apicurio-registry:||p' docker-compose.yml)
	[[ -d $cache/kafka-$kafka/lib && -d $cache/apicurio-registry-$registry/lib ]] && return
	go run ./processor/kafkatest/up "$kafka" >"$work/up" & # a start of both gets them
	started+=($!)
	within 300 grep -q TEST_KAFKA "$work/up" || { echo "$name-test: no jars of Kafka and the registry" >&2; exit 1; }
	kill -INT "${started[-1]}"
}
