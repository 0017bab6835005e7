/* Levels of a processor. The choice of a level depends only on a struct of the processor's features and permissions, so
 * that tests can invent processors. */
#ifndef ZR_DEVICE_CPU_PROCESSOR_H
#define ZR_DEVICE_CPU_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zr__processor {
    bool v2, v3, v4;      /* whether the processor has the x86-64 ABI's level and the system saves its registers */
    bool avx512_bf16;     /* whether the processor has this instruction, which a level uses only in addition to v4 */
    bool intel;           /* whether Intel made the processor */
    uint32_t cpuid_7_edx; /* CPUID leaf 7, EDX; bit 22: bf16 products on tiles, bit 23: fp16 products, bit 24: tiles */
    uint64_t xcr0;        /* register XCR0; bits 17 and 18: whether the system saves tiles */
    bool tiles_permitted; /* whether the kernel lets this process use tiles */
    const char *most_of_library; /* ONEDNN_MAX_CPU_ISA, which limits oneDNN's instructions, or NULL */
} zr__processor;

/* Describe the processor and the environment of this process. The function also asks the kernel for permission to use
 * tiles. */
zr__processor zr__processor_here(void);

/* Return whether the processor has tile instructions for bf16, and the system saves tiles. The function does not check
 * the kernel's permission. */
bool zr__processor_has_tiles(const zr__processor *processor);
/* Return whether both zr's kernels and oneDNN may use the level. A limit on oneDNN also limits zr's kernels. Both then
 * use the same instructions, so that measurements of zr's kernels hold for oneDNN, and the reverse. */
bool zr__processor_has(const zr__processor *processor, const char *level);
/* Return whether to prefer the level to lower levels. Return false if the level is unavailable, or if its bf16 products
 * are slower than widening to fp32. */
bool zr__processor_wants(const zr__processor *processor, const char *level);
/* Return why the level cannot be used, as the end of a sentence, or NULL if the level can be used. */
const char *zr__processor_lacks(const zr__processor *processor, const char *level);

#endif
