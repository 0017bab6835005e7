#include "device/cpu/processor.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { V2, V3, V4, V4BF16, V4AMX, LEVELS };
static const char *const level_name[LEVELS] = {"v2", "v3", "v4", "v4bf16", "v4amx"};

static int level_index(const char *level)
{
    int i = 0;
    while (i < LEVELS && strcmp(level, level_name[i]) != 0) i++;
    return i;
}

/* ---- what the processor is --------------------------------------------------------------------- */

enum { EDX_AMX_BF16 = 22, EDX_AVX512_FP16 = 23, EDX_AMX_TILE = 24, XCR0_TILE_CONFIG = 17, XCR0_TILE_DATA = 18 };

static bool bit(uint64_t word, int i)
{
    return word >> i & 1;
}

/* Return whether the processor has AMX tiles for bf16 and the OS saves them. Linux's permission for the process is not
 * checked. */
static bool has_tiles(const zr__processor *p)
{
    return bit(p->cpuid_7_edx, EDX_AMX_BF16) && bit(p->cpuid_7_edx, EDX_AMX_TILE) && bit(p->xcr0, XCR0_TILE_CONFIG) &&
           bit(p->xcr0, XCR0_TILE_DATA);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ECX_OSXSAVE = 27, ASK_FOR_STATE = 0x1023 /* ARCH_REQ_XCOMP_PERM of arch_prctl */ };

static uint64_t read_xcr0(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, ECX_OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

zr__processor zr__processor_here(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    __builtin_cpu_init();
    zr__processor p = {.v2 = __builtin_cpu_supports("x86-64-v2"),
                       .v3 = __builtin_cpu_supports("x86-64-v3"),
                       .v4 = __builtin_cpu_supports("x86-64-v4"),
                       .avx512_bf16 = __builtin_cpu_supports("avx512bf16"),
                       .intel = __builtin_cpu_is("intel"),
                       .xcr0 = read_xcr0()};
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) p.cpuid_7_edx = d;
    /* Ask Linux for permission to use AMX tiles. Linux requires this because tile registers are large. The permission
     * is valid for the process, and threads created later inherit it. */
    if (has_tiles(&p)) p.tiles_permitted = syscall(SYS_arch_prctl, ASK_FOR_STATE, XCR0_TILE_DATA) == 0;
    const char *most = getenv("ONEDNN_MAX_CPU_ISA");
    /* DNNL_MAX_CPU_ISA is the variable's name in older versions of oneDNN. */
    p.most_of_library = most && *most ? most : getenv("DNNL_MAX_CPU_ISA");
    return p;
}
#else
zr__processor zr__processor_here(void)
{
    return (zr__processor){0};
}
#endif

/* ---- what the library may use ------------------------------------------------------------------ */

/* Return the highest level whose instructions oneDNN may use if ONEDNN_MAX_CPU_ISA is `isa`. Names outside the table
 * set no limit: "ALL", AMX and later instructions, and names that oneDNN ignores because it does not know them. */
static int most_of(const char *isa)
{
    static const struct {
        const char *isa;
        int level;
    } table[] = {{"SSE41", V2},
                 {"AVX", V2},
                 {"AVX2", V3},
                 {"AVX2_VNNI", V3},
                 {"AVX2_VNNI_2", V3},
                 {"AVX512_MIC", V3},
                 {"AVX512_MIC_4OPS", V3},
                 {"AVX512_CORE", V4},
                 {"AVX512_CORE_VNNI", V4},
                 {"AVX512_CORE_BF16", V4BF16},
                 {"AVX512_CORE_FP16", V4BF16},
                 {"AVX10_1_512", V4BF16}};
    for (size_t i = 0; isa && i < sizeof table / sizeof *table; i++)
        if (strcasecmp(isa, table[i].isa) == 0) return table[i].level;
    return V4AMX;
}

/* ---- the choice -------------------------------------------------------------------------------- */

static bool has_instructions(const zr__processor *p, int level)
{
    const bool has[LEVELS] = {[V2] = p->v2,
                              [V3] = p->v3,
                              [V4] = p->v4,
                              [V4BF16] = p->v4 && p->avx512_bf16,
                              [V4AMX] = p->v4 && p->avx512_bf16 && has_tiles(p)};
    return level < LEVELS && has[level];
}

const char *zr__processor_lacks(const zr__processor *p, const char *level)
{
    int wanted = level_index(level);
#if !defined(__x86_64__)
    if (strcmp(level, "base") == 0) return NULL;
#endif
    if (!has_instructions(p, wanted)) return "this processor has no such instructions";
    if (wanted == V4AMX && !p->tiles_permitted) return "the kernel does not let this process use the processor's tiles";
    if (wanted > most_of(p->most_of_library)) return "ONEDNN_MAX_CPU_ISA keeps oneDNN below it, and zr with it";
    return NULL;
}

bool zr__processor_has(const zr__processor *p, const char *level)
{
    return zr__processor_lacks(p, level) == NULL;
}

bool zr__processor_wants(const zr__processor *p, const char *level)
{
    /* Detect Intel processors on which bf16 vector products are half as fast as fp32 multiply-adds: 32 FLOPs per cycle
     * were measured for bf16 and 64 for fp32. These processors belong to generations designed for AMX, which
     * AVX512-FP16 identifies.
     */
    bool slow_dots = p->intel && bit(p->cpuid_7_edx, EDX_AVX512_FP16);
    return zr__processor_has(p, level) && !(slow_dots && level_index(level) == V4BF16);
}
