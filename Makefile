# SkyJob's build. `make help` lists what there is to do.
#
# Every folder is one static library, and a program or test links only the libraries that its
# folder may use (LIBS_<folder>, section 2 of the design), so a call against the direction does
# not link. Output goes to build/<variant>/: release (default), clang, asan.

VARIANT ?= release
OUT     := build/$(VARIANT)
Q       := $(if $(V),,@)

CC.release := gcc
CC.clang   := clang-14
CC.asan    := gcc
OPT.release := -O2 -g
OPT.clang   := -O2 -g
OPT.asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CC       := $(CC.$(VARIANT))
# Text that does not fit is cut off on purpose (base/err.h); clang has no such warning.
WARN.gcc := -Wno-format-truncation
OPT      := $(OPT.$(VARIANT))

WARN := -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wcast-qual -Wwrite-strings -Wvla -Wformat=2 -Wundef -Werror $(WARN.$(CC))
HARDEN := $(if $(filter asan,$(VARIANT)),,-D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE)
CPPFLAGS := -D_GNU_SOURCE -Icommon -Iworker -Ioperator -Icli -Itests/support \
            -isystem /usr/include/cjson -DSKYJOB_VERSION='"$(shell cat VERSION)"'
CFLAGS   := $(WARN) $(OPT) $(HARDEN) -pthread
LDFLAGS  := $(OPT) -pthread $(if $(filter asan,$(VARIANT)),,-pie -Wl,-z,relro,-z,now) -Wl,--as-needed

# --- the folders, and who may use whom (nearest first: the order is also the link order) ---
DIRS := common/base common/api common/balance common/http common/kube common/fleet \
        operator/control operator/run worker/nn worker/data worker/wire worker/pipe cli
FOLDERS := $(notdir $(DIRS))

LIBS_base    := base
LIBS_api     := api base
LIBS_balance := balance api base
LIBS_http    := http base
LIBS_kube    := kube http base
LIBS_fleet   := fleet http api base
LIBS_control := control balance api base
LIBS_run     := run control fleet kube http balance api base
LIBS_nn      := nn base
LIBS_data    := data api base
LIBS_wire    := wire base
LIBS_pipe    := pipe nn data wire api base
LIBS_cli     := cli fleet kube http balance api base

# What a folder needs from outside; each is met in one place only.
SYS_base := -lcjson -lyaml -lm
SYS_http := -lcurl
SYS_nn   := -lopenblas -lm -fopenmp
SYS_data := -lutf8proc
SYS_wire := -lwebsockets
SYS_pipe := -lwebsockets

PROGRAMS := skyjob-operator skyjob-worker kubectl-skyjob
MAIN_skyjob-operator := operator/main.c
MAIN_skyjob-worker   := worker/main.c
MAIN_kubectl-skyjob  := cli/main.c
LIBS_skyjob-operator := $(LIBS_run)
LIBS_skyjob-worker   := $(LIBS_pipe)
LIBS_kubectl-skyjob  := $(LIBS_cli)

lib    = $(foreach l,$1,$(OUT)/lib/lib$l.a)
syslib = $(foreach l,$1,$(SYS_$l))
dir_of = $(filter %/$1 $1,$(DIRS))
MAINS  := $(wildcard $(foreach p,$(PROGRAMS),$(MAIN_$p)))
BUILT  := $(foreach p,$(PROGRAMS),$(if $(wildcard $(MAIN_$p)),$(OUT)/bin/$p))

.PHONY: all help test unit integration check format format-check clean asan
all: $(BUILT) ## build the programs

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

# --- libraries ---
$(OUT)/obj/%.o: %.c VERSION Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(notdir $(patsubst %/,%,$(dir $<)))) -MMD -MP -c $< -o $@

define folder_rules
SRC_$1 := $$(filter-out $$(MAINS),$$(wildcard $(call dir_of,$1)/*.c))
$(OUT)/lib/lib$1.a: $$(SRC_$1:%.c=$(OUT)/obj/%.o)
	@mkdir -p $$(@D)
	@rm -f $$@
	$(Q)ar rcs $$@ $$^
UNIT_$1 := $$(patsubst tests/unit/%.c,$(OUT)/tests/unit/%,$$(wildcard tests/unit/$1/test_*.c))
$$(UNIT_$1): $(OUT)/tests/unit/%: $(OUT)/obj/tests/unit/%.o $$(call lib,$$(LIBS_$1))
	@mkdir -p $$(@D)
	$(Q)$(CC) $(LDFLAGS) -o $$@ $$< $$(call lib,$$(LIBS_$1)) $$(call syslib,$$(LIBS_$1)) -lcmocka $$(LDFLAGS_test_$1)
UNIT_TESTS += $$(UNIT_$1)
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_rules,$f)))

# --- programs ---
define program_rules
$(OUT)/bin/$1: $(OUT)/obj/$(MAIN_$1:.c=.o) $(call lib,$(LIBS_$1))
	@mkdir -p $$(@D)
	$(Q)$(CC) $(LDFLAGS) -o $$@ $$^ $(call syslib,$(LIBS_$1))
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rules,$p)))

# --- tests ---
unit: $(UNIT_TESTS) ## unit tests (seconds)
	@hack/run-tests.sh $(UNIT_TESTS)

asan: ## unit tests under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory VARIANT=asan unit

# --- hygiene ---
C_FILES := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
format: ## format all C with clang-format 14
	clang-format-14 -i $(C_FILES)
format-check:
	@clang-format-14 --dry-run -Werror $(C_FILES)

clean: ## remove build/
	rm -rf build

-include $(shell find build/$(VARIANT) -name '*.d' 2>/dev/null)
