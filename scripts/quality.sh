#!/bin/sh
# The detectors of the default preset, or of ODRADEK_PRESET, beside other programs, on the same series, by the same
# thresholds and measures: a table in Markdown for each data set, on stdout. `make quality` calls it.
#
# usage: quality.sh <folder of data sets> [<data set> ...]
#
# The folder has nab, ucr, smap_msl, asd and smd, or those named. Of UCR it takes the series of
# up to MOST=35000 samples. It needs bin/worker, python3 with venv and pip, and hours of CPU:
# PEERS=seasonal,left100 takes fewer programs, JOBS fewer processes, SAMPLE=20 that many series of
# each larger set, drawn with SEED and printed, for all rows. Where a sample has several values, the programs see one of
# them at a time, and then each number of VECTORS, by default 1,4 (the preset sees 4): pyodknnw4 sees four. All scores come
# from one pool of processes, and a program is judged as soon as all of its scores are there. Scores are kept in
# bin/quality, a file for each series and program, and are not computed again. A program that fails on a series has `failed`
# and the cause in place of figures, and the exit status is 1.
#
# A second table judges all, and the detectors of the preset, by thresholds of each of RATES, and has the most anomalies that
# one of them finds with at most as many false ones as FALSE says.
set -eu
here=$(dirname "$0")
out=bin/quality
python=$out/python/bin/python
rates=${RATES:-0.0002,0.0003,0.0005,0.0007,0.001,0.0015,0.002,0.0025,0.003,0.004,0.006,0.008}

# judge <set> <program> <folder of its scores> <samples of a score> writes what the program finds at a rate of 0.0015, and at
# each of the others
judge() {
	rated=$out/rated/$1/$2
	upper=ODRADEK_DETECTOR_$(echo "$2" | tr '[:lower:]' '[:upper:]')
	column=0
	settings=
	for rate in 0.0015 $(echo "$rates" | tr , ' '); do
		prefix=$upper
		if [ -n "$settings" ]; then
			prefix=${upper}X$column
			column=$((column + 1))
		fi
		settings="$settings ${prefix}_WINDOW=$4 ${prefix}_THRESHOLD=conformal:$rate ${prefix}_HISTORY=2048 ${prefix}_CLOSE_AFTER=100"
	done
	rm -rf "$rated"
	$python "$here/quality_peers.py" -r $column "$out/series/$1" "$3" "$rated"
	# shellcheck disable=SC2086
	env -u ODRADEK_PRESET $settings bin/worker score -data "$out/series/$1" -scores "$rated" -json >"$rated.part"
	rm -r "$rated"
	mv "$rated.part" "$rated.json"
}

# one <set> <program> is what a process of its own does: it judges a program whose scores are there, or the preset
if [ "$1" = -one ]; then
	set=$(echo "$2" | sed 's/-.*//')
	near=32 # samples of a score of the preset's detector near
	case $set in asd | smd) near=4 ;; esac
	case $3 in
	preset)
		bin/worker score -data "$out/series/$2" -json >"$out/rated/$2.part"
		mv "$out/rated/$2.part" "$out/rated/$2.preset"
		;;
	own)
		own=$out/own/$2${ODRADEK_PRESET:+-$ODRADEK_PRESET}
		if [ -z "$(find "$own/took" -newer bin/worker 2>/dev/null)" ]; then
			rm -rf "$own"
			mkdir -p "$own"
			bin/worker backtest -data "$out/series/$2" -scores "$own/scores.csv" -report "$own/report.html" -plots 1 >"$own.took" 2>&1
			$python "$here/quality_peers.py" -o "$own/scores.csv" "$out/series/$2" "$own"
			rm "$own/scores.csv" "$own/report.html"
			mv "$own.took" "$own/took"
		fi
		for detector in near both together; do
			[ ! -d "$own/$detector" ] || judge "$2" $detector "$own/$detector" $near
		done
		;;
	left*) judge "$2" "$3" "$out/scores/$set/$3" "${3#left}" ;;
	seasonal | holtwinters) judge "$2" "$3" "$out/scores/$set/$3" 1 ;;
	*)
		width=16
		case $set in asd | smd) width=1 ;; esac
		case $3 in *w[0-9]*) width=${3##*w} ;; esac
		judge "$2" "$3" "$out/scores/$set/$3" "$width"
		;;
	esac
	exit
fi

data=$1
shift
[ $# -gt 0 ] || set -- nab ucr smap_msl asd smd
peers=${PEERS:-seasonal,holtwinters,pyodknn,pyodlof,iforest,hst,rrcf,sod,mcod,left50,left100}
jobs=${JOBS:-$(nproc)}
vectors=${VECTORS:-1,4}
mkdir -p $out/rated $out/scores $out/series
if [ ! -x $python ]; then
	python3 -m venv $out/python
	$out/python/bin/pip install -q -r "$here/quality_requirements.txt"
fi
# A process of the pool has one thread.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
export NUMBA_THREADING_LAYER=workqueue # survives a fork
export NUMBA_CACHE_DIR="$PWD/$out/numba"

names=
folders=
status=0
rm -f $out/stopped
for set in "$@"; do
	name=$set${SAMPLE:+-$SAMPLE-${SEED:-1}}
	most=1000000000
	if [ "$set" = ucr ]; then # the series that everyone can compute
		most=${MOST:-35000}
		[ "$most" = 35000 ] || name=$name-most-$most
	fi
	$python "$here/quality_peers.py" -l -m "$most" -n "${SAMPLE:-$most}" -s "${SEED:-1}" "$data/$set" \
		"$out/series/$name" >"$out/series/$name.txt"
	rm -rf "$out/rated/$name" "$out/rated/$name.preset"
	mkdir -p "$out/rated/$name"
	names="$names $name"
	folders="$folders $set=$out/series/$name"
done
{
	for name in $names; do
		echo "$name own"
		echo "$name preset"
	done
	# shellcheck disable=SC2086
	{
		$python "$here/quality_peers.py" -j "$jobs" -w "$vectors" -p "$peers" $out/scores $folders || touch $out/stopped
	} | while read -r set program; do
		for name in $names; do
			case $name in "$set" | "$set"-*) echo "$name $program" ;; esac
		done
	done
} | xargs -n 2 -P "$jobs" "$0" -one
if [ -f $out/stopped ]; then
	echo "quality.sh: the scores are incomplete" >&2
	exit 1
fi

for name in $names; do
	set=${name%%-*}
	echo
	echo "$set:"
	echo
	if [ "$set" = ucr ] || [ -n "${SAMPLE:-}" ]; then
		cat "$out/series/$name.txt"
		echo
	fi
	echo "| | NAB standard | found | false | false a series-day | average precision | VUS-PR | highest score at the anomaly |"
	echo "|---|---|---|---|---|---|---|---|"
	$python "$here/quality_peers.py" -t <"$out/rated/$name.preset"
	tables=
	for peer in $(echo "$peers" | tr , ' '); do
		for width in $(echo "$vectors" | tr , ' '); do
			program=$peer
			[ "$width" = 1 ] || program=${peer}w$width
			failed=$out/scores/$set/$program.failed
			if [ -f "$failed" ]; then
				echo "| $program | failed: $(tr '|' ' ' <"$failed" | cut -c1-200) | | | | | | |"
				status=1
				continue
			fi
			table=$out/rated/$name/$program.json
			[ -f "$table" ] || continue # one that is not for samples of so many values
			$python "$here/quality_peers.py" -t <"$table"
			tables="$tables $table"
		done
	done
	for detector in near both; do
		[ ! -f "$out/rated/$name/$detector.json" ] || tables="$tables $out/rated/$name/$detector.json"
	done
	echo
	# shellcheck disable=SC2086
	$python "$here/quality_peers.py" -e "${FALSE:-5,10,20,40,80}" $tables
	echo
	$python "$here/quality_peers.py" -c -w "$vectors" -p "$peers" "$out/series/$name" "$out/scores/$set"
done
exit $status
