#!/usr/bin/env bash
# Runs docker-compose.yml as its users do, on Docker: builds the images, starts the demo, scales it, kills a worker, stops Kafka
# for a minute, restarts Docker, ends and starts the demo with its volumes, and deletes it. Docker and Compose are Debian's, in
# namespaces of their own: nothing of a Docker that this machine has is touched. Images that would come from a registry are
# stand-ins with the same names, made of the jars that the tests have (deploy/test/compose/Dockerfile).
#
# It needs Linux, root, Go, Java 17, Maven, 6 GB of disk, and the network for the builds. `make compose-test` runs it.
#
#   scripts/compose-test.sh [STEP ...]    # all of: build up scale kill outage restart again faults down
#
# ENGINE_WORK=FOLDER keeps Debian and images there, for the next run. SECONDS_TO_ANOMALY (90) is how long the first may take.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $(id -u) == 0 ]] || { echo "compose-test: namespaces and chroot need root" >&2; exit 1; }
steps=("$@")
[[ $# -gt 0 ]] || steps=(build up scale kill outage restart again faults down)
name=compose
. scripts/engine.sh
fail() {
	echo "compose-test: $*" >&2
	compose ps -a >&2 || true
	compose logs --tail 15 >&2 || true
	exit 1
}
say "programs"
jars
CGO_ENABLED=0 go build -o "$work/programs/grafana" deploy/test/compose/grafana.go
CGO_ENABLED=0 go build -o "$work/judge" deploy/test/compose/judge.go
boot "$(go env GOROOT)=/context/go" "$cache/kafka-$kafka/lib=/context/kafka-jars" "$cache/apicurio-registry-$registry=/context/registry-jars"
compose() { inside docker compose --project-directory /tree "$@"; }
judge() { nsenter -t "$first" -n "$work/judge" "$@" || fail "judge $*"; }

# containers SERVICE: their ids.
containers() { compose ps -aq "$@"; }
# healthy N: all containers but setup's run and are healthy, N of them of the service worker.
healthy() {
	[[ $(compose ps -a --format json | jq -rs --argjson n "$1" '
		(map(select(.Service != "setup")) | all(.State == "running" and .Health == "healthy") and length == 6 + $n)
		and (map(select(.Service == "setup")) | length == 1 and .[0].ExitCode == 0)
		and (map(select(.Service == "worker")) | length == $n)') == true ]]
}
workers=1 # of the service worker
expect_healthy() { within "$1" healthy "$workers" || fail "not all of the demo with $workers of the service worker is healthy after $1 s"; }
restarts() { docker inspect -f '{{.RestartCount}}' $(containers "$1"); }

step_build() {
	local standin name
	image_base
	mkdir -p "$work/jre" # with the files that links to /etc lead to, and without links that lead nowhere
	(cd "$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")" && find -L . -type f -print0 | tar -ch --null -T -) | tar -C "$work/jre" -x
	local golang prometheus grafana
	golang=$(sed -n 's/^FROM .*golang:\([^ ]*\) AS modules/\1/p' Dockerfile)
	prometheus=$(sed -n 's|.*image: prom/prometheus:||p' docker-compose.yml)
	grafana=$(sed -n 's|.*image: grafana/grafana:||p' docker-compose.yml)
	for standin in golang=golang:"$golang" kafka=apache/kafka:"$kafka" registry=apicurio/apicurio-registry:"$registry" \
		prometheus=prom/prometheus:"$prometheus" grafana=grafana/grafana:"$grafana"; do
		name=${standin#*=}
		image --build-context go=/context/go --build-context jre=/work/jre --build-context kafka-jars=/context/kafka-jars \
			--build-context registry-jars=/context/registry-jars --build-context programs=/work/programs \
			--target "${standin%%=*}" -t "$name" /tree/deploy/test/compose || fail "stand-in for $name"
	done
	docker builder prune -f --filter type=source.local >/dev/null # the folders' copies
	say "build: the image with the child"
	image --secret id=ca,src=/etc/ca.pem --build-arg COMMIT="$commit" -t odradek:local /tree || fail "docker build"
	[[ $(docker run --rm odradek:local version) == *"+$commit "* ]] || fail "the image is of another commit"
	[[ $(docker image inspect -f '{{.Os}}/{{.Architecture}} {{.Config.User}}' odradek:local) == "linux/amd64 65532:65532" ]] || fail "platform or user"
	say "build: for arm64, without the child"
	image --secret id=ca,src=/etc/ca.pem --target worker --platform linux/arm64 -t odradek:arm64 /tree || fail "docker build for arm64"
	[[ $(docker image inspect -f '{{.Architecture}}' odradek:arm64) == arm64 ]] || fail "the image for arm64 is for $(docker image inspect -f '{{.Architecture}}' odradek:arm64)"
	[[ $(docker build --progress plain --platform linux/arm64 /tree 2>&1) == *"odradek-cuda is for linux/amd64"* ]] || fail "the child is built for arm64"
	say "build: Compose, of what is built"
	compose --profile gpu build -q || fail "docker compose build"
	say "built"
}

step_up() {
	nsenter -t "$first" -n "$work/judge" first "${SECONDS_TO_ANOMALY:-90}" &
	local waiter=$!
	started+=($waiter)
	say "up"
	compose up -d --no-build 2>"$work/compose.log" || { cat "$work/compose.log" >&2; fail "docker compose up"; }
	say "up -d has returned"
	wait $waiter || fail "no first anomaly in time"
	expect_healthy 120
	judge group $((workers + 1))
	inside curl -sf -o /dev/null http://localhost:9465/ || fail "no page at port 9465"
	[[ $(inside curl -sfG http://localhost:9090/api/v1/query --data-urlencode 'query=count(up == 1)' | jq -r '.data.result[0].value[1]') -ge 1 ]] ||
		fail "Prometheus scrapes no worker"
	[[ $(docker volume ls -q | sort | xargs) == "odradek_kafka-data odradek_prometheus-data odradek_schema-cache" ]] ||
		fail "other volumes: $(docker volume ls -q | xargs)"
	judge live
}

step_scale() {
	say "scale: four workers"
	workers=3
	compose up -d --no-build --no-recreate --scale worker=3 2>"$work/compose.log" || { cat "$work/compose.log" >&2; fail "--scale worker=3"; }
	expect_healthy 120
	judge group $((workers + 1))
	judge live
}

step_kill() {
	say "kill: a worker"
	local id
	id=$(containers worker | head -1)
	inside bash -c "kill -9 $(docker inspect -f '{{.State.Pid}}' "$id")"
	killed() { [[ $(docker inspect -f '{{.RestartCount}} {{.State.Status}}' "$id") == "1 running" ]]; }
	within 30 killed || fail "the killed worker is not started again"
	expect_healthy 120
	judge group $((workers + 1))
	inside curl -sf -o /dev/null http://localhost:9465/ || fail "no page at port 9465"
	judge live
}

step_outage() {
	say "outage: Kafka is stopped for 60 s"
	local before
	before=$(restarts generator)
	compose stop kafka 2>/dev/null
	sleep 60
	compose start kafka 2>/dev/null
	expect_healthy 240
	[[ $(restarts generator) == "$before" ]] || fail "the outage has ended the generator"
	judge live
}

step_restart() {
	say "restart: of Docker"
	local before
	before=$(pgrep -P "$first" dockerd)
	kill -TERM "$before"
	other() { [[ $(pgrep -P "$first" dockerd) != "$before" ]] && answers; }
	within 90 other || fail "dockerd does not come back"
	expect_healthy 240
	judge live
}

step_again() {
	say "again: down, and up with the volumes"
	compose down 2>/dev/null
	workers=1
	[[ ! $(docker ps -aq) && $(docker volume ls -q | wc -l) == 3 ]] || fail "down leaves $(docker ps -aq | wc -l) containers and $(docker volume ls -q | wc -l) volumes"
	compose up -d --no-build 2>"$work/compose.log" || { cat "$work/compose.log" >&2; fail "docker compose up with the volumes"; }
	expect_healthy 180
	judge group $((workers + 1))
	inside curl -sf -o /dev/null http://localhost:9465/ || fail "no page at port 9465"
	judge live
	local keys
	keys=$(for c in $(containers page worker); do docker logs "$c" 2>&1; done |
		jq -Rs 'split("\n") | map(fromjson? | select(.msg == "restored") | .keys) | add // 0')
	((keys >= 25)) || fail "the workers have restored $keys sensors, not 25"
}

step_faults() {
	say "faults"
	sleep 45 # so that there are faults of the last start
	judge faults
}

step_down() {
	say "down -v"
	compose down -v 2>/dev/null
	[[ ! $(docker ps -aq) && ! $(docker volume ls -q) && ! $(docker network ls -q -f type=custom) ]] || fail "down -v leaves something"
}

for step in "${steps[@]}"; do
	[[ $step == build ]] || kill "$uplink" 2>/dev/null || true # only builds need a network
	"step_$step"
done
say "compose-test: all as expected"
