/*
 * Measurement of a folder's rates. A reader reads, and a writer writes, all bytes of a store in buckets of `depth`
 * blocks. For the mixed rate both run at the same time, each on one half of the store. As in training, neither can be
 * more than a few buckets ahead of the other (LEAD).
 */
#include "store/store.h"

#include "base/core/core.h"
#include "base/core/thread.h"
#include "base/number/rng.h"
#include "base/text/text.h"

enum { LEAD = 2 }; /* number of buckets by which one direction may be ahead of the other */

typedef struct bench {
    zr__store *store;
    int64_t buckets, bucket_bytes; /* number of buckets of the store (even); bytes of a bucket */
    unsigned char *bucket[2];      /* memory of the bucket that is read, and of the bucket that is written */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t done[2]; /* buckets read, written */
    bool stops;
    zr__failure failed; /* first failure of the reading thread */
} bench;

static zr_status move_bucket(const bench *b, bool writes, int64_t bucket)
{
    const int64_t at = bucket * b->bucket_bytes;
    return writes ? zr__store_write(b->store, at, b->bucket[1], b->bucket_bytes, "a test of the disk")
                  : zr__store_read(b->store, at, b->bucket[0], b->bucket_bytes, "a test of the disk");
}

static zr_status move_alone(const bench *b, bool writes, double *rate)
{
    const double begin = zr_clock_sec();
    for (int64_t i = 0; i < b->buckets; i++) ZR_TRY(move_bucket(b, writes, i));
    *rate = (double)(b->buckets * b->bucket_bytes) / (zr_clock_sec() - begin);
    return ZR_OK;
}

/* Publish the progress of this direction, and wait until it is less than LEAD buckets ahead of the other direction.
 * Return false if either direction has failed. */
static bool keep_near(bench *b, bool writes, int64_t done, bool fails)
{
    pthread_mutex_lock(&b->lock);
    b->done[writes] = done;
    if (fails) b->stops = true;
    pthread_cond_broadcast(&b->changed);
    while (!b->stops && done - b->done[!writes] >= LEAD) pthread_cond_wait(&b->changed, &b->lock);
    const bool goes_on = !b->stops;
    pthread_mutex_unlock(&b->lock);
    return goes_on;
}

/* Write the first half of the store (if `writes`), or read the second half. */
static zr_status move_half(bench *b, bool writes)
{
    const int64_t half = b->buckets / 2;
    zr_status st = ZR_OK;
    for (int64_t i = 0; i < half && st == ZR_OK; i++) {
        st = move_bucket(b, writes, writes ? i : half + i);
        if (!keep_near(b, writes, i + 1, st != ZR_OK)) break;
    }
    return st;
}

static void *read_half(void *arg)
{
    bench *b = arg;
    zr__failure_note(&b->failed, move_half(b, false));
    return NULL;
}

static zr_status move_mixed(bench *b, double *rate)
{
    pthread_t reader;
    const double begin = zr_clock_sec();
    ZR_CHECK(zr__thread_start(&reader, 0, read_half, b) == 0, ZR_ERR_MEMORY, "cannot start a thread to read");
    zr_status st = move_half(b, true);
    pthread_join(reader, NULL);
    ZR_TRY(st);
    ZR_TRY(zr__failure_tell(&b->failed));
    *rate = (double)(b->buckets * b->bucket_bytes) / (zr_clock_sec() - begin);
    return ZR_OK;
}

/* Fill memory with bytes that a disk cannot compress. */
static void fill(unsigned char *memory, int64_t bytes)
{
    const zr_rng rng = {.seed = 1, .purpose = ZR_RNG_INIT};
    for (int64_t i = 0; i + 16 <= bytes; i += 16) zr__rng_block(&rng, (uint64_t)(i / 16), (uint32_t *)(memory + i));
}

static zr_status measure(bench *b, zr__store_rates *rates)
{
    /* the first pass is slower, because some file systems record for each new block that it has been written */
    double first_time;
    ZR_TRY(move_alone(b, true, &first_time));
    ZR_TRY(move_alone(b, true, &rates->write));
    ZR_TRY(move_alone(b, false, &rates->read));
    ZR_TRY(move_mixed(b, &rates->mixed));
    const zr__store_facts facts = zr__store_facts_of(b->store);
    rates->transfers = facts.transfers;
    rates->direct = facts.direct;
    return ZR_OK;
}

zr_status zr__store_measure(const char *folder, int64_t bytes, int64_t block_bytes, int depth, zr__store_rates *rates)
{
    *rates = (zr__store_rates){0};
    ZR_CHECK(bytes > 0 && block_bytes > 0 && block_bytes % ZR_STORE_ALIGN == 0 && depth > 0, ZR_ERR_ARG,
             "%lld bytes in blocks of %lld bytes, %d at a time, to measure a disk; numbers above 0 are needed, and "
             "blocks of a multiple of %d bytes",
             (long long)bytes, (long long)block_bytes, depth, ZR_STORE_ALIGN);
    bench b = {.bucket_bytes = block_bytes * depth};
    const int64_t pair_bytes = 2 * b.bucket_bytes, passing_bytes = zr__passing_bytes(block_bytes, depth);
    b.buckets = (bytes + pair_bytes - 1) / pair_bytes * 2;
    ZR_AUTO_FREE unsigned char *memory = zr_alloc((size_t)(pair_bytes + passing_bytes + ZR_STORE_ALIGN));
    ZR_CHECK(memory, ZR_ERR_MEMORY, "no memory for %lld bytes to measure the disk of %s",
             (long long)(pair_bytes + passing_bytes), ZR_SHOWN(folder));
    unsigned char *aligned = memory + (ZR_STORE_ALIGN - (uintptr_t)memory % ZR_STORE_ALIGN) % ZR_STORE_ALIGN;
    for (int w = 0; w < 2; w++) b.bucket[w] = aligned + w * b.bucket_bytes;
    fill(b.bucket[1], b.bucket_bytes);
    const zr__store_config config = {.folder = &folder,
                                     .n_folders = 1,
                                     .bytes = b.buckets * b.bucket_bytes,
                                     .block_bytes = block_bytes,
                                     .depth = depth,
                                     .passing = aligned + pair_bytes,
                                     .owner = "the test of the disk"};
    zr_status st = zr__store_create(&config, &b.store);
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.changed, NULL);
    if (st == ZR_OK) {
        (void)zr__store_pin(b.store, aligned, pair_bytes);
        st = measure(&b, rates);
    }
    zr__store_destroy(&b.store);
    pthread_cond_destroy(&b.changed);
    pthread_mutex_destroy(&b.lock);
    return st;
}
