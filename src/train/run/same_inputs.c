/** The check that all ranks train on the same bytes: one rank reads each distinct copy of an input, and the hashes are
 * compared. Ranks that open one file on one host share a copy; a file of the same name on another host, or another
 * file, is another copy. */
#include "train/run/run.h"

#include "base/file/file.h"
#include "base/paths/shards.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "data/samples/samples.h"
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* Seconds before a long read reports its progress, and between later reports. */
#define QUIET_SEC 3.0
#define NEWS_SEC 15.0

typedef struct input {
    zr__run *run;
    const char *key, *path;
    const zr_data *data; /* or */
    const zr_weights *weights;
    zr__file_print *print; /* size and hash of data, as a checkpoint records them; NULL: weights */
} input;

/** Return a number of the running kernel (boot id, else host name), since inodes of different hosts may have the same
 * numbers. */
static uint64_t host_identity(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = file ? fread(text, 1, sizeof(text), file) : 0;
    if (file) fclose(file);
    if (n == 0 && gethostname(text, sizeof(text) - 1) == 0) n = strlen(text);
    return XXH3_64bits(text, n);
}

static zr_status add_identity(const char *path, uint64_t *identity)
{
    struct stat info;
    char shown[ZR_FILE_NAME_BYTES];
    ZR_CHECK(stat(path, &info) == 0, ZR_ERR_NOT_FOUND, "%s: %s", zr__text_escape(path, shown, sizeof(shown)),
             strerror(errno));
    *identity = zr__hash_join(zr__hash_join(*identity, (uint64_t)info.st_dev), (uint64_t)info.st_ino);
    return ZR_OK;
}

/** Add the size of the opened data to an identity, since a pattern may match other files on a rank that opens later. */
static uint64_t add_opened(const zr_data *data, uint64_t identity)
{
    const zr_data_info info = zr_data_get_info(data);
    const int64_t number[] = {info.files, info.bytes, info.tokens};
    return zr__hash_join(identity, XXH3_64bits(number, sizeof(number)));
}

/** Compute a number that is the same on ranks with the same files or directory. */
static zr_status identify(const input *in, uint64_t *identity)
{
    zr__shards shards;
    zr_status st = zr__shards_find(in->path, &shards);
    *identity = host_identity();
    for (int64_t i = 0; i < shards.n && st == ZR_OK; i++) st = add_identity(shards.path[i], identity);
    if (in->data) *identity = add_opened(in->data, *identity);
    zr__shards_free(&shards);
    return st;
}

static uint64_t gathered(const zr_comm *comm, int rank)
{
    return (uint64_t)comm->table[2 * rank] << 32 | (uint64_t)comm->table[2 * rank + 1];
}

/** Gather every rank's number in comm->table, to be read with gathered. */
static zr_status gather(zr__run *r, uint64_t mine)
{
    double halves[2] = {(double)(mine >> 32), (double)(mine & 0xffffffffu)};
    return zr__run_agreed(r, zr_comm_scalars(r->comm, halves, 2, NULL));
}

/** Find the lowest rank that has this rank's file. *places: ranks have different files of this name. */
static zr_status find_looker(zr__run *r, uint64_t identity, int *looker, bool *places)
{
    ZR_TRY(gather(r, identity));
    *looker = r->comm->rank;
    *places = false;
    for (int q = r->comm->size - 1; q >= 0; q--) {
        if (gathered(r->comm, q) == identity)
            *looker = q;
        else
            *places = true;
    }
    return ZR_OK;
}

void zr__run_progress(void *arg, int64_t done, int64_t all)
{
    zr__progress *p = arg;
    zr__comm_show(p->run->comm, ZR_ENGINE_MOVED, (uint64_t)done);
    char text[640], now[ZR_SIZE_BYTES], end[ZR_SIZE_BYTES];
    if (p->next_news == 0) p->next_news = zr_clock_sec() + QUIET_SEC;
    if (zr_clock_sec() < p->next_news) return;
    p->next_news = zr_clock_sec() + NEWS_SEC;
    snprintf(text, sizeof(text), "%s before the first step: %s of %s", p->what, zr__text_size((double)done, now),
             zr__text_size((double)all, end));
    zr__run_note(p->run, text);
}

static zr_status look(const input *in, uint64_t *hash)
{
    char shown[ZR_FILE_NAME_BYTES];
    zr__progress p = {.run = in->run};
    snprintf(p.what, sizeof(p.what), "%s: looking at all of %s", in->key,
             zr__text_escape(in->path, shown, sizeof(shown)));
    if (in->data) return zr__data_check(in->data, hash, zr__run_progress, &p);
    return hash ? zr__weights_hash(in->weights, hash, zr__run_progress, &p) : ZR_OK;
}

/** Compare a number over the ranks: zr__comm_same, with ZR_ERR_DATA in place of ZR_ERR_CONFIG. */
static zr_status same(const input *in, const char *what, uint64_t mine)
{
    char text[1024], shown[ZR_FILE_NAME_BYTES];
    snprintf(text, sizeof(text), "%s: %s of %s", in->key, what, zr__text_escape(in->path, shown, sizeof(shown)));
    zr_status st = zr__run_agreed(in->run, zr__comm_same(in->run->comm, text, mine));
    if (st != ZR_ERR_CONFIG) return st;
    snprintf(text, sizeof(text), "%s", zr_error_message());
    return ZR_FAIL(ZR_ERR_DATA, "%s", text);
}

static zr_status compare(const input *in, uint64_t hash)
{
    if (in->data) ZR_TRY(same(in, "the number of tokens", (uint64_t)zr_data_tokens(in->data)));
    if (in->weights) ZR_TRY(same(in, "the number of bytes", (uint64_t)zr__weights_bytes(in->weights)));
    return same(in, "the content", hash);
}

static zr_status check_input(input *in)
{
    zr__run *r = in->run;
    uint64_t identity = 0, hash = 0;
    int looker = 0;
    bool places = false;
    ZR_TRY(zr__run_agree(r, identify(in, &identity)));
    ZR_TRY(find_looker(r, identity, &looker, &places));
    zr_status st = looker == r->comm->rank ? look(in, places || in->data ? &hash : NULL) : ZR_OK;
    ZR_TRY(zr__run_agree(r, st));
    if (in->data) *in->print = (zr__file_print){zr_data_get_info(in->data).bytes, hash};
    if (!places) return ZR_OK;
    ZR_TRY(gather(r, hash));
    return compare(in, gathered(r->comm, looker));
}

zr_status zr__run_same_inputs(zr__run *r)
{
    const zr_config *c = r->config;
    input all[] = {{.run = r, .key = "data.train", .path = c->data.train, .data = r->inputs.train, .print = &r->train},
                   {.run = r, .key = "data.val", .path = c->data.val, .data = r->inputs.val, .print = &r->val},
                   {.run = r, .key = "model.init", .path = c->model.init, .weights = r->inputs.weights}};
    r->train.bytes = r->val.bytes = -1;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].data || all[i].weights) ZR_TRY(check_input(&all[i]));
    return ZR_OK;
}
