/** A checkpoint: all ranks write what they own, in ranges of files of whole tensors; rank 0 makes the files, says in
 * the manifest what is in them, and gives the directory its name. */
#include "train/save.h"

#include "base/text.h"
#include "train/checkpoint_run.h"
#include "train/family.h"
#include "train/resume.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Of the threads of a process so many write at a time: a writer has two buffers of ZR_CHUNK_BYTES, and a process may
 * not take more than its plan and 48 MiB. */
#define WRITERS_AT_ONCE 2

enum { WHY_BYTES = 1024, NAME_BYTES = 64, CONFIG = ZR_CHECKPOINT_STATES, FILES = CONFIG + 1 };

/** A file of the checkpoint. */
typedef struct part {
    char name[NAME_BYTES];
    zr_chunk *mine; /* what this rank wrote */
    int64_t n_mine;
    zr_chunk *all; /* rank 0: of all ranks, and the header */
    int64_t n_all;
} part;

typedef struct save {
    zr__run *run;
    char run_dir[PATH_MAX], tmp[PATH_MAX];
    int n_states;     /* parameters and states of the optimizer, a file each */
    part part[FILES]; /* by state; config.json */
    int64_t bytes;
} save;

zr_status zr__state_file(const zr_plan *plan, int state, char *name, size_t size)
{
    const char *slot = state == ZR_STATE_PARAM ? "model" : plan->optimizer.slot_name[state - 1];
    ZR_ASSERT(slot);
    snprintf(name, size, "%s.safetensors", slot);
    return ZR_OK;
}

static int engine_state(int state)
{
    return state == 0 ? ZR_STATE_PARAM : ZR_STATE_SLOT + state - 1;
}

static void clear(save *s)
{
    for (int i = 0; i < FILES; i++) {
        zr_free(s->part[i].mine);
        zr_free(s->part[i].all);
    }
}

/* ---- files, by rank 0 ------------------------------------------------------------------------- */

static zr_status make_files(const save *s)
{
    zr__run *r = s->run;
    char path[PATH_MAX];
    zr_tensor_spec *specs = NULL;
    int64_t n = 0;
    ZR_TRY(r->model.family->write(s->tmp, &r->model.numbers));
    ZR_TRY(zr__param_specs(r->plan->graph[ZR_SCHEDULE_TRAIN], &specs, &n));
    zr_status st = ZR_OK;
    for (int i = 0; i < s->n_states && st == ZR_OK; i++) {
        st = zr__path_join(path, s->tmp, s->part[i].name);
        if (st == ZR_OK) st = zr_safetensors_create(path, specs, n);
    }
    zr_free(specs);
    return st;
}

/** Is there anything of the name of this step's checkpoint? `path` is where. */
static bool has_name(const save *s, char path[PATH_MAX])
{
    struct stat st;
    char name[ZR_CHECKPOINT_NAME_BYTES];
    zr_checkpoint_name(s->run->result->steps, name);
    return zr__path_join(path, s->run_dir, name) == ZR_OK && (lstat(path, &st) == 0 || errno != ENOENT);
}

/** One of this step that is there already could not be used here, or the run would have begun with it; but another
 * version of zr, or someone who mends it, may have use for it. */
static zr_status move_aside(const save *s)
{
    enum { SUFFIX_BYTES = 16 };
    struct stat st;
    char from[PATH_MAX], to[PATH_MAX + SUFFIX_BYTES], shown[WHY_BYTES], text[WHY_BYTES + 128];
    if (!has_name(s, from)) return ZR_OK;
    snprintf(to, sizeof(to), "%s.old", from);
    for (int i = 2; lstat(to, &st) == 0; i++) snprintf(to, sizeof(to), "%s.old%d", from, i);
    zr__text_escape(to, shown, sizeof(shown));
    ZR_CHECK(rename(from, to) == 0, ZR_ERR_IO, "what is in the place of this checkpoint cannot be renamed to %s: %s",
             shown, strerror(errno));
    snprintf(text, sizeof(text), "step %lld: what was in the place of this checkpoint is kept as %s",
             (long long)s->run->result->steps, shown);
    zr__run_note(s->run, text);
    return ZR_OK;
}

static zr_status begin(const save *s)
{
    ZR_TRY(move_aside(s));
    zr__resume_forget(s->run, s->run->result->steps);
    ZR_TRY(zr_checkpoint_begin(s->run_dir, s->run->result->steps));
    return make_files(s);
}

/* ---- tensors, by all -------------------------------------------------------------------------- */

/** This rank's part of one file, on its way. */
typedef struct writing {
    const zr_safetensors *layout;
    zr_chunk_writer *writer;
    bool finite; /* what is not is refused */
} writing;

static zr_status put(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const writing *w = arg;
    const zr_safetensors_tensor *tensor = zr_safetensors_find(w->layout, param->name);
    ZR_ASSERT(tensor);
    bool bad = false;
    for (int64_t i = 0; w->finite && i < n; i++) bad |= !isfinite(in[i]);
    ZR_CHECK(!bad, ZR_ERR_DIVERGED, "%s is not finite", param->name);
    return zr_chunk_writer_put(w->writer, tensor->offset + 4 * first, in, 4 * n);
}

static zr_status keep_chunks(const writing *w, part *p)
{
    const zr_chunk *chunk = zr_chunk_writer_chunks(w->writer, &p->n_mine);
    p->mine = p->n_mine > 0 ? zr_alloc(sizeof(*p->mine) * (size_t)p->n_mine) : NULL;
    ZR_CHECK(p->mine || p->n_mine == 0, ZR_ERR_MEMORY, "no memory for the checksums of %s", p->name);
    if (p->mine) memcpy(p->mine, chunk, sizeof(*p->mine) * (size_t)p->n_mine);
    return ZR_OK;
}

static zr_status write_part(save *s, int state)
{
    char path[PATH_MAX];
    part *p = &s->part[state];
    zr_safetensors *layout = NULL;
    zr_status st = ZR_OK;
    ZR_TRY(zr__path_join(path, s->tmp, p->name));
    ZR_TRY(zr_safetensors_open(path, &layout));
    writing w = {.layout = layout, .finite = state == 0};
    ZR_TRY_GOTO(st, zr_chunk_writer_open(path, &w.writer), done);
    ZR_TRY_GOTO(st, zr_engine_read(s->run->engine, engine_state(state), put, &w), done);
    ZR_TRY_GOTO(st, zr_chunk_writer_end(w.writer), done);
    ZR_TRY_GOTO(st, keep_chunks(&w, p), done);
done:
    zr_chunk_writer_close(&w.writer);
    zr_safetensors_close(&layout);
    return st;
}

static zr_status write_mine(save *s)
{
    for (int i = 0; i < s->n_states; i++) ZR_TRY(write_part(s, i));
    return ZR_OK;
}

/** Threads of a process take turns. */
static zr_status write_all(save *s)
{
    zr__run *r = s->run;
    zr_status st = ZR_OK;
    char why[WHY_BYTES] = "";
    bool threads = strcmp(r->comm->transport, "threads") == 0;
    int turns = threads ? (r->comm->size + WRITERS_AT_ONCE - 1) / WRITERS_AT_ONCE : 1;
    for (int turn = 0; turn < turns; turn++) {
        if (r->comm->rank % turns == turn) st = write_mine(s);
        if (st != ZR_OK && !why[0]) snprintf(why, sizeof(why), "%s", zr_error_message());
        if (turn < turns - 1) ZR_TRY(zr__run_agreed(r, zr_comm_barrier(r->comm)));
    }
    return zr__run_agree(r, st == ZR_OK ? ZR_OK : ZR_FAIL(st, "%s", why));
}

/* ---- checksums, to rank 0 --------------------------------------------------------------------- */

/** Everyone's chunks of one file, the same number of bytes of each. */
typedef struct arrival {
    unsigned char *to; /* rank after rank */
    int64_t piece;
    int ranks;
} arrival;

static zr_status on_chunks(void *arg, int64_t first_byte, int64_t bytes, const void *const *pieces)
{
    const arrival *a = arg;
    for (int q = 0; q < a->ranks; q++) memcpy(a->to + q * a->piece + first_byte, pieces[q], (size_t)bytes);
    return ZR_OK;
}

/** `count`: of each rank. `send`: this rank's, `most` of them; `all`: rank 0's. */
static zr_status collect(save *s, part *p, const int64_t *count, int64_t most, const zr_chunk *send, zr_chunk *all)
{
    zr__run *r = s->run;
    arrival a = {(unsigned char *)all, most * (int64_t)sizeof(*send), r->comm->size};
    ZR_TRY(zr__run_agreed(r, zr_comm_collect(r->comm, 0, send, a.piece, on_chunks, &a)));
    for (int q = 0; all && q < r->comm->size; q++) {
        memmove(all + p->n_all, all + q * most, sizeof(*all) * (size_t)count[q]);
        p->n_all += count[q];
    }
    return ZR_OK;
}

static zr_status gather_part(save *s, part *p, const int64_t *count)
{
    zr__run *r = s->run;
    int64_t most = 1;
    for (int q = 0; q < r->comm->size; q++) most = count[q] > most ? count[q] : most;
    zr_chunk *send = zr_alloc(sizeof(*send) * (size_t)most);
    if (r->comm->rank == 0) p->all = zr_alloc(sizeof(*p->all) * (size_t)(most * r->comm->size));
    bool room = send && (p->all || r->comm->rank != 0);
    zr_status st = room ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for the checksums of %s", p->name);
    st = zr__run_agree(r, st);
    if (st == ZR_OK && p->mine) memcpy(send, p->mine, sizeof(*send) * (size_t)p->n_mine);
    if (st == ZR_OK) st = collect(s, p, count, most, send, p->all);
    zr_free(send);
    return st;
}

static zr_status gather_chunks(save *s)
{
    zr__run *r = s->run;
    for (int i = 0; i < s->n_states; i++) {
        double mine = (double)s->part[i].n_mine;
        ZR_TRY(zr__run_agreed(r, zr_comm_scalars(r->comm, &mine, 1, r->comm->table)));
        int64_t *count = zr_alloc(sizeof(*count) * (size_t)r->comm->size);
        for (int q = 0; count && q < r->comm->size; q++) count[q] = (int64_t)r->comm->table[q];
        zr_status st =
            zr__run_agree(r, count ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for %d numbers", r->comm->size));
        if (st == ZR_OK) st = gather_part(s, &s->part[i], count);
        zr_free(count);
        ZR_TRY(st);
    }
    return ZR_OK;
}

/* ---- the manifest, by rank 0 ------------------------------------------------------------------ */

/** Bytes [0, end) of a file, which rank 0 wrote; end -1: all of it. */
static zr_status add_own(save *s, part *p, int64_t end)
{
    char path[PATH_MAX];
    zr_chunk *own = NULL;
    int64_t n = 0;
    ZR_TRY(zr__path_join(path, s->tmp, p->name));
    ZR_TRY(zr_chunks_of_file(path, 0, end, &own, &n));
    zr_chunk *all = zr_alloc(sizeof(*all) * (size_t)(p->n_all + n + 1));
    if (all && n > 0) memcpy(all, own, sizeof(*all) * (size_t)n);
    if (all && p->n_all > 0) memcpy(all + n, p->all, sizeof(*all) * (size_t)p->n_all);
    zr_free(own);
    zr_free(p->all);
    p->all = all;
    p->n_all += n;
    ZR_CHECK(all, ZR_ERR_MEMORY, "no memory for the checksums of %s", p->name);
    return ZR_OK;
}

/** Where the header of a file of tensors ends. */
static zr_status add_header(save *s, part *p)
{
    char path[PATH_MAX];
    zr_safetensors *file = NULL;
    ZR_TRY(zr__path_join(path, s->tmp, p->name));
    ZR_TRY(zr_safetensors_open(path, &file));
    int64_t end = zr_safetensors_count(file) > 0 ? zr_safetensors_get(file, 0)->offset : -1;
    zr_safetensors_close(&file);
    return add_own(s, p, end);
}

static void describe(const zr__run *r, zr__checkpoint_run *run)
{
    const zr_config *c = r->given ? r->given : r->config;
    *run = (zr__checkpoint_run){.seed = c->train.seed,
                                .updates = zr_engine_updates(r->engine),
                                .samples = zr__run_sample(r, r->result->steps),
                                .skipped = r->result->skipped,
                                .skipped_in_row = r->skipped_in_row,
                                .loss = r->result->loss,
                                .scaler = r->scaler,
                                .ranks = r->comm->size,
                                .train = r->train,
                                .val = r->val};
    snprintf(run->optimizer, sizeof(run->optimizer), "%s", r->plan->optimizer.name);
    snprintf(run->tokenizer, sizeof(run->tokenizer), "%s", c->data.tokenizer ? c->data.tokenizer : "");
}

static zr_status write_manifest(save *s)
{
    zr__run *r = s->run;
    zr__checkpoint_run run;
    zr_manifest_file file[FILES];
    char *text = NULL;
    int n = 0;
    for (int i = 0; i < FILES; i++) {
        const part *p = &s->part[i];
        if (!p->name[0]) continue;
        file[n] = (zr_manifest_file){.name = p->name, .chunk = p->all, .n_chunks = p->n_all};
        for (int64_t c = 0; c < p->n_all; c++) file[n].bytes += p->all[c].bytes;
        s->bytes += file[n++].bytes;
    }
    describe(r, &run);
    ZR_TRY(zr_config_to_json(r->given ? r->given : r->config, &run.config));
    zr_status st = zr__checkpoint_run_print(&run, &r->plan->layout, &text);
    zr_manifest manifest = {.step = r->result->steps, .build = zr_version(), .run = text, .file = file, .n_files = n};
    if (st == ZR_OK) st = zr_manifest_write(s->tmp, &manifest);
    zr__checkpoint_run_clear(&run);
    zr_free(text);
    return st;
}

static zr_status describe_all(save *s)
{
    for (int i = 0; i < s->n_states; i++) ZR_TRY(add_header(s, &s->part[i]));
    ZR_TRY(add_own(s, &s->part[CONFIG], -1));
    return write_manifest(s);
}

/* ---- older ones ------------------------------------------------------------------------------- */

/** As far as can be told without reading all of it. */
static bool is_whole(const save *s, int64_t step)
{
    char path[PATH_MAX], name[ZR_CHECKPOINT_NAME_BYTES];
    zr_manifest *manifest = NULL;
    if (zr__resume_passed_over(s->run, step)) return false;
    zr_checkpoint_name(step, name);
    bool whole = zr__path_join(path, s->run_dir, name) == ZR_OK && zr_manifest_read(path, &manifest) == ZR_OK;
    zr_manifest_free(&manifest);
    return whole;
}

/** Those of later steps are none of this run's, but of one that it did not go on from: they stay. So do those that are
 * not whole, which must not count as kept either. */
static zr_status remove_old(const save *s)
{
    const zr_config *c = s->run->config;
    int64_t *step = NULL, n = 0, kept = 0;
    ZR_TRY(zr_checkpoint_list(s->run_dir, &step, &n));
    zr_status st = ZR_OK;
    for (int64_t i = 0; i < n && st == ZR_OK; i++) {
        const bool for_good = c->checkpoint.every > 0 && step[i] % c->checkpoint.every == 0;
        if (step[i] > s->run->result->steps || (for_good && kept >= c->train.keep_last)) continue;
        if (!is_whole(s, step[i]) || kept++ < c->train.keep_last) continue;
        st = zr_checkpoint_remove(s->run_dir, step[i]);
    }
    zr_free(step);
    return st;
}

static void remove_old_or_tell(const save *s)
{
    char text[WHY_BYTES + 64];
    if (remove_old(s) == ZR_OK) return;
    snprintf(text, sizeof(text), "an older checkpoint stays: %.1000s", zr_error_message());
    zr__run_note(s->run, text);
}

/* ---- all of it -------------------------------------------------------------------------------- */

static zr_status name_all(save *s)
{
    zr__run *r = s->run;
    char name[ZR_CHECKPOINT_NAME_BYTES], tmp[ZR_CHECKPOINT_NAME_BYTES + 4];
    if (r->comm->rank == 0) {
        ZR_TRY(zr__run_dir_find(&r->dir));
        snprintf(s->run_dir, sizeof(s->run_dir), "%s", r->dir.path);
    }
    s->n_states = 1 + r->plan->optimizer.n_slots;
    for (int i = 0; i < s->n_states; i++) ZR_TRY(zr__state_file(r->plan, i, s->part[i].name, NAME_BYTES));
    snprintf(s->part[CONFIG].name, NAME_BYTES, "config.json");
    zr_checkpoint_name(r->result->steps, name);
    snprintf(tmp, sizeof(tmp), "%s.tmp", name);
    return r->comm->rank == 0 ? zr__path_join(s->tmp, s->run_dir, tmp) : ZR_OK;
}

static zr_status write_tensors(save *s)
{
    zr__run *r = s->run;
    ZR_TRY(zr__run_agree(r, r->comm->rank == 0 ? begin(s) : ZR_OK));
    ZR_TRY(write_all(s));
    ZR_TRY(gather_chunks(s));
    return zr__run_agree(r, r->comm->rank == 0 ? describe_all(s) : ZR_OK);
}

/** What is left of an attempt goes: its space is wanted by what comes later. What has the checkpoint's name may be
 * whole, with only that it stays unknown, or is another's that could not be moved: it stays. */
static void give_up(const save *s)
{
    char why[WHY_BYTES], path[PATH_MAX];
    if (has_name(s, path)) return;
    snprintf(why, sizeof(why), "%s", zr_error_message());
    if (zr_checkpoint_remove(s->run_dir, s->run->result->steps) == ZR_OK || !why[0]) return;
    (void)ZR_FAIL(ZR_ERR_IO, "%s", why);
}

/** The steps up to it are in metrics.jsonl, also after a power cut. Without `latest` it is as good: zr does not read
 * that. */
static zr_status commit(const save *s)
{
    char text[WHY_BYTES + 128];
    zr__run_dir_sync_log(&s->run->dir);
    zr_status st = zr_checkpoint_commit(s->run_dir, s->run->result->steps);
    if (st != ZR_ERR_CREATE) return st;
    snprintf(text, sizeof(text), "the checkpoint of step %lld is written, but latest could not be: %.1000s",
             (long long)s->run->result->steps, zr_error_message());
    zr__run_note(s->run, text);
    return ZR_OK;
}

static zr_status save_all(save *s)
{
    zr__run *r = s->run;
    bool first = r->comm->rank == 0;
    ZR_TRY(zr__run_agree(r, name_all(s)));
    ZR_TRY(zr__run_agreed(r, zr_comm_broadcast(r->comm, 0, s->run_dir, PATH_MAX)));
    ZR_TRY(zr__run_agreed(r, zr_comm_broadcast(r->comm, 0, s->tmp, PATH_MAX)));
    zr_status st = write_tensors(s);
    if (st != ZR_OK && first && r->result->agreed) give_up(s);
    ZR_TRY(st);
    st = zr__run_agree(r, first ? commit(s) : ZR_OK);
    if (st != ZR_OK && first) give_up(s);
    ZR_TRY(st);
    if (first) remove_old_or_tell(s);
    return ZR_OK;
}

zr_status zr__run_checkpoint(zr__run *r)
{
    if (r->saved_step == r->result->steps) return ZR_OK;
    save s = {.run = r};
    double begin_sec = zr_clock_sec();
    zr_status st = save_all(&s);
    clear(&s);
    ZR_TRY(st);
    r->saved_step = r->result->steps;
    zr_train_save told = {.step = r->saved_step, .bytes = s.bytes, .sec = zr_clock_sec() - begin_sec, .dir = s.run_dir};
    r->save_sec = told.sec;
    if (r->comm->rank == 0 && r->observer->saved) r->observer->saved(r->observer->arg, &told);
    return ZR_OK;
}

zr_status zr__run_checkpoint_dir(zr__run *r, char path[PATH_MAX])
{
    char name[ZR_CHECKPOINT_NAME_BYTES];
    zr_checkpoint_name(r->saved_step, name);
    ZR_TRY(zr__run_dir_find(&r->dir));
    return zr__path_join(path, r->dir.path, name);
}

zr_status zr__run_save(zr__run *r)
{
    char why[WHY_BYTES], text[WHY_BYTES + 160];
    const long long step = r->result->steps;
    if (r->suspect) {
        snprintf(text, sizeof(text), "step %lld: no checkpoint, since its loss is not finite", step);
        zr__run_note(r, text);
        return ZR_OK;
    }
    zr__run_enter(r, ZR__PHASE_SAVE);
    zr_status st = zr__run_checkpoint(r);
    if (st == ZR_OK || !r->result->agreed) return st;
    snprintf(why, sizeof(why), "%s", zr_error_message());
    snprintf(text, sizeof(text), "the checkpoint of step %lld could not be written; training goes on: %.1000s", step,
             why);
    zr__run_note(r, text);
    if (st != ZR_ERR_DIVERGED && !r->save_failure[0]) /* weights that are not finite are found again at the end */
        snprintf(r->save_failure, sizeof(r->save_failure), "the checkpoint of step %lld could not be written: %.400s",
                 step, why);
    return ZR_OK;
}
