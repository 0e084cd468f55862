#!/usr/bin/env bash
# The whole worker on a machine with GPUs, with broker and generator beside it:
# `bench fleet capacity`. Neither Java, Maven, Go nor a network is needed where
# it runs; the kit has a broker and a JRE in it.
#
#   make fleet-kit                        # here: bin/fleet, about 70 MB
#   bin/fleet/fleet.sh OUT [STEP...]      # there; results in OUT
#
# Steps, default fleet and capacity:
#
#   fleet      IKA-SST w=100 and LOF N=1024 of every sample, CPU and GPU
#   heavy      the same with w=1024, fewer sensors
#   capacity   sensors at one sample in 100 ms
#   gpus       fleet and capacity on 1, 2, 4, ... GPUs, as many as there are
#   faults     workers on the GPUs under faults, FAULTS_AT_ONCE clusters side by side (1) for FAULTS_MINUTES (3); see docs/reliability.md
#   device     scripts/device.sh with its own steps (DEVICE_STEPS)
#
# QUICK=1 tries a step out. FLAGS are given to every `bench`.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: fleet.sh OUT [STEP...]}
shift
steps=${*:-fleet capacity}
mkdir -p "$out"
out=$(cd "$out" && pwd)
kit=${FLEET_DIR:-${TMPDIR:-/tmp}/odradek-fleet}
failed=0

# The machine may have no xz; a python3 with lzma does as well.
if [[ ! -e $kit/ready ]]; then
	mkdir -p "$kit"
	tar -xJf "$here/fleet.tar.xz" -C "$kit" 2>/dev/null ||
		python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/fleet.tar.xz" "$kit" ||
		{ echo "fleet.sh: neither xz nor python3 unpacks fleet.tar.xz" >&2; exit 2; }
	"$kit/jre/bin/java" -Xshare:dump >/dev/null || exit 2 # a JRE by jlink has no archive of classes, which Kafka's is based on
	touch "$kit/ready"
fi
export JAVA_HOME=$kit/jre ODRADEK_TEST_CACHE=$kit/cache TMPDIR=${FLEET_DATA:-$kit/data}
mkdir -p "$TMPDIR"
{
	nproc
	grep -m1 'model name' /proc/cpuinfo
	free -g | sed -n 2p
	df -h "$TMPDIR" | tail -1
	nvidia-smi --query-gpu=index,name,driver_version,clocks.max.sm,memory.total --format=csv,noheader
	"$kit/odradek-cuda" -list
} >"$out/machine.txt" 2>&1

# measure runs the bench under a time limit: STEP SECONDS ARGUMENTS...
measure() {
	local step=$1 seconds=$2 code=0
	shift 2
	# The bench ends in good order at SIGINT, and prints what it has.
	timeout -s INT -k 20 "$seconds" "$kit/bench" -json -v ${QUICK:+-quick} ${FLAGS:-} "$@" >"$out/$step.jsonl" 2>"$out/$step.txt" || code=$?
	printf '%-10s %s (%d s)\n' "$step" "$([[ $code == 0 ]] && echo ok || echo "FAILED, $code")" "$SECONDS"
	python3 - "$out/$step.jsonl" 2>/dev/null <<-'END' || cat "$out/$step.jsonl"
		import json, sys
		for line in open(sys.argv[1]):
		    r = json.loads(line)
		    print(" ", r["name"], r.get("case", ""), r.get("skipped") or "%.6g %s" % (r["value"], r["unit"]),
		          "" if r.get("ratio") is None else "%.3g times" % r["ratio"], {True: "met", False: "MISSED"}.get(r.get("met"), ""), r.get("note", "")[:300])
	END
	if [[ $code != 0 ]]; then
		failed=1
		tail -n 25 "$out/$step.txt" | cut -c1-300
	fi
}

gpus=$(nvidia-smi -L 2>/dev/null | wc -l)

# under_faults I FLAGS... runs workers on one of the GPUs under faults, beside the others.
under_faults() {
	local i=$1 kinds=(kill mixed gpu-child broker kill everything gpu-child restart kill cut gpu-child brokers kill lost-reply mixed freeze)
	shift
	kinds=("${kinds[@]:i*5%${#kinds[@]}}" "${kinds[@]:0:i*5%${#kinds[@]}}")
	# Every third publishes records of scores, which take seven times the brokers' disk of runs.
	local format=runs
	((i % 3)) || format=records
	"$kit/bench" faults -minutes "${FAULTS_MINUTES:-3}" -only "$(IFS=,; echo "${kinds[*]}")" -set ODRADEK_EXECUTOR=cuda \
		-set ODRADEK_CUDA_FALLBACK=wait -set ODRADEK_CUDA_DEVICES=$((i % (gpus ? gpus : 1))) -set ODRADEK_SCORES_FORMAT=$format \
		-dir "$TMPDIR/faults-$i" -out "$out/faults.jsonl" "$@" >"$TMPDIR/faults-$i.txt" 2>&1 && return
	{ echo "cluster $i:" && tail -n 40 "$TMPDIR/faults-$i.txt" | cut -c1-2000; } >>"$out/faults.txt"
	return 1
}

for step in $steps; do
	case $step in
	fleet) measure fleet 280 fleet ;;
	heavy) measure heavy 280 -sst 1024 -sensors 5000 fleet ;;
	capacity) measure capacity 420 capacity ;;
	gpus)
		counts=1
		for ((n = 2; n <= gpus; n *= 2)); do counts=$counts,$n; done
		measure gpus 560 -executors cuda -gpus "$counts" -partitions 32 -budget 60s fleet capacity
		;;
	faults)
		beside=()
		for ((i = 0; i < ${FAULTS_AT_ONCE:-1}; i++)); do under_faults "$i" ${FLAGS:-} & beside+=($!); done
		for pid in "${beside[@]}"; do wait "$pid" || failed=1; done
		"$kit/bench" faults -table "$out/faults.jsonl"
		cat "$out/faults.txt" 2>/dev/null
		;;
	device) (cd "$kit" && ./device.sh "$out" ${DEVICE_STEPS:-suite bench}) || failed=1 ;;
	*) echo "no step $step" >&2 && exit 2 ;;
	esac
done
exit $failed
