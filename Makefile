# SPDX-License-Identifier: Apache-2.0
#
# The one build file. Everything it makes goes to build/ (SAN=1: build/asan/); sources are found
# by their place in the tree, so a new file needs no line here.
#
#   make             library, command line tool, example        make demo    record the example
#   make check       all tests                                  make deps    install what is missing
#   make bench       measure against other tracers              make install PREFIX= DESTDIR=
#   V=1 shows commands, SAN=1 builds with address and undefined-behaviour sanitizers

VERSION := 0.1.0
SOVERSION := 0

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
COMPDIR ?= $(PREFIX)/share/bash-completion/completions
RECIPEDIR ?= $(PREFIX)/share/clika-bpf-prof/recipes
# Where systemd looks also below /usr/local.
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
CLANG ?= clang
PYTHON ?= python3
# Debian keeps it in /usr/sbin, Ubuntu in a folder named after a kernel.
BPFTOOL ?= $(shell tools/find-bpftool.sh)
PROTOC_C ?= protoc-c

ARCH ?= $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x86)
MULTIARCH = $(shell $(CC) -print-multiarch 2>/dev/null)

V ?= 0
ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-8s %s\n'
MAKEFLAGS += --no-print-directory
endif

B := build
O := $(B)
WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
CXXWARN := -Wall -Wextra -Werror -Wshadow
OPT := -O2 -g
CPPFLAGS := -I. -Iinclude -I$(B) $(CPPFLAGS)
ifeq ($(SAN),1)
O := $(B)/asan
OPT := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
endif
VISIBILITY := hidden
# Empty, so that a source which defines it too says the same.
CFLAGS_ALL = -std=gnu11 -D_GNU_SOURCE= $(OPT) $(WARN) -fPIC -fvisibility=$(VISIBILITY) -pthread $(CFLAGS)
CXXFLAGS_ALL = -std=gnu++17 $(OPT) $(CXXWARN) -fPIC -pthread $(CXXFLAGS)
LDFLAGS_ALL = $(OPT) -pthread -Wl,--as-needed $(LDFLAGS)
LDLIBS := -lbpf -lelf -ldw -lcapstone -lcjson -lprotobuf-c -lz -lstdc++ -lm -ldl -lpthread
DEP = -MMD -MP

# ---- sources ---------------------------------------------------------------------------------

LIB_ROOMS := user/base user/probe user/stream user/recording user/session user/service user/prof export
LIB_SRCS := $(sort $(wildcard $(LIB_ROOMS:%=%/*.c)))
PROTOS := $(sort $(wildcard export/proto/*.proto))
PROTO_HDRS := $(PROTOS:export/%.proto=$(B)/%.pb-c.h)
PROTO_OBJS := $(PROTOS:export/%.proto=$(O)/obj/%.pb-c.o)
# Files that become part of the library as they are. A new recipe is a new file, nothing else.
RECIPE_SCHEMA := recipes/recipe.schema.json
RECIPES := $(filter-out $(RECIPE_SCHEMA),$(sort $(wildcard recipes/*.json)))
EMBEDDED := $(sort $(wildcard export/html/*.css export/html/*.js export/html/*.html export/schemas/*.json)) \
	$(RECIPE_SCHEMA) $(RECIPES)
EMBED_OBJS := $(EMBEDDED:%=$(O)/obj/embed/%.o) $(O)/obj/embed/recipe-table.o
LIB_OBJS := $(LIB_SRCS:%.c=$(O)/obj/%.o) $(PROTO_OBJS) $(EMBED_OBJS)
CLI_SRCS := $(sort $(wildcard user/cli/*.c))
CLI_OBJS := $(CLI_SRCS:%.c=$(O)/obj/%.o)
CLI_PARTS := $(filter-out $(O)/obj/user/cli/main.o,$(CLI_OBJS))
# What profiles without rights of its own: no libbpf, nothing of the loader.
CLIENT_SRCS := $(sort $(wildcard user/client/*.c)) user/service/proto.c user/base/buf.c user/base/clock.c user/base/error.c user/base/text.c
CLIENT_OBJS := $(CLIENT_SRCS:%.c=$(O)/obj/%.o)
DIGITS_SRCS := $(sort $(wildcard examples/digits/*.c))
DIGITS_OBJS := $(DIGITS_SRCS:%.c=$(O)/obj/%.o)

BPF_SRCS := $(sort $(wildcard bpf/*.bpf.c))
BPF_OBJS := $(BPF_SRCS:bpf/%.bpf.c=$(B)/bpf/$(ARCH)/%.bpf.o)
BPF_ARM64_OBJS := $(BPF_SRCS:bpf/%.bpf.c=$(B)/bpf/arm64/%.bpf.o)
SKEL := $(if $(BPF_SRCS),$(B)/clika.skel.h)
TEST_BPF_SRCS := $(sort $(wildcard tests/bpf/*.bpf.c))
TEST_SKELS := $(TEST_BPF_SRCS:tests/bpf/%.bpf.c=$(B)/tests/bpf/%.skel.h)

COMMON_SRCS := $(sort $(wildcard tests/common/*.c))
COMMON_OBJS := $(COMMON_SRCS:%.c=$(O)/obj/%.o)
UNIT_TESTS := $(patsubst %.c,$(O)/%,$(sort $(wildcard tests/unit/test_*.c)))
GOLDEN_TESTS := $(patsubst %.c,$(O)/%,$(sort $(wildcard tests/golden/test_*.c)))
BPF_TESTS := $(patsubst %.c,$(O)/%,$(sort $(filter-out %.bpf.c,$(wildcard tests/bpf/test_*.c))))
E2E_TESTS := $(sort $(wildcard tests/e2e/test_*.py))
FUZZERS := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

# Target programs of the tests: lib*.c become shared objects, everything else one program a file.
FIXTURE_SRCS := $(sort $(wildcard tests/fixtures/*.c tests/fixtures/*.cpp))
FIXTURE_LIBS := $(patsubst tests/fixtures/%,$(B)/fixtures/%.so,$(basename $(filter tests/fixtures/lib%,$(FIXTURE_SRCS))))
FIXTURE_PROGS := $(patsubst tests/fixtures/%,$(B)/fixtures/%,$(basename $(filter-out tests/fixtures/lib%,$(FIXTURE_SRCS))))

STATIC := $(O)/libclika-prof.a
SHARED := $(O)/libclika-prof.so.$(VERSION)
CLIENT := $(O)/libclika-client.a
CLI := $(O)/clika-bpf-prof
DIGITS := $(if $(DIGITS_SRCS),$(O)/digits $(O)/libdigits.so)

.PHONY: all lib bpf bpf-arm64 tests tests-user fixtures deps deps-test deps-dev deps-bench demo check check-consumers check-runtimes check-headers check-layers \
	check-format check-tidy check-man format bench fuzz fuzzers install uninstall clean FORCE
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

all: lib $(CLI) $(DIGITS)
lib: $(STATIC) $(SHARED) $(CLIENT)

# Rebuild when compiler, flags or the list of files change, not only when a file does.
define stamp
	@mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' > $@
endef
$(O)/.flags: FORCE
	$(call stamp,$(CC) $(CPPFLAGS) $(CFLAGS_ALL) | $(CXX) $(CXXFLAGS_ALL) | $(LDFLAGS_ALL) $(LDLIBS))
$(O)/.lib-list: FORCE
	$(call stamp,$(LIB_OBJS))
$(O)/.cli-list: FORCE
	$(call stamp,$(CLI_OBJS))
$(O)/.digits-list: FORCE
	$(call stamp,$(DIGITS_OBJS))
$(O)/.common-list: FORCE
	$(call stamp,$(COMMON_OBJS))
$(B)/.bpf-list: FORCE
	$(call stamp,$(CLANG) $(BPF_OBJS))

# ---- BPF ---------------------------------------------------------------------------------------

BPF_CFLAGS = -target bpf -O2 -g -mcpu=v3 -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-missing-declarations -Ivmlinux -Iinclude -I. -I/usr/include/$(MULTIARCH)

$(B)/bpf/x86/%.bpf.o: bpf/%.bpf.c $(B)/.bpf-list
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -D__TARGET_ARCH_x86 -Ivmlinux/x86 $(DEP) -c $< -o $@
$(B)/bpf/arm64/%.bpf.o: bpf/%.bpf.c $(B)/.bpf-list
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -D__TARGET_ARCH_arm64 -Ivmlinux/arm64 $(DEP) -c $< -o $@
$(B)/bpf/clika.bpf.o: $(BPF_OBJS) $(B)/.bpf-list
	$(say) BPFLINK $@
	$(Q)$(BPFTOOL) gen object $@ $(BPF_OBJS)
$(B)/clika.skel.h: $(B)/bpf/clika.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton $< name clika_bpf > $@
bpf: $(SKEL)
bpf-arm64: $(BPF_ARM64_OBJS)

# Programs that only tests load; each may include the handlers of bpf/.
$(B)/tests/bpf/%.bpf.o: tests/bpf/%.bpf.c $(B)/.bpf-list
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -D__TARGET_ARCH_$(ARCH) -Ivmlinux/$(ARCH) $(DEP) -c $< -o $@
$(B)/tests/bpf/%.skel.h: $(B)/tests/bpf/%.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen object $(@:.skel.h=.linked.o) $<
	$(Q)$(BPFTOOL) gen skeleton $(@:.skel.h=.linked.o) name $*_bpf > $@

# ---- message formats -----------------------------------------------------------------------------

$(B)/proto/%.pb-c.c $(B)/proto/%.pb-c.h: export/proto/%.proto
	$(say) PROTO $@
	$(Q)mkdir -p $(@D)
	$(Q)$(PROTOC_C) --c_out=$(B)/proto -Iexport/proto $<
$(O)/obj/proto/%.pb-c.o: $(B)/proto/%.pb-c.c $(O)/.flags
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(DEP) -c $< -o $@

# ---- embedded files --------------------------------------------------------------------------------

$(B)/embed/%.c: % tools/embed.sh
	$(say) EMBED $@
	$(Q)mkdir -p $(@D)
	$(Q)tools/embed.sh $< > $@
$(B)/.recipe-list: FORCE
	$(call stamp,$(RECIPES))
$(B)/embed/recipe-table.c: $(B)/.recipe-list tools/embed.sh
	$(say) EMBED $@
	$(Q)mkdir -p $(@D)
	$(Q)tools/embed.sh --table embed_recipes $(RECIPES) > $@
$(O)/obj/embed/%.o: $(B)/embed/%.c $(O)/.flags
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(DEP) -c $< -o $@

# ---- objects, library, tool ----------------------------------------------------------------------

$(O)/obj/%.o: %.c $(O)/.flags
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(DEP) -c $< -o $@

# The first build has no dependency files yet: the rooms that may load BPF wait for the skeleton.
$(filter $(O)/obj/user/probe/% $(O)/obj/user/stream/% $(O)/obj/user/prof/% $(O)/obj/user/service/%,$(LIB_OBJS)): | $(SKEL)

$(filter $(O)/obj/export/%,$(LIB_OBJS)): | $(PROTO_HDRS)

$(STATIC): $(LIB_OBJS) $(O)/.lib-list
	$(say) AR $@
	$(Q)rm -f $@
	$(Q)$(AR) crs $@ $(LIB_OBJS)

$(CLIENT): $(CLIENT_OBJS) Makefile
	$(say) AR $@
	$(Q)rm -f $@; ar rcs $@ $(CLIENT_OBJS)
$(SHARED): $(LIB_OBJS) packaging/libclika-prof.map $(O)/.lib-list
	$(say) LD $@
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,libclika-prof.so.$(SOVERSION) \
		-Wl,--version-script=packaging/libclika-prof.map \
		$(if $(filter 1,$(SAN)),,-Wl$(comma)-z$(comma)defs) -o $@ $(LIB_OBJS) $(LDLIBS)
	$(Q)ln -sf $(@F) $(O)/libclika-prof.so.$(SOVERSION)
	$(Q)ln -sf libclika-prof.so.$(SOVERSION) $(O)/libclika-prof.so
comma := ,

$(CLI): $(CLI_OBJS) $(STATIC) $(O)/.cli-list
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(CLI_OBJS) $(STATIC) $(LDLIBS)

$(O)/digits: $(DIGITS_OBJS) $(O)/.digits-list
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(DIGITS_OBJS) -lm -lpthread
# The same runtime for programs that load it: only what digits.h declares is visible.
$(O)/libdigits.so: $(filter-out %/main.o,$(DIGITS_OBJS)) $(O)/.digits-list
	$(say) LD $@
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -o $@ $(filter-out %/main.o,$(DIGITS_OBJS)) -lm -lpthread

# ---- tests ---------------------------------------------------------------------------------------

# Unit tests of the tool's own helpers link what they need of the tool.
$(UNIT_TESTS) $(GOLDEN_TESTS) $(BPF_TESTS): $(O)/tests/%: $(O)/obj/tests/%.o $(COMMON_OBJS) $(STATIC) \
		$(O)/.common-list
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< $(COMMON_OBJS) $(EXTRA_OBJS) $(STATIC) -lcmocka $(LDLIBS)
CLI_TESTS := $(filter $(O)/tests/unit/test_cli%,$(UNIT_TESTS))
$(CLI_TESTS): EXTRA_OBJS = $(O)/obj/cli.a
$(CLI_TESTS): $(O)/obj/cli.a
$(O)/obj/cli.a: $(CLI_PARTS) $(O)/.cli-list
	$(Q)rm -f $@
	$(Q)$(AR) crs $@ $(CLI_PARTS)
$(BPF_TESTS:$(O)/%=$(O)/obj/%.o): | $(SKEL) $(TEST_SKELS)
$(UNIT_TESTS:$(O)/%=$(O)/obj/%.o) $(GOLDEN_TESTS:$(O)/%=$(O)/obj/%.o) $(COMMON_OBJS): | $(PROTO_HDRS)

# Tests answer what a sanitizer's library asks of the program.
$(O)/obj/tests/%.o: private VISIBILITY := default

# Fixtures are what a target looks like: optimised, never with sanitizers.
# The second line of a source may add flags: see tests/fixtures/README.md.
FIXTURE_FLAGS := -O2 -g $(WARN) -I. -Iinclude
FIXTURE_CXXFLAGS := -O2 -g $(CXXWARN) -I. -Iinclude
fixture_flags = $(shell sed -n '2s/.*\* $(1): \([^*]*\)\*.*/\1/p' $<)
$(B)/fixtures/%: tests/fixtures/%.c Makefile
	$(say) FIXTURE $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(FIXTURE_FLAGS) $(call fixture_flags,cflags) $(DEP) -MF $@.d -o $@ $< \
		$(call fixture_flags,ldflags)
$(B)/fixtures/%: tests/fixtures/%.cpp Makefile
	$(say) FIXTURE $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -std=gnu++17 $(FIXTURE_CXXFLAGS) $(call fixture_flags,cflags) $(DEP) -MF $@.d -o $@ $< \
		$(call fixture_flags,ldflags)
$(B)/fixtures/%.so: tests/fixtures/%.c Makefile
	$(say) FIXTURE $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(FIXTURE_FLAGS) -fPIC -shared $(call fixture_flags,cflags) $(DEP) -MF $@.d -o $@ $< \
		$(call fixture_flags,ldflags)
$(B)/fixtures/%.so: tests/fixtures/%.cpp Makefile
	$(say) FIXTURE $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -std=gnu++17 $(FIXTURE_CXXFLAGS) -fPIC -shared $(call fixture_flags,cflags) $(DEP) -MF $@.d -o $@ $< \
		$(call fixture_flags,ldflags)

fixtures: $(FIXTURE_LIBS) $(FIXTURE_PROGS)
# tests-user: what runs without root, and is run again with sanitizers.
tests-user: $(UNIT_TESTS) $(GOLDEN_TESTS) fixtures
tests: tests-user $(BPF_TESTS)

FUZZ_SECONDS ?= 20
FUZZ_FLAGS := -std=gnu11 -D_GNU_SOURCE= -O1 -g -pthread -fsanitize=address,undefined
FUZZ_OBJS := $(LIB_SRCS:%.c=$(B)/fuzz/obj/%.o) $(PROTOS:export/%.proto=$(B)/fuzz/obj/$(B)/%.pb-c.o) \
	$(EMBEDDED:%=$(B)/fuzz/obj/$(B)/embed/%.o) $(B)/fuzz/obj/$(B)/embed/recipe-table.o
$(B)/fuzz/obj/%.o: %.c $(O)/.flags | $(SKEL) $(PROTO_HDRS)
	$(say) FUZZCC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link $(DEP) -c $< -o $@
$(B)/fuzz/lib.a: $(FUZZ_OBJS) $(O)/.lib-list
	$(say) AR $@
	$(Q)rm -f $@
	$(Q)$(AR) crs $@ $(FUZZ_OBJS)
$(B)/tests/fuzz/%: tests/fuzz/%.c $(B)/fuzz/lib.a
	$(say) FUZZ $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer -Wl,--as-needed -o $@ $< $(B)/fuzz/lib.a $(LDLIBS)
fuzzers: $(FUZZERS)
fuzz: deps
	@tools/install-deps.sh --fuzz
	@$(MAKE) --no-print-directory fuzzers
	$(Q)for f in $(FUZZERS); do tools/fuzz-one.sh $$f $(FUZZ_SECONDS) || exit 1; done

# ---- what a user runs ------------------------------------------------------------------------------

deps:
	@tools/install-deps.sh
deps-test:
	@tools/install-deps.sh --test
deps-dev:
	@tools/install-deps.sh --dev
deps-bench:
	@tools/install-deps.sh --bench

# A second make: on a fresh machine the compiler is not there when this one starts.
demo: deps
	@$(MAKE) all
	@tools/demo.sh
check: deps-test
	@$(MAKE) --no-print-directory all tests
	@$(MAKE) --no-print-directory SAN=1 tests-user
	@$(PYTHON) tools/run-tests.py $(RUN)
# Programs of others that take minutes to set up, then stay in build/tools.
check-consumers: deps-test
	@$(MAKE) --no-print-directory all
	@$(PYTHON) tools/run-tests.py --only consumers

# The Python package, and recipes, on the newest PyTorch and ONNX Runtime: 6 GB from PyPI, then they stay in build/python.
# CLIKA_RUNTIMES_PYTHON is the Python of another environment that has them, for the recipes.
check-runtimes: deps-test
	@$(MAKE) --no-print-directory all
	@tools/python-tests.sh --runtimes
	@CLIKA_RUNTIMES_PYTHON=$${CLIKA_RUNTIMES_PYTHON:-$$(tools/python-env.sh --runtimes)} $(PYTHON) tools/run-tests.py --only runtimes

check-layers:
	@tools/check-layers.sh
check-headers: | $(SKEL) $(PROTO_HDRS)
	@CC='$(CC)' CXX='$(CXX)' tools/check-headers.sh
check-man:
	@tools/check-man.sh

check-format:
	@tools/check-format.sh
format:
	@tools/check-format.sh --fix
check-tidy: | $(SKEL) $(PROTO_HDRS)
	@tools/check-tidy.sh

bench: deps-bench
	@$(MAKE) --no-print-directory all tests fixtures
	@tools/bench.sh

# ---- install -----------------------------------------------------------------------------------------

# Under sudo nothing is built, so that nothing in build/ belongs to root.
install: $(if $(SUDO_UID),,all)
	@test -x $(CLI) || { echo "run 'make' first, without sudo" >&2; exit 1; }
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)/clika \
		$(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(COMPDIR) $(DESTDIR)$(RECIPEDIR) $(DESTDIR)$(UNITDIR) \
		$(DESTDIR)$(SYSUSERSDIR)
	install -m 0755 $(CLI) $(DESTDIR)$(BINDIR)/
	install -m 0644 $(STATIC) $(DESTDIR)$(LIBDIR)/
	install -m 0755 $(SHARED) $(DESTDIR)$(LIBDIR)/
	install -m 0644 $(CLIENT) $(DESTDIR)$(LIBDIR)/
	ln -sf libclika-prof.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libclika-prof.so.$(SOVERSION)
	ln -sf libclika-prof.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libclika-prof.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
		-e 's|@VERSION@|$(VERSION)|' packaging/libclika-prof.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/libclika-prof.pc
	chmod 0644 $(DESTDIR)$(LIBDIR)/pkgconfig/libclika-prof.pc
	install -m 0644 include/clika/*.h $(DESTDIR)$(INCLUDEDIR)/clika/
	install -m 0644 docs/man/*.1 $(DESTDIR)$(MANDIR)/man1/
	install -m 0644 packaging/bash-completion $(DESTDIR)$(COMPDIR)/clika-bpf-prof
	install -m 0644 $(RECIPE_SCHEMA) $(RECIPES) $(DESTDIR)$(RECIPEDIR)/
	sed -e 's|@BINDIR@|$(BINDIR)|' packaging/systemd/clika-bpf-prof.service.in \
		> $(DESTDIR)$(UNITDIR)/clika-bpf-prof.service
	chmod 0644 $(DESTDIR)$(UNITDIR)/clika-bpf-prof.service
	install -m 0644 packaging/systemd/clika-bpf-prof.socket $(DESTDIR)$(UNITDIR)/
	install -m 0644 packaging/systemd/clika-prof.sysusers $(DESTDIR)$(SYSUSERSDIR)/clika-prof.conf

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/clika-bpf-prof $(DESTDIR)$(LIBDIR)/libclika-prof.* $(DESTDIR)$(LIBDIR)/libclika-client.a \
		$(DESTDIR)$(LIBDIR)/pkgconfig/libclika-prof.pc $(DESTDIR)$(COMPDIR)/clika-bpf-prof \
		$(DESTDIR)$(UNITDIR)/clika-bpf-prof.service $(DESTDIR)$(UNITDIR)/clika-bpf-prof.socket \
		$(DESTDIR)$(SYSUSERSDIR)/clika-prof.conf \
		$(patsubst docs/man/%,$(DESTDIR)$(MANDIR)/man1/%,$(wildcard docs/man/*.1)) \
		$(patsubst include/%,$(DESTDIR)$(INCLUDEDIR)/%,$(wildcard include/clika/*.h)) \
		$(patsubst recipes/%,$(DESTDIR)$(RECIPEDIR)/%,$(wildcard recipes/*.json))
	-rmdir $(DESTDIR)$(RECIPEDIR) $(dir $(DESTDIR)$(RECIPEDIR))
	-rmdir $(DESTDIR)$(INCLUDEDIR)/clika

clean:
	rm -rf $(B)

-include $(LIB_OBJS:.o=.d) $(CLI_OBJS:.o=.d) $(DIGITS_OBJS:.o=.d) $(COMMON_OBJS:.o=.d)
-include $(BPF_OBJS:.o=.d) $(BPF_ARM64_OBJS:.o=.d) $(TEST_BPF_SRCS:tests/%.bpf.c=$(B)/tests/%.bpf.d)
-include $(UNIT_TESTS:$(O)/%=$(O)/obj/%.d) $(GOLDEN_TESTS:$(O)/%=$(O)/obj/%.d) $(BPF_TESTS:$(O)/%=$(O)/obj/%.d)
-include $(FUZZ_OBJS:.o=.d)
-include $(FIXTURE_LIBS:%=%.d) $(FIXTURE_PROGS:%=%.d)
