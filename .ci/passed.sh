#!/usr/bin/env bash
# Lint, the release, and checks of the deployment that take minutes each, run in CI where a change touches what they check, and else
# not again, as `go test` does with its cache: .ci/passed has for each a hash of the files that it passed with last.
#
#   .ci/passed.sh NAME          # exits with 0 where the files of NAME are the ones that it passed with
#   .ci/passed.sh -write NAME   # writes their hash; the check's target of the Makefile does so when it has passed
set -euo pipefail
cd "$(dirname "$0")/.."
write=
if [[ ${1:-} == -write ]]; then
	write=yes
	shift
fi
case ${1:-} in
lint) files=('*.go' .golangci.yml .ci/tools/go.mod go.mod) ;;
test-kubernetes) files=(deploy/kubernetes deploy/helm deploy/test/kubernetes docs/configuration.md) ;;
test-connect) files=(deploy/connect deploy/test/connect schemas) ;;
test-metrics) files=(deploy/prometheus deploy/grafana deploy/test/metrics processor/metrics docs/metrics.md) ;;
release) files=(scripts/release.sh deploy/packages deploy/systemd deploy/helm cuda/device/toolkit.sh go.mod go.sum) ;;
packages-test) files=(scripts/packages-test.sh scripts/debian-root.sh scripts/release.sh deploy/packages deploy/systemd) ;;
compose-test) files=(Dockerfile .dockerignore docker-compose.yml scripts/compose-test.sh scripts/engine.sh scripts/debian-root.sh
	deploy/test/compose deploy/prometheus deploy/grafana) ;;
cluster-test) files=(Dockerfile .dockerignore deploy/kubernetes deploy/helm scripts/cluster-test.sh scripts/engine.sh scripts/debian-root.sh
	deploy/test/cluster deploy/test/compose) ;;
*)
	echo "passed.sh: no check is named \"${1:-}\"" >&2
	exit 2
	;;
esac
hash=$(git ls-files -z -- "${files[@]}" | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-64)
if [[ $write ]]; then
	{ grep -v "^$1 " .ci/passed || true; echo "$1 $hash"; } | LC_ALL=C sort >.ci/passed.new
	mv .ci/passed.new .ci/passed
else
	grep -qx "$1 $hash" .ci/passed
fi
