/* What several systems share: models of transformers, PyTorch's allocator, FSDP2 and DDP. Sources: torch/distributed/
 * fsdp/_fully_shard, torch/nn/parallel/distributed.py, torch/optim/adam.py, transformers/models. */
#include "systems/model.h"

#include <inttypes.h>
#include <math.h>

/* ---- models of transformers ------------------------------------------------------------------ */

zr_status zr__single_blocks(const zr__run *run)
{
    ZR_CHECK(run->config->recompute.policy != ZR_RECOMPUTE_UNIT || run->config->recompute.every == 1,
             ZR_ERR_UNSUPPORTED,
             "activation_checkpointing.every is %" PRId64 "; %s keeps the input of each block: leave "
             "it out",
             run->config->recompute.every, run->system->title);
    return ZR_OK;
}

zr_status zr__torch_keeps(const zr__run *run, zr__keeps *keeps)
{
    const zr_config *c = run->config;
    const zr_recompute policy = c->recompute.policy;
    const bool compiled = zr__with(run, "torch_compile") > 0;
    ZR_CHECK(policy != ZR_RECOMPUTE_SELECTIVE, ZR_ERR_UNSUPPORTED,
             "activation_checkpointing.policy is selective, and models of transformers recompute whole blocks or "
             "nothing; give the policy unit or none");
    if (policy == ZR_RECOMPUTE_UNIT || policy == ZR_RECOMPUTE_PAPER) keeps->recompute = ZR__REDO_BLOCKS;
    ZR_TRY(zr__single_blocks(run));
    keeps->transformers = keeps->gate_copies = true;
    keeps->redo_norms = keeps->redo_gates = compiled;
    keeps->expanded =
        zr__with(run, "attention_mask") > 0 && !zr__with_word(run, "attn_implementation", "flash_attention_2");
    /* softmax in fp32, and its result in 16 bit */
    if (zr__with_word(run, "attn_implementation", "eager")) keeps->scores = 6;
    return ZR_OK;
}

double zr__moments(const zr_config *config)
{
    switch (config->optimizer.type) {
    case ZR_OPTIMIZER_SGD:
    case ZR_OPTIMIZER_LARS:
        return config->optimizer.momentum > 0;
    case ZR_OPTIMIZER_LION:
        return 1;
    case ZR_OPTIMIZER_ADAMW8BIT:
        return 0.5;
    case ZR_OPTIMIZER_ADAMW:
    case ZR_OPTIMIZER_ADAM:
    case ZR_OPTIMIZER_LAMB:
    case ZR_OPTIMIZER_MUON: /* refused by zr__run_possible */
        break;
    }
    return 2;
}

zr__head zr__torch_head(const zr__run *run)
{
    /* the log-softmax of the logits in fp32, its gradient and that of the logits, and the logits of the output */
    const double logit = run->config->bf16 || run->config->fp16 ? 2 : 4;
    return zr__with(run, "use_liger_kernel") > 0 ? (zr__head){0, 0} : (zr__head){12 + logit, logit};
}

void zr__torch_activations(const zr__run *run, const zr__model *model, int64_t r, zr__head head, zr__rank_memory *rank)
{
    const int64_t pp = run->config->parallel.pipeline;
    const double flight = fmin((double)run->config->accumulation_steps, (double)(pp - r));
    double kept = flight * zr__rank_kept(model, r, pp, 1);
    if (r == 0) kept += flight * model->unit[0].kept;
    if (r == pp - 1) kept += model->unit[model->blocks + 1].kept;
    rank->part[ZR__MOMENT_LOSS][ZR__PART_ACTIVATIONS] = rank->part[ZR__MOMENT_BACKWARD][ZR__PART_ACTIVATIONS] = kept;
    rank->part[ZR__MOMENT_END][ZR__PART_ACTIVATIONS] = zr__largest_block(model);
    rank->part[ZR__MOMENT_BACKWARD][ZR__PART_REDONE] = model->redone;
    if (r < pp - 1) return;
    rank->part[ZR__MOMENT_LOSS][ZR__PART_HEAD] = model->logits * head.loss;
    rank->part[ZR__MOMENT_BACKWARD][ZR__PART_HEAD] = rank->part[ZR__MOMENT_END][ZR__PART_HEAD] =
        model->logits * head.held;
}

/* Measured: 1.01 to 1.06 compiled and 1.09 eager (torchtitan, 8 H100); 1.10 to 1.12 eager without recompute and up to
 * 1.60 with it (full fine-tuning with FSDP, 8 A100). */
zr__range zr__torch_fragmentation(bool compiled, bool recomputes)
{
    return compiled ? (zr__range){1.01, 1.04, 1.25} : (zr__range){1.02, 1.1, recomputes ? 1.6 : 1.25};
}

/* ---- FSDP2 ----------------------------------------------------------------------------------- */

zr_status zr__fsdp_check(const zr__run *run)
{
    const zr_config *c = run->config;
    ZR_CHECK(c->zero.optim.device == ZR_HOME_NONE || c->zero.param.device != ZR_HOME_NONE, ZR_ERR_UNSUPPORTED,
             "zero_optimization.offload_optimizer is given without offload_param; FSDP2 offloads parameters, gradients "
             "and states together: give both, or --system deepspeed");
    ZR_CHECK(
        c->zero.optim.device != ZR_HOME_NVME && c->zero.param.device != ZR_HOME_NVME, ZR_ERR_UNSUPPORTED,
        "zero_optimization.offload_... is nvme, and FSDP2 offloads to the host's memory only: give cpu, or --system "
        "deepspeed");
    return ZR_OK;
}

void zr__fsdp_memory(const zr__run *run, const zr__fsdp *f, const zr__model *model, int64_t r, zr__rank_memory *rank)
{
    const zr__degrees d = zr__degrees_of(run);
    const int64_t head = model->blocks + 1, n = d.dp * d.cp / f->replicas;
    const bool first = r == 0, last = r == d.pp - 1;
    const bool cut = n > 1 || f->unsharded_bytes != f->shard_bytes; /* units are gathered, or cast */
    const zr__span span = zr__span_of(model, r, d.pp);
    const double all = zr__rank_elems(model, r, d.pp, 1, false), trained = zr__rank_elems(model, r, d.pp, 1, true);
    double shard = zr__shard_elems(model, first ? 0 : span.first, last ? head + 1 : span.end, n, true, 0);
    if (last && d.pp > 1) shard += model->shared / (double)n;
    const double own = shard * trained / all; /* trained elements of the shard */
    const double here = f->offload ? 0 : 1;
    zr__part_set(rank, ZR__PART_PARAMS, shard * f->shard_bytes * here);
    zr__part_set(rank, ZR__PART_GRADS, own * f->shard_bytes * here);
    zr__part_set(rank, ZR__PART_STATES, own * f->moments_bytes * here);
    rank->host = (shard * f->shard_bytes + own * (f->shard_bytes + f->moments_bytes)) * (1 - here);
    zr__torch_activations(run, model, r, f->head, rank);
    double *const loss = rank->part[ZR__MOMENT_LOSS], *const backward = rank->part[ZR__MOMENT_BACKWARD],
                  *const end = rank->part[ZR__MOMENT_END];
    const bool several = run->config->accumulation_steps > 1;
    if (!f->persist) {
        rank->part[ZR__MOMENT_BETWEEN][ZR__PART_GRADS] = 0;
        if (!several) loss[ZR__PART_GRADS] = backward[ZR__PART_GRADS] = 0;
    }
    if (!f->sync && several) {
        /* whole, until the last micro-batch */
        loss[ZR__PART_GRADS] = backward[ZR__PART_GRADS] = end[ZR__PART_GRADS] = f->reduce_bytes * trained;
    }
    if (f->foreach) rank->part[ZR__MOMENT_STEP][ZR__PART_TEMPS] = own * f->moments_bytes / 2;
    if (!cut) return;
    /* The last unit stays gathered; it has the embedding too if the head uses it. In the backward pass there are two
     * blocks, one of them prefetched, the gradients of a block and their copy for the reduce-scatter. */
    const double block = zr__largest_block_elems(model), tail = last ? model->head : 0;
    const double in_backward = fmin(2 * block + tail, all), copies = f->unsharded_bytes + f->reduce_bytes;
    loss[ZR__PART_GATHERED] = f->unsharded_bytes * (f->reshard ? in_backward : f->in_place ? all - shard : all);
    backward[ZR__PART_GATHERED] = loss[ZR__PART_GATHERED];
    end[ZR__PART_GATHERED] = f->unsharded_bytes * 2 * block;
    backward[ZR__PART_BUCKETS] = end[ZR__PART_BUCKETS] = block * trained / all * copies;
    /* the gradient of a table that the head uses waits for that of the embedding, and their sum is a third */
    if (model->waiting <= 0 || d.pp > 1) return;
    backward[ZR__PART_BUCKETS] += model->waiting * f->unsharded_bytes;
    end[ZR__PART_GATHERED] = f->unsharded_bytes * tail;
    end[ZR__PART_BUCKETS] = model->waiting * 3 * f->unsharded_bytes + block * f->reduce_bytes;
    if (!f->persist && !several) end[ZR__PART_GRADS] -= model->waiting / (double)n * f->shard_bytes;
}

/* ---- DDP ------------------------------------------------------------------------------------- */

void zr__replicated_memory(const zr__run *run, const zr__replicated *s, const zr__model *model, zr__rank_memory *rank)
{
    const double all = zr__rank_elems(model, 0, 1, 1, false), p = zr__rank_elems(model, 0, 1, 1, true);
    double *const loss = rank->part[ZR__MOMENT_LOSS], *const backward = rank->part[ZR__MOMENT_BACKWARD],
                  *const end = rank->part[ZR__MOMENT_END];
    zr__part_set(rank, ZR__PART_PARAMS, all * s->weight_bytes);
    zr__part_set(rank, ZR__PART_STATES, p * s->moments_bytes);
    if (s->buckets && run->ranks > 1) zr__part_set(rank, ZR__PART_BUCKETS, p * s->weight_bytes);
    zr__torch_activations(run, model, 0, s->head, rank);
    /* zero_grad frees gradients after a step; they are there in the loss of a second micro-batch. The gradient of a
     * table that the head uses waits for that of the embedding, and their sum is a third. */
    const double grads = p * s->weight_bytes, waiting = model->waiting * s->weight_bytes;
    end[ZR__PART_GRADS] = grads + 2 * waiting;
    rank->part[ZR__MOMENT_STEP][ZR__PART_GRADS] = grads;
    backward[ZR__PART_GRADS] = model->head * s->weight_bytes;
    if (run->config->accumulation_steps > 1) {
        loss[ZR__PART_GRADS] = grads;
        backward[ZR__PART_GRADS] = grads + waiting;
    }
    if (s->foreach) rank->part[ZR__MOMENT_STEP][ZR__PART_TEMPS] = p * s->moments_bytes / 2;
    /* the root of the second moment, and the root divided, of one weight */
    if (s->loop) rank->part[ZR__MOMENT_STEP][ZR__PART_TEMPS] = 2 * zr__largest_weight(model) * s->weight_bytes;
    /* 16-bit copies of the weights of products, which the graph holds */
    const double copied = model->shared > 0 ? all : all - model->unit[0].trained - model->unit[0].frozen;
    if (s->autocast) loss[ZR__PART_GATHERED] = backward[ZR__PART_GATHERED] = 2 * copied;
}
