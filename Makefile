# make demo   packs a dataset, serves it to two ranks, iterates an epoch of each, and leaves a contact sheet in demo/
# make test   the quick tests, Go and Python; make test-all those that take long too; make nightly soaks, fuzzes and starts containers besides
# make help   the rest

GO     ?= go
PYTHON ?= python3
DATA   ?=
DOCKER ?= docker

# The accelerated kernels are compiled in by GOEXPERIMENT=simd and the one release of Go that go.mod names, which any Go from 1.21
# on fetches. With another release or without the experiment everything works, more slowly.
export CGO_ENABLED  := 0
export GOEXPERIMENT ?= simd
# All that Go compiles here is compiled once, for the programs and for the tests. LDFLAGS have the commit, where git knows it.
export GOFLAGS      := $(filter-out -trimpath -buildvcs=false,$(GOFLAGS)) -trimpath -buildvcs=false
export GOTOOLCHAIN  ?= $(shell sed -n 's/^toolchain //p' go.mod)
# What must still build, without the kernels: the release before, and when there is one the release after.
OTHER_TOOLCHAINS    ?= go1.26.11

WATCHED     := ./transform/... ./internal/image/coefficients/... ./internal/image/jpeg/... ./internal/image/pixelcodec/... ./internal/image/resample/... ./internal/crc32c ./shard ./loader
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0
# What each part of the tests did and skipped, as JUnit's XML.
REPORTS     := build/tests
VENV        := .venv
# TORCH=no leaves out torch, which takes a minute and 6 GB of the disk, and the tests of the trainer and of programs with it.
TORCH       ?= yes
TORCH_VENV  := .venv-torch
TORCH_PYTHON ?= $(if $(filter no,$(TORCH)),$(VENV)/bin/python,$(TORCH_VENV)/bin/python)
TRAINER_TESTS := trainer/tests
# What make test leaves out; make test-all does not. LONG=1 runs both kinds of Python's tests, LONG=only the long ones.
GO_ONLY := -short
LONG    :=
PYTESTS  = LONG=$(LONG) JOBS=$(JOBS) $(CURDIR)/scripts/pytests.sh
# How many of the quick tests of Python run at a time: they share nothing, and each of the processes takes up to 0.7 GB for torch.
JOBS    ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))
READY       := $(VENV)/.ready
# The binaries' version is the Python package's, with the commit where git knows it.
STAMP       := github.com/imgfeed/imgfeed/internal/version
VERSION     := $(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' python/imgfeed/__init__.py)
COMMIT      := $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null)
LDFLAGS     := -s -w -X $(STAMP).number=$(VERSION) -X $(STAMP).commit=$(COMMIT)
COMPOSE     ?= $(DOCKER) compose
BUILD_ARGS  := $(DOCKER_FLAGS) $(if $(GO_IMAGE),--build-arg GO_IMAGE=$(GO_IMAGE)) \
  $(if $(COMMIT),--build-arg COMMIT=$(COMMIT)) --label org.opencontainers.image.revision=$(shell git rev-parse --short=12 HEAD 2>/dev/null)
BIN         := bin/imgfeed bin/imgshard
RUN         := PYTHONPATH=python IMGFEED_BIN=$(CURDIR)/bin/imgfeed $(VENV)/bin/python

.DEFAULT_GOAL := build
.PHONY: help build torch test-impostors wheel release demo demo-bucket test test-all nightly test-go test-python test-programs test-programs-all test-trainer-long test-programs-long test-python-long published test-versions test-trainer test-race test-arm64 test-photographs soak fuzz test-cluster test-slurm images test-containers check docs check-sse check-kubernetes check-monitoring clean FORCE

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: $(BIN) ## bin/imgfeed, a static binary, and bin/imgshard, a link to it

bin/imgfeed: FORCE
	$(GO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/imgfeed

bin/imgshard: bin/imgfeed
	ln -sf imgfeed $@

wheel: build $(READY) ## dist/imgfeed-*.whl, with the program in it
	rm -rf dist/*.whl
	cd python && IMGFEED_WHEEL_BIN=$(CURDIR)/bin ../$(VENV)/bin/python -m hatchling build -t wheel -d ../dist

# Everything in it bears the commit's time, so that the same commit gives the same bytes.
release: $(READY) ## dist/release: archives and wheels for amd64 and arm64, the sdist, manual pages, SBOMs, checksums; SOURCE_DATE_EPOCH= another time
	GO='$(GO)' PYTHON=$(CURDIR)/$(VENV)/bin/python VERSION=$(VERSION) LDFLAGS='$(LDFLAGS)' \
	  SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)} scripts/release.sh

demo: build $(READY) ## pack, serve, iterate, look; DATA=/path takes a dataset of yours
	$(RUN) -m imgfeed.demo $(if $(DATA),--data '$(DATA)') --out demo

demo-bucket: build $(READY) ## train from a bucket: starts a server of S3 on this machine, puts a set there, reads and trains
	PYTHON=$(CURDIR)/$(VENV)/bin/python TORCH_PYTHON='$(abspath $(TORCH_PYTHON))' PYTHONPATH=$(CURDIR)/python:$(CURDIR)/trainer IMGFEED_BIN=$(CURDIR)/bin/imgfeed \
	  scripts/demo_bucket.sh demo-bucket

# Its parts run two at a time: they share nothing, and wait a lot. The longest come first. Each has what is built already.
PARTS    := test-python test-programs test-go test-trainer
PART_RUN  = $(VENV)/bin/python scripts/parts.py $(REPORTS)
PART_MAKE = $(MAKE) --no-print-directory BIN=
test: build $(READY) torch ## the quick tests; makes an environment with torch 2 first, unless TORCH=no; last, what was skipped and what to install
	@rm -f $(REPORTS)/*.xml
	@$(PART_RUN) 2 $(PARTS) -- $(PART_MAKE)
	@$(VENV)/bin/python scripts/skipped.py $(REPORTS)/*.xml

# The long ones of a part wait for each other: some of them have ports, namespaces and daemons that there can be once. Those that compare times
# do so with what they slow down themselves, by far more than a neighbour does.
LONG_PARTS := test-trainer-long test-programs-long test-python-long
test-all: build $(READY) torch ## every test: as test, with those that take long, start many processes or other people's programs, or compile
	@rm -f $(REPORTS)/*.xml
	@$(PART_RUN) 2 test-go $(LONG_PARTS) $(filter-out test-go,$(PARTS)) -- $(PART_MAKE) GO_ONLY=
	@$(VENV)/bin/python scripts/skipped.py $(REPORTS)/*.xml

# Some of these share ports, namespaces and daemons, so they run one after the other.
NIGHTLY := soak fuzz test-versions test-containers
nightly: published ## what no single change needs: test-all, then soak, fuzz, test-versions and test-containers; takes hours
	$(MAKE) test-all
	@$(PART_RUN) 1 $(NIGHTLY) -- $(PART_MAKE) MINUTES=$(or $(NIGHTLY_MINUTES),30) T=$(or $(NIGHTLY_T),60s)

# Some compare with Pillow and torchvision: they take the environment's Python. The second run, of all, watches the pointers of the
# packages that use unsafe: one that leaves its allocation ends the test. `check` runs vet, and a test needs no symbols.
GO_TEST  := $(GO) test -vet=off -ldflags=-w
test-go: $(READY)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(GO) run $(GOTESTSUM) --format standard-quiet --hide-summary skipped \
	  --junitfile $(REPORTS)/go.xml --raw-command -- $(GO_TEST) -json $(GO_ONLY) ./...
	$(if $(GO_ONLY),,$(GO_TEST) -short -gcflags=-d=checkptr=1 $(WATCHED))
	cd bench/cold/slowfs && $(GO) test .

torch: $(READY)
ifeq ($(TORCH) $(TORCH_PYTHON),yes $(TORCH_VENV)/bin/python)
	@PYTHON='$(PYTHON)' scripts/torch.sh $(TORCH_VENV) || echo 'the tests that need torch 2 will be skipped'
endif

# What programs of torch 2 share with the client's tests: make test runs these under torch 2 alone, if there is one, and make test-all under both.
SHARED      := test_vision test_targets test_detection_data test_check test_views test_from_torch test_from_torch_targets test_meter test_compatibility test_step_libraries
# To ask for the versions is enough: an import of torch costs seconds.
HAS_TORCH_2  = $(TORCH_PYTHON) -c 'from importlib.metadata import version as v; assert v("torch") >= "2" and v("torchvision") and v("$1")' 2>/dev/null

test-python: build $(READY)
	@if $(if $(GO_ONLY),$(call HAS_TORCH_2,pytest),false); then left_out='--ignore tests/programs $(SHARED:%=--ignore tests/%.py)'; fi; \
	cd python && IMGFEED_BIN=$(CURDIR)/bin/imgfeed PYTHONPATH=. $(PYTESTS) ../$(VENV)/bin/python ../$(REPORTS)/python.xml $$left_out

# A start of one of these programs takes many seconds on a busy machine, and some tests start several.
test-programs: build $(READY) ## the loader under torch 2, and with LONG=1 frameworks as published on top of it; TORCH_PYTHON=/path/to/python that has torch 2, and of these what there is
	@if $(call HAS_TORCH_2,pytest); then \
	  IMGFEED_BIN=$(CURDIR)/bin/imgfeed PYTHONPATH=$(CURDIR)/python $(PYTESTS) $(TORCH_PYTHON) $(REPORTS)/programs.xml -c python/pyproject.toml --rootdir python \
	  $(if $(LONG),python/tests/programs) $(SHARED:%=python/tests/%.py); \
	else $(VENV)/bin/python scripts/skipped.py --note $(REPORTS)/programs.xml python/tests/programs \
	  'needs torch 2, torchvision and pytest: TORCH_PYTHON= names a Python that has them; $(TORCH_PYTHON) has not'; fi

$(LONG_PARTS): LONG := only
test-trainer-long: test-trainer
test-programs-long: test-programs
test-python-long: test-python

test-programs-all: published ## of test-programs all, with JAX, Flax, Keras and fastai, which it installs into TORCH_PYTHON's environment
	$(TORCH_PYTHON) -m pip install --quiet --disable-pip-version-check -r python/requirements-programs-all.txt
	$(MAKE) test-programs LONG=1

published: ## timm's and torchvision's train.py as published, to build/published, where test-programs finds them
	scripts/published.sh build/published

# Not in `test-all`: each torch takes some GB of the disk.
ROWS ?=
test-versions: wheel ## the wheel in a fresh environment of each release of Python, numpy and torch that is here; ROWS='3.14-no-torch 3.15-no-torch' chooses
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements-versions.txt
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python -m nox -f python/noxfile.py --no-error-on-missing-interpreters \
	  --report $(CURDIR)/$(REPORTS)/versions.json $(if $(ROWS),-s $(foreach row,$(ROWS),'versions($(row))'))

test-trainer: build $(READY) ## the trainer's tests, on CPU; TORCH_PYTHON=/path/to/python that has torch 2.6 or later, and pytest
	@if $(call HAS_TORCH_2,timm); then \
	  IMGFEED_BIN=$(CURDIR)/bin/imgfeed PYTHONPATH=$(CURDIR)/python:$(CURDIR)/trainer \
	  $(PYTESTS) $(TORCH_PYTHON) $(REPORTS)/trainer.xml -c trainer/pyproject.toml --rootdir trainer $(TRAINER_TESTS); \
	else $(VENV)/bin/python scripts/skipped.py --note $(REPORTS)/trainer.xml $(TRAINER_TESTS) \
	  'needs torch 2, torchvision, timm and pytest: TORCH_PYTHON= names a Python that has them; $(TORCH_PYTHON) has not'; fi

test-impostors: build $(READY) ## the tests that use other programs, beside programs of the same names that fail: all skip
	scripts/impostors.sh $(VENV)/bin/python

# Left out is TestGolden: it packs and serves at every kernel level, each in a process of its own, which takes minutes there, and starts no
# goroutines that other tests do not.
test-race: ## all that has a mutex, or uses it, under the race detector, which needs a C compiler
	CGO_ENABLED=1 $(GO_TEST) -race -short -skip '^TestGolden$$' ./server/... ./loader/... ./shard ./shard/storage/... ./shard/pack/... ./cmd/...

# All that runs on NEON, bit for bit. Left out are mapped files that are cut short: qemu does not say where one was read past its end;
# and statistics of draws, which take minutes there and have no kernels.
QEMU ?= $(firstword $(shell command -v qemu-aarch64-static) $(shell command -v qemu-aarch64))
test-arm64: ## the kernels for arm64 and what uses them, shortened, under qemu-user: about two minutes of CPU time
	@if test -n "$(QEMU)"; then \
	  GOARCH=arm64 $(GO_TEST) -short -timeout 20m -exec $(QEMU) -skip '^Test(FileCutShort|MappedEntriesCutShort|PolicyDraws|MixDraws|RandAugmentDraws|TrivialAugmentWideDraws|Probabilities)' ./internal/kernel ./internal/lanes/... $(WATCHED); \
	else echo "test-arm64: skipped: needs qemu-user: apt install qemu-user-static"; fi

test-photographs: ## every operation, policy and preset of the images in PHOTOGRAPHS=, DRAWS=20 draws each, beside torchvision on TORCH_PYTHON's Pillow; takes hours
	@test -n "$(PHOTOGRAPHS)" || { echo 'PHOTOGRAPHS= names a folder of images'; exit 1; }
	IMGFEED_TEST_PYTHON=$(abspath $(TORCH_PYTHON)) IMGFEED_TEST_IMAGES=$(abspath $(PHOTOGRAPHS)) IMGFEED_TEST_DRAWS=$(or $(DRAWS),20) \
	  $(GO) test ./transform -run AreTorchvisions -count 1 -timeout 0 -v

MINUTES ?= 1
SEED ?=
soak: build $(READY) ## two ranks, servers, and for MINUTES=1 all that may happen to them, at random; SEED= repeats it; fills a disk where root
	IMGFEED_BIN=$(CURDIR)/bin/imgfeed PYTHONPATH=python:python/tests $(VENV)/bin/python -m soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

T ?= 30s
fuzz: ## every fuzz target of every package, each for T=30s
	scripts/fuzz.sh $(T) $(GO)

test-cluster: LONG := 1
test-cluster: TRAINER_TESTS := trainer/tests/test_cluster.py
test-cluster: test-trainer ## of these, the runs on two nodes in two network namespaces; needs root

test-slurm: LONG := 1
test-slurm: TRAINER_TESTS := trainer/tests/test_slurm.py
test-slurm: test-trainer ## of these, deploy/slurm under a Slurm with two nodes; needs root, slurm-wlm and munge

# Without BASE and GO_IMAGE the Dockerfiles' own base images are pulled.
images: ## container images imgfeed and imgfeed-trainer; BASE=image with torch, GO_IMAGE=image with Go, DOCKER_FLAGS=--network=host
	$(DOCKER) build $(BUILD_ARGS) -t $(IMAGES)imgfeed .
	$(DOCKER) build $(BUILD_ARGS) $(if $(BASE),--build-arg BASE=$(BASE)) -t $(IMAGES)imgfeed-trainer -f trainer/Dockerfile .

test-containers: IMAGES := imgfeed-test/
test-containers: build $(READY) ## the images and compose.yaml on a real engine; takes what images takes, and COMPOSE=docker-compose
	@if ! $(DOCKER) info >/dev/null 2>&1; then echo "test-containers: skipped: no engine answers to $(DOCKER) info"; \
	elif ! $(COMPOSE) version >/dev/null 2>&1; then echo "test-containers: skipped: there is no $(COMPOSE) (COMPOSE= names another)"; \
	else $(MAKE) images IMAGES=$(IMAGES) && \
	  DOCKER='$(DOCKER)' COMPOSE='$(COMPOSE)' FEED_IMAGE=$(IMAGES)imgfeed TRAINER_IMAGE=$(IMAGES)imgfeed-trainer \
	  $(VENV)/bin/python -m pytest -c trainer/pyproject.toml --rootdir trainer trainer/container_tests; \
	fi

# Folders of Go code with comments that the check of prose reads.
GO_PROSE := bench cmd internal loader server shard transform
check: $(READY) ## formatter, vet, staticcheck, the workflows, builds without acceleration, for arm64, of imgshard for macOS, and by other releases of Go, linter and types of Python, prose
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt -w $$unformatted"; exit 1; }
	$(GO) vet ./...
	GOEXPERIMENT= $(GO) vet ./...
	GOEXPERIMENT= GOARCH=arm64 $(GO) build ./...
	GOEXPERIMENT= GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/imgshard
	for release in $(OTHER_TOOLCHAINS); do GOTOOLCHAIN=$$release $(GO) build ./... || exit 1; done
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(ACTIONLINT) -shellcheck= .github/workflows/*.yml
	$(VENV)/bin/ruff check python trainer bench deploy scripts
	$(VENV)/bin/ruff format --check python trainer deploy scripts
	$(VENV)/bin/python scripts/prose.py $$(git ls-files '*.md' 'python/imgfeed/*.py' 'trainer/imgfeed_train/*.py' $(GO_PROSE:%='%/*.go') ':!*_test.go')
	cd python && ../$(VENV)/bin/mypy
	cd trainer && MYPYPATH=../python ../$(VENV)/bin/mypy

docs: build $(READY) ## the site, in build/site: docs/, the commands' help and the docstrings; broken links fail
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements-docs.txt
	$(VENV)/bin/python -m mkdocs build --quiet

check-sse: ## no legacy SSE among AVX in the program, built for x86-64 with the kernels; needs GNU objdump
	GOARCH=amd64 GOEXPERIMENT=simd $(GO) build -ldflags=-w -o build/sse/ ./cmd/imgfeed
	$(PYTHON) scripts/check_sse.py build/sse/imgfeed

check-kubernetes: build $(READY) ## the manifests in deploy/kubernetes against the published schemas of Kubernetes and Kubeflow
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r deploy/kubernetes/requirements.txt
	IMGFEED_BIN=$(CURDIR)/bin/imgfeed PYTHONPATH=trainer:python $(VENV)/bin/python -m pytest -c trainer/pyproject.toml --rootdir deploy deploy/kubernetes

check-monitoring: build $(READY) ## the alerts and every query of the dashboard in deploy/monitoring, against a Prometheus that scrapes a server
	IMGFEED_BIN=$(CURDIR)/bin/imgfeed PYTHONPATH=python $(VENV)/bin/python -m pytest -c trainer/pyproject.toml --rootdir deploy deploy/monitoring

$(READY): python/requirements-dev.txt
	$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear --system-site-packages $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

clean: ## remove everything that make made
	rm -rf bin build dist demo $(VENV) .venv-torch python/.pytest_cache python/.mypy_cache python/.ruff_cache trainer/.pytest_cache trainer/.mypy_cache trainer/.ruff_cache
	find python trainer -name __pycache__ -type d -prune -exec rm -rf {} +
