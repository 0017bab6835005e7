/* Estimates the time of a step in a measured launch. The seconds per unit of work are interpolated between similar
 * measured steps, by inverse distance weighting (Shepard, 1968). */
#include "simulate/simulate.h"
#include "plan/list/place.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Distance between the sizes of two steps, in octaves (factors of 2). Measured steps nearer than this distance have
 * nearly equal weights. Beyond it, the weight falls with the fourth power of the distance. */
#define NEAR 0.05

/* Name a step that makes or reads records, such as "encode int8", because it takes longer than other steps of the same
 * kind and size. Return false for other steps. */
static bool name_coding(const zr_plan *plan, zr_schedule_kind kind, const zr_step *step, char name[32])
{
    const zr_step_traits traits = zr_step_traits_of(step->kind);
    const bool reduces = traits.move == ZR_MOVE_REDUCE;
    if (step->kind != ZR_STEP_CAST && !reduces) return false;
    const zr_use *use = &plan->schedule[kind].use[step->uses + (reduces ? traits.pieces : 0)];
    const bool decodes = zr_dtype_is_record(use[0].dtype), encodes = !reduces && zr_dtype_is_record(use[1].dtype);
    if (!decodes && !encodes) return false;
    snprintf(name, 32, "%s %s",
             reduces            ? zr_step_kind_name(step->kind)
             : decodes          ? "decode"
             : plan->stochastic ? "encode at random"
                                : "encode",
             zr__record_codes_names[zr__record_codes_of(use[decodes ? 0 : 1].dtype)]);
    return true;
}

zr_step_sample zr__step_sample_of(const zr_plan *plan, zr_schedule_kind kind, int32_t index)
{
    const zr_step *step = &plan->schedule[kind].step[index];
    const bool runs = step->kind == ZR_STEP_RUN;
    const char *name = runs ? zr_graph_get_op(plan->graph[kind], step->op)->def->name : zr_step_kind_name(step->kind);
    const bool iterates = step->kind == ZR_STEP_ORTHO;
    zr_step_sample sample = {.narrow = (iterates ? plan->optimizer.ortho.dtype : plan->layout.dtype) == ZR_BF16,
                             .cost = zr__plan_step_cost(plan, kind, index)};
    if (!name_coding(plan, kind, step, sample.kind)) snprintf(sample.kind, sizeof(sample.kind), "%s", name);
    if (zr_step_traits_of(step->kind).move == ZR_MOVE_NONE) return sample;
    sample.cost.wire_bytes /= sample.cost.calls;
    sample.cost.memory_bytes /= sample.cost.calls;
    sample.ranks = plan->group[step->group].size;
    sample.across = zr__plan_across(plan, step->group, ZR_BORDER_HOST, 0, sample.ranks - 1) > 0;
    return sample;
}

/* Return the work to which a step's time is proportional: its FLOPs if there are any, else the bytes received from
 * other ranks, else the bytes of memory traffic. A step without a size has work 0. */
static double sample_work(const zr_step_cost *cost)
{
    if (cost->flops > 0) return cost->flops;
    return cost->wire_bytes > 0 ? cost->wire_bytes : cost->memory_bytes;
}

static double octaves_between(double a, double b)
{
    return a > 0 && b > 0 ? log2(a / b) : 0;
}

/* Return the squared distance between the sizes of two steps of the same kind. The distance is in octaves (factors of
 * 2). */
static double squared_octaves(const zr_step_cost *a, const zr_step_cost *b)
{
    double sum = 0;
    if (a->product.size[0] > 0 && b->product.size[0] > 0) {
        for (int i = 0; i < 3; i++) {
            const double o = octaves_between((double)a->product.size[i], (double)b->product.size[i]);
            sum += o * o;
        }
        return sum;
    }
    const double work = octaves_between(sample_work(a), sample_work(b)),
                 head = octaves_between((double)a->head, (double)b->head);
    return work * work + head * head;
}

/* Return the distance between a sample's group size and `ranks`, in octaves. Only samples with the nearest group size
 * are used. */
static double group_distance(const zr_step_sample *sample, int32_t ranks)
{
    return fabs(octaves_between((double)sample->ranks, (double)ranks));
}

static bool is_alike(const zr_step_sample *sample, const zr_step_sample *step)
{
    return sample->narrow == step->narrow && sample->across == step->across &&
           (sample->ranks > 1) == (step->ranks > 1) &&
           (sample_work(&sample->cost) > 0) == (sample_work(&step->cost) > 0) && strcmp(sample->kind, step->kind) == 0;
}

bool zr__measured_sec(const zr_launch *launch, const zr_step_sample *step, double *sec)
{
    const double work = sample_work(&step->cost);
    double nearest = INFINITY, weights = 0, sum = 0;
    for (int32_t i = 0; i < launch->n_samples; i++)
        if (is_alike(&launch->sample[i], step))
            nearest = fmin(nearest, group_distance(&launch->sample[i], step->ranks));
    for (int32_t i = 0; i < launch->n_samples; i++) {
        const zr_step_sample *sample = &launch->sample[i];
        if (!is_alike(sample, step) || group_distance(sample, step->ranks) > nearest) continue;
        const double near = squared_octaves(&sample->cost, &step->cost) + NEAR * NEAR, weight = 1 / (near * near);
        sum += weight * log(work > 0 ? sample->sec / sample_work(&sample->cost) : sample->sec);
        weights += weight;
    }
    if (weights == 0) return false;
    *sec = exp(sum / weights) * (work > 0 ? work : 1);
    return true;
}
