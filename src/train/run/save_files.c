/** The content of a checkpoint. Rank 0 creates files for whole tensors, into which every rank writes the elements that
 * it owns. Rank 0 also writes the manifest. */
#include "train/run/save_files.h"

#include "base/file/folder.h"
#include "base/number/finite.h"
#include "comm/comm.h"
#include "plan/list/place.h"
#include "train/dir/run_files.h"
#include "train/family/adapter.h"

#include <stdio.h>
#include <string.h>

enum { CONFIG = ZR_CHECKPOINT_STATES, ADAPTER };

/** Return whether a parameter passes between ranks as records, on whatever rank. Only such parameters have errors, or
 * are sent as differences. */
static bool is_quantised(const zr_plan *plan, const zr_param_info *param)
{
    return !param->frozen && zr__unit_has_records(plan, plan->graph[ZR_SCHEDULE_TRAIN], param->unit);
}

/** Return the number of files with states, without errors of gradients. */
static int state_files(const zr_plan *plan)
{
    return 1 + plan->n_slots + plan->layout.weight_differences;
}

int zr__state_files(const zr_plan *plan)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    int n = state_files(plan);
    bool any = false;
    for (int32_t p = 0; p < zr_graph_params(g) && !any; p++) any = is_quantised(plan, zr_graph_param(g, p));
    for (int level = 0; any && level < ZR_ERROR_LEVELS; level++) n += zr__error_group(plan, level) != ZR_GROUP_SELF;
    return n;
}

int zr__state_of_file(const zr_plan *plan, int file)
{
    const int slots = plan->n_slots, states = state_files(plan);
    if (file >= states) return ZR_STATE_ERROR + file - states;
    return file == 0 ? ZR_STATE_PARAM : file > slots ? ZR_STATE_SENT : ZR_STATE_SLOT + file - 1;
}

void zr__state_file(const zr_plan *plan, int file, char name[ZR_STATE_FILE_BYTES])
{
    static const char *const others[] = {"sent", "gradient_error", "partial_sum_error"}; /* from ZR_STATE_SENT on */
    const int state = zr__state_of_file(plan, file);
    snprintf(name, ZR_STATE_FILE_BYTES, "%s.safetensors",
             state == ZR_STATE_PARAM  ? "model"
             : state >= ZR_STATE_SENT ? others[state - ZR_STATE_SENT]
                                      : zr_plan_slot_name(plan, state - ZR_STATE_SLOT));
}

static int file_of(const zr_plan *plan, int state)
{
    int file = 0;
    while (zr__state_of_file(plan, file) != state) file++;
    return file;
}

/** Return the parameters that have a state: each of two optimizers has its own parameters. */
static zr__params params_of(const zr_plan *plan, int file)
{
    const int state = zr__state_of_file(plan, file);
    if (state == ZR_STATE_PARAM) return ZR_PARAMS_STORED;
    if (state >= ZR_STATE_SENT || plan->optimizer.ortho.steps == 0) return ZR_PARAMS_TRAINED;
    return state < ZR_STATE_SLOT + plan->optimizer.n_slots ? ZR_PARAMS_HIDDEN : ZR_PARAMS_REST;
}

zr_status zr__state_specs(const zr_plan *plan, int file, zr__tensor_spec **specs, int64_t *n)
{
    const zr_graph *g = plan->graph[ZR_SCHEDULE_TRAIN];
    const int state = zr__state_of_file(plan, file), level = state - ZR_STATE_ERROR;
    ZR_TRY(zr__param_specs(g, params_of(plan, file), specs, n));
    if (state < ZR_STATE_SENT) return ZR_OK;
    const int64_t all = *n;
    *n = 0;
    for (int64_t i = 0; i < all; i++) {
        zr__tensor_spec spec = (*specs)[i];
        if (!is_quantised(plan, zr__param_named(g, spec.name))) continue;
        if (level >= 0) spec.shape.dim[0] *= plan->group[zr__error_group(plan, level)].size;
        (*specs)[(*n)++] = spec;
    }
    return ZR_OK;
}

double zr__state_bytes(const zr_plan *plan)
{
    double bytes = 0;
    for (int file = 0; file < zr__state_files(plan); file++) {
        ZR_AUTO_FREE zr__tensor_spec *specs = NULL;
        int64_t n = 0;
        if (zr__state_specs(plan, file, &specs, &n) != ZR_OK) continue;
        for (int64_t i = 0; i < n; i++) bytes += 4.0 * (double)zr_shape_elems(&specs[i].shape);
    }
    return bytes;
}

/* ---- files, by rank 0 ------------------------------------------------------------------------- */

static const zr_graph *graph_of(const zr__save *s)
{
    return s->plan->graph[ZR_SCHEDULE_TRAIN];
}

zr_status zr__save_make_files(const zr__save *s, const zr__family_model *model, const char *init,
                              const zr__hf_source *source)
{
    char path[PATH_MAX];
    int64_t n = 0;
    ZR_AUTO(zr__adapter_clear) zr__adapter adapter = {0};
    ZR_TRY(zr__hf_write_like(s->tmp, model->family, &model->config, source, ZR_F32, true));
    if (s->adapters) ZR_TRY(zr__adapter_describe(graph_of(s), model, init, &adapter));
    if (s->adapters) ZR_TRY(zr__adapter_write(s->tmp, &adapter));
    for (int i = 0; i < s->n_states; i++) {
        ZR_AUTO_FREE zr__tensor_spec *specs = NULL;
        ZR_TRY(zr__state_specs(s->plan, i, &specs, &n));
        ZR_TRY(zr__path_join(path, s->tmp, s->part[i].name));
        ZR_TRY(zr__safetensors_create(path, NULL, specs, n));
    }
    return ZR_OK;
}

/* ---- tensors, by all ranks -------------------------------------------------------------------- */

/** Copy n items of `size` bytes into the list, as the items of this rank. */
static zr_status keep_mine(zr__save_list *list, const void *from, int64_t n, size_t size, const char *name)
{
    list->n_mine = n;
    list->mine = n > 0 ? zr_alloc(size * (size_t)n) : NULL;
    ZR_CHECK(list->mine || n == 0, ZR_ERR_MEMORY, "no memory for the checksums of %s", name);
    if (n > 0) memcpy(list->mine, from, size * (size_t)n);
    return ZR_OK;
}

static zr_status keep_checksums(const zr__chunk_writer *writer, zr__save_part *p)
{
    int64_t n_chunks, n_slices;
    const zr__chunk *chunk = zr__chunk_writer_chunks(writer, &n_chunks);
    const zr__slices *slices = zr__chunk_writer_slices(writer, &n_slices);
    ZR_TRY(keep_mine(&p->chunks, chunk, n_chunks, sizeof(*chunk), p->name));
    return keep_mine(&p->slices, slices, n_slices, sizeof(*slices), p->name);
}

/** Close the file that is being written, if any, and leave it incomplete. */
static void drop_file(zr__save *s)
{
    if (s->file < 0) return;
    zr__chunk_writer_close(&s->writer);
    zr_safetensors_close(&s->layout);
    s->file = -1;
    s->param = NULL;
}

static zr_status open_state_file(zr__save *s, int file)
{
    char path[PATH_MAX];
    s->file = file;
    ZR_TRY(zr__path_join(path, s->tmp, s->part[file].name));
    ZR_TRY(zr_safetensors_open(path, &s->layout));
    return zr__chunk_writer_open(path, zr__comm_process_ranks(s->ranks->comm), &s->writer);
}

/** Complete the open file, unless it is `file`. States are written one after the other, so a file is complete when the
 * next file begins. */
static zr_status close_other(zr__save *s, int file)
{
    zr_status st = ZR_OK;
    if (s->file < 0 || s->file == file) return ZR_OK;
    st = zr__chunk_writer_end(s->writer);
    if (st == ZR_OK) st = keep_checksums(s->writer, &s->part[s->file]);
    drop_file(s);
    return st;
}

/** For a matrix whose columns are divided over tensor-parallel ranks, return the region of the file with the rows that
 * lie completely in this rank's shard. In this region the rank writes only its own columns of each row, and other ranks
 * write the remaining columns. If rows have several parts (zr_cut), each part is treated as a row. Return an empty
 * region for any other parameter, and for fewer than two such rows. Elements outside the region are written as
 * contiguous ranges. `offset` is the place in the file of the parameter's first element, or of its first error of this
 * rank. */
static zr__slices slices_of(const zr_engine *engine, const zr_param_info *param, int state, int64_t offset)
{
    const int64_t parts = param->cut.parts;
    int64_t first, n, inner = sizeof(float);
    if (parts == 0) return (zr__slices){0};
    zr__engine_part(engine, param, state, &first, &n);
    for (int d = param->cut.dim + 1; d < param->whole.ndim; d++) inner *= param->whole.dim[d];
    const int64_t here = param->shape.dim[param->cut.dim] / parts * inner;
    const int64_t there = param->whole.dim[param->cut.dim] / parts * inner;
    const int64_t begin = (first * (int64_t)sizeof(float) + here - 1) / here;
    const int64_t end = (first + n) * (int64_t)sizeof(float) / here;
    if (end - begin < 2) return (zr__slices){0};
    return (zr__slices){offset + begin * there, offset + end * there, there, here};
}

/** Write elements into the file of a state. Fail with ZR_ERR_DIVERGED if a weight is not finite, since the checkpoint
 * would be useless. */
static zr_status put_in_file(zr__save *s, int file, const zr_param_info *param, int64_t first, int64_t n,
                             const float *in)
{
    if (s->begin_sec == 0) s->begin_sec = zr_clock_sec();
    ZR_TRY(close_other(s, file));
    if (s->file < 0) ZR_TRY(open_state_file(s, file));
    const zr_safetensors_tensor *tensor = zr_safetensors_find(s->layout, param->name);
    ZR_ASSERT(tensor);
    const int64_t before = first - first % zr_shape_elems(&param->whole); /* errors of other ranks */
    if (s->param != param)
        s->slices = slices_of(*s->ranks->engine, param, zr__state_of_file(s->plan, file), tensor->offset + 4 * before);
    s->param = param;
    ZR_CHECK(file != 0 || zr__first_bad(in, n) < 0, ZR_ERR_DIVERGED, "%s is not finite", param->name);
    const int64_t offset = tensor->offset + 4 * first;
    const bool sliced = offset >= s->slices.begin && offset < s->slices.end;
    return zr__chunk_writer_put(s->writer, sliced ? &s->slices : NULL, offset, in, 4 * n);
}

zr_status zr__save_put(void *arg, int state, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    zr__save *s = arg;
    /* The base of adapters is not saved, because a resumed run reads it from model.init. */
    if (s->adapters && !param->adapter) return ZR_OK;
    zr_status st = put_in_file(s, file_of(s->plan, state), param, first, n, in);
    if (st != ZR_OK) drop_file(s);
    return st;
}

zr_status zr__save_put_end(void *arg)
{
    zr__save *s = arg;
    ZR_TRY(close_other(s, -1));
    s->put_sec = s->begin_sec > 0 ? zr_clock_sec() - s->begin_sec : 0;
    return ZR_OK;
}

/** Argument of put_read, with the state that zr_engine_read is reading. */
typedef struct reading {
    zr__save *save;
    int state;
} reading;

static zr_status put_read(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const reading *r = arg;
    return zr__save_put(r->save, r->state, param, first, n, in);
}

zr_status zr__save_put_all(zr__save *s)
{
    for (int i = 0; i < s->n_states; i++) {
        reading r = {s, zr__state_of_file(s->plan, i)};
        ZR_TRY(zr_engine_read(*s->ranks->engine, r.state, put_read, &r));
    }
    return zr__save_put_end(s);
}

/* ---- checksums, to rank 0 --------------------------------------------------------------------- */

/** Gather a list of items of `size` bytes on rank 0, in the order of the ranks. Each rank's part of list->all has room
 * for the items of the longest list, until all parts are moved together. */
static zr_status gather_list(const zr__ranks *r, zr__save_list *list, size_t size, const char *name)
{
    const int ranks = r->comm->size;
    int64_t most = 1;
    ZR_AUTO_FREE int64_t *count = zr_alloc(sizeof(*count) * (size_t)ranks);
    ZR_TRY(zr__run_gather(r, (uint64_t)list->n_mine));
    for (int q = 0; q < ranks; q++) {
        const int64_t its = (int64_t)zr__run_gathered(r, q);
        if (count) count[q] = its;
        if (its > most) most = its;
    }
    const int64_t part = most * (int64_t)size;
    unsigned char *all = list->all = zr_alloc((size_t)(part * ranks));
    const bool room = count && all;
    ZR_TRY(zr__run_agree(r, room ? ZR_OK : ZR_FAIL(ZR_ERR_MEMORY, "no memory for the checksums of %s", name)));
    unsigned char *mine = all + r->comm->rank * part;
    if (list->n_mine > 0) memcpy(mine, list->mine, size * (size_t)list->n_mine);
    ZR_TRY(zr__run_agreed(r, zr_comm_all_gather(r->comm, mine, all, part, part)));
    if (r->comm->rank != 0) {
        list->all = NULL;
        zr_free(all);
        return ZR_OK;
    }
    for (int q = 0; q < ranks; q++) {
        memmove(all + (size_t)list->n_all * size, all + q * part, size * (size_t)count[q]);
        list->n_all += count[q];
    }
    return ZR_OK;
}

zr_status zr__save_gather(zr__save *s)
{
    for (int i = 0; i < s->n_states; i++) {
        zr__save_part *p = &s->part[i];
        ZR_TRY(gather_list(s->ranks, &p->chunks, sizeof(zr__chunk), p->name));
        if (zr_plan_shares_layers(s->plan)) ZR_TRY(gather_list(s->ranks, &p->slices, sizeof(zr__slices), p->name));
    }
    return ZR_OK;
}

/* ---- the manifest, by rank 0 ------------------------------------------------------------------ */

static void free_chunks(zr__manifest_file (*file)[ZR__SAVE_FILES])
{
    for (int i = 0; i < ZR__SAVE_FILES; i++) zr_free((void *)(*file)[i].chunk);
}

zr_status zr__save_describe(zr__save *s)
{
    ZR_AUTO(free_chunks) zr__manifest_file file[ZR__SAVE_FILES] = {{0}};
    ZR_AUTO_FREE char *text = NULL;
    int n = 0;
    for (int i = 0; i < ZR__SAVE_FILES; i++) {
        const zr__save_part *p = &s->part[i];
        if (!p->name[0]) continue;
        ZR_TRY(zr__manifest_describe(s->tmp, p->name, i < s->n_states, p->chunks.all, p->chunks.n_all, &file[n]));
        file[n].slices = p->slices.all;
        file[n].n_slices = p->slices.n_all;
        s->bytes += file[n++].bytes;
    }
    ZR_TRY(zr__checkpoint_run_print(&s->about, &s->plan->layout, &text));
    const zr__manifest manifest = {.step = s->step, .build = zr_version(), .run = text, .file = file, .n_files = n};
    return zr__manifest_write(s->tmp, &manifest);
}

/* ---- files of the checkpoint ------------------------------------------------------------------ */

void zr__save_names(zr__save *s)
{
    for (int i = 0; i < s->n_states; i++) zr__state_file(s->plan, i, s->part[i].name);
    snprintf(s->part[CONFIG].name, sizeof(s->part[CONFIG].name), "%s", ZR_RUN_CONFIG);
    s->adapters = zr__has_adapters(graph_of(s));
    if (s->adapters) snprintf(s->part[ADAPTER].name, sizeof(s->part[ADAPTER].name), "%s", ZR_ADAPTER_CONFIG);
}

void zr__save_clear(zr__save *s)
{
    drop_file(s);
    for (int i = 0; i < ZR__SAVE_FILES; i++) {
        zr_free(s->part[i].chunks.mine);
        zr_free(s->part[i].chunks.all);
        zr_free(s->part[i].slices.mine);
        zr_free(s->part[i].slices.all);
    }
    zr__checkpoint_run_clear(&s->about);
    zr_free(s->event);
}
