# Targets for people and CI. Only Go is needed; real Kafka and a registry join
# the tests where Java 17 and Maven are there (see processor/brokertest/doc.go).

GO        ?= go
PACKAGES  ?= ./...
# One package at a time: two clusters at once starve each other on two cores.
TESTFLAGS ?= -p 1 -timeout 25m
FUZZTIME  ?= 20s
FOLDERS   := $(wildcard cmd processor detectors cuda schemas)

.PHONY: build test race fuzz lint fmt demo bench up image clean

build: ## the worker, in bin/, static
	CGO_ENABLED=0 $(GO) build -o bin/worker ./cmd/worker

test: ## vet and all tests; what is missing here is skipped and named at the end
	$(GO) vet $(PACKAGES)
	$(GO) run .ci/testsum.go $(TESTFLAGS) $(PACKAGES)

# Without keystate, whose states are each for one goroutine.
RACE := ./processor ./processor/kafka ./processor/web ./processor/brokertest ./detectors ./schemas

race: ## what has goroutines under the race detector, on kfake alone; needs a C compiler
	CGO_ENABLED=1 ODRADEK_REQUIRE= ODRADEK_SKIP=kafka,registry \
		$(GO) run .ci/testsum.go -race $(TESTFLAGS) $(RACE)

fuzz: ## each fuzz target for FUZZTIME
	@for pkg in $$($(GO) list $(PACKAGES)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

fmt: ## fails where gofmt would change a file
	@files=$$(gofmt -l $(FOLDERS) .ci); if [ -n "$$files" ]; then echo "not formatted (run gofmt -w):"; echo "$$files"; exit 1; fi

lint: fmt ## gofmt, vet, and golangci-lint where it is installed
	$(GO) vet $(PACKAGES)
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: skipped"; fi

demo: build ## broker, generator and worker in one
	./bin/worker demo

bench: build ## the table of docs/benchmarks.md
	./bin/worker bench $(BENCHFLAGS)

up: ## real Kafka and a registry, to share among test runs; ends at an interrupt
	$(GO) run ./processor/brokertest/up

image: ## the container image odradek:local; needs Docker
	docker build --build-arg VERSION=$$(git describe --tags --always --dirty) -t odradek:local .

clean:
	rm -rf bin
