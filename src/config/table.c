/* The table of keys, from which help, docs/config.md, defaults and errors are made. */
#include "config/internal.h"

#define FIELD(f) .offset = offsetof(zr_config, f)
#define NO_FIELD .offset = SIZE_MAX
#define ALL .state = ZR_KEY_BUILT
#define ONLY(values) .state = ZR_KEY_LIMITED, .built = values
#define UNUSED .state = ZR_KEY_NO_MEANING, NO_FIELD
#define FROM(lo) .min = lo, .max = ZR_CONFIG_MAX_INT
#define RANGE(lo, hi) .min = lo, .max = hi
#define ANY_NUMBER .min = 0, .max = 3.4e38 /* updates are made in fp32 */

#define ADAMS (1u << ZR_OPTIMIZER_ADAMW | 1u << ZR_OPTIMIZER_ADAM)
#define SGD (1u << ZR_OPTIMIZER_SGD)
#define WARMUP (1u << ZR_SCHEDULER_WARMUP)
#define DECAY (1u << ZR_SCHEDULER_WARMUP_DECAY)
#define COSINE (1u << ZR_SCHEDULER_WARMUP_COSINE)

/* clang-format off */
#define BOOL(p, d, ...) {.path = p, .type = ZR_KEY_BOOL, .standard = d, __VA_ARGS__}
#define SWITCH(p, d, ...) {.path = p, .type = ZR_KEY_SWITCH, .standard = d, __VA_ARGS__}
#define INT(p, d, ...) {.path = p, .type = ZR_KEY_INT, .standard = d, __VA_ARGS__}
#define NUMBER(p, d, ...) {.path = p, .type = ZR_KEY_NUMBER, .standard = d, __VA_ARGS__}
#define NAMES(p, ...) {.path = p, .type = ZR_KEY_NAMES, .standard = "null", __VA_ARGS__}
#define PATHS(p, ...) {.path = p, .type = ZR_KEY_PATHS, .standard = "null", __VA_ARGS__}
#define STRING(p, d, ...) {.path = p, .type = ZR_KEY_STRING, .standard = d, __VA_ARGS__}
#define CHOICE(p, c, d, ...) {.path = p, .type = ZR_KEY_CHOICE, .choices = c, .standard = d, __VA_ARGS__}
#define EITHER(p, c, d, ...) {.path = p, .type = ZR_KEY_EITHER, .choices = c, .standard = d, __VA_ARGS__}
#define PAIR(p, d, ...) {.path = p, .type = ZR_KEY_PAIR, .standard = d, __VA_ARGS__}
#define BYTES(p, d, ...) {.path = p, .type = ZR_KEY_BYTES, .standard = d, __VA_ARGS__}
#define ANY(p, ...) {.path = p, .type = ZR_KEY_ANY, .standard = "null", __VA_ARGS__}
/* clang-format on */

#define AUTO "\"auto\""
#define ZERO "zero_optimization."

static const zr_key table[] = {
    STRING("model.type", "\"gpt2\"", .choices = "gpt2|bert|llama", FIELD(model.type), ONLY("gpt2"),
           .help = "kind of model"),
    STRING("model.preset", "null", FIELD(model.preset), ALL,
           .help =
               "a named shape, such as gpt2-124m: gives every size. Where neither optimizer nor scheduler is given, "
               "zr train, plan and simulate take a recipe for that size: a warm-up, a cosine, clipping, GPT-3's "
               "learning rate"),
    STRING("model.init", "null", FIELD(model.init), ALL,
           .help = "directory with config.json and model.safetensors to start from: gives every size"),
    NAMES("model.frozen", FIELD(model.frozen), ALL,
          .help =
              "parameters that do not train, by patterns of their names as `zr inspect` shows them, with or without "
              "the first part (`transformer.`): such as `wte.*`, `h.[0-3].*`, `*.attn.*`. They keep their bits and "
              "take no gradient, no states of the optimizer and no traffic for them"),
    INT("model.n_layer", AUTO, FIELD(model.sizes.n_layer), FROM(1), ALL, .help = "transformer blocks; auto: 12"),
    INT("model.n_head", AUTO, FIELD(model.sizes.n_head), FROM(1), ALL,
        .help = "attention heads, a divisor of n_embd; auto: 12"),
    INT("model.n_embd", AUTO, FIELD(model.sizes.n_embd), FROM(1), ALL, .help = "width; auto: 768"),
    INT("model.n_positions", AUTO, FIELD(model.sizes.n_positions), FROM(1), ALL,
        .help = "longest sequence; auto: 1024"),
    INT("model.vocab_size", AUTO, FIELD(model.sizes.vocab_size), FROM(1), ALL,
        .help = "tokens, those of data.tokenizer or more; auto: as many as it has, without one 50257"),
    NUMBER("model.dropout", "0.0", FIELD(model.dropout), RANGE(0, 0.999), ALL,
           .help = "probability of all three dropouts"),
    NUMBER("model.embd_pdrop", AUTO, FIELD(model.embd_pdrop), RANGE(0, 0.999), ALL,
           .help = "dropout after the embedding; auto: model.dropout"),
    NUMBER("model.resid_pdrop", AUTO, FIELD(model.resid_pdrop), RANGE(0, 0.999), ALL,
           .help = "dropout before each residual addition; auto: model.dropout"),
    NUMBER("model.attn_pdrop", AUTO, FIELD(model.attn_pdrop), RANGE(0, 0.999), ALL,
           .help = "dropout of attention weights; auto: model.dropout"),
    NUMBER("model.layer_norm_epsilon", "1e-5", FIELD(model.layer_norm_epsilon), RANGE(1e-12, 1), ALL,
           .help = "added to the variance in layer norms"),
    NUMBER("model.initializer_range", "0.02", FIELD(model.initializer_range), RANGE(0, 10), ALL,
           .help = "standard deviation of initial weights"),
    STRING("model.activation_function", "\"gelu_new\"", .choices = "gelu_new|gelu|relu|silu|tanh", NO_FIELD,
           ONLY("gelu_new"), .help = "activation function of the feed-forward part"),

    PATHS("data.train", FIELD(data.train), ALL,
          .help = "text, .jsonl, or tokens (nanoGPT's .bin, llm.c's .bin, Megatron's .bin and .idx); patterns such as "
                  "train_*.bin and lists are read as one text, sources with weights are mixed"),
    PATHS("data.val", FIELD(data.val), ALL, .help = "the same without weights, for evaluation"),
    STRING("data.tokenizer", "null", FIELD(data.tokenizer), ALL,
           .help =
               "how text becomes tokens: bytes, or a directory with a tokenizer's files; null: bytes for text, none "
               "for token files"),
    INT("data.seq_length", AUTO, FIELD(data.seq_length), FROM(1), ALL,
        .help = "tokens of a sample; auto: model.n_positions"),
    CHOICE("data.order", "shuffled|sequential", "\"shuffled\"", FIELD(data.order), ALL,
           .help = "shuffled: each pass over the file in an order of its own; sequential: as in the file"),
    STRING("data.text_key", "\"text\"", FIELD(data.text_key), ALL,
           .help = "the member of each line of a .jsonl file that is its text"),
    EITHER(
        "data.bad_lines", "error|skip", "\"error\"", FIELD(data.skip_bad_lines), ALL,
        .help =
            "lines of a .jsonl file without such a text: error ends the run, skip leaves them out and says how many"),
    STRING("data.cache_dir", "null", FIELD(data.cache_dir), ALL,
           .help =
               "folder in which the tokens of texts are kept; null: zr/tokens in the user's cache ($XDG_CACHE_HOME)"),

    CHOICE("device", "auto|cpu|cuda", "\"auto\"", FIELD(device), ALL,
           .help =
               "what ranks compute on. cpu: the processor; cuda: GPUs of NVIDIA, the ranks of a host in turn on each; "
               "auto: GPUs where there are any"),

    INT("parallel.tensor", "1", FIELD(parallel.tensor), FROM(1), ALL,
        .help = "degree of tensor parallelism: so many neighbouring ranks share each layer, and divide the heads; the "
                "others of all ranks are data-parallel"),
    CHOICE("parallel.sequence", "off|keep|regather", "\"off\"", FIELD(parallel.sequence), ALL,
           .help = "with parallel.tensor above 1: between layers each rank has its own tokens, so that norms, dropout "
                   "and residuals are computed and kept once for all of them (sequence parallelism). What is gathered "
                   "before a product is kept for the backward pass (keep) or gathered again (regather); with a policy "
                   "of activation_checkpointing but none always again"),
    INT("parallel.ranks_per_host", AUTO, FIELD(parallel.ranks_per_host), FROM(1), ALL,
        .help = "ranks of a host, consecutive. auto: as the transport finds them, in a plan all; a number pretends "
                "hosts, for plans and tests"),

    CHOICE("memory.layout", "lean|paper", "\"lean\"", FIELD(memory.layout), ALL,
           .help = "which model states stay in memory; losses are the same to the bit. lean: what exact Adam needs, 12 "
                   "bytes a parameter at stage 3; paper: 2 + 2 + 12 bytes, as the ZeRO papers count"),
    CHOICE("memory.norm", "one_pass|two_pass", "\"one_pass\"", FIELD(memory.norm), ALL,
           .help = "for layout lean with one micro-batch a step: how the gradient's norm is found before the first "
                   "update. one_pass: by keeping the whole gradient, where clipping or fp16 asks for the norm; "
                   "elsewhere it is not found first, and a gradient that is not finite ends the run. two_pass: by "
                   "running the backward pass twice; no gradient is kept, and such a step is skipped"),
    BYTES("memory.limit", "null", FIELD(memory.limit_bytes), FROM(1), ALL,
          .help = "memory limit of a rank, as 2GB: of its process, or with a GPU of the GPU. 1.03 x the plan's total + "
                  "50.33 MB (for the program and its libraries), on a GPU the total + 1.07 GB, must stay within it, or "
                  "nothing starts"),

    INT("train.steps", "1000", FIELD(train.steps), FROM(1), ALL, .help = "optimizer steps"),
    INT("train.seed", "1234", FIELD(train.seed), FROM(0), ALL,
        .help = "seed of all random numbers: initial weights, dropout, order of the samples"),
    INT("train.eval_interval", "100", FIELD(train.eval_interval), FROM(0), ALL,
        .help = "steps between evaluations; 0: none"),
    INT("train.eval_batches", "20", FIELD(train.eval_batches), FROM(0), ALL,
        .help = "batches of an evaluation; 0: all of data.val"),
    INT("train.sample_tokens", "0", FIELD(train.sample_tokens), RANGE(0, 1024), ALL,
        .help = "tokens of a text that the model writes every train.eval_interval steps and at the end, into "
                "metrics.jsonl; zr report shows them. 0: none"),
    STRING("train.sample_prompt", "null", FIELD(train.sample_prompt), ALL,
           .help = "what such a text goes on from; null: from the end of a text"),
    STRING("train.output_dir", "null", FIELD(train.output_dir), ALL,
           .help = "directory of the run, which must not hold another; null: a new one, runs/<model>-<time>"),
    STRING("train.started_in", "null", FIELD(train.started_in), ALL,
           .help = "directory that relative paths are from; a run writes it into its own config.json"),
    INT("train.threads", AUTO, FIELD(train.threads), RANGE(1, 4096), ALL,
        .help = "compute threads of a rank; auto: cores / ranks of the host"),
    INT("train.hang_timeout", AUTO, FIELD(train.hang_timeout), RANGE(1, 1e9), ALL,
        .help = "seconds after which a rank that has not moved ends the run (82); auto: 60, or 10 times the slowest of "
                "the last steps if that is more. Twice as many in an evaluation, five times in start and saving"),
    INT("train.save_interval", "0", FIELD(train.save_interval), FROM(0), ALL,
        .help = "steps between checkpoints; 0: only of the last step, and of the one after which a run was asked to "
                "stop"),
    BOOL("train.save_end", "true", FIELD(train.save_end), ALL,
         .help = "write a checkpoint of the last step, so that the run can be trained longer; where the disk has no "
                 "room for it, the weights alone. false: only where train.save_interval is above 0"),
    INT("train.keep_last", "2", FIELD(train.keep_last), FROM(1), ALL,
        .help = "the newest checkpoints, which are kept; older ones are removed"),
    BOOL("train.keep_best", "false", FIELD(train.keep_best), ALL,
         .help =
             "keep the weights of the evaluation with the lowest val_loss, as a Hugging Face directory: best/ in the "
             "run's directory. Wants data.val and an eval_interval"),
    EITHER("train.reproducible", "layout|world", "\"layout\"", FIELD(train.rank_free_sums), ALL,
           .help = "which runs give the same bits. layout: all stages, buckets, layouts and transports on the same "
                   "number of ranks; world: also on 1, 2, 4, 8 ... ranks, at some cost in time and memory"),
    BOOL("train.gradient_noise_scale", "false", FIELD(train.noise_scale), ALL,
         .help = "measure the gradient noise scale (McCandlish et al. 2018), the batch up to which a larger one pays, "
                 "from the norms of each micro-batch's own gradient: noise_scale_tokens in metrics.jsonl. Reads each "
                 "gradient once more; wants two micro-batches a step, over ranks and accumulation together"),
    BOOL("train.tensorboard", "false", FIELD(train.tensorboard), ALL,
         .help = "write the numbers of metrics.jsonl into an event file for TensorBoard too, events.out.tfevents.* in "
                 "train.output_dir: train/loss, val/loss, train/lr ... over steps"),

    INT("train_batch_size", AUTO, FIELD(train_batch_size), FROM(1), ALL,
        .help =
            "samples of a step = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks"),
    INT("train_micro_batch_size_per_gpu", AUTO, FIELD(micro_batch_size), FROM(1), ALL,
        .help = "samples of a micro-batch on one rank; 1 when none of the three is given"),
    INT("gradient_accumulation_steps", AUTO, FIELD(accumulation_steps), FROM(1), ALL,
        .help = "micro-batches of a step; 1 when only train_batch_size is given. Where this and "
                "train_micro_batch_size_per_gpu are the word \"auto\", with train_batch_size, "
                "activation_checkpointing.policy auto and a memory.limit, both are chosen so that a step is the "
                "fastest that fits"),

    CHOICE("optimizer.type", "AdamW|Adam|SGD|Lamb|Lion|Adagrad|Muon|OneBitAdam|OneBitLamb|ZeroOneAdam", "\"AdamW\"",
           FIELD(optimizer.type), ONLY("AdamW|Adam|SGD"), .help = "update rule; FusedAdam is taken as Adam"),
    NUMBER("optimizer.params.lr", "0.001", FIELD(optimizer.lr), ANY_NUMBER, ALL, .help = "learning rate"),
    PAIR("optimizer.params.betas", "[0.9, 0.999]", FIELD(optimizer.betas), ALL, .only = ADAMS,
         .help = "decay of the two moments"),
    NUMBER("optimizer.params.eps", "1e-8", FIELD(optimizer.eps), RANGE(0, 1), ALL, .only = ADAMS,
           .help = "added to the root of the second moment"),
    NUMBER("optimizer.params.weight_decay", "0.0", FIELD(optimizer.weight_decay), ANY_NUMBER, ALL,
           .help = "weight decay, of tensors with two and more dimensions"),
    BOOL("optimizer.params.adam_w_mode", "true", FIELD(optimizer.adam_w_mode), ALL, .only = ADAMS,
         .help = "decoupled weight decay; false, with Adam: an L2 term"),
    NUMBER("optimizer.params.momentum", "0.0", FIELD(optimizer.momentum), RANGE(0, 1), ALL, .only = SGD,
           .help = "SGD's momentum"),
    BOOL("optimizer.params.nesterov", "false", FIELD(optimizer.nesterov), ALL, .only = SGD,
         .help = "Nesterov's momentum"),
    NUMBER("optimizer.params.dampening", "0", NO_FIELD, RANGE(0, 1), ONLY("0"), .only = SGD,
           .help = "dampening of SGD's momentum"),
    BOOL("optimizer.params.bias_correction", "true", NO_FIELD, ONLY("true"), .only = ADAMS,
         .help = "moments divided by 1 - beta^t"),
    BOOL("optimizer.params.amsgrad", "false", NO_FIELD, ONLY("false"), .only = ADAMS,
         .help = "divide by the largest second moment so far"),
    BOOL("optimizer.params.torch_adam", "false", UNUSED, .only = ADAMS, .help = "there is one implementation"),
    BOOL("optimizer.params.fused", "true", UNUSED, .help = "the update is always one pass"),
    BOOL("optimizer.legacy_fusion", "false", UNUSED, .help = "the update is always one pass"),

    CHOICE("scheduler.type", "none|WarmupLR|WarmupDecayLR|WarmupCosineLR|LRRangeTest|OneCycle", "\"none\"",
           FIELD(scheduler.type), ONLY("none|WarmupLR|WarmupDecayLR|WarmupCosineLR"),
           .help = "learning rate over steps"),
    NUMBER("scheduler.params.warmup_min_lr", "0.0", FIELD(scheduler.warmup_min_lr), ANY_NUMBER, ALL,
           .only = WARMUP | DECAY, .help = "where the warm-up starts"),
    NUMBER("scheduler.params.warmup_max_lr", "0.001", FIELD(scheduler.warmup_max_lr), ANY_NUMBER, ALL,
           .only = WARMUP | DECAY, .help = "where the warm-up ends"),
    INT("scheduler.params.warmup_num_steps", "1000", FIELD(scheduler.warmup_num_steps), FROM(0), ALL,
        .only = WARMUP | DECAY | COSINE, .help = "steps of warm-up"),
    CHOICE("scheduler.params.warmup_type", "log|linear", "\"log\"", FIELD(scheduler.warmup_type), ALL,
           .only = WARMUP | DECAY | COSINE, .help = "shape of the warm-up"),
    INT("scheduler.params.total_num_steps", AUTO, FIELD(scheduler.total_num_steps), FROM(1), ALL,
        .only = DECAY | COSINE, .help = "step at which the rate is lowest; auto: train.steps"),
    NUMBER("scheduler.params.warmup_min_ratio", "0.0", FIELD(scheduler.warmup_min_ratio), RANGE(0, 1), ALL,
           .only = COSINE, .help = "start of the warm-up, of optimizer.params.lr"),
    NUMBER("scheduler.params.cos_min_ratio", "0.0001", FIELD(scheduler.cos_min_ratio), RANGE(0, 1), ALL, .only = COSINE,
           .help = "end of the cosine, of optimizer.params.lr"),

    NUMBER("gradient_clipping", "0.0", FIELD(gradient_clipping), ANY_NUMBER, ALL,
           .help = "largest global norm of the gradient; 0: no clipping"),
    EITHER("gradient_reduction", "micro|step", "\"micro\"", FIELD(reduce_once), ALL,
           .help = "when gradients are added over ranks. micro: after every micro-batch; step: once a step, in fp32, "
                   "which moves fewer bytes from three micro-batches a step on (in fp32 from two). At every stage each "
                   "rank then keeps the whole gradient in fp32. Sums are in another order: losses differ in their last "
                   "digits"),
    BOOL("prescale_gradients", "false", NO_FIELD, ONLY("false"), .help = "divide before the sum"),
    NUMBER("gradient_predivide_factor", "1", NO_FIELD, ANY_NUMBER, ONLY("1"), .help = "divisor before the sum"),
    BOOL("sparse_gradients", "false", NO_FIELD, ONLY("false"), .help = "sparse gradients of embeddings"),

    BOOL("bf16.enabled", "false", FIELD(bf16), ALL,
         .help = "parameters and activations in bf16, with an fp32 master; otherwise fp32"),
    BOOL("bf16.immediate_grad_update", "true", UNUSED, .help = "gradients are always reduced as they come"),
    BOOL("bf16.check_grad_overflow", "false", UNUSED, .help = "a gradient that is not finite always skips the step"),
    BOOL("bf16.bf16_master_weights_and_grads", "false", NO_FIELD, ONLY("false"), .help = "no fp32 master"),
    BOOL("bf16.bf16_optimizer_states", "false", NO_FIELD, ONLY("false"), .help = "moments in bf16"),
    BOOL("fp16.enabled", "false", FIELD(fp16), ALL,
         .help = "parameters and activations in fp16, with an fp32 master and a scaled loss; not beside bf16.enabled"),
    BOOL("fp16.auto_cast", "false", NO_FIELD, ONLY("false"), .help = "inputs are cast to fp16"),
    NUMBER("fp16.loss_scale", "0", FIELD(scale.loss_scale), RANGE(0, 1e38), ALL,
           .help = "the loss times this; 0: a dynamic scale"),
    INT("fp16.initial_scale_power", "16", FIELD(scale.initial_scale_power), RANGE(0, 126), ALL,
        .help = "the dynamic scale starts at 2 to this power"),
    INT("fp16.loss_scale_window", "1000", FIELD(scale.loss_scale_window), FROM(1), ALL,
        .help = "so many steps without an overflow double the dynamic scale"),
    INT("fp16.hysteresis", "2", FIELD(scale.hysteresis), FROM(1), ALL,
        .help = "the dynamic scale is first halved at this overflow; 2: at the second"),
    BOOL("fp16.consecutive_hysteresis", "false", FIELD(scale.consecutive_hysteresis), ALL,
         .help = "each step without an overflow restores the hysteresis; otherwise only one that doubles the scale"),
    NUMBER("fp16.min_loss_scale", "1", FIELD(scale.min_loss_scale), RANGE(1e-6, 1e38), ALL,
           .help = "the dynamic scale does not fall below"),
    BOOL("fp16.fp16_master_weights_and_grads", "false", NO_FIELD, ONLY("false"), .help = "no fp32 master"),
    BOOL("amp.enabled", "false", NO_FIELD, ONLY("false"), .help = "NVIDIA Apex"),
    ANY("amp.*", UNUSED, .help = "read with amp.enabled only"),
    CHOICE("communication_data_type", "auto|fp32|bf16|fp16", AUTO, FIELD(communication_dtype), ALL,
           .help = "gradients on the wire: fp32, or the 16-bit type that is enabled; auto: that type, else fp32"),
    CHOICE("seq_parallel_communication_data_type", "auto|fp32|bf16|fp16", AUTO, UNUSED,
           .help = "sequences are not split over ranks"),
    CHOICE("data_types.grad_accum_dtype", "auto|fp32|bf16|fp16", AUTO, FIELD(grad_accum_dtype), ONLY("auto|fp32"),
           .help = "sums over micro-batches; auto: fp32"),

    INT(ZERO "stage", "0", FIELD(zero.stage), RANGE(0, 3), ALL,
        .help = "0: nothing is sharded; 1: optimizer states; 2: gradients too; 3: parameters too"),
    INT(ZERO "reduce_bucket_size", "16777216", FIELD(zero.reduce_bucket_elems), FROM(1), ALL,
        .help = "elements of one gradient exchange; not read with collectives.buffer fused"),
    INT(ZERO "allgather_bucket_size", "16777216", FIELD(zero.allgather_bucket_elems), FROM(1), ALL,
        .help = "elements of one parameter gather; not read with collectives.buffer fused"),
    SWITCH(ZERO "overlap_comm", AUTO, FIELD(zero.overlap_comm), ALL,
           .help = "communication beside computation: a unit is reduced while the next one computes; auto: true"),
    INT(ZERO "stage3_prefetch_bucket_size", "50000000", FIELD(zero.prefetch_bucket_elems), FROM(0), ALL,
        .help = "stage 3 with overlap_comm: units are gathered ahead until so many elements are on their way; 0: none"),
    INT(ZERO "stage3_param_persistence_threshold", "0", FIELD(zero.persistence_elems), FROM(0), ALL,
        .help = "stage 3: a unit whose parameters all have fewer elements stays whole"),
    INT(ZERO "stage3_model_persistence_threshold", AUTO, FIELD(zero.model_persistence_elems), FROM(1), ALL,
        .help = "stage 3: most elements of units that stay whole; auto: any"),
    INT(ZERO "stage3_max_live_parameters", AUTO, FIELD(zero.max_live_elems), FROM(1), ALL,
        .help = "stage 3: no unit is gathered ahead beyond so many whole elements; auto: two units"),
    INT(ZERO "stage3_max_reuse_distance", "0", FIELD(zero.max_reuse_elems), FROM(0), ALL,
        .help = "stage 3: a unit stays whole when it is used again within so many elements of others"),
    BOOL(ZERO "stage3_gather_16bit_weights_on_model_save", "true", UNUSED,
         .help = "the final weights are always whole"),
    BOOL(ZERO "stage3_gather_fp16_weights_on_model_save", "true", UNUSED,
         .help = "old name of stage3_gather_16bit_weights_on_model_save"),
    BOOL(ZERO "stage3_allgather_sequential", "false", UNUSED, .help = "a unit is gathered where it is used"),
    INT(ZERO "stage3_partition_stream_chunk_size", "0", UNUSED, FROM(0), .help = "shards are set where they live"),
    BOOL(ZERO "stage3_use_all_reduce_for_fetch_params", "false", UNUSED, .help = "parameters are gathered"),
    INT(ZERO "stage3_module_granularity_threshold", "0", UNUSED, FROM(0), .help = "a unit is a transformer block"),
    INT(ZERO "sub_group_size", "1000000000", UNUSED, FROM(1), .help = "the update takes shards in constant memory"),
    BOOL(ZERO "contiguous_gradients", "true", UNUSED, .help = "gradients are always contiguous"),
    BOOL(ZERO "reduce_scatter", "true", UNUSED, .help = "gradients are always reduced by their owner"),
    BOOL(ZERO "allgather_partitions", "true", UNUSED, .help = "parameters are always gathered"),
    BOOL(ZERO "use_multi_rank_bucket_allreduce", "true", UNUSED, .help = "a bucket holds a part of every rank's shard"),
    BOOL(ZERO "round_robin_gradients", "false", UNUSED, .help = "a bucket holds a part of every rank's shard"),
    BOOL(ZERO "ignore_unused_parameters", "true", UNUSED, .help = "unused parameters have gradient 0"),
    BOOL(ZERO "legacy_stage1", "false", UNUSED, .help = "there is one stage 1"),
    BOOL(ZERO "elastic_checkpoint", "false", UNUSED, .help = "about DeepSpeed's checkpoints"),
    BOOL(ZERO "load_from_fp32_weights", "true", UNUSED, .help = "masters are always loaded in fp32"),
    BOOL(ZERO "memory_efficient_linear", "true", UNUSED, .help = "no weight is kept by the backward pass"),
    BOOL(ZERO "override_module_apply", "true", UNUSED, .help = "about PyTorch modules"),
    BOOL(ZERO "log_trace_cache_warnings", "false", UNUSED, .help = "there is no trace"),
    BOOL(ZERO "enable_sanity_checks", "false", UNUSED, .help = "plans are checked by the tests and in debug builds"),
    BOOL(ZERO "pipeline_loading_checkpoint", "false", UNUSED, .help = "about DeepSpeed's checkpoints"),
    CHOICE(ZERO "offload_optimizer.device", "none|cpu|nvme", "\"none\"", NO_FIELD, ONLY("none"),
           .instead = "for less memory: a higher stage, activation_checkpointing.policy unit, more ranks",
           .help = "where optimizer states live"),
    ANY(ZERO "offload_optimizer.*", UNUSED, .help = "read with a device other than none only"),
    CHOICE(ZERO "offload_param.device", "none|cpu|nvme", "\"none\"", NO_FIELD, ONLY("none"),
           .instead = "for less memory: a higher stage, activation_checkpointing.policy unit, more ranks",
           .help = "where parameter shards live"),
    ANY(ZERO "offload_param.*", UNUSED, .help = "read with a device other than none only"),
    BOOL(ZERO "cpu_offload", "false", NO_FIELD, ONLY("false"),
         .instead = "for less memory: a higher stage, activation_checkpointing.policy unit, more ranks",
         .help = "old name of offload_optimizer"),
    BOOL(ZERO "cpu_offload_param", "false", NO_FIELD, ONLY("false"),
         .instead = "for less memory: a higher stage, activation_checkpointing.policy unit, more ranks",
         .help = "old name of offload_param"),
    BOOL(ZERO "cpu_offload_use_pin_memory", "false", UNUSED, .help = "read with an offload only"),
    INT(ZERO "zero_hpz_partition_size", "1", FIELD(zero.hpz_partition_ranks), FROM(1), ALL,
        .help =
            "ZeRO++'s hpZ, at stage 3: a second copy of the parameters, sharded over so many neighbouring "
            "data-parallel ranks (those of a host), from which a step gathers after its first gather. A power of two"),
    BOOL(ZERO "zero_quantized_weights", "false", NO_FIELD, ONLY("false"), .help = "ZeRO++: quantized gathers"),
    BOOL(ZERO "zero_quantized_nontrainable_weights", "false", NO_FIELD, ONLY("false"),
         .help = "ZeRO++: quantized gathers"),
    BOOL(ZERO "zero_quantized_gradients", "false", NO_FIELD, ONLY("false"), .help = "ZeRO++: quantized exchange"),
    ANY(ZERO "zeropp_loco_param.*", UNUSED, .help = "read with zero_quantized_gradients only"),
    INT(ZERO "mics_shard_size", "-1", FIELD(zero.mics_shard_ranks), .min = -1, .max = ZR_CONFIG_MAX_INT, ALL,
        .help =
            "MiCS, hybrid sharding: states are sharded over so many neighbouring data-parallel ranks and replicated "
            "across. A power of two; -1: over all"),
    BOOL(ZERO "mics_hierarchical_params_gather", "false", NO_FIELD, ONLY("false"), .help = "MiCS: gather in two steps"),

    CHOICE(
        "activation_checkpointing.policy", "none|unit|selective|auto|paper", "\"none\"", FIELD(recompute.policy), ALL,
        .help =
            "which activations are computed again in the backward pass instead of being kept. none: norms and "
            "GELU only, which cost little; selective: attention and what is wider than the model too; unit: "
            "everything but the input of each transformer block; auto: as few as fit memory.limit, or without "
            "it the memory that the host has left, and with parallel.tensor above 1 their checkpoints whole, as Pa or "
            "as Pa+cpu, whichever is faster; paper, for comparison: as unit, and also what nothing needs, "
            "as the papers count it"),
    INT("activation_checkpointing.every", "1", FIELD(recompute.every), FROM(1), ALL,
        .help = "policy unit: of so many blocks in a row only the input of the first is kept"),
    BOOL("activation_checkpointing.partition_activations", "false", FIELD(recompute.partition), ALL,
         .help = "with a policy but none: of what is kept of the forward pass each of the parallel.tensor ranks keeps "
                 "its piece, and all pieces are gathered before the backward pass needs them (ZeRO-R's Pa)"),
    BOOL("activation_checkpointing.cpu_checkpointing", "false", FIELD(recompute.cpu), ALL,
         .help = "with a policy but none: what is kept of the forward pass is copied to memory of the host until the "
                 "backward pass (with partition_activations: Pa+cpu). On processors that is the same memory, and `zr "
                 "plan` shows what a device would keep"),
    CHOICE("activation_checkpointing.offload", "none|host|disk", "\"none\"", FIELD(recompute.offload),
           ONLY("none|host"), .help = "host: the same as cpu_checkpointing"),
    BOOL("activation_checkpointing.contiguous_memory_optimization", "false", UNUSED,
         .help = "memory is planned, never fragmented"),
    INT("activation_checkpointing.number_checkpoints", "null", UNUSED, FROM(1), .help = "follows from the model"),
    BOOL("activation_checkpointing.synchronize_checkpoint_boundary", "false", UNUSED, .help = "about CUDA streams"),
    BOOL("activation_checkpointing.profile", "false", UNUSED, .help = "times are in metrics.jsonl"),

    CHOICE(
        "collectives.reduce", "reduce_scatter|all_reduce|owner|nccl", "\"reduce_scatter\"", FIELD(collectives.reduce),
        ALL,
        .help =
            "how gradients are summed. reduce_scatter is meant for training, the others for comparison. all_reduce, at "
            "stages 0 and 1: every rank receives every sum; owner: one reduction after the other, each to its owner; "
            "nccl: NCCL's own reduce-scatter, a whole unit in one, between processes on GPUs with device cuda. NCCL "
            "adds in the type in which gradients travel and in an order that it chooses, so the bits are not promised"),
    CHOICE("collectives.gather", "all_gather|broadcast", "\"all_gather\"", FIELD(collectives.gather), ALL,
           .help = "how parameters are gathered. broadcast, for comparison: one after the other, each from its owner"),
    SWITCH("collectives.hierarchical", AUTO, FIELD(collectives.hierarchical), ALL,
           .help =
               "gathers and reductions first within a host, then across, where partial sums travel in fp32. auto: "
               "where there are several hosts with the same number of ranks, a power of two, and parallel.tensor is 1"),
    EITHER("collectives.buffer", "constant|fused", "\"constant\"", FIELD(collectives.fused), ALL,
           .help = "staging memory of exchanges. fused, for comparison: one buffer as large as the model"),

    INT("steps_per_print", "10", FIELD(steps_per_print), FROM(1), ALL, .help = "steps between progress lines"),
    BOOL("wall_clock_breakdown", "false", UNUSED, .help = "times are in metrics.jsonl"),
    BOOL("memory_breakdown", "false", UNUSED, .help = "memory is in run.json"),
    BOOL("dump_state", "false", UNUSED, .help = "the resolved configuration is always saved"),
    BOOL("disable_allgather", "false", UNUSED, .help = "parameters are always gathered"),
    BOOL("dataloader_drop_last", "false", UNUSED, .help = "every batch is full"),
    BOOL("zero_allow_untested_optimizer", "false", UNUSED, .help = "every optimizer works at every stage"),
    BOOL("zero_force_ds_cpu_optimizer", "true", UNUSED, .help = "there is one implementation"),
    ANY("aio.*", UNUSED, .help = "read with an NVMe device only"),
    SWITCH("checkpoint.async", AUTO, FIELD(checkpoint.async), ALL,
           .help =
               "checkpoints of train.save_interval are written behind the next steps: from where the states are, with "
               "updates that wait for what is not written yet, or, where memory.limit is given and has room, from a "
               "copy in memory of the host. auto: true. false: training waits for each"),
    INT("checkpoint.every", "0", FIELD(checkpoint.every), FROM(0), ALL,
        .help = "checkpoints of steps that are multiples of it are never removed; 0: none"),
    ANY("checkpoint.*", UNUSED, .help = "checkpoints do not depend on the layout"),
    BOOL("flops_profiler.enabled", "false", UNUSED, .help = "zr plan prints FLOPs"),
    ANY("flops_profiler.*", UNUSED, .help = "zr plan prints FLOPs"),
    BOOL("tensorboard.enabled", "false", NO_FIELD, ONLY("false"),
         .instead = "train.tensorboard writes event files into train.output_dir",
         .help = "DeepSpeed's train.tensorboard, which also names a place"),
    ANY("tensorboard.*", UNUSED, .help = "read with tensorboard.enabled only"),
    BOOL("comet.enabled", "false", NO_FIELD, ONLY("false"), .instead = "the curves are in metrics.jsonl and loss.svg",
         .help = "metrics.jsonl holds the curves"),
    ANY("comet.*", UNUSED, .help = "metrics.jsonl holds the curves"),
    BOOL("wandb.enabled", "false", NO_FIELD, ONLY("false"), .instead = "the curves are in metrics.jsonl and loss.svg",
         .help = "metrics.jsonl holds the curves"),
    ANY("wandb.*", UNUSED, .help = "metrics.jsonl holds the curves"),
    BOOL("csv_monitor.enabled", "false", NO_FIELD, ONLY("false"),
         .instead = "the curves are in metrics.jsonl and loss.svg", .help = "metrics.jsonl holds the curves"),
    ANY("csv_monitor.*", UNUSED, .help = "metrics.jsonl holds the curves"),
    BOOL("elasticity.enabled", "false", NO_FIELD, ONLY("false"), .instead = "give the batch sizes themselves",
         .help = "batch sizes for many world sizes"),
    ANY("elasticity.*", UNUSED, .help = "read with elasticity.enabled only"),
    BOOL("curriculum_learning.enabled", "false", NO_FIELD, ONLY("false"), .help = "growing sequence length"),
    ANY("curriculum_learning.*", UNUSED, .help = "read with curriculum_learning.enabled only"),
    BOOL("data_efficiency.enabled", "false", NO_FIELD, ONLY("false"), .help = "sampling and routing of data"),
    ANY("data_efficiency.*", UNUSED, .help = "read with data_efficiency.enabled only"),
    BOOL("progressive_layer_drop.enabled", "false", NO_FIELD, ONLY("false"), .help = "layers left out at random"),
    ANY("progressive_layer_drop.*", UNUSED, .help = "read with progressive_layer_drop.enabled only"),
    BOOL("eigenvalue.enabled", "false", NO_FIELD, ONLY("false"), .help = "eigenvalues of layers"),
    ANY("eigenvalue.*", UNUSED, .help = "read with eigenvalue.enabled only"),
    BOOL("hybrid_engine.enabled", "false", NO_FIELD, ONLY("false"), .help = "training and inference by turns"),
    ANY("hybrid_engine.*", UNUSED, .help = "read with hybrid_engine.enabled only"),
    BOOL("nebula.enabled", "false", NO_FIELD, ONLY("false"), .help = "a service that keeps checkpoints"),
    ANY("nebula.*", UNUSED, .help = "read with nebula.enabled only"),
    CHOICE("sparse_attention.mode", "dense|fixed|variable|bigbird|bslongformer", "\"dense\"", NO_FIELD, ONLY("dense"),
           .help = "attention with holes"),
    INT("tensor_parallel.autotp_size", "0", NO_FIELD, FROM(0), ONLY("0|1"), .help = "DeepSpeed's parallel.tensor"),
    ANY("tensor_parallel.*", UNUSED, .help = "read with tensor_parallel.autotp_size only"),
    INT("pipeline.stages", AUTO, NO_FIELD, FROM(0), ONLY("0|1"),
        .instead = "layers are divided by parallel.tensor, states by zero_optimization.stage",
        .help = "stages of pipeline parallelism; auto: none"),
    ANY("pipeline.*", UNUSED, .help = "read with pipeline parallelism only"),
    ANY("compile.*", UNUSED, .help = "kernels are compiled already"),
    BOOL("graph_harvesting", "false", UNUSED, .help = "about CUDA graphs"),
    ANY("comms_logger.*", UNUSED, .help = "traffic is in run.json and in zr plan"),
    ANY("timers.*", UNUSED, .help = "times are in metrics.jsonl"),
    BOOL("autotuning.enabled", "false", NO_FIELD, ONLY("false"), .help = "search for a configuration"),
    ANY("autotuning.*", UNUSED, .help = "read with autotuning.enabled only"),
};

_Static_assert(sizeof(table) / sizeof(table[0]) <= ZR_CONFIG_MAX_KEYS, "zr_config_state.given is too small");

const zr_key *zr_config_keys(int *n)
{
    *n = (int)(sizeof(table) / sizeof(table[0]));
    return table;
}
