/** The check that all ranks train on the same bytes. Ranks that open the same file on the same host share a copy of an
 * input; a file on another host counts as another copy. One rank reads each copy, and the hashes of the copies are
 * compared. */
#include "train/ranks/ranks.h"

#include "base/paths/shards.h"
#include "base/text/text.h"
#include "config/config.h"
#include "train/host/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

typedef struct input {
    const zr__ranks *ranks;
    const char *key, *path;
    const zr__samples *data; /* the data; NULL if the input is weights */
    const zr_weights *weights;
    int64_t first, files;  /* the files of `weights` that belong to the input */
    zr__file_print *print; /* size and hash, for checkpoints; NULL if checkpoints do not need them */
} input;

/** Return a hash that identifies the running kernel, from its boot id or else its host name. Inode numbers alone do not
 * identify a file, since files on different hosts may have equal inode numbers. */
static uint64_t host_identity(void)
{
    char text[128];
    if (!zr__host_line("/proc/sys/kernel/random/boot_id", "", text, sizeof(text))) zr__host_name(text, sizeof(text));
    return XXH3_64bits(text, strlen(text));
}

/** Compute a number that identifies the files or the directory of an input: equal numbers mean the same files. For
 * data, the number also depends on the sizes, since a pattern may match more files for a rank that opens it later. */
static zr_status identify(const input *in, uint64_t *identity)
{
    ZR_AUTO(zr__shards_free) zr__shards shards = {0};
    struct stat info;
    *identity = host_identity();
    ZR_TRY(zr__shards_find(in->path, &shards));
    for (int64_t i = 0; i < shards.n; i++) {
        ZR_CHECK(stat(shards.path[i], &info) == 0, ZR_ERR_NOT_FOUND, "%s: %s", ZR_SHOWN(shards.path[i]),
                 strerror(errno));
        *identity = zr__hash_join(zr__hash_join(*identity, (uint64_t)info.st_dev), (uint64_t)info.st_ino);
    }
    if (!in->data) return ZR_OK;
    const zr_data_info data = zr__samples_info(in->data);
    const int64_t number[] = {data.files, data.bytes, data.tokens};
    *identity = zr__hash_join(*identity, XXH3_64bits(number, sizeof(number)));
    return ZR_OK;
}

/** Set *reader to the lowest rank that opens the same files as this rank. Set *places to whether any rank opens other
 * files. */
static zr_status find_reader(const zr__ranks *r, uint64_t identity, int *reader, bool *places)
{
    ZR_TRY(zr__run_gather(r, identity));
    *reader = r->comm->rank;
    *places = false;
    for (int q = r->comm->size - 1; q >= 0; q--) {
        if (zr__run_gathered(r, q) == identity)
            *reader = q;
        else
            *places = true;
    }
    return ZR_OK;
}

/** Read an input completely and compute its hash. If `hash` is NULL, do not read weights, because no hash is needed. */
static zr_status read_input(const input *in, uint64_t *hash)
{
    zr__progress p = {.ranks = in->ranks};
    snprintf(p.what, sizeof(p.what), "%s: looking at all of %s", in->key, ZR_SHOWN(in->path));
    if (in->data) return zr__samples_check(in->data, hash, zr__run_progress, &p);
    return hash ? zr__weights_hash(in->weights, in->first, in->files, hash, zr__run_progress, &p) : ZR_OK;
}

/** Check that a number is the same on all ranks, as zr__run_same does, but fail with ZR_ERR_DATA instead of
 * ZR_ERR_CONFIG. */
static zr_status same_of_input(const input *in, const char *what, uint64_t mine)
{
    char text[1024];
    snprintf(text, sizeof(text), "%s: %s of %s", in->key, what, ZR_SHOWN(in->path));
    zr_status st = zr__run_same(in->ranks, text, mine);
    return st == ZR_ERR_CONFIG ? ZR_FAIL(ZR_ERR_DATA, "%s", ZR__WHY()) : st;
}

/** Return the size of an input in bytes. */
static int64_t bytes_of(const input *in)
{
    return in->data ? zr__samples_info(in->data).bytes : zr__weights_bytes(in->weights, in->first, in->files);
}

static zr_status check_input(input *in)
{
    const zr__ranks *r = in->ranks;
    uint64_t identity = 0, hash = 0;
    int reader = 0;
    bool places = false;
    ZR_TRY(zr__run_agree(r, identify(in, &identity)));
    ZR_TRY(find_reader(r, identity, &reader, &places));
    zr_status st = reader == r->comm->rank ? read_input(in, places || in->print ? &hash : NULL) : ZR_OK;
    ZR_TRY(zr__run_agree(r, st));
    if (in->print) *in->print = (zr__file_print){bytes_of(in), hash};
    if (!places) return ZR_OK;
    ZR_TRY(zr__run_gather(r, hash));
    hash = zr__run_gathered(r, reader);
    if (in->data) ZR_TRY(same_of_input(in, "the number of tokens", (uint64_t)zr__samples_info(in->data).tokens));
    if (in->weights) ZR_TRY(same_of_input(in, "the number of bytes", (uint64_t)bytes_of(in)));
    return same_of_input(in, "the content", hash);
}

zr_status zr__run_same_inputs(const zr__ranks *r, const zr_config *c, const zr__inputs *inputs,
                              zr__input_prints *prints)
{
    /* samples of the program can only be read once */
    const bool shares = zr__config_val_share(c) > 0, opened = zr__samples_are_open(&inputs->val);
    const zr__samples *train = inputs->train.made.source ? NULL : &inputs->train,
                      *val = opened && !shares && !inputs->val.made.source ? &inputs->val : NULL;
    const zr_weights *weights = inputs->weights, *adapter = c->model.lora_init ? weights : NULL;
    const int64_t files = weights ? zr__weights_files(weights) : 0, base = files - (adapter ? 1 : 0);
    zr__file_print *of_base = c->model.lora.rank > 0 ? &prints->base : NULL;
    input all[] = {
        {.ranks = r, .key = "data.train", .path = c->data.train, .data = train, .print = &prints->train},
        {.ranks = r, .key = "data.val", .path = c->data.val, .data = val, .print = &prints->val},
        {.ranks = r, .key = "model.init", .path = c->model.init, .weights = weights, .files = base, .print = of_base},
        {.ranks = r,
         .key = "model.lora.init",
         .path = c->model.lora_init,
         .weights = adapter,
         .first = base,
         .files = 1}};
    prints->train.bytes = prints->val.bytes = prints->base.bytes = -1;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].data || all[i].weights) ZR_TRY(check_input(&all[i]));
    return ZR_OK;
}
