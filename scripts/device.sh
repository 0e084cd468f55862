#!/usr/bin/env bash
# What needs an NVIDIA device: the conformance suite, the same in part under
# compute-sanitizer, the benchmarks with torch's as baselines, and the demo whose
# child is killed once. Nothing else of the repository and no Go is needed where it
# runs:
#
#   make device-kit                       # here: bin/device, about 60 MB
#   bin/device/device.sh OUT [STEP...]    # there; results in OUT
#
# Steps, default all that the machine has the tools for: suite windows memcheck racecheck
# bench torch demo; besides, scale (one GPU against several; GPUS=1,2,4).
# SHAPES is a regular expression of the names of shapes that bench and scale measure.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: device.sh OUT [STEP...]}
shift
steps=${*:-suite windows memcheck racecheck bench torch demo}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here" || exit 1
export ODRADEK_REQUIRE=cuda ODRADEK_CUDA_CHILD=$here/odradek-cuda
failed=0

# result says how a step went and shows the end of its log where it failed.
result() { # STEP CODE LOG
	printf '%-10s %s (%d s)\n' "$1" "$([[ $2 == 0 ]] && echo ok || echo "FAILED, $2")" "$SECONDS"
	if [[ $2 != 0 ]]; then
		failed=1
		tail -n 25 "$3" | cut -c1-300
	fi
}

"$ODRADEK_CUDA_CHILD" -list 2>&1 | tee "$out/device.txt"
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader >>"$out/device.txt" 2>&1

suite() {
	timeout 300 ./cuda.test -test.v -test.run '^TestDevice|Device$' -test.skip '^TestDeviceWindows$' >"$out/suite.txt" 2>&1
	result suite $? "$out/suite.txt"
}

# windows says what the kernels leave to the CPU, of made windows and, with windows.gz
# (`make device-kit DATA=FOLDER`), of recordings.
windows() {
	local code
	[[ -f windows.gz ]] || echo "windows    windows.gz is not here: recordings are skipped"
	ODRADEK_TEST_WINDOWS=$([[ -f windows.gz ]] && echo "$here/windows.gz") \
		timeout 400 ./cuda.test -test.v -test.run '^TestDeviceWindows$' >"$out/windows.txt" 2>&1
	code=$?
	grep -oE 'TestDeviceWindows/[a-z_/]+$|[a-z]+ (w|N)=.*declined.*' "$out/windows.txt"
	result windows $code "$out/windows.txt"
}

# sanitize runs the suite's device part in a child under one of compute-sanitizer's
# tools. The child ends with code 86 where there is a finding.
sanitize() {
	local tool=$1 log=$out/$1.txt code
	if ! command -v compute-sanitizer >/dev/null; then
		echo "$tool      compute-sanitizer is not here: skipped"
		return
	fi
	cat >"$out/child-$tool.sh" <<-END
		#!/bin/bash
		exec compute-sanitizer --tool $tool --error-exitcode 86 --log-file "$out/$tool-%p.log" "$here/odradek-cuda" "\$@"
	END
	chmod +x "$out/child-$tool.sh"
	ODRADEK_TEST_CUDA_DEADLINE=120s ODRADEK_CUDA_CHILD=$out/child-$tool.sh timeout "${SANITIZE_SECONDS:-240}" ./cuda.test -test.v -test.short -test.run '^TestDevice$/^(ar|discord|ikasst|lof|knn|solvingset|svdsst|topn)$|^TestARDevice$|^TestDiscordDevice$|^TestDeviceLayout$|^TestSVDSSTRoundsDevice$|^TestKNNTensorDevice$|^TestTopNDevice$|^TestKNNReferenceDevice$' >"$log" 2>&1
	code=$?
	rm "$out/child-$tool.sh"
	cat "$out/$tool"-*.log >>"$log" 2>/dev/null
	# Every child has to have said that it found nothing.
	if grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool"-*.log | grep -vqE ' 0 (errors|hazards)'; then code=86; fi
	rm -f "$out/$tool"-*.log
	result "$tool" "$code" "$log"
}

bench() {
	timeout 300 ./bench -json -v ${SHAPES:+-shapes "$SHAPES"} ops >"$out/bench.jsonl" 2>"$out/bench.txt"
	local code=$?
	if grep -q '"skipped"' "$out/bench.jsonl"; then code=91; fi
	result bench $code "$out/bench.txt"
}

scale() {
	timeout 400 ./bench -json -v ${SHAPES:+-shapes "$SHAPES"} ${GPUS:+-gpus "$GPUS"} ops-scale >"$out/scale.jsonl" 2>"$out/scale.txt"
	local code=$?
	if grep -q '"skipped"' "$out/scale.jsonl"; then code=91; fi
	result scale $code "$out/scale.txt"
}

torch() {
	if ! python3 -c 'import torch' 2>/dev/null; then
		echo "torch      python3 has no torch: skipped"
		return
	fi
	timeout 400 python3 ./torch_ops.py >"$out/torch.jsonl" 2>"$out/torch.txt"
	result torch $? "$out/torch.txt"
}

# cpu measures the ops on one core, against numpy, scipy and scikit-learn where
# python3 has them.
cpu() {
	timeout 200 ./bench -json -v ikasst-cpu svdsst-cpu lof-cpu >"$out/cpu.jsonl" 2>"$out/cpu.txt"
	result cpu $? "$out/cpu.txt"
}

# demo runs the demo on the CPU and on the device, whose child is killed in the
# middle, and compares what was found.
demo() {
	local log=$out/demo.txt code=0
	: >"$log"
	ODRADEK_EXECUTOR=cpu timeout 100 ./demo -plain -http 127.0.0.1:9474 -for "${DEMO_SECONDS:-20}s" >"$out/demo-cpu.txt" 2>&1 &
	local cpu=$!
	ODRADEK_EXECUTOR=cuda timeout 100 ./demo -plain -for "${DEMO_SECONDS:-20}s" >>"$log" 2>&1 &
	local worker=$!
	sleep "$((${DEMO_SECONDS:-20} / 2))"
	# timeout's child is the demo, whose children are the workers, whose children are killed: one of them.
	for p in $(pgrep -P "$(pgrep -d, -P "$(pgrep -P $worker)")" odradek-cuda | head -n 1); do
		echo "device.sh: killed child $p" >>"$log"
		kill -KILL "$p"
	done
	wait $worker || code=$?
	wait $cpu || code=$?
	grep -q 'killed child' "$log" && grep -q 'GPU child failed' "$log" || code=90
	local a b
	a=$(grep -oE '"kinds".*"false":[0-9]+' "$out/demo-cpu.txt")
	b=$(grep -oE '"kinds".*"false":[0-9]+' "$log")
	printf 'cpu  %s\ncuda %s\n' "$a" "$b" >"$out/demo-compared.txt"
	[[ -n $a && $a == "$b" ]] || code=92
	result demo "$code" "$log"
}

for step in $steps; do
	case $step in
	suite | windows | bench | scale | torch | cpu | demo) $step ;;
	memcheck | racecheck) sanitize "$step" ;;
	*) echo "no step $step" >&2 && exit 2 ;;
	esac
done
exit $failed
