/* Finds the chunks of sliced rows byte by byte, as a reference. */
#ifndef SLICES_NAIVE_H
#define SLICES_NAIVE_H

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "checkpoint/checkpoint.h"
#include "zr/checkpoint.h"

/* Append to the n chunks the chunks of bytes [from, to) of a file, all within slices; return the new number. content:
 * the file's bytes, or NULL if no hashes are wanted. */
static inline int64_t naive_region(const zr__slices *s, int64_t from, int64_t to, const unsigned char *content,
                                   zr__chunk *chunk, int64_t n)
{
    const int64_t slices = s->row_bytes / s->slice_bytes, first = n;
    int64_t *of = malloc((size_t)slices * sizeof *of); /* each slice's chunk */
    XXH3_state_t **hash = calloc((size_t)slices, sizeof(XXH3_state_t *));
    if (!of || !hash) abort();
    for (int64_t k = 0; k < slices; k++) of[k] = -1;
    for (int64_t at = from; at < to; at++) {
        const int64_t k = (at - s->begin) % s->row_bytes / s->slice_bytes;
        if (of[k] < 0) {
            hash[n - first] = XXH3_createState();
            XXH3_64bits_reset(hash[n - first]);
            chunk[of[k] = n++] = (zr__chunk){at, 0, 0};
        }
        chunk[of[k]].bytes++;
        if (content) XXH3_64bits_update(hash[of[k] - first], content + at, 1);
    }
    for (int64_t i = first; i < n; i++) {
        chunk[i].hash = XXH3_64bits_digest(hash[i - first]);
        XXH3_freeState(hash[i - first]);
    }
    free(of);
    free(hash);
    return n;
}

/* Compute the chunks of a whole file whose ranges end at `ends`; some of the ranges are slices. */
static inline int64_t naive_chunks(const zr__slices *slices, int n_slices, const int64_t *ends, int n_ends,
                                   const unsigned char *content, zr__chunk *chunk)
{
    int64_t n = 0, at = 0;
    for (int e = 0; e < n_ends; e++)
        for (int64_t stop; at < ends[e]; at = stop) {
            const zr__slices *s = NULL;
            const int64_t limit = (at / ZR_CHUNK_BYTES + 1) * ZR_CHUNK_BYTES;
            stop = limit < ends[e] ? limit : ends[e];
            for (int i = 0; i < n_slices; i++)
                if (slices[i].begin <= at && at < slices[i].end) s = &slices[i];
            if (s)
                n = naive_region(s, at, stop, content, chunk, n);
            else
                chunk[n++] = (zr__chunk){at, stop - at, content ? XXH3_64bits(content + at, (size_t)(stop - at)) : 0};
        }
    return n;
}

#endif
