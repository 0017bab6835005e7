/*
 * Which levels a processor has. What it is and what it may do is a struct, and the choice a function of that alone, so
 * that tests can make up processors that nobody has.
 */
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

/* The one that this runs on, in this environment. Asks the kernel for its permission to use tiles. */
zr__processor zr__processor_here(void);

/* Instructions for tiles of bf16, kept by the system; the kernel's permission is another matter. */
bool zr__processor_has_tiles(const zr__processor *processor);
/* Does it have the level, for zr's kernels and for the library's? What holds the library back holds the level back, so
 * that both use the same instructions, and what is measured of one is true of the other. */
bool zr__processor_has(const zr__processor *processor, const char *level);
/* Is it better than those below? Not one whose bf16 products lose to widening to fp32. */
bool zr__processor_wants(const zr__processor *processor, const char *level);
/* Why not, as the end of a sentence; it has the level: NULL. */
const char *zr__processor_lacks(const zr__processor *processor, const char *level);

#endif
