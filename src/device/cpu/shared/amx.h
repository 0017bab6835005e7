/*
 * AMX has eight tile registers of 16 rows of 64 bytes, and an instruction that multiplies tiles of bf16 and adds the
 * product to a tile of fp32 (Intel, Architecture Instruction Set Extensions Programming Reference, chapter 3).
 *
 * A product c (16, 16) += a (16, 32) b (32, 16) has these operands:
 *   - a: 16 rows of 32 bf16, contiguous along the depth.
 *   - b: 16 rows of 16 words. A word is a pair of bf16 (pairs.h): word (k, j) holds b(2k, j) and b(2k + 1, j).
 *   - c: 16 rows of 16 floats.
 * The instruction sums the products of an element of c in order of the depth, separately for even and odd k. Then it
 * adds the two sums, and their sum to c. Denormals count as 0.
 *
 * Tile numbers must be constants in the source, since they are encoded in the instructions.
 */
#ifndef ZR_DEVICE_CPU_AMX_H
#define ZR_DEVICE_CPU_AMX_H

#include "device/cpu/shared/level.h"
#include "device/cpu/shared/product_blocks.h"

#if defined(__AMX_BF16__)

#define ZR_AMX_SIDE 16              /* rows and columns of a tile of fp32 */
#define ZR_AMX_DEPTH ZR__TILE_DEPTH /* bf16 in a row of a tile */
#define ZR_AMX_ROW_BYTES 64

/* Tell the compiler that the memory at `address` is read or written, because it cannot see this from the intrinsics
 * that load and store tiles. */
#define ZR_AMX_IN_MEMORY(address) __asm__ volatile("" : : "r"(address) : "memory")

/* Execute eight no-ops, before a tile instruction. On shared machines a core is slow for seconds at a time, probably
 * while its other hardware thread works. Tile instructions in direct succession then take two to four times as long.
 * With no-ops between them, products of bf16 are 1.5 times as fast, and products of fp32 1.25 times
 * (docs/performance.md). At other times they cost nothing, because they fit into the 16 cycles of a multiplication. */
#define ZR_AMX_SPACE() __asm__ volatile(".rept 8\n\tnop\n\t.endr")

/* Load a tile from rows that are `stride` bytes apart. */
#define ZR_AMX_LOAD(tile, from, stride)                                                                                \
    do {                                                                                                               \
        ZR_AMX_SPACE();                                                                                                \
        _tile_loadd(tile, from, stride);                                                                               \
    } while (0)

/* Add the product of tiles a and b to tile c. */
#define ZR_AMX_MULTIPLY(c, a, b)                                                                                       \
    do {                                                                                                               \
        ZR_AMX_SPACE();                                                                                                \
        _tile_dpbf16ps(c, a, b);                                                                                       \
    } while (0)

/* Configure the calling thread's tiles: all eight have 16 rows of 64 bytes. A thread calls zr__amx_end after its last
 * product, so that context switches need not save the tiles. */
static inline void zr__amx_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = ZR_AMX_ROW_BYTES;
        config.rows[t] = ZR_AMX_SIDE;
    }
    ZR_AMX_IN_MEMORY(&config);
    _tile_loadconfig(&config);
}

static inline void zr__amx_end(void)
{
    _tile_release();
}

#endif

#endif
