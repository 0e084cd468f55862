#!/usr/bin/env bash
# Packs bin/fleet: what scripts/fleet.sh needs on a machine with nothing but Linux and
# a GPU. One archive: the worker, the bench, the demo, the worker's child, the device
# suite, one node of Kafka and a JRE cut down to what that node uses.
#
#   scripts/fleet-kit.sh PROGRAMS CHILD CUDA_TEST FOLDER
#
# PROGRAMS is the folder of worker, bench and demo.
#
# It needs a JDK 17 or later with jlink, python3, xz, and Kafka's jars in the tests'
# cache (ODRADEK_TEST_CACHE), where `bench -quick path-rate` puts them.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
programs=$1 child=$2 suite=$3 to=$4
version=4.4.0
cache=${ODRADEK_TEST_CACHE:-$HOME/.cache/odradek-test}
for part in "$cache/kafka-$version/lib" "$cache/kafka-$version-formatted/data"; do
	[[ -d $part ]] || { echo "fleet-kit: no $part; bench -quick path-rate makes it" >&2; exit 1; }
done
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# The jars, stored instead of deflated, so that xz sees through them; of native
# libraries only this machine's. Without log4j-core, log4j's API logs errors
# itself and java.desktop is not needed; Scala's reflection is for compilers.
mkdir -p "$stage/cache/kafka-$version/lib" "$stage/cache/kafka-$version-formatted"
cp -r "$cache/kafka-$version-formatted/data" "$stage/cache/kafka-$version-formatted/"
python3 - "$cache/kafka-$version/lib" "$stage/cache/kafka-$version/lib" <<'END'
import os, re, sys, zipfile
src, dst = sys.argv[1:]
out = re.compile(r"^(log4j-core|scala-reflect)-")
native = re.compile(r"\.(so|dll|dylib|jnilib|a)$")
here = re.compile(r"(^|/)(linux/amd64|linux/x86_64|Linux/x86_64)/")
for name in sorted(os.listdir(src)):
    if out.match(name):
        continue
    with zipfile.ZipFile(os.path.join(src, name)) as a, zipfile.ZipFile(os.path.join(dst, name), "w", zipfile.ZIP_STORED) as b:
        for e in a.infolist():
            if e.is_dir() or native.search(e.filename) and not here.search("/" + e.filename):
                continue
            b.writestr(zipfile.ZipInfo(e.filename, (2020, 1, 1, 0, 0, 0)), a.read(e))
END

# jdk.crypto.ec is for TLS, jdk.unsupported has Unsafe, jdk.management what the broker's metrics ask for; the
# others come with the classes of the clients (SASL, JMX, JNDI names).
"$(dirname "$(readlink -f "$(command -v "${JAVA_HOME:+$JAVA_HOME/bin/}jlink")")")/jlink" --output "$stage/jre" \
	--add-modules jdk.crypto.ec,java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.sql,java.xml,jdk.management,jdk.security.auth,jdk.unsupported,jdk.zipfs \
	--strip-debug --no-man-pages --no-header-files --vm server
for name in worker bench demo; do
	strip -o "$stage/$name" "$programs/$name" 2>/dev/null || cp "$programs/$name" "$stage/$name"
done
cp "$child" "$stage/odradek-cuda"
cp "$suite" "$stage/cuda.test"
cp "$root/scripts/device.sh" "$root/docs/benchmarks/torch_ops.py" "$stage/"
mkdir -p "$to"
tar -C "$stage" --sort=name --owner=0 --group=0 -c . | xz -T1 -9 >"$to/fleet.tar.xz"
cp "$root/scripts/fleet.sh" "$to/"
du -h "$to"/* | sed 's/^/fleet-kit: /'
