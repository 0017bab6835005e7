//TEST timeout=60
/* Plans of other systems' runs: formulas with numbers calculated by hand, the stages of a pipeline, measured runs, bad
 * options. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "systems/systems.h"

/* ---- runs ------------------------------------------------------------------------------------ */

/* A run as text: a system with its options, and keys of zr, each separated by blanks. */
typedef struct wanted {
    const char *system;
    int ranks;
    bool hopper;
    const char *keys, *with;
} wanted;

#define WORDS_MOST 32
#define TEXT_MOST 1024

static int cut(char *text, const char *words[WORDS_MOST])
{
    int n = 0;
    for (char *save = NULL, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        assert_true(n < WORDS_MOST);
        words[n++] = word;
    }
    return n;
}

/* Begin a run. The configuration is destroyed by the caller. */
static zr_status begin(const wanted *w, zr_config **config, zr__run *run)
{
    char keys[TEXT_MOST], with[TEXT_MOST];
    const char *key[WORDS_MOST], *option[WORDS_MOST];
    const zr__system *system;
    snprintf(keys, sizeof(keys), "%s", w->keys);
    snprintf(with, sizeof(with), "%s", w->with);
    const int n_keys = cut(keys, key), n_with = cut(with, option);
    ZR_TRY(zr_config_parse("{}", 2, "test.json", key, n_keys, config));
    ZR_TRY(zr_config_resolve(*config, w->ranks));
    ZR_TRY(zr__system_find(w->system, &system));
    *run = (zr__run){.hopper = w->hopper};
    return zr__run_begin(run, system, *config, w->ranks, option, n_with);
}

static zr__run_memory measure(const wanted *w)
{
    zr_config *config = NULL;
    zr__run run;
    zr__run_memory memory;
    const zr_status began = begin(w, &config, &run);
    if (began != ZR_OK) fail_msg("%s %s: %s", w->system, w->with, zr_error_message());
    if (zr__run_measure(&run, &memory) != ZR_OK) fail_msg("%s %s: %s", w->system, w->with, zr_error_message());
    zr_config_destroy(&config);
    return memory;
}

static void near(const char *what, double have, double want, double share)
{
    if (!(fabs(have - want) <= share * fabs(want) + 0.5)) fail_msg("%s: have %.10g, want %.10g", what, have, want);
}

/* Check a part of the first pipeline rank. */
static void part_is(const wanted *w, zr__moment moment, zr__part part, double want)
{
    zr__run_memory memory = measure(w);
    char what[256];
    snprintf(what, sizeof(what), "%s %s %s, %s of %s", w->system, w->keys, w->with, zr__part_name(part),
             zr__moment_name(moment));
    near(what, memory.rank[0].part[moment][part], want, 0);
    zr__run_memory_clear(&memory);
}

/* A GPT-2 of 2 blocks and width 64: 12 h^2 + 13 h elements a block, 256 + 32 rows of tables, a norm at the end. */
#define GPT                                                                                                            \
    "model.type=gpt2 model.n_layer=2 model.n_embd=64 model.n_head=4 model.vocab_size=256 model.n_positions=32 "        \
    "data.seq_length=32 train_micro_batch_size_per_gpu=1 bf16.enabled=true "
#define P (2 * (12 * 64 * 64 + 13 * 64) + (256 + 32) * 64 + 2 * 64.0)
#define TABLE (2 * 256 * 64.0) /* bytes of the gradient of the table in 16 bit */
#define STAGE(s) "zero_optimization.stage=" #s " "

#define PARAMS ZR__PART_PARAMS
#define GRADS ZR__PART_GRADS
#define STATES ZR__PART_STATES
#define BUCKETS ZR__PART_BUCKETS

/* ---- bytes of parameters --------------------------------------------------------------------- */

static void deepspeed(void **state)
{
    (void)state;
    const char *with = "reduce_bucket_size=1000";
    const wanted zero = {"deepspeed", 4, false, GPT STAGE(0), with}, one = {"deepspeed", 4, false, GPT STAGE(1), with},
                 two = {"deepspeed", 4, false, GPT STAGE(2), with}, three = {"deepspeed", 4, false, GPT STAGE(3), with},
                 roomy = {"deepspeed", 4, false, GPT STAGE(1), ""},
                 twice = {"deepspeed", 4, false, GPT STAGE(1) "gradient_accumulation_steps=2", with};
    part_is(&zero, ZR__MOMENT_BETWEEN, PARAMS, 2 * P);
    part_is(&zero, ZR__MOMENT_BETWEEN, STATES, 12 * P);
    part_is(&zero, ZR__MOMENT_BETWEEN, GRADS, 0);
    part_is(&zero, ZR__MOMENT_END, GRADS, 2 * P);
    part_is(&zero, ZR__MOMENT_END, BUCKETS, 2 * P);         /* flattened for the all-reduce */
    part_is(&zero, ZR__MOMENT_STEP, ZR__PART_TEMPS, 8 * P); /* copies in fp32, and flattened */
    part_is(&one, ZR__MOMENT_BETWEEN, STATES, 12 * P / 4);
    /* all, the copy of the table, which no bucket holds, and the owned part, of which a bucket takes the place */
    part_is(&one, ZR__MOMENT_END, GRADS, 2 * P + TABLE + 2 * P / 4 - 2000);
    part_is(&one, ZR__MOMENT_LOSS, BUCKETS, 0); /* the first gradient allocates them */
    part_is(&one, ZR__MOMENT_END, BUCKETS, 2000);
    part_is(&roomy, ZR__MOMENT_END, GRADS, 2 * P + 2 * TABLE); /* two gradients of the table, and their sum */
    part_is(&twice, ZR__MOMENT_LOSS, BUCKETS, 2000);
    part_is(&twice, ZR__MOMENT_LOSS, GRADS, 2 * P);
    part_is(&two, ZR__MOMENT_BETWEEN, PARAMS, 2 * P);
    part_is(&two, ZR__MOMENT_END, GRADS, 2 * P / 4 + TABLE); /* the owned part, and the largest parameter */
    part_is(&two, ZR__MOMENT_END, BUCKETS, 2000 + TABLE);    /* flattened once more */
    /* all parameters divide by 4, and those below 1e5 elements are whole beside their shards */
    part_is(&three, ZR__MOMENT_BETWEEN, PARAMS, 2 * P + 2 * P / 4);
    part_is(&three, ZR__MOMENT_BETWEEN, STATES, 12 * P / 4);
    part_is(&three, ZR__MOMENT_BETWEEN, GRADS, 2 * P / 4);
    part_is(&three, ZR__MOMENT_STEP, ZR__PART_TEMPS, fmax(6 * P / 4, 8.0 * 256 * 64 / 4));
}

static void deepspeed_options(void **state)
{
    (void)state;
    const wanted sums = {"deepspeed", 4, false, GPT STAGE(1), "grad_accum_dtype=fp32"},
                 overlap = {"deepspeed", 4, false, GPT STAGE(2), "reduce_bucket_size=1000 overlap_comm=true"},
                 none_whole = {"deepspeed", 4, false, GPT STAGE(3), "stage3_param_persistence_threshold=0"},
                 narrow = {"deepspeed", 4, false, GPT STAGE(2),
                           "bf16_master_weights_and_grads=true bf16_optimizer_states=true"},
                 key = {"deepspeed", 4, false, GPT STAGE(2) "zero_optimization.reduce_bucket_size=3000", ""},
                 away = {"deepspeed", 4, false, GPT STAGE(2) "zero_optimization.offload_optimizer.device=cpu", ""};
    part_is(&sums, ZR__MOMENT_BETWEEN, GRADS, 4 * P); /* BF16_Optimizer keeps sums of all */
    part_is(&sums, ZR__MOMENT_END, GRADS, 6 * P);
    part_is(&overlap, ZR__MOMENT_BACKWARD, BUCKETS, 4000 + TABLE);
    part_is(&none_whole, ZR__MOMENT_BETWEEN, PARAMS, 2 * P / 4);
    part_is(&narrow, ZR__MOMENT_BETWEEN, STATES, 6 * P / 4);
    part_is(&key, ZR__MOMENT_BACKWARD, BUCKETS, 6000 + TABLE); /* a key of zr that is given counts */
    part_is(&away, ZR__MOMENT_BETWEEN, STATES, 0);
    zr__run_memory memory = measure(&away);
    near("host", memory.rank[0].host, (16 + 2) * P / 4, 0); /* with staging of gradients */
    zr__run_memory_clear(&memory);
}

static void fsdp2(void **state)
{
    (void)state;
    const wanted shards = {"fsdp2", 4, false, GPT, ""}, narrow = {"fsdp2", 4, false, GPT, "dtype=bfloat16"},
                 second = {"fsdp2", 4, false, GPT STAGE(2), ""},
                 freed = {"fsdp2", 4, false, GPT, "gradients_persist=false"},
                 unsynced = {"fsdp2", 4, false, GPT "gradient_accumulation_steps=2", "sync_each_batch=false"};
    const double block = 12 * 64 * 64 + 13 * 64;
    part_is(&shards, ZR__MOMENT_BETWEEN, PARAMS, 4 * P / 4); /* 16 bytes a parameter in all */
    part_is(&shards, ZR__MOMENT_BETWEEN, GRADS, 4 * P / 4);
    part_is(&shards, ZR__MOMENT_BETWEEN, STATES, 8 * P / 4);
    part_is(&shards, ZR__MOMENT_LOSS, ZR__PART_GATHERED, 2 * (2 * block + 256 * 64)); /* two blocks and the head */
    part_is(&shards, ZR__MOMENT_BACKWARD, BUCKETS, (2 + 4) * block + TABLE);          /* the table's gradient waits */
    part_is(&shards, ZR__MOMENT_END, BUCKETS, 4 * block + 3 * TABLE);
    part_is(&freed, ZR__MOMENT_BETWEEN, GRADS, 0);
    part_is(&narrow, ZR__MOMENT_BETWEEN, STATES, 4 * P / 4);
    part_is(&second, ZR__MOMENT_LOSS, ZR__PART_GATHERED, 2 * P);
    part_is(&unsynced, ZR__MOMENT_LOSS, GRADS, 4 * P);
    /* rows are padded: 64 of a norm over 48 ranks are 2 each */
    const wanted padded = {"fsdp2", 48, false, GPT, ""};
    const double rows = 2 * (2 * 2 + 192 * 2.0 * 2 / 2);
    zr__run_memory memory = measure(&padded);
    assert_true(memory.rank[0].part[ZR__MOMENT_BETWEEN][PARAMS] > 4 * P / 48 + rows);
    zr__run_memory_clear(&memory);
}

static void replicas(void **state)
{
    (void)state;
    const wanted ddp = {"ddp", 2, false, GPT, ""}, view = {"ddp", 2, false, GPT, "gradient_as_bucket_view=true"},
                 narrow = {"ddp", 2, false, GPT, "dtype=bfloat16 optimizer=fused"},
                 loop = {"ddp", 2, false, GPT, "optimizer=for-loop"}, trainer = {"trainer", 2, false, GPT, ""},
                 sharded = {"trainer", 4, false, GPT STAGE(3), ""};
    part_is(&ddp, ZR__MOMENT_BETWEEN, PARAMS, 4 * P);
    part_is(&ddp, ZR__MOMENT_BETWEEN, STATES, 8 * P);
    part_is(&ddp, ZR__MOMENT_BETWEEN, BUCKETS, 4 * P);
    part_is(&ddp, ZR__MOMENT_END, GRADS, 4 * P + 4 * TABLE);    /* two gradients of the table, and their sum */
    part_is(&ddp, ZR__MOMENT_END, ZR__PART_HEAD, 2 * 256 * 32); /* the output's logits */
    part_is(&loop, ZR__MOMENT_STEP, ZR__PART_TEMPS, 4 * TABLE);
    part_is(&trainer, ZR__MOMENT_END, ZR__PART_HEAD, 0);
    part_is(&ddp, ZR__MOMENT_LOSS, ZR__PART_GATHERED, 2 * P); /* copies that autocast keeps */
    part_is(&ddp, ZR__MOMENT_STEP, ZR__PART_TEMPS, 4 * P);    /* foreach */
    part_is(&view, ZR__MOMENT_BETWEEN, BUCKETS, 0);
    part_is(&narrow, ZR__MOMENT_BETWEEN, STATES, 4 * P);
    part_is(&narrow, ZR__MOMENT_STEP, ZR__PART_TEMPS, 0);
    part_is(&trainer, ZR__MOMENT_BETWEEN, STATES, 4 * P);     /* transformers 5 loads the checkpoint's bf16 */
    part_is(&sharded, ZR__MOMENT_BETWEEN, STATES, 8 * P / 4); /* accelerate makes fp32 shards of it */
}

static void megatron(void **state)
{
    (void)state;
    const wanted plain = {"megatron", 4, false, GPT, ""}, cut_up = {"megatron", 4, false, GPT STAGE(1), ""},
                 narrow = {"megatron", 4, false, GPT STAGE(1), "grad-reduce-in-bf16=true"},
                 aware = {"megatron", 4, false, GPT STAGE(1),
                          "use-precision-aware-optimizer=true exp-avg-dtype=bf16 exp-avg-sq-dtype=bf16"},
                 context = {"megatron", 4, false, GPT STAGE(1), "context-parallel-size=2"},
                 instances = {"megatron", 4, false, GPT STAGE(1), "num-distributed-optimizer-instances=2"};
    part_is(&plain, ZR__MOMENT_BETWEEN, PARAMS, 2 * P); /* 18 bytes a parameter in all */
    part_is(&plain, ZR__MOMENT_BETWEEN, GRADS, 4 * P);
    part_is(&plain, ZR__MOMENT_BETWEEN, STATES, 12 * P);
    part_is(&cut_up, ZR__MOMENT_BETWEEN, STATES, 12 * P / 4);
    part_is(&narrow, ZR__MOMENT_BETWEEN, GRADS, 2 * P);
    part_is(&narrow, ZR__MOMENT_STEP, ZR__PART_TEMPS, 4 * P / 4);
    part_is(&aware, ZR__MOMENT_BETWEEN, STATES, 6 * P / 4);
    part_is(&context, ZR__MOMENT_BETWEEN, STATES, 12 * P / 4); /* over data and context ranks */
    part_is(&instances, ZR__MOMENT_BETWEEN, STATES, 12 * P / 2);
}

/* Frozen weights have neither gradients nor states; factors of rank 2 have 2 (inputs + outputs) elements a layer. */
static void adapters(void **state)
{
    (void)state;
    const wanted w = {"trainer", 1, false, GPT "model.lora.rank=2", ""};
    const double factors = 2 * 2 * ((64 + 192) + (64 + 64) + (64 + 256) + (256 + 64));
    part_is(&w, ZR__MOMENT_BETWEEN, PARAMS, 2 * (P + factors));
    part_is(&w, ZR__MOMENT_BETWEEN, STATES, 4 * factors);
    part_is(&w, ZR__MOMENT_END, GRADS, 2 * factors);
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Return the bytes that a block keeps for a token, as a multiple of the width: the difference of two models. */
static double kept(const char *system, int ranks, const char *keys, const char *with, int64_t width, int64_t tokens)
{
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        char text[TEXT_MOST];
        snprintf(text, sizeof(text), "%s %s=%d", keys,
                 strstr(keys, "n_embd") ? "model.n_layer" : "model.num_hidden_layers", 2 + 2 * i);
        const wanted w = {system, ranks, false, text, with};
        zr__run_memory memory = measure(&w);
        bytes[i] = memory.rank[0].part[ZR__MOMENT_LOSS][ZR__PART_ACTIVATIONS];
        zr__run_memory_clear(&memory);
    }
    return (bytes[1] - bytes[0]) / 2 / (double)(width * tokens);
}

#define NARROW                                                                                                         \
    "model.type=gpt2 model.n_embd=1024 model.n_head=8 model.n_positions=128 data.seq_length=128 "                      \
    "train_micro_batch_size_per_gpu=2 bf16.enabled=true "
#define WIDE                                                                                                           \
    "model.type=llama model.hidden_size=4096 model.num_attention_heads=32 model.num_key_value_heads=8 "                \
    "model.intermediate_size=11264 model.vocab_size=1000 data.seq_length=128 train_micro_batch_size_per_gpu=1 "        \
    "bf16.enabled=true "
#define UNIT "activation_checkpointing.policy=unit "

static void activations(void **state)
{
    (void)state;
    /* norms keep two fp32 numbers a token, attention 4 bytes a head: s = 16 + 4 a over h */
    const double gpt = (2 * 8 + 4 * 8) / 1024.0, llama = (2 * 4 + 4 * 32) / 4096.0;
    near("te", kept("megatron", 1, NARROW, "", 1024, 256), 8 + 8 + 16 + gpt, 1e-9);
    near("te, dropout", kept("megatron", 1, NARROW "model.resid_pdrop=0.1", "", 1024, 256), 10 + 8 + 16 + gpt, 1e-9);
    near("unfused", kept("megatron", 1, NARROW, "attention-backend=unfused", 1024, 256),
         8 + 8 + 16 + (16 + 2 * 8 * 128) / 1024.0, 1e-9);
    near("tensor", kept("megatron", 2, NARROW "parallel.tensor=2", "", 1024, 256), 8 + 4 + 8 + (16 + 16) / 1024.0,
         1e-9);
    near("sequence", kept("megatron", 2, NARROW "parallel.tensor=2", "sequence-parallel=true", 1024, 256),
         4 + 4 + 8 + (8 + 16) / 1024.0, 1e-9);
    near("full", kept("megatron", 1, NARROW UNIT, "", 1024, 256), 2, 1e-9);
    near("layernorm",
         kept("megatron", 1, NARROW, "recompute-granularity=selective recompute-modules=layernorm", 1024, 256),
         4 + 8 + 16 + gpt, 1e-9);
    near("mlp", kept("megatron", 1, NARROW, "recompute-granularity=selective recompute-modules=mlp", 1024, 256),
         8 + 8 + gpt, 1e-9);
    /* 43.07 h for a Llama of transformers and 56.1 h for its GPT-2, without the heads' share counted on a processor */
    near("llama of transformers", kept("deepspeed", 1, WIDE, "", 4096, 128), 16 + 3 + 2 + 22 + llama, 1e-9);
    near("autocast", kept("ddp", 1, WIDE, "", 4096, 128), 26 + 3 + 2 + 22 + llama, 1e-9);
    near("gpt-2 of transformers", kept("deepspeed", 1, NARROW, "", 1024, 256), 32 + 24 + gpt, 1e-9);
    near("gradient_checkpointing", kept("deepspeed", 1, WIDE UNIT, "", 4096, 128), 2, 1e-9);
    near("compiled", kept("fsdp2", 1, WIDE, "compile=model", 4096, 128), 4 + 3 + 2 + 11 + llama, 1e-9);
    near("thunder", kept("fsdp2", 1, WIDE, "compile=model compile_backend=thunder", 4096, 128),
         4 + 3 + 2 + 16.5 + llama, 1e-9);
    near("every second product", kept("fsdp2", 1, WIDE, "activation_checkpoint=selective", 4096, 128),
         2 + 2 + 0.5 + 2 + 5.5 + 2 + 4 * 32 / 4096.0, 1e-9);
    near("padding", kept("deepspeed", 1, WIDE, "attention_mask=true", 4096, 128),
         16 + 3 + 2 + 22 + llama + 4 * 0.75 + 2 * 128 / 4096.0, 1e-9);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

static void pipeline(void **state)
{
    (void)state;
    const wanted w = {"megatron", 4, false, GPT "model.n_layer=4 parallel.pipeline=4 gradient_accumulation_steps=8",
                      "no-create-attention-mask-in-dataloader=true"};
    zr__run_memory memory = measure(&w);
    const double block = 12 * 64 * 64 + 13 * 64, table = 256 * 64, positions = 32 * 64;
    assert_int_equal(memory.n, 4);
    const double elems[4] = {block + table + positions, block, block, block + table + 128};
    double act[4];
    for (int r = 0; r < 4; r++) {
        near("parameters", memory.rank[r].part[ZR__MOMENT_BETWEEN][PARAMS], 2 * elems[r], 0);
        act[r] = memory.rank[r].part[ZR__MOMENT_LOSS][ZR__PART_ACTIVATIONS];
    }
    near("rank 0 has four micro-batches", act[0], 4 * act[2] / 2, 0);
    near("rank 1 has three", act[1], 3 * act[2] / 2, 0);
    assert_true(memory.rank[3].part[ZR__MOMENT_LOSS][ZR__PART_HEAD] == 6 * 32 * 256);
    assert_true(memory.rank[0].part[ZR__MOMENT_LOSS][ZR__PART_HEAD] == 0);
    assert_int_equal(memory.fullest, 0);
    zr__run_memory_clear(&memory);
}

/* Options that say a key of zr are that key: a run is the same whichever says it. */
static void same_keys(void **state)
{
    (void)state;
    static const struct {
        wanted option, key;
    } pairs[] = {
        {{"fsdp2", 2, false, GPT, "activation_checkpoint=selective"},
         {"fsdp2", 2, false, GPT "activation_checkpointing.policy=selective", ""}},
        {{"megatron", 2, false, GPT, "recompute-granularity=full"},
         {"megatron", 2, false, GPT "activation_checkpointing.policy=unit", ""}},
        {{"megatron", 2, false, GPT "model.n_layer=8 parallel.pipeline=2", "num-virtual-stages-per-pipeline-rank=2"},
         {"megatron", 2, false,
          GPT "model.n_layer=8 parallel.pipeline=2 parallel.schedule=interleaved parallel.chunks=2", ""}}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const wanted none = {pairs[i].option.system, 2, false, i < 2 ? GPT : GPT "model.n_layer=8 parallel.pipeline=2",
                             ""};
        zr__run_memory option = measure(&pairs[i].option), key = measure(&pairs[i].key), plain = measure(&none);
        near("allocated", option.allocated, key.allocated, 0);
        assert_true(option.allocated != plain.allocated);
        zr__run_memory_clear(&option);
        zr__run_memory_clear(&key);
        zr__run_memory_clear(&plain);
    }
}

/* Places of checkpoints, which no system applies, change nothing, and a note says so. */
static void places(void **state)
{
    (void)state;
    const wanted with = {
        "deepspeed", 2, false,
        GPT STAGE(2) "activation_checkpointing.policy=unit activation_checkpointing.cpu_checkpointing=true", ""};
    zr_config *config = NULL;
    zr__run run;
    assert_int_equal(begin(&with, &config, &run), ZR_OK);
    assert_false(config->recompute.cpu);
    const int n = zr_config_notes(config);
    assert_true(n > 0 &&
                strstr(zr_config_note(config, n - 1), "cpu_checkpointing) has no effect on a run of DeepSpeed"));
    zr_config_destroy(&config);
}

/* ---- measured runs --------------------------------------------------------------------------- */

#define SMALL                                                                                                          \
    "model.type=gpt2 model.n_layer=12 model.n_embd=512 model.n_head=8 model.n_positions=1024 data.seq_length=1024 "    \
    "train_micro_batch_size_per_gpu=4 bf16.enabled=true model.vocab_size=50304 "
#define SMALL_WITH "CUBLAS_WORKSPACE_CONFIG=:4096:8 no-gradient-accumulation-fusion=true "
#define DROPS "hidden-dropout=0.1 attention-dropout=0.1 "
#define SEVEN                                                                                                          \
    "model.type=gpt2 model.n_layer=32 model.n_embd=4096 model.n_head=32 model.vocab_size=131200 "                      \
    "model.n_positions=8192 data.seq_length=8192 train_micro_batch_size_per_gpu=1 gradient_accumulation_steps=4 "      \
    "parallel.pipeline=4 bf16.enabled=true " STAGE(1)
#define SEVEN_WITH                                                                                                     \
    SMALL_WITH DROPS "num-query-groups=8 num-virtual-stages-per-pipeline-rank=8 "                                      \
                     "microbatch-group-size-per-virtual-pipeline-stage=4 "                                             \
                     "untie-embeddings-and-output-weights=true"
#define THIRTEEN(layers)                                                                                               \
    "model.type=llama model.num_hidden_layers=" #layers " model.hidden_size=5120 model.num_attention_heads=40 "        \
    "model.intermediate_size=13824 model.vocab_size=32000 model.max_position_embeddings=4096 data.seq_length=4096 "    \
    "train_micro_batch_size_per_gpu=2 bf16.enabled=true " STAGE(2)
#define LIT "model_code=litgpt dtype=bfloat16 reduce_dtype=bfloat16 loss_dtype=bfloat16 compile=model compile_backend="
#define EIGHT                                                                                                          \
    "model.type=llama model.num_hidden_layers=32 model.hidden_size=4096 model.num_attention_heads=32 "                 \
    "model.num_key_value_heads=8 model.intermediate_size=14336 model.vocab_size=128256 data.seq_length=8192 "          \
    "model.max_position_embeddings=8192 bf16.enabled=true "
#define NEMO                                                                                                           \
    EIGHT "train_micro_batch_size_per_gpu=1 gradient_accumulation_steps=32 " STAGE(1),                                 \
        "context-parallel-size=2 grad-reduce-in-bf16=true cross-entropy-loss-fusion=true"
#define EIGHTY                                                                                                         \
    "model.type=llama model.num_hidden_layers=80 model.hidden_size=8192 model.num_attention_heads=64 "                 \
    "model.intermediate_size=28672 model.vocab_size=131072 model.max_position_embeddings=4096 data.seq_length=4096 "   \
    "train_micro_batch_size_per_gpu=1 gradient_accumulation_steps=8 parallel.tensor=8 parallel.pipeline=4 "            \
    "bf16.enabled=true "

#define GRID "model.vocab_size=50432 parallel.tensor=2 parallel.pipeline=2 gradient_accumulation_steps=8"
#define GRID_WITH                                                                                                      \
    "sequence-parallel=true context-parallel-size=2 attention-backend=flash no-gradient-accumulation-fusion=true"
#define FULL_WITH SMALL_WITH DROPS "recompute-granularity=full attention-backend=unfused"

enum { ALLOCATED, BETWEEN, RESERVED };
typedef struct row {
    wanted run;
    int rank; /* pipeline rank that was measured */
    int what;
    double bytes, share; /* measured bytes, and how far the plan may be off */
    const char *source;
} row;

static const row rows[] = {
    {{"megatron", 8, true, SMALL GRID, GRID_WITH},
     1,
     BETWEEN,
     510689792,
     0.02,
     "H100, tensor 2, pipeline 2, context 2"},
    {{"megatron", 8, true, SMALL GRID, GRID_WITH},
     1,
     ALLOCATED,
     935253504,
     0.03,
     "H100, tensor 2, pipeline 2, context 2"},
    {{"megatron", 8, false, SMALL, FULL_WITH}, 0, ALLOCATED, 2534070272, 0.02, "A100, full recompute, unfused"},
    {{"megatron", 8, false, SMALL STAGE(1), SMALL_WITH DROPS},
     0,
     BETWEEN,
     552128512,
     0.01,
     "A100, distributed optimizer"},
    {{"megatron", 8, false, SEVEN, SEVEN_WITH}, 3, BETWEEN, 24510808064, 0.01, "A100, 7B, 8 stages a rank"},
    {{"megatron", 8, false, SEVEN, SEVEN_WITH}, 3, ALLOCATED, 60489064448, 0.03, "A100, 7B, 8 stages a rank"},
    {{"megatron", 8, true, NEMO}, 0, BETWEEN, 44.27e9, 0.01, "H100, Llama 3.1 8B, NeMo"},
    {{"megatron", 8, true, NEMO}, 0, ALLOCATED, 70.83e9, 0.05, "H100, Llama 3.1 8B, NeMo"},
    {{"fsdp2", 1, true, THIRTEEN(4), LIT "thunder"}, 0, ALLOCATED, 18.94e9, 0.04, "H100, litgpt, 4 layers"},
    {{"fsdp2", 1, true, THIRTEEN(4), LIT "inductor"}, 0, ALLOCATED, 18.35e9, 0.04, "H100, litgpt, 4 layers"},
    {{"fsdp2", 8, true, THIRTEEN(4), LIT "inductor"}, 0, ALLOCATED, 9.95e9, 0.04, "8 H100, litgpt, 4 layers"},
    {{"fsdp2", 8, true, THIRTEEN(10), LIT "thunder"}, 0, ALLOCATED, 22.60e9, 0.04, "8 H100, litgpt, 10 layers"},
    {{"fsdp2", 1, true, THIRTEEN(20), LIT "inductor"}, 0, ALLOCATED, 74.56e9, 0.04, "H100, litgpt, 20 layers"},
    {{"fsdp2", 128, true, EIGHT "train_micro_batch_size_per_gpu=2 " STAGE(3), "activation_checkpoint=selective"},
     0,
     RESERVED,
     71940702208,
     0.05,
     "128 H100, torchtitan, eager"},
    {{"nanotron", 32, true, EIGHTY, ""}, 0, ALLOCATED, 70834748129, 0.05, "32 H100, nanotron, 80B"},
};

static void measured(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        zr__run_memory memory = measure(&rows[i].run);
        const zr__rank_memory *rank = &memory.rank[rows[i].rank];
        const double planned = rows[i].what == RESERVED  ? memory.reserved.bytes
                               : rows[i].what == BETWEEN ? zr__moment_bytes(rank, ZR__MOMENT_BETWEEN)
                                                         : zr__moment_bytes(rank, zr__peak_moment(rank));
        near(rows[i].source, planned, rows[i].bytes, rows[i].share);
        zr__run_memory_clear(&memory);
    }
}

/* ---- bad options ----------------------------------------------------------------------------- */

typedef struct refusal {
    wanted run;
    zr_status status;
    const char *message;
} refusal;

static const refusal refusals[] = {
    {{"deepspeeed", 2, false, GPT, ""}, ZR_ERR_ARG, "did you mean \"deepspeed\""},
    {{"deepspeed", 2, false, GPT, "overlap_com=true"}, ZR_ERR_ARG, "did you mean \"overlap_comm\""},
    {{"deepspeed", 2, false, GPT, "zzzzzzzzzzzz=true"}, ZR_ERR_ARG, "its options are reduce_bucket_size"},
    {{"deepspeed", 2, false, GPT, "overlap_comm"}, ZR_ERR_ARG, "wanted NAME=VALUE"},
    {{"deepspeed", 2, false, GPT, "overlap_comm=maybe"}, ZR_ERR_ARG, "wanted true or false"},
    {{"deepspeed", 2, false, GPT, "reduce_bucket_size=-1"}, ZR_ERR_ARG, "wanted an integer from 1"},
    {{"deepspeed", 2, false, GPT, "reduce_bucket_size=1.5"}, ZR_ERR_ARG, "wanted an integer"},
    {{"megatron", 2, false, GPT, "hidden-dropout=2"}, ZR_ERR_ARG, "wanted a number from 0 to 0.999"},
    {{"megatron", 2, false, GPT, "recompute-modules=mlp,moe"}, ZR_ERR_ARG, "some of core_attn|mlp|layernorm"},
    {{"megatron", 2, false, GPT, "transformer-impl=apex"}, ZR_ERR_ARG, "one of transformer_engine|local"},
    {{"ddp", 2, false, GPT STAGE(2), ""}, ZR_ERR_UNSUPPORTED, "DDP shards nothing: give --stage 0"},
    {{"fsdp2", 2, false, GPT STAGE(1), ""}, ZR_ERR_UNSUPPORTED, "give --stage 3, or --system ddp"},
    {{"megatron", 2, false, GPT STAGE(3), ""}, ZR_ERR_UNSUPPORTED, "give --stage 1, or --system fsdp2"},
    {{"trainer", 2, false, GPT STAGE(1), ""}, ZR_ERR_UNSUPPORTED, "give --system deepspeed"},
    {{"deepspeed", 2, false, GPT "optimizer.type=AdamW8bit", ""}, ZR_ERR_UNSUPPORTED, "which DeepSpeed does not have"},
    {{"deepspeed", 2, false, GPT STAGE(0) "activation_checkpointing.policy=selective", ""},
     ZR_ERR_UNSUPPORTED,
     "give the policy unit or none"},
    {{"ddp", 2, false, GPT "activation_checkpointing.policy=keep", ""}, ZR_ERR_UNSUPPORTED, "keep, which zr alone has"},
    {{"fsdp2", 2, false, GPT "activation_checkpointing.policy=none", "activation_checkpoint=full"},
     ZR_ERR_ARG,
     "activation_checkpoint says another recompute than activation_checkpointing.policy"},
    {{"deepspeed", 2, false, GPT "parallel.pipeline=2 parallel.schedule=gpipe", ""},
     ZR_ERR_UNSUPPORTED,
     "does not have this parallel.schedule; give 1f1b"},
    {{"megatron", 2, false, GPT STAGE(1) "zero_optimization.offload_optimizer.device=cpu", ""},
     ZR_ERR_UNSUPPORTED,
     "zr does not plan the offload of Megatron-LM"},
    {{"megatron", 3, false, GPT, "context-parallel-size=2"}, ZR_ERR_ARG, "3 ranks cannot be divided"},
    {{"megatron", 2, false, GPT, "num-virtual-stages-per-pipeline-rank=2"},
     ZR_ERR_UNSUPPORTED,
     "give parallel.pipeline"},
    {{"megatron", 2, false, "model.type=bert bf16.enabled=true", ""}, ZR_ERR_UNSUPPORTED, "plans decoders"},
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const refusal *r = &refusals[i];
        zr_config *config = NULL;
        zr__run run;
        zr__run_memory memory = {0};
        zr_status status = begin(&r->run, &config, &run);
        if (status == ZR_OK) status = zr__run_measure(&run, &memory);
        zr__run_memory_clear(&memory);
        zr_config_destroy(&config);
        if (status != r->status || !strstr(zr_error_message(), r->message))
            fail_msg("%s %s: status %d, \"%s\"; wanted \"%s\"", r->run.system, r->run.with, status, zr_error_message(),
                     r->message);
    }
}

/* Every option of every system has a default of its own type, and its value is written as it is read. */
static void tables(void **state)
{
    (void)state;
    for (int i = 0; zr__system_at(i); i++) {
        const wanted w = {zr__system_at(i)->name, 2, false, GPT, ""};
        zr_config *config = NULL;
        zr__run run;
        assert_int_equal(begin(&w, &config, &run), ZR_OK);
        int n = 0;
        for (const zr__option *option = run.system->option; option->name; option++, n++) {
            char text[ZR__OPTION_BYTES], again[ZR__OPTION_BYTES];
            zr__with_text(&run, option, text);
            assert_int_equal(zr__run_set(&run, option->name, text), ZR_OK);
            assert_string_equal(text, zr__with_text(&run, option, again));
            assert_non_null(option->help);
            for (const zr__option *other = run.system->option; other < option; other++)
                assert_string_not_equal(other->name, option->name);
        }
        assert_true(n > 0 && n < ZR__OPTIONS_MOST);
        zr_config_destroy(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deepspeed),   cmocka_unit_test(deepspeed_options), cmocka_unit_test(fsdp2),
        cmocka_unit_test(replicas),    cmocka_unit_test(adapters),          cmocka_unit_test(megatron),
        cmocka_unit_test(activations), cmocka_unit_test(pipeline),          cmocka_unit_test(measured),
        cmocka_unit_test(refused),     cmocka_unit_test(same_keys),         cmocka_unit_test(places),
        cmocka_unit_test(tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
