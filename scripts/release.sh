#!/usr/bin/env bash
# Makes a release in a folder: static programs for linux/amd64 and arm64 in archives, with the child for GPUs and its kernels for amd64,
# packages for Debian and Red Hat, the Helm chart, the licences of dependencies, a bill of materials of each program (CycloneDX), the
# container image for both as an OCI archive (without the child; `skopeo copy --all oci-archive:FILE docker://...` pushes it), an
# unsigned provenance of all these (in-toto, SLSA), and SHA256SUMS. The same commit gives the same bytes: `make release` makes it twice and
# compares. Its number is the one of cmd/worker/cmd_small.go without -dev. Modules come from the Go proxy, their
# sums from go.sum and Go's database. The child needs gcc and, the first time, Python's pip.
#
#   scripts/release.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# == 1 ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$(mkdir -p "$1" && cd "$1" && pwd)
rm -rf "${out:?}"/*
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
roots=golang.org/x/crypto/x509roots/fallback@v0.0.0-20261030153154-30a33513ff6d # Mozilla's certificate authorities

VERSION=$(sed -n 's/^var release = "\(.*\)-dev"/\1/p' cmd/worker/cmd_small.go)
[[ $VERSION ]] || { echo "release: cmd/worker/cmd_small.go has no release that ends in -dev" >&2; exit 1; }
COMMIT=$(git describe --always --dirty --exclude '*')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
BUILT=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
export SOURCE_DATE_EPOCH CGO_ENABLED=0
export LC_ALL=C TZ=UTC
archive() { # NAME FOLDER: a tar of a folder without what differs from one machine to the next
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -C "$(dirname "$2")" \
		-cf - "$(basename "$2")" | gzip -9n >"$out/$1"
}
materials() { # PROGRAM FILE: its bill of materials. The time of its making is the one thing that would differ.
	go run "$sbom" bin -json -noserial -output "$work/sbom.json" "$1" 2>"$work/sbom.log" || { cat "$work/sbom.log" >&2; exit 1; }
	sed 's/"timestamp": "[^"]*"/"timestamp": "'"$BUILT"'"/' "$work/sbom.json" >"$out/$2"
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs=()

# The licences: of each module in the program one file at least.
LICENCES=$out/THIRD_PARTY_LICENSES.txt
CGO_ENABLED=1 go list -tags cuda -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/worker ./cuda/device | sort -u | while read -r path version dir; do
	files=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' \) ! -name '*.go' | sort)
	[[ $files ]] || { echo "release: $path $version has no licence" >&2; exit 1; }
	for f in $files; do printf '==== %s %s: %s\n\n' "$path" "$version" "$(basename "$f")"; cat "$f"; echo; done
done >"$LICENCES"

for ARCH in amd64 arm64; do
	name=odradek-$VERSION-linux-$ARCH
	mkdir "$work/$name"
	PROGRAM=$work/$name/odradek
	GOOS=linux GOARCH=$ARCH go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=$VERSION -X main.commit=$COMMIT" -o "$PROGRAM" ./cmd/worker
	programs+=("$ARCH=$PROGRAM")
	if [[ $ARCH == amd64 ]]; then
		make child CHILD="$work/$name/odradek-cuda" CHILDFLAGS='-trimpath -buildvcs=false -ldflags "-s -w"'
		materials "$work/$name/odradek-cuda" "$name-cuda.cdx.json"
	fi
	cp LICENSE CHANGELOG.md deploy/systemd/odradek.service "$LICENCES" "$work/$name/"
	archive "$name.tar.gz" "$work/$name"
	materials "$PROGRAM" "$name.cdx.json"
	sed -e "s|\${ARCH}|$ARCH|; s|\${VERSION}|$VERSION|; s|\${BUILT}|$BUILT|; s|\${PROGRAM}|$PROGRAM|; s|\${LICENCES}|$LICENCES|" \
		deploy/packages/nfpm.yaml >"$work/nfpm.yaml"
	for kind in deb rpm; do
		go run "$nfpm" package --config "$work/nfpm.yaml" --packager $kind --target "$out/" >/dev/null
	done
done

cp -r deploy/helm "$work/odradek"
sed -i "s/^appVersion: .*/appVersion: $VERSION/" "$work/odradek/Chart.yaml"
archive "odradek-chart-$(sed -n 's/^version: //p' deploy/helm/Chart.yaml).tgz" "$work/odradek"
# Outside of the module, whose go.sum it would change.
roots=$(cd "$work" && go mod download -json "$roots" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
go run deploy/packages/image.go -out "$out/odradek-$VERSION-image.tar" -version "$VERSION" -commit "$COMMIT" -time "$SOURCE_DATE_EPOCH" \
	-roots "$roots/bundle/bundle.der" -licences "LICENSE,$LICENCES" "${programs[@]}"

# Of the files before it: SHA256SUMS has its own sum.
go run deploy/packages/provenance.go -version "$VERSION" -commit "$(git describe --always --dirty --abbrev=40 --exclude '*')" "$out" >"$work/provenance"
mv "$work/provenance" "$out/odradek-$VERSION.provenance.json"
(cd "$out" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
ls -l "$out"
