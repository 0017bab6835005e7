/* Damages inputs randomly but reproducibly: a few bytes overwritten, ranges deleted, duplicated or moved, and pieces
 * inserted that readers are likely to mishandle. */
#ifndef MUTATE_BYTES_H
#define MUTATE_BYTES_H

#include <stdint.h>
#include <string.h>

#include "zr/base.h"

typedef struct mutator {
    zr_rng rng;
    uint64_t drawn;
} mutator;

static inline mutator mutator_make(uint32_t stream)
{
    return (mutator){.rng = {.seed = 11, .purpose = ZR_RNG_SHUFFLE, .stream = stream}};
}

/* Return a random number below `n`. */
static inline size_t mutator_draw(mutator *m, size_t n)
{
    return n ? zr_rng_u32(&m->rng, m->drawn++) % n : 0;
}

/* Insert `piece` at `at`, cut to the room that is left. */
static inline size_t mutate_insert(uint8_t *bytes, size_t n, size_t room, size_t at, const void *piece, size_t length)
{
    if (length > room - n) length = room - n;
    memmove(bytes + at + length, bytes + at, n - at);
    memcpy(bytes + at, piece, length);
    return n + length;
}

static inline size_t mutate_once(mutator *m, uint8_t *bytes, size_t n, size_t room)
{
    static const char *const pieces[] = {
        "\"",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        "\\",
        "\\u0000",
        "\xff",
        "0",
        "-1",
        "1e309",
        "1e-9",
        "null",
        "true",
        "\"x\"",
        "{}",
        "[]",
        "2147483648",
        "1.5",
        "\n",
        "-",
        "00",
        "9223372036854775808",
        "18446744073709551616",
        "\xef\xbb\xbf",
    };
    uint8_t held[64];
    size_t at = mutator_draw(m, n + 1), length = mutator_draw(m, sizeof held), left = n - at;
    if (length > left) length = left;
    switch (mutator_draw(m, 6)) {
    case 0:
        if (left) bytes[at] = (uint8_t)mutator_draw(m, 256);
        return n;
    case 1:
        if (left) bytes[at] ^= (uint8_t)(1u << mutator_draw(m, 8));
        return n;
    case 2: /* delete a range */
        memmove(bytes + at, bytes + at + length, left - length);
        return n - length;
    case 3: /* duplicate a range elsewhere */
        memcpy(held, bytes + at, length);
        return mutate_insert(bytes, n, room, mutator_draw(m, n + 1), held, length);
    case 4:
        return mutator_draw(m, 4) ? n : at; /* truncate */
    default: {
        const char *piece = pieces[mutator_draw(m, sizeof pieces / sizeof *pieces)];
        return mutate_insert(bytes, n, room, at, piece, strlen(piece));
    }
    }
}

/* Apply one to three mutations; return the new length, at most `room`. */
static inline size_t mutate_bytes(mutator *m, uint8_t *bytes, size_t n, size_t room)
{
    for (size_t times = 1 + mutator_draw(m, 3); times > 0; times--) n = mutate_once(m, bytes, n, room);
    return n;
}

#endif
