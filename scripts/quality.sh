#!/bin/sh
# The detectors of the default preset beside other programs, on the same series, by the same
# thresholds and measures: a table in Markdown for each data set, on stdout. `make quality` calls it.
#
# usage: quality.sh <folder of data sets> [<data set> ...]
#
# The folder has nab, ucr, smap_msl, asd and smd, or those named. Of UCR it takes the series of
# up to 35,000 samples. It needs bin/worker, python3 with venv and pip, and hours of CPU:
# PEERS=seasonal,left100 takes fewer programs, JOBS fewer processes, SAMPLE=20 that many series of
# each larger set, drawn with SEED and printed, for all rows. Where a sample has several values, the programs see VECTORS of
# them at a time, by default 1 (the preset sees 4). Scores are kept in bin/quality, one
# folder for each draw and program, and are not computed again.
#
# A second table judges all, and the detectors of the preset, by thresholds of each of RATES, and has the most anomalies that
# one of them finds with at most as many false ones as FALSE says.
set -eu
data=$1
shift
[ $# -gt 0 ] || set -- nab ucr smap_msl asd smd
here=$(dirname "$0")
out=bin/quality
peers=${PEERS:-seasonal,holtwinters,pyodknn,pyodlof,iforest,hst,rrcf,sod,mcod,left50,left100}
jobs=${JOBS:-$(nproc)}
vectors=${VECTORS:-1}
rates=${RATES:-0.0002,0.0003,0.0005,0.0007,0.001,0.0015,0.002,0.0025,0.003,0.004,0.006,0.008}
mkdir -p $out
if [ ! -x $out/python/bin/python ]; then
	python3 -m venv $out/python
	$out/python/bin/pip install -q -r "$here/quality_requirements.txt"
fi
table() { $out/python/bin/python "$here/quality_peers.py" -t; }

# judge <program> <folder of its scores> <samples of a score>
judge() {
	rated=$out/rated/$name/$1
	$out/python/bin/python "$here/quality_peers.py" -r "$(echo "$rates" | tr , '\n' | wc -l)" "$2" "$rated"
	settings=
	column=0
	for rate in $(echo "$rates" | tr , ' '); do
		prefix=ODRADEK_DETECTOR_$(echo "$1" | tr '[:lower:]' '[:upper:]')X$column
		settings="$settings ${prefix}_WINDOW=$3 ${prefix}_THRESHOLD=conformal:$rate ${prefix}_HISTORY=2048 ${prefix}_CLOSE_AFTER=100"
		column=$((column + 1))
	done
	# shellcheck disable=SC2086
	env $settings bin/worker score -data "$from" -scores "$rated" -json >"$rated.json"
	rm -r "$rated"
}

for set in "$@"; do
	from=$data/$set
	name=$set
	near=32 # samples of a score of the preset's detector near
	case $set in asd | smd) near=4 ;; esac
	most=1000000000
	if [ "$set" = ucr ]; then # the series that everyone can compute
		most=35000
	fi
	echo
	echo "$set:"
	echo
	if [ "$set" = ucr ] || [ -n "${SAMPLE:-}" ]; then
		name=$set${SAMPLE:+-$SAMPLE-${SEED:-1}}
		from=$out/series/$name
		$out/python/bin/python "$here/quality_peers.py" -l -m $most -n "${SAMPLE:-$most}" -s "${SEED:-1}" "$data/$set" "$from"
		echo
	fi
	echo "| | NAB standard | found | false | false a series-day | average precision | VUS-PR | highest score at the anomaly |"
	echo "|---|---|---|---|---|---|---|---|"
	bin/worker score -data "$from" -json | table
	rm -rf "$out/rated/$name"
	for peer in $(echo "$peers" | tr , ' '); do
		case $set/$peer in asd/holtwinters | smd/holtwinters | asd/left* | smd/left*) continue ;; esac
		scores=$out/scores/$name/$peer
		case $set in asd | smd) [ "$vectors" = 1 ] || scores=$scores-$vectors ;; esac
		mkdir -p "$scores"
		if [ ! -f "$scores/took" ]; then
			$out/python/bin/python "$here/quality_peers.py" -j "$jobs" -w "$vectors" -p "$peer" "$from" "$scores" >"$scores.took"
			mv "$scores.took" "$scores/took"
		fi
		prefix=ODRADEK_DETECTOR_$(echo "$peer" | tr '[:lower:]' '[:upper:]')
		window=16
		case $peer in
		left*) window=${peer#left} ;;
		seasonal | holtwinters) window=1 ;;
		esac
		case $set in asd | smd) window=$vectors ;; esac
		env "${prefix}_WINDOW=$window" "${prefix}_THRESHOLD=conformal:0.0015" \
			"${prefix}_HISTORY=2048" "${prefix}_CLOSE_AFTER=100" \
			bin/worker score -data "$from" -scores "$scores" -json | table
		judge "$peer" "$scores" $window
	done
	own=$out/scores/$name/own
	if [ ! -f "$own/took" ]; then
		mkdir -p "$own"
		bin/worker backtest -data "$from" -scores "$own/scores.csv" -report "$own/report.html" -plots 1 >"$own.took" 2>&1
		$out/python/bin/python "$here/quality_peers.py" -o "$own/scores.csv" "$from" "$own"
		rm "$own/scores.csv" "$own/report.html"
		mv "$own.took" "$own/took"
	fi
	for detector in near both; do
		[ ! -d "$own/$detector" ] || judge $detector "$own/$detector" $near
	done
	echo
	$out/python/bin/python "$here/quality_peers.py" -e "${FALSE:-5,10,20,40,80}" "$out/rated/$name"/*.json
done
