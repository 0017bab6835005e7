/* The homes of model states (zr_layout.home) and of activation checkpoints: checks of the layout's homes, the planner's
 * choices for sizes that the layout leaves open, and the buffers in memory through which bytes pass from and to disk.
 * states.c puts states at their homes, and residency.c copies them to the device and back. */
#include "base/core/scope.h"
#include "base/file/passing.h"
#include "plan/policy/policy.h"

#include <stdlib.h>

/* BUCKETS_MAX: maximum of zr_homes.buckets. DEPTH_MAX and BLOCK_MAX: maxima of zr_homes.depth and zr_homes.block_bytes,
 * which the layer store requires. */
enum { BUCKETS_MAX = 4096, DEPTH_MAX = 1024, BLOCK_MAX = 1 << 30 };

static bool uses_disk(const zr_homes *home)
{
    return home->param == ZR_SPACE_DISK || home->grad == ZR_SPACE_DISK || home->optim == ZR_SPACE_DISK;
}

static bool is_home(zr_space space)
{
    return space == ZR_SPACE_DEVICE || space == ZR_SPACE_HOST || space == ZR_SPACE_DISK;
}

/* Return the value of offload_param.device or offload_optimizer.device for a home. */
static const char *device_of(zr_space home)
{
    return home == ZR_SPACE_DISK ? "nvme" : home == ZR_SPACE_HOST ? "cpu" : "none";
}

static zr_status check_spaces(const zr_homes *home)
{
    const struct {
        const char *what;
        zr_space space;
    } state[] = {{"parameters", home->param}, {"gradients", home->grad}, {"optimizer states", home->optim}};
    for (int i = 0; i < 3; i++)
        ZR_CHECK(is_home(state[i].space), ZR_ERR_UNSUPPORTED,
                 "%s in space \"%s\": \"device\", \"host\" and \"disk\" are built", state[i].what,
                 zr_space_name(state[i].space));
    const double share[] = {home->param_share, home->optim_share};
    for (int i = 0; i < 2; i++)
        ZR_CHECK(share[i] >= 0 && share[i] <= 1, ZR_ERR_CONFIG, "%s.ratio is %g; it must be 0 to 1",
                 i == 0 ? "offload_param" : "offload_optimizer", share[i]);
    ZR_CHECK(home->bucket_elems >= 0 && home->buckets >= 0 && home->buckets <= BUCKETS_MAX, ZR_ERR_CONFIG,
             "buckets of %lld elements of offloaded states (sub_group_size), %d at a time "
             "(offload_optimizer.buffer_count): 0 or more is wanted, and at most %d buckets",
             (long long)home->bucket_elems, home->buckets, BUCKETS_MAX);
    ZR_CHECK(home->depth >= 0 && home->depth <= DEPTH_MAX, ZR_ERR_CONFIG,
             "%d transfers at a time from and to disk (aio.queue_depth): 0 to %d is wanted", home->depth, DEPTH_MAX);
    ZR_CHECK(home->block_bytes >= 0 && home->block_bytes <= BLOCK_MAX && home->block_bytes % ZR_DISK_ALIGN == 0,
             ZR_ERR_CONFIG,
             "transfers of %lld bytes from and to disk (aio.block_size): a multiple of %d is wanted, at most %d",
             (long long)home->block_bytes, ZR_DISK_ALIGN, BLOCK_MAX);
    return ZR_OK;
}

static zr_status check_homes_built(const zr_layout *l)
{
    const zr_homes *home = &l->home;
    ZR_TRY(check_spaces(home));
    ZR_CHECK(is_home(l->checkpoint_home), ZR_ERR_UNSUPPORTED,
             "activation checkpoints in space \"%s\": \"device\", \"host\" and \"disk\" are built",
             zr_space_name(l->checkpoint_home));
    ZR_CHECK(home->param == ZR_SPACE_DEVICE || l->stage == 3, ZR_ERR_UNSUPPORTED,
             "parameters off the device (offload_param.device %s) at stage %d: they are gathered from there only at "
             "stage 3; choose that stage, or \"none\"",
             device_of(home->param), l->stage);
    ZR_CHECK(home->param == ZR_SPACE_DEVICE || l->hpz_ranks == 0, ZR_ERR_UNSUPPORTED,
             "parameters off the device (offload_param.device %s) with a second partition on it "
             "(zero_hpz_partition_size %d): choose one",
             device_of(home->param), l->hpz_ranks);
    const bool sums = l->accum > 1 || l->rank_free_sums;
    ZR_CHECK(
        home->grad == ZR_SPACE_DEVICE || !l->train || l->stage >= 2 || sums, ZR_ERR_UNSUPPORTED,
        "gradients off the device (offload_optimizer.device %s) at stage %d with one micro-batch a step: ops write "
        "whole gradients to the device there; choose stage 2 or 3, several micro-batches "
        "(gradient_accumulation_steps), or offload_optimizer.gradients false",
        device_of(home->grad), l->stage);
    /* A transfer must begin at a block of the disk. In sums that are larger than this rank's part, the part may begin
     * within a block. */
    const bool groups = l->shard_ranks > 0 && l->shard_ranks < l->ranks;
    const bool whole = l->ranks > 1 && (l->stage == 0 || groups);
    const bool larger = whole || (l->ranks > 1 && l->reduce_once && l->accum > 1);
    ZR_CHECK(
        home->grad != ZR_SPACE_DISK || !l->train || !larger, ZR_ERR_UNSUPPORTED,
        "gradients on disk (offload_optimizer.device nvme) %s: a rank then keeps sums that are larger than its own "
        "part; choose \"cpu\", or offload_optimizer.gradients false",
        l->stage == 0 ? "at stage 0"
        : groups      ? "with shard groups (mics_shard_size)"
                      : "that are reduced once a step");
    /* With trust ratios, a rank adds the squares of its own part of the masters (in fp32, of the parameters) and of the
     * optimizer states. States on disk must not be larger than this part. */
    const bool optim = home->optim == ZR_SPACE_DISK, param = home->param == ZR_SPACE_DISK && l->dtype == ZR_F32;
    ZR_CHECK(
        !(optim || param) || !l->train || !l->optimizer.trust || !whole, ZR_ERR_UNSUPPORTED,
        "%s on disk (%s.device nvme) %s with the trust ratios of %s, whose squares each rank adds for its own part of "
        "larger states: choose a stage above 0 without shard groups, device \"cpu\", or another optimizer%s",
        optim ? "optimizer states" : "fp32 parameters", optim ? "offload_optimizer" : "offload_param",
        l->stage == 0 ? "at stage 0" : "with shard groups (mics_shard_size)", l->optimizer.name,
        optim ? "" : ", or 16-bit parameters (bf16)");
    ZR_CHECK(
        l->save != ZR_SAVE_COPY || (home->param != ZR_SPACE_DISK && home->optim != ZR_SPACE_DISK), ZR_ERR_UNSUPPORTED,
        "saves from a copy in host memory (zr_layout.save) of states on disk: a copy would take the memory that the "
        "disk spares; save in place");
    return ZR_OK;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Choose the number of buckets of a ring. The ring holds this rank's part of the median unit, so that the next unit's
 * states can be prefetched while a unit computes. One more bucket is written home at the same time. A ring of an
 * update's fp32 states has at most 256 MiB. */
static zr_status choose_buckets(zr_plan *plan)
{
    enum { RING_BYTES_MOST = 256 << 20 };
    zr_homes *home = &plan->layout.home;
    ZR_AUTO_FREE int64_t *part = zr_alloc(sizeof *part * (size_t)(plan->n_units + 1));
    int32_t n = 0;
    ZR_CHECK(part, ZR_ERR_MEMORY, "no memory to compare the sizes of %d units", plan->n_units);
    for (int32_t u = 0; u < plan->n_units; u++)
        if (plan->unit[u].trains) part[n++] = plan->unit[u].update.count;
    qsort(part, (size_t)n, sizeof *part, by_size);
    const int64_t wanted = n > 0 && part[n / 2] > 0 ? (part[n / 2] - 1) / home->bucket_elems + 2 : 0,
                  most = RING_BYTES_MOST / 4 / (1 + plan->n_slots) / home->bucket_elems;
    home->buckets = (int)(wanted < most ? wanted : most);
    if (home->buckets < ZR_HOMES_BUCKETS) home->buckets = ZR_HOMES_BUCKETS;
    return ZR_OK;
}

/* Choose the sizes that the layout leaves open. The number of steps of a schedule is limited, so a very large part of a
 * unit needs larger buckets. */
static zr_status choose_sizes(zr_plan *plan)
{
    enum { BUCKETS_MOST = 1 << 15 };
    zr_homes *home = &plan->layout.home;
    /* sums of squares for trust ratios have the same bits only if a part is cut at multiples of ZR_TRUST_BLOCK */
    const int64_t records = zr__record_align(&plan->layout);
    /* a bucket of records has whole disk blocks only if its records are a multiple of the words of a block */
    const bool blocks = home->optim == ZR_SPACE_DISK && plan->layout.optimizer.slot_records[0] != ZR_F32;
    const int64_t grain = plan->layout.optimizer.trust ? ZR_TRUST_BLOCK
                          : blocks                     ? ZR_DISK_ALIGN / 2 * records
                          : uses_disk(home)            ? ZR_DISK_ALIGN / 2
                          : records > ZR_SHARD_ALIGN   ? records
                                                       : ZR_SHARD_ALIGN;
    int64_t elems = 0;
    for (int32_t u = 0; u < plan->n_units; u++) elems += plan->unit[u].update.count;
    if (home->bucket_elems == 0)
        for (home->bucket_elems = ZR_HOMES_BUCKET_ELEMS; elems / home->bucket_elems > BUCKETS_MOST;)
            home->bucket_elems *= 2;
    /* a window has the bytes of an fp32 bucket, which must not overflow */
    if (home->bucket_elems > INT64_MAX / 8) home->bucket_elems = INT64_MAX / 8;
    home->bucket_elems = (home->bucket_elems + grain - 1) / grain * grain;
    if (home->depth == 0) home->depth = ZR_HOMES_DEPTH;
    return home->buckets > 0 ? ZR_OK : choose_buckets(plan);
}

/* Add the windows in host memory through which states on disk are filled, read and saved. A window has the size of a
 * bucket of an fp32 state, limited to the bucket size that the planner would choose and to the largest state. */
static zr_status add_windows(zr_plan *plan)
{
    int64_t bytes = 0;
    for (int32_t b = 0; b < plan->n_persistent; b++)
        if (plan->persistent[b].space == ZR_SPACE_DISK && plan->persistent[b].bytes > bytes)
            bytes = plan->persistent[b].bytes;
    const int64_t elems = plan->layout.home.bucket_elems;
    const int64_t bucket =
        zr_dtype_span(ZR_F32, elems < ZR_HOMES_BUCKET_ELEMS ? elems : (int64_t)ZR_HOMES_BUCKET_ELEMS);
    plan->window_bytes = bytes < bucket ? bytes : bucket;
    const int n = plan->layout.save == ZR_SAVE_NONE ? ZR_WINDOW_SAVE : ZR_WINDOWS;
    return zr__plan_persistent_disk(plan, "states on disk that are filled and read", n * plan->window_bytes,
                                    &plan->windows);
}

/* Return whether training steps write activation checkpoints to disk. Without recomputation there are no checkpoints.
 */
static bool checkpoints_on_disk(const zr_plan *plan)
{
    bool any = false;
    for (int32_t u = 0; u < plan->n_units; u++) any |= zr_recomputes(plan->unit[u].recompute);
    return any && plan->layout.train && plan->checkpoint_home == ZR_SPACE_DISK;
}

/* Choose the size of disk transfers, if the layout leaves it open. Small states need only small transfers, and
 * therefore smaller buffers. */
static void choose_block(zr_plan *plan, bool checkpoints)
{
    zr_homes *home = &plan->layout.home;
    if (home->block_bytes > 0) return;
    home->block_bytes = ZR_HOMES_BLOCK_BYTES;
    if (plan->windows != ZR_NONE && !checkpoints && plan->window_bytes < home->block_bytes)
        home->block_bytes = (plan->window_bytes + ZR_DISK_ALIGN - 1) / ZR_DISK_ALIGN * ZR_DISK_ALIGN;
}

static zr_status add_passing_buffer(zr_plan *plan)
{
    plan->passing_disk = plan->windows = ZR_NONE;
    ZR_TRY(choose_sizes(plan));
    const bool states = plan->persistent_bytes[ZR_SPACE_DISK] > 0;
    const bool checkpoints = checkpoints_on_disk(plan);
    if (states) ZR_TRY(add_windows(plan));
    choose_block(plan, checkpoints);
    plan->disk_block_bytes = plan->layout.home.block_bytes;
    plan->disk_depth = plan->layout.home.depth;
    if (!states && !checkpoints) return ZR_OK;
    return zr__plan_persistent_disk(plan, "bytes from and to disk",
                                    zr__passing_bytes(plan->layout.home.block_bytes, plan->layout.home.depth),
                                    &plan->passing_disk);
}

const zr__policy zr__policy_homes = {.check = check_homes_built, .add_buffers = add_passing_buffer};
