/* Runs the end of a training step: the global gradient norm, and the updates of this rank's shards. */
#include "engine/walk.h"
#include "base/number/exact.h"
#include "plan/list/place.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Return the index of a unit's first parameter that has a gradient that is not finite, or INFINITY if there is none.
 * Operand `use` is the unit's sum of squares. */
static double bad_param(const zr__running *r, int use)
{
    const zr_graph *g = r->engine->plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_square *square = (const zr_square *)zr__at(r, use);
    const zr_unit_info *info = zr_graph_unit_info(g, r->bound->schedule->buffer[r->use[use].buffer].unit);
    int32_t p = info->first_param + info->n_params - 1;
    if (square->bad < 0) return INFINITY;
    while (p > info->first_param && zr_graph_param(g, p)->unit_offset > square->bad) p--;
    return p;
}

/* Add the squares of elements [first, end) of a unit to the step's sum of squares. `begin` is the first element of the
 * step's range on this rank. */
static zr_status square_range(const zr__running *r, int64_t begin, int64_t first, int64_t end)
{
    const void *x = zr__at(r, 0) + zr_dtype_span(r->use->dtype, first - begin);
    return r->device->ops->square(r->device, x, r->use->dtype, end - first, r->step->rank_free_sums, first,
                                  (zr_square *)zr__at(r, 1));
}

/* Add the squares of the gradients of the parameters that count on this rank (zr__counts). */
static zr_status square_cut(const zr__running *r, int64_t begin)
{
    const zr_graph *g = r->engine->plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, r->step->unit);
    for (int32_t i = info->first_param; i < info->first_param + info->n_params; i++) {
        const zr_param_info *param = zr_graph_param(g, i);
        const zr__span mine = zr__meet(r->engine, param, &r->step->range);
        if (zr__counts(r->engine, param) && mine.begin < mine.end) ZR_TRY(square_range(r, begin, mine.begin, mine.end));
    }
    return ZR_OK;
}

zr_status zr__square(const zr__running *r)
{
    const int64_t begin = zr__first(r->engine, &r->step->range);
    /* Start from zero. NORM or AGREE has already read the squares of the previous training step. */
    if (!r->step->adds || r->micro == 0) *(zr_square *)zr__at(r, 1) = (zr_square){.bad = -1};
    return r->engine->runtime.place > 0 || r->engine->repeats
               ? square_cut(r, begin)
               : square_range(r, begin, begin, begin + r->step->range.count);
}

/* ---- agreement of all ranks -------------------------------------------------------------------- */

/* Indices of the operands of AGREE and NORM in `use`. */
enum { LOSS, NUMBERS, VERDICT, SQUARES };

/* List the names of the units that this training step has updated so far, as in "final, h.11, h.10". */
static const char *list_updated(const zr_engine *e, char *list, size_t bytes)
{
    const zr_schedule *s = &e->plan->schedule[ZR_SCHEDULE_TRAIN];
    size_t used = 0;
    int32_t left = e->updated;
    list[0] = '\0';
    for (int32_t i = 0; i < s->n_steps && left > 0 && used + ZR_NAME_MAX + 8 < bytes; i++) {
        /* a unit may be updated in several buckets; list it at the first */
        if (s->step[i].kind != ZR_STEP_UPDATE || s->step[i].range.first > 0) continue;
        left--;
        used += (size_t)snprintf(list + used, bytes - used, "%s%s", used ? ", " : "",
                                 zr_graph_unit_info(e->plan->graph[ZR_SCHEDULE_TRAIN], s->step[i].unit)->name);
    }
    if (left > 0) snprintf(list + used, bytes - used, " and %d more", left);
    return list;
}

/* With several loss terms, sum the number of losses that count over the ranks, for each term. The sums determine the
 * gradient seed of each term's losses. A term without losses that count contributes nothing. */
zr_status zr__count(const zr__running *r)
{
    zr_engine *e = r->engine;
    const int terms = e->plan->terms;
    double *numbers = (double *)zr__at(r, 0), *counted = (double *)zr__at(r, 1), mine[ZR_LOSS_TERMS];
    for (int t = 0; t < terms; t++) mine[t] = (double)e->announced[t];
    ZR_TRY(zr_comm_scalars(e->comm, mine, terms, numbers));
    for (int t = 0; t < terms; t++) {
        counted[t] = 0;
        for (int i = 0; i < e->plan->ranks; i++)
            if (zr__plan_first_of_rows(e->plan, i)) counted[t] += numbers[terms * i + t];
        e->runtime.loss_seed[t] = counted[t] > 0 ? (float)(e->scale / counted[t]) : 0;
    }
    return ZR_OK;
}

/* Write each term's number of losses that count, over all ranks, into the verdict. With one term, `counted` is this
 * number. Then also set e->per_counted, the factor that converts a mean over all losses of the global batch to a mean
 * over the losses that count. It is exactly 1 if all losses count. With several terms, the numbers are the last operand
 * of the step. Return whether any loss counts. */
static bool set_counted(const zr__running *r, double counted, zr_verdict *verdict)
{
    zr_engine *e = r->engine;
    const bool one = e->plan->terms == 1;
    const double *given = one ? &counted : (const double *)zr__at(r, r->step->n_uses - 1);
    bool any = false;
    for (int t = 0; t < e->plan->terms; t++) {
        verdict->counted[t] = (int64_t)given[t];
        any = any || given[t] > 0;
    }
    e->per_counted = one && any ? e->plan->losses[0] / counted : 1;
    return any;
}

/* Return whether any term's loss is not finite on this rank. */
static bool is_loss_bad(const zr__running *r)
{
    const zr_exact *loss = (const zr_exact *)zr__at(r, LOSS);
    bool bad = false;
    for (int t = 0; t < r->engine->plan->terms; t++) bad = bad || loss[t].not_finite;
    return bad;
}

/* Agree with all ranks that a unit's gradient is finite. This precedes the unit's update, which cannot be undone. If
 * the gradient or a loss is not finite on any rank, return ZR_ERR_DIVERGED, which ends the run. */
zr_status zr__agree(const zr__running *r)
{
    zr_engine *e = r->engine;
    const zr_graph *g = e->plan->graph[ZR_SCHEDULE_TRAIN];
    double *all = (double *)zr__at(r, NUMBERS), bad = INFINITY, loss = 0, counted = 0;
    ZR_TRY(r->device->ops->finish(r->device));
    int32_t units = 0;
    for (int32_t u = 0; u < e->plan->n_units; u++) units += e->plan->unit[u].trains;
    const double mine[ZR_AGREE_SCALARS] = {bad_param(r, SQUARES), is_loss_bad(r), (double)e->counted[0]};
    ZR_TRY(zr_comm_scalars(e->comm, mine, ZR_AGREE_SCALARS, all));
    for (int i = 0; i < e->plan->ranks; i++) {
        bad = fmin(bad, all[ZR_AGREE_SCALARS * i]);
        loss += all[ZR_AGREE_SCALARS * i + 1];
        if (zr__plan_first_of_rows(e->plan, i)) counted += all[ZR_AGREE_SCALARS * i + 2];
    }
    zr_verdict *verdict = (zr_verdict *)zr__at(r, VERDICT);
    *verdict = (zr_verdict){.bad_param = -1};
    verdict->skipped = !set_counted(r, counted, verdict) || e->probing;
    verdict->grad_scale = (float)(1 / e->scale * e->per_counted);
    if (e->probing || (bad == INFINITY && loss == 0)) return ZR_OK;
    char list[512];
    const char *gradient = bad < INFINITY ? "the gradient of " : "the loss";
    return ZR_FAIL(ZR_ERR_DIVERGED,
                   "%s%s is not finite in step %lld; the layout lean updates each unit as its gradient arrives, so the "
                   "step cannot be skipped: %d of %d units are updated already (%s)",
                   gradient, bad < INFINITY ? zr_graph_param(g, (int32_t)bad)->name : "", (long long)e->step->step + 1,
                   e->updated, units, e->updated ? list_updated(e, list, sizeof list) : "none");
}

/* Results of NORM over all ranks. */
typedef struct agreed {
    double squares, loss[ZR_LOSS_TERMS]; /* loss: sum of each term's losses */
    /* index of the first parameter whose gradient is not finite; the number of parameters if only the loss is not
     * finite; INFINITY if all are finite */
    double bad;
    double counted; /* with one term, number of losses that count */
    double micro;   /* sum of the squares of all micro-gradients; 0 if not requested */
} agreed;

/* Gather an exact sum from each rank in one call. Append the sums to `numbers` after the *used numbers of earlier
 * calls, and increase *used. */
static zr_status exchange_exact(const zr__running *r, const zr_exact *sum, double *numbers, ptrdiff_t *used)
{
    double mine[ZR_EXACT_LIMBS];
    zr__exact_pack(sum, mine);
    ZR_TRY(zr_comm_scalars(r->engine->comm, mine, ZR_EXACT_LIMBS, numbers + *used));
    *used += (ptrdiff_t)ZR_EXACT_LIMBS * r->engine->plan->ranks;
    return ZR_OK;
}

/* Exchange the ranks' numbers for NORM in one call. The squares of micro-gradients, and the losses of each further
 * term, take one more call each. A unit's squares on one rank are a double, or an exact sum if sums are independent of
 * the number of ranks. All squares are added exactly, so that the norm does not depend on which rank has which unit or
 * shard. */
static zr_status exchange_numbers(const zr__running *r, double *numbers)
{
    zr_engine *e = r->engine;
    const zr_exact *loss = (const zr_exact *)zr__at(r, LOSS);
    const int terms = e->plan->terms;
    const bool micros = r->step->rounds > 0;
    const int32_t end = r->step->n_uses - (terms > 1), units = (end - SQUARES) / (micros ? 2 : 1);
    double bad = is_loss_bad(r) ? zr_graph_params(e->plan->graph[ZR_SCHEDULE_TRAIN]) : INFINITY;
    zr_exact sum[2] = {0}; /* sums of squares: [0] of the gradient, [1] of the micro-gradients */
    for (int32_t u = SQUARES; u < end; u++) {
        const zr_square *square = (const zr_square *)zr__at(r, u);
        const bool micro = u >= SQUARES + units;
        zr__exact_merge(&sum[micro], &square->exact);
        zr__exact_add_double(&sum[micro], square->sum);
        /* Check only the gradient: if a micro-gradient is not finite, the gradient is not finite either. */
        if (!micro) bad = fmin(bad, bad_param(r, u));
    }
    double mine[ZR_NORM_SCALARS];
    zr__exact_pack(&sum[0], mine);
    zr__exact_pack(loss, mine + ZR_EXACT_LIMBS);
    mine[2 * ZR_EXACT_LIMBS] = bad;
    mine[2 * ZR_EXACT_LIMBS + 1] = (double)e->counted[0];
    ptrdiff_t used = (ptrdiff_t)ZR_NORM_SCALARS * e->plan->ranks;
    ZR_TRY(zr_comm_scalars(e->comm, mine, ZR_NORM_SCALARS, numbers));
    if (micros) ZR_TRY(exchange_exact(r, &sum[1], numbers, &used));
    for (int t = 1; t < terms; t++) ZR_TRY(exchange_exact(r, &loss[t], numbers, &used));
    return ZR_OK;
}

/* Sum the numbers of all ranks. */
static agreed sum_numbers(const zr__running *r, const double *all)
{
    const zr_engine *e = r->engine;
    const int ranks = e->plan->ranks;
    const double *micros = all + (ptrdiff_t)ZR_NORM_SCALARS * ranks;
    const double *further = micros + (r->step->rounds > 0 ? (ptrdiff_t)ZR_EXACT_LIMBS * ranks : 0);
    agreed sum = {.bad = INFINITY};
    zr_exact squares = {0}, micro = {0}, loss[ZR_LOSS_TERMS];
    memset(loss, 0, sizeof loss);
    for (int i = 0; i < ranks; i++) {
        const double *its = all + (ptrdiff_t)ZR_NORM_SCALARS * i;
        zr__exact_unpack(&squares, its);
        /* the numbers of losses are the same on all ranks with the same rows; each role has its own losses */
        const bool counts = zr__plan_first_of_rows(e->plan, i);
        const bool first = zr__plan_place(e->plan, ZR_GROUP_ALL & ~(ZR_GROUP_DATA | ZR_GROUP_PIPELINE), i) == 0;
        if (first) zr__exact_unpack(&loss[0], its + ZR_EXACT_LIMBS);
        for (int t = 1; t < e->plan->terms && first; t++)
            zr__exact_unpack(&loss[t], further + (ptrdiff_t)ZR_EXACT_LIMBS * ((t - 1) * ranks + i));
        sum.bad = fmin(sum.bad, its[2 * ZR_EXACT_LIMBS]);
        if (counts) sum.counted += its[2 * ZR_EXACT_LIMBS + 1];
        if (r->step->rounds > 0) zr__exact_unpack(&micro, micros + (ptrdiff_t)ZR_EXACT_LIMBS * i);
    }
    sum.micro = zr__exact_value(&micro);
    sum.squares = zr__exact_value(&squares);
    for (int t = 0; t < e->plan->terms; t++) sum.loss[t] = zr__exact_value(&loss[t]);
    return sum;
}

/* Compute the mean loss of each term, and return their sum. */
static double mean_losses(const zr_engine *e, const agreed *all, zr_verdict *verdict)
{
    double sum = 0;
    if (e->plan->terms == 1) return verdict->term[0] = all->loss[0] * (1.0 / e->plan->losses[0]) * e->per_counted;
    for (int t = 0; t < e->plan->terms; t++) {
        verdict->term[t] = verdict->counted[t] > 0 ? all->loss[t] / (double)verdict->counted[t] : 0;
        sum += verdict->term[t];
    }
    return sum;
}

zr_status zr__norm(const zr__running *r)
{
    zr_engine *e = r->engine;
    double *numbers = (double *)zr__at(r, NUMBERS);
    ZR_TRY(r->device->ops->finish(r->device));
    ZR_TRY(exchange_numbers(r, numbers));
    const agreed all = sum_numbers(r, numbers);
    zr_verdict *verdict = (zr_verdict *)zr__at(r, VERDICT);
    const bool any = set_counted(r, all.counted, verdict);
    double norm = sqrt(all.squares) / e->scale * e->per_counted, clip = e->step->clip, ratio = 1.0;
    /* Add 1e-6 like torch.nn.utils.clip_grad_norm_. The reference losses depend on this. */
    if (clip > 0 && clip / (norm + 1e-6) < 1.0) ratio = clip / (norm + 1e-6);
    verdict->grad_norm = norm;
    verdict->loss = mean_losses(e, &all, verdict);
    /* The gradient of a micro-batch's mean loss is `rounds` times its micro-gradient. Therefore the mean of the squares
     * is rounds^2 * sum / rounds. */
    verdict->micro_square = all.micro / e->scale / e->scale * (double)r->step->rounds * e->per_counted * e->per_counted;
    verdict->grad_scale = (float)(ratio / e->scale * e->per_counted);
    verdict->bad_param = all.bad < zr_graph_params(e->plan->graph[ZR_SCHEDULE_TRAIN]) ? (int32_t)all.bad : -1;
    verdict->skipped = e->probing || !any || all.bad < INFINITY || !isfinite(all.squares) || !isfinite(verdict->loss);
    return ZR_OK;
}

/* ---- updates ----------------------------------------------------------------------------------- */

/* Return the address of element `first` of a unit in operand `use`, or NULL if the step does not have this operand.
 * `begin` is the first element of the step's range on this rank. */
static void *element(const zr__running *r, int use, int64_t begin, int64_t first)
{
    if (r->use[use].buffer == ZR_NONE) return NULL;
    return zr__at(r, use) + zr_dtype_span(r->use[use].dtype, first - begin);
}

/* Indices of the operands of UPDATE and SQUARE_UPDATE in `use`. After the optimizer states come the parameters, the
 * verdict, and then the norms (UPDATE) or the squares (SQUARE_UPDATE). */
enum { SUMS, MASTER, SLOTS };

static const zr_plan_unit *unit_of(const zr__running *r)
{
    return &r->engine->plan->unit[r->step->unit];
}

/* Return the number of optimizer states among the operands. An update by orthogonalised directions has none. */
static int slots_of(const zr__running *r)
{
    return unit_of(r)->orthogonal ? 0 : unit_of(r)->n_slots;
}

/* Return the index of the operand with the parameters. */
static int params_at(const zr__running *r)
{
    return SLOTS + slots_of(r);
}

/* Round all parameters of a range from their masters. */
static zr_status round_params(const zr__running *r)
{
    const zr_use *param = &r->use[params_at(r)];
    return r->device->ops->cast(r->device, zr__at(r, params_at(r)), param->dtype, zr__at(r, MASTER), ZR_F32,
                                param->range.count, NULL);
}

static const zr_verdict *verdict_of(const zr__running *r)
{
    return (const zr_verdict *)zr__at(r, params_at(r) + 1);
}

/* Return the arguments for the elements `mine` of a parameter. `begin` is the first element of the step's range on this
 * rank. */
static zr_update_args args_of(const zr__running *r, const zr_param_info *param, zr__span mine, int64_t begin)
{
    const zr_engine *e = r->engine;
    const zr_optimizer *optimizer = zr_plan_optimizer(e->plan, unit_of(r));
    const int params = params_at(r);
    const bool mixed = r->use[MASTER].buffer != ZR_NONE;
    const int64_t first = mine.begin;
    zr_update_args args = {.n = mine.end - first,
                           .weight = element(r, mixed ? MASTER : params, begin, first),
                           .param16 = mixed ? element(r, params, begin, first) : NULL,
                           .param_dtype = r->use[params].dtype,
                           .grad = element(r, SUMS, begin, first),
                           .grad_dtype = r->use[SUMS].dtype,
                           .grad_scale = verdict_of(r)->grad_scale,
                           .lr = e->step->lr * (optimizer->lr_factor > 0 ? optimizer->lr_factor : 1),
                           .weight_decay = param->shape.ndim >= 2 ? optimizer->weight_decay : 0,
                           .step = e->updates + 1,
                           .hyper = optimizer->hyper,
                           .rng = {.seed = e->runtime.seed,
                                   .purpose = ZR_RNG_STATES,
                                   .stream = (uint32_t)r->step->unit,
                                   .step = (uint32_t)e->updates},
                           .first = first};
    for (int s = 0; s < slots_of(r); s++) {
        args.slot[s] = element(r, SLOTS + s, begin, first);
        args.slot_dtype[s] = r->use[SLOTS + s].dtype;
    }
    return args;
}

/* Return the factor of the directions of a parameter's matrices, which have the same sizes. */
static double scale_of(const zr_plan *plan, const zr_plan_unit *u, int32_t param)
{
    int32_t i = u->first_matrix;
    while (plan->matrix[i].param != param) i++;
    return plan->matrix[i].scale;
}

/* Update the parameters in a range one by one, because weight decay and norms differ between parameters. A parameter
 * without a gradient in the graph keeps its value, even with weight decay. This is also the rule of torch.optim if grad
 * is None. On the host, the 16-bit parameters are written to a buffer that does not contain their old values, so
 * elements that keep their value are written too. */
zr_status zr__update(const zr__running *r)
{
    zr_engine *e = r->engine;
    const zr_graph *g = e->plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, r->step->unit);
    const zr_optimizer *optimizer = zr_plan_optimizer(e->plan, unit_of(r));
    const int params = params_at(r);
    const zr_norms *norms = optimizer->trust ? (const zr_norms *)zr__at(r, params + 2) : NULL;
    const bool mixed = r->use[MASTER].buffer != ZR_NONE;
    const bool all = r->step->stream == ZR_STREAM_HOST && mixed && r->use[params].buffer != ZR_NONE;
    int64_t kept = r->step->range.count; /* number of elements that keep their value */
    if (verdict_of(r)->skipped) return all ? round_params(r) : ZR_OK;
    e->updated += r->step->range.first == 0;
    const int64_t begin = zr__first(e, &r->step->range);
    for (int32_t i = 0; i < info->n_params; i++) {
        const zr_param_info *param = zr_graph_param(g, info->first_param + i);
        const zr__span mine = zr__meet(e, param, &r->step->range);
        if (param->grad == ZR_NONE || mine.begin >= mine.end) continue;
        zr_update_args args = args_of(r, param, mine, begin);
        if (norms) args.norms = norms[i];
        if (unit_of(r)->orthogonal) args.scale = scale_of(e->plan, unit_of(r), info->first_param + i);
        ZR_TRY(r->device->ops->update(r->device, optimizer, &args));
        kept -= args.n;
    }
    return all && kept > 0 ? round_params(r) : ZR_OK;
}

/* For trust ratios, add the squares of the weights and directions in a range, for each parameter that counts on this
 * rank (zr__counts). */
zr_status zr__square_update(const zr__running *r)
{
    zr_engine *e = r->engine;
    const zr_graph *g = e->plan->graph[ZR_SCHEDULE_TRAIN];
    const zr_unit_info *info = zr_graph_unit_info(g, r->step->unit);
    const zr_optimizer *optimizer = &e->plan->optimizer;
    zr_trust *trust = (zr_trust *)zr__at(r, params_at(r) + 2);
    const int64_t begin = zr__first(e, &r->step->range), shard = zr__first(e, &e->plan->unit[r->step->unit].own);
    if (r->step->range.first == 0) /* only for the first bucket */
        for (int32_t i = 0; i < info->n_params; i++) trust[i] = (zr_trust){{.bad = -1}, {.bad = -1}};
    if (verdict_of(r)->skipped) return ZR_OK;
    for (int32_t i = 0; i < info->n_params; i++) {
        const zr_param_info *param = zr_graph_param(g, info->first_param + i);
        const zr__span mine = zr__meet(e, param, &r->step->range);
        if (param->grad == ZR_NONE || mine.begin >= mine.end || !zr__counts(e, param)) continue;
        const zr_update_args args = args_of(r, param, mine, begin);
        ZR_TRY(r->device->ops->square_update(r->device, optimizer, &args, r->step->rank_free_sums, mine.begin - shard,
                                             &trust[i]));
    }
    return ZR_OK;
}
