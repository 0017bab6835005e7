/* Levels of a processor. Its features and permissions are a struct, and the choice of a level depends on that struct
 * alone, so that tests can make up processors. */
#ifndef ZR_DEVICE_CPU_PROCESSOR_H
#define ZR_DEVICE_CPU_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct zr__processor {
    bool v2, v3, v4;             /* the levels of the x86-64 ABI, registers that the system keeps included */
    bool avx512_bf16;            /* the instruction; it counts on top of v4 */
    bool intel;                  /* who made it */
    uint32_t cpuid_7_edx;        /* its bits 22 to 24: multiplies bf16 on tiles, multiplies fp16, has tiles */
    uint64_t xcr0;               /* its bits 17 and 18: the system keeps tiles */
    bool tiles_permitted;        /* the kernel lets this process use them */
    const char *most_of_library; /* ONEDNN_MAX_CPU_ISA: the most that the library of products may use; NULL: anything */
} zr__processor;

/* Describe the processor and environment of this process. Asks the kernel for permission to use tiles. */
zr__processor zr__processor_here(void);

/* Return whether the processor has instructions for tiles of bf16 and the system keeps tiles; the kernel's permission
 * is checked elsewhere. */
bool zr__processor_has_tiles(const zr__processor *processor);
/* Return whether zr's kernels and the library may both use the level. A limit on the library is one on the level, so
 * that both use the same instructions, and measurements of one hold for the other. */
bool zr__processor_has(const zr__processor *processor, const char *level);
/* Return whether the level is better than the lower ones: false where its bf16 products are slower than widening to
 * fp32. */
bool zr__processor_wants(const zr__processor *processor, const char *level);
/* Return why the level cannot be used, as the end of a sentence; NULL: it can. */
const char *zr__processor_lacks(const zr__processor *processor, const char *level);

#endif
