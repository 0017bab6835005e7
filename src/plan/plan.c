/* plan: creates a plan from a model and a layout: graphs, states, schedules, memory map and accounts. Planning only
 * computes numbers and uses no device. */
#include "base/core/names.h"
#include "base/core/scope.h"
#include "plan/cost/cost.h"
#include "plan/program/pipeline.h"
#include "plan/write/write.h"
#include "tensor/tensor.h"

#include <string.h>

const char *zr_stream_name(zr_stream stream)
{
    ZR__NAME_IN(ZR_STREAM_LIST, ZR_STREAMS, stream, "unknown");
}

const char *zr_space_name(zr_space space)
{
    ZR__NAME_IN(ZR_SPACE_LIST, ZR_SPACES, space, "unknown");
}

const char *zr_step_kind_name(zr_step_kind kind)
{
    ZR__NAME_IN(ZR_STEP_LIST, ZR_STEP_KINDS, kind, "unknown");
}

zr_step_traits zr_step_traits_of(zr_step_kind kind)
{
    static const zr_step_traits traits[ZR_STEP_KINDS] = {
        [ZR_STEP_GATHER] = {ZR_MOVE_GATHER, 1, ZR_TRAFFIC_ALL_GATHER},
        [ZR_STEP_GATHER_GRAD] = {ZR_MOVE_GATHER, 1, ZR_TRAFFIC_ALL_GATHER},
        [ZR_STEP_REDUCE_SCATTER] = {ZR_MOVE_REDUCE, 0, ZR_TRAFFIC_REDUCE_SCATTER},
        [ZR_STEP_COUNT] = {ZR_MOVE_SCALARS, 0, ZR_TRAFFIC_ALL_REDUCE},
        [ZR_STEP_NORM] = {ZR_MOVE_SCALARS, 0, ZR_TRAFFIC_ALL_REDUCE},
        [ZR_STEP_AGREE] = {ZR_MOVE_SCALARS, 0, ZR_TRAFFIC_ALL_REDUCE},
        [ZR_STEP_TRUST] = {ZR_MOVE_SCALARS, 0, ZR_TRAFFIC_ALL_REDUCE},
        [ZR_STEP_GATHER_DIRECTION] = {ZR_MOVE_GATHER, 1, ZR_TRAFFIC_ALL_GATHER},
        [ZR_STEP_SCATTER_DIRECTION] = {ZR_MOVE_REDUCE, 0, ZR_TRAFFIC_REDUCE_SCATTER},
        [ZR_STEP_RECEIVED] = {ZR_MOVE_RECEIVE, 0, ZR_TRAFFIC_PIPELINE},
    };
    return kind >= 0 && kind < ZR_STEP_KINDS ? traits[kind] : (zr_step_traits){0};
}

zr_layout zr_layout_default(void)
{
    return (zr_layout){.size = sizeof(zr_layout),
                       .ranks = 1,
                       .tensor = 1,
                       .pipeline = 1,
                       .dtype = ZR_F32,
                       .wire_dtype = ZR_F32,
                       .batch = 1,
                       .seq = 1,
                       .accum = 1,
                       .reduce_bucket_elems = ZR_DEFAULT_BUCKET_ELEMS,
                       .gather_bucket_elems = ZR_DEFAULT_BUCKET_ELEMS,
                       .overlap = true,
                       .recompute = ZR_RECOMPUTE_NONE,
                       .recompute_every = 1,
                       .prefetch_elems = 1,
                       .train = true,
                       .eval = true,
                       .home = {.param_share = 1, .optim_share = 1}};
}

/* Reject combinations of options for storing and moving model states that exclude each other. Errors: ZR_ERR_CONFIG or
 * ZR_ERR_UNSUPPORTED. */
static zr_status check_choices(const zr_layout *l)
{
    bool lean = l->states == ZR_STATES_LEAN;
    ZR_CHECK(l->accum_order >= ZR_ACCUM_MICRO && l->accum_order <= ZR_ACCUM_AHEAD, ZR_ERR_ARG,
             "zr_layout.accum_order %d is none of zr_accum_order", (int)l->accum_order);
    ZR_CHECK(l->accum_order != ZR_ACCUM_AHEAD || l->accum_ahead >= 1, ZR_ERR_CONFIG,
             "zr_layout.accum_ahead is %lld, wanted at least 1 with ZR_ACCUM_AHEAD", (long long)l->accum_ahead);
    ZR_CHECK(
        !l->two_pass || (lean && l->accum == 1 && !l->rank_free_sums), ZR_ERR_CONFIG,
        "two passes for the norm (memory.norm two_pass) need memory.layout lean, gradient_accumulation_steps 1 and no "
        "train.reproducible world; given are the layout %s and %lld micro-batches a step%s. Elsewhere the gradient is "
        "kept, and one pass gives the norm",
        lean ? "lean" : "paper", (long long)l->accum, l->rank_free_sums ? ", train.reproducible world" : "");
    ZR_CHECK(!l->rank_free_sums || (l->ranks & (l->ranks - 1)) == 0, ZR_ERR_CONFIG,
             "train.reproducible is world with %d data-parallel ranks: sums that are the same for any number of ranks "
             "need a power of two",
             l->ranks);
    ZR_CHECK(!l->reduce_once || !l->rank_free_sums, ZR_ERR_UNSUPPORTED,
             "gradients reduced once a step (gradient_reduction step) with sums that are the same for any number of "
             "ranks (train.reproducible world): those are built for a reduction after every micro-batch");
    ZR_CHECK(l->reduce != ZR_REDUCE_ALL_REDUCE || l->stage <= 1, ZR_ERR_CONFIG,
             "collectives.reduce all_reduce at stage %d: it gives every rank all gradients, which stages 0 and 1 keep",
             l->stage);
    ZR_CHECK(l->reduce != ZR_REDUCE_ALL_REDUCE || l->stage == 0 || (l->accum == 1 && !l->rank_free_sums),
             ZR_ERR_UNSUPPORTED,
             "collectives.reduce all_reduce at stage 1 with %lld micro-batches a step%s: one is built "
             "(gradient_accumulation_steps 1), and not with sums for any number of ranks",
             (long long)l->accum, l->rank_free_sums ? ", train.reproducible world" : "");
    ZR_CHECK(
        l->reduce != ZR_REDUCE_NCCL || !l->rank_free_sums, ZR_ERR_CONFIG,
        "collectives.reduce nccl, which adds in an order of its own, with sums that are the same for any number of "
        "ranks (train.reproducible world): choose one");
    return ZR_OK;
}

/* Check the types of records. Errors: ZR_ERR_CONFIG. */
static zr_status check_records(const zr_layout *l)
{
    const struct {
        const char *name;
        zr_dtype type;
    } records[] = {{"weight_records", l->weight_records},
                   {"frozen_records", l->frozen_records},
                   {"grad_records", l->grad_records}};
    for (int i = 0; i < 3; i++)
        ZR_CHECK(records[i].type == ZR_F32 || zr_dtype_is_record(records[i].type), ZR_ERR_ARG,
                 "zr_layout.%s is %s: a type of records is wanted, or F32 for none", records[i].name,
                 zr_dtype_name(records[i].type));
    ZR_CHECK(!l->weight_differences || l->weight_records != ZR_F32, ZR_ERR_CONFIG,
             "quantization.weight_differences without zero_quantized_weights: no parameters are quantised");
    ZR_CHECK(!l->weight_differences || l->stage < 3, ZR_ERR_CONFIG,
             "quantization.weight_differences at zero_optimization.stage 3, where no rank has all parameters, to which "
             "differences could be added: leave it out, or use stage 2");
    const bool frozen = l->frozen_records != ZR_F32;
    ZR_CHECK(!frozen || l->tensor == 1, ZR_ERR_UNSUPPORTED,
             "zero_quantized_nontrainable_weights cannot be used with parallel.tensor %d, which cuts matrices within "
             "blocks; leave out one of the two",
             l->tensor);
    ZR_CHECK(!frozen || l->home.param != ZR_SPACE_DISK, ZR_ERR_UNSUPPORTED,
             "zero_quantized_nontrainable_weights cannot be used with offload_param.device nvme; leave out one of the "
             "two");
    ZR_CHECK(l->error_steps >= 0 && l->error_beta >= 0 && l->error_beta < 1, ZR_ERR_ARG,
             "zr_layout.error_steps is %lld and error_beta %g: at least 0, and from 0 to below 1, are wanted",
             (long long)l->error_steps, l->error_beta);
    ZR_CHECK(l->error_steps == 0 || l->grad_records != ZR_F32, ZR_ERR_CONFIG,
             "error feedback (zeropp_loco_param) without quantised gradients: choose zero_quantized_gradients too");
    ZR_CHECK(l->error_steps == 0 || !l->two_pass, ZR_ERR_UNSUPPORTED,
             "error feedback (zeropp_loco_param) with memory.norm two_pass, which quantises each gradient twice; leave "
             "out one of the two");
    if (l->grad_records == ZR_F32) return ZR_OK;
    ZR_CHECK(!l->rank_free_sums, ZR_ERR_CONFIG,
             "quantised gradients (zero_quantized_gradients) with sums that are the same for any number of ranks "
             "(train.reproducible world): each rank quantises its own sums, so values depend on their number; choose "
             "one");
    ZR_CHECK(l->reduce != ZR_REDUCE_NCCL, ZR_ERR_CONFIG,
             "quantised gradients (zero_quantized_gradients) with collectives.reduce nccl, which cannot add them: "
             "choose reduce_scatter");
    ZR_CHECK(l->reduce_once || l->accum == 1, ZR_ERR_CONFIG,
             "quantised gradients (zero_quantized_gradients) with a reduction after each of %lld micro-batches, which "
             "would quantise them as often: choose gradient_reduction step",
             (long long)l->accum);
    return ZR_OK;
}

/* Return the number of data-parallel ranks per host. Return 0 if this number is unknown or a tensor-parallel group
 * spans hosts. */
static int host_data_ranks(const zr_layout *l)
{
    return l->host_ranks % l->tensor == 0 ? l->host_ranks / l->tensor : 0;
}

/* Return the size of the group LOCAL, which consists of consecutive data-parallel ranks. Return 0 if the data axis is
 * not split. */
static int split_of(const zr_layout *l)
{
    int host = host_data_ranks(l);
    /* With one data-parallel rank per host, collectives have no level within hosts. */
    if (l->tensor > 1 && (!l->hierarchical || host == 1)) host = 0;
    const int split = l->shard_ranks > 0 ? l->shard_ranks : l->hpz_ranks > 0 ? l->hpz_ranks : host;
    return split > 0 && split < l->ranks && l->ranks % split == 0 ? split : 0;
}

/* Check the sizes of the groups into which the data axis is split. */
static zr_status check_groups(const zr_layout *l)
{
    const int host = host_data_ranks(l);
    ZR_CHECK(
        !l->hierarchical || l->host_ranks == 0 || host > 0, ZR_ERR_CONFIG,
        "collectives.hierarchical with parallel.tensor %d and parallel.ranks_per_host %d: the first must divide the "
        "second, so that the ranks of a layer are on one host",
        l->tensor, l->host_ranks);
    const struct {
        const char *name;
        int size;
    } group[] = {{"a shard group (mics_shard_size)", l->shard_ranks},
                 {"a host of collectives.hierarchical", l->hierarchical ? host : 0},
                 {"a second partition (zero_hpz_partition_size)", l->hpz_ranks}};
    for (int i = 0; i < 3; i++) {
        const int n = group[i].size;
        ZR_CHECK(n >= 0 && (n == 0 || l->ranks % n == 0) && (n & (n - 1)) == 0, ZR_ERR_CONFIG,
                 "%d %sranks in %s, of %d: a power of two that divides them is wanted", n,
                 l->tensor > 1 ? "data-parallel " : "", group[i].name, l->ranks);
    }
    bool grouped = l->shard_ranks > 0 || l->hpz_ranks > 0 || l->hierarchical;
    const int all = l->ranks * l->tensor * l->pipeline;
    ZR_CHECK(l->host_ranks >= 0 && (l->host_ranks == 0 || all % l->host_ranks == 0), ZR_ERR_CONFIG,
             "%d ranks a host (parallel.ranks_per_host), of %d: the same number on every host is wanted", l->host_ranks,
             all);
    ZR_CHECK(l->hpz_ranks == 0 || l->stage == 3, ZR_ERR_CONFIG,
             "a second partition of the parameters (zero_hpz_partition_size %d) at stage %d: it is for stage 3, where "
             "the first is sharded",
             l->hpz_ranks, l->stage);
    ZR_CHECK(l->hpz_ranks == 0 || l->shard_ranks == 0, ZR_ERR_CONFIG,
             "mics_shard_size %d with zero_hpz_partition_size %d: with the first, gathers stay within a group already",
             l->shard_ranks, l->hpz_ranks);
    const int part = l->shard_ranks > 0 ? l->shard_ranks : l->hpz_ranks, near = host > 0 ? host : l->ranks;
    ZR_CHECK(
        !l->hierarchical || part == 0 || part == near, ZR_ERR_UNSUPPORTED,
        "%s %d with collectives.hierarchical, on hosts of %d data-parallel ranks: these two numbers must be equal; "
        "leave out one of the two keys",
        l->shard_ranks > 0 ? "mics_shard_size" : "zero_hpz_partition_size", part, near);
    ZR_CHECK(!grouped || l->reduce != ZR_REDUCE_NCCL, ZR_ERR_UNSUPPORTED,
             "groups within the data-parallel ranks (mics_shard_size, zero_hpz_partition_size, "
             "collectives.hierarchical) go with collectives.reduce reduce_scatter or all_reduce: leave nccl out");
    return ZR_OK;
}

/* Check the pipeline. Errors: ZR_ERR_CONFIG or ZR_ERR_UNSUPPORTED. */
static zr_status check_pipeline(const zr_layout *l)
{
    ZR_CHECK(l->pipeline >= 1 && l->pipeline <= ZR_ROLES && l->chunks >= 1 && l->chunks <= ZR_CHUNKS, ZR_ERR_CONFIG,
             "parallel.pipeline %d with parallel.chunks %d: 1 to %d ranks with 1 to %d chunks each are possible",
             l->pipeline, l->chunks, ZR_ROLES, ZR_CHUNKS);
    ZR_CHECK(l->role >= 0 && l->role < l->pipeline, ZR_ERR_ARG, "zr_layout.role is %d, of %d pipeline ranks", l->role,
             l->pipeline);
    if (l->pipeline == 1) return ZR_OK;
    ZR_CHECK(l->accum <= INT32_MAX, ZR_ERR_CONFIG,
             "gradient_accumulation_steps %lld: at most %d with parallel.pipeline", (long long)l->accum, INT32_MAX);
    ZR_CHECK(l->decode_len == 0, ZR_ERR_UNSUPPORTED,
             "generation with parallel.pipeline %d: generate from a checkpoint with parallel.pipeline 1", l->pipeline);
    ZR_CHECK(!l->two_pass, ZR_ERR_UNSUPPORTED,
             "two passes for the norm (memory.norm two_pass) with parallel.pipeline %d: leave memory.norm out",
             l->pipeline);
    ZR_CHECK(l->accum_order == ZR_ACCUM_MICRO, ZR_ERR_CONFIG,
             "%s with parallel.pipeline %d: parallel.schedule orders the micro-batches; breadth_first is the one that "
             "goes layer by layer",
             l->accum_order == ZR_ACCUM_LAYER ? "train.accumulation_order layer" : "zr_layout.accum_order AHEAD",
             l->pipeline);
    ZR_CHECK(l->tile_elems == 0, ZR_ERR_UNSUPPORTED,
             "tables in tiles (memory.tile_elems %lld) with parallel.pipeline %d: leave memory.tile_elems out",
             (long long)l->tile_elems, l->pipeline);
    const zr__pipe pipe = zr__pipe_of(l);
    return l->train ? zr__pipe_check(&pipe) : ZR_OK;
}

static zr_status check_counts(const zr_layout *l)
{
    const struct {
        const char *name;
        int64_t value, least;
    } count[] = {{"recompute_every", l->recompute_every, 1}, {"prefetch_elems", l->prefetch_elems, 0},
                 {"live_elems", l->live_elems, 0},           {"reuse_elems", l->reuse_elems, 0},
                 {"persist_elems", l->persist_elems, 0},     {"persist_model_elems", l->persist_model_elems, 0},
                 {"limit_bytes", l->limit_bytes, 0},         {"tile_elems", l->tile_elems, 0}};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        ZR_CHECK(count[i].value >= count[i].least, ZR_ERR_CONFIG, "zr_layout.%s is %lld, wanted at least %lld",
                 count[i].name, (long long)count[i].value, (long long)count[i].least);
    return ZR_OK;
}

/* Check an optimizer with orthogonalised directions (zr_muon), and the optimizer of the other parameters. */
static zr_status check_muon(const zr_layout *l)
{
    const zr_ortho *ortho = &l->optimizer.ortho;
    ZR_CHECK(ortho->steps >= 0 && l->rest.ortho.steps == 0, ZR_ERR_ARG,
             "zr_layout.optimizer has %d iterations, and rest %d: wanted 0 or more, and 0", ortho->steps,
             l->rest.ortho.steps);
    if (ortho->steps == 0 || !l->train) return ZR_OK;
    ZR_CHECK(ortho->dtype == ZR_F32 || ortho->dtype == ZR_BF16, ZR_ERR_UNSUPPORTED,
             "directions are made orthogonal in %s: F32 and BF16 are built", zr_dtype_name(ortho->dtype));
    ZR_CHECK(
        l->rest.name && !l->rest.trust, ZR_ERR_CONFIG,
        "zr_layout.rest is %s: with zr_muon, parameters that are not hidden matrices need an optimizer without trust "
        "ratios, as zr_adamw() gives",
        l->rest.name ? l->rest.name : "not set");
    ZR_CHECK(l->optimizer.n_slots + l->rest.n_slots <= ZR_OPTIMIZER_SLOTS, ZR_ERR_CONFIG,
             "two optimizers with %d and %d states: together %d are possible", l->optimizer.n_slots, l->rest.n_slots,
             ZR_OPTIMIZER_SLOTS);
    ZR_CHECK(l->tensor == 1, ZR_ERR_UNSUPPORTED,
             "optimizer.type Muon with parallel.tensor %d: a tensor-parallel rank has a piece of each matrix, but its "
             "direction must be made orthogonal as a whole; choose parallel.tensor 1, with a ZeRO stage or "
             "parallel.pipeline",
             l->tensor);
    return ZR_OK;
}

/* Check the types of an optimizer's states. Only AdamW's kernel has records, and only one optimizer may have them. */
static zr_status check_states(const zr_layout *l)
{
    const zr_optimizer *o = &l->optimizer;
    const bool adamw = o->name && strcmp(o->name, "adamw") == 0 && !o->rule;
    for (int i = 0; i < ZR_OPTIMIZER_SLOTS; i++) {
        const zr_dtype type = o->slot_records[i];
        const bool moment = i < 2 && zr__record_codes_of(type) == zr__record_codes_of(i ? ZR_E5M2X256 : ZR_E4M3X256);
        const bool alike = i > 1 || zr__dtype_grain(type) == zr__dtype_grain(o->slot_records[0]);
        ZR_CHECK(alike && (type == ZR_F32 || (moment && adamw)), ZR_ERR_UNSUPPORTED,
                 "state %d of the optimizer %s in %s: \"adamw\" is built, with E4M3 for the first and E5M2 for the "
                 "second moment, in records of the same length",
                 i, o->name ? o->name : "NULL", zr_dtype_name(type));
        ZR_CHECK(l->rest.slot_records[i] == ZR_F32, ZR_ERR_UNSUPPORTED,
                 "zr_layout.rest with states in %s: beside zr_muon only F32 is built",
                 zr_dtype_name(l->rest.slot_records[i]));
    }
    return ZR_OK;
}

static zr_status check_layout(const zr_layout *l)
{
    ZR_CHECK(l->size == sizeof *l, ZR_ERR_ARG, "zr_layout.size is %zu, wanted %zu: begin with zr_layout_default",
             l->size, sizeof *l);
    ZR_CHECK(l->ranks >= 1, ZR_ERR_CONFIG, "%d ranks: at least one is needed", l->ranks);
    ZR_CHECK(l->tensor >= 1 && l->tensor <= INT32_MAX / ZR_ROLES / l->ranks, ZR_ERR_CONFIG,
             "%d tensor-parallel ranks: at least one is needed", l->tensor);
    ZR_CHECK(l->sequence >= ZR_SEQUENCE_OFF && l->sequence <= ZR_SEQUENCE_REGATHER, ZR_ERR_ARG,
             "zr_layout.sequence %d is none of zr_sequence", (int)l->sequence);
    ZR_CHECK(l->tensor == 1 || l->decode_len == 0, ZR_ERR_UNSUPPORTED,
             "decoding on %d tensor-parallel ranks: one rank is built", l->tensor);
    ZR_CHECK(l->stage >= 0 && l->stage <= 3, ZR_ERR_CONFIG, "ZeRO stage %d: stages are 0, 1, 2, 3", l->stage);
    ZR_CHECK(l->dtype == ZR_F32 || l->dtype == ZR_BF16 || l->dtype == ZR_F16, ZR_ERR_UNSUPPORTED,
             "parameters in %s: F32, BF16 and F16 are built", zr_dtype_name(l->dtype));
    ZR_CHECK(l->wire_dtype == ZR_F32 || l->wire_dtype == l->dtype, ZR_ERR_UNSUPPORTED,
             "gradients in %s with parameters in %s: F32, or the parameters' type", zr_dtype_name(l->wire_dtype),
             zr_dtype_name(l->dtype));
    ZR_CHECK(l->batch >= 1 && l->seq >= 1 && l->accum >= 1, ZR_ERR_CONFIG,
             "micro-batch of %lld rows of %lld tokens, %lld times a step: all must be positive", (long long)l->batch,
             (long long)l->seq, (long long)l->accum);
    ZR_CHECK(!l->train || l->optimizer.name, ZR_ERR_CONFIG,
             "zr_layout.optimizer is not set: training needs one, as zr_adamw() gives");
    ZR_CHECK(l->optimizer.n_slots >= 0 && l->optimizer.n_slots <= ZR_OPTIMIZER_SLOTS, ZR_ERR_CONFIG,
             "an optimizer with %d states: 0 to %d", l->optimizer.n_slots, ZR_OPTIMIZER_SLOTS);
    ZR_CHECK(!l->optimizer.trust || !l->optimizer.rule == !l->optimizer.direction, ZR_ERR_CONFIG,
             "the optimizer \"%s\" has trust ratios and %s: give it both a rule and a direction, or neither",
             l->optimizer.name, l->optimizer.rule ? "a rule, but no direction" : "a direction, but no rule");
    ZR_CHECK(!l->train || !l->optimizer.trust || l->tile_elems == 0, ZR_ERR_UNSUPPORTED,
             "tables in tiles (memory.tile_elems %lld) with the trust ratios of %s: a tile is updated before the norms "
             "of the whole table are known; leave memory.tile_elems out, or choose AdamW, Adam or SGD",
             (long long)l->tile_elems, l->optimizer.name);
    ZR_TRY(check_muon(l));
    if (l->train) ZR_TRY(check_states(l));
    ZR_TRY(check_counts(l));
    ZR_TRY(check_pipeline(l));
    ZR_TRY(check_groups(l));
    ZR_TRY(check_choices(l));
    ZR_TRY(check_records(l));
    return zr__policies_check(l);
}

/* Record the loss terms of the first graph. Check that a second graph has the same terms. */
static zr_status set_terms(zr_plan *plan, const zr_graph *g, const char *model)
{
    const zr_graph *train = plan->graph[ZR_SCHEDULE_TRAIN], *first = train ? train : g;
    const double micros = (double)plan->layout.accum * plan->layout.ranks;
    plan->terms = zr_graph_loss_terms(first);
    bool same = plan->terms == zr_graph_loss_terms(g);
    for (int t = 0; t < plan->terms && same; t++) {
        const zr_shape *losses = &zr_graph_value(first, zr_graph_get_loss_term(first, t))->type.shape;
        plan->losses[t] = (double)zr_shape_elems(losses) * micros;
        same = strcmp(zr_graph_loss_name(first, t), zr_graph_loss_name(g, t)) == 0;
    }
    ZR_CHECK(same, ZR_ERR_ARG,
             "model %s declares other loss terms in another mode: it must declare the same in the same order", model);
    return ZR_OK;
}

/* Build the graph of a schedule. Check the engine's assumptions about the graph: an evaluation graph has losses; a
 * decoding graph has one token as its only input, and an output. */
static zr_status build_graph(zr_plan *plan, const zr_model *model, zr_schedule_kind kind)
{
    const zr_layout *l = &plan->layout;
    zr_graph_spec spec = {.mode = kind == ZR_SCHEDULE_TRAIN  ? ZR_MODE_TRAIN
                                  : kind == ZR_SCHEDULE_EVAL ? ZR_MODE_EVAL
                                                             : ZR_MODE_DECODE,
                          .batch = l->batch,
                          .seq = l->seq,
                          .dtype = l->dtype,
                          .grad_dtype = l->wire_dtype,
                          .tensor = l->tensor,
                          .sequence = l->tensor > 1 && l->sequence != ZR_SEQUENCE_OFF,
                          .head_bytes = zr_graph_head_bytes(&plan->profile.facts),
                          .documents = l->documents,
                          .tile_elems = l->tile_elems,
                          .vectors_apart = l->vectors_apart,
                          .hidden_apart = l->train && l->optimizer.ortho.steps > 0,
                          .hidden = l->hidden,
                          .matrix_align = zr__record_align(l),
                          .predictions = l->predictions,
                          .samples = l->samples};
    if (kind == ZR_SCHEDULE_DECODE) {
        spec.documents = false;
        spec.predictions = spec.samples = 0;
        spec.batch = spec.seq = 1;
        spec.cache_len = l->decode_len;
    }
    ZR_TRY(zr_graph_create(&spec, &plan->graph[kind]));
    zr_graph *g = plan->graph[kind];
    zr_model_build(model, g);
    ZR_TRY(zr_graph_finish(g));
    ZR_CHECK(kind != ZR_SCHEDULE_EVAL || zr_graph_get_loss_term(g, 0) != ZR_NONE, ZR_ERR_STATE,
             "model %s names no losses for evaluation: call zr_graph_losses, or clear zr_layout.eval", model->name);
    if (kind != ZR_SCHEDULE_DECODE) return set_terms(plan, g, model->name);
    const zr_value_info *output = zr_graph_value(g, zr_graph_get_output(g)),
                        *token = zr_graph_value(g, zr_graph_input(g, 0));
    ZR_CHECK(output && output->kind == ZR_VALUE_ACT, ZR_ERR_STATE,
             "model %s names no output for decoding: call zr_graph_output with a value that an op writes", model->name);
    ZR_CHECK(zr_graph_inputs(g) == 1 && token->type.dtype == ZR_I32 && zr_shape_elems(&token->type.shape) == 1,
             ZR_ERR_UNSUPPORTED, "model %s has %d inputs in decoding: one token is given, an I32 input of one element",
             model->name, zr_graph_inputs(g));
    return ZR_OK;
}

/* Check that two modes of the model declare the same parameters, since all modes use the same buffers. */
static zr_status same_params(const zr_graph *a, const zr_graph *b, const char *model)
{
    bool same = zr_graph_params(a) == zr_graph_params(b) && zr_graph_units(a) == zr_graph_units(b);
    for (int32_t p = 0; same && p < zr_graph_params(a); p++) {
        const zr_param_info *x = zr_graph_param(a, p), *y = zr_graph_param(b, p);
        same = strcmp(x->name, y->name) == 0 && zr_shape_equal(&x->shape, &y->shape) && x->unit == y->unit;
    }
    ZR_CHECK(same, ZR_ERR_ARG,
             "model %s declares other parameters in another mode: it must declare the same in the same order", model);
    return ZR_OK;
}

/* Record that the role of an op holds the units whose parameters the op reads, and owns the units whose gradients it
 * writes. */
static zr_status note_roles(zr_plan *plan, zr_schedule_kind kind, int32_t index)
{
    const zr_graph *g = plan->graph[kind];
    const zr_op *op = zr_graph_get_op(g, index);
    const int32_t role = zr__op_role(plan, kind, index);
    for (int j = 0; j < op->n_in; j++) {
        const int32_t unit = zr__param_unit(g, op->in[j]);
        if (unit >= 0) plan->unit[unit].roles |= UINT64_C(1) << role;
    }
    for (int j = 0; j < op->n_out; j++) {
        const zr_value_info *v = zr_graph_value(g, op->out[j]);
        if (v->kind != ZR_VALUE_GRAD) continue;
        zr_plan_unit *u = &plan->unit[zr_graph_param(g, v->param)->unit];
        ZR_CHECK(u->owner < 0 || u->owner == role, ZR_ERR_UNSUPPORTED,
                 "parallel.pipeline %d: stages on several ranks compute gradients of \"%s\", which one rank would have "
                 "to update; choose parallel.pipeline 1, with parallel.tensor or ZeRO stage 3",
                 plan->layout.pipeline, zr_graph_unit_info(g, zr_graph_param(g, v->param)->unit)->name);
        u->owner = role;
    }
    return ZR_OK;
}

/* Find the roles of each unit. Role 0 holds the units that no op reads. */
static zr_status find_held(zr_plan *plan, const zr_graph *g)
{
    const zr_layout *l = &plan->layout;
    bool several = false;
    for (int32_t u = 0; u < plan->n_units; u++) plan->unit[u].owner = -1;
    for (int k = 0; k < ZR_SCHEDULE_FLUSH; k++)
        for (int32_t i = 0; plan->graph[k] && i < zr_graph_ops(plan->graph[k]); i++)
            ZR_TRY(note_roles(plan, (zr_schedule_kind)k, i));
    for (int32_t i = 0; i < plan->n_units; i++) {
        zr_plan_unit *u = &plan->unit[i];
        if (u->roles == 0) u->roles = 1;
        for (int32_t role = 0; u->owner < 0; role++)
            if (u->roles >> role & 1) u->owner = role;
        const bool shared = (u->roles & (u->roles - 1)) != 0;
        ZR_CHECK(!shared || l->tied_apart, ZR_ERR_UNSUPPORTED,
                 "parallel.pipeline %d: stages on several ranks use the parameters of \"%s\"; choose "
                 "parallel.tied_apart, with which each of them has a copy, or parallel.pipeline 1",
                 l->pipeline, zr_graph_unit_info(g, i)->name);
        several |= shared;
        u->held = u->roles >> l->role & 1;
        u->owned = u->owner == l->role;
        u->copied = u->held && !u->owned && l->train && !zr_graph_unit_info(g, i)->frozen;
    }
    ZR_CHECK(
        !l->tied_apart || several || l->pipeline == 1, ZR_ERR_CONFIG,
        "parallel.tied_apart, but no table is on two pipeline ranks: the model's embedding and head share none, or "
        "parallel.schedule has the first and the last stage on one rank; leave parallel.tied_apart out");
    return ZR_OK;
}

/* Plan the persistent buffers. `g` may be any graph of the plan, since all graphs have the same parameters. */
static zr_status plan_buffers(zr_plan *plan, const zr_graph *g)
{
    const zr_graph *decode = plan->graph[ZR_SCHEDULE_DECODE];
    plan->n_units = zr_graph_units(g);
    plan->unit = zr_alloc(sizeof *plan->unit * (size_t)(plan->n_units + 1));
    ZR_CHECK(plan->unit, ZR_ERR_MEMORY, "no memory to plan %d units", plan->n_units);
    ZR_TRY(find_held(plan, g));
    ZR_TRY(zr__plan_states(plan, g));
    ZR_TRY(zr__plan_matrices(plan, g));
    for (int32_t v = 0, index; decode && v < zr_graph_values(decode); v++) {
        const zr_value_info *info = zr_graph_value(decode, v);
        if (info->kind == ZR_VALUE_CACHE)
            ZR_TRY(zr__plan_persistent(plan, ZR_SPACE_DEVICE, ZR_CATEGORY_ACT, info->unit, "key-value cache",
                                       zr__value_bytes(info), &index));
    }
    ZR_TRY(zr__plan_staging(plan));
    return zr__plan_results(plan);
}

/* Arrange the ranks in the grid, and find the size of each group of ranks and whether its ranks exchange anything. This
 * depends only on the layout, so that ranks with different plans of a layout create the same communicators. */
static void make_grid(zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    const int split = split_of(l);
    const int32_t ranks[ZR_AXES] = {
        [ZR_AXIS_TENSOR] = l->tensor,
        [ZR_AXIS_LOCAL] = split > 0 ? split : l->ranks,
        [ZR_AXIS_ACROSS] = split > 0 ? l->ranks / split : 1,
        [ZR_AXIS_PIPELINE] = l->pipeline,
    };
    plan->group[ZR_GROUP_SELF].size = 1;
    for (int32_t a = 0, step = 1; a < ZR_AXES; step *= ranks[a++]) {
        plan->axis_ranks[a] = ranks[a];
        plan->axis_step[a] = step;
        /* the groups that contain this axis and no slower axis */
        for (int32_t g = 0, more = 1 << a; g < more; g++)
            plan->group[more + g] = (zr_group){.size = plan->group[g].size * ranks[a],
                                               .same = plan->group[g].same + (ranks[a] > 1 ? more : 0)};
    }
    plan->ranks = plan->group[ZR_GROUP_ALL].size;
    plan->two_levels = split > 0 && (l->shard_ranks > 0 || l->hierarchical);
    const bool exchanges[ZR_GROUPS] = {[ZR_GROUP_DATA] = true,
                                       [ZR_GROUP_LOCAL] = plan->two_levels || (split > 0 && l->hpz_ranks > 0),
                                       [ZR_GROUP_ACROSS] = plan->two_levels,
                                       [ZR_GROUP_TENSOR] = l->tensor > 1,
                                       [ZR_GROUP_ALL & ~ZR_GROUP_PIPELINE] = l->train && l->optimizer.trust,
                                       [ZR_GROUP_ALL] = true};
    for (int32_t g = 0; g < ZR_GROUPS; g++) plan->group[plan->group[g].same].exchanges |= exchanges[g];
}

/* Translate the ZeRO stage into what is sharded. On a single rank nothing is divided, but stages 2 and 3 can still save
 * memory. Stage 2 with fp32 sums frees a gradient as soon as it is added to the sums. Stage 3 with lean states stores
 * no 16-bit parameters, but casts them from the master when they are needed. Both stages also free a state on the
 * device after copying it to its home. */
static void partition(zr_plan *plan)
{
    const zr_layout *l = &plan->layout;
    bool lean = l->states == ZR_STATES_LEAN && l->train;
    const bool mixes = l->accum > 1 && (l->accum_order == ZR_ACCUM_LAYER || l->pipeline > 1);
    plan->rounds = zr__micros_alike(l) ? l->accum : 1;
    plan->sum_f32 = l->accum > 1 || l->rank_free_sums;
    plan->reduce_once = l->reduce_once && l->accum > 1 && l->ranks > 1;
    const bool breadth = l->pipeline > 1 && l->pipeline_schedule == ZR_PIPELINE_BREADTH;
    plan->reduces_early = plan->reduce_once && l->stage >= 2 && (breadth || l->accum_order == ZR_ACCUM_LAYER);
    plan->consume_grad = lean && !plan->sum_f32 && (!l->norm_first || l->two_pass) && l->pipeline == 1;
    plan->side_by_side = l->overlap;
    plan->norm_first = !plan->consume_grad || l->two_pass;
    plan->stochastic = l->stochastic;
    plan->differences = l->weight_differences;
    plan->error_steps = l->error_steps;
    plan->error_beta = l->error_beta;
    plan->decode_len = l->decode_len;
    if (l->train) plan->optimizer = l->optimizer;
    if (plan->optimizer.ortho.steps > 0) plan->rest = l->rest;
    /* In the layer-major order and in a pipeline a unit may have gradients of several micro-batches at the same time.
     * They are transient at every stage, as they are at stage 2. */
    const bool frees = l->stage >= 2 || mixes;
    const bool grads_away = l->home.grad != ZR_SPACE_DEVICE, params_away = l->home.param != ZR_SPACE_DEVICE;
    plan->shards_optim = l->stage >= 1;
    plan->shards_grad = frees && !plan->reduce_once && (l->ranks > 1 || plan->sum_f32 || grads_away);
    const bool records = zr_dtype_is_record(l->frozen_records) && l->train;
    plan->shards_param = l->stage >= 3 && (l->ranks > 1 || (lean && l->dtype != ZR_F32) || params_away || records);
}

/* Divide the graphs into the stages of a pipeline. All graphs are divided as the first one. */
static zr_status divide(zr_plan *plan)
{
    const size_t stages = (size_t)plan->layout.pipeline * (size_t)plan->layout.chunks;
    ZR_AUTO_FREE int32_t *end = zr_alloc(sizeof *end * stages);
    ZR_CHECK(end, ZR_ERR_MEMORY, "no memory to divide a model into %zu stages", stages);
    for (int k = 0; k < ZR_SCHEDULE_FLUSH; k++)
        if (plan->graph[k]) ZR_TRY(zr__plan_stages(plan, (zr_schedule_kind)k, end));
    return ZR_OK;
}

static zr_status fill_plan(zr_plan *plan, const zr_model *model, const zr__mix *mix)
{
    const zr_layout *l = &plan->layout;
    const zr_graph *first = NULL;
    make_grid(plan);
    partition(plan);
    plan->recompute_every = mix->every;
    plan->partition_checkpoints = mix->partition;
    plan->checkpoint_home = mix->home;
    for (int k = 0; k < ZR_SCHEDULE_FLUSH; k++) {
        bool wanted = k == ZR_SCHEDULE_TRAIN ? l->train : k == ZR_SCHEDULE_EVAL ? l->eval : l->decode_len > 0;
        if (!wanted) continue;
        ZR_TRY(build_graph(plan, model, (zr_schedule_kind)k));
        if (first) ZR_TRY(same_params(first, plan->graph[k], model->name));
        if (!first) first = plan->graph[k];
    }
    if (l->pipeline > 1) ZR_TRY(divide(plan));
    ZR_CHECK(first, ZR_ERR_ARG, "a layout without train, eval or decode_len plans nothing");
    ZR_TRY(plan_buffers(plan, first));
    if (l->train) zr__recompute_assign(plan, plan->graph[ZR_SCHEDULE_TRAIN], mix);
    ZR_TRY(zr__policies_add_buffers(plan));
    for (int s = 0; s < ZR_SPACES; s++) plan->space_bytes[s] = plan->persistent_bytes[s];
    for (int k = 0; k < ZR_SCHEDULE_FLUSH; k++)
        if (plan->graph[k]) ZR_TRY(zr__write_graph(plan, (zr_schedule_kind)k));
    if (l->train) ZR_TRY(zr__write_flush(plan, ZR_SCHEDULE_FLUSH));
    if (l->train && l->weight_differences) ZR_TRY(zr__write_flush(plan, ZR_SCHEDULE_FILL));
    return zr__account(plan);
}

/* Copy the user's table of a layout into the plan, whose layout then has the copy. */
static zr_status copy_table(zr_plan *plan)
{
    const zr_pipe_table *table = plan->layout.pipeline_table;
    if (!table) return ZR_OK;
    const size_t cells = (size_t)table->rows * (size_t)table->columns * sizeof *table->cell;
    zr_pipe_table *copy = plan->table = zr_alloc(sizeof *copy);
    if (copy) *copy = *table, copy->cell = zr_alloc(cells);
    ZR_CHECK(copy && copy->cell, ZR_ERR_MEMORY, "no memory for a table of pipeline actions");
    memcpy(copy->cell, table->cell, cells);
    plan->layout.pipeline_table = copy;
    return ZR_OK;
}

zr_status zr__plan_create_mix(const zr_model *model, const zr_layout *layout, const zr_profile *profile,
                              const zr__mix *mix, zr_plan **plan)
{
    zr_plan *p = zr_alloc(sizeof *p);
    ZR_CHECK(p, ZR_ERR_MEMORY, "no memory for a plan");
    p->layout = *layout;
    p->profile = *profile;
    if (layout->pipeline_schedule != ZR_PIPELINE_TABLE) p->layout.pipeline_table = NULL;
    zr_status st = copy_table(p);
    if (st == ZR_OK) st = fill_plan(p, model, mix);
    p->layout.pipeline_units = NULL;
    p->layout.hidden = NULL;
#ifdef ZR_DEBUG
    if (st == ZR_OK) st = zr_plan_check(p);
#endif
    if (st != ZR_OK) {
        zr_plan_destroy(&p);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *plan = p;
    return ZR_OK;
}

zr_status zr_plan_create(const zr_model *model, const zr_layout *layout, const zr_profile *profile, zr_plan **plan)
{
    ZR_CHECK(model && model->build && layout && profile && plan, ZR_ERR_ARG, "zr_plan_create: a NULL argument");
    zr_layout l = *layout;
    if (l.chunks == 0) l.chunks = zr__pipe_chunks(layout);
    if (l.stage < 3) l.frozen_records = ZR_F32;
    if (zr__record_align(&l) > 1) l.vectors_apart = true;
    ZR_TRY(check_layout(&l));
    const zr__policy *choice = zr__policies_choose(&l);
    if (choice) return choice->create(model, &l, profile, plan);
    zr__mix mix = {.first = l.recompute,
                   .rest = l.recompute,
                   .every = l.recompute_every,
                   .partition = l.partition_checkpoints,
                   .home = l.checkpoint_home};
    return zr__plan_create_mix(model, &l, profile, &mix, plan);
}

void zr_plan_destroy(zr_plan **plan)
{
    if (!plan || !*plan) return;
    zr_plan *p = *plan;
    for (int k = 0; k < ZR_SCHEDULES; k++) {
        zr_schedule *s = &p->schedule[k];
        zr_free(s->step);
        zr_free(s->use);
        zr_free(s->wait);
        zr_free(s->buffer);
        zr_free(s->value);
        zr_graph_destroy(&p->graph[k]);
        zr_free(p->stage[k]);
    }
    zr_pipe_table_destroy(&p->table);
    zr_graph_destroy(&p->ortho);
    zr_free(p->matrix);
    zr_free(p->persistent);
    zr_free(p->unit);
    zr_free(p);
    *plan = NULL;
}
