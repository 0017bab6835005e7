#include "base/file/file.h"
#include "base/text/text.h"
#include "train/host/device.h"
#include "train/family/family.h"
#include "train/host/host.h"
#include "train/weights/load.h"
#include "train/family/paths.h"
#include "zr/data.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The memory that the run report promises for a process: PROCESS_SHARE of its arenas, PROCESS_EXTRA_BYTES, and
 * RANK_EXTRA_BYTES for each further rank's stack and what the allocator and libraries keep for its thread (measured:
 * 240 to 310 KiB with 400 and 1,000 ranks). */
#define PROCESS_EXTRA_BYTES (48LL << 20)
#define RANK_EXTRA_BYTES (384 << 10)
#define PROCESS_SHARE 1.03
#define HOST_SHARE 0.9

enum { REMEDIES_BYTES = 256 };

/** Set sizes, and what else changes the result of the weights, from the directory of model.init. */
static zr_status sizes_from_init(zr_config *config, const zr_family *family)
{
    zr_family_model model;
    ZR_TRY(zr__family_read(family, config->model.init, &model));
    ZR_TRY(zr_config_set_sizes(config, &model.sizes, config->model.init));
    ZR_TRY(family->adopt(&model.numbers, config));
    ZR_TRY(family->tell(config->model.init, config));
    return ZR_OK;
}

static zr_status sizes_from_preset(zr_config *config, const zr_family *family)
{
    zr_family_model model;
    char origin[96], reason[256];
    if (zr__family_preset(family, config->model.preset, &model) != ZR_OK) {
        snprintf(reason, sizeof(reason), "%s", zr_error_message());
        return ZR_FAIL(ZR_ERR_CONFIG, "model.preset: %s", reason);
    }
    snprintf(origin, sizeof(origin), "preset %s", config->model.preset);
    ZR_TRY(zr_config_set_sizes(config, &model.sizes, origin));
    return ZR_OK;
}

/** Kind of data at a path. */
typedef enum data_kind { DATA_UNKNOWN, DATA_TOKENS, DATA_TEXT } data_kind;

/** Find whether a path holds text or tokens. Oddities of a text are noted. A path that cannot be opened is left to the
 * reader, which has the better message; a plan needs no data. */
static zr_status look_at_data(zr_config *config, const char *path, data_kind *kind)
{
    char note[512] = "";
    bool text = false;
    *kind = DATA_UNKNOWN;
    if (!path) return ZR_OK;
    zr_status looked = zr_data_look(path, &text, note, sizeof(note));
    if (looked == ZR_ERR_MEMORY) return zr_error_frame(looked, __func__, __FILE__, __LINE__);
    if (looked != ZR_OK) return ZR_OK;
    *kind = text ? DATA_TEXT : DATA_TOKENS;
    return text && note[0] ? zr_config_add_note(config, note) : ZR_OK;
}

/** Read a text without a named tokenizer as bytes, before the vocabulary is settled. A text and a token file together
 * are refused then, since bytes are other tokens than the file's. */
static zr_status default_tokenizer(zr_config *config, bool *bytes)
{
    static const char *const name[] = {[DATA_TOKENS] = "tokens", [DATA_TEXT] = "text"};
    data_kind train, val;
    *bytes = false;
    ZR_TRY(look_at_data(config, config->data.train, &train));
    ZR_TRY(look_at_data(config, config->data.val, &val));
    if (config->data.tokenizer) return ZR_OK;
    ZR_CHECK(train == DATA_UNKNOWN || val == DATA_UNKNOWN || train == val, ZR_ERR_CONFIG,
             "data.train is %s and data.val is %s, and no tokenizer says how text becomes the same tokens; give the "
             "one that made them as data.tokenizer (its directory, or \"bytes\"), or files of one kind",
             name[train], name[val]);
    if (train != DATA_TEXT) return ZR_OK;
    *bytes = true;
    ZR_TRY(zr_config_set(config, "data.tokenizer", "bytes"));
    return ZR_OK;
}

/** Note that most of the model's vocabulary is unused by a text that is read as bytes for lack of a named tokenizer. A
 * vocabulary up to twice the bytes counts as rounded up. */
static zr_status note_bytes(zr_config *config)
{
    char note[320];
    const int64_t vocab = config->model.sizes.vocab_size;
    if (vocab <= 2 * ZR__BYTES_VOCAB) return ZR_OK;
    snprintf(
        note, sizeof(note),
        "data.tokenizer: not given, so the text is read as bytes, 256 of the model's %lld tokens: it trains badly. "
        "Give the directory of a tokenizer (--data.tokenizer=DIR; `zr tokenize --train` makes one), or take a "
        "model with vocab_size 256",
        (long long)vocab);
    return zr_config_add_note(config, note);
}

/** Set the vocabulary size to the tokenizer's if nothing else gives it. */
static zr_status fit_tokenizer(zr_config *config)
{
    zr_tokenizer *tokenizer = NULL;
    const char *name = config->data.tokenizer;
    char text[24], why[640];
    if (!name || strcmp(name, "bytes") == 0 || config->model.sizes.vocab_size > 0) return ZR_OK;
    zr_status st = zr_tokenizer_open(name, &tokenizer);
    if (st != ZR_OK) snprintf(why, sizeof(why), "%s", zr_error_message());
    ZR_CHECK(st == ZR_OK, st, "data.tokenizer: %s (model.vocab_size, which is not given, is to be its size)", why);
    snprintf(text, sizeof(text), "%lld", (long long)zr_tokenizer_vocab(tokenizer));
    zr_tokenizer_close(&tokenizer);
    return zr_config_set(config, "model.vocab_size", text);
}

static zr_status default_output_dir(zr_config *config, int64_t unix_sec)
{
    char when[32], path[160];
    struct tm utc;
    time_t now = (time_t)unix_sec;
    if (config->train.output_dir) return ZR_OK;
    ZR_CHECK(gmtime_r(&now, &utc), ZR_ERR_ARG,
             "the clock says %lld seconds since 1970; wanted is a time that has a date", (long long)unix_sec);
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &utc);
    const char *model = config->model.preset ? config->model.preset : config->model.type;
    snprintf(path, sizeof(path), "runs/%s-%s", model, when);
    ZR_TRY(zr_config_set(config, "train.output_dir", path));
    return ZR_OK;
}

zr_status zr_train_prepare(zr_config *config, int ranks, int64_t unix_sec)
{
    const zr_family *family = NULL;
    zr_family_model model;
    bool bytes = false;
    ZR_TRY(zr__run_paths_settle(config));
    ZR_TRY(zr__family_of(config, &family));
    if (config->model.init) {
        ZR_TRY(sizes_from_init(config, family));
    } else if (config->model.preset) {
        ZR_TRY(sizes_from_preset(config, family));
    }
    ZR_TRY(default_tokenizer(config, &bytes));
    ZR_TRY(fit_tokenizer(config));
    ZR_TRY(default_output_dir(config, unix_sec));
    ZR_TRY(zr_config_resolve(config, ranks));
    if (bytes) ZR_TRY(note_bytes(config));
    ZR_TRY(zr_train_model(config, &model));
    return ZR_OK;
}

static zr_optimizer optimizer_of(const zr_config *config)
{
    double beta1 = config->optimizer.betas[0], beta2 = config->optimizer.betas[1];
    double eps = config->optimizer.eps, decay = config->optimizer.weight_decay;
    switch (config->optimizer.type) {
    case ZR_OPTIMIZER_SGD:
        return zr_sgd(config->optimizer.momentum, config->optimizer.nesterov, decay);
    case ZR_OPTIMIZER_ADAM:
        if (!config->optimizer.adam_w_mode) return zr_adam(beta1, beta2, eps, decay);
        break;
    case ZR_OPTIMIZER_ADAMW:
        break;
    }
    return zr_adamw(beta1, beta2, eps, decay);
}

static zr_dtype wire_dtype_of(zr_config_dtype dtype)
{
    switch (dtype) {
    case ZR_CONFIG_BF16:
        return ZR_BF16;
    case ZR_CONFIG_FP16:
        return ZR_F16;
    case ZR_CONFIG_AUTO:
    case ZR_CONFIG_FP32:
        break;
    }
    return ZR_F32;
}

/** Return the largest arena with which a rank stays within `limit_bytes` (zr_train_rank_bytes); 0: no limit. */
static int64_t arena_limit(int64_t limit_bytes, bool apart)
{
    if (limit_bytes == 0) return 0;
    double bytes = apart ? (double)(limit_bytes - ZR__GPU_EXTRA_BYTES)
                         : ((double)limit_bytes - PROCESS_EXTRA_BYTES) / PROCESS_SHARE;
    return bytes > 1.0 ? (int64_t)bytes : 1;
}

bool zr_train_saves_behind(const zr_config *config)
{
    return config->train.save_interval > 0 && config->checkpoint.async != ZR_SWITCH_OFF;
}

/** Set how the layout keeps states, recomputes and saves. */
static void set_states(const zr_config *config, zr_layout *layout)
{
    static const zr_recompute recompute[] = {[ZR_POLICY_NONE] = ZR_RECOMPUTE_NONE,
                                             [ZR_POLICY_UNIT] = ZR_RECOMPUTE_UNIT,
                                             [ZR_POLICY_SELECTIVE] = ZR_RECOMPUTE_SELECTIVE,
                                             [ZR_POLICY_AUTO] = ZR_RECOMPUTE_AUTO,
                                             [ZR_POLICY_PAPER] = ZR_RECOMPUTE_PAPER};
    bool lean = config->memory.layout == ZR_LAYOUT_LEAN;
    layout->states = lean ? ZR_STATES_LEAN : ZR_STATES_PAPER;
    layout->norm_first = config->gradient_clipping > 0.0 || config->fp16;
    layout->rank_free_sums = config->train.rank_free_sums;
    layout->reduce_once = config->reduce_once;
    /* A plan for fewer ranks than the configuration was settled for may have but one micro-batch. */
    layout->micro_squares = config->train.noise_scale && layout->ranks * config->accumulation_steps > 1;
    bool summed = config->accumulation_steps > 1 || layout->rank_free_sums; /* gradients are added to persistent sums */
    layout->two_pass = lean && !summed && config->memory.norm == ZR_NORM_TWO_PASS;
    layout->recompute = recompute[config->recompute.policy];
    layout->recompute_every = config->recompute.every;
    layout->partition_checkpoints = config->recompute.partition;
    layout->offload_checkpoints = config->recompute.cpu || config->recompute.offload == ZR_OFFLOAD_HOST;
    /* A copy takes more memory than a process promises, so a given memory.limit must allow it. */
    if (zr_train_saves_behind(config))
        layout->save = zr_config_given(config, "memory.limit") ? ZR_SAVE_AUTO : ZR_SAVE_IN_PLACE;
    if (layout->recompute == ZR_RECOMPUTE_AUTO || layout->save == ZR_SAVE_AUTO)
        layout->limit_bytes = arena_limit(config->memory.limit_bytes, false);
}

/** Return a number of ranks as an int; a number too large for any layout stays too large. */
static int at_most_ranks(int64_t ranks)
{
    return ranks < INT32_MAX ? (int)ranks : INT32_MAX;
}

/** Return whether collectives can run in two levels, with host_ranks ranks on each host. */
static bool has_levels(const zr_layout *l, int64_t host_ranks)
{
    bool cut = l->tensor == 1 && host_ranks > 1 && host_ranks < l->ranks && l->ranks % host_ranks == 0;
    bool summed_here = l->reduce == ZR_REDUCE_TO_SHARDS || l->reduce == ZR_REDUCE_ALL_REDUCE;
    bool plain = !l->fused_buffer && summed_here && l->gather == ZR_GATHER_ALL;
    bool alike =
        (l->shard_ranks == 0 || l->shard_ranks == host_ranks) && (l->hpz_ranks == 0 || l->hpz_ranks == host_ranks);
    return cut && (host_ranks & (host_ranks - 1)) == 0 && plain && alike;
}

/** Set the groups within the data-parallel ranks. */
static void set_groups(const zr_config *config, zr_layout *layout)
{
    const int64_t shard = config->zero.mics_shard_ranks, hpz = config->zero.hpz_partition_ranks,
                  host = config->parallel.ranks_per_host;
    layout->shard_ranks = shard > 0 ? at_most_ranks(shard) : 0;
    layout->hpz_ranks = hpz > 1 ? at_most_ranks(hpz) : 0;
    const int64_t all = (int64_t)layout->ranks * layout->tensor;
    const bool levels = config->collectives.hierarchical == ZR_SWITCH_ON; /* refused later on uneven hosts */
    const bool hosts = host > 0 && host < all && (layout->tensor == 1 || levels || all % host == 0);
    layout->host_ranks = hosts ? (int)host : 0;
    layout->hierarchical = levels || (config->collectives.hierarchical == ZR_SWITCH_AUTO && has_levels(layout, host));
}

/** Set the layout's communication: dtype, buckets, collectives, overlap and prefetch. */
static void set_movement(const zr_config *config, zr_layout *layout)
{
    static const zr_reduce reduce[] = {[ZR_COLLECTIVE_SCATTER] = ZR_REDUCE_TO_SHARDS,
                                       [ZR_COLLECTIVE_ALL_REDUCE] = ZR_REDUCE_ALL_REDUCE,
                                       [ZR_COLLECTIVE_OWNER] = ZR_REDUCE_TO_OWNER,
                                       [ZR_COLLECTIVE_NCCL] = ZR_REDUCE_NCCL};
    bool overlap = config->zero.overlap_comm == ZR_SWITCH_ON;
    layout->wire_dtype = wire_dtype_of(config->communication_dtype);
    layout->reduce_bucket_elems = config->zero.reduce_bucket_elems;
    layout->gather_bucket_elems = config->zero.allgather_bucket_elems;
    layout->fused_buffer = config->collectives.fused;
    layout->reduce = reduce[config->collectives.reduce];
    layout->gather = config->collectives.gather == ZR_COLLECTIVE_BROADCAST ? ZR_GATHER_BROADCAST : ZR_GATHER_ALL;
    layout->overlap = overlap;
    set_groups(config, layout);
    layout->prefetch_elems = overlap ? config->zero.prefetch_bucket_elems : 0;
    layout->live_elems = config->zero.max_live_elems;
    layout->reuse_elems = config->zero.max_reuse_elems;
    layout->persist_elems = config->zero.persistence_elems;
    layout->persist_model_elems = config->zero.model_persistence_elems;
}

/** Return the most tokens of a sample and its prompt: a byte is one token at most, and one token stands before an empty
 * prompt. */
static int64_t sample_room(const zr_config *config)
{
    const char *prompt = config->train.sample_prompt;
    const int64_t room = (prompt ? (int64_t)strlen(prompt) : 0) + 1 + config->train.sample_tokens;
    return room < config->model.sizes.n_positions ? room : config->model.sizes.n_positions;
}

zr_layout zr_train_layout(const zr_config *config, int ranks)
{
    zr_layout layout = ZR_LAYOUT_INIT;
    layout.tensor = config->parallel.tensor < ranks ? (int)config->parallel.tensor : ranks;
    layout.ranks = ranks / layout.tensor;
    static const zr_sequence sequence[] = {[ZR_TOKENS_OFF] = ZR_SEQUENCE_OFF,
                                           [ZR_TOKENS_KEEP] = ZR_SEQUENCE_KEEP,
                                           [ZR_TOKENS_REGATHER] = ZR_SEQUENCE_REGATHER};
    layout.sequence = sequence[config->parallel.sequence];
    layout.stage = (int)config->zero.stage;
    layout.dtype = config->bf16 ? ZR_BF16 : config->fp16 ? ZR_F16 : ZR_F32;
    layout.batch = config->micro_batch_size;
    layout.seq = config->data.seq_length;
    layout.accum = config->accumulation_steps;
    set_states(config, &layout);
    set_movement(config, &layout);
    layout.eval = config->data.val != NULL;
    if (config->train.sample_tokens > 0) layout.decode_len = sample_room(config);
    layout.optimizer = optimizer_of(config);
    return layout;
}

int zr_train_threads(const zr_config *config, int local_ranks)
{
    if (config->train.threads > 0) return (int)config->train.threads;
    int share = zr_host_cores() / (local_ranks > 0 ? local_ranks : 1);
    return share > 1 ? share : 1;
}

/** Report sizes that are each in range, but whose product overflows. ZR_ERR_CONFIG. */
static zr_status too_large(const zr_layout *l, const zr_config_sizes *sizes)
{
    char why[512];
    snprintf(why, sizeof(why), "%s", zr_error_message());
    return ZR_FAIL(ZR_ERR_CONFIG,
                   "train_micro_batch_size_per_gpu %lld with data.seq_length %lld, model.n_embd %lld and "
                   "model.vocab_size %lld is more than can be counted (%s); lower the largest of them",
                   (long long)l->batch, (long long)l->seq, (long long)sizes->n_embd, (long long)sizes->vocab_size, why);
}

zr_status zr_train_plan_layout(const zr_config *config, const zr_layout *layout, const zr_profile *profile,
                               zr_plan **plan)
{
    zr_family_model model;
    zr_layout l = *layout;
    ZR_TRY(zr_train_model(config, &model));
    zr_model builder = zr_family_builder(&model);
    if (l.limit_bytes > 0 && profile->facts.apart) l.limit_bytes = arena_limit(config->memory.limit_bytes, true);
    zr_status st = zr_plan_create(&builder, &l, profile, plan);
    return st == ZR_ERR_SHAPE ? too_large(&l, &model.sizes) : st;
}

zr_status zr_train_plan(const zr_config *config, int ranks, int stage, const zr_profile *profile, zr_plan **plan)
{
    zr_layout layout = zr_train_layout(config, ranks);
    if (stage >= 0) layout.stage = stage;
    ZR_TRY(zr_train_plan_layout(config, &layout, profile, plan));
    return ZR_OK;
}

int64_t zr_train_process_bytes(int64_t total_bytes, int ranks)
{
    const double extra = (double)PROCESS_EXTRA_BYTES + (double)RANK_EXTRA_BYTES * (ranks - 1);
    const double bytes = PROCESS_SHARE * (double)total_bytes * ranks + extra;
    return bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX;
}

int64_t zr_train_rank_bytes(int64_t limited_bytes, const zr_device_facts *facts)
{
    return facts->apart ? limited_bytes + ZR__GPU_EXTRA_BYTES : zr_train_process_bytes(limited_bytes, 1);
}

int64_t zr_train_host_limit(int local_ranks)
{
    int64_t left = zr_host_available_bytes();
    return left > 0 ? (int64_t)(HOST_SHARE * (double)left / local_ranks) : 0;
}

/** List the settings not yet used that would make a plan smaller, for a message that adds one more. */
static const char *remedies(const zr_layout *l, char text[REMEDIES_BYTES])
{
    bool lean = l->states == ZR_STATES_LEAN;
    bool kept = lean && l->norm_first && l->accum == 1 && !l->rank_free_sums && !l->two_pass;
    bool again = l->recompute != ZR_RECOMPUTE_NONE && l->recompute != ZR_RECOMPUTE_SELECTIVE;
    text[0] = '\0';
    if (!l->train) return text;
    snprintf(text, REMEDIES_BYTES, "%s%s%s%sa smaller batch or seq_length, or ",
             l->stage < 3 ? "a higher zero_optimization.stage, " : "",
             again ? "" : "activation_checkpointing.policy unit, ", lean ? "" : "memory.layout lean, ",
             kept ? "memory.norm two_pass, " : "");
    return text;
}

zr_status zr_train_memory_check(const zr_plan *plan, int64_t limit_bytes, int local_ranks, bool threads)
{
    char use[REMEDIES_BYTES], needs[ZR_SIZE_BYTES], total[ZR_SIZE_BYTES], states[ZR_SIZE_BYTES], most[ZR_SIZE_BYTES];
    const zr_memory *memory = &plan->memory;
    const bool apart = plan->profile.facts.apart;
    int64_t rank_bytes = zr__train_process_bytes(plan, 1);
    if (apart) ZR_TRY(zr__train_gpu_check(plan, limit_bytes, threads ? local_ranks : 1));
    zr__text_size((double)memory->total_bytes, total);
    zr__text_size((double)memory->states_bytes, states);
    ZR_CHECK(
        apart || limit_bytes == 0 || rank_bytes <= limit_bytes, ZR_ERR_MEMORY,
        "the plan needs %s per rank (total %s, of it %s model states; on top 3 %% and 50.33 MB for the program and its "
        "libraries) but memory.limit is %s; use %smore ranks (`zr plan` shows each)",
        zr__text_size((double)rank_bytes, needs), total, states, zr__text_size((double)limit_bytes, most),
        remedies(&plan->layout, use));
    double host_bytes = threads ? (double)zr__train_process_bytes(plan, local_ranks) : (double)rank_bytes * local_ranks;
    int64_t left = zr_host_available_bytes();
    ZR_CHECK(left < 0 || host_bytes <= (double)left, ZR_ERR_MEMORY,
             "the plan needs %s on this machine (%d rank%s of %s, of it %s model states) but %s are available; use %sa "
             "smaller model",
             zr__text_size(host_bytes, needs), local_ranks, local_ranks == 1 ? "" : "s", total, states,
             zr__text_size((double)left, most), remedies(&plan->layout, use));
    return ZR_OK;
}
