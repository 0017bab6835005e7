/* Command lines of Megatron-LM (pretrain_gpt.py), d98e8a64. Names, types and choices of its options:
 * tests/peers/megatron_options.txt. */
#include "systems/formats/formats.h"

#define LLAMA "?model.type=llama|mistral|qwen2|qwen3 "
#define GPT2 "?model.type=gpt2 "
/* what the blocks of all these families have */
#define BLOCK "swiglu=true normalization=RMSNorm disable-bias-linear=true position-embedding-type=rope"
/* an option of the system of the same name */
#define SAME(name) ZR__BOTH(name "=*", "with." name "=*")
/* an option that describes a shape that no family of zr has */
#define SHAPE(name) ZR__BOTH(name "=*", GPT2 "with." name "=*")
#define POLICY "activation_checkpointing.policy="

static const zr__rule rules[] = {
    ZR__STANDARD("", "system=megatron"),

    /* what zr cannot plan */
    ZR__REFUSED("num-experts=*", "zr plans dense models; mixtures of experts have other memory and traffic"),
    ZR__REFUSED("multi-latent-attention=true", "zr has no multi-latent attention"),
    ZR__REFUSED("fp8-format=*",
                "zr plans the memory of 16-bit and 32-bit training only; leave out the fp8 options, and for "
                "times alone add --with fp8-format"),
    ZR__REFUSED("fp4-format=*",
                "zr plans the memory of 16-bit and 32-bit training only; leave out the fp4 options, and for "
                "times alone add --with fp4-format"),
    ZR__REFUSED("use-megatron-fsdp=true",
                "zr does not plan Megatron-FSDP; the nearest that it plans is --use-distributed-optimizer"),
    ZR__REFUSED("use-torch-fsdp2=true", "zr does not plan FSDP2 inside Megatron-LM; plan it with --system fsdp2"),
    ZR__REFUSED("optimizer-cpu-offload=true", "zr does not plan the offload of Megatron-LM; leave it out"),
    ZR__REFUSED("cpu-offloading-num-layers=*", "zr does not plan the offload of Megatron-LM; leave it out"),

    /* the model */
    ZR__WRITE("", "model.preset=*"), /* the sizes say it */
    ZR__WRITE("", "model.init=*"),
    ZR__BOTH(BLOCK " add-qkv-bias=true", "model.type=qwen2"),
    ZR__BOTH(BLOCK " qk-layernorm=true", "model.type=qwen3"),
    ZR__BOTH(BLOCK, "model.type=llama"),
    ZR__WRITE(BLOCK, "model.type=mistral"),
    ZR__READ("?num-layers", "?!model.type model.type=gpt2"),
    ZR__WRITE("", "model.type=gpt2"),
    ZR__BOTH("num-layers=*", LLAMA "model.num_hidden_layers=*"),
    ZR__BOTH("hidden-size=*", LLAMA "model.hidden_size=*"),
    ZR__BOTH("ffn-hidden-size=*", LLAMA "model.intermediate_size=*"),
    ZR__BOTH("num-attention-heads=*", LLAMA "model.num_attention_heads=*"),
    ZR__BOTH("group-query-attention=true num-query-groups=*", LLAMA "model.num_key_value_heads=*"),
    ZR__BOTH("kv-channels=*", LLAMA "model.head_dim=*"),
    ZR__BOTH("max-position-embeddings=*", LLAMA "model.max_position_embeddings=*"),
    ZR__BOTH("untie-embeddings-and-output-weights=true", LLAMA "model.tie_word_embeddings=false"),
    ZR__STANDARD("", LLAMA "model.tie_word_embeddings=true"),
    ZR__BOTH("norm-epsilon=*", LLAMA "model.rms_norm_eps=*"),
    ZR__BOTH("rotary-base=*", LLAMA "model.rope_theta=*"),
    ZR__BOTH("num-layers=*", GPT2 "model.n_layer=*"),
    ZR__BOTH("hidden-size=*", GPT2 "model.n_embd=*"),
    ZR__BOTH("num-attention-heads=*", GPT2 "model.n_head=*"),
    ZR__BOTH("max-position-embeddings=*", GPT2 "model.n_positions=*"),
    ZR__BOTH("norm-epsilon=*", GPT2 "model.layer_norm_epsilon=*"),
    SHAPE("ffn-hidden-size"),
    SHAPE("swiglu"),
    SHAPE("normalization"),
    SHAPE("position-embedding-type"),
    SHAPE("untie-embeddings-and-output-weights"),
    SHAPE("disable-bias-linear"),
    ZR__BOTH("group-query-attention=true num-query-groups=*", GPT2 "with.num-query-groups=*"),
    ZR__BOTH("vocab-size=*", "model.vocab_size=*"),
    ZR__STANDARD("?tokenizer-type=GPT2BPETokenizer", "model.vocab_size=50257"),
    ZR__BOTH("init-method-std=*", "model.initializer_range=*"),
    SAME("make-vocab-size-divisible-by"),
    SAME("hidden-dropout"),
    SAME("attention-dropout"),
    ZR__WRITE("hidden-dropout=*", GPT2 "?!with.hidden-dropout model.resid_pdrop=*"),
    ZR__WRITE("attention-dropout=*", GPT2 "?!with.attention-dropout model.attn_pdrop=*"),
    ZR__WRITE("hidden-dropout=0", LLAMA "?!with.hidden-dropout"),
    ZR__WRITE("attention-dropout=*", LLAMA "?!with.attention-dropout model.attention_dropout=*"),
    /* said already by the option of the same meaning, which counts */
    ZR__WRITE("", GPT2 "?with.hidden-dropout=* model.resid_pdrop=*"),
    ZR__WRITE("", GPT2 "?with.attention-dropout=* model.attn_pdrop=*"),
    ZR__WRITE("", LLAMA "?with.attention-dropout=* model.attention_dropout=*"),
    ZR__STANDARD("", "with.hidden-dropout=0.1 with.attention-dropout=0.1"),
    ZR__BOTH("seq-length=*", "data.seq_length=*"),

    /* batch, types, optimizer */
    ZR__BOTH("micro-batch-size=*", "train_micro_batch_size_per_gpu=*"),
    ZR__BOTH("global-batch-size=*", "global=*"),
    ZR__WRITE("", "gradient_accumulation_steps=*"), /* follows from the two */
    ZR__BOTH("bf16=true", "bf16.enabled=true"),
    ZR__BOTH("fp16=true", "fp16.enabled=true"),
    ZR__STANDARD("", "bf16.enabled=false fp16.enabled=false"),
    ZR__BOTH("clip-grad=*", "gradient_clipping=*"),
    ZR__STANDARD("", "gradient_clipping=1"),
    ZR__READ("optimizer=adam", ""),
    SAME("grad-reduce-in-bf16"),
    SAME("accumulate-allreduce-grads-in-fp32"),
    SAME("use-precision-aware-optimizer"),
    SAME("main-grads-dtype"),
    SAME("main-params-dtype"),
    SAME("exp-avg-dtype"),
    SAME("exp-avg-sq-dtype"),
    SAME("no-gradient-accumulation-fusion"),
    ZR__BOTH("use-distributed-optimizer=true", "zero_optimization.stage=1"),
    ZR__STANDARD("", "zero_optimization.stage=0"),
    SAME("num-distributed-optimizer-instances"),

    /* ranks */
    ZR__BOTH("nnodes=*", "hosts=*"),
    ZR__BOTH("nproc_per_node=*", "per_host=*"),
    ZR__BOTH("tensor-model-parallel-size=*", "parallel.tensor=*"),
    SAME("sequence-parallel"),
    SAME("context-parallel-size"),
    ZR__BOTH("pipeline-model-parallel-size=*", "parallel.pipeline=*"),
    ZR__BOTH("num-virtual-stages-per-pipeline-rank=*", "parallel.schedule=interleaved parallel.chunks=*"),
    ZR__READ("num-layers-per-virtual-pipeline-stage=*", "parallel.schedule=interleaved layers_per_chunk=*"),
    ZR__STANDARD("", "parallel.schedule=1f1b"),
    SAME("microbatch-group-size-per-virtual-pipeline-stage"),

    /* recompute */
    ZR__BOTH("recompute-granularity=full recompute-method=uniform recompute-num-layers=*",
             POLICY "unit activation_checkpointing.every=*"),
    ZR__WRITE("recompute-granularity=full recompute-method=uniform recompute-num-layers=1", POLICY "unit"),
    ZR__BOTH("recompute-granularity=selective recompute-modules=*", POLICY "selective with.recompute-modules=*"),
    ZR__BOTH("recompute-granularity=selective", POLICY "selective"),
    ZR__REFUSED("recompute-activations=true ?recompute-granularity=full",
                "it means recompute-granularity selective, and that is full; leave out one of them"),
    ZR__READ("recompute-activations=true", POLICY "selective"),
    ZR__NEAREST(
        "recompute-granularity=full recompute-method=uniform recompute-num-layers=1", POLICY "auto",
        "activation_checkpointing.policy auto: Megatron-LM chooses nothing by a limit, so every layer is recomputed"),
    ZR__READ("recompute-granularity=full", POLICY "unit"),
    ZR__STANDARD("", POLICY "none"),
    SAME("recompute-method"),
    SAME("recompute-num-layers"),
    SAME("recompute-modules"),

    /* implementation */
    SAME("transformer-impl"),
    SAME("attention-backend"),
    ZR__READ("use-flash-attn=true", "with.attention-backend=flash"),
    SAME("cross-entropy-loss-fusion"),
    SAME("no-create-attention-mask-in-dataloader"),
    SAME("overlap-grad-reduce"),
    SAME("overlap-param-gather"),
    SAME("tp-comm-overlap"),
    {0}};

const zr__format zr__format_megatron = {
    .name = "megatron",
    .title = "Megatron-LM's command line",
    .syntax = ZR__SYNTAX_SHELL,
    .systems = "megatron",
    .needs = "with.* activation_checkpointing.policy model.type",
    .signs = "tensor-model-parallel-size pipeline-model-parallel-size num-layers hidden-size num-attention-heads "
             "micro-batch-size global-batch-size use-distributed-optimizer recompute-granularity swiglu seq-length "
             "transformer-impl train-iters train-samples context-parallel-size",
    .idle =
        "adam-* weight-decay* start-weight-decay end-weight-decay lr lr-* min-lr override-opt* use-checkpoint-opt* "
        "decoupled-lr decoupled-min-lr decoupled-weight-decay train-iters train-samples train-data-* valid-data-* "
        "test-data-* eval-* save* load* no-save-* no-load-* ckpt-* async-save use-dist-ckpt* dist-ckpt-* "
        "auto-detect-ckpt-format exit-* log-* no-log* tensorboard-* wandb-* timing-* one-logger* enable-one-logger "
        "profile* use-pytorch-profiler record-memory-history memory-snapshot-path seed data-* split mock-data "
        "vocab-file merge-file tokenizer-* tiktoken-* num-workers num-dataset-builder-threads dataloader-type "
        "reset-position-ids reset-attention-mask eod-mask-loss no-mmap-bin-files s3-* per-split-data-args-path "
        "distributed-backend distributed-timeout-minutes local-rank local_rank node_rank master_addr master_port "
        "rdzv* max_restarts monitor_interval role redirects tee log_dir standalone start_method no_python module "
        "use-mcore-models use-legacy-models no-position-embedding rotary-percent rotary-seq-len-interpolation-factor "
        "use-rotary-position-embeddings use-rope-scaling rope-scaling-factor apply-layernorm-1p "
        "no-rope-fusion no-bias-swiglu-fusion no-bias-gelu-fusion no-bias-dropout-fusion no-masked-softmax-fusion "
        "no-persist-layer-norm attention-softmax-in-fp32 apply-query-key-layer-scaling calculate-per-token-loss "
        "init-method-xavier-uniform initial-loss-scale min-loss-scale loss-scale loss-scale-window hysteresis "
        "manual-gc manual-gc-* empty-unused-memory-level check-for-* no-check-for-* check-weight-* "
        "no-use-tokenizer-model-from-checkpoint-args no-barrier-with-level-1-timing use-cpu-initialization "
        "no-strict-fsdp-dtensor-load rerun-mode error-injection-* result-rejected-*",
    .timing = "overlap-param-gather-* align-param-gather no-align-grad-reduce delay-grad-reduce* "
              "ddp-bucket-size ddp-num-buckets ddp-average-in-collective ddp-pad-buckets-* overlap-p2p-* "
              "no-overlap-p2p-communication no-async-tensor-model-parallel-allreduce use-ring-exchange-p2p "
              "cp-comm-type use-tp-pp-dp-mapping deterministic-mode high-priority-stream-groups nccl-*",
    .launch = "nnodes nproc_per_node",
    .command = "torchrun \"${launch[@]}\" pretrain_gpt.py \"${args[@]}\" \"$@\"",
    .shapes = true,
    .rule = rules};
