/* Memory of a run: the fullest pipeline rank, and what is on top of its tensors. */
#include "systems/model.h"

#include <string.h>

/* Bytes beside the allocator's. Sources: a context takes 300 MB since kernels are loaded lazily (CUDA 11.7,
 * pytorch#107667), and some 500 MB with the kernels of cuDNN and NCCL. A communicator of NCCL takes 544 MB for two
 * A100 and 688 MB for four, the context's part included in the first of them (nccl#964). */
static const zr__range context_bytes = {0.3e9, 0.5e9, 0.7e9}, communicator_bytes = {0.25e9, 0.5e9, 0.7e9};

/* Workspace of cuBLAS for a stream: 32 MiB with CUBLAS_WORKSPACE_CONFIG=:4096:8, and by default on H100 and later, else
 * 8 MiB and 128 KiB (CUDABlas of PyTorch, getChosenWorkspaceSize). Two streams multiply. */
enum { CUBLAS_STREAMS = 2, CUBLAS_LARGE = 32 << 20, CUBLAS_SMALL = (8 << 20) + (128 << 10), CUBLAS_LEAST = 128 << 10 };

const char *zr__part_name(zr__part part)
{
#define NAME(name, text) [ZR__PART_##name] = text,
    static const char *const names[] = {ZR__PART_LIST(NAME)};
#undef NAME
    return names[part];
}

const char *zr__moment_name(zr__moment moment)
{
#define NAME(name, text) [ZR__MOMENT_##name] = text,
    static const char *const names[] = {ZR__MOMENT_LIST(NAME)};
#undef NAME
    return names[moment];
}

void zr__part_set(zr__rank_memory *rank, zr__part part, double bytes)
{
    for (int m = 0; m < ZR__MOMENTS; m++) rank->part[m][part] = bytes;
}

double zr__moment_bytes(const zr__rank_memory *rank, zr__moment moment)
{
    double sum = 0;
    for (int p = 0; p < ZR__PARTS; p++) sum += rank->part[moment][p];
    return sum;
}

zr__moment zr__peak_moment(const zr__rank_memory *rank)
{
    zr__moment peak = ZR__MOMENT_LOSS;
    for (int m = 0; m < ZR__MOMENT_BETWEEN; m++)
        if (zr__moment_bytes(rank, (zr__moment)m) > zr__moment_bytes(rank, peak)) peak = (zr__moment)m;
    return peak;
}

double zr__cublas_bytes(const zr__run *run)
{
    const bool large = zr__with_word(run, "CUBLAS_WORKSPACE_CONFIG", ":4096:8") ||
                       (zr__with(run, "CUBLAS_WORKSPACE_CONFIG") == ZR__OPTION_AUTO && run->hopper);
    const bool least = zr__with_word(run, "CUBLAS_WORKSPACE_CONFIG", ":16:8");
    return CUBLAS_STREAMS * (double)(large ? CUBLAS_LARGE : least ? CUBLAS_LEAST : CUBLAS_SMALL);
}

static int32_t count_communicators(const zr__run *run)
{
    const zr__degrees d = zr__degrees_of(run);
    if (run->system->communicators) return run->system->communicators(run);
    return (d.dp > 1) + (d.cp > 1) + (d.tp > 1) + (d.pp > 1);
}

/* Add the allocator, the context and communicators to the allocated bytes. */
static void add_beside(const zr__run *run, zr__run_memory *memory)
{
    zr__range f = run->system->fragmentation(run);
    if (zr__with(run, "expandable_segments") > 0) f = (zr__range){1.02, 1.03, 1.05};
    const double a = memory->allocated;
    const int32_t n = count_communicators(run);
    memory->reserved = (zr__range){a * f.low, a * f.bytes, a * f.high};
    memory->n_communicators = n;
    memory->context = context_bytes.bytes;
    memory->communicators = n * communicator_bytes.bytes;
    memory->used = (zr__range){memory->reserved.low + context_bytes.low + n * communicator_bytes.low,
                               memory->reserved.bytes + memory->context + memory->communicators,
                               memory->reserved.high + context_bytes.high + n * communicator_bytes.high};
}

static zr_status fill_ranks(const zr__run *run, const zr__model *model, zr__run_memory *memory)
{
    memory->n = (int32_t)run->config->parallel.pipeline;
    memory->rank = zr_alloc((size_t)memory->n * sizeof(*memory->rank));
    ZR_CHECK(memory->rank, ZR_ERR_MEMORY, "no memory for %d pipeline ranks", memory->n);
    memset(memory->rank, 0, (size_t)memory->n * sizeof(*memory->rank));
    for (int32_t r = 0; r < memory->n; r++) {
        zr__rank_memory *rank = &memory->rank[r];
        run->system->memory(run, model, r, rank);
        for (int m = 0; m < ZR__MOMENTS; m++) rank->part[m][ZR__PART_WORKSPACE] += zr__cublas_bytes(run);
        const double bytes = zr__moment_bytes(rank, zr__peak_moment(rank));
        if (bytes > memory->allocated) {
            memory->allocated = bytes;
            memory->fullest = r;
        }
    }
    memory->params = model->params;
    add_beside(run, memory);
    return ZR_OK;
}

zr_status zr__run_measure(const zr__run *run, zr__run_memory *memory)
{
    zr__keeps keeps = {.context = zr__degrees_of(run).cp, .every = 1};
    zr__decoder room;
    zr__model model;
    *memory = (zr__run_memory){0};
    ZR_TRY(zr__run_possible(run));
    ZR_TRY(run->system->keeps(run, &keeps, &room));
    zr_status status = zr__model_make(run, &keeps, &model);
    if (status == ZR_OK) status = fill_ranks(run, &model, memory);
    zr__model_clear(&model);
    return status;
}

void zr__run_memory_clear(zr__run_memory *memory)
{
    zr_free(memory->rank);
    *memory = (zr__run_memory){0};
}
