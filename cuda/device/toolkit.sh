#!/usr/bin/env bash
# What odradek-cuda is compiled and linked with, so that no CUDA toolkit and no
# driver are needed where it is built:
#
#   DIR/include/cuda.h    of CUDA 11.8, from NVIDIA's package on PyPI; $CUDA_INCLUDE/cuda.h if
#                         that is set. gorgonia.org/cu does not compile with CUDA 13's.
#   DIR/lib/libcuda.so    the names of the driver's functions, which do nothing. The program
#                         needs libcuda.so.1, which is the driver's own where it runs.
#
#   toolkit.sh DIR
set -euo pipefail
dir=$1
package=nvidia-cuda-runtime-cu11==11.8.89
hash=sha256:92d04069a987e1fbc9213f8376d265df0f7bb42617d44f5eda1f496acea7f2d1
mkdir -p "$dir/include" "$dir/lib"
if [[ -n ${CUDA_INCLUDE:-} ]]; then
	cp "$CUDA_INCLUDE/cuda.h" "$dir/include/cuda.h"
elif ! [[ -s $dir/include/cuda.h ]]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	printf '%s --hash=%s\n' "$package" "$hash" >"$work/wanted"
	for try in 1 2 3; do
		python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
			--platform manylinux2014_x86_64 --require-hashes -r "$work/wanted" -d "$work" && break
		[[ $try == 3 ]] && exit 1
		sleep 5
	done
	python3 -m zipfile -e "$work"/*.whl "$work"
	cp "$work/nvidia/cuda_runtime/include/cuda.h" "$dir/include/cuda.h"
fi
printf '#include <cuda.h>\n' | gcc -E -P -I"$dir/include" -x c - |
	grep -oE '\bcu[A-Z][A-Za-z0-9_]*[[:space:]]*\(' | tr -d '( \t' | sort -u |
	sed 's/.*/int &(void) { return 0; }/' |
	gcc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -x c -o "$dir/lib/libcuda.so" -
ln -sf libcuda.so "$dir/lib/libcuda.so.1"
