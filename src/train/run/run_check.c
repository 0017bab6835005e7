/** Checks before a run creates anything: its inputs, its plan, and the configuration keys whose values depend on ranks
 * and hosts. All ranks must get the same results. */
#include "train/run/agree.h"
#include "train/run/resume.h"
#include "train/run/sample.h"
#include "train/run/notes.h"

#include "base/core/core.h"
#include "comm/comm.h"
#include "config/config.h"
#include "plan/cost/cost.h"
#include "store/store.h"
#include "train/dir/report.h"
#include "train/host/device.h"
#include "train/host/host.h"
#include "train/host/limits.h"
#include "train/measure/measure.h"

#include <stdio.h>
#include <string.h>

static void note_made_again(const zr__run *r, const zr__samples *samples)
{
    zr_data_info info = {.made_again = ""};
    if (zr__samples_are_open(samples)) info = zr__samples_info(samples);
    if (info.made_again[0]) zr__run_note(r, "%s", info.made_again);
}

static zr_status open_inputs(zr__run *r, bool first)
{
    zr__progress p = {.run = r, .what = "data: texts are looked at, and tokenized once,"};
    ZR_TRY(zr__train_model(r->config, &r->model));
    ZR_TRY(zr__inputs_open(r->config, first, zr__run_progress, &p, &r->inputs));
    note_made_again(r, &r->inputs.train);
    note_made_again(r, &r->inputs.val);
    return ZR_OK;
}

/** Check the output directory on rank 0. The run must not overwrite its inputs. Only a resumed run may overwrite the
 * configuration file that it was started with. */
static zr_status check_dir(const zr__run *r)
{
    const char *inputs[ZR_CONFIG_INPUTS + 1], *none = NULL;
    if (r->comm->rank != 0) return ZR_OK;
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
    const bool first = r->comm->local_rank == 0;
    if (st == ZR_OK && first) st = open_inputs(r, true);
    if (st == ZR_OK) st = check_dir(r);
    ZR_TRY(zr__run_agree(r, st));
    return zr__run_agree(r, first ? ZR_OK : open_inputs(r, false));
}

/** Return the run's own copy of the configuration, in which the run may set keys. The first call creates the copy. */
static zr_config *own_config(zr__run *r)
{
    if (!r->given) {
        r->given = r->config;
        r->settled = *r->config;
        r->config = &r->settled;
    }
    return &r->settled;
}

zr_config zr__run_given(const zr__run *r)
{
    zr_config given = r->given ? *r->given : *r->config;
    given.zero.stage = r->config->zero.stage;
    given.recompute.policy = r->config->recompute.policy;
    given.micro_batch_size = r->config->micro_batch_size;
    given.accumulation_steps = r->config->accumulation_steps;
    given.train_batch_size = r->config->train_batch_size;
    given.train.layer_major = r->config->train.layer_major;
    given.zero.optim = r->config->zero.optim;
    given.zero.param = r->config->zero.param;
    given.zero.offload_gradients = r->config->zero.offload_gradients;
    given.recompute.offload = r->config->recompute.offload;
    given.recompute.partition = r->config->recompute.partition;
    given.zero.prefetch_bucket_elems = r->config->zero.prefetch_bucket_elems;
    given.zero.overlap_comm = r->config->zero.overlap_comm;
    given.zero.reduce_bucket_elems = r->config->zero.reduce_bucket_elems;
    given.zero.allgather_bucket_elems = r->config->zero.allgather_bucket_elems;
    return given;
}

/** If recompute policy auto is used without memory.limit, set memory.limit to the minimum of its defaults over the
 * ranks. The limit decides how much is recomputed, and all ranks must have the same plan. */
static zr_status settle_limit(zr__run *r)
{
    if (!zr__train_lacks_limit(r->config)) return ZR_OK;
    int64_t below = -zr__train_limit(&r->device->profile, r->comm->local_size, zr__comm_process_ranks(r->comm));
    ZR_TRY(zr__run_most(r, &below, 1));
    own_config(r)->memory.limit_bytes = -below;
    return ZR_OK;
}

/** Set the number of ranks per host, if it is the same for all hosts and the ranks of a host are consecutive.
 * Hierarchical collectives and the report of inter-host traffic need this number. */
static zr_status settle_hosts(zr__run *r)
{
    const zr_comm *c = r->comm;
    const zr_config_switch wanted = r->config->collectives.hierarchical;
    const bool in_a_row = c->size % c->local_size == 0 && c->rank % c->local_size == c->local_rank;
    const int ranks = in_a_row ? c->local_size : 0;
    bool alike = false;
    if (r->config->parallel.ranks_per_host > 0) return ZR_OK;
    ZR_TRY(zr__run_alike(r, &ranks, sizeof(ranks), &alike));
    alike = alike && ranks > 0;
    ZR_CHECK(alike || wanted != ZR_SWITCH_ON, ZR_ERR_CONFIG,
             "collectives.hierarchical: the hosts have different numbers of ranks, or those of a host are not next to "
             "each other; start as many on each (mpirun -N), in a row, or write \"auto\"");
    if (!alike && wanted == ZR_SWITCH_AUTO)
        zr__run_note(r,
                     "collectives.hierarchical auto: gathers and reductions are flat, since the hosts have different "
                     "numbers of ranks, or those of a host are not next to each other");
    if (alike && c->local_size < c->size) own_config(r)->parallel.ranks_per_host = c->local_size;
    return ZR_OK;
}

/** Check that the system grants memory and helper threads for `ranks` ranks of this process. The memory includes a
 * stack for each rank. */
static zr_status check_room(const zr__run *r, int ranks)
{
    int64_t bytes = zr__plan_process_bytes(r->plan, ranks) + ranks * r->ahead_bytes;
    const zr_queues queues = zr__plan_queues(r->plan, zr__comm_overlaps(r->comm, r->plan->profile.facts.own_memory));
    int more = r->plan->profile.facts.threads - 1 + zr_queues_apart(&queues, ZR_STREAM_COMM);
    more += r->rows_ahead > 0;
    /* threads of the streams FETCH and STORE, which read and write states on disk, and threads of the store */
    for (int s = ZR_STREAM_FETCH; s <= ZR_STREAM_STORE; s++) more += r->plan->has_stream[s] * (1 + ZR_STORE_THREADS);
    /* threads of the streams HOST and RETURN, and helpers of the updates */
    if (r->plan->has_stream[ZR_STREAM_HOST]) more += 1 + zr__train_threads(r->config, r->comm->local_size);
    more += 2 * (r->plan->save != ZR_SAVE_NONE); /* thread of the stream SAVE, and a thread that writes the file */
    return zr__host_room(bytes, ranks * more);
}

/** Return the bytes of memory.limit that hold the samples of the data, and are therefore not for the plan. On a GPU the
 * limit is for its own memory, which holds no samples. */
static int64_t held_bytes(const zr__run *r)
{
    if (r->config->memory.limit_bytes == 0 || r->device->profile.facts.own_memory) return 0;
    return zr__samples_memory_bytes(&r->inputs.train) + zr__samples_memory_bytes(&r->inputs.val);
}

/** Check that memory.limit has room for more than the samples of the data. */
static zr_status check_held(const zr__run *r)
{
    const int64_t held = held_bytes(r), limit = r->config->memory.limit_bytes;
    ZR_CHECK(held == 0 || held < limit, ZR_ERR_MEMORY,
             "the samples of data.train and data.val take %s of memory, but memory.limit is %s; give a higher limit or "
             "fewer samples",
             ZR_SIZE((double)held), ZR_SIZE((double)limit));
    if (held > 0 && zr__config_is_open(r->config))
        zr__run_note(r, "memory.limit: %s of it hold the samples of data.train and data.val, the rest is for the plan",
                     ZR_SIZE((double)held));
    return ZR_OK;
}

/** Set the memory of the data, and of the rows that are read ahead. Rows are not read ahead if they need more memory
 * than is allowed. */
static void settle_ahead(zr__run *r)
{
    int64_t bytes = 0;
    r->ahead_bytes = zr__samples_memory_bytes(&r->inputs.train) + zr__samples_memory_bytes(&r->inputs.val);
    if (!zr__samples_take_time(&r->inputs.train)) return;
    r->rows_ahead = zr__rows_ahead_room(r->plan, &bytes);
    r->ahead_bytes += bytes;
    if (r->rows_ahead == 0)
        zr__run_note(r, "data.train: samples are not read ahead, because they need more memory than is set aside for "
                        "them");
}

/** Refuse collectives.reduce "nccl" if ranks are threads of one process. Errors: ZR_ERR_UNSUPPORTED. */
static zr_status check_reduce(const zr__run *r)
{
    const int ranks = zr__comm_process_ranks(r->comm);
    ZR_CHECK(r->config->collectives.reduce != ZR_COLLECTIVE_NCCL || ranks == 1, ZR_ERR_UNSUPPORTED,
             "collectives.reduce: nccl sums between processes, and %d ranks are threads of this one; start a process "
             "for each (mpirun, srun), or write reduce_scatter",
             ranks);
    return ZR_OK;
}

/** Use the rates that `zr info --bench` recorded on each host, if they are the same on all ranks. Otherwise plan
 * without measured rates, since all ranks must have the same plan. */
static zr_status settle_rates(zr__run *r)
{
    zr_rates rates;
    bool alike;
    zr_profile mine = r->device->profile;
    const bool narrow = r->config->bf16 && mine.facts.bf16_products;
    const bool mixes = r->config->recompute.policy == ZR_POLICY_AUTO && r->config->parallel.tensor > 1;
    if (!mixes && !zr__config_is_open(r->config)) return ZR_OK; /* the plan does not depend on rates */
    if (zr__rates_recall(&r->device->profile.facts, &rates) == ZR_OK)
        zr__rates_profile(&rates, narrow ? ZR_BF16 : ZR_F32, r->comm->size, r->comm->local_size, &mine);
    zr__disk_profile(r->comm->local_size, &mine);
    const zr_machine *m = &mine.machine;
    double number[] = {0,
                       m->flops_f32,
                       m->flops_bf16,
                       m->memory_bytes_sec,
                       zr__machine_link(m).bytes_sec,
                       m->disk_read_bytes_sec,
                       m->disk_write_bytes_sec,
                       m->disk_both_bytes_sec};
    for (int i = 0; i < m->n_products; i++) number[0] += (i + 1) * m->product[i].flops;
    ZR_TRY(zr__run_alike(r, number, sizeof(number), &alike));
    if (alike) r->device->profile.machine = *m;
    return ZR_OK;
}

/** Find the bytes on disk that a rank may use if the configuration leaves the offload open: the value of --disk, or
 * otherwise its share of the free space in the folders. All ranks use the minimum over the ranks. */
static zr_status settle_disk(zr__run *r, int64_t *disk_bytes)
{
    const int64_t given = zr__config_disk_bytes(r->config);
    *disk_bytes = given;
    if (!zr__config_get_open(r->config).offload) return ZR_OK;
    zr__folders folders = {0};
    zr_config with = *r->config;
    with.zero.optim.device = ZR_HOME_NVME;
    zr_status st = ZR_OK;
    if (!with.zero.optim.folders && !with.zero.param.folders)
        st = ZR_FAIL(ZR_ERR_CONFIG, "--disk needs a folder on a fast local disk; name it: "
                                    "--zero_optimization.offload_optimizer.nvme_path=DIR");
    if (st == ZR_OK) st = zr__train_folders(&with, &folders);
    int64_t below = -(zr__folders_free_bytes(&folders) / r->comm->local_size);
    zr__folders_free(&folders);
    ZR_TRY(zr__run_agree(r, st));
    ZR_TRY(zr__run_most(r, &below, 1));
    if (given == 0) *disk_bytes = -below;
    return ZR_OK;
}

/** Choose values for open keys by a search on rank 0, so that all ranks get the same plan. A resumed run keeps the size
 * of its micro-batches, since another size would change the last bits of gradient sums. */
static zr_status settle_open(zr__run *r)
{
    const zr__checkpoint_run *from = &r->resume.from;
    zr_status st = ZR_OK;
    if (!zr__config_is_open(r->config)) return ZR_OK;
    zr_config *config = own_config(r);
    const zr__train_kept kept = {from->micro_batch_size, from->accumulation_steps};
    zr__train_target target = {
        .ranks = r->comm->size,
        .host_ranks = r->comm->local_size,
        .host_bytes = r->device->profile.facts.own_memory ? zr__host_available_bytes() : 0,
        .memory_bytes = zr__train_limit(&r->device->profile, r->comm->local_size, zr__comm_process_ranks(r->comm)),
        .profile = &r->device->profile};
    ZR_TRY(settle_disk(r, &target.disk_bytes));
    const int64_t limit = config->memory.limit_bytes;
    config->memory.limit_bytes -= held_bytes(r);
    if (r->comm->rank == 0) st = zr__train_choose(config, &target, kept, NULL, r->chosen_note);
    config->memory.limit_bytes = limit;
    ZR_TRY(zr__run_agree(r, st));
    ZR_TRY(zr__run_share(r, &config->zero.stage, sizeof(config->zero.stage)));
    ZR_TRY(zr__run_share(r, &config->recompute.policy, sizeof(config->recompute.policy)));
    ZR_TRY(zr__run_share(r, &config->micro_batch_size, sizeof(config->micro_batch_size)));
    ZR_TRY(zr__run_share(r, &config->accumulation_steps, sizeof(config->accumulation_steps)));
    ZR_TRY(zr__run_share(r, &config->train_batch_size, sizeof(config->train_batch_size)));
    ZR_TRY(zr__run_share(r, &config->train.layer_major, sizeof(config->train.layer_major)));
    ZR_TRY(zr__run_share(r, &config->zero.optim.device, sizeof(config->zero.optim.device)));
    ZR_TRY(zr__run_share(r, &config->zero.optim.ratio, sizeof(config->zero.optim.ratio)));
    ZR_TRY(zr__run_share(r, &config->zero.param.device, sizeof(config->zero.param.device)));
    ZR_TRY(zr__run_share(r, &config->zero.param.ratio, sizeof(config->zero.param.ratio)));
    ZR_TRY(zr__run_share(r, &config->recompute.offload, sizeof(config->recompute.offload)));
    ZR_TRY(zr__run_share(r, &config->recompute.partition, sizeof(config->recompute.partition)));
    ZR_TRY(zr__run_share(r, &config->zero.prefetch_bucket_elems, sizeof(config->zero.prefetch_bucket_elems)));
    ZR_TRY(zr__run_share(r, &config->zero.overlap_comm, sizeof(config->zero.overlap_comm)));
    ZR_TRY(zr__run_share(r, &config->zero.reduce_bucket_elems, sizeof(config->zero.reduce_bucket_elems)));
    ZR_TRY(zr__run_share(r, &config->zero.allgather_bucket_elems, sizeof(config->zero.allgather_bucket_elems)));
    return zr__run_share(r, &config->zero.offload_gradients, sizeof(config->zero.offload_gradients));
}

/** Check that the plan fits in memory, and on disk in the space of --disk. If it does not fit in memory, the message
 * names an offload with which it would fit. */
static zr_status check_fits(const zr__run *r)
{
    /* Messages name memory.limit only if the user gave it. Otherwise they name the host's memory. */
    const int64_t limit_bytes = (r->given ? r->given : r->config)->memory.limit_bytes;
    const int in_process = zr__comm_process_ranks(r->comm), local = r->comm->local_size;
    const int64_t there = zr__train_limit(&r->device->profile, local, in_process),
                  disk_bytes = zr__config_disk_bytes(r->config),
                  on_disk = r->plan->memory.space[ZR_SPACE_DISK].total_bytes;
    char remedy[ZR_OFFLOAD_REMEDY_BYTES];
    const int64_t held = limit_bytes > 0 ? held_bytes(r) : 0, needs = zr__plan_process_bytes(r->plan, 1) + held;
    const zr__config_open tried = zr__config_get_open(r->given ? r->given : r->config);
    const zr_status st = zr__train_memory_check(r->plan, limit_bytes, local, in_process > 1, &tried);
    ZR_CHECK(st != ZR_OK || held == 0 || needs <= limit_bytes, ZR_ERR_MEMORY,
             "the plan and the samples of data.train and data.val, which take %s, need %s per rank, but memory.limit "
             "is %s; give a higher limit, fewer samples or a smaller batch",
             ZR_SIZE((double)held), ZR_SIZE((double)needs), ZR_SIZE((double)limit_bytes));
    if (st == ZR_ERR_MEMORY) {
        const char *why = ZR__WHY();
        const zr__train_target target = {.ranks = r->comm->size, .host_ranks = local, .profile = &r->device->profile};
        zr__train_offload_remedy(r->config, &target,
                                 limit_bytes > 0 && (there == 0 || limit_bytes < there) ? limit_bytes : there, remedy);
        return ZR_FAIL(st, "%s%s%s", why, remedy[0] ? ". It fits with " : "", remedy);
    }
    ZR_TRY(st);
    ZR_CHECK(disk_bytes == 0 || on_disk <= disk_bytes, ZR_ERR_MEMORY,
             "the plan has %s of a rank's states on disk, but --disk is %s; give more, or use a smaller model or more "
             "ranks",
             ZR_SIZE((double)on_disk), ZR_SIZE((double)disk_bytes));
    return ZR_OK;
}

static zr_status check_plan(zr__run *r)
{
    const int in_process = zr__comm_process_ranks(r->comm);
    zr_config config = *r->config;
    config.memory.limit_bytes -= held_bytes(r);
    ZR_TRY(zr__train_plan(&config, r->comm->size, -1, &r->device->profile, &r->plan));
    settle_ahead(r);
    ZR_TRY(check_fits(r));
    if (in_process == 1 || r->comm->rank == 0) ZR_TRY(check_room(r, in_process));
    ZR_TRY(zr__watch_create(&r->watch, r->observer, r->plan, r->comm->rank));
    zr__hang_plan(r->hang, r->plan);
    r->result->planned = zr__report_planned(r->plan);
    r->info = (zr_train_info){.config = r->config,
                              .plan = r->plan,
                              .comm = r->comm,
                              .output_dir = r->config->train.output_dir,
                              .threads = r->device->profile.facts.threads,
                              .train_tokens = zr__samples_info(&r->inputs.train).tokens};
    if (zr__samples_are_open(&r->inputs.val)) r->info.val_tokens = zr__samples_info(&r->inputs.val).tokens;
    return ZR_OK;
}

/** Check that recompute policy auto made the same choice on all ranks. The choice depends on the scratch memory of
 * kernels, which depends on the processor. Ranks that recompute different activations would gather at different times
 * and deadlock. Also check that all ranks save checkpoints in the same mode. */
static zr_status same_choices(zr__run *r)
{
    uint64_t work;
    const zr_plan *plan = r->plan;
    memcpy(&work, &plan->flops_hardware, sizeof(work));
    if (r->config->recompute.policy == ZR_POLICY_AUTO) {
        ZR_TRY(zr__run_same(
            r,
            "the way in which activation_checkpointing.policy auto keeps checkpoints (these processors are not "
            "alike: name a policy)",
            (uint64_t)plan->partition_checkpoints + 2 * (uint64_t)plan->checkpoint_home));
        ZR_TRY(zr__run_same(
            r,
            "the recomputation that activation_checkpointing.policy auto chooses (these processors are not alike: "
            "name a policy)",
            work));
    }
    return zr__run_same(r,
                        "how checkpoints are saved asynchronously (these processors are not alike: give another "
                        "memory.limit, or write checkpoint.async false)",
                        (uint64_t)plan->save);
}

/** Return whether ranks with different processor levels would compute different values of the same weights. */
static bool copies_drift(const zr_plan *plan, const char *one, const char *other)
{
    const zr_layout *l = &plan->layout;
    /* Each tensor-parallel rank computes the gradients of uncut weights, such as norms, for itself. */
    if (l->tensor > 1 && l->sequence == ZR_SEQUENCE_OFF) return true;
    /* Otherwise all copies have the same gradient, whose sum is sent to the ranks. The update is element-wise, and
     * rounds differently only at v2, which has no fused multiply-add. */
    const bool copies = plan->group[plan->optim_group].size < plan->ranks;
    return copies && (strcmp(one, "v2") == 0) != (strcmp(other, "v2") == 0);
}

/** Check the processor levels of the ranks. Levels round differently. Refuse them if several ranks update copies of the
 * same weights, and the copies would not stay equal. Otherwise add a note, since the losses are not those of any single
 * level. Errors: ZR_ERR_CONFIG. */
static zr_status check_levels(zr__run *r)
{
    enum { NAME_BYTES = sizeof(uint64_t) };
    char first[NAME_BYTES] = "", its[NAME_BYTES], noted[NAME_BYTES];
    uint64_t packed;
    int other = 0;
    if (r->device->profile.facts.own_memory) return ZR_OK;
    snprintf(first, sizeof(first), "%s", zr_device_cpu_level());
    memcpy(&packed, first, sizeof(packed));
    ZR_TRY(zr__run_gather(r, packed));
    packed = zr__run_gathered(r, 0);
    memcpy(first, &packed, sizeof(first));
    for (int q = 1; q < r->comm->size; q++) {
        packed = zr__run_gathered(r, q);
        memcpy(its, &packed, sizeof(its));
        if (strcmp(its, first) == 0) continue;
        ZR_CHECK(!copies_drift(r->plan, first, its), ZR_ERR_CONFIG,
                 "rank 0 uses the kernels %s and rank %d uses %s, which round differently: with parallel.tensor above "
                 "1, at stage 0 and with mics_shard_size, ranks have copies of the same weights, which would not stay "
                 "equal; set ZR_KERNELS to a level that all processors have (`zr info`)",
                 first, q, its);
        if (other > 0) continue;
        other = q;
        memcpy(noted, its, sizeof(noted));
    }
    if (other > 0)
        zr__run_note(r,
                     "rank 0 uses the kernels %s and rank %d uses %s, so the last digits of the losses are those of "
                     "neither; set ZR_KERNELS to a level that all processors have (`zr info`)",
                     first, other, noted);
    return ZR_OK;
}

zr_status zr__run_check(zr__run *r)
{
    uint64_t hash = 0;
    ZR_TRY(check_inputs(r, zr__config_hash(r->config, &hash)));
    ZR_TRY(zr__run_same(r, "the configuration or the version of zr", hash));
    ZR_TRY(zr__run_agreed(r, zr__watch_same(r->observer, r->comm)));
    ZR_TRY(zr__run_same(r, "--resume", r->resume.asked));
    ZR_TRY(zr__run_same(r, "--memory", zr__config_is_open(r->config)));
    ZR_TRY(zr__run_same(r, "--disk", (uint64_t)zr__config_disk_bytes(r->config)));
    ZR_TRY(zr__run_same_inputs(r));
    if (r->resume.asked) ZR_TRY(zr__resume_open(r));
    ZR_TRY(check_reduce(r));
    const int threads = zr__train_threads(r->config, r->comm->local_size);
    ZR_TRY(zr__run_agree(r, zr__train_device(r->config->device, threads, r->comm->local_rank, &r->device)));
    char unused[ZR__UNUSED_BYTES];
    if (r->comm->rank == 0 && zr__train_gpus_unused(r->config->device, unused))
        zr__run_note(r, "the GPUs of this machine are not used: %s", unused);
    ZR_TRY(
        zr__run_same(r, "the kind of device (write device \"cpu\" or \"cuda\")", r->device->profile.facts.own_memory));
    ZR_TRY(settle_limit(r));
    ZR_TRY(settle_hosts(r));
    ZR_TRY(settle_rates(r));
    ZR_TRY(zr__run_agree(r, check_held(r)));
    ZR_TRY(settle_open(r));
    ZR_TRY(zr__run_agree(r, check_plan(r)));
    ZR_TRY(check_levels(r));
    ZR_TRY(zr__sample_open(r));
    ZR_TRY(same_choices(r));
    return zr__run_highest_report(r, &r->result->planned);
}
