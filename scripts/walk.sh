#!/usr/bin/env bash
# The path of a new user, walked with one command, on Apache Kafka and Apicurio Registry, with a producer in Python and Kafka's
# console tools in Java: clone, build, demo, a topic, suggest, run, the first anomaly, why, feedback, mute, reload, dead letters.
# It prints each command with its output and the time that it took; docs/first-hour.md has such a print. It fails where a step
# does not do what it should.
#
#   scripts/walk.sh [FOLDER]      # FOLDER, default a new one in /tmp, gets the clone, the settings and the logs
#
# It needs what CONTRIBUTING.md names: Go, and Java 17 and Maven for Kafka; and Python 3 with venv. It ends all that it starts.
# WALK_SKIP=demo,tools leaves out these steps; PIP_INDEX_URL is where pip finds confluent-kafka.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
here=${1:-$(mktemp -d /tmp/odradek-walk-XXXXXX)}
mkdir -p "$here"
here=$(cd "$here" && pwd)
cd "$here"
skip=,${WALK_SKIP:-},
began=$SECONDS
pids=()
trap finish EXIT
finish() { # the worker ends before its brokers do
	local i
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		kill "${pids[i]}" 2>/dev/null || true
		wait "${pids[i]}" 2>/dev/null || true
	done
}

title() { printf '\n## %s\n\n' "$*"; }

# step prints a command, runs it and prints its output, cut, and its time.
step() {
	printf '    $ %s\n' "$*"
	local from to code=0
	from=$(date +%s.%N)
	bash -c "$*" >step.log 2>&1 || code=$?
	to=$(date +%s.%N)
	cut -c1-180 step.log | sed -n "1,${LINES_SHOWN:-14}p" | sed 's/^/    /'
	printf '    (%.1f s)\n' "$(echo "$to - $from" | bc)"
	[[ $code == "${WANT:-0}" ]] || { echo "exit $code, want ${WANT:-0}"; cat step.log; exit 1; }
}

# alive fails if a program that this started has ended, such as a worker whose port another program has.
alive() {
	local pid
	for pid in "${pids[@]}"; do
		kill -0 "$pid" 2>/dev/null || { echo "process $pid has ended"; tail -n 20 ./*.log; exit 1; }
	done
}

# until_ok tries a command until it succeeds, for up to two minutes.
until_ok() {
	local end=$((SECONDS + 120))
	until bash -c "$*" >/dev/null 2>&1; do
		alive
		[[ $SECONDS -lt $end ]] || { echo "within two minutes not true: $*"; tail -n 20 run.log; exit 1; }
		sleep 0.3
	done
}

title "Clone and build"
step "git clone -q $root odradek"
step "make -C odradek -s build"
export PATH=$here/odradek/bin:$PATH
if [[ $skip != *,demo,* ]]; then
	title "The demo"
	LINES_SHOWN=40 step "demo -plain -for 20s 2>/dev/null | tail -n 30"
fi

title "Kafka, a registry, and a producer in Python"
(cd odradek && go build -o "$here/up" ./processor/kafkatest/up)
./up 4.4.0 >up.log 2>&1 &
pids+=($!)
until_ok "grep -q KAFKA_4_4_0 up.log"
cluster=$(sed -n 's/^export ODRADEK_TEST_KAFKA_4_4_0=//p' up.log)
BROKERS=$(tr -d ' \n' <"$cluster" | sed 's/.*"Brokers":\["\([^"]*\)".*/\1/')
REGISTRY=$(sed -n 's/^export ODRADEK_TEST_REGISTRY=//p' up.log)
export BROKERS REGISTRY TOPIC=presses GROUP=odradek-presses
step "python3 -m venv venv && venv/bin/pip install -q 'confluent-kafka[avro,schemaregistry]'"
cp odradek/scripts/walk_plant.py .
step "venv/bin/python walk_plant.py history"

title "Settings, suggested"
export ODRADEK_KAFKA_BROKERS=$BROKERS ODRADEK_SCHEMA_REGISTRY_URL=$REGISTRY
step "worker suggest -topic presses -out presses.yaml"
LINES_SHOWN=120 step "cat presses.yaml"
export ODRADEK_CONFIG=$here/presses.yaml
LINES_SHOWN=40 step "worker check -online"

title "The worker, and the first anomaly"
printf '    $ worker run\n'
worker run >run.log 2>&1 &
pids+=($!)
until_ok "grep -q assigned run.log"
step "venv/bin/python walk_plant.py anomaly press-3"
first=$(cut -d' ' -f1 step.log)
step "venv/bin/python walk_plant.py anomaly press-3 80"
id=$(cut -d' ' -f1 step.log)

title "Why"
LINES_SHOWN=24 step "worker why $id"
step "worker why $id -html why.html -json | head -c 300"

title "Feedback"
step "worker feedback false-alarm -anomaly $first -reason 'the door was open' -yes"
step "worker feedback confirm -anomaly $id -reason 'the heating did not switch off' -yes"

title "A mute"
step "worker mute add -keys press-3 -for 24h -reason 'furnace is being serviced' -yes"
step "worker mute list"
until_ok "grep -q 'mute rules' run.log"
until_ok "venv/bin/python walk_plant.py caught-up"
before=$(venv/bin/python walk_plant.py count press-3)
step "venv/bin/python walk_plant.py more press-3"
until_ok "venv/bin/python walk_plant.py caught-up"
after=$(venv/bin/python walk_plant.py count press-3)
echo "    anomalies of press-3 before its hot hour: $before, after it: $after"
[[ $before == "$after" ]] || { echo "the mute did not hold"; exit 1; }
before=$(venv/bin/python walk_plant.py count press-2)
step "venv/bin/python walk_plant.py more press-2"
until_ok "venv/bin/python walk_plant.py caught-up"
after=$(venv/bin/python walk_plant.py count press-2)
echo "    anomalies of press-2 before its hot hour: $before, after it: $after"
[[ $after -gt $before ]] || { echo "no anomaly of press-2"; exit 1; }

title "Settings, changed while the worker runs"
step "sed -i 's/#threshold: conformal:0.0003/threshold: conformal:0.0006/' presses.yaml && grep -n conformal:0.0006 presses.yaml"
until_ok "grep -q 'changed settings were taken up' run.log"
step "grep 'changed settings' run.log | tail -n 2"

title "Dead letters"
step "venv/bin/python walk_plant.py bare"
if [[ $skip != *,tools,* ]]; then
	mkdir -p tools
	cat >tools/pom.xml <<-POM
		<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>walk</groupId>
		<artifactId>tools</artifactId><version>1</version><packaging>pom</packaging><dependencies>
		<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>4.4.0</version></dependency>
		<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
		</dependencies></project>
	POM
	(cd tools && mvn -B -q dependency:copy-dependencies -DoutputDirectory=lib -DincludeScope=runtime) >tools.log 2>&1
	step "echo 'not a reading' | java -cp 'tools/lib/*' org.apache.kafka.tools.ConsoleProducer --bootstrap-server $BROKERS --topic presses"
fi
until_ok "venv/bin/python walk_plant.py caught-up"
LINES_SHOWN=8 step "worker dlq list -limit 5"
LINES_SHOWN=24 step "worker dlq show -limit 1"
step "worker dlq redrive -reason magic -schema latest -dry-run"
step "worker dlq redrive -reason magic -schema latest -yes"
until_ok "venv/bin/python walk_plant.py caught-up"
step "worker dlq redrive -reason magic -schema latest -yes"
if [[ $skip != *,tools,* ]]; then
	title "What other programs see"
	step "java -cp 'tools/lib/*' org.apache.kafka.tools.GetOffsetShell --bootstrap-server $BROKERS --topic-partitions 'odradek-presses.*'"
fi
printf '\nAll of it took %d s.\n' $((SECONDS - began))
