/* The table of keys that do not depend on the family of the model. Help, docs/config.md, defaults and error messages
 * are generated from it and from the fields of families. */
#include "config/internal.h"

#define ONLY(values) .state = ZR_KEY_LIMITED, .built = values
#define FROM(lo) .min = lo, .max = ZR_CONFIG_MAX_INT
#define RANGE(lo, hi) .min = lo, .max = hi
#define ANY_NUMBER .min = 0, .max = 3.4e38 /* from 0 to the maximum of fp32, in which updates are computed */

#define ADAMS (1u << ZR_OPTIMIZER_ADAMW | 1u << ZR_OPTIMIZER_ADAM | 1u << ZR_OPTIMIZER_ADAMW8BIT)
#define SGD (1u << ZR_OPTIMIZER_SGD)
#define LAMB (1u << ZR_OPTIMIZER_LAMB)
#define LARS (1u << ZR_OPTIMIZER_LARS)
#define MUON (1u << ZR_OPTIMIZER_MUON)
#define LION (1u << ZR_OPTIMIZER_LION)
#define WARMUP (1u << ZR_SCHEDULER_WARMUP)
#define DECAY (1u << ZR_SCHEDULER_WARMUP_DECAY)
#define COSINE (1u << ZR_SCHEDULER_WARMUP_COSINE)
#define EXP (1u << ZR_SCHEDULER_WARMUP_EXP)
#define POLY (1u << ZR_SCHEDULER_WARMUP_POLY)
#define CYCLE (1u << ZR_SCHEDULER_ONE_CYCLE)

#define AUTO "\"auto\""
#define ZERO "zero_optimization."
#define CURVES "metrics.jsonl holds the curves"

/* A row of the table: type, path, default, offset in zr_config, help, then other members of zr_key. Every value in the
 * range is available, unless ONLY lists the available values. */
#define ROW(t, p, d, o, ...)                                                                                           \
    {                                                                                                                  \
        .path = p, .type = ZR_KEY_##t, .standard = d, .offset = o, .help = __VA_ARGS__                                 \
    }
/* A row of a key whose value is stored in member `f` of zr_config. */
#define KEY(t, p, d, f, ...) ROW(t, p, d, offsetof(zr_config, f), __VA_ARGS__)
/* A row of a key that has no member of zr_config. */
#define BARE(t, p, d, ...) ROW(t, p, d, SIZE_MAX, __VA_ARGS__)
/* A key of DeepSpeed that has no effect here. Its help text gives the reason. */
#define IGNORED(...) BARE(__VA_ARGS__, .state = ZR_KEY_NO_MEANING)
/* A key of DeepSpeed for which only the default is available. */
#define REFUSED(t, p, d, ...) BARE(t, p, d, __VA_ARGS__, ONLY(d))
/* A section of DeepSpeed that is not available. Its key `enabled` must be false, and its other keys have no effect. */
#define SECTION_OFF(s, ...)                                                                                            \
    REFUSED(BOOL, s ".enabled", "false", __VA_ARGS__), IGNORED(ANY, s ".*", "null", "used only where enabled is true")
/* A key of fp16 that older files of DeepSpeed have in the section bf16. */
#define NO_SCALE(t, p) IGNORED(t, p, "null", "bf16 has the range of fp32 and needs no loss scale")
#define MONITOR_OFF(s)                                                                                                 \
    REFUSED(BOOL, s ".enabled", "false", CURVES, .instead = "the curves are in metrics.jsonl and loss.svg"),           \
        IGNORED(ANY, s ".*", "null", CURVES)

const zr_key zr__common_keys[] = {
    /* zr__keys_make adds the names of the available families */
    KEY(STRING, "model.type", "\"\"", model.type, "family of the model; without it, that of model.init or model.preset",
        .choices = "bert|llama", ONLY("")),
    KEY(STRING, "model.preset", "null", model.preset,
        "named model shape, such as gpt2-124m, which sets all sizes. What is not given of optimizer and scheduler "
        "comes from a recipe for that size"),
    KEY(STRING, "model.init", "null", model.init,
        "directory with config.json and model.safetensors whose weights training starts from; it sets all sizes and "
        "dropout. What is not given of optimizer and scheduler comes from a recipe for fine-tuning"),
    KEY(NAMES, "model.frozen", "null", model.frozen,
        "parameters that are not trained, such as `h.[0-3].*` (`zr inspect` shows names). They need no gradient, "
        "optimizer states or gradient traffic"),
    KEY(INT, "model.lora.rank", "0", model.lora.rank,
        "rank of low-rank adapters (LoRA). Above 0 only the adapters are trained, and the weights of the run are an "
        "adapter directory of peft; 0: no adapters",
        RANGE(0, 2147483647)),
    KEY(NUMBER, "model.lora.alpha", "8.0", model.lora.alpha,
        "factor of the adapters times model.lora.rank: a layer adds alpha / rank x dropout(x) A^T B^T", ANY_NUMBER),
    KEY(NAMES, "model.lora.targets", "null", model.lora.targets,
        "linear layers with an adapter; a pattern may match the end of a name, such as `q_proj` or `mlp.*`; null: all "
        "linear layers of the blocks"),
    KEY(NUMBER, "model.lora.dropout", "0.0", model.lora.dropout,
        "dropout probability of the input of an adapter, below 1", RANGE(0, 1)),
    KEY(STRING, "model.lora.init", "null", model.lora_init,
        "adapter directory of peft from which training starts; it sets rank, alpha and targets, and dropout unless "
        "model.lora.dropout is given"),
    KEY(NAMES, "model.label_names", "null", model.label_names,
        "names of the labels of the tasks sequence_classification and token_classification, in the order of the "
        "model's "
        "outputs; null: those of id2label in model.init, or else those of data.train, sorted"),
    /* the fields of the family follow at this place */

    KEY(PATHS, "data.train", "null", data.train,
        "training data: text, JSON records (.jsonl, .json) or token files (.bin); for encoders also .safetensors of "
        "ready rows, .json of SQuAD and columns of words with tags. A path may be a pattern such as train_*.bin; files "
        "of a list are read one "
        "after the other, or mixed in proportion to their weights"),
    KEY(SHARE, "data.val", "null", data.val,
        "validation data: in the same forms as data.train, but without weights; or a share of data.train, such as "
        "0.05, "
        "that is held out: whole records, drawn from all parts of the files, else the end of the tokens"),
    KEY(STRING, "data.tokenizer", "null", data.tokenizer,
        "tokenizer for text: bytes, or a directory with a tokenizer's files; null: that of model.init if it has one, "
        "else bytes"),
    KEY(INT, "data.seq_length", AUTO, data.seq_length,
        "sequence length: tokens per sample; auto: the longest of the model", FROM(1)),
    KEY(EITHER, "data.format", AUTO, data.as_text,
        "format of data files. auto: token files by name or header, JSON records if the first value is an object or an "
        "array of objects, else text; text: text in any case",
        .choices = "auto|text"),
    KEY(INT, "data.token_bytes", AUTO, data.token_bytes,
        "bytes of a token in a .bin file without a header, 2 or 4; auto: 2, and a file is refused whose tokens seem to "
        "have 4",
        RANGE(2, 4)),
    KEY(CHOICE, "data.order", "\"shuffled\"", data.order,
        "order of samples. shuffled: a new random order in every pass over the data; sequential: as in the file",
        .choices = "shuffled|sequential"),
    KEY(CHOICE, "data.packing", AUTO, data.packing,
        "contents of a sample of records. documents: a window over documents one after the other; one: one record, "
        "padded or cut; whole: as many whole records as fit, each attending only to itself; auto: one for prompts or "
        "messages, else documents",
        .choices = "auto|documents|one|whole"),
    KEY(CHOICE, "data.loss_on", "\"answers\"", data.loss_on,
        "tokens that the loss counts in records with prompts or messages. answers: completions and the assistant's "
        "messages; last: only the last of these; all: every token. A message's own `weight` or `train` overrides this",
        .choices = "answers|last|all"),
    KEY(STRING, "data.chat_template", AUTO, data.chat_template,
        "form of conversations: chatml, qwen2, qwen2.5, qwen3, llama2, llama3, llama3.1, mistral, mistral-v1, "
        "mistral-v3, mistral-tekken or alpaca; or a file with a template, .jinja; auto: the template in the directory "
        "of data.tokenizer, or alpaca for records of instructions if it has none"),
    KEY(STRING, "data.chat_date", "\"2024-07-26\"", data.chat_date,
        "today's date in chat templates that contain one, YYYY-MM-DD"),
    KEY(OBJECT, "data.chat_template_kwargs", "null", data.chat_template_kwargs,
        "further variables of the chat template, such as {\"enable_thinking\": false}; a record's own "
        "chat_template_kwargs come before these"),
    KEY(OBJECT, "data.columns", "null", data.columns,
        "names of members of records, by the names that zr reads, such as {\"prompt\": \"question\", \"completion\": "
        "\"answer\"}; null: the first record's members decide"),
    KEY(STRING, "data.text_key", "\"text\"", data.text_key, "member that holds the text in each record"),
    KEY(EITHER, "data.bad_lines", "\"error\"", data.skip_bad_lines,
        "handling of a record that has no such text. error: end the run; skip: leave it out, and report how many",
        .choices = "error|skip"),
    KEY(STRING, "data.cache_dir", "null", data.cache_dir,
        "folder that caches the tokens of text files; null: zr/tokens in the user's cache ($XDG_CACHE_HOME)"),
    KEY(INT, "data.max_predictions", "20", data.max_predictions,
        "for encoders: maximum number of predicted tokens in a row; the default is at most data.seq_length", FROM(1)),
    KEY(INT, "data.max_samples", "1", data.max_samples,
        "for encoders: maximum number of samples of a text in a row, each attending only to itself", FROM(1)),
    KEY(NUMBER, "data.masked_lm_prob", "0.15", data.masked_lm_prob,
        "for encoders, with text: share of a sample's tokens that are predicted, above 0", RANGE(0, 1)),
    KEY(NUMBER, "data.short_seq_prob", "0.1", data.short_seq_prob,
        "for encoders, with text: probability that a document's samples are shorter than data.seq_length", RANGE(0, 1)),
    KEY(BOOL, "data.whole_words", "false", data.whole_words,
        "for encoders, with text: predict all tokens of a word together"),
    KEY(INT, "data.doc_stride", "128", data.doc_stride,
        "for the task question_answering: distance in tokens between the beginnings of the windows of a text that does "
        "not fit into data.seq_length",
        FROM(1)),
    KEY(INT, "data.max_query_length", "64", data.max_query_length,
        "for the task question_answering: maximum number of tokens of a question; the rest is cut off", FROM(1)),

    KEY(CHOICE, "device", "\"auto\"", device,
        "device on which ranks compute. cpu: the processor; cuda: NVIDIA GPUs, given to the ranks of a host in turn; "
        "auto: GPUs if there are any",
        .choices = "auto|cpu|cuda"),

    KEY(INT, "parallel.tensor", "1", parallel.tensor,
        "tensor-parallel degree: number of neighbouring ranks that share each layer and divide its heads", FROM(1)),
    KEY(CHOICE, "parallel.sequence", "\"off\"", parallel.sequence,
        "sequence parallelism, with parallel.tensor above 1: between layers each rank holds a part of the tokens. "
        "keep: the gathered inputs of products stay for the backward pass; regather: they are gathered again, as "
        "always with recomputation",
        .choices = "off|keep|regather"),
    KEY(INT, "parallel.pipeline", "1", parallel.pipeline,
        "pipeline-parallel degree: the layers are divided among this number of ranks, through which micro-batches pass",
        FROM(1)),
    KEY(CHOICE, "parallel.schedule", "\"1f1b\"", parallel.schedule,
        "order in which pipeline ranks run the micro-batches of a step; all have the same losses to the bit. 1f1b: "
        "forward and backward passes in turn; gpipe: all forward passes first; interleaved: 1f1b with several stages a "
        "rank, which wait less; breadth_first: all micro-batches pass through a stage before the next, so that ZeRO "
        "stage 3 gathers twice a step, and with gradient_reduction step reduces once; zb_h1, zb_v: gradients of "
        "weights are computed where a rank would wait",
        .choices = "1f1b|gpipe|interleaved|breadth_first|zb_h1|zb_v|dualpipe|dualpipe_v",
        ONLY("1f1b|gpipe|interleaved|breadth_first|zb_h1|zb_v"),
        .instead = "DualPipe adds the gradients of a weight in two directions, whose sum no other layout has; zb_v has "
                   "its bubble, with the bits of every other schedule"),
    KEY(INT, "parallel.chunks", AUTO, parallel.chunks,
        "number of stages of a pipeline rank with parallel.schedule interleaved or breadth_first; auto: 2, and 1 with "
        "schedules that have one",
        FROM(1)),
    KEY(STRING, "parallel.schedule_file", "null", parallel.schedule_file,
        "file with a schedule of one's own, instead of parallel.schedule: CSV with a line for each pipeline rank and "
        "cells STAGE ACTION MICROBATCH, such as 2F0, as torch.distributed.pipelining writes it. Actions are F, B, I "
        "(gradients of values) and W (of weights)"),
    KEY(STRING, "parallel.pipeline_units", "null", parallel.units,
        "number of layers of each stage in the order of the model, such as \"3,4,4,3\"; the first stage also has the "
        "embedding, the last one the head. null: stages with about equal work"),
    KEY(BOOL, "parallel.tied_apart", "false", parallel.tied_apart,
        "for embedding and head that share a table. false: the look-up runs beside the head, and its output travels to "
        "the first stage; true: the first stage's rank has the table, and the last one's a copy. A micro-batch's "
        "gradient of the head then travels in fp32, and the updated table once a step; losses are the same to the "
        "bit"),
    KEY(INT, "parallel.ranks_per_host", AUTO, parallel.ranks_per_host,
        "number of consecutive ranks on a host, for plans and tests. auto: as the ranks are started; in a plan one "
        "host, or the hosts of --cluster",
        FROM(1)),

    KEY(CHOICE, "memory.layout", "\"lean\"", memory.layout,
        "which model states stay in memory; losses are the same to the bit. lean: those that exact Adam needs, 12 "
        "bytes per parameter at stage 3; paper: 2 + 2 + 12 bytes",
        .choices = "lean|paper"),
    KEY(CHOICE, "memory.norm", "\"one_pass\"", memory.norm,
        "gradient norm with memory.layout lean and one micro-batch per step. one_pass: keep the gradient where "
        "clipping or fp16 needs the norm; two_pass: run the backward pass twice, and keep no gradient (docs/memory.md)",
        .choices = "one_pass|two_pass"),
    KEY(BYTES, "memory.limit", "null", memory.limit_bytes,
        "memory limit of a rank: of its process or, with GPUs, of its GPU. A run starts only if 1.03 x the plan's "
        "total + 50.33 MB, on a GPU the total + 1.07 GB, is within the limit",
        FROM(1)),
    KEY(INT, "memory.tile_elems", "0", memory.tile_elems,
        "largest number of elements of the embedding or the head in memory at a time (memory-centric tiling, "
        "docs/memory.md); 0: whole tables",
        FROM(0)),

    KEY(INT, "train.steps", "1000", train.steps, "number of optimizer steps", FROM(1)),
    KEY(INT, "train.seed", "1234", train.seed,
        "seed of all random numbers: initial weights, dropout and order of samples", FROM(0)),
    KEY(INT, "train.eval_interval", "100", train.eval_interval, "number of steps between evaluations; 0: no evaluation",
        FROM(0)),
    KEY(INT, "train.eval_batches", "20", train.eval_batches, "number of batches in an evaluation; 0: all of data.val",
        FROM(0)),
    KEY(INT, "train.sample_tokens", "0", train.sample_tokens,
        "tokens of a sample text that the model writes into metrics.jsonl every train.eval_interval steps and at the "
        "end; 0: no sample text",
        RANGE(0, 1024)),
    KEY(STRING, "train.sample_prompt", "null", train.sample_prompt,
        "text that the sample text continues; null: it starts like a new document"),
    KEY(STRING, "train.output_dir", "null", train.output_dir,
        "directory of the run, which must not hold another run; null: a new one, runs/<model>-<time>"),
    KEY(STRING, "train.started_in", "null", train.started_in,
        "directory that relative paths start from; a run writes this key into its own config.json"),
    KEY(INT, "train.threads", AUTO, train.threads,
        "number of compute threads per rank; auto: cores / ranks of the host", RANGE(1, 4096)),
    KEY(INT, "train.hang_timeout", AUTO, train.hang_timeout,
        "seconds without progress of a rank after which the run ends (exit code 82), more while evaluating, starting "
        "and saving; auto: 60, or 10 times the slowest of the last steps",
        RANGE(1, 1e9)),
    KEY(INT, "train.save_interval", "0", train.save_interval,
        "number of steps between checkpoints; 0: only at the end, or when the run is asked to stop", FROM(0)),
    KEY(BOOL, "train.save_end", "true", train.save_end,
        "write a checkpoint after the last step, if the disk has room for it; false: only if train.save_interval is "
        "above 0"),
    KEY(BOOL, "train.save_model", "true", train.save_model,
        "write the final weights as a Hugging Face directory, model/ in the run's directory; false: only checkpoints"),
    KEY(INT, "train.keep_last", "2", train.keep_last, "number of newest checkpoints to keep", FROM(1)),
    KEY(BOOL, "train.keep_best", "false", train.keep_best,
        "keep the weights with the lowest val_loss as a Hugging Face directory, best/ in the run's directory; needs "
        "data.val and train.eval_interval. Without this key it is true with train.early_stopping_patience"),
    KEY(INT, "train.early_stopping_patience", "0", train.patience,
        "number of evaluations in a row without a lower val_loss after which the run ends, as if train.steps were "
        "done; 0: it never ends early",
        FROM(0)),
    KEY(NUMBER, "train.early_stopping_threshold", "0.0", train.threshold,
        "how much lower val_loss must be, in nats, than in the last evaluation that counted as lower", ANY_NUMBER),
    KEY(EITHER, "train.reproducible", "\"layout\"", train.rank_free_sums,
        "runs whose results are the same to the bit. layout: on the same number of ranks, whatever the stage, buckets, "
        "layout and transport; world: also on 1, 2, 4, 8 ... ranks, at some cost",
        .choices = "layout|world"),
    KEY(EITHER, "train.accumulation_order", "\"micro\"", train.layer_major,
        "order of the micro-batches of a step; losses are the same to the bit. micro: one after the other; layer: all "
        "pass through a layer before the next runs, with fewer gathers and copies but more activations "
        "(docs/memory.md); auto: layer if it fits memory.limit and is faster",
        .choices = "micro|layer", .chosen = true),
    KEY(BOOL, "train.gradient_noise_scale", "false", train.noise_scale,
        "measure the gradient noise scale, up to which a larger batch pays off, as noise_scale_tokens in "
        "metrics.jsonl; needs two micro-batches per step, over all ranks"),
    KEY(BOOL, "train.tensorboard", "false", train.tensorboard,
        "also write the numbers of metrics.jsonl into an event file for TensorBoard, in train.output_dir"),

    KEY(INT, "train_batch_size", AUTO, train_batch_size,
        "samples per step = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks",
        FROM(1)),
    KEY(INT, "train_micro_batch_size_per_gpu", AUTO, micro_batch_size,
        "number of samples in a micro-batch on one rank; 1 if none of the three batch keys is given", FROM(1)),
    KEY(INT, "gradient_accumulation_steps", AUTO, accumulation_steps,
        "number of micro-batches per step; 1 if only train_batch_size is given. docs/planning.md says when zr chooses "
        "this and the micro-batch",
        FROM(1)),

    KEY(CHOICE, "optimizer.type", "\"AdamW\"", optimizer.type,
        "update rule; AdamW8bit keeps both moments of the matrices of blocks in 8 bits (docs/models.md). FusedAdam "
        "means "
        "Adam, and FusedLamb means Lamb",
        .choices = "AdamW|Adam|SGD|Lamb|Lars|Muon|Lion|AdamW8bit|Adagrad|MuAdam|MuAdamW|MuSGD|OneBitAdam|OneBitLamb|"
                   "ZeroOneAdam|"
                   "Adafactor",
        ONLY("AdamW|Adam|SGD|Lamb|Lars|Muon|Lion|AdamW8bit"), .instead_of = "Adafactor",
        .instead = "its second moment is a mean of the rows and one of the columns of whole matrices, and ranks have "
                   "parts of them; Lion has half of AdamW's states, AdamW8bit a quarter"),
    KEY(NUMBER, "optimizer.params.lr", "0.001", optimizer.lr,
        "learning rate; with Muon the default of muon_lr and adamw.lr", ANY_NUMBER),
    KEY(CHOICE, "optimizer.params.variant", "\"deepspeed\"", optimizer.variant,
        "one of the three optimizers named LAMB. deepspeed: FusedLamb of DeepSpeed; nvidia: FusedLAMB of NVIDIA's "
        "apex; paper: algorithm 2 of You et al. 2020. docs/models.md has their formulas",
        .choices = "deepspeed|nvidia|paper", .only = LAMB),
    KEY(PAIR, "optimizer.params.betas", "[0.9, 0.999]", optimizer.betas,
        "decay rates of the first and the second moment; of Lion's direction and momentum, by default [0.9, 0.99]",
        .only = ADAMS | LAMB | MUON | LION),
    KEY(NUMBER, "optimizer.params.eps", "1e-8", optimizer.eps,
        "epsilon, added to the root of the second moment, for Lars to the norm of the gradient; 1e-6 with variant "
        "nvidia or paper",
        RANGE(0, 1), .only = ADAMS | LAMB | LARS | MUON),
    KEY(NUMBER, "optimizer.params.weight_decay", "0.0", optimizer.weight_decay,
        "weight decay of tensors with two or more dimensions; 0.01 with variant nvidia or paper", ANY_NUMBER),
    KEY(BOOL, "optimizer.params.adam_w_mode", "true", optimizer.adam_w_mode,
        "true: decoupled weight decay; false (Adam, and Lamb with variant nvidia): weight decay as an L2 term of the "
        "gradient",
        .only = ADAMS | LAMB | MUON),
    KEY(BOOL, "optimizer.params.bias_correction", "true", optimizer.bias_correction,
        "divide the moments by 1 - beta^t; Lamb with variant deepspeed scales the learning rate instead",
        .only = ADAMS | LAMB),
    KEY(NUMBER, "optimizer.params.min_coeff", "0.01", optimizer.min_coeff,
        "lowest trust ratio of Lamb with variant deepspeed", ANY_NUMBER, .only = LAMB),
    KEY(NUMBER, "optimizer.params.max_coeff", "10.0", optimizer.max_coeff,
        "highest trust ratio of Lamb with variant deepspeed", ANY_NUMBER, .only = LAMB),
    KEY(BOOL, "optimizer.params.eps_inside_sqrt", "false", optimizer.eps_inside_sqrt,
        "Lamb with variant deepspeed: add eps to the second moment, not to its root", .only = LAMB),
    KEY(BOOL, "optimizer.params.grad_averaging", "true", optimizer.grad_averaging,
        "Lamb with variant nvidia: multiply the gradient by 1 - beta1 in the first moment", .only = LAMB),
    KEY(BOOL, "optimizer.params.use_nvlamb", "false", optimizer.use_nvlamb,
        "Lamb with variant nvidia: use trust ratios for tensors without weight decay, too", .only = LAMB),
    REFUSED(NUMBER, "optimizer.params.max_grad_norm", "0", "norm to which Lamb clips gradients", ANY_NUMBER,
            .only = LAMB, .instead = "set gradient_clipping, which clips to the same norm"),
    KEY(NUMBER, "optimizer.params.trust_coefficient", "0.001", optimizer.trust_coefficient,
        "factor of the trust ratio of Lars", ANY_NUMBER, .only = LARS),
    KEY(NUMBER, "optimizer.params.momentum", "0.0", optimizer.momentum,
        "momentum of SGD, Lars and Muon; for Lars the default is 0.9, for Muon 0.95", RANGE(0, 1),
        .only = SGD | LARS | MUON),
    KEY(BOOL, "optimizer.params.nesterov", "false", optimizer.nesterov,
        "use Nesterov momentum; for Muon the default is true", .only = SGD | MUON),
    KEY(NUMBER, "optimizer.params.muon_lr", "0.02", optimizer.muon_lr,
        "learning rate of the hidden matrices; without it that of lr, if it is given", ANY_NUMBER, .only = MUON),
    KEY(NAMES, "optimizer.params.matrices", "null", optimizer.matrices,
        "matrices that Muon trains, such as `*.mlp.*`, by the names of their weights or layers; null: all trained "
        "matrices between the tables and the head's last one. AdamW trains all other parameters",
        .only = MUON),
    KEY(NUMBER, "optimizer.params.adamw.lr", "0.0003", optimizer.adamw.lr,
        "learning rate of AdamW, which trains tables, heads and vectors; without it that of lr, if it is given. The "
        "scheduler changes both rates by the same factor",
        ANY_NUMBER, .only = MUON),
    KEY(PAIR, "optimizer.params.adamw.betas", "[0.9, 0.999]", optimizer.adamw.betas,
        "its decay rates; without it betas", .only = MUON),
    KEY(NUMBER, "optimizer.params.adamw.eps", "1e-8", optimizer.adamw.eps, "its epsilon; without it eps", RANGE(0, 1),
        .only = MUON),
    KEY(NUMBER, "optimizer.params.adamw.weight_decay", "0.0", optimizer.adamw.weight_decay,
        "its weight decay; without it weight_decay", ANY_NUMBER, .only = MUON),
    KEY(CHOICE, "optimizer.params.adjust_lr_fn", "\"original\"", optimizer.scale,
        "factor of the learning rate of a matrix of r outputs and c inputs. original: sqrt(max(1, r/c)); "
        "match_rms_adamw: 0.2 sqrt(max(r, c)), for AdamW's learning rates; spectral_unclamped: sqrt(r/c); spectral: "
        "sqrt(max(r, c)). docs/models.md has the settings of other implementations",
        .choices = "original|match_rms_adamw|spectral_unclamped|spectral", .only = MUON),
    KEY(EITHER, "optimizer.params.momentum_form", "\"ema\"", optimizer.momentum_sums,
        "ema: the momentum is a moving average of gradients; sum: their sum, weighted by powers of momentum",
        .choices = "ema|sum", .only = MUON),
    KEY(CHOICE, "optimizer.params.ns_method", "\"standard\"", optimizer.ns_method,
        "Newton-Schulz iteration: with the matrix itself, or with its Gram matrix", .choices = "standard|gram",
        ONLY("standard"), .only = MUON, .instead = "standard gives the same directions up to rounding"),
    KEY(EITHER, "optimizer.params.ns_dtype", "\"bf16\"", optimizer.ns_f32,
        "type of the iteration, in which directions also pass between ranks", .choices = "bf16|fp32", .only = MUON),
    KEY(INT, "optimizer.params.ns_steps", "5", optimizer.ns_steps, "number of iterations", RANGE(1, 100), .only = MUON),
    KEY(TRIPLE, "optimizer.params.ns_coefficients", "[3.4445, -4.775, 2.0315]", optimizer.ns_coefficients,
        "a, b and c of an iteration, X = a X + (b A + c A A) X with A = X X^T", RANGE(-1000, 1000), .only = MUON),
    KEY(NUMBER, "optimizer.params.ns_eps", "1e-7", optimizer.ns_eps,
        "lowest norm by which a direction is divided before the iteration; eps of torch.optim.Muon", RANGE(0, 1),
        .only = MUON),
    KEY(BOOL, "optimizer.params.ns_eps_added", "false", optimizer.ns_eps_added,
        "add ns_eps to the norm, as the first implementation does, instead of taking the larger of both", .only = MUON),
    REFUSED(BOOL, "optimizer.params.use_muon", "true", "DeepSpeed's mark of a parameter that Muon trains", .only = MUON,
            .instead = "optimizer.params.matrices names the matrices that Muon trains"),
    REFUSED(BOOL, "optimizer.params.per_head_muon", "false", "make each attention head's matrices orthogonal by itself",
            .only = MUON),
    REFUSED(NUMBER, "optimizer.params.dampening", "0", "dampening of SGD's momentum", RANGE(0, 1), .only = SGD),
    REFUSED(BOOL, "optimizer.params.amsgrad", "false", "divide by the largest second moment so far",
            .only = ADAMS | LAMB),
    IGNORED(BOOL, "optimizer.params.torch_adam", "false", "there is one implementation", .only = ADAMS),
    IGNORED(BOOL, "optimizer.params.set_grad_none", "true", "gradients are in planned memory",
            .only = ADAMS | LAMB | LION),
    REFUSED(BOOL, "optimizer.params.fp32_optimizer_states", "true", "keep the moments in fp32", .only = ADAMS | LION),
    IGNORED(BOOL, "optimizer.params.foreach", "true", "the update is always one pass"),
    IGNORED(BOOL, "optimizer.params.fused", "true", "the update is always one pass"),
    IGNORED(BOOL, "optimizer.legacy_fusion", "false", "the update is always one pass"),

    KEY(CHOICE, "scheduler.type", "\"none\"", scheduler.type,
        "how the learning rate changes over the steps; WarmupExpDecayLR and WarmupPolyDecayLR are not DeepSpeed's",
        .choices = "none|WarmupLR|WarmupDecayLR|WarmupCosineLR|WarmupExpDecayLR|WarmupPolyDecayLR|OneCycle|LRRangeTest",
        ONLY("none|WarmupLR|WarmupDecayLR|WarmupCosineLR|WarmupExpDecayLR|WarmupPolyDecayLR|OneCycle")),
    KEY(NUMBER, "scheduler.params.warmup_min_lr", "0.0", scheduler.warmup_min_lr,
        "learning rate at which the warm-up starts", ANY_NUMBER, .only = WARMUP | DECAY),
    KEY(NUMBER, "scheduler.params.warmup_max_lr", "0.001", scheduler.warmup_max_lr,
        "learning rate at which the warm-up ends. WarmupLR without it ends at optimizer.params.lr", ANY_NUMBER,
        .only = WARMUP | DECAY),
    KEY(INT, "scheduler.params.warmup_num_steps", "1000", scheduler.warmup_num_steps, "number of warm-up steps",
        FROM(0), .only = WARMUP | DECAY | COSINE | EXP | POLY),
    KEY(CHOICE, "scheduler.params.warmup_type", "\"log\"", scheduler.warmup_type,
        "curve of the warm-up. log and linear are DeepSpeed's, with the lowest rate in the first two steps; "
        "linear_from_1: step 1 has the highest rate / warmup_num_steps",
        .choices = "log|linear|linear_from_1", .only = WARMUP | DECAY | COSINE),
    KEY(INT, "scheduler.params.total_num_steps", AUTO, scheduler.total_num_steps,
        "step at which the learning rate reaches its lowest value; auto: train.steps", FROM(1),
        .only = DECAY | COSINE | POLY),
    KEY(NUMBER, "scheduler.params.warmup_min_ratio", "0.0", scheduler.warmup_min_ratio,
        "learning rate at which the warm-up starts, as a fraction of optimizer.params.lr", RANGE(0, 1), .only = COSINE),
    KEY(NUMBER, "scheduler.params.cos_min_ratio", "0.0001", scheduler.cos_min_ratio,
        "learning rate at which the cosine ends, as a fraction of optimizer.params.lr", RANGE(0, 1), .only = COSINE),
    KEY(NUMBER, "scheduler.params.warmup_degree", "2.0", scheduler.warmup_degree,
        "exponent of the warm-up: the learning rate is lr (step / warmup_num_steps)^warmup_degree", ANY_NUMBER,
        .only = EXP),
    KEY(NUMBER, "scheduler.params.decay_rate", "0.9", scheduler.decay_rate,
        "factor by which the learning rate decays in decay_step steps after the warm-up", RANGE(0, 1), .only = EXP),
    KEY(NUMBER, "scheduler.params.decay_step", "250.0", scheduler.decay_step,
        "number of steps in which the learning rate decays by decay_rate", .min = 1, .max = 3.4e38, .only = EXP),
    KEY(NUMBER, "scheduler.params.lr_offset", "0.0", scheduler.lr_offset, "learning rate that is added at every step",
        ANY_NUMBER, .only = EXP),
    KEY(NUMBER, "scheduler.params.decay_degree", "0.5", scheduler.decay_degree,
        "exponent of the decay: after the warm-up the learning rate is lr (1 - step / total_num_steps)^decay_degree",
        ANY_NUMBER, .only = POLY),
    KEY(NUMBER, "scheduler.params.cycle_min_lr", "0.0", scheduler.cycle_min_lr,
        "learning rate at which the cycle starts and ends", ANY_NUMBER, .only = CYCLE),
    KEY(NUMBER, "scheduler.params.cycle_max_lr", "0.001", scheduler.cycle_max_lr, "highest learning rate of the cycle",
        ANY_NUMBER, .only = CYCLE),
    KEY(INT, "scheduler.params.cycle_first_step_size", "2000", scheduler.first_step_size,
        "number of steps in which the learning rate rises", FROM(1), .only = CYCLE),
    KEY(INT, "scheduler.params.cycle_second_step_size", AUTO, scheduler.second_step_size,
        "number of steps in which it falls again; auto: cycle_first_step_size", FROM(1), .only = CYCLE),
    KEY(INT, "scheduler.params.decay_step_size", "0", scheduler.decay_step_size,
        "number of steps after the cycle in which the decay grows by decay_lr_rate; 0: no decay", FROM(0),
        .only = CYCLE),
    KEY(NUMBER, "scheduler.params.decay_lr_rate", "0.0", scheduler.decay_lr_rate,
        "decay after the cycle: k decay_step_sizes later the learning rate is cycle_min_lr / (1 + k decay_lr_rate)",
        ANY_NUMBER, .only = CYCLE),
    REFUSED(BOOL, "scheduler.params.cycle_momentum", "false",
            "change the momentum in the opposite direction, which is DeepSpeed's default", .only = CYCLE),
    KEY(INT, "scheduler.params.cycle_first_stair_count", "0", scheduler.first_stair_count,
        "number of stairs in which the learning rate rises; 0: it rises at every step", FROM(0), .only = CYCLE),
    KEY(INT, "scheduler.params.cycle_second_stair_count", "null", scheduler.second_stair_count,
        "number of stairs in which it falls again; null: cycle_first_stair_count", FROM(0), .only = CYCLE),
    IGNORED(NUMBER, "scheduler.params.cycle_min_mom", "0.8", "used only with cycle_momentum", RANGE(0, 1),
            .only = CYCLE),
    IGNORED(NUMBER, "scheduler.params.cycle_max_mom", "0.9", "used only with cycle_momentum", RANGE(0, 1),
            .only = CYCLE),
    IGNORED(NUMBER, "scheduler.params.decay_mom_rate", "0.0", "used only with cycle_momentum", ANY_NUMBER,
            .only = CYCLE),
    IGNORED(ANY, "scheduler.params.lr_range_test_min_lr", "0.001", "used only with LRRangeTest"),
    IGNORED(ANY, "scheduler.params.lr_range_test_step_size", "2000", "used only with LRRangeTest"),
    IGNORED(ANY, "scheduler.params.lr_range_test_step_rate", "1.0", "used only with LRRangeTest"),
    IGNORED(ANY, "scheduler.params.lr_range_test_staircase", "false", "used only with LRRangeTest"),
    REFUSED(INT, "scheduler.params.last_batch_iteration", "-1", "last iteration of a schedule that goes on", .min = -1,
            .max = ZR_CONFIG_MAX_INT, .only = WARMUP | DECAY | COSINE | CYCLE,
            .instead = "a resumed run (--resume) goes on with its schedule by itself"),

    KEY(NUMBER, "gradient_clipping", "0.0", gradient_clipping,
        "global norm to which larger gradients are clipped; 0: no clipping. The recipes of model.preset and model.init "
        "set 1",
        ANY_NUMBER),
    KEY(EITHER, "gradient_reduction", "\"micro\"", reduce_once,
        "when gradients are reduced over ranks. micro: after every micro-batch; step: once per step, in fp32, which "
        "moves fewer bytes from three micro-batches on, takes more memory, and changes the last digits of losses "
        "(docs/memory.md)",
        .choices = "micro|step"),
    BARE(CHOICE, "gradient_allreduce_op", "\"mean\"", "sum or mean of the gradients of all ranks",
         .choices = "mean|sum", ONLY("mean"), .instead = "multiply the learning rate instead"),
    REFUSED(BOOL, "prescale_gradients", "false", "divide gradients before they are summed"),
    REFUSED(NUMBER, "gradient_predivide_factor", "1", "divide gradients by this before they are summed", ANY_NUMBER),
    REFUSED(BOOL, "sparse_gradients", "false", "sparse gradients of embeddings"),

    KEY(BOOL, "bf16.enabled", "false", bf16,
        "train in bf16: parameters and activations in bf16, master parameters in fp32; false: fp32"),
    IGNORED(BOOL, "bf16.immediate_grad_update", "true", "gradients are always reduced as soon as they are complete"),
    IGNORED(BOOL, "bf16.check_grad_overflow", "false", "a step whose gradient is not finite is always skipped"),
    NO_SCALE(ANY, "bf16.auto_cast"),
    NO_SCALE(ANY, "bf16.loss_scale"),
    NO_SCALE(ANY, "bf16.initial_scale_power"),
    NO_SCALE(ANY, "bf16.loss_scale_window"),
    NO_SCALE(ANY, "bf16.hysteresis"),
    NO_SCALE(ANY, "bf16.min_loss_scale"),
    REFUSED(BOOL, "bf16.bf16_master_weights_and_grads", "false", "train without fp32 master parameters"),
    REFUSED(BOOL, "bf16.bf16_optimizer_states", "false", "keep the moments of the optimizer in bf16"),
    KEY(BOOL, "fp16.enabled", "false", fp16,
        "train in fp16: parameters and activations in fp16, master parameters in fp32, with a scaled loss; not "
        "together with bf16.enabled"),
    IGNORED(BOOL, "fp16.auto_cast", "null", "inputs are token ids, which are not cast"),
    KEY(NUMBER, "fp16.loss_scale", "0", scale.loss_scale,
        "factor by which the loss is multiplied; 0: a dynamic loss scale", RANGE(0, 1e38)),
    KEY(INT, "fp16.initial_scale_power", "16", scale.initial_scale_power,
        "initial value of the dynamic loss scale, as a power of two: 16 means 2^16", RANGE(0, 126)),
    KEY(INT, "fp16.loss_scale_window", "1000", scale.loss_scale_window,
        "number of steps without an overflow after which the dynamic loss scale is doubled", FROM(1)),
    KEY(INT, "fp16.hysteresis", "2", scale.hysteresis,
        "number of the overflow at which the dynamic loss scale is first halved; 2: at the second", FROM(1)),
    KEY(BOOL, "fp16.consecutive_hysteresis", "false", scale.consecutive_hysteresis,
        "reset the count of hysteresis after every step without an overflow; false: only when the loss scale is "
        "doubled"),
    KEY(NUMBER, "fp16.min_loss_scale", "1", scale.min_loss_scale, "lowest value of the dynamic loss scale",
        RANGE(1e-6, 1e38)),
    REFUSED(BOOL, "fp16.fp16_master_weights_and_grads", "false", "train without fp32 master parameters"),
    SECTION_OFF("amp", "NVIDIA Apex"),
    SECTION_OFF("torch_autocast", "casts of PyTorch at each operation",
                .instead = "bf16.enabled and fp16.enabled keep fp32 master parameters, too"),
    KEY(CHOICE, "communication_data_type", AUTO, communication_dtype,
        "type in which gradients are sent between ranks: fp32, or the 16-bit type that is enabled; auto: the enabled "
        "16-bit type, else fp32",
        .choices = "auto|fp32|bf16|fp16"),
    IGNORED(CHOICE, "seq_parallel_communication_data_type", AUTO, "sequences are not split over ranks",
            .choices = "auto|fp32|bf16|fp16"),
    KEY(CHOICE, "data_types.grad_accum_dtype", AUTO, grad_accum_dtype,
        "type in which gradients are accumulated over micro-batches; auto: fp32", .choices = "auto|fp32|bf16|fp16",
        ONLY("auto|fp32")),
    BARE(CHOICE, "data_types.param_dtype", AUTO, "type of parameters; auto: as bf16.enabled and fp16.enabled say",
         .choices = "auto|fp32|bf16|fp16", ONLY("auto"), .instead = "bf16.enabled and fp16.enabled choose the type"),
    BARE(CHOICE, "data_types.buffer_dtype", AUTO, "type of a module's buffers; auto: as they are loaded",
         .choices = "auto|fp32|bf16|fp16", ONLY("auto"), .instead = "models of zr have no buffers"),
    IGNORED(ANY, "data_types.keep_in_fp32_modules", AUTO, "models of zr have no buffers"),

    KEY(INT, ZERO "stage", "0", zero.stage,
        "ZeRO stage: the states that are sharded over the ranks. 0: nothing; 1: optimizer states; 2: also gradients; "
        "3: also parameters",
        RANGE(0, 3)),
    KEY(INT, ZERO "reduce_bucket_size", "16777216", zero.reduce_bucket_elems,
        "number of gradient elements reduced at a time", FROM(0)),
    KEY(INT, ZERO "allgather_bucket_size", "16777216", zero.allgather_bucket_elems,
        "number of parameter elements gathered at a time; GPUs gather whole units", FROM(0)),
    KEY(SWITCH, ZERO "overlap_comm", AUTO, zero.overlap_comm, "overlap communication with computation; auto: true"),
    KEY(INT, ZERO "stage3_prefetch_bucket_size", "50000000", zero.prefetch_bucket_elems,
        "stage 3 with overlap_comm: prefetch units until this number of elements is in flight; 0: no prefetch",
        FROM(0)),
    KEY(INT, ZERO "stage3_param_persistence_threshold", "0", zero.persistence_elems,
        "stage 3: a unit is not sharded if each of its parameters has fewer elements", FROM(0)),
    KEY(INT, ZERO "stage3_model_persistence_threshold", AUTO, zero.model_persistence_elems,
        "stage 3: largest number of elements of all units that are not sharded; auto: no limit", FROM(0)),
    KEY(INT, ZERO "stage3_max_live_parameters", AUTO, zero.max_live_elems,
        "stage 3: prefetch no unit if more than this number of gathered elements would be in memory; auto: two units",
        FROM(0)),
    KEY(INT, ZERO "stage3_max_reuse_distance", "0", zero.max_reuse_elems,
        "stage 3: keep a gathered unit if it is used again within this number of elements of other units", FROM(0)),
    IGNORED(BOOL, ZERO "stage3_gather_16bit_weights_on_model_save", "true", "the final weights are always whole"),
    IGNORED(BOOL, ZERO "stage3_gather_fp16_weights_on_model_save", "true",
            "old name of stage3_gather_16bit_weights_on_model_save"),
    IGNORED(BOOL, ZERO "stage3_allgather_sequential", "false", "a unit is gathered where it is used"),
    IGNORED(INT, ZERO "stage3_partition_stream_chunk_size", "0", "each rank initializes its own shards", FROM(0)),
    IGNORED(BOOL, ZERO "stage3_use_all_reduce_for_fetch_params", "false", "parameters are gathered"),
    IGNORED(INT, ZERO "stage3_module_granularity_threshold", "0", "a unit is a transformer block", FROM(0)),
    IGNORED(BOOL, ZERO "compute_grad_norm", "true", "the norm is computed where clipping or fp16 needs it"),
    IGNORED(BOOL, ZERO "parameter_alignment", "false", "parameters are always aligned"),
    IGNORED(BOOL, ZERO "save_muon_momentum_buffer_in_memory", "false",
            "the momentum is stored as other optimizer states"),
    IGNORED(ANY, ZERO "leaf_module.*", "null", "a unit is a transformer block"),
    IGNORED(BOOL, ZERO "contiguous_gradients", "true", "gradients are always contiguous"),
    IGNORED(BOOL, ZERO "reduce_scatter", "true",
            "collectives.reduce says how gradients are summed; the sums are the same"),
    IGNORED(BOOL, ZERO "allgather_partitions", "true",
            "parameters are always gathered from all ranks at once, which gives the values of broadcasts"),
    IGNORED(BOOL, ZERO "use_multi_rank_bucket_allreduce", "true", "every bucket holds a part of each rank's shard"),
    IGNORED(BOOL, ZERO "round_robin_gradients", "false", "every bucket holds a part of each rank's shard"),
    IGNORED(BOOL, ZERO "ignore_unused_parameters", "true", "unused parameters have gradient 0"),
    IGNORED(BOOL, ZERO "legacy_stage1", "false", "there is only one implementation of stage 1"),
    IGNORED(BOOL, ZERO "elastic_checkpoint", "false", "it concerns checkpoints of DeepSpeed"),
    IGNORED(BOOL, ZERO "load_from_fp32_weights", "true", "master parameters are always loaded in fp32"),
    IGNORED(BOOL, ZERO "memory_efficient_linear", "true", "the backward pass keeps no copy of weights"),
    IGNORED(BOOL, ZERO "override_module_apply", "true", "it concerns modules of PyTorch"),
    IGNORED(BOOL, ZERO "log_trace_cache_warnings", "false", "zr traces no modules"),
    IGNORED(BOOL, ZERO "enable_sanity_checks", "false", "plans are checked by the tests and in debug builds"),
    IGNORED(BOOL, ZERO "pipeline_loading_checkpoint", "false", "it concerns checkpoints of DeepSpeed"),
    KEY(CHOICE, ZERO "offload_optimizer.device", "\"none\"", zero.optim.device,
        "where optimizer states and fp32 master parameters are stored between updates (docs/offload.md). cpu: in the "
        "host's memory; nvme: in files of nvme_path; auto: with memory.limit and nvme_path, as few states on disk as "
        "necessary, otherwise none",
        .choices = "none|cpu|nvme", .chosen = true),
    KEY(FOLDERS, ZERO "offload_optimizer.nvme_path", "null", zero.optim.folders,
        "folder on a fast local disk, or several, over which bytes are striped. It must exist; the files in it vanish "
        "with the run"),
    KEY(NUMBER, ZERO "offload_optimizer.ratio", "1.0", zero.optim.ratio,
        "share of the parameters whose states are offloaded, by whole units. auto: the least with which memory.limit "
        "is enough or, without a limit, the most that costs at most 1 % of a step",
        RANGE(0, 1), .chosen = true),
    KEY(BOOL, ZERO "offload_optimizer.gradients", "true", zero.offload_gradients,
        "also store gradients there: sums over micro-batches, and gradients that wait for the norm"),
    KEY(INT, ZERO "offload_optimizer.buffer_count", "4", zero.optim.buffers,
        "number of buffers of sub_group_size elements for an update on the device, 4 for each bucket in flight; 4, the "
        "default of DeepSpeed: as zr chooses",
        RANGE(1, 16384)),
    REFUSED(BOOL, ZERO "offload_optimizer.super_offload", "false", "updates by the processors of a superchip",
            .instead = "offload_optimizer.device cpu updates by the host's processors, with the same bits"),
    KEY(INT, ZERO "sub_group_size", "1000000000", zero.sub_group_elems,
        "with an offload: elements of a state on the device at a time during an update; 0 and 1e9, the default of "
        "DeepSpeed: 1048576",
        FROM(0)),
    IGNORED(BOOL, ZERO "offload_optimizer.pin_memory", "true", "host memory that a GPU copies is always pinned"),
    IGNORED(BOOL, ZERO "offload_optimizer.pipeline_read", "false", "the next bucket is always read during an update"),
    IGNORED(BOOL, ZERO "offload_optimizer.pipeline_write", "false",
            "the last bucket is always written during an update"),
    IGNORED(BOOL, ZERO "offload_optimizer.fast_init", "false", "states are created where they are stored"),
    IGNORED(NUMBER, ZERO "offload_optimizer.cpuadam_cores_perc", "0.8",
            "train.threads threads of each rank update the states", RANGE(0, 1)),
    KEY(CHOICE, ZERO "offload_param.device", "\"none\"", zero.param.device,
        "at stage 3: where shards of the parameters are stored between gathers, as offload_optimizer.device",
        .choices = "none|cpu|nvme"),
    KEY(FOLDERS, ZERO "offload_param.nvme_path", "null", zero.param.folders,
        "as offload_optimizer.nvme_path, which must be the same if both are used"),
    KEY(NUMBER, ZERO "offload_param.ratio", "1.0", zero.param.ratio,
        "share of the parameters that are offloaded, by whole units. auto: as for offload_optimizer.ratio", RANGE(0, 1),
        .chosen = true),
    IGNORED(INT, ZERO "offload_param.buffer_count", "5", "a shard is read into the place where its unit is gathered",
            FROM(0)),
    IGNORED(INT, ZERO "offload_param.buffer_size", "100000000",
            "a shard is read into the place where its unit is gathered", FROM(0)),
    IGNORED(INT, ZERO "offload_param.max_in_cpu", "1000000000", "parameters on disk have no copy in memory", FROM(0)),
    IGNORED(BOOL, ZERO "offload_param.pin_memory", "true", "host memory that a GPU copies is always pinned"),
    IGNORED(BOOL, ZERO "cpu_offload_use_pin_memory", "false", "host memory that a GPU copies is always pinned"),
    REFUSED(ANY, ZERO "zenflow", "null", "updates with gradients of earlier steps",
            .instead = "ZenFlow's updates are late and change results; offload_optimizer keeps their bits"),
    KEY(INT, ZERO "zero_hpz_partition_size", "1", zero.hpz_partition_ranks,
        "hpZ of ZeRO++, at stage 3: keep a second copy of the parameters, sharded over this number of neighbouring "
        "data-parallel ranks (a power of two), for all gathers of a step but the first",
        FROM(0)),
    KEY(SWITCH, ZERO "zero_quantized_weights", "false", zero.quantized_weights,
        "qwZ of ZeRO++, at every stage: gather the trained matrices of blocks in the form of quantization.weights. "
        "Every rank computes with the quantised values, also one rank alone; the update keeps exact ones in fp32. "
        "auto: true if the planned step is shorter; a resumed run keeps what was chosen"),
    KEY(BOOL, ZERO "zero_quantized_nontrainable_weights", "false", zero.quantized_frozen,
        "MixZ++ of DeepSpeed, at stage 3: keep the frozen matrices of blocks (model.lora, model.frozen) in memory, and "
        "gather them, in the form of quantization.weights"),
    KEY(SWITCH, ZERO "zero_quantized_gradients", "false", zero.quantized_gradients,
        "qgZ of ZeRO++, at every stage: reduce the gradients of the matrices of blocks in the form of "
        "quantization.gradients, once per step (gradient_reduction step). Values then depend on the number of ranks, "
        "and with collectives.hierarchical on the ranks of a host. auto: as in zero_quantized_weights"),
    KEY(INT, ZERO "zeropp_loco_param.reset_T", "0", zero.loco_reset_steps,
        "LoCo of ZeRO++, with zero_quantized_gradients: each rank adds the errors of its quantised gradients to the "
        "next ones, and clears them after this number of steps, such as 1024; 0: gradients without their errors",
        FROM(0)),
    KEY(NUMBER, ZERO "zeropp_loco_param.err_beta", "0.8", zero.loco_beta,
        "with reset_T: share of the earlier error in the new one, below 1; the rest is what the last gradient lost",
        RANGE(0, 1)),
    KEY(INT, ZERO "mics_shard_size", "-1", zero.mics_shard_ranks,
        "MiCS (hybrid sharding): shard states over groups of this number of neighbouring data-parallel ranks (a power "
        "of two), each with a copy; -1: over all ranks",
        .min = -1, .max = ZR_CONFIG_MAX_INT),
    REFUSED(BOOL, ZERO "mics_hierarchical_params_gather", "false", "MiCS: gather parameters in two steps"),

    KEY(CHOICE, "activation_checkpointing.policy", "\"none\"", recompute.policy,
        "activations that the backward pass recomputes (docs/memory.md). none: only norms and GELU; keep: nothing; "
        "selective: also attention and activations wider than the model; unit: all but the input of each transformer "
        "block; auto: as few as memory.limit, or the host's free memory, allows; paper: unit as the papers count",
        .choices = "none|unit|selective|auto|paper|keep"),
    KEY(INT, "activation_checkpointing.every", "1", recompute.every,
        "with policy unit: keep only the input of every k-th transformer block, where k is this number", FROM(1)),
    KEY(BOOL, "activation_checkpointing.partition_activations", "false", recompute.partition,
        "divide each checkpoint among the tensor-parallel ranks (Pa of ZeRO-R); needs a policy other than none and "
        "keep"),
    KEY(BOOL, "activation_checkpointing.cpu_checkpointing", "false", recompute.cpu,
        "keep checkpoints in the host's memory until the backward pass (with partition_activations: Pa+cpu of ZeRO-R); "
        "needs a policy other than none and keep"),
    KEY(CHOICE, "activation_checkpointing.offload", "\"none\"", recompute.offload,
        "where checkpoints are until the backward pass. host: the same as cpu_checkpointing; disk: in nvme_path of an "
        "offload (docs/offload.md)",
        .choices = "none|host|disk"),
    IGNORED(BOOL, "activation_checkpointing.contiguous_memory_optimization", "false",
            "memory is planned, never fragmented"),
    IGNORED(INT, "activation_checkpointing.number_checkpoints", "null", "it follows from the model", FROM(0)),
    IGNORED(BOOL, "activation_checkpointing.synchronize_checkpoint_boundary", "false", "it concerns CUDA streams"),
    IGNORED(BOOL, "activation_checkpointing.profile", "false", "times are in metrics.jsonl"),

    KEY(INT, "quantization.block", "128", quantization.block_elems,
        "elements of a matrix that share a scale of 16 bits, 128 or 256, counted from its first element",
        RANGE(128, 256)),
    KEY(CHOICE, "quantization.weights", "\"int8\"", quantization.weights,
        "form of quantised parameters. int8, int4: integers; fp8_e4m3, fp8_e5m2: floating-point numbers of 8 bits; "
        "int4_hadamard: int4 after a rotation of 128 elements, which spreads large ones",
        .choices = "int8|int4|fp8_e4m3|fp8_e5m2|int4_hadamard"),
    KEY(BOOL, "quantization.weight_differences", "false", quantization.weight_differences,
        "with zero_quantized_weights at stages 0 to 2: gather the differences of the updated parameters to those that "
        "every rank has, in the form of quantization.weights, int4 if that is left out. What one difference loses is "
        "in the next, so errors stay as small as a step's change"),
    KEY(CHOICE, "quantization.gradients", "\"int4\"", quantization.gradients,
        "form of quantised gradients, as in quantization.weights",
        .choices = "int8|int4|fp8_e4m3|fp8_e5m2|int4_hadamard"),
    KEY(EITHER, "quantization.rounding", "\"nearest\"", quantization.stochastic,
        "rounding of quantised values. nearest: smallest errors; stochastic: up or down at random, so that errors "
        "cancel out in the mean",
        .choices = "nearest|stochastic"),
    KEY(BOOL, "quantization.any_ranks", "false", quantization.any_ranks,
        "with zero_quantized_gradients: let a run resume on another number of data-parallel ranks, or of those of a "
        "host, on which other values follow"),

    KEY(CHOICE, "collectives.reduce", "\"reduce_scatter\"", collectives.reduce,
        "how gradients are summed over ranks. reduce_scatter is meant for training, the others for comparison. "
        "all_reduce (stages 0 and 1): every rank receives every sum; nccl: reduce-scatter of NCCL, a whole unit at a "
        "time, between processes on GPUs with device cuda. NCCL adds in the type in which gradients are sent and in an "
        "order of its choice, so results may differ in their last bits",
        .choices = "reduce_scatter|all_reduce|nccl|owner", ONLY("reduce_scatter|all_reduce|nccl"),
        .instead = "owner reduced to one rank after the other, which takes longer, and nobody trains so; a "
                   "reduce-scatter gives the same sums"),
    BARE(CHOICE, "collectives.gather", "\"all_gather\"", "parameters are always gathered from all ranks at once",
         .choices = "all_gather|broadcast", ONLY("all_gather"),
         .instead = "an all-gather gives the same parameters, in less time"),
    KEY(SWITCH, "collectives.hierarchical", AUTO, collectives.hierarchical,
        "gather and reduce in two steps: within each host, and between hosts, where partial sums are sent in fp32. "
        "auto: true if there are several hosts, each has the same number of ranks, this number is a power of two (2 or "
        "more), parallel.tensor is 1, collectives.reduce is reduce_scatter or all_reduce, and mics_shard_size and "
        "zero_hpz_partition_size, if they are used, are the number of ranks of a host"),
    BARE(CHOICE, "collectives.buffer", "\"constant\"", "buffers for communication are always of constant size",
         .choices = "constant|fused", ONLY("constant"), .instead = "the sums are the same"),

    KEY(INT, "steps_per_print", "10", steps_per_print, "number of steps between progress lines", FROM(1)),
    IGNORED(ANY, "zr.*", "null", "`zr plan --emit` writes it, with what DeepSpeed has no keys for"),
    IGNORED(ANY, "log_level", "null", "--quiet prints less"),
    IGNORED(BOOL, "disable_python_gc", "false", "zr has no garbage collector"),
    IGNORED(ANY, "vocabulary_size", "null", "DeepSpeed only checks it; zr uses the size of the model's vocabulary"),
    IGNORED(BOOL, "wall_clock_breakdown", "false", "times are in metrics.jsonl"),
    IGNORED(BOOL, "memory_breakdown", "false", "memory is in run.json"),
    IGNORED(BOOL, "dump_state", "false", "the resolved configuration is always saved"),
    IGNORED(BOOL, "disable_allgather", "false", "parameters are always gathered"),
    IGNORED(BOOL, "dataloader_drop_last", "false", "every batch is full"),
    IGNORED(BOOL, "zero_allow_untested_optimizer", "false", "every optimizer works at every stage"),
    IGNORED(BOOL, "zero_force_ds_cpu_optimizer", "true", "there is one implementation"),
    KEY(INT, "aio.block_size", AUTO, aio.block_bytes,
        "with device nvme: bytes of the largest single transfer, a multiple of 4096, and of a stripe over several "
        "folders; auto: 1048576",
        RANGE(4096, 1 << 30)),
    KEY(INT, "aio.queue_depth", AUTO, aio.depth,
        "with device nvme: number of transfers in flight in each direction; auto: 8", RANGE(1, 1024)),
    REFUSED(BOOL, "aio.use_gds", "false", "copies from disk to GPU without the host's memory (GPUDirect Storage)"),
    IGNORED(INT, "aio.intra_op_parallelism", "1", "aio.queue_depth transfers run at the same time without more threads",
            FROM(1)),
    IGNORED(INT, "aio.thread_count", "1", "aio.queue_depth transfers run at the same time without more threads",
            FROM(1)),
    IGNORED(BOOL, "aio.single_submit", "false", "transfers are always submitted as they come"),
    IGNORED(BOOL, "aio.overlap_events", "true", "a transfer is always submitted when another has ended"),
    IGNORED(ANY, "aio.*", "null", "it concerns DeepSpeed's library of transfers"),
    KEY(SWITCH, "checkpoint.async", AUTO, checkpoint.async,
        "write the checkpoints of train.save_interval while training goes on: from a copy in host memory if "
        "memory.limit has room for it, otherwise from the states, for which updates then wait; auto: true"),
    KEY(INT, "checkpoint.every", "0", checkpoint.every,
        "never remove a checkpoint whose step is a multiple of this number; 0: remove all old ones", FROM(0)),
    IGNORED(ANY, "checkpoint.*", "null", "checkpoints do not depend on the layout"),
    IGNORED(BOOL, "flops_profiler.enabled", "false", "zr plan prints FLOPs"),
    IGNORED(ANY, "flops_profiler.*", "null", "zr plan prints FLOPs"),
    SECTION_OFF("tensorboard", "event files for TensorBoard, at a place that DeepSpeed's section names",
                .instead = "train.tensorboard writes event files into train.output_dir"),
    MONITOR_OFF("comet"),
    MONITOR_OFF("wandb"),
    MONITOR_OFF("csv_monitor"),
    IGNORED(ANY, "monitor_config.*", "null", "DeepSpeed reads no such section"),
    SECTION_OFF("elasticity", "choose a batch size that suits many numbers of ranks",
                .instead = "set the batch sizes yourself"),
    SECTION_OFF("curriculum_learning", "sequence length that grows during training"),
    SECTION_OFF("data_efficiency", "data sampling and routing"),
    SECTION_OFF("progressive_layer_drop", "random skipping of layers"),
    SECTION_OFF("eigenvalue", "eigenvalues of layers"),
    SECTION_OFF("hybrid_engine", "alternating training and inference"),
    SECTION_OFF("nebula", "service that stores checkpoints"),
    IGNORED(ANY, "datastates_ckpt.*", "null", "checkpoint.async writes checkpoints while training goes on"),
    SECTION_OFF("expert_parallel", "experts divided over ranks", .instead = "zr has no models with experts"),
    IGNORED(BOOL, "use_data_before_expert_parallelism", "false", "zr has no models with experts"),
    REFUSED(ANY, "weight_quantization", "null", "quantized weights"),
    REFUSED(ANY, "quantize_training", "null", "quantized training"),
    REFUSED(ANY, "compression_training", "null", "compression of the model"),
    BARE(INT, "sequence_parallel_size", "1", "ranks that share the tokens of a sample", FROM(1), ONLY("1"),
         .instead = "parallel.sequence divides tokens over tensor-parallel ranks"),
    REFUSED(BOOL, "managed_gradient_accumulation", "true", "steps counted by the library",
            .instead = "zr always ends a step after gradient_accumulation_steps micro-batches"),
    BARE(CHOICE, "sparse_attention.mode", "\"dense\"", "sparse attention",
         .choices = "dense|fixed|variable|bigbird|bslongformer", ONLY("dense")),
    BARE(INT, "tensor_parallel.autotp_size", "0", "tensor-parallel degree in DeepSpeed; here parallel.tensor", FROM(0),
         ONLY("0|1")),
    IGNORED(ANY, "tensor_parallel.*", "null", "used only with tensor_parallel.autotp_size"),
    BARE(INT, "pipeline.stages", AUTO,
         "number of pipeline stages in DeepSpeed, where nothing reads it; here parallel.pipeline", FROM(0), ONLY("0|1"),
         .instead = "here it is parallel.pipeline"),
    IGNORED(ANY, "pipeline.*", "null", "parallel.pipeline and parallel.schedule say how layers are divided"),
    IGNORED(ANY, "compile.*", "null", "kernels are compiled in advance"),
    IGNORED(BOOL, "graph_harvesting", "false", "it concerns CUDA graphs"),
    IGNORED(ANY, "comms_logger.*", "null", "traffic is in run.json and in zr plan"),
    IGNORED(ANY, "comms_config.*", "null", "DeepSpeed reads no such section"),
    IGNORED(ANY, "timers.*", "null", "times are in metrics.jsonl"),
    SECTION_OFF("autotuning", "automatic search for a configuration"),
};

const int zr__common_keys_n = sizeof(zr__common_keys) / sizeof(zr__common_keys[0]);
