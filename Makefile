# zr: build, test, install. `make help` lists the targets; `make info` what was found.
#
# New files are found by wildcard: a source file, a kernel family or a test needs no edit here.
#   src/<layer>/**.c                 the library, compiled once
#   src/device/cpu/kernels/*.c       kernel families, compiled once per processor level
#   src/cli/*/*.c                    the command
#   tests/**/test_*.c                one program each; also bench/programs/bench_*.c

VERSION  := 0.1.0
SONAME   := libzr.so.$(firstword $(subst ., ,$(VERSION)))
PREFIX   ?= /usr/local
CC       := $(if $(filter default,$(origin CC)),gcc,$(CC))
PKG_CONFIG ?= pkg-config
MPICC    ?= mpicc
MPI      ?= auto
CUDA     ?= auto
URING    ?= auto
SAN      ?=
DEBUG    ?= 0
WERROR   ?= 0
V        ?= 0

# One folder a variant, so configurations never mix; the plain one is build/ itself.
comma := ,
space := $() $()
VARIANT := $(subst $(space),-,$(strip $(subst $(comma),-,$(SAN)) $(if $(filter 1,$(DEBUG)),debug) $(if $(filter-out auto,$(MPI)),mpi-$(MPI)) $(if $(filter none,$(CUDA)),cuda-none) $(if $(filter none,$(URING)),uring-none)))
B := build$(if $(VARIANT),/$(VARIANT))

# ---- what is there ---------------------------------------------------------------------------

ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ifeq ($(ARCH),x86_64)
LEVELS := v2 v3 v4 v4bf16 v4amx
FLAGS_v2 := -march=x86-64-v2
FLAGS_v3 := -march=x86-64-v3
FLAGS_v4 := -march=x86-64-v4 -mprefer-vector-width=512
FLAGS_v4bf16 := $(FLAGS_v4) -mavx512bf16
FLAGS_v4amx := $(FLAGS_v4bf16) -mamx-tile -mamx-bf16
# These two add instructions for matrix products: kernels without any are those of v4.
VECTOR_v4bf16 := v4
VECTOR_v4amx := v4
# A level of tests alone, with plain C for the tiles of v4amx.
FLAGS_v4tiles := $(FLAGS_v4) -include tests/tiles/amx.h
else
LEVELS := base
FLAGS_base :=
endif

# MPI=auto takes mpicc from PATH, MPI=none leaves it out, MPI=mpich takes mpicc.mpich.
ifneq ($(filter-out auto none,$(MPI)),)
MPICC := mpicc.$(MPI)
endif
ifneq ($(MPI),none)
MPI_SHOW := $(shell $(MPICC) -show 2>/dev/null)
ifneq ($(MPI),auto)
$(if $(MPI_SHOW),,$(error MPI=$(MPI) was asked for, but $(MPICC) does not run; install it, or leave MPI out))
endif
endif
MPI_CFLAGS := $(filter -I% -D%,$(MPI_SHOW))
MPI_LIBS := $(filter -L% -l% -Wl%,$(MPI_SHOW))
MPI_SOURCES := $(filter-out src/comm/mpi_none.c,$(sort $(wildcard src/comm/mpi*.c)))
MPI_SOURCE := $(if $(MPI_SHOW),$(MPI_SOURCES),src/comm/mpi_none.c)

# CUDA=auto takes nvcc from PATH or from where CUDA is installed, CUDA=none leaves it out, CUDA=DIR takes that one. Only
# the runtime is linked, and that statically: the driver and the libraries are looked for when a GPU is used.
ifneq ($(CUDA),none)
NVCC := $(firstword $(wildcard $(if $(filter auto,$(CUDA)),$(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc,$(CUDA)/bin/nvcc)))
ifneq ($(CUDA),auto)
$(if $(NVCC),,$(error CUDA=$(CUDA) was asked for, but there is no $(CUDA)/bin/nvcc))
endif
endif
ifneq ($(NVCC),)
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
NVCC_KNOWS := $(shell $(NVCC) --list-gpu-arch)
# Machine code for A100 to H200 and for this machine's own GPU, which runs the code of its generation. Each generation
# takes as long to compile as the first, so the others are left to PTX. CUDA_ARCHS=all: for every generation below.
CUDA_EACH := $(filter $(NVCC_KNOWS:compute_%=%),80 90 100 120)
CUDA_HERE := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\..*/\10/p')
CUDA_ARCHS ?= 80 90 $(filter 1%,$(CUDA_HERE))
CUDA_CODE := $(filter $(if $(filter all,$(CUDA_ARCHS)),$(CUDA_EACH),$(CUDA_ARCHS)),$(NVCC_KNOWS:compute_%=%))
ifneq ($(filter command environment,$(origin CUDA_ARCHS)),)
$(foreach a,$(filter-out all $(CUDA_CODE),$(CUDA_ARCHS)),$(error CUDA_ARCHS=$(a) was asked for, but $(NVCC) knows $(NVCC_KNOWS:compute_%=%); give some of these, or all))
endif
$(if $(CUDA_CODE),,$(error $(NVCC) knows none of CUDA_ARCHS=$(CUDA_ARCHS): give some of $(NVCC_KNOWS:compute_%=%), or CUDA=none))
CUDA_PTX := $(firstword $(CUDA_CODE))
CUDA_CFLAGS := -isystem $(CUDA_HOME)/include
CUDA_LIBS := $(CUDA_HOME)/lib64/libcudart_static.a -lstdc++ -ldl -lrt
# NCCL moves memory of GPUs between processes; of it only the header is wanted here.
NCCL_H := $(firstword $(wildcard $(CUDA_HOME)/include/nccl.h /usr/include/nccl.h))
endif
NCCL := $(and $(NCCL_H),$(MPI_SHOW))

# URING=auto takes liburing if its header is there, URING=none leaves it out: disks are then used by threads alone.
header = $(if $(shell $(CC) -E -x c -include $(1) /dev/null >/dev/null 2>&1 && echo yes),$(2),$(3))
$(if $(filter auto none,$(URING)),,$(error URING=$(URING) was asked for; give auto or none))
ifneq ($(URING),none)
URING_H := $(call header,liburing.h,liburing.h)
endif

CMOCKA_LIBS = $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null || echo -lcmocka)
LIBS := -ldnnl -ljansson -lpcre2-8 -lutf8proc -lxxhash -lyaml -lz -lzstd $(if $(URING_H),-luring) -lm -lpthread -ldl
# For `make info`: a header that the compiler finds.
needed = $(call header,$(1),found,MISSING: scripts/deps installs it)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wpointer-arith -Wno-unknown-pragmas \
        $(if $(filter 1,$(WERROR)),-Werror)
OPT := $(if $(filter 1,$(DEBUG)),-O1 -DZR_DEBUG=1,-O2)
# No -ffast-math and no contraction: the stages must give the same bits wherever a loop is cut.
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE -g $(OPT) -ffp-contract=off -fno-math-errno -fvisibility=hidden -fopenmp -fPIC \
              $(WARN) -Iinclude -Isrc -I$(B)/obj -DZR_VERSION='"$(VERSION)"' \
              $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) $(CFLAGS)
LDFLAGS_ALL := -fopenmp $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
# Tests are compiled and linked more often than they run: little optimization, and the fastest linker here. TEST_LDFLAGS
# are further flags of the linker, such as -Wl,--strip-debug, which makes programs half as large.
TEST_OPT := -Og -fno-var-tracking-assignments
TEST_LD  := $(if $(LDFLAGS),,$(firstword $(foreach ld,lld gold,$(if $(shell command -v ld.$(ld) 2>/dev/null),-fuse-ld=$(ld))))) $(TEST_LDFLAGS)
Q := $(if $(filter 1,$(V)),,@)

# ---- files -----------------------------------------------------------------------------------

FAMILIES := $(sort $(basename $(notdir $(wildcard src/device/cpu/kernels/*.c))))
PRODUCTS := $(basename $(notdir $(shell grep -lsE '__AVX512BF16__|__AMX_BF16__|shared/tile.h|ZR_LEVEL_NAME\(zr__panels\)' src/device/cpu/kernels/*.c)))
vector = $(or $(VECTOR_$(1)),$(1))
family_level = $(if $(filter $(1),$(PRODUCTS)),$(2),$(call vector,$(2)))
# What of the GPU's device is plain C, and is there in every build.
CUDA_PLAIN   := $(wildcard src/device/cuda/scratch.c)
CUDA_SOURCES := $(filter-out $(CUDA_PLAIN) src/device/cuda/none.c,$(sort $(wildcard src/device/cuda/*.c)))
CUDA_KERNELS := $(sort $(wildcard src/device/cuda/kernels/*.cu))
CUDA_SOURCE  := $(CUDA_PLAIN) $(if $(NVCC),$(CUDA_SOURCES),src/device/cuda/none.c)
NCCL_SOURCE  := $(if $(NCCL),src/comm/nccl.c src/comm/nccl_channel.c,src/comm/nccl_none.c)
URING_SOURCE := src/store/uring$(if $(URING_H),,_none).c
LIB_SRC  := $(filter-out src/cli/% src/device/cpu/kernels/% src/device/cuda/% src/comm/mpi% src/comm/nccl% src/store/uring%,\
              $(sort $(wildcard src/*/*.c src/*/*/*.c))) $(MPI_SOURCE) $(CUDA_SOURCE) $(NCCL_SOURCE) $(URING_SOURCE)
# Kernels of GPUs first: each takes a minute, and at the end one core would wait for the last of them.
LIB_OBJ  := $(if $(NVCC),$(CUDA_KERNELS:src/%.cu=$(B)/obj/%.o)) $(LIB_SRC:src/%.c=$(B)/obj/%.o) \
            $(sort $(foreach l,$(LEVELS),$(foreach f,$(FAMILIES),$(B)/obj/device/cpu/kernels/$(f).$(call family_level,$(f),$(l)).o)))
# The same device on the processor, against the stand-ins of tests/cuda: for tests.
STAND_IN := $(B)/obj/stand_in
STAND_IN_OBJ := $(CUDA_SOURCES:src/%.c=$(STAND_IN)/%.o) $(CUDA_KERNELS:src/%.cu=$(STAND_IN)/%.o) \
                $(if $(MPI_SHOW),$(STAND_IN)/comm/nccl.o $(STAND_IN)/comm/nccl_channel.o) $(patsubst src/%.c,$(STAND_IN)/%.o,$(sort $(wildcard src/engine/*.c))) \
                $(patsubst tests/cuda/%.cc,$(STAND_IN)/%.o,$(sort $(wildcard tests/cuda/*.cc)))
# The recorder of tests/cuda replaces these functions, and sees each access of the engine to memory.
STAND_IN_LINK := $(patsubst %,-Wl$(comma)--wrap=%,zr_device_create_cuda zr__barrier_init zr__barrier_wait zr__comm_show \
                 zr__comm_channel zr__channel_begin zr__channel_end zr__channel_close zr__store_read zr__store_write)
STAND_IN_SEEN := $(if $(SAN)$(findstring clang,$(CC)),,-fsanitize=kernel-address -fasan-shadow-offset=0 --param asan-instrumentation-with-call-threshold=0 \
                 --param asan-stack=0 --param asan-globals=0)
CLI_OBJ  := $(patsubst src/%.c,$(B)/obj/%.o,$(sort $(wildcard src/cli/*/*.c)))
TEST_SRC := $(sort $(shell find tests -name 'test_*.c' 2>/dev/null))
TESTS    := $(patsubst %.c,$(B)/tests/%,$(notdir $(TEST_SRC)))
BENCHES  := $(patsubst bench/programs/%.c,$(B)/bench/%,$(sort $(wildcard bench/programs/bench_*.c))) \
            $(if $(MPI_SHOW),$(B)/bench/mpi_collectives)
EXAMPLES := $(patsubst examples/%.c,$(B)/examples/%,$(sort $(wildcard examples/*.c)))

.PHONY: all lib tests gpu-tests fuzz fuzz-files test bench examples docs install uninstall lint format info clean help FORCE
all: $(B)/zr $(B)/libzr.a $(B)/libzr.so
lib: $(B)/libzr.a $(B)/libzr.so
tests: all $(TESTS)
bench: $(BENCHES)
examples: $(EXAMPLES)

help:
	@echo 'make [all]              build/zr, build/libzr.a, build/libzr.so'
	@echo 'make test               every test (scripts/test without its installation)'
	@echo 'make install PREFIX=DIR headers, libraries, command, zr.pc, manual, completion'
	@echo 'make uninstall PREFIX=DIR'
	@echo 'make tests bench examples   build tests, benchmarks, examples'
	@echo 'make fuzz               fuzz targets with libFuzzer (clang): build/fuzz/config tests/fuzz/corpus/config ...'
	@echo 'make lint               format, layers, exported symbols, headers alone as C and C++, width of documentation'
	@echo 'make format docs        clang-format; docs/config.md from the table of keys'
	@echo 'make info               what was found'
	@echo 'SAN=address,undefined|thread  DEBUG=1  MPI=auto|none|mpich|openmpi  CUDA=auto|none|DIR  URING=auto|none'
	@echo 'CUDA_ARCHS=all|"80 90 ..."  WERROR=1  V=1'

info:
	@echo "version   $(VERSION)"
	@echo "compiler  $(CC) $(shell $(CC) -dumpversion) ($(ARCH))"
	@echo "levels    $(LEVELS)"
	@echo "families  $(FAMILIES)"
	@echo "mpi       $(if $(MPI_SHOW),$(MPICC),none: the transport is threads only)"
	@echo "cuda      $(if $(NVCC),$(NVCC): machine code for $(CUDA_CODE:%=sm_%)$(comma) PTX for compute_$(CUDA_PTX),none: no nvcc; GPUs are not used)"
	@echo "nccl      $(if $(NCCL),$(NCCL_H),none: $(if $(NVCC),$(if $(MPI_SHOW),no nccl.h,no MPI),no CUDA); ranks on GPUs are threads of one process)"
	@echo "io_uring  $(if $(URING_H),$(URING_H),none: $(if $(filter none,$(URING)),it was left out,no liburing.h); threads read and write states on disk)"
	@echo "oneDNN    $(call needed,dnnl.h)"
	@echo "jansson   $(call needed,jansson.h)"
	@echo "PCRE2     $(if $(shell echo '#include <pcre2.h>' | $(CC) -DPCRE2_CODE_UNIT_WIDTH=8 -E -x c - >/dev/null 2>&1 && echo yes),found,MISSING: scripts/deps installs it)"
	@echo "utf8proc  $(call needed,utf8proc.h)"
	@echo "xxHash    $(call needed,xxhash.h)"
	@echo "libyaml   $(call needed,yaml.h)"
	@echo "zlib      $(call needed,zlib.h)"
	@echo "zstd      $(call needed,zstd.h)"
	@echo "folder    $(B)"
	@echo "flags     $(CFLAGS_ALL)"
	@echo "libraries $(LIBS)"

# ---- rules -----------------------------------------------------------------------------------

# Without V=1, show what is made, or a counter of many files.
say = $(if $(Q),sh scripts/count $(B)/obj $(1) '$(2)')
COUNTED = $(LIB_OBJ) $(CLI_OBJ) $(if $(filter tests,$(MAKECMDGOALS)),$(TESTS) \
            $(patsubst src/%.cu,$(STAND_IN)/%.o,$(CUDA_KERNELS)) $(patsubst tests/cuda/%.cc,$(STAND_IN)/%.o,$(wildcard tests/cuda/*.cc)))

# The compiler's command line: when it changes, everything is made again. All objects need it, so the files that are
# missing are counted here, before the first is made.
STAMP := $(B)/obj/flags
$(STAMP): FORCE
	@mkdir -p $(@D)
	@echo $(words $(filter-out $(wildcard $(COUNTED)),$(COUNTED))) > $(@D)/count
	@echo '$(CC) $(CFLAGS_ALL) $(MPI_SHOW) $(NVCC)' | cmp -s - $@ || echo '$(CC) $(CFLAGS_ALL) $(MPI_SHOW) $(NVCC)' > $@
# The same of nvcc, which concerns the kernels of GPUs alone.
CUDA_STAMP := $(B)/obj/cuda_flags
$(CUDA_STAMP): FORCE
	@mkdir -p $(@D)
	@echo '$(NVCC) $(NVCC_FLAGS)' | cmp -s - $@ || echo '$(NVCC) $(NVCC_FLAGS)' > $@

# What is linked, and with what: when a source goes away, so does its object.
LINKED := $(B)/obj/linked
$(LINKED): FORCE
	@mkdir -p $(@D)
	@echo '$(LIB_OBJ) $(CLI_OBJ) $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)' | cmp -s - $@ || \
	  echo '$(LIB_OBJ) $(CLI_OBJ) $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)' > $@

# Kernel families and levels, for the table in src/device/cpu/cpu.c.
$(B)/obj/kernel_list.h: FORCE
	@mkdir -p $(@D)
	@{ echo '#define ZR_KERNEL_FAMILIES(X, level, vector) $(foreach f,$(FAMILIES),X($(f), $(if $(filter $(f),$(PRODUCTS)),level,vector)))'; \
	   echo '#define ZR_KERNEL_LEVELS(X) $(foreach l,$(LEVELS),X($(l), $(call vector,$(l))))'; } > $@.new; cmp -s $@.new $@ || cp $@.new $@; rm -f $@.new

$(B)/obj/cuda_kernel_list.h: $(CUDA_STAMP) $(wildcard src/device/cuda/kernels) Makefile
	@mkdir -p $(@D)
	@echo '#define ZR_CUDA_FAMILIES(X) $(foreach k,$(CUDA_KERNELS),X($(basename $(notdir $(k)))))' > $@.new; \
	  echo '#define ZR_CUDA_BUILT "$(CUDA_CODE:%=sm_%), PTX for compute_$(CUDA_PTX)"' >> $@.new; \
	  cmp -s $@.new $@ || cp $@.new $@; rm -f $@.new

$(B)/obj/%.o: src/%.c $(STAMP) | $(B)/obj/kernel_list.h $(B)/obj/cuda_kernel_list.h
	@mkdir -p $(@D)
	@$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(if $(filter $(MPI_SOURCES),$<),$(MPI_CFLAGS)) \
	  $(if $(filter $(CUDA_SOURCES) src/comm/nccl.c src/comm/nccl_channel.c,$<),$(CUDA_CFLAGS)) -MMD -MP -c $< -o $@

# Kernels of GPUs. -fmad=false: as on processors, what is fused is written so. Nothing in them is of the newer GPUs
# alone, so one PTX, of the least GPU, is made into the machine code of all: as fast there, and compiled once. -lineinfo
# changes no instruction: profilers and compute-sanitizer then name lines. Compressed, the objects are smaller with it.
NVCC_FLAGS = -std=c++20 -O3 -lineinfo -Xfatbin -compress-all -fmad=false --threads 2 -Xcompiler -fPIC,-fvisibility=hidden,-Wno-pedantic \
             $(foreach code,$(CUDA_CODE:%=sm_%) compute_$(CUDA_PTX),-gencode arch=compute_$(CUDA_PTX),code=$(code)) -Iinclude -Isrc
$(B)/obj/%.o: src/%.cu $(CUDA_STAMP)
	@mkdir -p $(@D)
	@$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -c $< -o $@
# The same for the processor, with its own instructions: without them fmaf is a call. Another processor builds it anew.
# An access that is not aligned, which ends a kernel on a GPU, ends the program.
STAND_IN_MARCH := $(if $(wildcard tests/cuda),$(shell g++ -march=native -E -x c++ /dev/null >/dev/null 2>&1 && echo -march=native))
STAND_IN_NATIVE := $(if $(STAND_IN_MARCH),$(shell g++ -march=native -Q --help=target 2>/dev/null | cksum))
STAND_IN_CXX = g++ -std=c++20 -g -fno-var-tracking-assignments $(OPT) $(STAND_IN_MARCH) -ffp-contract=off -fno-math-errno -fPIC -Wall -Wextra -Wno-unknown-pragmas \
               $(if $(findstring undefined,$(SAN)),,-fsanitize=alignment -fsanitize-undefined-trap-on-error) \
               $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) -Itests/cuda -Iinclude -Isrc -I$(B)/obj \
               $(MPI_CFLAGS:-I%=-isystem %)
# What switches between the threads of kernels tells the thread sanitizer so, and is not instrumented itself.
$(STAND_IN)/blocks.o $(STAND_IN)/cuda_runtime.o: private override SAN := $(filter-out thread,$(SAN))
$(STAND_IN)/%.o: src/%.c $(STAMP) | $(B)/obj/cuda_kernel_list.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(STAND_IN_SEEN) -Itests/cuda -MMD -MP -c $< -o $@
$(STAND_IN)/processor: FORCE
	@mkdir -p $(@D)
	@echo '$(STAND_IN_NATIVE)' | cmp -s - $@ || echo '$(STAND_IN_NATIVE)' > $@
$(STAND_IN)/%.o: src/%.cu $(STAMP) $(STAND_IN)/processor
	@mkdir -p $(@D)
	@$(call say,CXX,$<)
	$(Q)$(STAND_IN_CXX) -MMD -MP -x c++ -c $< -o $@
$(STAND_IN)/%.o: tests/cuda/%.cc $(STAMP) $(STAND_IN)/processor
	@mkdir -p $(@D)
	@$(call say,CXX,$<)
	$(Q)$(STAND_IN_CXX) -MMD -MP -c $< -o $@

# Under sanitizers less is optimized: at -O3, checks of unrolled loops take minutes to compile.
KERNEL_OPT := $(if $(SAN),-O1,-O3)
define level_rule
$(B)/obj/device/cpu/kernels/%.$(1).o: src/device/cpu/kernels/%.c $(STAMP)
	@mkdir -p $$(@D)
	@$$(call say,CC,$$< ($(1)))
	$$(Q)$$(CC) $$(CFLAGS_ALL) $$(KERNEL_OPT) $$(FLAGS_$(1)) -DZR_LEVEL=$(1) -DZR_LEVEL_$(1)=1 -MMD -MP -c $$< -o $$@
endef
$(foreach l,$(LEVELS) $(if $(FLAGS_v4),v4tiles),$(eval $(call level_rule,$(l))))

$(B)/libzr.a: $(LIB_OBJ) $(LINKED)
	@$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(LIB_OBJ)
$(B)/libzr.so: $(LIB_OBJ) $(LINKED)
	@$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -o $@ $(LIB_OBJ) $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)
$(B)/zr: $(CLI_OBJ) $(B)/libzr.a $(LINKED)
	@$(call say,LD,$@)
	$(Q)$(CC) -o $@ $(CLI_OBJ) $(B)/libzr.a $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)

# Tests and benchmarks link statically and may include src/ headers.
# A line "//LINK ..." in the source adds linker flags (--wrap).
DEPENDS = -MMD -MP -MT $@ -MF $(B)/obj/$(@:$(B)/%=%).d
vpath test_%.c $(sort $(dir $(TEST_SRC)))
$(B)/tests/%: %.c $(B)/libzr.a
	@mkdir -p $(@D) $(B)/obj/tests
	@$(call say,TEST,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(TEST_OPT) $(CFLAGS) $(MPI_CFLAGS) -Itests $(TEST_CFLAGS) $(DEPENDS) $< -o $@ $$(sed -n 's,^//LINK ,,p' $<) $(TEST_OBJ) $(B)/libzr.a $(LDFLAGS_ALL) $(TEST_LD) $(CMOCKA_LIBS) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)
# Tests that use GPUs have the stand-in's, before the library's own.
STAND_IN_TESTS := $(patsubst %.c,$(B)/tests/%,$(notdir $(shell grep -lsE '^//STAND_IN|kernel_check\.h' $(TEST_SRC))))
$(STAND_IN_TESTS): $(STAND_IN_OBJ)
$(STAND_IN_TESTS): TEST_CFLAGS = -Itests/cuda
$(STAND_IN_TESTS): TEST_OBJ = $(STAND_IN_OBJ) $(STAND_IN_LINK) -lstdc++ -ldl
# Tests of a build with a row more in the tables of what plans, walks, prices and draws: a copy, before the library's own.
MADE_UP       := $(B)/made_up
MADE_UP_TESTS := $(patsubst %.c,$(B)/tests/%,$(notdir $(shell grep -ls '^//MADE_UP' $(TEST_SRC))))
MADE_UP_SRC   := $(wildcard src/plan/*.c src/plan/*/*.c src/engine/*.c src/simulate/*.c src/cli/draw/picture*.c) src/cli/draw/svg.c
MADE_UP_OBJ   := $(MADE_UP_SRC:%.c=$(MADE_UP)/%.o) $(MADE_UP)/src/plan/policy/echo.o
MADE_UP_FLAGS  = -I$(MADE_UP)/include -I$(MADE_UP)/src -Itests $(CFLAGS_ALL) -O0
$(MADE_UP)/rows: tests/made_up/rows.sh tests/made_up/echo.c tests/made_up/echo.h $(MADE_UP_SRC) $(wildcard include/zr/*.h src/*/*.h src/*/*/*.h) $(STAMP)
	@mkdir -p $(@D)
	$(Q)sh $< $(MADE_UP) && touch $@
$(MADE_UP)/src/%.o: $(MADE_UP)/rows
	$(Q)$(CC) $(MADE_UP_FLAGS) -c $(@:.o=.c) -o $@
$(B)/obj/cli.a: $(CLI_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $(CLI_OBJ)
$(MADE_UP_TESTS): $(MADE_UP_OBJ) $(B)/obj/cli.a
$(MADE_UP_TESTS): private CFLAGS_ALL := -I$(MADE_UP)/include -I$(MADE_UP)/src $(CFLAGS_ALL)
$(MADE_UP_TESTS): private TEST_OBJ = $(MADE_UP_OBJ) $(B)/obj/cli.a
# Tests of products also have the kernels of v4tiles.
TILES_TESTS := $(if $(FLAGS_v4tiles),$(patsubst %.c,$(B)/tests/%,$(notdir $(shell grep -ls '^//TILES' $(TEST_SRC)))))
TILES_OBJ   := $(patsubst %,$(B)/obj/device/cpu/kernels/%.v4tiles.o,product linear attention)
$(TILES_TESTS): $(TILES_OBJ)
$(TILES_TESTS): TEST_CFLAGS += -DZR_TILES
$(TILES_TESTS): TEST_OBJ += $(TILES_OBJ)
# The same tests on a GPU.
GPU_TESTS := $(if $(NVCC),$(STAND_IN_TESTS:$(B)/tests/%=$(B)/tests/gpu_%))
$(B)/tests/gpu_%: %.c $(B)/libzr.a
	@mkdir -p $(@D) $(B)/obj/tests
	$(Q)$(CC) $(CFLAGS_ALL) $(CUDA_CFLAGS) $(MPI_CFLAGS) $(TEST_OPT) -DZR_GPU -Itests $(DEPENDS) $< -o $@ $$(sed -n 's,^//LINK ,,p' $<) $(B)/libzr.a $(LDFLAGS_ALL) $(TEST_LD) $(CMOCKA_LIBS) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)
# Without CUDA their sources are only checked, against the stand-in's headers.
GPU_CHECKED := $(if $(NVCC),,$(STAND_IN_TESTS:$(B)/tests/%=$(B)/tests/gpu_%.checked))
$(B)/tests/gpu_%.checked: %.c $(STAMP)
	@mkdir -p $(@D) $(B)/obj/tests
	$(Q)$(CC) $(CFLAGS_ALL) $(MPI_CFLAGS) -DZR_GPU -Itests -Itests/cuda -Werror -fsyntax-only $(DEPENDS) $< && touch $@
tests: $(GPU_CHECKED)
tests: $(GPU_TESTS) $(if $(wildcard tests/cuda),$(B)/tests/zr_stand_in $(B)/tests/bench_gpu_stand_in)
gpu-tests: $(GPU_TESTS)
# Fuzz targets: of the test run with a main that reads files, of `make fuzz` with libFuzzer, and for that the layers that
# they call, which are plain C.
FUZZ    := $(basename $(notdir $(wildcard tests/fuzz/*.c)))
FUZZED  := $(wildcard $(foreach layer,base tensor graph models config data checkpoint,src/$(layer)/*.c src/$(layer)/*/*.c))
FUZZ_CC := clang -g -O1 -std=c11 -D_GNU_SOURCE -DZR_VERSION='"$(VERSION)"' -Iinclude -Isrc -Itests
tests: fuzz-files
fuzz-files: $(FUZZ:%=$(B)/tests/fuzz_%)
$(B)/tests/fuzz_%: tests/fuzz/%.c tests/support/fuzz_files.c $(B)/libzr.a
	@mkdir -p $(@D) $(B)/obj/tests
	$(Q)$(CC) $(CFLAGS_ALL) -Itests $(DEPENDS) $< tests/support/fuzz_files.c -o $@ $(B)/libzr.a $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)
fuzz: $(FUZZ:%=$(B)/fuzz/%)
$(B)/fuzz/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer-no-link,address,undefined -MMD -MP -c $< -o $@
$(B)/fuzz/%: tests/fuzz/%.c $(FUZZED:src/%.c=$(B)/fuzz/obj/%.o)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined $^ -o $@ -ljansson -lpcre2-8 -lutf8proc -lxxhash -lz -lzstd -lm -lpthread -ldl
# The command whose ranks, allocations and writes fail on request.
tests: $(if $(wildcard tests/fault),$(B)/tests/zr_fault)
FAULTS := -Wl,--wrap=zr_alloc,--wrap=pwrite,--wrap=write
$(B)/obj/tests/fault.o: tests/fault/fault.c $(STAMP)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(B)/tests/zr_fault: $(CLI_OBJ) $(B)/obj/tests/fault.o $(B)/libzr.a $(LINKED)
	@mkdir -p $(@D)
	$(Q)$(CC) -o $@ $(FAULTS) $(CLI_OBJ) $(B)/obj/tests/fault.o $(B)/libzr.a $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)
# The command with the stand-ins for GPUs: `device` "cuda" works where no GPU is.
$(B)/tests/zr_stand_in: $(CLI_OBJ) $(STAND_IN_OBJ) $(B)/libzr.a $(LINKED)
	@mkdir -p $(@D)
	$(Q)$(CC) -o $@ $(CLI_OBJ) $(STAND_IN_OBJ) $(STAND_IN_LINK) $(B)/libzr.a $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS) -lstdc++ -ldl
# The benchmark of kernels likewise, for bench/gpu's own test.
$(B)/tests/bench_gpu_stand_in: bench/programs/bench_gpu.c $(STAND_IN_OBJ) $(B)/libzr.a
	@mkdir -p $(@D) $(B)/obj/tests
	$(Q)$(CC) $(CFLAGS_ALL) $(DEPENDS) $< -o $@ $(STAND_IN_OBJ) $(STAND_IN_LINK) $(B)/libzr.a $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS) -lstdc++ -ldl
$(B)/bench/%: bench/programs/%.c $(B)/libzr.a
	@mkdir -p $(@D) $(B)/obj/bench
	$(Q)$(CC) $(CFLAGS_ALL) $(MPI_CFLAGS) $(DEPENDS) $< -o $@ $(B)/libzr.a $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)
$(B)/examples/%: examples/%.c $(B)/libzr.a
	@mkdir -p $(@D) $(B)/obj/examples
	$(Q)$(CC) $(CFLAGS_ALL) $(DEPENDS) $< -o $@ $(B)/libzr.a $(LDFLAGS_ALL) $(MPI_LIBS) $(CUDA_LIBS) $(LIBS)

test:
	@scripts/test --no-deps

# zr.pc names PREFIX, so it must hold wherever a program is built.
into = "$(DESTDIR)$(PREFIX)/$(1)"
SHARED := share/man/man1 share/man/man5 share/bash-completion/completions share/zsh/site-functions
install: all
	@case "$(PREFIX)" in /*) ;; *) echo "install: PREFIX is $(PREFIX), an absolute path was wanted" >&2; exit 2 ;; esac
	install -d $(call into,bin) $(call into,lib/pkgconfig) $(call into,include/zr)
	install -m 755 $(B)/zr $(call into,bin/zr)
	install -m 644 $(B)/libzr.a $(call into,lib/libzr.a)
	install -m 755 $(B)/libzr.so $(call into,lib/libzr.so.$(VERSION))
	ln -sf libzr.so.$(VERSION) $(call into,lib/$(SONAME))
	ln -sf $(SONAME) $(call into,lib/libzr.so)
	install -m 644 include/zr.h $(call into,include/zr.h)
	install -m 644 include/zr/*.h $(call into,include/zr/)
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@PRIVATE@|$(MPI_LIBS) $(CUDA_LIBS) $(LIBS)|' scripts/zr.pc.in \
	  > $(call into,lib/pkgconfig/zr.pc)
	install -d $(foreach d,$(SHARED),$(call into,$(d)))
	$(B)/zr help --completion bash > $(call into,share/bash-completion/completions/zr)
	$(B)/zr help --completion zsh > $(call into,share/zsh/site-functions/_zr)
	$(B)/zr help --man > $(call into,share/man/man1/zr.1)
	$(B)/zr help --man config > $(call into,share/man/man5/zr-config.5)
	for c in $$($(B)/zr help --list); do $(B)/zr help --man $$c > $(call into,share/man/man1)/zr-$$c.1 || exit 1; done
uninstall:
	rm -f $(call into,bin/zr) $(call into,lib/libzr.a) $(call into,lib/libzr.so) $(call into,lib/$(SONAME)) \
	  $(call into,lib/libzr.so.$(VERSION)) $(call into,include/zr.h) $(call into,lib/pkgconfig/zr.pc)
	rm -f $(call into,share/man/man1/zr.1) $(call into,share/man/man1)/zr-*.1 $(call into,share/man/man5/zr-config.5) \
	  $(call into,share/bash-completion/completions/zr) $(call into,share/zsh/site-functions/_zr)
	rm -rf $(call into,include/zr)

# The test that holds docs/config.md against the table also writes it.
docs: $(B)/tests/test_config_reference $(B)/zr
	ZR_WRITE=docs/config.md $<
	scripts/papers $(B)/zr
	scripts/presets $(B)/zr

lint: all
	@scripts/lint $(B)
format:
	clang-format -i include/*.h include/zr/*.h $$(find src tests bench examples -name '*.[ch]' -o -name '*.cu' -o -name '*.cc')
clean:
	rm -rf build

-include $(shell find $(B)/obj $(B)/fuzz -name "*.d" 2>/dev/null)
