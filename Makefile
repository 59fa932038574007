# Start here: `make demo` shows FairJudge, `make test` checks and tests it.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name))))
VENV := .venv
RUN := $(VENV)/bin/python
# The stamps of two sets of packages: what running needs, and what testing needs as well.
RUNS := $(VENV)/installed-run
TESTS := $(VENV)/installed-test
RUN_EXTRAS := local,grammars,pdf,pictures
TEST_EXTRAS := $(RUN_EXTRAS),arrow,login,otel,postgres,s3,test
BENCHMARKS := $(filter-out simulate walks,$(basename $(notdir $(filter-out benchmarks/__init__.py,$(wildcard benchmarks/*.py)))))
DATA ?=
# A test run starts a hundred processes. Bytecode files spare them from compiling the modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-system test-long check bench walks simulate faireval validation reproduce screenshots \
	constraints lock pins image-steps attack client messages

help:
	@echo "make demo        set up, and show the demo project at http://127.0.0.1:8000"
	@echo "make test        set up, check, and run the tests that need nothing but one process"
	@echo "make test-system run those of servers, workers, PostgreSQL, a browser and every address"
	@echo "make test-long   run what is long by nature: repeated kills, old releases, simulations"
	@echo "make check       lint, types, layers, migrations, deployment settings"
	@echo "make bench       measure the speed, and compare it with the targets"
	@echo "make walks       count the files that each main job passes through (ARGS=--files lists them)"
	@echo "make client      write the models and operations of the Python client from the API's schema"
	@echo "make messages    write what pages say to the catalogs in locale/, and compile the translations"
	@echo "make simulate    check by simulation that intervals and certificates hold"
	@echo "make validation DATA=FOLDER  analyse the published judgments of LLMBar and PandaLM"
	@echo "make reproduce DATA=FOLDER   compute values of the papers again from public data"
	@echo "make attack      attack the site as strangers, members, endpoints and files do (10 minutes)"
	@echo "make image-steps run the steps of Dockerfile and compose.yaml without a container engine"
	@echo "make screenshots             take the pictures in the docs from a running demo"
	@echo "make faireval DATA=FOLDER    run all steps on FairEval's 80 pairs"

demo: $(RUNS)
	$(RUN) manage.py demo

# Tests also wait for processes, pages and answers, so four run at once even on two cores.
FOUR := -q -n 4 --dist worksteal --ignore tests/attack
TEST := $(RUN) -m pytest $(FOUR)
TEST_ON_POSTGRESQL := $(RUN) -m tests.postgresql $(FOUR)

# What one process shows of itself, on SQLite, in less than ten minutes.
test: check
	$(TEST) -m "not (long or system or browser)"

# The rest that each change has to pass: a second run on PostgreSQL, servers and workers that are
# started and killed, a browser, and walks over every address.
# `make attack` runs tests/attack, on both databases: it takes as long as all the rest.
test-system: $(TESTS)
	$(TEST_ON_POSTGRESQL) -m "databases and not long"
	$(TEST) -m "(system or browser) and not long"

# What is marked `long`: repeated kills, long stretches of work, old releases, the larger simulations,
# whole walks over pages, and repeats on other databases, brokers and screens. A short test of the
# same is in one of the two above.
test-long: $(TESTS)
	$(TEST_ON_POSTGRESQL) -m "databases and long"
	$(TEST) -m long

check: $(TESTS)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports
	$(RUN) manage.py makemigrations --check --dry-run
	FAIRJUDGE_URL=https://fairjudge.example.org $(RUN) manage.py check --deploy --fail-level WARNING

# On SQLite, and on PostgreSQL if FAIRJUDGE_TEST_POSTGRESQL names one.
attack: $(TESTS)
	$(RUN) -m tests.attack

bench: $(TESTS)
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(RUN) -m benchmarks.$$name; done

walks: $(TESTS)
	@$(RUN) -m benchmarks.walks $(ARGS)

client: $(TESTS)
	$(RUN) client/generate.py

messages: $(TESTS)
	$(RUN) locale/catalogs.py

simulate: $(TESTS)
	$(RUN) -m benchmarks.simulate

validation: $(RUNS) data-named
	$(RUN) -m benchmarks.published.validation "$(DATA)"

reproduce: $(RUNS) data-named
	$(RUN) -m benchmarks.published.papers "$(DATA)" --write docs/reproduce.md

# `make demo` must be running: the pictures show its pages.
screenshots: $(TESTS)
	$(RUN) -m tests.screenshots

faireval: $(RUNS) data-named
	$(RUN) -m benchmarks.published.faireval "$(DATA)"

.PHONY: data-named
data-named:
	@test -n "$(DATA)" || { echo "Name the folder that holds the files: make $(MAKECMDGOALS) DATA=FOLDER"; exit 1; }

# What testing needs includes what the demo needs, so the demo installs nothing a second time.
$(RUNS): pyproject.toml constraints.txt
	$(call install,$(RUN_EXTRAS))
	@touch $@

$(TESTS): pyproject.toml constraints.txt
	$(call install,$(TEST_EXTRAS))
	@touch $@ $(RUNS)

define install
@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "FairJudge needs Python 3.11 or newer. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }
@test -x $(RUN) || $(PYTHON) -m venv $(VENV) || \
	{ rm -rf $(VENV); echo "FairJudge needs Python's venv module. Install it (on Debian: apt-get install python3-venv)."; exit 1; }
$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(1)]'
endef

# Pins the releases with which everything was last tested. Those of the extra `embeddings` are
# looked up without installing them.
constraints: $(TESTS)
	$(RUN) -m pip freeze --exclude-editable --exclude fairjudge > constraints.txt
	$(RUN) -m pip install --quiet --dry-run --constraint constraints.txt --report $(VENV)/lookup.json '.[embeddings]'
	$(RUN) -c "import json; \
	found = [one['metadata'] for one in json.load(open('$(VENV)/lookup.json'))['install']]; \
	print(*(f\"{one['name']}=={one['version']}\" for one in found if one['name'] != 'fairjudge'), sep='\n')" >> constraints.txt
	LC_ALL=C sort --ignore-case --output=constraints.txt constraints.txt
	@touch $(RUNS) $(TESTS)

# Pins the files of the packages that the image installs, by their hashes.
lock: $(TESTS)
	$(RUN) -m pip install --quiet --disable-pip-version-check pip-tools
	$(RUN) -m piptools compile --quiet --generate-hashes --strip-extras --no-header --no-annotate \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	$(addprefix --extra=,grammars images local login otel pdf pictures postgres s3) --constraint constraints.txt \
	--output-file requirements.lock pyproject.toml
	sed -i '1i # What the image installs, with the hash of each file. Written by `make lock`.\n' requirements.lock

# Writes the digests that the tags of the images have today. It needs Docker and its registry.
IMAGE_FILES := Dockerfile compose.yaml
pins:
	@set -e; for image in $$(sed -nE 's/^(FROM| *image:) +([a-z0-9.-]+:[a-z0-9.-]+).*/\2/p' $(IMAGE_FILES)); do \
		digest=$$(docker buildx imagetools inspect "$$image" --format '{{.Manifest.Digest}}'); \
		echo "$$digest" | grep -qE '^sha256:[0-9a-f]{64}$$' || { echo "$$image has no digest: $$digest"; exit 1; }; \
		sed -i -E "s|$$image(@sha256:[0-9a-f]+)?|$$image@$$digest|" $(IMAGE_FILES); \
		echo "$$image@$$digest"; \
	done

image-steps: $(TESTS)
	$(RUN) -m tests.image_steps
