/* Simulates a training step on a cluster. One rank represents all ranks of its role, since they have the same schedule
 * and the same exchanges. */
#include "simulate/simulate.h"
#include "plan/list/place.h"

#include <math.h>
#include <string.h>

const char *zr__cause_name(zr_cause cause)
{
#define CAUSE_NAME(name, text) [ZR_CAUSE_##name] = text,
    static const char *const names[ZR_CAUSES] = {ZR_CAUSE_LIST(CAUSE_NAME)};
    return cause < ZR_CAUSES ? names[cause] : "?";
}

/* Parts of a kernel's time, by cause. */
enum { BY_PRODUCTS, BY_MEMORY, BY_LAUNCHES, PARTS };
typedef struct parts {
    double sec[PARTS];
} parts;

typedef struct pricer {
    zr__pricer base;
    const zr_cluster *cluster;
    zr_simulate_options options;
    int32_t ranks_per_host;
    /* for each role: its slowest rank's kernel time, divided by the kernel time at the cluster's rates */
    double slowest[ZR_ROLES];
    zr__spot spot[ZR_GROUPS];
    zr__path path[ZR_ROLES][ZR_ROLES]; /* for each role: cost of messages from another role */
    double crowded; /* threads per core in the plan, divided by the threads per core in the measured launch */
    double fewer;   /* threads per rank in the measured launch, divided by the plan's threads per rank */
    /* for each role and step of the training schedule: seconds that it takes alone, from measured steps; NULL without
     * measured steps */
    double *alone_sec[ZR_ROLES];
    /* for each role and step of the training schedule: extra seconds in the launch (zr__find_longer); NULL without
     * measured steps */
    double *longer_sec[ZR_ROLES];
    int64_t draw; /* number of the current random draw of exchange times, from 1; 0 for mean times */
    double (*exposed_sec)[ZR_CAUSES]; /* for each role and cause: exposed seconds */
} pricer;

/* ---- kernels ------------------------------------------------------------------------------------ */

double zr__peak_of(const zr_plan *plan, const zr_machine *device)
{
    return plan->layout.dtype != ZR_F32 && device->flops_bf16 > 0 ? device->flops_bf16 : device->flops_f32;
}

/* Return whether a device's 16-bit matrix units can compute an op's products. The products' sizes must be multiples of
 * product_multiple. */
static bool sizes_suit(const pricer *me, const zr_step_cost *cost)
{
    const int64_t multiple = me->cluster->product_multiple > 0 ? me->cluster->product_multiple : 1;
    if (cost->pairs > 0) return cost->head % multiple == 0;
    for (int i = 0; i < 3; i++)
        if (cost->product.size[i] % multiple != 0) return false;
    return true;
}

/* Return whether an op is a product of a layer, but not the head. */
static bool is_layer_product(const zr_op_def *def)
{
    return strcmp(def->name, "linear") == 0 || strcmp(def->name, "linear_dx") == 0 ||
           strcmp(def->name, "linear_dw") == 0;
}

/* Return the peak FLOP/s of a product of a layer, whose operands may have fewer bits than the plan's dtype. */
static double layer_peak(const pricer *me, const zr_plan *plan, const zr_op_def *def)
{
    const zr_machine *device = &me->cluster->device;
    const int32_t bits = me->cluster->product_bits;
    if (bits == 0 || plan->layout.dtype == ZR_F32 || !is_layer_product(def)) return zr__peak_of(plan, device);
    return bits == 8 ? device->flops_fp8 : device->flops_fp4;
}

/* Return the FLOP/s of an op. If the device has measured products, interpolate between them. Otherwise return a share
 * of the peak, which depends on the smallest size of the product. For attention the share is attention_share; if it is
 * 0, the share depends on the width of a head. */
static double op_flops_sec(const pricer *me, const zr_plan *plan, const zr_op_def *def, const zr_step_cost *cost)
{
    const zr_machine *device = &me->cluster->device;
    if (device->n_products > 0) return zr__plan_op_flops_sec(plan, def, device, cost->product);
    const double peak = layer_peak(me, plan, def);
    const double smallest = (double)(cost->pairs > 0 ? cost->head : cost->product.size[0]);
    if (smallest == 0) return peak;
    if (plan->layout.dtype != ZR_F32 && !sizes_suit(me, cost)) return device->flops_f32 * me->cluster->product_share;
    if (cost->pairs > 0 && me->cluster->attention_share > 0) return peak * me->cluster->attention_share;
    return peak * (me->cluster->product_share * smallest / (smallest + me->cluster->product_half));
}

/* Return the FLOP/s of the products of the step ORTHO, which have their own type. */
static double ortho_flops_sec(const pricer *me, const zr_plan *plan, const zr_step_cost *cost)
{
    const zr_machine *device = &me->cluster->device;
    const double rate = zr__plan_ortho_flops_sec(plan, device, cost->product);
    const double smallest = (double)cost->product.size[0];
    if (device->n_products > 0) return rate;
    return rate * (me->cluster->product_share * smallest / (smallest + me->cluster->product_half));
}

static double parts_sec(const parts *p)
{
    return p->sec[BY_PRODUCTS] + p->sec[BY_MEMORY] + p->sec[BY_LAUNCHES];
}

/* Return a factor of zr_cluster, in which 0 means 1. */
static double factor_of(double factor)
{
    return factor > 0 ? factor : 1;
}

/* `coding`: seconds of zr__plan_coding_sec. */
static double kernel_sec(const pricer *me, const zr_plan *plan, zr_schedule_kind kind, const zr_step *step,
                         const zr_step_cost *cost, double coding, parts *p)
{
    const zr_cluster *cluster = me->cluster;
    const double rate = cluster->device.memory_bytes_sec * cluster->memory_share;
    const bool product = cost->pairs > 0 || cost->product.size[0] > 0, run = step->kind == ZR_STEP_RUN;
    const double passes = product ? 1 : factor_of(run ? cluster->pass_factor : cluster->update_factor),
                 memory = fmax(passes * cost->memory_bytes / rate, coding);
    double compute = 0, scores = 0, casts = 0;
    if (step->kind == ZR_STEP_ORTHO && cost->flops > 0) compute = cost->flops / ortho_flops_sec(me, plan, cost);
    if (run) {
        const zr_op_def *def = zr_graph_get_op(plan->graph[kind], step->op)->def;
        if (cluster->product_bits > 0 && is_layer_product(def))
            casts = cluster->cast_factor * cost->memory_bytes / rate;
        const double parts_of_keys = cost->pairs > 0 && cluster->context_ranks > 0 ? cluster->context_ranks : 1;
        if (cost->flops > 0) compute = parts_of_keys * cost->flops / op_flops_sec(me, plan, def, cost);
        /* Add the time to move attention scores to and from memory, between the two products of attention. A forward op
         * writes the scores once. The backward op reads the scores and writes their gradient, which is twice the
         * bytes. */
        scores = me->cluster->scores_bytes * cost->pairs * (def->adjoint ? 1 : 2) / rate;
    }
    const double slowest = me->slowest[plan->layout.role];
    p->sec[BY_PRODUCTS] = compute >= memory ? compute * slowest : 0;
    p->sec[BY_MEMORY] = ((compute >= memory ? 0 : memory) + scores + casts) * slowest;
    p->sec[BY_LAUNCHES] = parts_sec(p) > 0 ? cluster->launch_sec : 0;
    return parts_sec(p);
}

/* ---- steps -------------------------------------------------------------------------------------- */

bool zr__is_host_copy(const zr_plan *plan, zr_schedule_kind kind, const zr_step *step)
{
    const zr_schedule *s = &plan->schedule[kind];
    if (zr__is_disk_copy(step)) return false;
    for (int32_t u = step->uses; step->kind == ZR_STEP_COPY && u < step->uses + step->n_uses; u++)
        if (s->use[u].buffer != ZR_NONE && s->buffer[s->use[u].buffer].space == ZR_SPACE_HOST) return true;
    return false;
}

/* Estimate a step's seconds from the steps measured in the launch. Return false if no similar step was measured. The
 * slowest rank is slower than the others only in kernels, not in exchanges. */
static bool measured_sec(const pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t index, double *sec,
                         parts *p)
{
    if (!me->cluster->measured) return false;
    const zr_step_sample step = zr__step_sample_of(plan, kind, index);
    if (!zr__measured_sec(me->cluster->measured, &step, sec)) return false;
    /* The measured time may be too short: the exchange was measured alone, when the links between hosts could be idle,
     * but in training successive exchanges keep them busy. Therefore use at least the time that the links need for the
     * bytes. */
    if (step.across) {
        const zr__spot *spot = &me->spot[plan->group[plan->schedule[kind].step[index].group].same];
        *sec = step.cost.calls * fmax(*sec, zr__exchange_sec(me->cluster, spot, step.cost.wire_bytes));
        return true;
    }
    if (step.ranks > 1) {
        *sec *= step.cost.calls * me->crowded;
        return true;
    }
    *sec *= step.cost.calls * me->crowded * me->fewer * me->slowest[plan->layout.role];
    p->sec[step.cost.flops > 0 ? BY_PRODUCTS : BY_MEMORY] = *sec;
    return true;
}

/* Return the number of ranks of a full host. These ranks share the host's disk. */
static int32_t host_ranks(const pricer *me, const zr_plan *plan)
{
    return plan->ranks < me->ranks_per_host ? plan->ranks : me->ranks_per_host;
}

/* Return a rank's disk rates. If the cluster has a rate, all ranks of a host share it, and reads and writes together
 * get no more than one rank's share. Otherwise return the rates measured for one rank. */
static zr__disk_rates disk_rates(const pricer *me, const zr_plan *plan)
{
    const double share = me->cluster->disk_bytes_sec / host_ranks(me, plan);
    const zr_machine *m = &me->cluster->device;
    return share > 0 ? (zr__disk_rates){share, share, share}
                     : (zr__disk_rates){m->disk_read_bytes_sec, m->disk_write_bytes_sec, m->disk_both_bytes_sec};
}

/* Return the seconds of a gather or a reduction. */
static double exchange_sec(const pricer *me, const zr_step *step, const zr__spot *spot, const zr_step_cost *cost)
{
    const zr_cluster *cluster = me->cluster;
    const bool tensor = step->group == ZR_GROUP_TENSOR, reduces = zr_step_traits_of(step->kind).move == ZR_MOVE_REDUCE;
    const double bytes = tensor ? 1 : factor_of(reduces ? cluster->reduce_factor : cluster->gather_factor);
    return (tensor ? factor_of(cluster->tensor_factor) : 1) * cost->calls *
           zr__exchange_sec(cluster, spot, bytes * cost->wire_bytes / cost->calls);
}

/* Return a step's seconds. If the step is a kernel, divide the seconds into parts. Exchanges and copies have no parts.
 */
static double step_parts(const pricer *me, const zr_plan *plan, zr_schedule_kind kind, int32_t index, parts *p)
{
    const zr_step *step = &plan->schedule[kind].step[index];
    const zr_step_cost cost = zr__plan_step_cost(plan, kind, index);
    const zr__spot *spot = &me->spot[plan->group[step->group].same];
    const double coding = zr__plan_coding_sec(plan, kind, index, &me->cluster->device);
    const double saved = step->when == ZR_WHEN_SAVE ? (double)zr__plan_saved_bytes(plan, step) : 0;
    double sec;
    *p = (parts){{0}};
    if (measured_sec(me, plan, kind, index, &sec, p)) return sec;
    switch (zr_step_traits_of(step->kind).move) {
    case ZR_MOVE_NONE:
        break;
    case ZR_MOVE_RECEIVE:
        return me->path[plan->layout.role][step->peer].latency_sec +
               me->path[plan->layout.role][step->peer].byte_sec * cost.wire_bytes;
    case ZR_MOVE_GATHER:
    case ZR_MOVE_REDUCE:
        if (spot->size > 1) return exchange_sec(me, step, spot, &cost) + coding;
        break; /* with one rank in the group, the step is a copy */
    case ZR_MOVE_SCALARS:
        return cost.calls * zr__exchange_sec(me->cluster, spot, 0);
    }
    if (zr__is_disk_copy(step)) return zr__plan_disk_sec(plan, index, disk_rates(me, plan));
    if (step->stream == ZR_STREAM_HOST) return cost.memory_bytes / me->cluster->device.host_memory_bytes_sec;
    if (step->kind == ZR_STEP_SAVE) return saved * host_ranks(me, plan) / me->cluster->disk_bytes_sec;
    if (zr__is_host_copy(plan, kind, step))
        return (step->when == ZR_WHEN_SAVE ? saved : cost.memory_bytes) / me->cluster->host_bytes_sec;
    return kernel_sec(me, plan, kind, step, &cost, coding, p);
}

/* Return a step's time in the current draw, divided by its mean time. For an exchange this ratio is lognormal with mean
 * 1. For any other step it is 1. */
static double drawn_ratio(const pricer *me, const zr_plan *plan, int32_t index)
{
    const double spread = me->cluster->measured->spread;
    const zr_rng rng = {.seed = me->options.seed, .purpose = ZR_RNG_JITTER, .step = (uint32_t)me->draw};
    float n;
    if (me->draw == 0 || zr__step_sample_of(plan, ZR_SCHEDULE_TRAIN, index).ranks < 2) return 1;
    zr_rng_normal(&rng, (uint64_t)index, 1, &n);
    const double calls = zr__plan_step_cost(plan, ZR_SCHEDULE_TRAIN, index).calls; /* each call varies independently */
    const double variance = log(1 + spread * spread / calls);
    return exp(sqrt(variance) * (double)n - variance / 2);
}

static double step_sec(const zr__pricer *base, const zr_plan *plan, zr_schedule_kind kind, int32_t index)
{
    const pricer *me = (const pricer *)base;
    const double *alone = me->alone_sec[plan->layout.role], *longer = me->longer_sec[plan->layout.role];
    parts p;
    if (!alone || kind != ZR_SCHEDULE_TRAIN) return step_parts(me, plan, kind, index, &p);
    return alone[index] * drawn_ratio(me, plan, index) + longer[index];
}

/* ---- waits of the compute stream ----------------------------------------------------------------- */

static zr_cause copy_cause(const zr_schedule *s, const zr_step *step)
{
    const zr_use *use = &s->use[step->uses];
    if (zr__is_disk_copy(step)) return ZR_CAUSE_DISK;
    for (int i = 0; i < 2; i++)
        if (s->buffer[use[i].buffer].category == ZR_CATEGORY_CHECKPOINT) return ZR_CAUSE_HOST;
    return ZR_CAUSE_STATES;
}

static zr_cause cause_of(const zr_plan *plan, zr_schedule_kind kind, int32_t index)
{
    const zr_step *step = &plan->schedule[kind].step[index];
    if (step->kind == ZR_STEP_COPY) return copy_cause(&plan->schedule[kind], step);
    if (step->stream == ZR_STREAM_HOST) return ZR_CAUSE_STATES;
    if (step->group != ZR_GROUP_TENSOR) return ZR_CAUSE_STAGE;
    return step->restores ? ZR_CAUSE_PIECES : ZR_CAUSE_TENSOR;
}

static void add_exposed(const zr__pricer *base, const zr_plan *plan, zr_schedule_kind kind, int32_t waiting,
                        int32_t awaited, bool roles, double sec)
{
    (void)waiting;
    const zr_cause cause = roles ? ZR_CAUSE_PIPELINE : cause_of(plan, kind, awaited);
    ((const pricer *)base)->exposed_sec[plan->layout.role][cause] += sec;
}

/* ---- results ------------------------------------------------------------------------------------- */

/* Divide the compute stream's busy time by cause. If an exchange, or a copy to or from the host, runs on this stream,
 * it counts as exposed communication. */
static void split_busy(const pricer *me, const zr_plan *plan, zr_simulation *made)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    const double *longer = me->longer_sec[plan->layout.role];
    double sec[PARTS] = {0};
    int64_t rounds = 1;
    if (me->cluster->measured) sec[BY_LAUNCHES] = me->cluster->measured->around_sec;
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        const double runs = (double)zr__step_runs(step, true, &rounds);
        if (step->stream != ZR_STREAM_COMPUTE) continue;
        parts p;
        const double alone = step_parts(me, plan, ZR_SCHEDULE_TRAIN, i, &p), takes = alone + (longer ? longer[i] : 0);
        if (parts_sec(&p) > 0) {
            for (int k = 0; k < PARTS; k++) sec[k] += runs * p.sec[k] * takes / alone;
            continue;
        }
        made->exposed_sec[cause_of(plan, ZR_SCHEDULE_TRAIN, i)] += runs * takes;
        made->price.compute_sec -= runs * takes;
        made->price.exposed_sec += runs * takes;
    }
    made->product_sec = sec[BY_PRODUCTS];
    made->memory_sec = sec[BY_MEMORY];
    made->launch_sec = sec[BY_LAUNCHES];
}

const char *zr__bound_of(const zr_simulation *made)
{
    double most = made->product_sec;
    const char *name = "products";
    if (made->memory_sec > most) most = made->memory_sec, name = "memory";
    if (made->launch_sec > most) most = made->launch_sec, name = "launches";
    for (int c = 0; c < ZR_CAUSES; c++)
        if (made->exposed_sec[c] > most) most = made->exposed_sec[c], name = zr__cause_name((zr_cause)c);
    return name;
}

static void find_rates(const pricer *me, const zr_plans *plans, zr_simulation *made)
{
    const zr_plan *plan = plans->role[made->price.role];
    const zr_layout *l = &plan->layout;
    const zr__totals totals = zr__plans_total(plans);
    const double sec = made->price.step_sec, data_ranks = plan->group[ZR_GROUP_DATA].size;
    made->samples_sec = data_ranks * (double)l->batch * (double)l->accum / sec;
    made->tokens_sec = made->samples_sec * (double)l->seq;
    made->flops_sec = totals.flops_hardware / plan->ranks / sec;
    made->mfu = totals.flops_model / plan->ranks / sec / zr__peak_of(plan, &me->cluster->device);
    split_busy(me, plan, made);
    made->bound_by = zr__bound_of(made);
}

/* Price a save. The times are NAN if a rate that they depend on is unknown. */
static zr_status price_cluster_save(const pricer *me, const zr_plans *plans, zr_save_price *price)
{
    const zr_plan *plan = plans->role[0];
    const bool known =
        me->cluster->disk_bytes_sec > 0 && (me->cluster->host_bytes_sec > 0 || !zr__copies_to_host(plan, true));
    if (plan->save == ZR_SAVE_NONE) return ZR_OK;
    ZR_TRY(zr__plans_price_save_by(plans, &me->base, price));
    if (!known) price->write_sec = price->stall_sec = NAN;
    return ZR_OK;
}

/* ---- all ranks ------------------------------------------------------------------------------------ */

/* Return the kernel time of a role's slowest rank, divided by the kernel time at the cluster's rates. All ranks of a
 * role have the same steps, and a slower kernel never makes a step begin earlier. Therefore the rank with the slowest
 * kernels is the last at every step: the other ranks wait for it. */
static double slowest_of(const zr_simulate_options *options, const zr_plan *plan)
{
    const zr_rng rng = {.seed = options->seed, .purpose = ZR_RNG_JITTER};
    const double straggler = options->straggler > 0 ? options->straggler : 1;
    double slowest = plan->layout.role == 0 ? straggler : 1;
    for (int32_t r = 0; options->jitter > 0 && r < plan->ranks; r++) {
        float n;
        if (!zr__plan_is_for(plan, r)) continue;
        zr_rng_normal(&rng, (uint64_t)r, 1, &n);
        slowest = fmax(slowest, (r == 0 ? straggler : 1) * (1 + options->jitter * fabs((double)n)));
    }
    return slowest;
}

/* Return the threads per core of a host, or 1 if the host has more cores than threads. The host has `ranks` ranks with
 * `threads` threads each. */
static double core_load(double ranks, double threads, double cores)
{
    return fmax(ranks * threads / cores, 1);
}

/* Price each step of the training schedules alone, from measured steps. Then find the extra time of each step in the
 * launch. */
static zr_status price_measured(pricer *me, const zr_plans *plans)
{
    const zr_launch *measured = me->cluster->measured;
    const double threads = plans->role[0]->profile.facts.threads;
    parts p;
    me->crowded = core_load(host_ranks(me, plans->role[0]), threads, measured->cores) /
                  core_load((double)measured->ranks / measured->hosts, measured->threads, measured->cores);
    me->fewer = measured->threads / threads;
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_plan *plan = plans->role[r];
        const int32_t n = plan->schedule[ZR_SCHEDULE_TRAIN].n_steps, role = plan->layout.role;
        double *longer = me->longer_sec[role] = zr_alloc(((size_t)n + 1) * sizeof(double)),
               *alone = zr_alloc(((size_t)n + 1) * sizeof(double));
        for (int32_t i = 0; alone && i < n; i++) alone[i] = step_parts(me, plan, ZR_SCHEDULE_TRAIN, i, &p);
        me->alone_sec[role] = alone;
        ZR_CHECK(longer && alone, ZR_ERR_MEMORY, "no memory to price %d steps", n);
    }
    return zr__find_longer(plans, measured, &me->base, me->longer_sec);
}

/* Find the costs of the messages that a role receives. */
static void find_paths(pricer *me, const zr_plan *plan)
{
    const zr_schedule *s = &plan->schedule[ZR_SCHEDULE_TRAIN];
    for (int32_t i = 0; i < s->n_steps; i++) {
        const zr_step *step = &s->step[i];
        if (step->kind == ZR_STEP_RECEIVED && step->micro == 0)
            me->path[plan->layout.role][step->peer] = zr__path_of(plan, step->peer, me->cluster, me->ranks_per_host);
    }
}

/* Return the queues of all roles. A stream that only some roles have has a queue of its own if it has one there. */
static zr_queues queues_of(const zr_plans *plans, const zr_cluster *cluster)
{
    const zr_launch *measured = cluster->measured;
    zr_queues queues = zr__queues_of(false, false, false);
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_queues its =
            zr__plan_queues(plans->role[r], measured ? measured->beside : !cluster->device.link_copies);
        for (int s = 0; s < ZR_STREAMS; s++)
            if (its.of[s] == s) queues.of[s] = (int8_t)s;
    }
    if (cluster->exchanges_beside) queues.of[ZR_STREAM_COMM] = ZR_STREAM_COMM;
    if (cluster->copies_hold) queues.of[ZR_STREAM_COPY] = ZR_STREAM_COMPUTE;
    return queues;
}

/* Price a training step as the mean over several random draws of the exchanges' times. Mean exchange times alone would
 * be too optimistic: a slow exchange adds more waiting than a fast exchange saves. */
static zr_status price_draws(pricer *me, const zr_plans *plans, zr_price *price)
{
    enum { DRAWS = 16 };
    const bool vary = me->cluster->measured && me->cluster->measured->beside && me->cluster->measured->spread > 0;
    const int draws = vary ? DRAWS : 1;
    *price = (zr_price){.step_sec = 0};
    for (int d = 0; d < draws; d++) {
        zr_price one;
        me->draw = vary ? d + 1 : 0;
        ZR_TRY(zr__plans_price_by(plans, &me->base, &one));
        price->step_sec += one.step_sec / draws;
        price->compute_sec += one.compute_sec / draws;
        price->comm_sec += one.comm_sec / draws;
        price->exposed_sec += one.exposed_sec / draws;
        price->disk_sec += one.disk_sec / draws;
        price->host_sec += one.host_sec / draws;
        price->bubble_sec += one.bubble_sec / draws;
        price->ortho_sec += one.ortho_sec / draws;
        price->role = one.role; /* the same in all draws, since computing does not vary */
    }
    for (int r = 0; r < ZR_ROLES; r++)
        for (int c = 0; c < ZR_CAUSES; c++) me->exposed_sec[r][c] /= draws;
    me->draw = 0;
    return ZR_OK;
}

static zr_status simulate_step(pricer *me, const zr_plans *plans, zr_simulation *made, zr_step_time *const *time)
{
    me->base.waited = add_exposed;
    ZR_TRY(price_draws(me, plans, &made->price));
    if (me->cluster->measured) made->price.step_sec += me->cluster->measured->around_sec;
    const int32_t role = plans->role[made->price.role]->layout.role;
    memcpy(made->exposed_sec, me->exposed_sec[role], sizeof made->exposed_sec);
    find_rates(me, plans, made);
    me->base.waited = NULL;
    ZR_TRY(price_cluster_save(me, plans, &made->save));
    if (time) ZR_TRY(zr__plans_times_by(plans, &me->base, time));
    return ZR_OK;
}

zr_status zr_simulate(const zr_plans *plans, const zr_cluster *cluster, const zr_simulate_options *wanted,
                      zr_simulation *made, zr_step_time *const *time)
{
    const zr_simulate_options options = wanted ? *wanted : (zr_simulate_options){0};
    const int32_t ranks_per_host = options.ranks_per_host > 0 ? options.ranks_per_host : cluster->host_devices;
    const double straggler = options.straggler, jitter = options.jitter;
    const zr_plan *first = plans->role[0];
    double exposed_sec[ZR_ROLES][ZR_CAUSES] = {{0}};
    ZR_CHECK(straggler == 0 || (straggler >= 1 && isfinite(straggler)), ZR_ERR_ARG,
             "straggler is %g; it must be 0, or 1 or more", straggler);
    ZR_CHECK(jitter >= 0 && isfinite(jitter), ZR_ERR_ARG, "jitter is %g; it must be 0 or more", jitter);
    for (int32_t r = 0; r < plans->n; r++) ZR_TRY(zr__simulate_check(plans->role[r], cluster, ranks_per_host));
    *made = (zr_simulation){.bound_by = "", .slowest = 1};
    pricer me = {{.step_sec = step_sec, .queues = queues_of(plans, cluster)},
                 .cluster = cluster,
                 .options = options,
                 .ranks_per_host = ranks_per_host,
                 .exposed_sec = exposed_sec};
    for (int32_t r = 0; r < plans->n; r++) {
        const double slowest = slowest_of(&options, plans->role[r]);
        me.slowest[plans->role[r]->layout.role] = slowest;
        made->slowest = fmax(made->slowest, slowest);
        find_paths(&me, plans->role[r]);
    }
    for (int32_t g = 0; g < ZR_GROUPS; g++)
        if (first->group[g].exchanges) me.spot[g] = zr__spot_of(first, g, cluster, ranks_per_host);
    zr_status st = cluster->measured ? price_measured(&me, plans) : ZR_OK;
    if (st == ZR_OK) st = simulate_step(&me, plans, made, time);
    for (int r = 0; r < ZR_ROLES; r++) {
        zr_free(me.alone_sec[r]);
        zr_free(me.longer_sec[r]);
    }
    return st;
}
