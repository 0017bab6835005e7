/* Choice of the processor level. The choice depends only on the struct zr__processor, so that tests can describe any
 * processor. */
#ifndef ZR_DEVICE_CPU_PROCESSOR_H
#define ZR_DEVICE_CPU_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zr__processor {
    bool v2, v3, v4; /* whether the processor has x86-64-v2, -v3 or -v4, and the OS saves the registers of that level */
    bool avx512_bf16; /* whether the processor has AVX512_BF16, which a level uses only together with v4 */
    bool intel;
    uint32_t cpuid_7_edx; /* register EDX of CPUID leaf 7; bit 22: AMX-BF16, bit 23: AVX512-FP16, bit 24: AMX-TILE */
    uint64_t xcr0;        /* register XCR0; bits 17 and 18: whether the OS saves AMX tiles */
    bool tiles_permitted; /* whether Linux lets this process use AMX tiles */
    const char *most_of_library; /* value of ONEDNN_MAX_CPU_ISA, which limits oneDNN's instructions; NULL if not set */
} zr__processor;

/* Detect the processor's features and this process's permissions. The function also asks Linux for permission to use
 * AMX tiles. */
zr__processor zr__processor_here(void);

/* Return whether both zr's kernels and oneDNN may use the level. A limit on oneDNN also limits zr's kernels, so that
 * speeds measured with one also apply to the other. */
bool zr__processor_has(const zr__processor *processor, const char *level);
/* Return whether the level is preferable to lower levels. Return false if the level is unavailable, or if its bf16
 * products are slower than fp32 products of widened operands. */
bool zr__processor_wants(const zr__processor *processor, const char *level);
/* Return the reason why the level cannot be used, as a clause for an error message, or NULL if the level can be used.
 */
const char *zr__processor_lacks(const zr__processor *processor, const char *level);

#endif
