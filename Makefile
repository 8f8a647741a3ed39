# SkyJob's build. `make help` lists what there is to do.
#
# Every folder is one static library, and a program or test links only the libraries that its
# folder may use (LIBS_<folder>; ARCHITECTURE.md has the table), so a call in the wrong direction
# does not link. Output goes to build/<variant>/: release (default), clang, asan, tsan, fuzz, arm64
# (built elsewhere, for arm64).

VARIANT ?= release
OUT     := build/$(VARIANT)
Q       := $(if $(V),,@)

# Packages come first, so what compiles is a make of its own, and that one is parallel.
JOBS    ?= $(shell nproc)
SUBMAKE  = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

CC.release := gcc
CC.clang   := clang-14
CC.asan    := gcc
CC.fuzz    := clang-14
CC.tsan    := clang-14
CC.arm64   := aarch64-linux-gnu-gcc
AR.arm64   := aarch64-linux-gnu-ar
OPT.release := -O2 -g
OPT.clang   := -O0 # its warnings need no more, and nobody runs what it builds
OPT.asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT.tsan    := -O1 -g -fsanitize=thread -D__SANITIZE_THREAD__ -fno-omit-frame-pointer
OPT.fuzz    := $(OPT.asan) -fsanitize=fuzzer-no-link
OPT.arm64   := $(OPT.release)
CC       := $(CC.$(VARIANT))
AR       := $(or $(AR.$(VARIANT)),ar)
COMPILER := $(if $(filter %gcc,$(CC)),gcc,clang)
MACHINE  := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
# Text that does not fit is cut off on purpose (base/err.h); clang has no such warning.
WARN.gcc := -Wno-format-truncation
# Debian's clang comes without an OpenMP runtime: there the kernels run on one thread.
OPENMP.gcc := -fopenmp
OPT      := $(OPT.$(VARIANT))

WARN := -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wcast-qual -Wwrite-strings -Wvla -Wformat=2 -Wundef -Werror $(WARN.$(COMPILER))
SANITIZED := $(filter asan fuzz tsan,$(VARIANT))
# What hack/check-hardening.sh finds in the programs.
HARDEN.x86_64  := -fcf-protection
HARDEN.aarch64 := -mbranch-protection=standard
HARDEN := $(if $(SANITIZED),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
        -fstack-clash-protection -fPIE $(HARDEN.$(MACHINE)))
CPPFLAGS := -D_GNU_SOURCE -Icommon -Iworker -Ioperator -I. -Itests/support -Itests/bench \
            -isystem /usr/include/cjson -DSKYJOB_VERSION='"$(shell cat VERSION)"'
CFLAGS   := $(WARN) $(OPT) $(HARDEN) -pthread
LDFLAGS  := $(OPT) -pthread $(if $(SANITIZED),,-pie -Wl,-z,relro,-z,now,-z,noexecstack) -Wl,--as-needed

# --- the folders, and who may use whom (nearest first: the order is also the link order) ---
DIRS := common/base common/api common/cluster common/balance common/tls common/http common/kube \
        common/fleet operator/control operator/run worker/nn worker/text worker/data worker/files \
        worker/import worker/wire worker/train worker/probe cli
FOLDERS := $(notdir $(DIRS))

LIBS_base    := base
LIBS_api     := api base
LIBS_cluster := cluster api base
LIBS_balance := balance cluster api base
LIBS_tls     := tls base
LIBS_http    := http tls base
LIBS_kube    := kube http tls base
LIBS_fleet   := fleet http tls api base
LIBS_control := control balance cluster api base
LIBS_run     := run control fleet kube http tls balance cluster api base
LIBS_nn      := nn base
LIBS_text    := text api base
LIBS_data    := data text api base
LIBS_files   := files http tls api base
LIBS_import  := import files text http tls api base
LIBS_wire    := wire tls base
LIBS_train   := train nn files data text wire http tls api base
LIBS_probe   := probe train nn files data text wire http tls api base
LIBS_cli     := cli fleet kube http tls balance cluster api base

# What a folder needs from outside; each is met in one place only.
SYS_base := -lcjson -lyaml -lcrypto -lm
SYS_tls  := -lssl -lcrypto
SYS_http := -lcurl
SYS_nn   := -lopenblas -lm $(OPENMP.$(COMPILER))
SYS_text := -lutf8proc
SYS_wire := -lwebsockets

# Kernels: no -ffast-math, so that scalar tails and vector bodies give the same bits.
CFLAGS_nn  := -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -Wno-psabi $(OPENMP.$(COMPILER))
CFLAGS_bf16 := -O3
# The probe has one kernel of its own, which measures memory.
CFLAGS_probe := -O3 $(OPENMP.$(COMPILER))
ifeq ($(MACHINE),x86_64)
CFLAGS_lanes_avx2   := -mavx2 -mfma
CFLAGS_lanes_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
CFLAGS_gemm_bf16    := -march=x86-64-v4 -mavx512bf16
endif

PROGRAMS := skyjob-operator skyjob-worker skyjob-import kubectl-skyjob
MAIN_skyjob-operator := operator/main.c
MAIN_skyjob-worker   := worker/main.c
MAIN_skyjob-import   := worker/import/main.c
MAIN_kubectl-skyjob  := cli/main.c
LIBS_skyjob-operator := $(LIBS_run)
LIBS_skyjob-worker   := $(LIBS_probe)
LIBS_skyjob-import   := $(LIBS_import)
LIBS_kubectl-skyjob  := $(LIBS_cli)

# Helpers in tests/support that the unit tests of a folder are linked with.
SUPPORT_balance := instances
SUPPORT_http := loopback
SUPPORT_kube := loopback
SUPPORT_run  := loopback
SUPPORT_cli  := loopback
SUPPORT_control := world row
SUPPORT_fleet := loopback
SUPPORT_wire := proxy
SUPPORT_train := proxy

# Memory is refused.
LDFLAGS_test_no_memory := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup
# Calls to workers are answered by the test.
LDFLAGS_test_workers := -Wl,--wrap=fleet_post_revision,--wrap=fleet_end,--wrap=fleet_ask_status
# Calls that write files are recorded, or fail.
LDFLAGS_test_store_faults := -Wl,--wrap=open,--wrap=write,--wrap=fsync,--wrap=rename,--wrap=mkdir,--wrap=unlink,--wrap=rmdir
# There may be no links.
LDFLAGS_test_adopt := -Wl,--wrap=link
# Which replicas lag is the test's to say, and when a thread goes on.
LDFLAGS_test_train := -Wl,--wrap=exchange_send,--wrap=tickets_return,--wrap=weights_update_part,--wrap=homes_meet,--wrap=stragglers_add,--wrap=stragglers_found,--wrap=stragglers_answer
# So is how long a search for a plan takes.
LDFLAGS_test_solver := -Wl,--wrap=decide
LDFLAGS_test_loop := -Wl,--wrap=decide
# So is what the time is, and what a process has used of it.
LDFLAGS_test_throttle := -Wl,--wrap=clock_gettime,--wrap=nanosleep,--wrap=kill

support = $(SUPPORT_$1:%=$(OUT)/obj/tests/support/%.o)
lib    = $(foreach l,$1,$(OUT)/lib/lib$l.a)
syslib = $(foreach l,$1,$(SYS_$l))
dir_of = $(filter %/$1 $1,$(DIRS))
MAINS  := $(wildcard $(foreach p,$(PROGRAMS),$(MAIN_$p)))
BUILT  := $(foreach p,$(PROGRAMS),$(if $(wildcard $(MAIN_$p)),$(OUT)/bin/$p))

.PHONY: all programs help test unit integration test-faults test-minors test-kueue test-cert-manager \
        test-prometheus-operator test-dockerfile test-browser valgrind storm e2e asan tsan milp fuzz fuzz-short \
        fuzzers bench bench-smoke bench-placement bench-replace bench-scale bench-sync try demo demo-down images \
        release check-debian13 check-arm64 sample support check format format-check lint layers purity \
        hardening unit-nn clean deps-build deps-cluster deps-check deps-browser
all: $(BUILT) ## build the programs

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 26

# --- libraries ---
$(OUT)/obj/%.o: %.c VERSION Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(notdir $(patsubst %/,%,$(dir $<)))) $(CFLAGS_$(*F)) -MMD -MP -c $< -o $@

define folder_rules
SRC_$1 := $$(filter-out $$(MAINS),$$(wildcard $(call dir_of,$1)/*.c))
$(OUT)/lib/lib$1.a: $$(SRC_$1:%.c=$(OUT)/obj/%.o)
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)$(AR) rcs $$@ $$^
UNIT_$1 := $$(patsubst tests/unit/%.c,$(OUT)/tests/unit/%,$$(wildcard tests/unit/$1/test_*.c))
$$(UNIT_$1): $(OUT)/tests/unit/%: $(OUT)/obj/tests/unit/%.o $$(call support,$1) $$(call lib,$$(LIBS_$1))
	@mkdir -p $$(@D)
	$(Q)$(CC) $(LDFLAGS) -o $$@ $$< $$(call support,$1) $$(call lib,$$(LIBS_$1)) $$(call syslib,$$(LIBS_$1)) -lcmocka $$(LDFLAGS_$$(@F))
UNIT_TESTS += $$(UNIT_$1)
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_rules,$f)))

# Operator and CLI must make the same plan.
AGREEMENT      := $(patsubst %.c,$(OUT)/%,$(wildcard tests/agreement/test_*.c))
LIBS_agreement := cli run control fleet kube http tls balance cluster api base
UNIT_TESTS     += $(AGREEMENT)
$(AGREEMENT): $(OUT)/%: $(OUT)/obj/%.o $(call lib,$(LIBS_agreement))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_agreement)) -lcmocka

# --- programs ---
define program_rules
$(OUT)/bin/$1: $(OUT)/obj/$(MAIN_$1:.c=.o) $(call lib,$(LIBS_$1))
	@mkdir -p $$(@D)
	$(Q)$(CC) $(LDFLAGS) -o $$@ $$^ $(call syslib,$(LIBS_$1))
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rules,$p)))

# --- tests ---
# Programs that integration tests need beside our own.
AGENT      := $(OUT)/tests/support/agent
LIBS_agent := kube http tls cluster api base
PROXY      := $(OUT)/tests/support/fault-proxy
LIBS_proxy := train wire tls api base
THROTTLE   := $(OUT)/tests/support/throttle
LIBS_throttle := base
SLOW_LINK  := $(OUT)/tests/support/slow-link
LIBS_slow_link := base
HOLLOW     := $(OUT)/tests/support/hollow
LIBS_hollow := tls api base
# Preloaded into a worker or the operator.
PRELOADS   := $(patsubst %,$(OUT)/tests/support/%.so,cut_link slow_send fault_at)
WALK       := $(OUT)/tests/support/spec-walk
LIBS_walk  := cli fleet kube http tls balance cluster api base
support: $(AGENT) $(PROXY) $(THROTTLE) $(SLOW_LINK) $(HOLLOW) $(WALK) $(PRELOADS)
$(PRELOADS): $(OUT)/%.so: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -Wpedantic,$(CFLAGS)) -fPIC -shared -o $@ $<
$(PROXY): $(patsubst %,$(OUT)/obj/tests/support/%.o,proxy_main proxy) $(call lib,$(LIBS_proxy))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_proxy))
$(THROTTLE): $(OUT)/obj/tests/support/throttle_main.o $(OUT)/obj/cli/throttle.o $(call lib,$(LIBS_throttle))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_throttle))
$(SLOW_LINK): $(OUT)/obj/tests/support/slow_link.o $(call lib,$(LIBS_slow_link))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_slow_link))
$(HOLLOW): $(OUT)/obj/tests/support/hollow.o $(call lib,$(LIBS_hollow))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_hollow))
$(WALK): $(OUT)/obj/tests/support/spec_walk.o $(call lib,$(LIBS_walk))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_walk))
$(AGENT): $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/support/agent*.c)) $(call lib,$(LIBS_agent))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_agent))

INTEGRATION := $(wildcard tests/integration/test_*.sh)

# Workers that are driven by revisions.
REVISIONS      := $(OUT)/tests/integration/test_revisions
LIBS_revisions := train nn files data text wire fleet http tls api base
$(REVISIONS): $(patsubst %,$(OUT)/obj/tests/%.o,integration/test_revisions support/crew support/proxy) \
        $(call lib,$(LIBS_revisions))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -Wl,--wrap=link_send,--wrap=loader_train,--wrap=store_read_records -o $@ $^ $(call syslib,$(LIBS_revisions)) -lcmocka

# Objects and checkpoints on a real S3 server; run by test_bucket.sh.
BUCKET      := $(OUT)/tests/integration/test_bucket
LIBS_bucket := files http tls api base
$(BUCKET): $(OUT)/obj/tests/integration/test_bucket.o $(call lib,$(LIBS_bucket))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_bucket)) -lcmocka
E2E         := $(wildcard tests/e2e/test_*.sh)
export OUT

# Built before any test runs, or those beside it would have to share the processors with a compiler.
TOOLS := hack/cluster/build.sh envtest && hack/cluster/build.sh s3
# Scripts wait more than they compute.
SIDE_BY_SIDE := TEST_TIMEOUT=2700 AT_ONCE=$$(($$(nproc) * 3 / 2)) hack/run-tests.sh
# test_revisions takes as long as all unit tests, so it begins with them.
test: deps-cluster ## unit and integration tests (real API server, real workers)
	@$(SUBMAKE) all sample support $(UNIT_TESTS) $(REVISIONS) $(BUCKET)
	@$(TOOLS)
	@$(SIDE_BY_SIDE) $(REVISIONS) $(UNIT_TESTS) $(INTEGRATION)

unit: $(UNIT_TESTS) ## unit tests (seconds)
	@hack/run-tests.sh $(UNIT_TESTS)

integration: deps-cluster ## real etcd, API server and workers as processes
	@$(SUBMAKE) all sample support $(REVISIONS) $(BUCKET)
	@$(TOOLS)
	@$(SIDE_BY_SIDE) $(REVISIONS) $(INTEGRATION)

FAULT_RUNS := $(addprefix faults-,workers before after repeat hold lose)
test-faults: deps-cluster ## faults at every step, call and event, side by side (half an hour; see build/release/faults.log)
	@$(SUBMAKE) all sample support $(REVISIONS)
	@rm -f $(OUT)/faults.log
	@$(MAKE) --no-print-directory -j6 --keep-going --output-sync=target $(FAULT_RUNS)
.PHONY: $(FAULT_RUNS)
faults-workers:
	@FAULTS=all $(REVISIONS) '*five_faults*'
	@FAULTS=all $(REVISIONS) '*keep_the_best*'
faults-before faults-after: faults-%:
	@FAULTS=$* tests/integration/test_outage.sh 'before and after each kind'
faults-repeat faults-hold faults-lose: faults-%:
	@FAULTS=$* tests/integration/test_outage.sh 'events may come twice'

test-minors: deps-cluster ## what talks to an API server, on the last three minors of Kubernetes, which are built first (hours)
	@$(SUBMAKE) all sample support
	@tests/integration/minors.sh

test-kueue: deps-cluster ## queued jobs with the real Kueue, which is built first (minutes)
	@hack/cluster/build.sh kueue
	@$(SUBMAKE) all sample support
	@tests/integration/kueue.sh

test-cert-manager: deps-cluster ## certificates of the real cert-manager's CA, which is built first (minutes)
	@hack/cluster/build.sh cert-manager
	@$(SUBMAKE) all sample support
	@tests/integration/cert-manager.sh

test-prometheus-operator: deps-cluster ## monitors as the real Prometheus Operator reads them, which is built first (minutes)
	@hack/cluster/build.sh prometheus-operator
	@$(SUBMAKE) all sample support
	@tests/integration/prometheus-operator.sh

test-dockerfile: deps-cluster ## what `docker build` makes, beside the images that are shipped (minutes)
	@tests/e2e/dockerfile.sh

test-browser: deps-browser ## the pages of `kubectl-skyjob report` in headless Chromium
	@$(SUBMAKE) all
	@tests/integration/browser.sh

valgrind: deps-check ## the operator under valgrind for RECONCILES=1000 (minutes)
	@$(SUBMAKE) all sample support
	@tests/integration/valgrind.sh

export STORM_MINUTES ?= 30
export STORM_EVERY   ?= 120
export STORM_SEED    ?= 1
storm: deps-cluster ## STORM_MINUTES=30 of training with a random fault every STORM_EVERY=120 seconds, STORM_SEED=1 (an hour)
	@$(SUBMAKE) all sample support
	@tests/integration/storm.sh

e2e: deps-cluster ## a real multi-node cluster, Helm, kubectl, limited nodes, jobs to their end
	@$(SUBMAKE) all sample
	@TEST_TIMEOUT=3000 AT_ONCE=1 hack/run-tests.sh $(E2E)

unit-nn: $(UNIT_nn)
	@hack/run-tests.sh $(UNIT_nn)

asan: ## unit tests under AddressSanitizer and UBSan
	@$(SUBMAKE) VARIANT=asan unit

tsan: ## unit tests under ThreadSanitizer (ten minutes)
	@TSAN_OPTIONS=die_after_fork=0 $(SUBMAKE) VARIANT=tsan unit

# --- the planner against an independent solver ---
MILP := $(OUT)/tests/milp/test_milp
$(MILP): $(OUT)/obj/tests/milp/test_milp.o $(call support,balance) $(call lib,$(LIBS_balance))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_balance)) -lcmocka
milp: deps-check ## the planner against a mixed-integer solver (a part of check)
	@$(SUBMAKE) $(MILP)
	@hack/run-tests.sh $(MILP)

# --- fuzzing: one libFuzzer target per parser of foreign bytes ---
FUZZERS      := $(patsubst %.c,build/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
LIBS_fuzzers := train import files data text wire http tls cluster api base
FUZZ_SECONDS ?= 60
fuzzers: $(FUZZERS)
$(FUZZERS): build/fuzz/%: $(OUT)/obj/%.o $(call lib,$(LIBS_fuzzers))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(call syslib,$(LIBS_fuzzers))

fuzz: deps-check ## libFuzzer on every parser, FUZZ_SECONDS=60 each, two at a time
	@$(SUBMAKE) VARIANT=fuzz fuzzers
	@FUZZ_SECONDS=$(FUZZ_SECONDS) hack/fuzz.sh $(FUZZERS)

fuzz-short: deps-check ## all seeds, then the same inputs in every run: what CI runs, a minute
	@$(SUBMAKE) VARIANT=fuzz fuzzers
	@hack/fuzz.sh --short $(FUZZERS)

# --- benchmarks: ratios of two things in one run, never a test ---
BENCH := $(patsubst %.c,$(OUT)/%,$(wildcard tests/bench/bench_*.c))
LIBS_bench := cli fleet kube probe train nn files data text wire http tls balance cluster api base
# The time within matrix products is taken around these.
LDFLAGS_bench_step := -Wl,--wrap=gemm,--wrap=gemm_alone
# Training has its turns around these.
LDFLAGS_bench_block := -Wl,--wrap=microbenchmark_round,--wrap=clock_now_ns,--wrap=clock_now_ms,--wrap=clock_cpu_ns
$(BENCH): $(OUT)/tests/bench/%: $(OUT)/obj/tests/bench/%.o $(OUT)/obj/tests/bench/bench.o \
        $(OUT)/obj/tests/bench/step.o $(OUT)/obj/tests/bench/released.o $(call lib,$(LIBS_bench))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(LDFLAGS_$(@F)) -o $@ $^ $(call syslib,$(LIBS_bench))

bench: deps-cluster ## print a table of measured ratios, write build/bench.json
	@$(SUBMAKE) all sample $(BENCH)
	@hack/bench.sh $(BENCH) $(wildcard tests/bench/bench_*.sh)

# Without the one that needs a cluster.
bench-smoke: deps-cluster ## every benchmark for some seconds: does it still work?
	@$(SUBMAKE) all sample $(BENCH)
	@BENCH_SMOKE=1 hack/bench.sh $(BENCH) $(filter-out %/bench_cluster.sh,$(wildcard tests/bench/bench_*.sh))
	@BENCH_SMOKE=1 tests/bench/sync.sh >build/bench-sync-smoke.rows
	@$(call sync_report,build/bench-sync-smoke)

# The published experiment in simulation, which takes a minute.
PLACEMENT := $(OUT)/tests/bench/placement/placement
$(PLACEMENT): $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/bench/placement/*.c)) \
        $(OUT)/obj/tests/bench/released.o $(call lib,$(LIBS_bench))
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(call syslib,$(LIBS_bench))
bench-placement: $(PLACEMENT) ## cuts against the published ones, simulated; write build/bench-placement.json
	@$(PLACEMENT) build/bench-placement.json

bench-replace: deps-cluster ## steps with and without re-placement; write build/bench-replace.json
	@$(SUBMAKE) all sample support
	@tests/bench/replace.sh >build/bench-replace.rows
	@jq -s . build/bench-replace.rows | tee build/bench-replace.json

bench-scale: deps-cluster ## a thousand jobs, ten thousand that have ended, five thousand nodes; write build/bench-scale.json
	@$(SUBMAKE) all sample support
	@tests/bench/scale.sh >build/bench-scale.rows
	@jq -s . build/bench-scale.rows | tee build/bench-scale.json

# Tables and a plot of rows.
sync_report = jq -rs -f tests/bench/sync.jq $1.rows >$1.md && jq -rs -f tests/bench/sync_plot.jq $1.rows >$1.svg
bench-sync: deps-check ## replicas in step and free, SYNC_SEEDS=5, over two hours (SYNC_RUNS=link: that part); write build/bench-sync.md and .svg
	@$(SUBMAKE) all sample support
	@tests/bench/sync.sh $(SYNC_RUNS) >build/bench-sync.rows
	@$(call sync_report,build/bench-sync)
	@cat build/bench-sync.md

# --- what is shipped ---
images: deps-cluster ## the operator's and the worker's image for amd64 and arm64, in build/debian13/images
	@hack/images.sh

release: deps-cluster ## archives of the CLI for Linux on amd64 and arm64, and a krew manifest, in build/debian12/release-archives
	@hack/release.sh

check-debian13: deps-cluster ## unit tests and `make try` in Debian 13, and the same bits there as here
	@hack/debian.sh 13 hack/deps.sh ship
	@hack/debian.sh 13 make -j$(JOBS) unit
	@hack/debian.sh 13 make try
	@$(SUBMAKE) all sample
	@hack/same-bits.sh

check-arm64: deps-cluster ## tests of the kernels, built for arm64 and run by an emulator
	@hack/debian.sh 13-arm64 hack/deps.sh arm64
	@hack/debian.sh 13-arm64 env QEMU_CPU=neoverse-n1 RUN_UNDER=qemu-aarch64 make -j$(JOBS) VARIANT=arm64 unit-nn

# --- trying it ---
try: deps-build ## train on this machine without a cluster, about a minute
	@$(SUBMAKE) all sample
	$(OUT)/bin/kubectl-skyjob run -f manifests/samples/mnli.yaml --workers cpu=0.25,cpu=0.5,cpu=1

demo: deps-cluster ## a local cluster, the operator, a job to its end
	@hack/demo.sh

demo-down: ## remove everything that `make demo` made
	@hack/cluster/down.sh

# --- everything that compiles ---
programs: all $(UNIT_TESTS) $(REVISIONS) $(BUCKET) $(AGENT) $(MILP) $(BENCH) $(PLACEMENT) build/gen-nli

# --- what the worker's image and the tests train on ---
sample: build/sample ## generate the sample data
build/sample: build/sample/mnli/vocab.txt
build/sample/mnli/vocab.txt: build/gen-nli
	@mkdir -p $(@D)
	$(Q)build/gen-nli $(@D)
build/gen-nli: hack/gen-nli.c hack/gen-nli-truth.c hack/gen-nli.h
	@mkdir -p $(@D)
	$(Q)$(CC.release) $(WARN) $(WARN.gcc) $(OPT.release) -o $@ $(filter %.c,$^)

# --- packages ---
deps-build deps-cluster deps-check deps-browser: deps-%:
	@hack/deps.sh $*

# --- hygiene ---
C_FILES := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
SCRIPTS := $(shell git ls-files '*.sh' .ci/run 2>/dev/null)

check: deps-check ## what CI runs before the tests
	@$(SUBMAKE) format-check lint layers purity hardening programs
	@$(SUBMAKE) VARIANT=clang programs
	@$(SUBMAKE) VARIANT=asan unit
	@$(SUBMAKE) VARIANT=fuzz fuzzers
	@$(SUBMAKE) milp

format: ## format all C with clang-format 14
	clang-format-14 -i $(C_FILES)
format-check:
	@clang-format-14 --dry-run -Werror $(C_FILES)

lint:
	@shellcheck -x $(SCRIPTS)

# A library must link whole with what its folder may use and nothing else; and no header of another
# folder may be included, even for a type.
layers: $(foreach f,$(FOLDERS),$(OUT)/layers/$f)
define layer_rules
$(OUT)/layers/$1: $(call lib,$(LIBS_$1)) hack/check-includes.sh
	@mkdir -p $$(@D)
	@hack/check-includes.sh "$(call dir_of,$1)" $(LIBS_$1)
	@echo 'int main(void); int main(void) { return 0; }' | $(CC) $(LDFLAGS) -o $$@ -x c - -x none \
	    -Wl,--whole-archive $(OUT)/lib/lib$1.a -Wl,--no-whole-archive \
	    $(call lib,$(wordlist 2,99,$(LIBS_$1))) $(call syslib,$(LIBS_$1))
endef
$(foreach f,$(FOLDERS),$(eval $(call layer_rules,$f)))

hardening: $(BUILT)
	@hack/check-hardening.sh $(BUILT)

purity: $(call lib,control balance cluster api base)
	@hack/check-purity.sh $(call lib,control balance cluster api base)
	@hack/check-purity.sh --memory $(call lib,balance cluster api base)
	@hack/check-purity.sh --memory $(call lib,cluster api base)

clean: ## remove build/
	rm -rf build

-include $(shell find build/$(VARIANT) -name '*.d' 2>/dev/null)
