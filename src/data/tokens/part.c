#include "data/tokens/part.h"

#include "base/text/text.h"

#define MOST_RECORDS 0x1p62 /* more than any data have */

/* Return the first record of a block, at most MOST_RECORDS. */
static int64_t block_begin(double share, int64_t block)
{
    const double begin = (double)block / share;
    return begin < MOST_RECORDS ? (int64_t)begin : (int64_t)MOST_RECORDS;
}

int64_t zr__part_record(double share, int64_t block)
{
    const zr_rng rng = {.purpose = ZR_RNG_HOLD_OUT};
    const int64_t begin = block_begin(share, block), n = block_begin(share, block + 1) - begin;
    return n > 0 ? begin + zr_rng_u32(&rng, (uint64_t)block) % n : begin;
}

bool zr__part_has(const zr_data_part *part, int64_t record)
{
    if (part->share == 0) return true;
    int64_t block = (int64_t)((double)record * part->share);
    while (block_begin(part->share, block) > record) block--;
    while (block_begin(part->share, block + 1) <= record) block++;
    return (zr__part_record(part->share, block) == record) == part->held_out;
}

zr_status zr__part_check(const zr_data_part *part, const zr__part_size *size)
{
    char text[ZR_NUMBER_BYTES];
    if (part->share == 0 || size->has >= size->least) return ZR_OK;
    return ZR_FAIL(ZR_ERR_CONFIG,
                   "data.val is %s: of the %lld %s of %s, %lld %s, but at least %lld must be; give a %s share, or more "
                   "data",
                   zr__text_shortest(part->share, text), (long long)size->all, size->unit, size->name,
                   (long long)size->has, part->held_out ? "are held out" : "remain to train on", (long long)size->least,
                   part->held_out ? "larger" : "smaller");
}
