/** Checks before a run creates anything: its inputs, its plan, and the memory. All ranks must get the same results. */
#include "train/run/run.h"

#include "base/file/file.h"
#include "comm/comm.h"
#include "config/config.h"
#include "plan/list/place.h"
#include "store/store.h"
#include "train/dir/report.h"
#include "train/host/device.h"
#include "train/host/host.h"
#include "train/host/limits.h"

#include <stdio.h>
#include <string.h>

static void note_made_again(const zr__ranks *r, const zr__samples *samples)
{
    zr_data_info info = {.made_again = ""};
    if (zr__samples_are_open(samples)) info = zr__samples_info(samples);
    if (info.made_again[0]) zr__run_note(r, "%s", info.made_again);
}

static zr_status open_inputs(zr__run *r, bool first)
{
    zr__progress p = {.ranks = &r->ranks, .what = "data: texts are looked at, and tokenized once,"};
    ZR_TRY(zr__train_model(r->config, &r->model));
    ZR_TRY(zr__inputs_open(r->config, first, zr__run_progress, &p, &r->data.inputs));
    note_made_again(&r->ranks, &r->data.inputs.train);
    note_made_again(&r->ranks, &r->data.inputs.val);
    return ZR_OK;
}

/** Check the output directory on rank 0. The run must not overwrite its inputs. Only a resumed run may overwrite the
 * configuration file that it was started with. */
static zr_status check_dir(const zr__run *r)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1], *none = NULL;
    if (r->ranks.comm->rank != 0) return ZR_OK;
    zr__config_inputs(r->config, inputs);
    bool own = r->resume.asked && zr__config_from_file(r->config);
    ZR_TRY(zr__run_dir_spares(r->config->train.output_dir, inputs[0] ? inputs + own : &none));
    if (!r->resume.asked) ZR_TRY(zr__run_dir_check(r->config->train.output_dir));
    return ZR_OK;
}

/** Open the inputs, first on one rank of each host. This rank tokenizes texts, checks cached tokens and reports errors
 * in them. The other ranks of the host then find the tokens in the cache. */
static zr_status check_inputs(zr__run *r, zr_status st)
{
    const bool first = r->ranks.comm->local_rank == 0;
    if (st == ZR_OK && first) st = open_inputs(r, true);
    if (st == ZR_OK) st = check_dir(r);
    ZR_TRY(zr__run_agree(&r->ranks, st));
    return zr__run_agree(&r->ranks, first ? ZR_OK : open_inputs(r, false));
}

/** Check that the system grants memory and helper threads for `ranks` ranks of this process. The memory includes a
 * stack for each rank. */
static zr_status check_room(const zr__run *r, int ranks)
{
    int64_t bytes = zr__plan_process_bytes(zr__fullest_role(&r->plans), ranks) + ranks * r->data.ahead_bytes;
    const zr_queues queues =
        zr__plan_queues(r->plan, zr__comm_overlaps(r->ranks.comm, r->plan->profile.facts.own_memory));
    int more = r->plan->profile.facts.threads - 1 + zr_queues_apart(&queues, ZR_STREAM_COMM);
    more += r->data.ahead_rows > 0;
    /* threads of the streams SEND and RECV, and the one that computes meanwhile */
    const bool receives = zr_queues_apart(&queues, ZR_STREAM_RECV);
    more += zr_queues_apart(&queues, ZR_STREAM_SEND) + receives + (receives ? r->plan->profile.facts.threads : 0);
    /* threads of the streams FETCH and STORE, which read and write states on disk, and threads of the store */
    for (int s = ZR_STREAM_FETCH; s <= ZR_STREAM_STORE; s++) more += r->plan->has_stream[s] * (1 + ZR_STORE_THREADS);
    /* threads of the streams HOST and RETURN, and helpers of the updates */
    if (r->plan->has_stream[ZR_STREAM_HOST]) more += 1 + zr__train_threads(r->config, r->ranks.comm->local_size);
    more += 2 * (r->plan->save != ZR_SAVE_NONE); /* thread of the stream SAVE, and a thread that writes the file */
    return zr__host_room(bytes, ranks * more);
}

/** Set the memory of the data, and of the rows that are read ahead. Rows are not read ahead if they need more memory
 * than is allowed. */
static void settle_ahead(zr__run *r)
{
    int64_t bytes = 0;
    r->data.ahead_bytes =
        zr__samples_memory_bytes(&r->data.inputs.train) + zr__samples_memory_bytes(&r->data.inputs.val);
    if (!zr__samples_take_time(&r->data.inputs.train)) return;
    r->data.ahead_rows = zr__rows_ahead_room(r->plan, &bytes);
    r->data.ahead_bytes += bytes;
    if (r->data.ahead_rows == 0)
        zr__run_note(
            &r->ranks,
            "data.train: samples are not read ahead, because they need more memory than is set aside for them");
}

/** Refuse collectives.reduce "nccl" if ranks are threads of one process. Errors: ZR_ERR_UNSUPPORTED. */
static zr_status check_reduce(const zr_config *config, const zr_comm *comm)
{
    const int ranks = zr__comm_process_ranks(comm);
    ZR_CHECK(config->collectives.reduce != ZR_REDUCE_NCCL || ranks == 1, ZR_ERR_UNSUPPORTED,
             "collectives.reduce: nccl sums between processes, and %d ranks are threads of this one; start a process "
             "for each (mpirun, srun), or write reduce_scatter",
             ranks);
    return ZR_OK;
}

/** Check that the plan fits in memory, and that its files fit in the disk space that --disk allows. If it does not fit
 * in memory, the message names an offload with which it would fit, if there is one. */
static zr_status check_fits(const zr__run *r)
{
    /* Messages name memory.limit only if the user gave it. Otherwise they name the host's memory. */
    const int64_t limit_bytes = (r->settled.given ? r->settled.given : r->config)->memory.limit_bytes;
    const int in_process = zr__comm_process_ranks(r->ranks.comm), local = r->ranks.comm->local_size;
    const int64_t there = zr__train_limit(&r->device->profile, local, in_process),
                  disk_bytes = zr__config_disk_bytes(r->config),
                  on_disk = r->ranks.result->planned.memory.space[ZR_SPACE_DISK].total_bytes;
    const zr_plan *fullest = zr__fullest_role(&r->plans);
    char remedy[ZR_OFFLOAD_REMEDY_BYTES];
    const int64_t held = limit_bytes > 0 ? zr__run_held_bytes(r) : 0, needs = zr__plan_process_bytes(fullest, 1) + held;
    const zr__config_open tried = zr__config_get_open(r->settled.given ? r->settled.given : r->config);
    const zr_status st = zr__train_memory_check(fullest, limit_bytes, local, in_process > 1, &tried);
    ZR_CHECK(st != ZR_OK || held == 0 || needs <= limit_bytes, ZR_ERR_MEMORY,
             "the plan and the samples of data.train and data.val, which take %s, need %s per rank, but memory.limit "
             "is %s; give a higher limit, fewer samples or a smaller batch",
             ZR_SIZE((double)held), ZR_SIZE((double)needs), ZR_SIZE((double)limit_bytes));
    if (st == ZR_ERR_MEMORY) {
        const char *why = ZR__WHY();
        const zr__train_target target = {.ranks = r->ranks.comm->size,
                                         .host_ranks = local,
                                         .disk_bytes = disk_bytes,
                                         .profile = &r->device->profile};
        zr__train_offload_remedy(r->config, &target,
                                 limit_bytes > 0 && (there == 0 || limit_bytes < there) ? limit_bytes : there, remedy);
        return ZR_FAIL(st, "%s%s%s", why, remedy[0] ? ". It fits with " : "", remedy);
    }
    ZR_TRY(st);
    ZR_CHECK(
        disk_bytes == 0 || on_disk <= disk_bytes, ZR_ERR_MEMORY,
        "the plan has %s of a rank's states on disk, but --disk is %s; give more, or use a smaller model or more ranks",
        ZR_SIZE((double)on_disk), ZR_SIZE((double)disk_bytes));
    return ZR_OK;
}

static zr_status check_plan(zr__run *r)
{
    const int in_process = zr__comm_process_ranks(r->ranks.comm);
    zr_config config = *r->config;
    config.memory.limit_bytes -= zr__run_held_bytes(r);
    ZR_TRY(zr__train_plans(&config, r->ranks.comm->size, -1, &r->device->profile, &r->plans));
    r->plans.own = zr__plan_place(r->plans.role[0], ZR_GROUP_PIPELINE, r->ranks.comm->rank);
    r->plan = r->plans.role[r->plans.own];
    r->ranks.result->planned = zr__report_planned(&r->plans);
    settle_ahead(r);
    ZR_TRY(check_fits(r));
    if (in_process == 1 || r->ranks.comm->rank == 0) ZR_TRY(check_room(r, in_process));
    ZR_TRY(zr__watch_create(&r->watching.watch, r->ranks.observer, &r->plans, r->ranks.comm->rank));
    zr__hang_plan(r->watching.hang, r->plan);
    r->info = (zr_train_info){.config = r->config,
                              .plans = &r->plans,
                              .plan = r->plan,
                              .comm = r->ranks.comm,
                              .output_dir = r->config->train.output_dir,
                              .threads = r->device->profile.facts.threads,
                              .train_tokens = zr__samples_info(&r->data.inputs.train).tokens};
    if (zr__samples_are_open(&r->data.inputs.val)) r->info.val_tokens = zr__samples_info(&r->data.inputs.val).tokens;
    return ZR_OK;
}

static uint64_t hash_of_table(const zr_pipe_table *table)
{
    uint64_t hash = (uint64_t)table->columns;
    for (int32_t i = 0; i < table->rows * table->columns; i++) {
        const zr_pipe_action *a = &table->cell[i];
        hash = zr__hash_join(hash, (uint64_t)a->kind << 60 | (uint64_t)a->stage << 32 | (uint32_t)a->micro);
    }
    return hash;
}

/** Check that recompute policy auto made the same choice on all ranks. The choice depends on the scratch memory of
 * kernels, which depends on the processor. Ranks that recompute different activations would gather at different times
 * and deadlock. Also check that all ranks save checkpoints in the same mode. */
static zr_status same_choices(const zr__ranks *r, const zr_config *config, const zr_plans *plans)
{
    uint64_t work, kept = 0;
    const zr__totals totals = zr__plans_total(plans);
    memcpy(&work, &totals.flops_hardware, sizeof(work));
    for (int32_t i = 0; i < plans->n; i++)
        kept =
            kept * 31 + (uint64_t)plans->role[i]->partition_checkpoints + 2 * (uint64_t)plans->role[i]->checkpoint_home;
    if (config->recompute.policy == ZR_RECOMPUTE_AUTO) {
        ZR_TRY(zr__run_same(r,
                            "the way in which activation_checkpointing.policy auto keeps checkpoints (these processors "
                            "are not alike: name a policy)",
                            kept));
        ZR_TRY(zr__run_same(r,
                            "the recomputation that activation_checkpointing.policy auto chooses (these processors are "
                            "not alike: name a policy)",
                            work));
    }
    if (plans->role[0]->table)
        ZR_TRY(zr__run_same(r, "the table of parallel.schedule_file", hash_of_table(plans->role[0]->table)));
    return zr__run_same(r,
                        "how checkpoints are saved asynchronously (these processors are not alike: give another "
                        "memory.limit, or write checkpoint.async false)",
                        (uint64_t)plans->role[0]->save);
}

/** Return whether ranks with different processor levels would compute different values of the same weights. */
static bool copies_drift(const zr_plan *plan, const char *one, const char *other)
{
    const zr_layout *l = &plan->layout;
    /* Each tensor-parallel rank computes the gradients of uncut weights, such as norms, for itself. */
    if (l->tensor > 1 && l->sequence == ZR_SEQUENCE_OFF) return true;
    /* In all other cases all copies have the same gradient, because its sum is sent to the ranks. The update is
     * element-wise, and only v2 rounds it differently, because v2 has no fused multiply-add. */
    bool copies = plan->ranks > 1 && !plan->shards_optim;
    for (int32_t u = 0; u < plan->n_units; u++) copies |= plan->group[plan->unit[u].shard_group].size < plan->ranks;
    return copies && (strcmp(one, "v2") == 0) != (strcmp(other, "v2") == 0);
}

/** Name of a processor level, and the same bytes as a number that ranks exchange. */
typedef union level {
    char name[sizeof(uint64_t)];
    uint64_t packed;
} level;

/** Check the processor levels of the ranks. Levels round differently. Refuse them if several ranks update copies of the
 * same weights, and the copies would not stay equal. Otherwise add a note, since no single level would give the same
 * losses. Errors: ZR_ERR_CONFIG. */
static zr_status check_levels(const zr__ranks *r, const zr_device *device, const zr_plan *plan)
{
    level own = {.name = ""}, first, noted = {0};
    int other = 0;
    if (device->profile.facts.own_memory) return ZR_OK;
    snprintf(own.name, sizeof(own.name), "%s", zr_device_cpu_level());
    ZR_TRY(zr__run_gather(r, own.packed));
    first.packed = zr__run_gathered(r, 0);
    for (int q = 1; q < r->comm->size; q++) {
        const level its = {.packed = zr__run_gathered(r, q)};
        if (its.packed == first.packed) continue;
        ZR_CHECK(!copies_drift(plan, first.name, its.name), ZR_ERR_CONFIG,
                 "rank 0 uses the kernels %s and rank %d uses %s, which round differently: with parallel.tensor above "
                 "1, at stage 0 and with mics_shard_size, ranks have copies of the same weights, which would not stay "
                 "equal; set ZR_KERNELS to a level that all processors have (`zr info`)",
                 first.name, q, its.name);
        if (other == 0) noted = its;
        if (other == 0) other = q;
    }
    if (other > 0)
        zr__run_note(r,
                     "rank 0 uses the kernels %s and rank %d uses %s, so the last digits of the losses are those of "
                     "neither; set ZR_KERNELS to a level that all processors have (`zr info`)",
                     first.name, other, noted.name);
    return ZR_OK;
}

zr_status zr__run_check(zr__run *r)
{
    uint64_t hash = 0;
    ZR_TRY(check_inputs(r, zr__config_hash(r->config, &hash)));
    ZR_TRY(zr__run_same(&r->ranks, "the configuration or the version of zr", hash));
    ZR_TRY(zr__run_agreed(&r->ranks, zr__watch_same(r->ranks.observer, r->ranks.comm)));
    ZR_TRY(zr__run_same(&r->ranks, "--resume", r->resume.asked));
    ZR_TRY(zr__run_same(&r->ranks, "--memory", zr__config_is_open(r->config)));
    ZR_TRY(zr__run_same(&r->ranks, "--disk", (uint64_t)zr__config_disk_bytes(r->config)));
    ZR_TRY(zr__run_same_inputs(&r->ranks, r->config, &r->data.inputs, &r->data.prints));
    if (r->resume.asked) ZR_TRY(zr__resume_open(r));
    ZR_TRY(check_reduce(r->config, r->ranks.comm));
    const int threads = zr__train_threads(r->config, r->ranks.comm->local_size);
    if (r->config->parallel.pipeline > 1 && zr__comm_process_ranks(r->ranks.comm) == 1) zr__train_prepare_messages();
    ZR_TRY(
        zr__run_agree(&r->ranks, zr__train_device(r->config->device, threads, r->ranks.comm->local_rank, &r->device)));
    char unused[ZR__UNUSED_BYTES];
    if (r->ranks.comm->rank == 0 && zr__train_gpus_unused(r->config->device, unused))
        zr__run_note(&r->ranks, "the GPUs of this machine are not used: %s", unused);
    ZR_TRY(zr__run_same(&r->ranks, "the kind of device (write device \"cpu\" or \"cuda\")",
                        r->device->profile.facts.own_memory));
    ZR_TRY(zr__run_settle(r));
    ZR_TRY(zr__run_agree(&r->ranks, check_plan(r)));
    ZR_TRY(zr__run_agree(&r->ranks, zr__resume_check_sums(r)));
    ZR_TRY(check_levels(&r->ranks, r->device, r->plan));
    ZR_TRY(zr__sample_open(r));
    ZR_TRY(same_choices(&r->ranks, r->config, &r->plans));
    return zr__run_highest_report(&r->ranks, &r->ranks.result->planned);
}
