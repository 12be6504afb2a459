# deltaq: `make help` lists the targets.

CONFIG    ?= release
BUILD     ?= build
OBJ       := $(BUILD)/$(CONFIG)
BINARY    := $(BUILD)/$(if $(filter release,$(CONFIG)),,$(CONFIG)/)deltaq

# What each flag is for: see ARCHITECTURE.md, "How it is compiled".
WARNINGS  := -Wall -Wextra -Werror -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum -Wformat=2 \
             -Wvla -Wcast-qual -Wundef -Wpointer-arith -Wwrite-strings
SANITIZE_release :=
SANITIZE_asan    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SANITIZE_tsan    := -fsanitize=thread -fno-omit-frame-pointer
SANITIZE  := $(SANITIZE_$(CONFIG))
OPTIMISE  := $(if $(filter release,$(CONFIG)),-O2,-O1)
CPPFLAGS  := -D_GNU_SOURCE -Iengine -Iserver -I$(BUILD)/generated
CFLAGS    := -std=c11 $(OPTIMISE) -g -fopenmp-simd -ffp-contract=off -fno-math-errno -fvisibility=hidden -fstack-protector-strong \
             -pthread $(WARNINGS) $(SANITIZE)
LDFLAGS   := -pthread $(SANITIZE) -Wl,-z,relro,-z,now
ENGINE_LIBS := -lpcre2-8 -lm -ldl
SERVER_LIBS := -lmicrohttpd -ljansson -lpq -lcrypto -lz

ENGINE_SOURCES := $(shell find engine -name '*.c' | sort)
SERVER_SOURCES := $(shell find server -name '*.c' | sort)
UNIT_SOURCES   := $(shell find tests/unit -name 'test_*.c' | sort)
ENGINE_OBJECTS := $(ENGINE_SOURCES:%.c=$(OBJ)/%.o)
SERVER_OBJECTS := $(SERVER_SOURCES:%.c=$(OBJ)/%.o)
UNIT_BINARIES  := $(UNIT_SOURCES:%.c=$(OBJ)/%)
ENGINE_LIBRARY := $(OBJ)/libdeltaq-engine.a
SERVER_LIBRARY := $(OBJ)/libdeltaq-server.a

.DELETE_ON_ERROR:
.PHONY: all engine help check-unit clean format
all: $(BINARY) ## Build build/deltaq

engine: $(ENGINE_LIBRARY) ## Build the engine library alone (no server, database or HTTP)

$(ENGINE_LIBRARY): $(ENGINE_OBJECTS)
	@rm -f $@ && ar rcs $@ $^

$(SERVER_LIBRARY): $(filter-out $(OBJ)/server/main.o,$(SERVER_OBJECTS))
	@rm -f $@ && ar rcs $@ $^

$(BINARY): $(OBJ)/server/main.o $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS) $(ENGINE_LIBS)

$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(subst /,_,$*)) -MMD -MP -c -o $@ $<

$(OBJ)/tests/unit/%: tests/unit/%.c $(SERVER_LIBRARY) $(ENGINE_LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(SERVER_LIBRARY) $(ENGINE_LIBRARY) $(LDFLAGS) -lcmocka $(SERVER_LIBS) $(ENGINE_LIBS)

check-unit: $(UNIT_BINARIES) ## Run the C unit tests
	@for test in $(UNIT_BINARIES); do $$test || exit 1; done

format: ## Rewrite the C sources with clang-format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean: ## Remove everything that was built
	rm -rf $(BUILD)

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
