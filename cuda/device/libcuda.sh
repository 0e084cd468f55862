#!/usr/bin/env bash
# Makes DIR/libcuda.so, a library with the names of the driver's functions, which
# do nothing, so that odradek-cuda is linked where there is no driver. The program
# needs libcuda.so.1, which is the driver's own where it runs.
#
#   libcuda.sh INCLUDE DIR        INCLUDE holds cuda.h
set -euo pipefail
include=$1 dir=$2
mkdir -p "$dir"
printf '#include <cuda.h>\n' | gcc -E -P -I"$include" -x c - |
	grep -oE '\bcu[A-Z][A-Za-z0-9_]*[[:space:]]*\(' | tr -d '( \t' | sort -u |
	sed 's/.*/int &(void) { return 0; }/' |
	gcc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -x c -o "$dir/libcuda.so" -
