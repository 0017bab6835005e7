/* nanotron: tensor, pipeline and data parallelism with ZeRO-1. */
#include "systems/model.h"

#include <math.h>

static const zr__option options[] = {
    ZR__BOOL("accumulate_grad_in_fp32", "true", .help = "gradients are summed in fp32, beside those in bf16"),
    ZR__CHOICE("tp_mode", "REDUCE_SCATTER", "REDUCE_SCATTER|ALL_REDUCE",
               .help = "REDUCE_SCATTER: norms and residuals on a rank's own tokens"),
    ZR__BOOL("tp_recompute_allgather", "true",
             .help = "gather inputs of products again in the backward pass, instead of keeping them"),
    ZR__TORCH_OPTIONS,
    {0},
};

static zr_status check(const zr__run *run)
{
    const zr_config *c = run->config;
    ZR_CHECK(zr_family_samples(c->model.family, &c->model.config) == ZR_SAMPLES_NEXT, ZR_ERR_UNSUPPORTED,
             "%s is an encoder; --system nanotron plans decoders", c->model.family->title);
    ZR_CHECK(c->zero.param.device == ZR_HOME_NONE && c->zero.optim.device == ZR_HOME_NONE, ZR_ERR_UNSUPPORTED,
             "zero_optimization.offload_param or offload_optimizer is given, which nanotron does not have; leave it "
             "out, or give --system deepspeed");
    return ZR_OK;
}

static zr_status keeps(const zr__run *run, zr__keeps *k, zr__decoder *room)
{
    (void)room;
    const zr_recompute policy = run->config->recompute.policy;
    k->sequence = zr__with_word(run, "tp_mode", "REDUCE_SCATTER");
    k->gathered = zr__with(run, "tp_recompute_allgather") == 0;
    k->rotary_inputs = k->gate_copies = true;
    ZR_TRY(zr__single_blocks(run));
    if (policy == ZR_RECOMPUTE_UNIT || policy == ZR_RECOMPUTE_PAPER) k->recompute = ZR__REDO_BLOCKS;
    ZR_CHECK(policy != ZR_RECOMPUTE_SELECTIVE, ZR_ERR_UNSUPPORTED,
             "activation_checkpointing.policy is selective; nanotron recomputes whole blocks (unit) or nothing (none)");
    return ZR_OK;
}

/* Return the blocks of a pipeline rank. Stages are cut by cost, and the head counts as many blocks as it has
 * parameters. */
static zr__span blocks_of(const zr__model *model, int64_t rank, int64_t pp)
{
    const double head = pp > 1 ? model->head / zr__largest_block_elems(model) : 0;
    const double part = ((double)model->blocks + head) / (double)pp;
    const double most = (double)model->blocks;
    return (zr__span){1 + (int64_t)fmin(most, ceil(part * (double)rank - 1e-9)),
                      1 + (int64_t)fmin(most, ceil(part * (double)(rank + 1) - 1e-9))};
}

static void memory(const zr__run *run, const zr__model *model, int64_t r, zr__rank_memory *rank)
{
    const zr_config *c = run->config;
    const zr__degrees d = zr__degrees_of(run);
    const zr__span span = blocks_of(model, r, d.pp);
    const int64_t head = model->blocks + 1;
    const double n = run->stage == 1 ? (double)d.dp : 1,
                 flight = fmin((double)c->accumulation_steps, (double)(d.pp - r));
    const bool sums = zr__with(run, "accumulate_grad_in_fp32") > 0;
    double p = 0, kept = 0;
    for (int64_t u = span.first; u < span.end; u++) {
        p += model->unit[u].trained + model->unit[u].frozen;
        kept += flight * model->unit[u].kept;
    }
    if (r == 0) p += model->unit[0].trained + model->unit[0].frozen;
    if (r == d.pp - 1) {
        p += model->unit[head].trained + model->unit[head].frozen + (d.pp > 1 ? model->shared : 0);
        kept += model->unit[head].kept;
    }
    zr__part_set(rank, ZR__PART_PARAMS, p * model->value_bytes);
    zr__part_set(rank, ZR__PART_GRADS, p * (model->value_bytes + (sums ? 4 : 0)));
    zr__part_set(rank, ZR__PART_STATES, p * (4 + 4 * zr__moments(c)) / n);
    rank->part[ZR__MOMENT_LOSS][ZR__PART_ACTIVATIONS] = rank->part[ZR__MOMENT_BACKWARD][ZR__PART_ACTIVATIONS] = kept;
    rank->part[ZR__MOMENT_BACKWARD][ZR__PART_REDONE] = model->redone;
    if (d.tp > 1 && zr__with(run, "tp_recompute_allgather") > 0) zr__part_set(rank, ZR__PART_BUCKETS, model->hidden);
    /* logits in fp32, their softmax, which becomes their gradient, and its cast to 16 bit; with several samples also a
     * transposed copy of the gradient (parallel/tensor_parallel/functional.py, models/llama.py) */
    const double bytes = 8 + model->value_bytes + (c->micro_batch_size > 1 ? 4 : 0);
    if (r == d.pp - 1) rank->part[ZR__MOMENT_LOSS][ZR__PART_HEAD] = model->logits * bytes;
}

static zr__range fragmentation(const zr__run *run)
{
    (void)run;
    return (zr__range){1.02, 1.1, 1.25};
}

/* With ZeRO-1 nanotron exchanges each parameter apart. Its two small models on 512 GPUs take 0.24 s longer than the
 * bytes tell, whatever their size (bench/planner_steps.py). */
static void speed(const zr__run *run, zr__speed *s)
{
    s->pass_factor = 2;
    s->sequence = zr__with_word(run, "tp_mode", "REDUCE_SCATTER");
    s->reduce_f32 = zr__with(run, "accumulate_grad_in_fp32") > 0;
    s->exposed = run->stage == 1;
    if (run->stage == 1) s->extra_sec = 0.24;
}

const zr__system zr__system_nanotron = {.name = "nanotron",
                                        .why = {[ZR__PART_GRADS] = "in 16 bit, and fp32 sums",
                                                [ZR__PART_ACTIVATIONS] = "eager ops keep more",
                                                [ZR__PART_HEAD] = "fp32 logits, softmax, gradient"},
                                        .title = "nanotron",
                                        .stages = 1 << 0 | 1 << 1,
                                        .schedules = 1 << ZR_PIPELINE_1F1B,
                                        .other_stages =
                                            "nanotron has stages 0 and 1: give --stage 1, or --system fsdp2",
                                        .version = "nanotron, February 2025",
                                        .option = options,
                                        .unproved = "the kind of memory of nanotron's measured rows is not known",
                                        .check = check,
                                        .keeps = keeps,
                                        .memory = memory,
                                        .speed = speed,
                                        .timed = "11 published runs of nanotron, of which 2 are more than 25 % off",
                                        .fragmentation = fragmentation};
