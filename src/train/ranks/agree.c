#include "train/ranks/ranks.h"

#include "comm/comm.h"

#include <string.h>

enum { WORD_BYTES = sizeof(double), CALL_BYTES = ZR_COMM_SCALARS * WORD_BYTES };

zr_status zr__run_agreed(const zr__ranks *r, zr_status st)
{
    const bool lost = st == ZR_ERR_PEER || st == ZR_ERR_COMM || st == ZR_ERR_HANG || st == ZR_ERR_INTERNAL;
    if (lost || (*r->engine && zr__engine_failed(*r->engine))) r->result->agreed = false;
    return st;
}

zr_status zr__run_agree(const zr__ranks *r, zr_status mine)
{
    return zr__run_agreed(r, zr_comm_agree(r->comm, mine));
}

/** Send the bytes of every rank to all ranks, into comm->table. There, the bytes of each rank are padded to whole
 * doubles. The transport does not compute with the doubles, so all bits are preserved. */
static zr_status exchange_bits(const zr__ranks *r, const void *mine, size_t bytes)
{
    double bits[ZR_COMM_SCALARS] = {0};
    ZR_ASSERT(bytes <= CALL_BYTES);
    memcpy(bits, mine, bytes);
    return zr__run_agreed(r, zr_comm_scalars(r->comm, bits, (int)((bytes + WORD_BYTES - 1) / WORD_BYTES), NULL));
}

zr_status zr__run_share(const zr__ranks *r, void *value, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += CALL_BYTES) {
        char *at = (char *)value + done;
        const size_t some = bytes - done < CALL_BYTES ? bytes - done : CALL_BYTES;
        ZR_TRY(exchange_bits(r, at, some));
        memcpy(at, r->comm->table, some);
    }
    return ZR_OK;
}

zr_status zr__run_share_text(const zr__ranks *r, char *text)
{
    size_t bytes = strlen(text) + 1;
    ZR_TRY(zr__run_share(r, &bytes, sizeof(bytes)));
    return zr__run_share(r, text, bytes);
}

zr_status zr__run_most(const zr__ranks *r, int64_t *number, int n)
{
    ZR_TRY(exchange_bits(r, number, sizeof(*number) * (size_t)n));
    for (int i = 0; i < n * r->comm->size; i++) {
        int64_t its;
        memcpy(&its, &r->comm->table[i], sizeof(its));
        if (its > number[i % n]) number[i % n] = its;
    }
    return ZR_OK;
}

zr_status zr__run_alike(const zr__ranks *r, const void *value, size_t bytes, bool *alike)
{
    const size_t words = (bytes + WORD_BYTES - 1) / WORD_BYTES;
    ZR_TRY(exchange_bits(r, value, bytes));
    *alike = true;
    for (int q = 1; q < r->comm->size; q++)
        *alike = *alike && memcmp(r->comm->table, r->comm->table + (size_t)q * words, bytes) == 0;
    return ZR_OK;
}

zr_status zr__run_same(const zr__ranks *r, const char *what, uint64_t mine)
{
    return zr__run_agreed(r, zr__comm_same(r->comm, what, mine));
}

zr_status zr__run_gather(const zr__ranks *r, uint64_t mine)
{
    return exchange_bits(r, &mine, sizeof(mine));
}

uint64_t zr__run_gathered(const zr__ranks *r, int rank)
{
    uint64_t its;
    memcpy(&its, &r->comm->table[rank], sizeof(its));
    return its;
}
