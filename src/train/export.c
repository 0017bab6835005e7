#include "train/export.h"

#include "train/inputs.h"
#include "train/run_dir.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static zr_status write_range(void *arg, const zr_param_info *param, int64_t first, int64_t n, const float *in)
{
    const zr_safetensors *file = arg;
    const zr_safetensors_tensor *tensor = zr_safetensors_find(file, param->name);
    ZR_ASSERT(tensor);
    ZR_TRY(zr_safetensors_write(file, tensor, first, n, in));
    return ZR_OK;
}

static zr_status write_config(const char *dir, const zr_gpt2_config *model)
{
    zr_hf_gpt2 hf = {.n_layer = model->n_layer,
                     .n_head = model->n_head,
                     .n_embd = model->n_embd,
                     .n_positions = model->n_positions,
                     .vocab_size = model->vocab_size,
                     .embd_pdrop = model->embd_pdrop,
                     .resid_pdrop = model->resid_pdrop,
                     .attn_pdrop = model->attn_pdrop,
                     .layer_norm_epsilon = model->layer_norm_epsilon,
                     .initializer_range = model->initializer_range,
                     .tie_word_embeddings = true};
    ZR_TRY(zr_hf_gpt2_write(dir, &hf));
    return ZR_OK;
}

/** Rank 0 makes the directory and the empty file. */
static zr_status begin(const char *dir, const char *path, const zr_graph *graph)
{
    zr_tensor_spec *specs = NULL;
    int64_t n = 0;
    ZR_CHECK(mkdir(dir, 0777) == 0 || errno == EEXIST, ZR_ERR_IO, "cannot make the directory %s: %s", dir,
             strerror(errno));
    ZR_TRY(zr__param_specs(graph, &specs, &n));
    zr_status st = zr_safetensors_create(path, specs, n);
    zr_free(specs);
    return st;
}

static zr_status write_mine(const char *path, zr_engine *engine)
{
    zr_safetensors *file = NULL;
    zr_status st = ZR_OK;
    ZR_TRY(zr_safetensors_attach(path, &file));
    ZR_TRY_GOTO(st, zr_engine_read(engine, write_range, file), done);
    ZR_TRY_GOTO(st, zr_safetensors_sync(file), done);
done:
    zr_safetensors_close(&file);
    return st;
}

/** The weights get their name last: a directory that has them is whole. */
static zr_status finish(const char *dir, const char *unfinished, const char *path, const zr_gpt2_config *model)
{
    ZR_TRY(write_config(dir, model));
    ZR_TRY(zr_file_commit(unfinished, path));
    return ZR_OK;
}

/** Nothing of a directory that did not become whole. */
static void discard(const char *dir, const char *unfinished)
{
    char config[PATH_MAX];
    unlink(unfinished);
    if (zr__path_join(config, dir, "config.json") == ZR_OK) unlink(config);
    rmdir(dir);
}

zr_status zr__export(const char *dir, const zr_gpt2_config *model, const zr_plan *plan, zr_engine *engine,
                     zr_comm *comm)
{
    char path[PATH_MAX], unfinished[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir, "model.safetensors"));
    ZR_TRY(zr__path_join(unfinished, dir, "model.safetensors.tmp"));
    const zr_graph *graph = plan->graph[plan->layout.train ? ZR_TRAIN : ZR_EVAL];
    bool first = comm->rank == 0;
    zr_status st = zr_comm_agree(comm, first ? begin(dir, unfinished, graph) : ZR_OK);
    if (st == ZR_OK) st = zr_comm_agree(comm, write_mine(unfinished, engine));
    if (st == ZR_OK) st = zr_comm_agree(comm, first ? finish(dir, unfinished, path, model) : ZR_OK);
    if (st != ZR_OK && first) discard(dir, unfinished);
    return st;
}
