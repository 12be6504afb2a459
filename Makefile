# deltaq: `make help` lists the targets.
.DEFAULT_GOAL := all

CONFIG    ?= release
# CROSS=aarch64-linux-gnu: for another kind of processor, with the compiler of that name and the libraries below
# SYSROOT, in a build directory of its own (docs/arm.md).
CROSS     ?=
BUILD     ?= build$(CROSS:%=/%)
SYSROOT   ?= $(CROSS:%=$(BUILD)/sysroot)
ifneq ($(CROSS),)
CC        := $(CROSS)-gcc
AR        := $(CROSS)-ar
endif
ARCH      := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null || uname -m)))
LEVELS_x86_64  := v2 v3 v4
LEVELS_aarch64 := portable neon sve
LEVELS    := $(LEVELS_$(ARCH))
OBJ       := $(BUILD)/$(CONFIG)
BINARY    := $(BUILD)/$(if $(filter release,$(CONFIG)),,$(CONFIG)/)deltaq

# What each flag is for: see docs/backends.md, "How it is compiled".
WARNINGS  := -Wall -Wextra -Werror -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum \
             -Wformat=2 -Wvla -Wcast-qual -Wundef -Wpointer-arith -Wwrite-strings
# EXTRA_CPPFLAGS, EXTRA_CFLAGS: what a distribution adds (deploy/debian/rules).
SANITIZE_release :=
SANITIZE_asan    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_tsan    := -fsanitize=thread -fno-omit-frame-pointer
SANITIZE  := $(SANITIZE_$(CONFIG))
OPTIMISE  := $(if $(filter release gpu,$(CONFIG)),-O2,-O1)
PG_HEADERS := $(addprefix -isystem ,$(if $(SYSROOT),$(SYSROOT)/usr/include/postgresql,\
              $(shell pg_config --includedir 2>/dev/null)))
PLATFORM  := $(SYSROOT:%=--sysroot=%)
CPPFLAGS  := $(PLATFORM) -D_GNU_SOURCE -Iengine -Iserver -I$(BUILD)/generated $(PG_HEADERS) \
             $(EXTRA_CPPFLAGS)
CFLAGS    := -std=c11 $(OPTIMISE) -g -fopenmp-simd -ffp-contract=off -fno-math-errno -fvisibility=hidden \
             -fstack-protector-strong -pthread $(WARNINGS) $(SANITIZE) $(EXTRA_CFLAGS)
LDFLAGS   := $(PLATFORM) -pthread $(SANITIZE) -Wl,-z,relro,-z,now
ENGINE_LIBS := -lpcre2-8 -lutf8proc -lz -lm -ldl
SERVER_LIBS := -lmicrohttpd -lgnutls -ljansson -lpq -lcurl -lexpat -lcrypto -lsqlite3 -lz

# CONFIG=gpu: the engine and its tests on a machine that may have little else. What stands in for libraries it lacks:
# tests/gpu/absent.
ifeq ($(CONFIG),gpu)
have       = $(shell echo '\#include <$(1).h>' | $(CC) -E -x c -DPCRE2_CODE_UNIT_WIDTH=8 - >/dev/null 2>&1 && echo $(1))
GPU_ABSENT ?= $(filter-out $(foreach name,pcre2 utf8proc zlib cmocka,$(call have,$(name))),pcre2 utf8proc zlib cmocka)
CPPFLAGS   += $(GPU_ABSENT:%=-isystem tests/gpu/absent/%)
GPU_CMOCKA := $(if $(filter cmocka,$(GPU_ABSENT)),,-lcmocka)
ENGINE_LIBS := $(filter-out $(if $(filter pcre2,$(GPU_ABSENT)),-lpcre2-8) \
               $(if $(filter utf8proc,$(GPU_ABSENT)),-lutf8proc) $(if $(filter zlib,$(GPU_ABSENT)),-lz),$(ENGINE_LIBS))
endif

# The CUDA plugin is a library of its own.
ENGINE_SOURCES := $(shell find engine -name '*.c' -not -path 'engine/backend/cuda/plugin/*' | sort)
SERVER_SOURCES := $(shell find server -name '*.c' | sort)
UNIT_SOURCES   := $(shell find tests/unit -name 'test_*.c' 2>/dev/null | sort)
# The plain loops are compiled for float and for double, the vectorised kernels for each level of the processor's
# family (engine/backend/cpu/levels.h).
REFERENCE_SOURCES := $(filter engine/backend/reference/%,$(ENGINE_SOURCES))
KERNEL_SOURCES := $(filter engine/backend/cpu/kernels/%,$(ENGINE_SOURCES))
ENGINE_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(filter-out $(REFERENCE_SOURCES) $(KERNEL_SOURCES),$(ENGINE_SOURCES))) \
                  $(foreach kind,float double,$(REFERENCE_SOURCES:%.c=$(OBJ)/%.$(kind).o)) \
                  $(foreach level,$(LEVELS),$(KERNEL_SOURCES:%.c=$(OBJ)/%.$(level).o))
KERNEL_FLAGS := -O3 -ffp-contract=fast -fno-trapping-math
# GCC 14's AddressSanitizer keeps frames on a fake stack by default, and those are not aligned to the 64 bytes of an
# AVX-512 register: not so the kernels', nor those that hold what the bf16 and tile units read.
$(OBJ)/engine/backend/cpu/%.o: CFLAGS += $(if $(filter asan,$(CONFIG)),--param asan-use-after-return=0)
LEVEL_v2 := -march=x86-64-v2
LEVEL_v3 := -march=x86-64-v3
LEVEL_v4 := -march=x86-64-v4 -mprefer-vector-width=512
LEVEL_portable := -march=armv8-a -ffp-contract=off
LEVEL_neon     := -march=armv8-a
LEVEL_sve      := -march=armv8.2-a+sve
SERVER_OBJECTS := $(SERVER_SOURCES:%.c=$(OBJ)/%.o)
UNIT_BINARIES  := $(UNIT_SOURCES:%.c=$(OBJ)/%)
ENGINE_LIBRARY := $(OBJ)/libdeltaq-engine.a
SERVER_LIBRARY := $(OBJ)/libdeltaq-server.a
# What tests end with on their command line.
LINK_SERVER = $(SERVER_LIBRARY) $(ENGINE_LIBRARY) $(LDFLAGS) $(SERVER_LIBS) $(ENGINE_LIBS)
LINK_TEST   = $(SERVER_LIBRARY) $(ENGINE_LIBRARY) $(LDFLAGS) -lcmocka $(SERVER_LIBS) $(ENGINE_LIBS)

# The CUDA plugin: the kernels and CUDA's runtime in a library of their own. cuBLAS and the driver are looked for when
# it is used.
NVCC        := $(if $(CROSS),,$(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc)))
# Debian's nvidia-cuda-toolkit-gcc names the compiler that its nvcc works with: the default one may be too new.
NVCC_HOST   := $(if $(NVCC),$(patsubst %,-ccbin %,$(notdir $(shell command -v cuda-gcc 2>/dev/null))))
CUDA_PLUGIN := $(BUILD)/libdeltaq-cuda.so
CUDA_DIR    := engine/backend/cuda
CUDA_FLAGS  := $(NVCC_HOST) -std=c++17 -O3 -Iengine -diag-suppress 177 -Xcompiler -fPIC,-fvisibility=hidden,-Wall \
               -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
CUDA_HOST_FLAGS := $(NVCC_HOST) -Iengine -O2 -Xcompiler -std=c11,-fPIC,-fvisibility=hidden,-Wall,-Wextra
CUDA_OBJECTS := $(patsubst %,$(BUILD)/cuda/%.o,$(basename $(wildcard $(CUDA_DIR)/plugin/*.cu $(CUDA_DIR)/plugin/*.c)))
# Of what program and plugin share, and of the plugin: a plugin of other sources is refused (cuda/open.c). The stamp of
# other sources compiles again what says it.
CUDA_SHARED  := $(wildcard engine/backend/*.h $(addprefix $(CUDA_DIR)/,*.h kernels/*.h plugin/*.[ch] plugin/*.cu))
CUDA_SUM     := $(shell LC_ALL=C cat $(sort $(CUDA_SHARED)) | sha256sum | cut -c1-12)
CUDA_STAMP   := $(BUILD)/generated/cuda-$(CUDA_SUM)
SAY_SOURCES  := '-DCUDA_SOURCES="$(CUDA_SUM)"'
$(CUDA_STAMP):
	@mkdir -p $(@D) && rm -f $(BUILD)/generated/cuda-* && touch $@
$(OBJ)/$(CUDA_DIR)/open.o: CPPFLAGS += $(SAY_SOURCES)
$(OBJ)/$(CUDA_DIR)/open.o: $(CUDA_STAMP)

.DELETE_ON_ERROR:
.PHONY: all engine help clean format
all: $(BINARY) $(if $(NVCC),$(CUDA_PLUGIN),without-cuda) ## Build build/deltaq, and the CUDA plugin where nvcc is

.PHONY: cuda without-cuda
without-cuda:
	@echo "  no nvcc here: built without the CUDA plugin; the CPU does the work"

cuda: $(CUDA_PLUGIN) ## Build the CUDA plugin, build/libdeltaq-cuda.so (needs nvcc)

# What ptxas says of each kernel's registers, stack and shared memory stays beside the object, for
# tests/gpu/test_resources.py.
$(BUILD)/cuda/%.o: %.cu $(wildcard $(CUDA_DIR)/*.h $(CUDA_DIR)/kernels/*.h $(CUDA_DIR)/plugin/*.h) \
                       $(wildcard engine/backend/*.h)
	@mkdir -p $(@D)
	@echo "  nvcc $<"
	@$(or $(NVCC),$(error no nvcc: the CUDA plugin needs the CUDA toolkit)) $(CUDA_FLAGS) -Xptxas -v -c -o $@ $< \
	    2> $@.usage || { cat $@.usage >&2; exit 1; }
	@grep -v -e '^ptxas info' -e 'bytes stack frame' $@.usage >&2 || true

# Each operation is rounded by itself there.
$(BUILD)/cuda/$(CUDA_DIR)/plugin/exact.o: CUDA_FLAGS += -fmad=false

$(BUILD)/cuda/%.o: %.c $(CUDA_STAMP)
	@mkdir -p $(@D)
	@echo "  nvcc $<"
	@$(or $(NVCC),$(error no nvcc: the CUDA plugin needs the CUDA toolkit)) $(CUDA_HOST_FLAGS) $(SAY_SOURCES) -c -o $@ $<

$(CUDA_PLUGIN): $(CUDA_OBJECTS)
	@echo "  link $@"
	@$(NVCC) $(NVCC_HOST) -shared -cudart static -o $@ $^ -ldl

engine: $(ENGINE_LIBRARY) ## Build the engine library alone (no server, database or HTTP)

# CONFIG=gpu: where no library is missing the engine is the product's own, and so are the objects of its tests.
GPU_SHARED := $(OBJ)
ifeq ($(CONFIG)$(strip $(GPU_ABSENT)),gpu)
ENGINE_LIBRARY := $(BUILD)/release/libdeltaq-engine.a
GPU_SHARED     := $(BUILD)/release
.PHONY: product-engine
product-engine:
	@$(MAKE) --no-print-directory CONFIG=release engine stand-ins
$(ENGINE_LIBRARY): product-engine
	@:
$(GPU_SHARED)/tests/stand_in/%.o: product-engine
	@:
else
$(ENGINE_LIBRARY): $(ENGINE_OBJECTS)
	@rm -f $@ && $(AR) rcs $@ $^
endif

$(SERVER_LIBRARY): $(filter-out $(OBJ)/server/main.o,$(SERVER_OBJECTS))
	@rm -f $@ && $(AR) rcs $@ $^

# What `deltaq version` tells, where git and a work tree are there. The stamp of another commit compiles main.c again,
# and that alone. The new program takes the place of the old in one step: tests and servers that start it meanwhile find
# one of the two.
COMMIT       := $(if $(wildcard .git),$(shell git rev-parse --short=7 HEAD 2>/dev/null))
COMMIT_STAMP := $(BUILD)/generated/commit-$(or $(COMMIT),unknown)
$(COMMIT_STAMP):
	@mkdir -p $(@D) && rm -f $(BUILD)/generated/commit-* && touch $@
$(OBJ)/server/main.o: CPPFLAGS += $(if $(COMMIT),'-DDELTAQ_COMMIT="$(COMMIT)"')
$(OBJ)/server/main.o: $(COMMIT_STAMP)

$(BINARY): $(OBJ)/server/main.o $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CC) $(LDFLAGS) -o $@.new $^ $(SERVER_LIBS) $(ENGINE_LIBS) && mv -f $@.new $@

# What compiles says what is missing, in place of the compiler.
.PHONY: toolchain
toolchain:
	@$(if $(LEVELS),,$(error deltaq is built for x86_64 and aarch64; $(CC) makes programs for $(ARCH)))
	@$(if $(filter gpu,$(CONFIG))$(filter engine,$(MAKECMDGOALS)),:,sh tests/tools/toolchain.sh '$(CC)' $(PLATFORM) \
	    $(PG_HEADERS))

define compile_reference
$(OBJ)/%.$(1).o: %.c | toolchain
	@mkdir -p $$(@D)
	@echo "  cc   $$< ($(1))"
	@$$(CC) $$(CPPFLAGS) -Dreal=$(1) $$(CFLAGS) -MMD -MP -c -o $$@ $$<
endef
$(foreach kind,float double,$(eval $(call compile_reference,$(kind))))

define compile_kernels
$(OBJ)/%.$(1).o: %.c | toolchain
	@mkdir -p $$(@D)
	@echo "  cc   $$< ($(1))"
	@$$(CC) $$(CPPFLAGS) -DKERNEL_LEVEL=$(1) $$(CFLAGS) $$(KERNEL_FLAGS) $$(LEVEL_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach level,$(LEVELS),$(eval $(call compile_kernels,$(level))))

# The schema travels inside the binary: a row of C for each sql/NNNN_name.sql. The stamp has the sum of their names:
# after a rename or a removal, which no file's time shows, the list is made again.
MIGRATIONS       := $(sort $(wildcard sql/*.sql))
MIGRATIONS_STAMP := $(BUILD)/generated/migrations-$(firstword $(shell echo '$(MIGRATIONS)' | cksum))
$(MIGRATIONS_STAMP):
	@mkdir -p $(@D) && rm -f $(BUILD)/generated/migrations-* && touch $@
$(BUILD)/generated/store/migrations_list.h: $(MIGRATIONS) $(MIGRATIONS_STAMP)
	@mkdir -p $(@D)
	@awk 'FNR == 1 { if (NR > 1) print "}, "; name = FILENAME; sub(/.*\//, "", name); \
	                 printf "{%d, \"%s\",\n", name + 0, name } \
	      { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); printf "\"%s\\n\"\n", $$0 } END { print "}," }' $(MIGRATIONS) > $@
$(OBJ)/server/store/migrations.o: $(BUILD)/generated/store/migrations_list.h

$(OBJ)/%.o: %.c | toolchain
	@mkdir -p $(@D)
	@echo "  cc   $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(subst /,_,$*)) -MMD -MP -c -o $@ $<

# The parts of the pool as commands, for tests/pool; and the same without the worker's own grace, and then with the
# fence of the queue taken away, which those tests must notice.
POOL_TOOLS := $(addprefix $(OBJ)/tests/pool/pool_tool,_plain _patient _by_id _by_state)
POOL_FLAGS_patient  := -DWORKER_GRACE=1e9
POOL_UNUSED         := $$2::bigint is not null and $$3::text is not null
POOL_FLAGS_by_id    := $(POOL_FLAGS_patient) '-DQUEUE_FENCE=" id = $$1 and $(POOL_UNUSED) "'
POOL_FLAGS_by_state := $(POOL_FLAGS_patient) '-DQUEUE_FENCE=" id = $$1 and state = $$$$running$$$$ and $(POOL_UNUSED) "'
POOL_REPLACED       := server/store/queue.c server/pool/worker_hold.c
$(OBJ)/tests/pool/pool_tool_%: tests/pool/pool_tool.c $(POOL_REPLACED) $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  test $@"
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(POOL_FLAGS_$*) -o $@ tests/pool/pool_tool.c $(if $(POOL_FLAGS_$*),$(POOL_REPLACED)) \
	    $(LINK_SERVER)

.PHONY: pool-tools
pool-tools: $(POOL_TOOLS) $(OBJ)/tests/bench/queue_scale

# Half of what a test takes to build is optimising it, which only those repay that compute their own references.
UNIT_COMPUTES := engine/backend/% engine/quant/%
$(OBJ)/tests/unit/%: tests/unit/%.c $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  test $<"
	@$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) $(if $(filter $(UNIT_COMPUTES),$*),,-O0) -MMD -MP -MF $@.d -o $@ $< \
	    $(BESIDE) $(LINK_TEST)

# Tests of the fast backend, compiled once more with the CUDA backend in its place (cuda/stand_in.h), and linked with
# each of the devices that it may be over.
$(OBJ)/tests/stand_in/%.o: tests/unit/%.c | toolchain
	@mkdir -p $(@D)
	@echo "  test $< (CUDA)"
	@$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -include engine/backend/cuda/stand_in.h -MMD -MP -c -o $@ $<
STAND_IN_ptx := -DSTAND_IN_PTX
STAND_IN_gpu := '-DSTAND_IN_DEVICE="cuda:0"'
$(OBJ)/tests/stand_in_%.o: tests/unit/engine/backend/cuda/stand_in.c | toolchain
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) $(STAND_IN_$*) -MMD -MP -c -o $@ $<

# Over an emulated device (tests/unit/engine/backend/cuda): `make check` runs the quick ones; check-all all of them,
# under AddressSanitizer too.
EMULATED_QUICK := $(addprefix engine/backend/test_,backend_edges cpu_attention cpu_bf16 cpu_codes cpu_inputs) \
                  $(addprefix engine/backend/test_,cpu_scan experts xielu) \
                  $(addprefix engine/model/test_,forest load tangent) \
                  $(addprefix engine/backend/cuda/,hidden_states fused_attention)
EMULATED_TESTS := $(EMULATED_QUICK) $(addprefix engine/backend/test_,cpu_products cpu_rows tangent_cpu) \
                  engine/backend/cuda/whole_models $(addprefix engine/jobs/test_,methods every_method)
EMULATED_BINARIES := $(addprefix $(OBJ)/tests/emulated/,$(EMULATED_QUICK) \
                     $(addprefix engine/backend/cuda/,layer_errors rounded_products staging) engine/selftest/device)
EMULATED_ALL  := $(addprefix $(BUILD)/release/tests/emulated/,$(EMULATED_TESTS) engine/backend/cuda/rounded_weights \
                 engine/selftest/wrong_devices) $(EMULATED_TESTS:%=$(BUILD)/asan/tests/emulated/%)
EMULATED_DEVICE := $(OBJ)/tests/unit/engine/backend/cuda/emulated.o
$(EMULATED_DEVICE): CPPFLAGS += -Itests/unit
$(EMULATED_DEVICE): CFLAGS += -fPIC
$(OBJ)/tests/emulated/%: $(OBJ)/tests/stand_in/%.o $(OBJ)/tests/stand_in_emulated.o $(EMULATED_DEVICE) \
                         $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CC) -o $@ $(filter %.o,$^) $(LINK_TEST)

# And over a device that runs the PTX which nvcc makes of the kernels (tests/unit/engine/backend/cuda/ptx): not the many
# whole quantizations, which run no kernel that the others leave out.
PTX := $(BUILD)/ptx
PTX_DIR := tests/unit/engine/backend/cuda/ptx
PTX_TESTS := $(patsubst %,$(PTX)/tests/%,$(filter-out engine/jobs/%,$(EMULATED_TESTS)))
SIMULATED_DEVICE := $(OBJ)/$(PTX_DIR)/simulated.o $(EMULATED_DEVICE)
$(OBJ)/$(PTX_DIR)/simulated.o: CPPFLAGS += -Itests/unit
$(OBJ)/$(PTX_DIR)/test_simulated: BESIDE := $(SIMULATED_DEVICE)
$(OBJ)/$(PTX_DIR)/test_simulated: $(SIMULATED_DEVICE)
$(PTX)/kernels.ptx: $(CUDA_DIR)/plugin/kernels.cu $(wildcard $(CUDA_DIR)/kernels/*.h) $(wildcard engine/backend/*.h)
	@mkdir -p $(@D)
	@echo "  nvcc $@"
	@$(NVCC) $(filter-out -gencode arch=%,$(CUDA_FLAGS)) -DALL_KERNELS -arch=compute_80 -ptx -o $@ $<
$(PTX)/kernels.o: $(PTX)/kernels.ptx $(PTX_DIR)/translate.py $(wildcard $(PTX_DIR)/*.h)
	@echo "  cc   $(PTX)/kernels.c"
	@python3 $(PTX_DIR)/translate.py $< $(PTX)/kernels.c
	@$(CC) $(CPPFLAGS) -Itests/unit -std=c11 -O1 -Wall -Werror -ffp-contract=off -c -o $@ $(PTX)/kernels.c
$(PTX)/tests/%: $(OBJ)/tests/stand_in/%.o $(OBJ)/tests/stand_in_ptx.o $(SIMULATED_DEVICE) $(PTX)/kernels.o \
                $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CC) -o $@ $(filter %.o,$^) $(LINK_TEST)

# The emulated device as a plugin for the program itself.
EMULATED_PLUGIN := $(BUILD)/emulated/libdeltaq-cuda.so
emulated-plugin: $(EMULATED_PLUGIN)
$(EMULATED_PLUGIN): tests/unit/engine/backend/cuda/emulated_plugin.c $(EMULATED_DEVICE) $(wildcard $(CUDA_DIR)/*.h) \
                    $(CUDA_STAMP)
	@mkdir -p $(@D)
	@echo "  test $@"
	@$(CC) $(CPPFLAGS) $(SAY_SOURCES) -Itests/unit $(CFLAGS) -fPIC -shared -o $@ $(filter %.c %.o,$^) -lm

# The plugin's host code over a runtime and a cuBLAS that write every call down (recorded.h), and libraries that are
# wrong in one way each.
RECORDED      := $(OBJ)/tests/recorded
RECORDED_DIR  := tests/unit/engine/backend/cuda
RECORDED_OBJECTS := $(patsubst %.c,$(OBJ)/%.o,$(wildcard $(CUDA_DIR)/plugin/*.c) $(RECORDED_DIR)/recorded.c)
RECORDED_BLAS := $(addprefix $(RECORDED)/,cu13/libcublas.so.13 cu13/libcublasLt.so.13 cu12/libcublas.so.12 \
                 usual/libcublas.so.11)
RECORDED_PLUGINS := $(foreach wrong,version sources sizes,$(RECORDED)/$(wrong)/libdeltaq-cuda.so)
RECORDED_TESTS := $(addprefix $(OBJ)/$(RECORDED_DIR)/test_,plugin plugin_failures handshake)
$(RECORDED_OBJECTS): CPPFLAGS += -Itests/unit -I$(RECORDED_DIR) -isystem $(RECORDED_DIR)/toolkit $(SAY_SOURCES) \
    '-DGPU_BLAS_PLACES="$(RECORDED)/usual"' '-DPLUGIN_DRIVER_FILE="$(RECORDED)/driver"'
$(RECORDED_OBJECTS): $(CUDA_STAMP)
$(RECORDED_TESTS): CPPFLAGS += -I$(RECORDED_DIR) '-DRECORDED="$(RECORDED)"' $(SAY_SOURCES)
$(RECORDED_TESTS): $(RECORDED_BLAS) $(RECORDED)/lacks/libcublas.so.13 $(RECORDED_PLUGINS)
PLUGIN_TESTS := $(filter %_plugin %_failures,$(RECORDED_TESTS))
$(PLUGIN_TESTS): BESIDE := $(RECORDED_OBJECTS) -rdynamic
$(PLUGIN_TESTS): $(RECORDED_OBJECTS)
RECORDED_LIBRARY = $(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) $(1) -fPIC -shared -o $@ $<
$(RECORDED_BLAS): $(RECORDED_DIR)/recorded_cublas.c $(RECORDED_DIR)/recorded.h
	@mkdir -p $(@D)
	@$(call RECORDED_LIBRARY,) -ldl
$(RECORDED)/lacks/libcublas.so.13: $(RECORDED_DIR)/recorded_cublas.c $(RECORDED_DIR)/recorded.h
	@mkdir -p $(@D)
	@$(call RECORDED_LIBRARY,-DWITHOUT_BATCHES) -ldl
$(RECORDED)/%/libdeltaq-cuda.so: $(RECORDED_DIR)/wrong_plugin.c $(wildcard $(CUDA_DIR)/*.h $(CUDA_DIR)/kernels/*.h) \
                                 $(CUDA_STAMP)
	@mkdir -p $(@D)
	@$(call RECORDED_LIBRARY,$(SAY_SOURCES) -DWRONG_$*)

# The same tests on the first real device, for tests/gpu/check.py: the engine alone. A test that reads memory of the
# device from the host fails over the emulated device first, so no other test is in this list.
GPU_TESTS := $(addprefix $(BUILD)/gpu/tests/gpu/,engine/selftest/device $(EMULATED_TESTS))
ifeq ($(CONFIG),gpu)
$(BUILD)/gpu/tests/gpu/%: $(GPU_SHARED)/tests/stand_in/%.o $(OBJ)/tests/stand_in_gpu.o $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  link $@"
	@$(CC) -o $@ $(filter %.o,$^) $(ENGINE_LIBRARY) $(LDFLAGS) $(GPU_CMOCKA) $(ENGINE_LIBS)
endif
.PHONY: stand-ins
.PRECIOUS: $(OBJ)/tests/stand_in/%.o
stand-ins: $(GPU_TESTS:$(BUILD)/gpu/tests/gpu/%=$(OBJ)/tests/stand_in/%.o)
.PHONY: emulated-plugin gpu-tests gpu-bench check-gpu bench-gpu profile-gpu check-ptx run-ptx
gpu-tests: $(GPU_TESTS)
gpu-bench: $(patsubst %,$(BUILD)/gpu/tests/bench/bench_%,evaluate quantize hvp train products attention)

# The server that tests/http/test_http_raw.py talks to: server/http alone.
$(OBJ)/tests/http/echo_server: tests/http/echo_server.c $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  test $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(LINK_SERVER)

.PHONY: echo-server
echo-server: $(OBJ)/tests/http/echo_server

# --- What it stands on ----------------------------------------------------------------------------------------------
DEBIAN_BUILD := gcc make libc6-dev libmicrohttpd-dev libgnutls28-dev libjansson-dev libpq-dev libpcre2-dev \
                libutf8proc-dev libssl-dev zlib1g-dev libcurl4-openssl-dev libexpat1-dev libsqlite3-dev \
                libopenblas0-pthread postgresql ca-certificates python3 python3-pip
# What a Debian package is made with.
DEBIAN_DEB   := dpkg-dev debhelper fakeroot
DEBIAN_TEST  := libcmocka-dev clang libclang-rt-dev clang-format python3-venv git curl chromium-headless-shell \
                nodejs procps
PYPI_TEST    := pytest==8.4.2 jsonschema==4.23.0 pyyaml==6.0.2 numpy==2.1.3 safetensors==0.5.2 tokenizers==0.21.0 \
                pyarrow==18.1.0 schemathesis==4.32.5 hypothesis==6.170.15 openapi-python-client==0.29.1 pyflakes==4.1.0
VENV         := $(BUILD)/venv
PYTHON       := $(VENV)/bin/python

.PHONY: bench-backend bench-tangent deps deps-build venv static serve demo study study-text study-publish install \
                      uninstall lint check check-all check-unit check-asan check-tsan check-emulated check-http \
                      check-fresh check-upgrade check-deb check-units check-images check-kubernetes check-slurm \
                      check-cluster check-radosgw bench chaos fuzz

deps-build: ## Install what building and running need (Debian packages)
	@sh tests/tools/packages.sh "building and running deltaq" $(DEBIAN_BUILD)

.PHONY: packages
packages:
	@sh tests/tools/packages.sh "building, running and testing deltaq" $(DEBIAN_BUILD) $(DEBIAN_TEST)

deps: packages ## Install what building, running and testing need (Debian packages; packages of PyPI in build/venv)
	@$(MAKE) --no-print-directory venv static axe

# Python compiles what is imported, a small part of what pip installs.
venv:
	@[ "$$(cat $(VENV)/.made 2>/dev/null)" = "$(PYPI_TEST)" ] || { echo "  venv $(VENV)"; python3 -m venv $(VENV) && \
	    $(VENV)/bin/pip install -q --no-compile --disable-pip-version-check $(PYPI_TEST) && \
	    echo "$(PYPI_TEST)" >$(VENV)/.made || \
	    { echo "the tests need these packages, and pip could not install them into $(VENV)" \
	           "(its reason is above): $(PYPI_TEST)" >&2; exit 1; }; }

# The trackers that `deltaq track` writes for: about 1 GB, so `make check` skips their tests where they are not.
TRACKERS := $(BUILD)/trackers
.PHONY: trackers
trackers: ## Install TensorBoard, MLflow and W&B for the tests of `deltaq track` (build/trackers, about 1 GB)
	@cmp -s tests/trackers/requirements.txt $(TRACKERS)/.made || { \
	    echo "  venv $(TRACKERS)"; python3 -m venv $(TRACKERS) && \
	    $(TRACKERS)/bin/pip install -q --disable-pip-version-check -r tests/trackers/requirements.txt && \
	    cp tests/trackers/requirements.txt $(TRACKERS)/.made; }

# The S3 server that the tests of buckets talk to; `make check` skips them where it is not.
OBJECTS := $(BUILD)/objects
.PHONY: objects
objects: ## Install moto, an S3 server, for the tests of buckets (build/objects, about 300 MB)
	@cmp -s tests/objects/requirements.txt $(OBJECTS)/.made || { \
	    echo "  venv $(OBJECTS)"; python3 -m venv $(OBJECTS) && \
	    $(OBJECTS)/bin/pip install -q --disable-pip-version-check -r tests/objects/requirements.txt && \
	    cp tests/objects/requirements.txt $(OBJECTS)/.made; }

# Plotly comes out of Debian's package and is served, not committed: cut down to what the dashboard draws, and made
# small by esbuild, a program of its own. Unpacking the two packages installs nothing. Swagger UI, for the page of the
# API, comes as it is out of a package of PyPI, whose bytes swagger_ui.txt names; that page says where it is missing.
FETCHED := plotly.js swagger-ui.js swagger-ui.css swagger-ui-bundle.js.LICENSE.txt
static: $(BUILD)/static/plotly.js $(BUILD)/static/swagger-ui.js ## Fetch Plotly.js and Swagger UI for the dashboard
	@:
SWAGGER := $(BUILD)/wheel/drf_spectacular_sidecar/static/drf_spectacular_sidecar/swagger-ui-dist
$(BUILD)/static/swagger-ui.js: tests/tools/swagger_ui.txt
	@mkdir -p $(BUILD)/static && rm -rf $(BUILD)/wheel
	@if python3 -m pip download -q --disable-pip-version-check --retries 1 --no-deps --require-hashes -r $< \
	    -d $(BUILD)/wheel && cd $(BUILD)/wheel && python3 -m zipfile -e *.whl . ; then :; else \
	    echo "no Swagger UI for the page of the API: pip (Debian's python3-pip) could not download it, for the reason" \
	         "above. Everything else works without it." >&2; fi
	@if [ -d $(SWAGGER) ]; then cd $(SWAGGER) && sed -i '/sourceMappingURL=/d' swagger-ui.css && \
	    cp swagger-ui.css *.js.LICENSE.txt $(abspath $(BUILD)/static) && \
	    cp swagger-ui-bundle.js $(abspath $(BUILD)/static)/swagger-ui.js; fi
	@rm -rf $(BUILD)/wheel
# axe-core, which looks for what hinders people on the dashboard's pages, out of a package of PyPI whose bytes axe.txt
# names; the tests that run it say where it is missing. It is not served.
.PHONY: axe
axe: $(BUILD)/axe/axe.min.js ## Fetch axe-core for the accessibility tests of the dashboard
	@:
$(BUILD)/axe/axe.min.js: tests/tools/axe.txt
	@mkdir -p $(BUILD)/axe
	@if python3 -m pip download -q --disable-pip-version-check --retries 1 --no-deps --require-hashes -r $< \
	    -d $(BUILD)/axe && cd $(BUILD)/axe && python3 -m zipfile -e *.whl . && \
	    mv axe_playwright_python/axe.min.js . && touch axe.min.js ; then :; else \
	    echo "no axe-core: pip could not download it, for the reason above; the tests that run it will be skipped" >&2; fi
	@rm -rf $(BUILD)/axe/*.whl $(BUILD)/axe/axe_playwright_python*
$(BUILD)/static/plotly.js: tests/tools/plotly_part.py
	@mkdir -p $(BUILD)/static && rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb
	@cd $(BUILD)/deb && apt-get -o APT::Sandbox::User=$$(id -un) download -qq python3-plotly esbuild || { \
	    echo "the dashboard's plots need Plotly.js out of Debian's package python3-plotly, and esbuild," \
	         "and apt-get could not download them (its reason is above): is there a network?" \
	         "Try \`apt-get update\` as root." >&2; exit 1; }
	@for package in $(BUILD)/deb/*.deb; do dpkg-deb -x $$package $(BUILD)/deb/files || exit 1; done
	@python3 tests/tools/plotly_part.py $(BUILD)/deb/files/usr/share/python3-plotly/plotly.js $(BUILD)/deb/part.js
	@$(BUILD)/deb/files/usr/bin/esbuild $(BUILD)/deb/part.js --minify --legal-comments=inline --log-level=warning \
	    --outfile=$(BUILD)/deb/small.js
	@mv $(BUILD)/deb/small.js $@
	@rm -rf $(BUILD)/deb

# --- Checks ---------------------------------------------------------------------------------------------------------
# Under the sanitizers: in `check` the parsers, each by its fuzzer, with the same FUZZ_RUNS inputs each time; in
# `check-all` all unit tests, the kernels' with the defaults of both compilers (GCC 14 looks for uses of a stack frame
# after its return, GCC 12 does not).
FUZZ_RUNS     := 5000
REPLAY        = sh -c 'rm -rf \$$0; mkdir -p \$$0; exec \$$@' $(BUILD)/fuzz/replayed/$(1) $(BUILD)/fuzz/$(1) \
                -runs=$(FUZZ_RUNS) -seed=1 -timeout=60 -max_len=4096 -dict=tests/fuzz/formats.dict \
                -artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/replayed/$(1) tests/fuzz/corpus/$(1)
ASAN_UNIT     = $(UNIT_SOURCES:%.c=$(BUILD)/asan/%)
ASAN_KERNELS  = $(filter $(BUILD)/asan/tests/unit/engine/backend/%,$(ASAN_UNIT))
# What has threads, locks, or files that several processes share; quick ones, for check-all. All: make check-tsan.
TSAN_CHECKED  = $(addprefix $(BUILD)/tsan/tests/unit/,engine/base/test_team $(addprefix server/,\
                follow/test_delivery http/test_token_backoff hub/test_hub_cache hub/test_transfer inputs/test_hash \
                launch/test_slurm objects/test_credentials objects/test_credentials_role pool/test_drain \
                pool/test_gate))
TSAN_SERVER   = env DELTAQ_BINARY=$(CURDIR)/$(BUILD)/tsan/deltaq $(PYTHON) -m pytest -q tests/http/test_mixed_load.py
ASAN_AS_GCC14 := ASAN_OPTIONS=detect_stack_use_after_return=1
ASAN_AS_GCC12 := ASAN_OPTIONS=detect_stack_use_after_return=0
FUZZERS       := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
BENCH_BINARIES := $(patsubst %.c,$(OBJ)/%,$(wildcard tests/bench/*.c))
# What needs no container of tests/images.
KUBERNETES    = $(BUILD)/images/venv/bin/python -m pytest -q -rs -p no:cacheprovider tests/images/test_kubernetes.py \
                -k 'not run_as_they_are_written'
# What `check` leaves to check-all, to stay within ten minutes on two cores: suites that cost much, or wait long, and
# seldom see what no other suite sees.
LONG_SUITES   := $(addprefix tests/,faults/test_memory.py faults/test_two_workers.py gpu/test_bench.py \
                 $(addprefix dashboard/test_,accessibility.py boards.py changing.py evaluations.py figures.py \
                 geometry.py large.py orders.py paper.py points.py) \
                 $(addprefix http/test_,accept.py archive.py backup.py cuda_device.py generated.py generated_client.py \
                 hub.py memcheck.py nodes.py products.py renewal.py server_memory.py service_metrics.py) \
                 $(addprefix pool/test_,chaos.py cluster.py fleet.py outages.py) study/test_open.py \
                 study/test_study.py)
LONG_UNIT     := $(addprefix $(OBJ)/tests/unit/engine/,eval/test_ratio jobs/test_plans \
                 jobs/sharpness/test_sampling)
CHECKED       = $(filter-out $(LONG_SUITES),$(wildcard $(patsubst %,tests/%/test_*.py,\
                pool faults http docs dashboard study demo golden gpu lint mutants)))
AGAIN         = +@$(MAKE) --no-print-directory -s -j$(JOBS)
WITHIN        = +@$(MAKE) --no-print-directory

golden: all venv ## Record the golden numbers of this build, after ENGINE_REVISION was raised and CHANGELOG.md names \
    the change
	@$(PYTHON) tests/golden/golden.py --write

lint: ## Check the tree's own rules: layers, headers, names, SQL, NULL, columns, words, formatting
	@python3 tests/lint/lint.py

# The targets behind `packages` are of another make: what it installs decides what this one would have found when it
# began. That make has pip at work beside the compiler.
JOBS ?= $(shell nproc)
check: packages ## Install what is missing, build everything, run the tests; ends with "N passed, N failed, N skipped"
	$(AGAIN) run-check

check-all: deps trackers objects images-venv ## Run the long suites that `make check` leaves out: all sanitized and \
    emulated suites, PTX, chaos, the demo's finding (UNTIL=seconds since 1970: what has not ended by then is skipped)
	$(AGAIN) run-check-all

.PHONY: run-check run-check-all builds
run-check:
	$(WITHIN) venv axe builds unit-binaries
	@$(PYTHON) tests/run.py --together lint="python3 tests/lint/lint.py" \
	    bench="$(PYTHON) tests/bench/run.py --build $(BUILD) --tiny" \
	    bench-methods="$(PYTHON) tests/bench/methods.py --build $(BUILD) --tiny" \
	    bench-growth="$(PYTHON) tests/bench/growth.py --build $(BUILD) --tiny" \
	    bench-throughput="$(PYTHON) tests/bench/throughput.py --build $(BUILD) --shape tiny-llama --checkpoints 2 \
	        --recipes 2 --calibration 2 --evaluation 2 --length 32" \
	    $(foreach name,$(FUZZERS),fuzz-$(name)="$(call REPLAY,$(name))") \
	    $(CHECKED) $(filter-out $(LONG_UNIT),$(UNIT_BINARIES)) $(EMULATED_BINARIES)

run-check-all:
	$(WITHIN) all unit-binaries pool-tools emulated-plugin $(filter $(BUILD)/release/%,$(EMULATED_ALL)) \
	    $(if $(NVCC),$(PTX_TESTS))
	$(WITHIN) CONFIG=asan unit-binaries $(filter $(BUILD)/asan/%,$(EMULATED_ALL)) $(TORTURE)
	$(WITHIN) CONFIG=tsan $(TSAN_CHECKED) $(BUILD)/tsan/deltaq
	@$(ASAN_AS_GCC12) DELTAQ_LONG=1 DELTAQ_CHAOS_JOBS=600 DELTAQ_EXAMPLES=3 \
	    $(PYTHON) tests/run.py --seconds 3000 $(UNTIL:%=--until %) \
	    $(if $(NVCC),ptx="$(MAKE) --no-print-directory run-ptx") torture="$(TORTURE) --most 8" \
	    kubernetes="$(KUBERNETES)" \
	    tsan-server="$(TSAN_SERVER)" \
	    $(foreach suite,$(ASAN_KERNELS),gcc14-$(notdir $(suite))="env $(ASAN_AS_GCC14) $(suite)") \
	    $(LONG_SUITES) $(wildcard $(addprefix tests/,demo/test_demo.py http/test_track.py http/test_objects.py \
	        http/test_object_artifacts.py http/test_object_roles.py slurm/test_slurm.py cluster/test_sweep.py)) \
	    $(ASAN_UNIT) $(TSAN_CHECKED) $(LONG_UNIT) $(EMULATED_ALL)

mutants: deps ## Break the source in each way of a table and see that the tests notice: what changed since the \
    verdicts that are kept (ARGUMENTS=, all, takes hours; see tests/mutants/run.py)
	$(AGAIN) run-mutants

.PHONY: mutants run-mutants golden
run-mutants: ARGUMENTS ?= --results tests/mutants/verdicts.jsonl
run-mutants: all static unit-binaries pool-tools echo-server emulated-plugin objects
	@$(PYTHON) tests/mutants/run.py $(ARGUMENTS)

# All that `make help` lists is compiled by `make check`, run or not; the torture links only with the sanitizers.
TORTURE_OBJECTS = $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/torture/*.c))
builds: all static echo-server pool-tools stand-ins emulated-plugin $(BENCH_BINARIES) $(FUZZERS:%=$(BUILD)/fuzz/%) \
    $(TORTURE_OBJECTS)
	$(WITHIN) CONFIG=gpu gpu-tests gpu-bench

.PHONY: unit-binaries
unit-binaries: $(UNIT_BINARIES) $(if $(filter release,$(CONFIG)),$(EMULATED_BINARIES))

# --- Fuzzing: each parser for FUZZ_SECONDS under libFuzzer, from the corpus that the unit tests replay --------------
FUZZ_SECONDS ?= 60
FUZZED       := $(foreach room,base tensor files formats/gguf formats/pytorch formats/safetensors weights tokenizer,\
                $(wildcard engine/$(room)/*.c)) $(wildcard server/schema/*.c) $(addprefix server/,\
                $(addprefix http/,accept.c byte_range.c cors.c encoding.c head_guard.c json_answer.c json_body.c) \
                $(addprefix http/,lint.c problem.c request.c router.c) json/small_number.c json/tree_cost.c \
                json/written.c launch/slurm.c launch/template.c objects/answer_xml.c objects/objects_place.c \
                postgres/value.c runs/requirements.c transfer/escape.c transfer/transfer_head.c)
FUZZED_LIBRARY := $(BUILD)/fuzz/libfuzzed.a

fuzz: $(FUZZERS:%=fuzz-%) ## Fuzz each parser for FUZZ_SECONDS (needs clang); `make fuzz-gguf` one of them

.PHONY: $(FUZZERS:%=fuzz-%)
$(FUZZERS:%=fuzz-%): fuzz-%: $(BUILD)/fuzz/%
	@mkdir -p $(BUILD)/fuzz/corpus/$*
	@$< -max_total_time=$(FUZZ_SECONDS) -timeout=5 -rss_limit_mb=1024 -max_len=4096 \
	    -dict=tests/fuzz/formats.dict -print_final_stats=1 -artifact_prefix=$(BUILD)/fuzz/ \
	    $(BUILD)/fuzz/corpus/$* tests/fuzz/corpus/$*

FUZZ_FLAGS := -std=c11 -O1 -gline-tables-only -fopenmp-simd \
              -ffp-contract=off -fno-sanitize-recover=all -Wno-pass-failed -pthread
$(FUZZED_LIBRARY): $(FUZZED:%.c=$(BUILD)/fuzz/%.o)
	@rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/fuzz/%: tests/fuzz/fuzz_%.c $(FUZZED_LIBRARY)
	@mkdir -p $(@D)
	@echo "  fuzz $<"
	@clang $(CPPFLAGS) -Itests/unit $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -MMD -MP -MF $@.d \
	    -o $@ $< $(FUZZED_LIBRARY) $(SERVER_LIBS) $(ENGINE_LIBS)

$(BUILD)/fuzz/%.o: %.c | toolchain
	@mkdir -p $(@D)
	@echo "  fuzz $<"
	@clang $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,address,undefined -MMD -MP -c -o $@ $<

# --- Torture: each call that may fail does, in turn (tests/torture) -------------------------------------------------
TORTURE := build/asan/tests/torture/torture
.PHONY: torture
torture: ## Make each allocation, read, write, fsync, open, rename and statement fail in turn, sanitized (long; \
    ARGUMENTS: see tests/torture/torture.c)
	@$(MAKE) --no-print-directory -s -j$(JOBS) CONFIG=asan $(TORTURE)
	@$(TORTURE) $(ARGUMENTS)

# The functions that tests/torture/faults.c puts in the place of others.
$(TORTURE_OBJECTS): CPPFLAGS += -Itests/unit -Itests/torture
$(OBJ)/tests/torture/torture: $(TORTURE_OBJECTS) $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@echo "  test $@"
	@$(CC) $(CFLAGS) -o $@ $(TORTURE_OBJECTS) \
	    $$(nm $(OBJ)/tests/torture/faults.o | sed -n 's/.* T __wrap_/-Wl,--wrap=/p') $(LINK_TEST)

# --- Measurements ---------------------------------------------------------------------------------------------------
$(OBJ)/tests/bench/%: tests/bench/%.c $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  bench $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(ENGINE_LIBRARY) $(LDFLAGS) $(ENGINE_LIBS)

# Statements of the queue alone: it needs the server's rooms. tests/pool runs it in small.
$(OBJ)/tests/bench/queue_scale: tests/bench/queue_scale.c $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	@echo "  bench $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(LINK_SERVER)

check-unit: $(UNIT_BINARIES) ## Run the C unit tests
	@python3 tests/run.py $(UNIT_BINARIES)

check-asan: ## Run the C unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory CONFIG=asan check-unit

check-emulated: ## Run every test of the CUDA backend over an emulated device, plain and under AddressSanitizer
	@$(MAKE) --no-print-directory -s -j$(JOBS) $(filter $(BUILD)/release/%,$(EMULATED_ALL))
	@$(MAKE) --no-print-directory -s -j$(JOBS) CONFIG=asan $(filter $(BUILD)/asan/%,$(EMULATED_ALL))
	@python3 tests/run.py $(EMULATED_ALL)

check-slurm: all venv ## Run the launcher on a real Slurm of three nodes on this host (needs root, munge, slurmctld, \
    slurmd and slurm-client)
	@$(PYTHON) tests/run.py tests/slurm

check-cluster: all venv objects ## Run a sweep on a server, Slurm, a second host and a bucket at once, while nodes are \
    killed, drained and preempted (needs what check-slurm needs, and iproute2)
	@$(PYTHON) tests/run.py tests/cluster

check-radosgw: all venv objects ## Run buckets and roles against Ceph's gateway, in memory on this host (needs \
    ceph-mon, ceph-osd, ceph-common and radosgw)
	@$(PYTHON) tests/run.py tests/radosgw

check-ptx: $(if $(NVCC),run-ptx) ## Run the tests of the CUDA backend over the PTX of its kernels, without a GPU: \
    races, barriers, addresses (needs nvcc)
	@$(if $(NVCC),:,echo "check-ptx: skipped, there is no nvcc here")

# Five minutes on one core. A kernel that no test ran is a failure, too.
run-ptx: $(PTX_TESTS)
	@rm -f $(PTX)/launched
	@PTX_LAUNCHED=$(PTX)/launched python3 tests/run.py $(PTX_TESTS)
	@sed -n 's/^\[KERNEL_\([a-z0-9_]*\)\].*/\1/p' $(PTX)/kernels.c | sort > $(PTX)/kernels
	@sort -u $(PTX)/launched | comm -13 - $(PTX)/kernels | sed 's/^/no test runs the kernel /' | tee $(PTX)/missed
	@echo "$$(sort -u $(PTX)/launched | wc -l) of $$(wc -l < $(PTX)/kernels) kernels ran"; test ! -s $(PTX)/missed

check-gpu: ## Hold the first CUDA device to the CPU: every primitive, whole models, the same bits twice, \
    compute-sanitizer
	@python3 tests/gpu/check.py

bench-gpu: ## Time the first CUDA device beside plain PyTorch on it (ARGUMENTS=--products: its rates of products; \
    others: see tests/gpu/bench.py)
	@python3 tests/gpu/bench.py $(ARGUMENTS)

profile-gpu: ## Measure each kernel of a program of bench-gpu with Nsight Compute (ARGUMENTS: see \
    tests/gpu/profile_kernels.py)
	@python3 tests/gpu/profile_kernels.py $(ARGUMENTS)

# aarch64 without such a machine: a cross compiler, and qemu that runs its programs (docs/arm.md).
ARM           := aarch64-linux-gnu
ARM_BUILD     := build/$(ARM)
ARM_EMULATOR  := qemu-aarch64-static -cpu max -L $(ARM_BUILD)/sysroot
ARM_PACKAGES  := libcmocka-dev $(filter lib% zlib%,$(DEBIAN_BUILD))
ARM_MISSING   := $(foreach tool,$(ARM)-gcc qemu-aarch64-static,$(if $(shell command -v $(tool)),,$(tool))) \
                 $(if $(wildcard $(ARM_BUILD)/sysroot/.made),,$(ARM_BUILD)/sysroot)
ARM_SKIPPED    = check-arm: skipped: $(strip $(ARM_MISSING)) is missing; `make arm-deps` installs or makes it
ARM_BITS      := $(addprefix engine/backend/test_,cpu_rows cpu_attention cpu_scan tangent_cpu xielu experts \
                 cpu_products cpu_codes cpu_inputs)
.PHONY: arm-deps check-arm run-check-arm
arm-deps: ## Install a cross compiler for aarch64 and an emulator, and unpack the libraries of that below build
	@sh tests/tools/packages.sh "building and testing for aarch64" gcc-$(ARM) qemu-user-static
	@sh tests/arm/sysroot.sh $(ARM_BUILD)/sysroot arm64 $(ARM_PACKAGES)

check-arm: ## Build for aarch64 and run the C unit tests under qemu, some of them bit for bit beside x86-64 (after \
    `make arm-deps`; long)
	@$(if $(strip $(ARM_MISSING)),echo '$(ARM_SKIPPED)',$(MAKE) --no-print-directory run-check-arm)

run-check-arm: $(ARM_BITS:%=$(OBJ)/tests/unit/%)
	$(AGAIN) CROSS=$(ARM) all $(UNIT_SOURCES:%.c=$(ARM_BUILD)/release/%)
	@python3 tests/run.py --seconds 5400 --under "$(ARM_EMULATOR)" \
	    bits="python3 tests/arm/bits.py $(OBJ) $(ARM_BUILD)/release '$(ARM_EMULATOR)' $(ARM_BITS)" \
	    $(UNIT_SOURCES:%.c=$(ARM_BUILD)/release/%)

check-tsan: venv ## Run the C unit tests, and a mixed load on a whole server, under ThreadSanitizer
	@$(MAKE) --no-print-directory CONFIG=tsan check-unit $(BUILD)/tsan/deltaq
	@$(PYTHON) tests/run.py tsan-server="$(TSAN_SERVER)"

CHAOS_JOBS ?= 24000
chaos: venv pool-tools ## Kill and stop workers at random over CHAOS_JOBS runs (about 10,000 kills in about \
    85 minutes; DELTAQ_CHAOS_SEED repeats one)
	@DELTAQ_CHAOS_JOBS=$(CHAOS_JOBS) $(PYTHON) -m pytest -q -s tests/pool/test_chaos.py -k "doubled and plain"

check-http: all venv static echo-server emulated-plugin ## Run the tests of the HTTP interface
	@$(PYTHON) tests/run.py tests/http

check-fresh: ## Prove the README on a minimal Debian 12 made by debootstrap (as root; SUITE=trixie for Debian 13)
	@tests/fresh/run.sh $(SUITE)

check-upgrade: ## Move a server's database from Debian 12's PostgreSQL to Debian 13's, both made by debootstrap (root)
	@tests/fresh/upgrade.sh

check-deb: ## Make the Debian package on a bare Debian and install, use, remove and purge it on another (as root; \
    SUITE=trixie for Debian 13)
	@tests/fresh/check_deb.sh $(SUITE)

check-units: all venv static ## Boot systemd on a minimal Debian in a container and hold the three units to what they \
    promise (as root; needs systemd-container; SUITE=trixie for Debian 13)
	@tests/fresh/units.sh $(SUITE)

check-images: all venv ## Build the image without Docker (buildah), run it, and run the objects of deploy/kubernetes \
    in it (as root)
	$(WITHIN) images-venv
	@$(BUILD)/images/venv/bin/python -m pytest -q -rs -p no:cacheprovider tests/images

check-kubernetes: all images-venv ## Hold the objects of deploy/kubernetes to the schemas of Kubernetes' versions
	@$(KUBERNETES)

.PHONY: images-venv
images-venv:
	@cmp -s tests/images/requirements.txt $(BUILD)/images/.made || { echo "  venv $(BUILD)/images/venv"; \
	    python3 -m venv $(BUILD)/images/venv && $(BUILD)/images/venv/bin/pip install -q --disable-pip-version-check \
	    -r tests/images/requirements.txt && cp tests/images/requirements.txt $(BUILD)/images/.made; }

# --- Running --------------------------------------------------------------------------------------------------------
serve: all static ## Run the server on http://127.0.0.1:8642
	$(BINARY) serve

demo: ## Install what is missing, train small models, quantize their checkpoints, show the curves; leaves the server \
    running
	@sh tests/tools/packages.sh "building and running deltaq, and the demo," $(DEBIAN_BUILD)
	$(AGAIN) run-demo

demo-stop: ## Stop the demo's server
	@python3 tests/demo/demo.py --stop --directory $(BUILD)/demo

.PHONY: demo demo-stop run-demo
run-demo: all static
	@python3 tests/demo/demo.py --binary $(BINARY) --directory $(BUILD)/demo $(DEMO_OPTIONS)

STUDY_BUDGET ?= 1h
STUDY_PLAN   ?= paper
STUDY_OF      = study$(if $(filter-out paper,$(STUDY_PLAN)),-$(STUDY_PLAN))
study: all study-text ## Replicate the paper in small in a given time (STUDY_BUDGET=20m|1h|3h|6h|24h), or ask what it \
    leaves open (STUDY_PLAN=open); stop and start it at will
	@STUDY_BUDGET=$(STUDY_BUDGET) STUDY_PLAN=$(STUDY_PLAN) STUDY_TEXT=$(BUILD)/study/corpus \
	    python3 tests/study/study.py $(BINARY) $(BUILD)/$(STUDY_OF)

study-text: ## Fetch the study's text: Debian packages of 160 MB, unpacked below build/ and not installed
	@python3 tests/study/corpus.py $(BUILD)/study/corpus

study-publish: ## Copy the report, tables and figures of a plan's study to docs/study (STUDY_PLAN=open: study-open)
	@python3 tests/study/published.py $(BUILD)/$(STUDY_OF) docs/$(STUDY_OF)

PREFIX ?= /usr/local
PLACE   = $(DESTDIR)$(PREFIX)
SHARE   = $(PLACE)/share/deltaq
UNITS   = deltaq.service deltaq-worker.service deltaq-launcher.service
COMPLETIONS = bash-completion/completions/deltaq zsh/site-functions/_deltaq
COMMANDS_WITH_PAGES = $(shell $(BINARY) complete -- "" 2>/dev/null)
STRIP   = -s
# The day of the manual's pages is that of the commit.
DATED   = SOURCE_DATE_EPOCH=$(or $(SOURCE_DATE_EPOCH),$(if $(COMMIT),$(shell git log -1 --format=%ct 2>/dev/null)))
install: all static ## Install the binary, its manual, the dashboard and systemd's units below PREFIX (/usr/local)
	install -D $(STRIP) -m 755 $(BINARY) $(PLACE)/bin/deltaq
	$(if $(NVCC),install -D -m 755 $(CUDA_PLUGIN) $(PLACE)/lib/deltaq/$(notdir $(CUDA_PLUGIN)))
	install -d $(SHARE)/static $(PLACE)/share/man/man1 $(PLACE)/lib/systemd/system $(PLACE)/lib/sysusers.d
	install -m 644 static/* $(BUILD)/static/* $(SHARE)/static/
	install -m 644 openapi.yaml LICENSE $(SHARE)/
	$(DATED) $(BINARY) manual > $(PLACE)/share/man/man1/deltaq.1
	for command in $(COMMANDS_WITH_PAGES); do \
	    $(DATED) $(BINARY) manual $$command > $(PLACE)/share/man/man1/deltaq-$$command.1 || exit 1; done
	for unit in $(UNITS); do sed -e 's|@PREFIX@|$(PREFIX)|' -e '/@SANDBOX@/{r deploy/systemd/sandbox.conf' -e 'd}' \
	    deploy/systemd/$$unit.in > $(PLACE)/lib/systemd/system/$$unit || exit 1; done
	install -m 644 deploy/systemd/sysusers.conf $(PLACE)/lib/sysusers.d/deltaq.conf
	install -d $(addprefix $(PLACE)/share/,$(dir $(COMPLETIONS)))
	$(BINARY) completion bash > $(PLACE)/share/$(word 1,$(COMPLETIONS))
	$(BINARY) completion zsh > $(PLACE)/share/$(word 2,$(COMPLETIONS))

# File by file: with PREFIX=~/.local the data directory of a server is share/deltaq, too.
uninstall: ## Remove what `make install` put below PREFIX, and nothing else
	rm -f $(PLACE)/bin/deltaq $(PLACE)/lib/deltaq/$(notdir $(CUDA_PLUGIN)) \
	    $(PLACE)/share/man/man1/deltaq.1 $(PLACE)/share/man/man1/deltaq-*.1 \
	    $(addprefix $(PLACE)/lib/systemd/system/,$(UNITS)) $(PLACE)/lib/sysusers.d/deltaq.conf \
	    $(addprefix $(PLACE)/share/,$(COMPLETIONS)) \
	    $(addprefix $(SHARE)/,openapi.yaml LICENSE $(wildcard static/*) $(addprefix static/,$(FETCHED)))
	@for directory in $(SHARE)/static $(SHARE) $(PLACE)/lib/deltaq; do rmdir $$directory 2>/dev/null || :; done

DEB_BUILD = MAINTAINER='$(MAINTAINER)' COMMIT='$(COMMIT)' sh deploy/debian/build.sh $(BUILD)
.PHONY: deps-deb deb deb-cuda
deps-deb: ## Install what making Debian packages needs
	@sh tests/tools/packages.sh "making Debian packages" $(DEBIAN_BUILD) $(DEBIAN_DEB)

deb: deps-deb static ## Make the Debian package for this Debian in build/debian, and the CUDA plugin's where nvcc is
	@$(DEB_BUILD) '$(if $(NVCC),pkg.deltaq.cuda)' $(DEBIAN_BUILD)

deb-cuda: deps-deb static ## Make the CUDA plugin's Debian package alone (needs nvcc)
	@$(if $(NVCC),$(DEB_BUILD) pkg.deltaq.onlycuda $(DEBIAN_BUILD),echo "no nvcc here" >&2; exit 1)

# The libraries that ours are measured beside. GPTQModel and llm-compressor want different versions of the same
# packages.
PEERS := $(BUILD)/peers
.PHONY: interop-peers bench-peers
interop-peers: ## Install the libraries that `make check-interop` loads exports with (several gigabytes), in build/peers
	python3 -m venv $(PEERS)/main
	$(PEERS)/main/bin/pip install -q numpy safetensors torch transformers
	BUILD_CUDA_EXT=0 $(PEERS)/main/bin/pip install -q --no-build-isolation gptqmodel==7.7.0
	$(PEERS)/main/bin/pip install -q --no-deps pyhessian optimum gguf bitsandbytes
	python3 -m venv $(PEERS)/compressor
	$(PEERS)/compressor/bin/pip install -q numpy safetensors llmcompressor

bench-peers: interop-peers ## Install the libraries that `make bench` measures beside ours: those and lm-eval
	python3 -m venv $(PEERS)/harness
	$(PEERS)/harness/bin/pip install -q numpy safetensors torch "lm-eval[hf]==0.4.13"
	python3 -m venv $(PEERS)/awq
	$(PEERS)/awq/bin/pip install -q numpy safetensors torch autoawq==0.2.9 transformers==4.51.3 \
	    datasets==3.6.0 accelerate==1.6.0

.PHONY: check-interop
check-interop: all ## Load what exports write with Transformers, GPTQModel and compressed-tensors and compare logits \
    (installs them first)
	@[ -x $(PEERS)/main/bin/python ] && [ -x $(PEERS)/compressor/bin/python ] || $(MAKE) --no-print-directory interop-peers
	@$(PEERS)/main/bin/python tests/interop/run.py --build $(BUILD) --peers $(PEERS)/main/bin/python \
	    --peers-compressor $(PEERS)/compressor/bin/python $(INTEROP_OPTIONS)

bench: all venv $(BENCH_BINARIES) ## Time our work beside PyTorch, GPTQModel, llm-compressor and lm-eval (after \
    `make bench-peers`); prints ratios
	@$(PYTHON) tests/bench/run.py --build $(BUILD) \
	    $(if $(wildcard $(PEERS)/main/bin/python),--peers $(PEERS)/main/bin/python) \
	    $(if $(wildcard $(PEERS)/compressor/bin/python),--peers-compressor $(PEERS)/compressor/bin/python) \
	    $(if $(wildcard $(PEERS)/harness/bin/python),--peers-harness $(PEERS)/harness/bin/python) $(BENCH_OPTIONS)
	@$(MAKE) --no-print-directory bench-methods

.PHONY: bench-growth bench-throughput
bench-growth: venv $(BENCH_BINARIES) ## Measure how the time of runs grows with width, depth, tokens and recipes \
    (GROWTH_OPTIONS, tests/bench/growth.py --help)
	@$(PYTHON) tests/bench/growth.py --build $(BUILD) $(GROWTH_OPTIONS)

bench-throughput: all venv $(BENCH_BINARIES) ## Measure a trajectory by one sweep, and by a loop of GPTQModel after \
    `make bench-peers` (THROUGHPUT_OPTIONS, tests/bench/throughput.py --help)
	@$(PYTHON) tests/bench/throughput.py --build $(BUILD) \
	    $(if $(wildcard $(PEERS)/main/bin/python),--peers $(PEERS)/main/bin/python) $(THROUGHPUT_OPTIONS)

.PHONY: bench-methods
bench-methods: venv $(OBJ)/tests/bench/bench_methods ## Compare quantized losses with bitsandbytes, AutoAWQ, \
    llm-compressor and GPTQModel (after `make bench-peers`)
	@$(PYTHON) tests/bench/methods.py --build $(BUILD) \
	    $(if $(wildcard $(PEERS)/main/bin/python),--peers $(PEERS)/main/bin/python) \
	    $(if $(wildcard $(PEERS)/compressor/bin/python),--peers-compressor $(PEERS)/compressor/bin/python) \
	    $(if $(wildcard $(PEERS)/awq/bin/python),--peers-awq $(PEERS)/awq/bin/python) $(METHODS_OPTIONS)

bench-backend: $(OBJ)/tests/bench/bench_backend ## Time the CPU backend against this machine's limits
	$<

bench-tangent: $(OBJ)/tests/bench/bench_tangent ## Time the passes of a Hessian-vector product against those of a \
    gradient
	$<

# For clangd and its like: what each source is compiled with.
COMPILED = $(CC) $(CPPFLAGS) $(CFLAGS) $(1) -c %s
COMPILED_LEVEL = -DKERNEL_LEVEL=$(word 2,$(LEVELS)) $(LEVEL_$(word 2,$(LEVELS)))
COMMAND = printf '%s\n{"directory": "$(CURDIR)", "file": "%s", "command": "$(COMPILED)"}' \
          "$$sep" "$$file" "$$file"; sep=,
.PHONY: compile_commands.json
compile_commands.json: ## Write compile_commands.json for editors
	@{ sep='['; \
	  for file in $(filter-out $(REFERENCE_SOURCES) $(KERNEL_SOURCES),$(ENGINE_SOURCES)) $(SERVER_SOURCES); do \
	      $(call COMMAND,); done; \
	  for file in $(UNIT_SOURCES); do $(call COMMAND,-Itests/unit); done; \
	  for file in $(REFERENCE_SOURCES); do $(call COMMAND,-Dreal=float); done; \
	  for file in $(KERNEL_SOURCES); do $(call COMMAND,$(COMPILED_LEVEL)); done; echo ']'; } > $@

format: ## Rewrite the C sources with clang-format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean: ## Remove everything that was built
	rm -rf $(BUILD)

help: ## List the targets
	@sed -E ':join; /\\$$/ { N; s/ *\\\n[ \t]*/ /; t join }' $(firstword $(MAKEFILE_LIST)) | \
	    grep -E '^[a-z_.-]+:.*## ' | sed -E 's/:.*## /\t/' | expand -t 18

# A compiler writes them. Without a rule of their own, make would link them from a .d.o that it can make.
%.d: ;
-include $(shell find $(OBJ) $(BUILD)/fuzz -name '*.d' ! -name '*.d.d' 2>/dev/null)
