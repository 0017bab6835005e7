/* The table of keys. Help, docs/config.md, defaults and error messages are generated from it. */
#include "config/internal.h"

#define ONLY(values) .state = ZR_KEY_LIMITED, .built = values
#define FROM(lo) .min = lo, .max = ZR_CONFIG_MAX_INT
#define RANGE(lo, hi) .min = lo, .max = hi
#define ANY_NUMBER .min = 0, .max = 3.4e38 /* the range of fp32, in which updates are computed */

#define ADAMS (1u << ZR_OPTIMIZER_ADAMW | 1u << ZR_OPTIMIZER_ADAM)
#define SGD (1u << ZR_OPTIMIZER_SGD)
#define WARMUP (1u << ZR_SCHEDULER_WARMUP)
#define DECAY (1u << ZR_SCHEDULER_WARMUP_DECAY)
#define COSINE (1u << ZR_SCHEDULER_WARMUP_COSINE)

#define AUTO "\"auto\""
#define ZERO "zero_optimization."
#define LESS_MEMORY .instead = "for less memory: a higher stage, activation_checkpointing.policy unit, more ranks"
#define CURVES "metrics.jsonl holds the curves"

/* A row of the table with type, path, default, member of zr_config, help, then other members of zr_key. Every value in
 * the range is available, unless ONLY lists the available values. */
#define KEY(t, p, d, f, ...)                                                                                           \
    {                                                                                                                  \
        .path = p, .type = ZR_KEY_##t, .standard = d, .offset = offsetof(zr_config, f), .help = __VA_ARGS__            \
    }
/* A row of a key that has no member of zr_config: type, path, default, help, then other members of zr_key. */
#define BARE(t, p, d, ...)                                                                                             \
    {                                                                                                                  \
        .path = p, .type = ZR_KEY_##t, .standard = d, .offset = SIZE_MAX, .help = __VA_ARGS__                          \
    }
/* A key of DeepSpeed that has no effect here. Its help text gives the reason. */
#define IGNORED(...) BARE(__VA_ARGS__, .state = ZR_KEY_NO_MEANING)
/* A key of DeepSpeed for which only the default is available. */
#define REFUSED(t, p, d, ...) BARE(t, p, d, __VA_ARGS__, ONLY(d))
/* A section of DeepSpeed that is not available. Its key `enabled` must be false, and its other keys have no effect. */
#define SECTION_OFF(s, ...)                                                                                            \
    REFUSED(BOOL, s ".enabled", "false", __VA_ARGS__), IGNORED(ANY, s ".*", "null", "read with " s ".enabled only")
#define MONITOR_OFF(s)                                                                                                 \
    REFUSED(BOOL, s ".enabled", "false", CURVES, .instead = "the curves are in metrics.jsonl and loss.svg"),           \
        IGNORED(ANY, s ".*", "null", CURVES)

const zr_key zr__keys[] = {
    KEY(STRING, "model.type", "\"gpt2\"", model.type, "kind of model", .choices = "gpt2|bert|llama", ONLY("gpt2")),
    KEY(STRING, "model.preset", "null", model.preset,
        "a named shape, such as gpt2-124m: gives every size. Where neither optimizer nor scheduler is given, zr train, "
        "plan and simulate take a recipe for that size: a warm-up, a cosine, clipping, GPT-3's learning rate"),
    KEY(STRING, "model.init", "null", model.init,
        "directory with config.json and model.safetensors to start from: gives every size"),
    KEY(NAMES, "model.frozen", "null", model.frozen,
        "parameters that do not train, by patterns of their names as `zr inspect` shows them, with or without the "
        "first part (`transformer.`): such as `wte.*`, `h.[0-3].*`, `*.attn.*`. They keep their bits and take no "
        "gradient, no states of the optimizer and no traffic for them"),
    KEY(INT, "model.n_layer", AUTO, model.sizes.n_layer, "transformer blocks; auto: 12", FROM(1)),
    KEY(INT, "model.n_head", AUTO, model.sizes.n_head, "attention heads, a divisor of n_embd; auto: 12", FROM(1)),
    KEY(INT, "model.n_embd", AUTO, model.sizes.n_embd, "width; auto: 768", FROM(1)),
    KEY(INT, "model.n_positions", AUTO, model.sizes.n_positions, "longest sequence; auto: 1024", FROM(1)),
    KEY(INT, "model.vocab_size", AUTO, model.sizes.vocab_size,
        "tokens, those of data.tokenizer or more; auto: the tokenizer's, without one 50257", FROM(1)),
    KEY(NUMBER, "model.dropout", "0.0", model.dropout, "probability of all three dropouts", RANGE(0, 0.999)),
    KEY(NUMBER, "model.embd_pdrop", AUTO, model.embd_pdrop, "dropout after the embedding; auto: model.dropout",
        RANGE(0, 0.999)),
    KEY(NUMBER, "model.resid_pdrop", AUTO, model.resid_pdrop,
        "dropout before each residual addition; auto: model.dropout", RANGE(0, 0.999)),
    KEY(NUMBER, "model.attn_pdrop", AUTO, model.attn_pdrop, "dropout of attention weights; auto: model.dropout",
        RANGE(0, 0.999)),
    KEY(NUMBER, "model.layer_norm_epsilon", "1e-5", model.layer_norm_epsilon, "added to the variance in layer norms",
        RANGE(1e-12, 1)),
    KEY(NUMBER, "model.initializer_range", "0.02", model.initializer_range, "standard deviation of initial weights",
        RANGE(0, 10)),
    BARE(STRING, "model.activation_function", "\"gelu_new\"", "activation function of the feed-forward part",
         .choices = "gelu_new|gelu|relu|silu|tanh", ONLY("gelu_new")),

    KEY(PATHS, "data.train", "null", data.train,
        "text, .jsonl, or tokens (nanoGPT's .bin, llm.c's .bin, Megatron's .bin and .idx); patterns such as "
        "train_*.bin and lists are read as one text, sources with weights are mixed"),
    KEY(PATHS, "data.val", "null", data.val, "the same without weights, for evaluation"),
    KEY(STRING, "data.tokenizer", "null", data.tokenizer,
        "how text becomes tokens: bytes, or a directory with a tokenizer's files; null: bytes for text, none for token "
        "files"),
    KEY(INT, "data.seq_length", AUTO, data.seq_length, "tokens of a sample; auto: model.n_positions", FROM(1)),
    KEY(CHOICE, "data.order", "\"shuffled\"", data.order,
        "shuffled: each pass over the file in an order of its own; sequential: as in the file",
        .choices = "shuffled|sequential"),
    KEY(STRING, "data.text_key", "\"text\"", data.text_key,
        "the member of each line of a .jsonl file that is its text"),
    KEY(EITHER, "data.bad_lines", "\"error\"", data.skip_bad_lines,
        "lines of a .jsonl file without such a text: error ends the run, skip leaves them out and says how many",
        .choices = "error|skip"),
    KEY(STRING, "data.cache_dir", "null", data.cache_dir,
        "folder in which the tokens of texts are kept; null: zr/tokens in the user's cache ($XDG_CACHE_HOME)"),

    KEY(CHOICE, "device", "\"auto\"", device,
        "what ranks compute on. cpu: the processor; cuda: GPUs of NVIDIA, the ranks of a host in turn on each; auto: "
        "GPUs where there are any",
        .choices = "auto|cpu|cuda"),

    KEY(INT, "parallel.tensor", "1", parallel.tensor,
        "degree of tensor parallelism: the number of neighbouring ranks that share each layer and divide its heads; "
        "such groups are data-parallel to each other",
        FROM(1)),
    KEY(CHOICE, "parallel.sequence", "\"off\"", parallel.sequence,
        "with parallel.tensor above 1: between layers each rank has its own tokens, so that norms, dropout and "
        "residuals are computed and kept once for all of them (sequence parallelism). Tokens gathered before a product "
        "are kept for the backward pass (keep) or gathered again (regather); with a policy of activation_checkpointing "
        "but none always again",
        .choices = "off|keep|regather"),
    KEY(INT, "parallel.ranks_per_host", AUTO, parallel.ranks_per_host,
        "ranks of a host, consecutive. auto: as the transport finds them, in a plan all; a number pretends hosts, for "
        "plans and tests",
        FROM(1)),

    KEY(CHOICE, "memory.layout", "\"lean\"", memory.layout,
        "which model states stay in memory; losses are the same to the bit. lean: only those that exact Adam needs, 12 "
        "bytes a parameter at stage 3; paper: 2 + 2 + 12 bytes, as the ZeRO papers count",
        .choices = "lean|paper"),
    KEY(CHOICE, "memory.norm", "\"one_pass\"", memory.norm,
        "for layout lean with one micro-batch a step: how the gradient's norm is found before the first update. "
        "one_pass: by keeping the whole gradient, where clipping or fp16 asks for the norm; elsewhere it is not found "
        "first, and a gradient that is not finite ends the run. two_pass: by running the backward pass twice; no "
        "gradient is kept, and such a step is skipped",
        .choices = "one_pass|two_pass"),
    KEY(BYTES, "memory.limit", "null", memory.limit_bytes,
        "memory limit of a rank, as 2GB: of its process, or with a GPU of the GPU. 1.03 x the plan's total + 50.33 MB "
        "(for the program and its libraries), on a GPU the total + 1.07 GB, must stay within it, or nothing starts",
        FROM(1)),

    KEY(INT, "train.steps", "1000", train.steps, "optimizer steps", FROM(1)),
    KEY(INT, "train.seed", "1234", train.seed,
        "seed of all random numbers: initial weights, dropout, order of the samples", FROM(0)),
    KEY(INT, "train.eval_interval", "100", train.eval_interval, "steps between evaluations; 0: none", FROM(0)),
    KEY(INT, "train.eval_batches", "20", train.eval_batches, "batches of an evaluation; 0: all of data.val", FROM(0)),
    KEY(INT, "train.sample_tokens", "0", train.sample_tokens,
        "tokens of a text that the model writes every train.eval_interval steps and at the end, into metrics.jsonl; zr "
        "report shows them. 0: none",
        RANGE(0, 1024)),
    KEY(STRING, "train.sample_prompt", "null", train.sample_prompt,
        "what such a text goes on from; null: from the end of a text"),
    KEY(STRING, "train.output_dir", "null", train.output_dir,
        "directory of the run, which must not hold another; null: a new one, runs/<model>-<time>"),
    KEY(STRING, "train.started_in", "null", train.started_in,
        "directory that relative paths are from; a run writes it into its own config.json"),
    KEY(INT, "train.threads", AUTO, train.threads, "compute threads of a rank; auto: cores / ranks of the host",
        RANGE(1, 4096)),
    KEY(INT, "train.hang_timeout", AUTO, train.hang_timeout,
        "seconds after which a rank that has not moved ends the run (82); auto: 60, or 10 times the slowest of the "
        "last steps if that is more. The time is doubled in an evaluation, and five times as long in start and saving",
        RANGE(1, 1e9)),
    KEY(INT, "train.save_interval", "0", train.save_interval,
        "steps between checkpoints; 0: only of the last step, and of the one after which a run was asked to stop",
        FROM(0)),
    KEY(BOOL, "train.save_end", "true", train.save_end,
        "write a checkpoint of the last step, so that the run can be trained longer; where the disk has no room for "
        "it, the weights alone. false: only where train.save_interval is above 0"),
    KEY(INT, "train.keep_last", "2", train.keep_last, "the newest checkpoints, which are kept; older ones are removed",
        FROM(1)),
    KEY(BOOL, "train.keep_best", "false", train.keep_best,
        "keep the weights of the evaluation with the lowest val_loss, as a Hugging Face directory: best/ in the run's "
        "directory. Wants data.val and an eval_interval"),
    KEY(EITHER, "train.reproducible", "\"layout\"", train.rank_free_sums,
        "which runs give the same bits. layout: all stages, buckets, layouts and transports on the same number of "
        "ranks; world: also on 1, 2, 4, 8 ... ranks, at some cost in time and memory",
        .choices = "layout|world"),
    KEY(BOOL, "train.gradient_noise_scale", "false", train.noise_scale,
        "measure the gradient noise scale (McCandlish et al. 2018), the batch up to which a larger one pays, from the "
        "norms of each micro-batch's own gradient: noise_scale_tokens in metrics.jsonl. Reads each gradient once more; "
        "wants two micro-batches a step, over ranks and accumulation together"),
    KEY(BOOL, "train.tensorboard", "false", train.tensorboard,
        "write the numbers of metrics.jsonl into an event file for TensorBoard too, events.out.tfevents.* in "
        "train.output_dir: train/loss, val/loss, train/lr ... over steps"),

    KEY(INT, "train_batch_size", AUTO, train_batch_size,
        "samples of a step = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks",
        FROM(1)),
    KEY(INT, "train_micro_batch_size_per_gpu", AUTO, micro_batch_size,
        "samples of a micro-batch on one rank; 1 when none of the three is given", FROM(1)),
    KEY(INT, "gradient_accumulation_steps", AUTO, accumulation_steps,
        "micro-batches of a step; 1 when only train_batch_size is given. Where this and train_micro_batch_size_per_gpu "
        "are the word \"auto\", with train_batch_size, activation_checkpointing.policy auto and a memory.limit, both "
        "are chosen so that a step is the fastest that fits",
        FROM(1)),

    KEY(CHOICE, "optimizer.type", "\"AdamW\"", optimizer.type, "update rule; FusedAdam is taken as Adam",
        .choices = "AdamW|Adam|SGD|Lamb|Lion|Adagrad|Muon|OneBitAdam|OneBitLamb|ZeroOneAdam", ONLY("AdamW|Adam|SGD")),
    KEY(NUMBER, "optimizer.params.lr", "0.001", optimizer.lr, "learning rate", ANY_NUMBER),
    KEY(PAIR, "optimizer.params.betas", "[0.9, 0.999]", optimizer.betas, "decay of the two moments", .only = ADAMS),
    KEY(NUMBER, "optimizer.params.eps", "1e-8", optimizer.eps, "added to the root of the second moment", RANGE(0, 1),
        .only = ADAMS),
    KEY(NUMBER, "optimizer.params.weight_decay", "0.0", optimizer.weight_decay,
        "weight decay, of tensors with two and more dimensions", ANY_NUMBER),
    KEY(BOOL, "optimizer.params.adam_w_mode", "true", optimizer.adam_w_mode,
        "decoupled weight decay; false, with Adam: an L2 term", .only = ADAMS),
    KEY(NUMBER, "optimizer.params.momentum", "0.0", optimizer.momentum, "SGD's momentum", RANGE(0, 1), .only = SGD),
    KEY(BOOL, "optimizer.params.nesterov", "false", optimizer.nesterov, "Nesterov's momentum", .only = SGD),
    REFUSED(NUMBER, "optimizer.params.dampening", "0", "dampening of SGD's momentum", RANGE(0, 1), .only = SGD),
    REFUSED(BOOL, "optimizer.params.bias_correction", "true", "moments divided by 1 - beta^t", .only = ADAMS),
    REFUSED(BOOL, "optimizer.params.amsgrad", "false", "divide by the largest second moment so far", .only = ADAMS),
    IGNORED(BOOL, "optimizer.params.torch_adam", "false", "there is one implementation", .only = ADAMS),
    IGNORED(BOOL, "optimizer.params.fused", "true", "the update is always one pass"),
    IGNORED(BOOL, "optimizer.legacy_fusion", "false", "the update is always one pass"),

    KEY(CHOICE, "scheduler.type", "\"none\"", scheduler.type, "learning rate over steps",
        .choices = "none|WarmupLR|WarmupDecayLR|WarmupCosineLR|LRRangeTest|OneCycle",
        ONLY("none|WarmupLR|WarmupDecayLR|WarmupCosineLR")),
    KEY(NUMBER, "scheduler.params.warmup_min_lr", "0.0", scheduler.warmup_min_lr, "where the warm-up starts",
        ANY_NUMBER, .only = WARMUP | DECAY),
    KEY(NUMBER, "scheduler.params.warmup_max_lr", "0.001", scheduler.warmup_max_lr, "where the warm-up ends",
        ANY_NUMBER, .only = WARMUP | DECAY),
    KEY(INT, "scheduler.params.warmup_num_steps", "1000", scheduler.warmup_num_steps, "steps of warm-up", FROM(0),
        .only = WARMUP | DECAY | COSINE),
    KEY(CHOICE, "scheduler.params.warmup_type", "\"log\"", scheduler.warmup_type, "shape of the warm-up",
        .choices = "log|linear", .only = WARMUP | DECAY | COSINE),
    KEY(INT, "scheduler.params.total_num_steps", AUTO, scheduler.total_num_steps,
        "step at which the rate is lowest; auto: train.steps", FROM(1), .only = DECAY | COSINE),
    KEY(NUMBER, "scheduler.params.warmup_min_ratio", "0.0", scheduler.warmup_min_ratio,
        "start of the warm-up, of optimizer.params.lr", RANGE(0, 1), .only = COSINE),
    KEY(NUMBER, "scheduler.params.cos_min_ratio", "0.0001", scheduler.cos_min_ratio,
        "end of the cosine, of optimizer.params.lr", RANGE(0, 1), .only = COSINE),

    KEY(NUMBER, "gradient_clipping", "0.0", gradient_clipping, "largest global norm of the gradient; 0: no clipping",
        ANY_NUMBER),
    KEY(EITHER, "gradient_reduction", "\"micro\"", reduce_once,
        "when gradients are added over ranks. micro: after every micro-batch; step: once a step, in fp32, which moves "
        "fewer bytes from three micro-batches a step on (in fp32 from two). At every stage each rank then keeps the "
        "whole gradient in fp32. Sums are in another order: losses differ in their last digits",
        .choices = "micro|step"),
    REFUSED(BOOL, "prescale_gradients", "false", "divide before the sum"),
    REFUSED(NUMBER, "gradient_predivide_factor", "1", "divisor before the sum", ANY_NUMBER),
    REFUSED(BOOL, "sparse_gradients", "false", "sparse gradients of embeddings"),

    KEY(BOOL, "bf16.enabled", "false", bf16, "parameters and activations in bf16, with an fp32 master; otherwise fp32"),
    IGNORED(BOOL, "bf16.immediate_grad_update", "true", "gradients are always reduced as they come"),
    IGNORED(BOOL, "bf16.check_grad_overflow", "false", "a gradient that is not finite always skips the step"),
    REFUSED(BOOL, "bf16.bf16_master_weights_and_grads", "false", "no fp32 master"),
    REFUSED(BOOL, "bf16.bf16_optimizer_states", "false", "moments in bf16"),
    KEY(BOOL, "fp16.enabled", "false", fp16,
        "parameters and activations in fp16, with an fp32 master and a scaled loss; not beside bf16.enabled"),
    REFUSED(BOOL, "fp16.auto_cast", "false", "inputs are cast to fp16"),
    KEY(NUMBER, "fp16.loss_scale", "0", scale.loss_scale, "the loss times this; 0: a dynamic scale", RANGE(0, 1e38)),
    KEY(INT, "fp16.initial_scale_power", "16", scale.initial_scale_power, "the dynamic scale starts at 2 to this power",
        RANGE(0, 126)),
    KEY(INT, "fp16.loss_scale_window", "1000", scale.loss_scale_window,
        "steps without an overflow after which the dynamic scale doubles", FROM(1)),
    KEY(INT, "fp16.hysteresis", "2", scale.hysteresis,
        "the dynamic scale is first halved at this overflow; 2: at the second", FROM(1)),
    KEY(BOOL, "fp16.consecutive_hysteresis", "false", scale.consecutive_hysteresis,
        "each step without an overflow restores the hysteresis; otherwise only one that doubles the scale"),
    KEY(NUMBER, "fp16.min_loss_scale", "1", scale.min_loss_scale, "the dynamic scale does not fall below",
        RANGE(1e-6, 1e38)),
    REFUSED(BOOL, "fp16.fp16_master_weights_and_grads", "false", "no fp32 master"),
    SECTION_OFF("amp", "NVIDIA Apex"),
    KEY(CHOICE, "communication_data_type", AUTO, communication_dtype,
        "gradients on the wire: fp32, or the 16-bit type that is enabled; auto: that type, else fp32",
        .choices = "auto|fp32|bf16|fp16"),
    IGNORED(CHOICE, "seq_parallel_communication_data_type", AUTO, "sequences are not split over ranks",
            .choices = "auto|fp32|bf16|fp16"),
    KEY(CHOICE, "data_types.grad_accum_dtype", AUTO, grad_accum_dtype, "sums over micro-batches; auto: fp32",
        .choices = "auto|fp32|bf16|fp16", ONLY("auto|fp32")),

    KEY(INT, ZERO "stage", "0", zero.stage,
        "0: nothing is sharded; 1: optimizer states; 2: gradients too; 3: parameters too", RANGE(0, 3)),
    KEY(INT, ZERO "reduce_bucket_size", "16777216", zero.reduce_bucket_elems,
        "elements of one gradient exchange; not read with collectives.buffer fused", FROM(1)),
    KEY(INT, ZERO "allgather_bucket_size", "16777216", zero.allgather_bucket_elems,
        "elements of one parameter gather; not read with collectives.buffer fused", FROM(1)),
    KEY(SWITCH, ZERO "overlap_comm", AUTO, zero.overlap_comm,
        "communication beside computation: a unit is reduced while the next one computes; auto: true"),
    KEY(INT, ZERO "stage3_prefetch_bucket_size", "50000000", zero.prefetch_bucket_elems,
        "stage 3 with overlap_comm: units are prefetched until this number of elements is on its way; 0: no prefetch",
        FROM(0)),
    KEY(INT, ZERO "stage3_param_persistence_threshold", "0", zero.persistence_elems,
        "stage 3: a unit whose parameters all have fewer elements stays whole", FROM(0)),
    KEY(INT, ZERO "stage3_model_persistence_threshold", AUTO, zero.model_persistence_elems,
        "stage 3: most elements of units that stay whole; auto: any", FROM(1)),
    KEY(INT, ZERO "stage3_max_live_parameters", AUTO, zero.max_live_elems,
        "stage 3: no unit is prefetched beyond this number of whole elements; auto: two units", FROM(1)),
    KEY(INT, ZERO "stage3_max_reuse_distance", "0", zero.max_reuse_elems,
        "stage 3: a unit stays whole when it is used again within this number of elements of others", FROM(0)),
    IGNORED(BOOL, ZERO "stage3_gather_16bit_weights_on_model_save", "true", "the final weights are always whole"),
    IGNORED(BOOL, ZERO "stage3_gather_fp16_weights_on_model_save", "true",
            "old name of stage3_gather_16bit_weights_on_model_save"),
    IGNORED(BOOL, ZERO "stage3_allgather_sequential", "false", "a unit is gathered where it is used"),
    IGNORED(INT, ZERO "stage3_partition_stream_chunk_size", "0", "shards are set where they live", FROM(0)),
    IGNORED(BOOL, ZERO "stage3_use_all_reduce_for_fetch_params", "false", "parameters are gathered"),
    IGNORED(INT, ZERO "stage3_module_granularity_threshold", "0", "a unit is a transformer block", FROM(0)),
    IGNORED(INT, ZERO "sub_group_size", "1000000000", "the update takes shards in constant memory", FROM(1)),
    IGNORED(BOOL, ZERO "contiguous_gradients", "true", "gradients are always contiguous"),
    IGNORED(BOOL, ZERO "reduce_scatter", "true", "gradients are always reduced by their owner"),
    IGNORED(BOOL, ZERO "allgather_partitions", "true", "parameters are always gathered"),
    IGNORED(BOOL, ZERO "use_multi_rank_bucket_allreduce", "true", "a bucket holds a part of every rank's shard"),
    IGNORED(BOOL, ZERO "round_robin_gradients", "false", "a bucket holds a part of every rank's shard"),
    IGNORED(BOOL, ZERO "ignore_unused_parameters", "true", "unused parameters have gradient 0"),
    IGNORED(BOOL, ZERO "legacy_stage1", "false", "there is one stage 1"),
    IGNORED(BOOL, ZERO "elastic_checkpoint", "false", "about DeepSpeed's checkpoints"),
    IGNORED(BOOL, ZERO "load_from_fp32_weights", "true", "masters are always loaded in fp32"),
    IGNORED(BOOL, ZERO "memory_efficient_linear", "true", "no weight is kept by the backward pass"),
    IGNORED(BOOL, ZERO "override_module_apply", "true", "about PyTorch modules"),
    IGNORED(BOOL, ZERO "log_trace_cache_warnings", "false", "there is no trace"),
    IGNORED(BOOL, ZERO "enable_sanity_checks", "false", "plans are checked by the tests and in debug builds"),
    IGNORED(BOOL, ZERO "pipeline_loading_checkpoint", "false", "about DeepSpeed's checkpoints"),
    BARE(CHOICE, ZERO "offload_optimizer.device", "\"none\"", "where optimizer states live", .choices = "none|cpu|nvme",
         ONLY("none"), LESS_MEMORY),
    IGNORED(ANY, ZERO "offload_optimizer.*", "null", "read with a device other than none only"),
    BARE(CHOICE, ZERO "offload_param.device", "\"none\"", "where parameter shards live", .choices = "none|cpu|nvme",
         ONLY("none"), LESS_MEMORY),
    IGNORED(ANY, ZERO "offload_param.*", "null", "read with a device other than none only"),
    REFUSED(BOOL, ZERO "cpu_offload", "false", "old name of offload_optimizer", LESS_MEMORY),
    REFUSED(BOOL, ZERO "cpu_offload_param", "false", "old name of offload_param", LESS_MEMORY),
    IGNORED(BOOL, ZERO "cpu_offload_use_pin_memory", "false", "read with an offload only"),
    KEY(INT, ZERO "zero_hpz_partition_size", "1", zero.hpz_partition_ranks,
        "ZeRO++'s hpZ, at stage 3: a second copy of the parameters, sharded over this number of neighbouring "
        "data-parallel ranks (those of a host), from which a step gathers after its first gather. A power of two",
        FROM(1)),
    REFUSED(BOOL, ZERO "zero_quantized_weights", "false", "ZeRO++: quantized gathers"),
    REFUSED(BOOL, ZERO "zero_quantized_nontrainable_weights", "false", "ZeRO++: quantized gathers"),
    REFUSED(BOOL, ZERO "zero_quantized_gradients", "false", "ZeRO++: quantized exchange"),
    IGNORED(ANY, ZERO "zeropp_loco_param.*", "null", "read with zero_quantized_gradients only"),
    KEY(INT, ZERO "mics_shard_size", "-1", zero.mics_shard_ranks,
        "MiCS, hybrid sharding: states are sharded over this number of neighbouring data-parallel ranks and replicated "
        "across. A power of two; -1: over all",
        .min = -1, .max = ZR_CONFIG_MAX_INT),
    REFUSED(BOOL, ZERO "mics_hierarchical_params_gather", "false", "MiCS: gather in two steps"),

    KEY(CHOICE, "activation_checkpointing.policy", "\"none\"", recompute.policy,
        "which activations are recomputed in the backward pass instead of being kept. none: norms and GELU only, which "
        "cost little; selective: attention and activations wider than the model too; unit: everything but the input of "
        "each transformer block; auto: as few as fit memory.limit, or without it the memory that the host has left, "
        "and with parallel.tensor above 1 their checkpoints whole, as Pa or as Pa+cpu, whichever is faster; paper, for "
        "comparison: as unit, and also activations that nothing needs, as the papers count",
        .choices = "none|unit|selective|auto|paper"),
    KEY(INT, "activation_checkpointing.every", "1", recompute.every,
        "policy unit: of this number of blocks in a row only the input of the first is kept", FROM(1)),
    KEY(BOOL, "activation_checkpointing.partition_activations", "false", recompute.partition,
        "with a policy but none: of each checkpoint every tensor-parallel rank keeps its piece, and all pieces are "
        "gathered before the backward pass needs them (ZeRO-R's Pa)"),
    KEY(BOOL, "activation_checkpointing.cpu_checkpointing", "false", recompute.cpu,
        "with a policy but none: checkpoints are copied to memory of the host until the backward pass (with "
        "partition_activations: Pa+cpu). On processors that is the same memory, and `zr plan` shows what a device "
        "would keep"),
    KEY(CHOICE, "activation_checkpointing.offload", "\"none\"", recompute.offload,
        "host: the same as cpu_checkpointing", .choices = "none|host|disk", ONLY("none|host")),
    IGNORED(BOOL, "activation_checkpointing.contiguous_memory_optimization", "false",
            "memory is planned, never fragmented"),
    IGNORED(INT, "activation_checkpointing.number_checkpoints", "null", "follows from the model", FROM(1)),
    IGNORED(BOOL, "activation_checkpointing.synchronize_checkpoint_boundary", "false", "about CUDA streams"),
    IGNORED(BOOL, "activation_checkpointing.profile", "false", "times are in metrics.jsonl"),

    KEY(CHOICE, "collectives.reduce", "\"reduce_scatter\"", collectives.reduce,
        "how gradients are summed. reduce_scatter is meant for training, the others for comparison. all_reduce, at "
        "stages 0 and 1: every rank receives every sum; owner: one reduction after the other, each to its owner; nccl: "
        "NCCL's own reduce-scatter, a whole unit in one, between processes on GPUs with device cuda. NCCL adds in the "
        "type in which gradients travel and in an order that it chooses, so the bits are not promised",
        .choices = "reduce_scatter|all_reduce|owner|nccl"),
    KEY(CHOICE, "collectives.gather", "\"all_gather\"", collectives.gather,
        "how parameters are gathered. broadcast, for comparison: one after the other, each from its owner",
        .choices = "all_gather|broadcast"),
    KEY(SWITCH, "collectives.hierarchical", AUTO, collectives.hierarchical,
        "gathers and reductions first within a host, then across, where partial sums travel in fp32. auto: where there "
        "are several hosts with the same number of ranks, a power of two, and parallel.tensor is 1"),
    KEY(EITHER, "collectives.buffer", "\"constant\"", collectives.fused,
        "staging memory of exchanges. fused, for comparison: one buffer as large as the model",
        .choices = "constant|fused"),

    KEY(INT, "steps_per_print", "10", steps_per_print, "steps between progress lines", FROM(1)),
    IGNORED(BOOL, "wall_clock_breakdown", "false", "times are in metrics.jsonl"),
    IGNORED(BOOL, "memory_breakdown", "false", "memory is in run.json"),
    IGNORED(BOOL, "dump_state", "false", "the resolved configuration is always saved"),
    IGNORED(BOOL, "disable_allgather", "false", "parameters are always gathered"),
    IGNORED(BOOL, "dataloader_drop_last", "false", "every batch is full"),
    IGNORED(BOOL, "zero_allow_untested_optimizer", "false", "every optimizer works at every stage"),
    IGNORED(BOOL, "zero_force_ds_cpu_optimizer", "true", "there is one implementation"),
    IGNORED(ANY, "aio.*", "null", "read with an NVMe device only"),
    KEY(SWITCH, "checkpoint.async", AUTO, checkpoint.async,
        "checkpoints of train.save_interval are written asynchronously, during the next steps: from where the states "
        "are, with updates that wait for states that are not written yet, or, where memory.limit is given and has "
        "room, from a copy in memory of the host. auto: true. false: training waits for each"),
    KEY(INT, "checkpoint.every", "0", checkpoint.every,
        "checkpoints of steps that are multiples of it are never removed; 0: none", FROM(0)),
    IGNORED(ANY, "checkpoint.*", "null", "checkpoints do not depend on the layout"),
    IGNORED(BOOL, "flops_profiler.enabled", "false", "zr plan prints FLOPs"),
    IGNORED(ANY, "flops_profiler.*", "null", "zr plan prints FLOPs"),
    SECTION_OFF("tensorboard", "DeepSpeed's train.tensorboard, which also names a place",
                .instead = "train.tensorboard writes event files into train.output_dir"),
    MONITOR_OFF("comet"),
    MONITOR_OFF("wandb"),
    MONITOR_OFF("csv_monitor"),
    SECTION_OFF("elasticity", "batch sizes for many world sizes", .instead = "give the batch sizes themselves"),
    SECTION_OFF("curriculum_learning", "growing sequence length"),
    SECTION_OFF("data_efficiency", "sampling and routing of data"),
    SECTION_OFF("progressive_layer_drop", "layers left out at random"),
    SECTION_OFF("eigenvalue", "eigenvalues of layers"),
    SECTION_OFF("hybrid_engine", "training and inference by turns"),
    SECTION_OFF("nebula", "a service that keeps checkpoints"),
    BARE(CHOICE, "sparse_attention.mode", "\"dense\"", "attention with holes",
         .choices = "dense|fixed|variable|bigbird|bslongformer", ONLY("dense")),
    BARE(INT, "tensor_parallel.autotp_size", "0", "DeepSpeed's parallel.tensor", FROM(0), ONLY("0|1")),
    IGNORED(ANY, "tensor_parallel.*", "null", "read with tensor_parallel.autotp_size only"),
    BARE(INT, "pipeline.stages", AUTO, "stages of pipeline parallelism; auto: none", FROM(0), ONLY("0|1"),
         .instead = "layers are divided by parallel.tensor, states by zero_optimization.stage"),
    IGNORED(ANY, "pipeline.*", "null", "read with pipeline parallelism only"),
    IGNORED(ANY, "compile.*", "null", "kernels are compiled already"),
    IGNORED(BOOL, "graph_harvesting", "false", "about CUDA graphs"),
    IGNORED(ANY, "comms_logger.*", "null", "traffic is in run.json and in zr plan"),
    IGNORED(ANY, "timers.*", "null", "times are in metrics.jsonl"),
    SECTION_OFF("autotuning", "search for a configuration"),
};

const zr_key *const zr__keys_end = zr__keys + sizeof(zr__keys) / sizeof(zr__keys[0]);

_Static_assert(sizeof(zr__keys) / sizeof(zr__keys[0]) <= ZR_CONFIG_MAX_KEYS, "zr_config_state.origin is too small");

const zr_key *zr_config_keys(int *n)
{
    *n = (int)(zr__keys_end - zr__keys);
    return zr__keys;
}
