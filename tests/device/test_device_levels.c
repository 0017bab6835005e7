//TEST timeout=120
/* The choice of the processor level: on made-up processors, and on this one under settings of the environment. */
#include <stdio.h>
#include <string.h>

#include "device_levels.h"

#include "device/cpu/onednn.h"
#include "device/cpu/processor.h"

static const char *program;

/* ---- made-up processors ------------------------------------------------------------------------ */

#define TILES (1u << 22 | 1u << 24)     /* CPUID 7.0, EDX */
#define FP16 (1u << 23)                 /* CPUID 7.0, EDX */
#define KEPT (UINT64_C(3) << 17 | 0xe7) /* XCR0: AVX-512's and tile state */
#define NOT_KEPT UINT64_C(0xe7)

typedef struct made_up {
    const char *what;
    zr__processor is;
    const char *wanted; /* highest level of this processor */
} made_up;

#define V4BF16 .v2 = true, .v3 = true, .v4 = true, .avx512_bf16 = true
#define SAPPHIRE_RAPIDS V4BF16, .cpuid_7_edx = TILES | 1u << 25, .xcr0 = KEPT, .tiles_permitted = true

static const made_up processor[] = {
    {"too old", {.v2 = false}, NULL},
    {"qemu64 with what v2 has", {.v2 = true}, "v2"},
    {"Zen 3", {.v2 = true, .v3 = true}, "v3"},
    {"Skylake with AVX-512", {.v2 = true, .v3 = true, .v4 = true, .xcr0 = NOT_KEPT}, "v4"},
    {"Zen 4", {V4BF16, .xcr0 = NOT_KEPT}, "v4bf16"},
    {"Sapphire Rapids", {SAPPHIRE_RAPIDS}, "v4amx"},
    {"its kernel says no", {V4BF16, .cpuid_7_edx = TILES, .xcr0 = KEPT}, "v4bf16"},
    {"its kernel is too old for tiles",
     {V4BF16, .cpuid_7_edx = TILES, .xcr0 = NOT_KEPT, .tiles_permitted = true},
     "v4bf16"},
    {"only their configuration is kept",
     {V4BF16, .cpuid_7_edx = TILES, .xcr0 = NOT_KEPT | 1u << 17, .tiles_permitted = true},
     "v4bf16"},
    {"tiles of integers alone", {V4BF16, .cpuid_7_edx = 3u << 24, .xcr0 = KEPT, .tiles_permitted = true}, "v4bf16"},
    {"bf16 without tiles", {V4BF16, .cpuid_7_edx = 1u << 22, .xcr0 = KEPT, .tiles_permitted = true}, "v4bf16"},
    {"tiles without AVX-512's bf16",
     {.v2 = true, .v3 = true, .v4 = true, .cpuid_7_edx = TILES, .xcr0 = KEPT, .tiles_permitted = true},
     "v4"},
    {"AVX-512 off in the system", {.v2 = true, .v3 = true, .avx512_bf16 = true}, "v3"},
    {"SSE41", {SAPPHIRE_RAPIDS, .most_of_library = "SSE41"}, "v2"},
    {"AVX", {SAPPHIRE_RAPIDS, .most_of_library = "AVX"}, "v2"},
    {"avx2", {SAPPHIRE_RAPIDS, .most_of_library = "avx2"}, "v3"},
    {"AVX2_VNNI", {SAPPHIRE_RAPIDS, .most_of_library = "AVX2_VNNI"}, "v3"},
    {"AVX512_CORE", {SAPPHIRE_RAPIDS, .most_of_library = "AVX512_CORE"}, "v4"},
    {"AVX512_CORE_VNNI", {SAPPHIRE_RAPIDS, .most_of_library = "AVX512_CORE_VNNI"}, "v4"},
    {"AVX512_CORE_BF16", {SAPPHIRE_RAPIDS, .most_of_library = "AVX512_CORE_BF16"}, "v4bf16"},
    {"AVX512_CORE_FP16", {SAPPHIRE_RAPIDS, .most_of_library = "AVX512_CORE_FP16"}, "v4bf16"},
    {"AVX512_CORE_AMX", {SAPPHIRE_RAPIDS, .most_of_library = "AVX512_CORE_AMX"}, "v4amx"},
    {"ALL", {SAPPHIRE_RAPIDS, .most_of_library = "ALL"}, "v4amx"},
    {"a name of next year", {SAPPHIRE_RAPIDS, .most_of_library = "AVX10_9"}, "v4amx"},
    {"more than there is", {.v2 = true, .v3 = true, .most_of_library = "AVX512_CORE_AMX"}, "v3"},
};

static void test_made_up(void **state)
{
    (void)state;
    static const char *const level[] = {"v2", "v3", "v4", "v4bf16", "v4amx"};
    for (size_t i = 0; i < sizeof processor / sizeof *processor; i++) {
        const made_up *p = &processor[i];
        const char *highest = NULL;
        for (int l = 0; l < 5; l++) {
            bool has = zr__processor_has(&p->is, level[l]);
            assert_true(has == (zr__processor_lacks(&p->is, level[l]) == NULL));
            if (has) highest = level[l];
        }
        bool right = highest == p->wanted || (highest && p->wanted && strcmp(highest, p->wanted) == 0);
        if (!right) fail_msg("%s: %s, wanted %s", p->what, highest ? highest : "none", p->wanted ? p->wanted : "none");
        assert_false(zr__processor_has(&p->is, "v9"));
    }
}

static void test_why_not(void **state)
{
    (void)state;
    const zr__processor refused = {V4BF16, .cpuid_7_edx = TILES, .xcr0 = KEPT},
                        held = {SAPPHIRE_RAPIDS, .most_of_library = "AVX2"}, old = {.v2 = true};
    assert_non_null(strstr(zr__processor_lacks(&refused, "v4amx"), "kernel"));
    assert_non_null(strstr(zr__processor_lacks(&held, "v4amx"), "ONEDNN_MAX_CPU_ISA"));
    assert_non_null(strstr(zr__processor_lacks(&old, "v3"), "no such instructions"));
}

/* Check that where bf16 products run at half the rate of fp32 products, the level with bf16 products is not the
 * default, but can be requested. */
static void test_slow_dots(void **state)
{
    (void)state;
    const zr__processor slow = {V4BF16, .intel = true, .cpuid_7_edx = TILES | FP16, .xcr0 = KEPT},
                        tiles = {V4BF16, .intel = true, .cpuid_7_edx = TILES | FP16, .xcr0 = KEPT,
                                 .tiles_permitted = true},
                        older = {V4BF16, .intel = true, .xcr0 = NOT_KEPT},
                        others = {V4BF16, .cpuid_7_edx = FP16, .xcr0 = NOT_KEPT};
    assert_true(zr__processor_has(&slow, "v4bf16") && !zr__processor_wants(&slow, "v4bf16"));
    assert_true(zr__processor_wants(&slow, "v4") && !zr__processor_wants(&slow, "v4amx"));
    assert_true(zr__processor_wants(&tiles, "v4amx") && !zr__processor_wants(&tiles, "v4bf16"));
    assert_true(zr__processor_wants(&older, "v4bf16") && zr__processor_wants(&others, "v4bf16"));
}

/* ---- this processor --------------------------------------------------------------------------- */

/* Check the level on this machine: zr has bf16 products exactly where the library has them. */
static void check_here(void)
{
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_OK);
    const char *level = zr_device_cpu_level();
    assert_true(zr__cpu_has(level));
    assert_true(device->profile.facts.bf16_products ==
                (strncmp(level, "v4bf16", 6) == 0 || strcmp(level, "v4amx") == 0));
    assert_true(!device->profile.facts.bf16_products || zr__onednn_has_bf16());
    assert_true(device->profile.facts.narrow_attention == device->profile.facts.bf16_products);
    device->profile.machine.flops_bf16 = 7.0;
    device->ops->measure(device, ZR_BF16); /* no bf16 rate where fp32 products replace bf16 */
    assert_true((device->profile.machine.flops_bf16 > 0.0) == device->profile.facts.bf16_products);
    zr_device_destroy(&device);
}

/* Run this program again under oneDNN's own limit, which it reads at the start of a process. */
static void run_again_held(const char *isa)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("ONEDNN_MAX_CPU_ISA", isa, 1);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl(program, program, "held", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("under ONEDNN_MAX_CPU_ISA=%s", isa);
}

static void test_held(void **state)
{
    (void)state;
    static const char *const isa[] = {"SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_BF16", "AVX512_CORE_AMX", "ALL"};
    check_here();
    for (size_t i = 0; i < sizeof isa / sizeof *isa; i++) run_again_held(isa[i]);
}

static void test_under_hold(void **state)
{
    (void)state;
    const zr__processor here = zr__processor_here();
    zr_device_config config = ZR_DEVICE_CONFIG_INIT;
    zr_device *device = NULL;
    check_here();
    if (!here.v3 || strcmp(getenv("ONEDNN_MAX_CPU_ISA"), "SSE41") != 0) return;
    /* A ZR_KERNELS above oneDNN's limit: the environment contradicts itself. */
    setenv("ZR_KERNELS", "v3", 1);
    assert_int_equal(zr_device_create_cpu(&config, &device), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "ONEDNN_MAX_CPU_ISA"));
    assert_null(device);
}

int main(int argc, char **argv)
{
    program = argc ? argv[0] : "";
    const struct CMUnitTest held[] = {cmocka_unit_test(test_under_hold)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_made_up), cmocka_unit_test(test_slow_dots),
                                       cmocka_unit_test(test_why_not), cmocka_unit_test(test_held)};
    unsetenv("ZR_KERNELS");
    if (argc > 1) return cmocka_run_group_tests(held, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
