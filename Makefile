# make run    builds the console and starts it with demonstration data
# make test   checks everything, as CI does
# make fuzz   gives each fuzz target FUZZTIME

GO       ?= go
FUZZTIME ?= 10s
SOURCES  := $(wildcard *.go handlers migrations models static views web)

.PHONY: run build generate test check fuzz clean

run:
	@.ci/setup run
	@$(MAKE) --no-print-directory build
	bin/counterfoil demo

build:
	$(GO) build -o bin/counterfoil .

# From here, so that the generated files name their templates the same way everywhere.
generate:
	$(GO) tool templ fmt views
	$(GO) tool templ generate

test:
	@.ci/setup test
	@$(MAKE) --no-print-directory check
	$(GO) test -race -shuffle=on -timeout 40m ./...
	$(GO) test -run "TestANormalWeek|TestABadNight" -timeout 20m ./web/app

# Before the long tests what takes seconds: generated files up to date, formatted, sound.
check:
	$(GO) tool templ generate -check -log-level error
	$(GO) tool templ fmt -fail -log-level error views
	@unformatted=$$(gofmt -l $(SOURCES)) && \
	if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

fuzz:
	@for package in $$($(GO) list ./...); do \
		targets=$$($(GO) test -list '^Fuzz' $$package) || exit 1; \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "$$package $$target" && \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

clean:
	rm -rf bin
