# Targets for people and CI. Only Go is needed; real Kafka and a registry join
# the tests where Java 17 and Maven are there (see processor/kafkatest/doc.go).

GO        ?= go
PACKAGES  ?= ./...
# One package at a time: two clusters at once starve each other on two cores.
TESTFLAGS ?= -p 1 -timeout 35m
FUZZTIME  ?= 20s
# The same for all builds: no package is compiled twice, for the Dockerfile's test either.
export GOFLAGS += -trimpath

.DEFAULT_GOAL := build

FOLDERS   := $(wildcard cmd processor detectors cuda schemas deploy)

help: ## what can be made
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | sort | \
		while IFS='|' read -r name what; do printf '%-13s %s\n' "$$name" "$$what"; done

.PHONY: help build child device-kit fleet-kit vet-child kernels deploy test-kubernetes test-connect test-image test-metrics test-browser touched pictures test quick long race fuzz lint vuln fmt demo quality bench faults soak up packages packages-test compose-test cluster-test arm-test release module image clean

build: ## the worker, the demo and the bench, in bin/, static
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/worker ./cmd/demo ./cmd/bench

# What odradek-cuda is compiled with: cuda.h and the names in libcuda.so. The
# program itself needs the driver of an NVIDIA device where it runs.
KIT     := bin/cuda
CHILD   ?= bin/odradek-cuda
CHILDENV = CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$(CURDIR)/$(KIT)/include" CGO_LDFLAGS="-L$(CURDIR)/$(KIT)/lib"

$(KIT)/lib/libcuda.so: cuda/device/toolkit.sh
	cuda/device/toolkit.sh $(KIT)

child: $(KIT)/lib/libcuda.so ## the worker's child on a GPU, bin/odradek-cuda; needs gcc, and Python's pip the first time
	$(CHILDENV) $(GO) build $(CHILDFLAGS) -tags cuda -o $(CHILD) ./cuda/device

# Recordings to cut windows from, which the repository has not: see detectors/executortest/recordings.go.
DATA ?= ../shared/data
MINUTES ?= 20

device-kit: child ## bin/device: all that scripts/device.sh needs on a machine with a GPU
	mkdir -p bin/device
	cp bin/odradek-cuda scripts/device.sh docs/benchmarks/torch_ops.py bin/device/
	CGO_ENABLED=0 $(GO) build -o bin/device/ ./cmd/worker ./cmd/demo ./cmd/bench
	CGO_ENABLED=0 $(GO) test -c -o bin/device/cuda.test ./cuda
	if [ -d "$(DATA)" ]; then $(GO) run detectors/executortest/recordings.go "$(DATA)" bin/device/windows.gz; else echo "no folder $(DATA): the kit has no windows of recordings"; fi

fleet-kit: device-kit ## bin/fleet: all that scripts/fleet.sh needs there, a broker and its JRE included
	CGO_ENABLED=0 $(GO) build -ldflags=-s -o bin/ ./cmd/worker ./cmd/demo ./cmd/bench
	scripts/fleet-kit.sh bin bin/odradek-cuda bin/device/cuda.test bin/fleet

vet-child: child ## vet and tests of the child's code, without a device, and of the image's root with a stand-in of the driver
	$(CHILDENV) $(GO) vet -tags cuda ./cuda/...
	LD_LIBRARY_PATH=$(CURDIR)/$(KIT)/lib $(CHILDENV) $(GO) test -vet=off -tags cuda ./cuda/device ./cuda/kernels
	cd deploy/test/gpu && $(GO) vet ./... && $(GO) test -vet=off -count=1 -v ./... -child $(abspath $(CHILD)) -kit $(CURDIR)/$(KIT)

kernels: ## cuda/kernels/*.fatbin of the .cu beside them; needs nvcc 11.8, see cuda/kernels/gen
	$(GO) generate ./cuda

test: ## vet and all tests; what is missing here is skipped and named at the end
	$(GO) vet $(PACKAGES)
	$(GO) run .ci/testsum.go -vet=off $(TESTFLAGS) $(PACKAGES)

quick: ## every package, with neither Java nor emulated kernels, in one to two minutes on two cores; what is left out is named at the end
	ODRADEK_REQUIRE= ODRADEK_SKIP=kafka,registry,emulate \
		$(GO) run .ci/testsum.go -without=.ci/quick.txt -short -p 3 -timeout 5m $(PACKAGES)

# The checks that CI leaves out where no change touches what they check; lint is first, and its build takes minutes.
TOUCHED := lint test-kubernetes test-connect test-metrics release packages-test compose-test cluster-test

# Modules of their own, so that neither Prometheus nor Kubernetes nor a browser is a dependency of the worker.
deploy: test-kubernetes test-connect test-image test-metrics test-browser ## tests of deploy, each a target of its own: manifests and chart against their schemas; pipelines on a broker, Kafka Connect into PostgreSQL; the release's image; alerts by promtool, dashboards against a running worker; the page in Chromium

test-metrics: TAGS = -tags remove_all_sd
test-browser: VERBOSE = -v
test-kubernetes test-connect test-image test-metrics test-browser: test-%:
	cd deploy/test/$* && $(GO) vet $(TAGS) ./... && $(GO) test -vet=off -count=1 $(VERBOSE) $(TAGS) ./...
	$(if $(filter $@,$(TOUCHED)),.ci/passed.sh -write $@)

touched: ## the checks of the deployment of which a file is not as it was when they last passed (.ci/passed)
	[ "$$ENGINE_WORK" ] || { export ENGINE_WORK=$$(mktemp -d /var/tmp/odradek-engine.XXXXXX); trap 'rm -rf --one-file-system $$ENGINE_WORK' EXIT; }; \
	for check in $(TOUCHED); do if .ci/passed.sh $$check; then echo "$$check: passed as it is"; else $(MAKE) $$check || exit 1; fi; done

pictures: ## docs/pictures, of the page and of the demo: look at each before it is committed; needs Chromium
	mkdir -p docs/pictures
	cd deploy/test/browser && $(GO) test -count=1 ./... -pictures $(CURDIR)/docs/pictures
	$(GO) test -count=1 -run TestDemoOnATerminal ./cmd/demo -args -pictures $(CURDIR)/docs/pictures

long: ## before a release: all tests, all of them required, on three versions of Kafka, with more seeds and faults; then each fuzz target for 2 minutes
	ODRADEK_LONG=1 ODRADEK_REQUIRE=kafka,registry,emulate,golden $(GO) run .ci/testsum.go -p 1 -timeout 120m $(PACKAGES)
	cd deploy/test/connect && ODRADEK_LONG=1 ODRADEK_REQUIRE=kafka,registry $(GO) test -count=1 ./...
	cd deploy/test/traces && $(GO) vet ./... && $(GO) test -vet=off -count=1 ./...
	$(MAKE) release packages-test compose-test cluster-test arm-test
	$(MAKE) fuzz FUZZTIME=2m

# Without processor/state, whose states are each for one goroutine.
RACE := ./cuda ./processor ./processor/cycle ./processor/metrics ./processor/kafka ./cmd/internal/config ./cmd/internal/page ./processor/kafkatest ./detectors ./schemas/formats ./schemas/registry

race: ## what has goroutines, several of them, under the race detector, on kfake alone; needs a C compiler
	CGO_ENABLED=1 ODRADEK_REQUIRE= ODRADEK_SKIP=kafka,registry,emulate \
		$(GO) run .ci/testsum.go -race $(TESTFLAGS) -skip '^TestCPU$$/^one_core$$|^TestChangesLevel|^TestConformance$$' $(RACE)

fuzz: ## each fuzz target for FUZZTIME
	@for pkg in $$($(GO) list $(PACKAGES)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s $$pkg || exit 1; \
		done; \
	done

fmt: ## fails where gofmt would change a file
	@files=$$(gofmt -l $(FOLDERS) .ci); if [ -n "$$files" ]; then echo "not formatted (run gofmt -w):"; echo "$$files"; exit 1; fi

# The tools have a go.mod of their own, so that their versions cannot move the product's.
bin/golangci-lint: .ci/tools/go.mod .ci/tools/go.sum
	cd .ci/tools && $(GO) build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/govulncheck: .ci/tools/go.mod .ci/tools/go.sum
	cd .ci/tools && $(GO) build -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck

lint: fmt bin/golangci-lint ## gofmt, vet, and golangci-lint as .golangci.yml has it; its build takes minutes the first time
	$(GO) vet $(PACKAGES)
	bin/golangci-lint run --allow-serial-runners
	.ci/passed.sh -write lint

vuln: bin/govulncheck ## known vulnerabilities in what the programs call; needs vuln.go.dev
	bin/govulncheck $(PACKAGES)

demo: build ## broker, generator and workers; found, missed and false at the end
	./bin/demo $(DEMOFLAGS)

quality: build ## the default preset beside other programs on labelled data (DATA), hours of CPU; needs Python's venv and pip
	scripts/quality.sh "$(DATA)"

bench: build ## the table of docs/benchmarks.md
	./bin/bench $(BENCHFLAGS)

faults: build ## workers under all kinds of faults for MINUTES, what they published checked by record; see docs/reliability.md
	./bin/bench faults -minutes $(MINUTES) $(FAULTFLAGS)

soak: build ## one round of MINUTES of mixed faults at half the rate, with the memory, goroutines and files of a worker that never ends
	./bin/bench faults -only soak -minutes $(MINUTES) -rate 1500 $(FAULTFLAGS)

up: ## real Kafka and a registry, to share among test runs; ends at an interrupt
	$(GO) run ./processor/kafkatest/up

# A release of a commit; scripts/release.sh says what is in it.
packages: ## packages for Debian and Red Hat, with the systemd unit; archives, image, chart, licences, bills of materials and provenance beside them, in bin/release
	scripts/release.sh bin/release

release: packages ## the same twice, which has to give the same bytes
	scripts/release.sh bin/release.again
	diff -r bin/release bin/release.again
	rm -rf bin/release.again
	.ci/passed.sh -write $@

compose-test: ## docker-compose.yml on a Docker of its own: built, started, scaled, killed, deleted; needs root and Debian
	scripts/compose-test.sh
	.ci/passed.sh -write $@

cluster-test: ## manifests and chart on a Kubernetes of its own: applied, upgraded, rolled back, scaled, drained; needs root and Debian
	scripts/cluster-test.sh
	.ci/passed.sh -write $@

# The tests of discord take a quarter of an hour there, the others up to three minutes each.
arm-test: ## tests of all ops without amd64's assembly, for arm64, emulated; needs qemu-user
	command -v qemu-aarch64 >/dev/null || apt-get install -y -q --no-install-recommends qemu-user
	CGO_ENABLED=0 GOARCH=arm64 $(GO) test -exec qemu-aarch64 -vet=off -short -p 1 -timeout 40m \
		$(addprefix ./detectors/,vec simple season joint ensemble ar lof knn sst discord scan threshold)

packages-test: packages ## installs, starts, upgrades and removes them in a Debian with systemd; needs root and Debian
	scripts/packages-test.sh bin/release
	.ci/passed.sh -write $@

# It has no public home yet, and so a path that go install does not find.
module: ## gives the module the path MODULE, such as example.com/odradek, in all files that name it
	git grep -lE 'odradek(/[a-z"]|$$| v0| =>)' -- '*.go' '*.mod' .golangci.yml .ci | xargs sed -i -E \
		's#(^module |^replace |^\s+|["(*])odradek(/[a-z]+|/"| v0| =>|$$)#\1$(MODULE)\2#g'
	gofmt -w $(FOLDERS) .ci/testsum.go

image: ## the container image odradek:local; needs Docker
	docker build --build-arg COMMIT=$$(git describe --always --dirty --exclude '*') -t odradek:local .

clean:
	rm -rf bin
