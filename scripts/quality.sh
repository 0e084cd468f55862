#!/bin/sh
# The detectors of the default preset beside other programs, on the same series, by the same
# thresholds and measures: a table in Markdown for each data set, on stdout. `make quality` calls it.
#
# usage: quality.sh <folder of data sets> [<data set> ...]
#
# The folder has nab, ucr, smap_msl, asd and smd, or those named. Of UCR it takes the series of
# up to 35,000 samples. It needs bin/worker, python3 with venv and pip, and hours of CPU:
# PEERS=seasonal,left100 takes fewer programs, JOBS fewer processes, SAMPLE=20 that many series of
# each larger set, drawn with SEED and printed, for all rows. Scores are kept in bin/quality, one
# folder for each draw and program, and are not computed again.
set -eu
data=$1
shift
[ $# -gt 0 ] || set -- nab ucr smap_msl asd smd
here=$(dirname "$0")
out=bin/quality
peers=${PEERS:-seasonal,holtwinters,pyodknn,pyodlof,iforest,hst,rrcf,sod,mcod,left50,left100}
jobs=${JOBS:-$(nproc)}
mkdir -p $out
if [ ! -x $out/python/bin/python ]; then
	python3 -m venv $out/python
	$out/python/bin/pip install -q -r "$here/quality_requirements.txt"
fi
table() { $out/python/bin/python "$here/quality_peers.py" -t; }
for set in "$@"; do
	from=$data/$set
	name=$set
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
	for peer in $(echo "$peers" | tr , ' '); do
		case $set/$peer in asd/holtwinters | smd/holtwinters | asd/left* | smd/left*) continue ;; esac
		scores=$out/scores/$name/$peer
		mkdir -p "$scores"
		if [ ! -f "$scores/took" ]; then
			$out/python/bin/python "$here/quality_peers.py" -j "$jobs" -p "$peer" "$from" "$scores" >"$scores.took"
			mv "$scores.took" "$scores/took"
		fi
		prefix=ODRADEK_DETECTOR_$(echo "$peer" | tr '[:lower:]' '[:upper:]')
		window=16
		case $peer in
		left*) window=${peer#left} ;;
		seasonal | holtwinters) window=1 ;;
		esac
		case $set in asd | smd) window=1 ;; esac
		env "${prefix}_WINDOW=$window" "${prefix}_THRESHOLD=conformal:0.0015" \
			"${prefix}_HISTORY=2048" "${prefix}_CLOSE_AFTER=100" \
			bin/worker score -data "$from" -scores "$scores" -json | table
	done
done
