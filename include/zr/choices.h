/**
 * choices: settings that are one of several named values. A configuration passes the choices of recompute, sequence
 * parallelism and gradient reduction to the planner (zr_layout), and the choices of packing and targets to the data
 * layer (zr_data_args).
 */
#ifndef ZR_CHOICES_H
#define ZR_CHOICES_H

/** Recompute policy: determines which activations are recomputed in the backward pass instead of being stored (Chen et
 * al. 2016). Every policy but KEEP recomputes outputs of cheap ops (zr_op_def.cheap: norms, GELU) if only their own
 * unit reads them and their operands are stored anyway. Their recomputation costs one more pass over memory, but hardly
 * any FLOPs. */
typedef enum zr_recompute {
    ZR_RECOMPUTE_NONE, /* recompute only outputs of cheap ops, no matrix products and no attention */
    ZR_RECOMPUTE_UNIT, /* store only the input of every recompute_every-th unit, and recompute all other activations */
    /* recompute attention, and activations that are wider than the unit's input (Korthikanti et al. 2022) */
    ZR_RECOMPUTE_SELECTIVE,
    /* choose the policy of each unit: the combination with the least work that fits limit_bytes, or if none fits, the
     * combination with the least memory. On a device with its own memory (facts.own_memory), the remaining memory is
     * used for KEEP, in the largest number of units that fits. Also choose how activation checkpoints are stored: whole
     * on the device, in pieces on the device, or in pieces on the host. Take the fastest way that fits; if several are
     * equally fast, take the first in this order. This choice requires tensor parallelism, sequence OFF,
     * partition_checkpoints false and checkpoint_home DEVICE */
    ZR_RECOMPUTE_AUTO,
    /* like UNIT with recompute_every 1, but run the whole unit again, even its last product, whose result is not
     * needed. The papers count FLOPs in this way (ZeRO section 7, Megatron-LM) */
    ZR_RECOMPUTE_PAPER,
    ZR_RECOMPUTE_KEEP /* recompute nothing: store outputs of cheap ops too */
} zr_recompute;

/** Sequence parallelism: the tokens that a tensor-parallel rank stores between layers (Korthikanti et al. 2022). */
typedef enum zr_sequence {
    ZR_SEQUENCE_OFF, /* every rank has all tokens */
    /* each rank has its own tokens, so that norms, dropout and residuals are not computed on every rank. Without
     * recompute, the gathered input of a product is stored for the backward pass */
    ZR_SEQUENCE_KEEP,
    /* each rank has its own tokens, and the inputs of products are gathered again in the backward pass */
    ZR_SEQUENCE_REGATHER
} zr_sequence;

/** Collectives that sum gradients over ranks. All give the same sums, except NCCL. */
typedef enum zr_reduce {
    ZR_REDUCE_TO_SHARDS, /* reduce-scatter: each rank receives its shard of the sums */
    /* all-reduce: all ranks receive all sums, with 1.5 times the traffic. The first version of ZeRO stage 1 used it */
    ZR_REDUCE_ALL_REDUCE,
    /* NCCL's reduce-scatter of a whole unit at once. NCCL adds in the communicated type and in its own order. Requires
     * one process per rank, and GPUs */
    ZR_REDUCE_NCCL
} zr_reduce;

/** Schedules of pipeline parallelism, for P pipeline ranks with v chunks each and k micro-batches. The chunks of all
 * ranks are the stages of the model, in its order. F is the forward pass of a stage for one micro-batch, and B its
 * backward pass. I is the part of B that gives gradients of values, W the part that gives gradients of parameters. In
 * every schedule a stage runs F, B, I and W for the micro-batches in ascending order, so that all give the same bits.
 */
typedef enum zr_pipe_schedule {
    ZR_PIPELINE_1F1B,  /* at most P forward passes ahead of backward passes (PipeDream-Flush, Narayanan et al. 2021) */
    ZR_PIPELINE_GPIPE, /* all F, then all B (Huang et al. 2019), but B in the order of F */
    ZR_PIPELINE_INTERLEAVED, /* 1F1B with v chunks a rank (Narayanan et al. 2021); P must divide k */
    ZR_PIPELINE_BREADTH,     /* breadth-first: all micro-batches pass through a chunk before the rank's next chunk runs
                                (Lamy-Poirier 2023). Stage 3 then gathers a chunk twice a step; with
                                zr_layout.reduce_once its gradients are reduced once */
    ZR_PIPELINE_ZB_H1,       /* 1F1B with W where the rank would be idle (Qi et al. 2024) */
    ZR_PIPELINE_ZB_V,        /* two chunks a rank, the first and the last stage on rank 0 (Qi et al. 2024); k >= 2P */
    ZR_PIPELINE_TABLE        /* the user's lists of actions (zr_layout.pipeline_table) */
} zr_pipe_schedule;

/** Contents of a sample, whose sequence length is T tokens. zr_data_order defines windows and their offset.
 *
 * DOCUMENTS: a window of T tokens. Documents follow each other without padding, and a window may begin and end anywhere
 *            in a document. Attention does not stop at the border of two documents.
 * ONE:       one document, for files of lines (.jsonl). Sample and window numbers are then numbers of documents. A
 *            document of fewer than T tokens is padded, and padded targets are -1. From a document of more than T+1
 *            tokens, the sample takes the first T+1 tokens. In shuffled order there is no offset.
 * WHOLE:     consecutive whole documents, as long as they fit into T+1 tokens, then padding. Only for files of lines.
 *            Sample and window numbers are then numbers of such rows, which are the same in each epoch; epochs differ
 *            in their order. A document of more than T+1 tokens is cut as with ONE, and fills a row. The target of a
 *            document's last token is -1. This is for attention within documents (zr_data_documents); the losses of a
 *            document are then the same as if it were alone in the sample.
 * AUTO:      ONE for files with prompts or messages, DOCUMENTS for all others. */
typedef enum zr_data_packing { ZR_PACK_AUTO, ZR_PACK_DOCUMENTS, ZR_PACK_ONE, ZR_PACK_WHOLE } zr_data_packing;

/** Targets that count in the loss, in records with prompts or messages.
 *
 * ANSWERS: completions and the assistant's messages, each with the token that ends it.
 * LAST:    completions, and only the last message of the assistant in a conversation.
 * ALL:     every token, including prompts, other messages and the template's own text.
 *
 * A message may have a switch, which decides for its text and the token that ends it, whatever its role: "weight" 0 or
 * 1, or "train" (or "training") false or true. */
typedef enum zr_data_loss_on { ZR_LOSS_ON_ANSWERS, ZR_LOSS_ON_LAST, ZR_LOSS_ON_ALL } zr_data_loss_on;

#endif
