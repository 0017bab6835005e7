//TEST timeout=60
/* Configurations of other systems: random plans that are written and read again, texts in every syntax, and wrong ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "systems/formats/formats.h"

/* ---- random plans ---------------------------------------------------------------------------- */

enum { PLANS = 200, CHOICES = 32 };

/* A setting of ours with some of the values that a format can write; "" stands for not given. */
typedef struct choice {
    const char *name, *values;
} choice;

#define BATCH                                                                                                          \
    {"train_micro_batch_size_per_gpu", "1|2|8"}, {"gradient_accumulation_steps", "1|4|6"},                             \
        {"data.seq_length", "2048"},                                                                                   \
    {                                                                                                                  \
        "gradient_clipping", "0|1|0.5"                                                                                 \
    }
#define OFFLOAD "zero_optimization.offload_optimizer.device"
#define LLAMA                                                                                                          \
    {"model.type", "llama|qwen2|qwen3"}, {"model.num_hidden_layers", "16"}, {"model.hidden_size", "1024"},             \
        {"model.intermediate_size", "2816"}, {"model.num_attention_heads", "16"}, {"model.num_key_value_heads", "4"},  \
        {"model.vocab_size", "32000"}, {"model.max_position_embeddings", "4096"},                                      \
    {                                                                                                                  \
        "model.tie_word_embeddings", "true|false"                                                                      \
    }

static const struct {
    const char *format, *carried; /* carried: settings that the system has no place for */
    choice choice[CHOICES];
} kinds[] = {
    {"deepspeed",
     "model.preset data.seq_length activation_checkpointing.policy with.attn_implementation ranks",
     {BATCH,
      {"system", "deepspeed"},
      {"model.preset", "llama3-8b|gpt2-124m"},
      {"zero_optimization.stage", "0|1|2|3"},
      {"bf16.enabled", "true|false"},
      {OFFLOAD, "|cpu"},
      {"activation_checkpointing.policy", "none|unit"},
      {"with.overlap_comm", "|true|false"},
      {"with.reduce_bucket_size", "|50000000|1000000"},
      {"with.grad_accum_dtype", "|fp32|bf16"},
      {"with.stage3_max_live_parameters", "|1000000"},
      {"with.bf16_master_weights_and_grads", "|true"},
      {"with.sequence_parallel_size", "|2"},
      {"with.attn_implementation", "|eager"},
      {"parallel.tensor", "1|2"}}},
    {"accelerate",
     "model.preset data.seq_length train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping "
     "with.reduce_dtype with.attn_implementation",
     {BATCH,
      {"system", "fsdp2"},
      {"model.preset", "llama3-8b"},
      {"zero_optimization.stage", "2|3"},
      {"bf16.enabled", "true|false"},
      {"fp16.enabled", "false"},
      {"activation_checkpointing.policy", "none|unit"},
      {"with.model_code", "transformers"},
      {"with.reduce_dtype", "|float32"},
      {"with.data_parallel_replicate_degree", "|2"},
      {"with.context_parallel_degree", "|2"},
      {"parallel.tensor", "1|2"}}},
    {"accelerate",
     "model.preset data.seq_length train_micro_batch_size_per_gpu gradient_accumulation_steps gradient_clipping "
     "activation_checkpointing.policy",
     {BATCH,
      {"system", "deepspeed|ddp"},
      {"model.preset", "llama3-8b"},
      {"zero_optimization.stage", "0"},
      {"bf16.enabled", "true"},
      {"activation_checkpointing.policy", "none|unit"}}},
    {"fsdp2",
     "model.preset",
     {BATCH,
      {"system", "fsdp2"},
      {"model.preset", "llama3-8b"},
      {"zero_optimization.stage", "2|3"},
      {"bf16.enabled", "true"},
      {"activation_checkpointing.policy", "none|unit"},
      {"with.reduce_dtype", "|bfloat16"},
      {"parallel.tensor", "1|2"}}},
    {"torchtitan",
     "ranks",
     {BATCH,
      {"system", "fsdp2"},
      {"model.preset", "llama3.1-8b|llama3.1-70b|qwen3-0.6b|qwen3-32b"},
      {"zero_optimization.stage", "2|3"},
      {"bf16.enabled", "true|false"},
      {"activation_checkpointing.policy", "none|unit"},
      {"with.model_code", "torchtitan"},
      {"with.loss_chunks", "8"},
      {"with.gradients_persist", "false"},
      {"with.compile", "|model|model,loss"},
      {"with.optimizer", "|foreach"},
      {"with.enable_sequence_parallel", "|false"},
      {"with.context_parallel_degree", "|2"},
      {"parallel.tensor", "1|2"},
      {"parallel.pipeline", "1|4"},
      {"parallel.schedule", "1f1b|gpipe|interleaved|zb_v"},
      {"parallel.chunks", "2"}}},
    {"megatron",
     "ranks",
     {BATCH,
      LLAMA,
      {"system", "megatron"},
      {"zero_optimization.stage", "0|1"},
      {"bf16.enabled", "true"},
      {"activation_checkpointing.policy", "none|unit|selective"},
      {"with.hidden-dropout", "0|0.1"},
      {"with.attention-dropout", "0|0.1"},
      {"with.grad-reduce-in-bf16", "|true"},
      {"with.sequence-parallel", "|true"},
      {"with.context-parallel-size", "|2"},
      {"with.attention-backend", "|flash|unfused"},
      {"parallel.tensor", "1|2|4"},
      {"parallel.pipeline", "2|4"},
      {"parallel.schedule", "1f1b|interleaved"},
      {"parallel.chunks", "2"}}},
    {"trainer",
     "model.preset data.seq_length ranks with.torch_dtype with.attn_implementation",
     {BATCH,
      {"system", "trainer"},
      {"model.preset", "llama3-8b"},
      {"zero_optimization.stage", "0|2|3"},
      {"bf16.enabled", "true|false"},
      {"activation_checkpointing.policy", "none|unit"},
      {"with.optim", "adamw_torch|adamw_torch_fused"},
      {"with.torch_dtype", "|float32"},
      {"with.attn_implementation", "|eager"},
      {"with.use_liger_kernel", "|true"}}},
};

static uint64_t seed = 7;

/* Copy one of the values to `out`. */
static void pick(const char *values, char out[64])
{
    int n = 1;
    for (const char *at = values; *at; at++) n += *at == '|';
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    for (int i = (int)(seed >> 33) % n; i > 0; i--) values += strcspn(values, "|") + 1;
    snprintf(out, 64, "%.*s", (int)strcspn(values, "|"), values);
}

static void add(zr__settings *list, const char *name, const char *value)
{
    assert_int_equal(zr__settings_add(list, name, value, 0), ZR_OK);
}

static bool has(const zr__settings *list, const char *name, const char *value)
{
    const char *had = zr__settings_value(list, name);
    return had && zr__same_value(had, value);
}

/* Make a random plan. Schedules with several stages of a rank have the key chunks, others do not. */
static void make_plan(const choice *choices, zr__settings *ours)
{
    for (; choices->name; choices++) {
        char value[64];
        pick(choices->values, value);
        const bool chunked = has(ours, "parallel.schedule", "interleaved");
        if (!value[0] || (strcmp(choices->name, "parallel.chunks") == 0 && !chunked)) continue;
        if (strcmp(choices->name, "parallel.schedule") == 0 && has(ours, "parallel.pipeline", "1"))
            strcpy(value, "1f1b");
        add(ours, choices->name, value);
    }
}

/* Read a text of a format. The caller clears both. */
static zr_status read_text(const char *text, const zr__format **format, zr__settings *theirs, zr__settings *ours)
{
    ZR_AUTO(zr__text_clear) zr__text said = {0};
    ZR_TRY(zr__settings_read(text, strlen(text), "FILE", theirs));
    *format = zr__format_of(theirs);
    assert_non_null(*format);
    ZR_TRY(zr__format_read(*format, theirs, "FILE", ours, &said));
    return zr__format_settle("FILE", ours, 0, 32, 4096);
}

static const char derived[] = "hosts per_host global local layers_per_chunk";

static bool is_in(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && strchr(" ", at[n])) return true;
    return false;
}

/* Fail if the file leaves out a setting that its system has. */
static void check_carried(const zr__settings *ours, const char *carried, const char *format)
{
    for (int64_t i = 0; i < ours->n; i++) {
        const zr__setting *s = &ours->one[i];
        if (!s->used && !s->plain && !is_in(carried, s->name) && !is_in(derived, s->name) &&
            strcmp(s->name, "system") != 0)
            fail_msg("%s has no setting for %s, which is %s", format, s->name, s->value);
    }
}

/* Fail unless reading a file gives the plan that was written. */
static void check_same(const zr__settings *ours, const char *text, const zr__format *wanted)
{
    ZR_AUTO(zr__settings_clear) zr__settings theirs = {0};
    ZR_AUTO(zr__settings_clear) zr__settings again = {0};
    const zr__format *format;
    if (read_text(text, &format, &theirs, &again) != ZR_OK) fail_msg("%s\n%s", zr_error_message(), text);
    assert_ptr_equal(format, wanted);
    for (int64_t i = 0; i < ours->n; i++) {
        if (!is_in(derived, ours->one[i].name) && !has(&again, ours->one[i].name, ours->one[i].value) &&
            !zr__same_value(ours->one[i].value, "false") && strcmp(ours->one[i].value, "1") != 0)
            fail_msg("%s was %s and is %s:\n%s", ours->one[i].name, ours->one[i].value,
                     zr__settings_value(&again, ours->one[i].name), text);
    }
    for (int64_t i = 0; i < again.n; i++) {
        const char *name = again.one[i].name;
        if (strncmp(name, "zero_optimization.", 18) != 0 && strncmp(name, "parallel.", 9) != 0) continue;
        if (!has(ours, name, again.one[i].value) && !(strcmp(again.one[i].value, "1f1b") == 0))
            fail_msg("%s is %s, which was not written:\n%s", name, again.one[i].value, text);
    }
}

/* Mark a setting whose value needs no mention. */
static void mark_plain(zr__settings *ours, const char *name, const char *value)
{
    zr__setting *s = zr__settings_find(ours, name);
    if (s) s->plain = strcmp(s->value, value) == 0;
}

static void test_random_plans(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
        for (int i = 0; i < PLANS; i++) {
            ZR_AUTO(zr__settings_clear) zr__settings ours = {0};
            ZR_AUTO(zr__settings_clear) zr__settings theirs = {0};
            ZR_AUTO(zr__text_clear) zr__text notes = {0};
            ZR_AUTO(zr__text_clear) zr__text text = {0};
            const zr__settings nothing = {0};
            const zr__format *format;
            make_plan(kinds[k].choice, &ours);
            assert_int_equal(zr__format_find(kinds[k].format, &format), ZR_OK);
            assert_int_equal(zr__format_derive(&ours, 64, 8, format->shapes ? 16 : 32), ZR_OK);
            mark_plain(&ours, "parallel.tensor", "1");
            mark_plain(&ours, "fp16.enabled", "false");
            if (zr__format_write(format, &ours, &theirs, &notes) != ZR_OK)
                fail_msg("%s: %s", format->name, zr_error_message());
            assert_int_equal(zr__format_print(format, &theirs, "plan\n", &nothing, &ours, &text), ZR_OK);
            check_carried(&ours, kinds[k].carried, format->name);
            check_same(&ours, text.data, format);
        }
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Texts with some of what they mean, as NAME=VALUE separated by blanks. */
static const struct {
    const char *text, *means;
} texts[] = {
    {"{\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": \"auto\"}, // a comment\n \"train_batch_size\": "
     "8}",
     "system=deepspeed zero_optimization.stage=2 with.reduce_bucket_size=16777216 train_batch_size=8"},
    {"distributed_type: DEEPSPEED\nnum_processes: 4\nmixed_precision: bf16\n"
     "deepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\nmain_process_port: null\n",
     "system=deepspeed ranks=4 bf16.enabled=true zero_optimization.stage=3 "
     "zero_optimization.offload_optimizer.device=cpu gradient_accumulation_steps=1"},
    {"--num-layers 24 --hidden-size=1024 --num-attention-heads 16 --seq-length 1024 --vocab-size 50304 \\\n"
     "  --micro-batch-size 4 --global-batch-size 32 --fp16",
     "system=megatron model.type=gpt2 model.n_layer=24 model.n_embd=1024 gradient_clipping=1 fp16.enabled=true "
     "with.hidden-dropout=0.1 zero_optimization.stage=0 gradient_accumulation_steps=8"},
    {"ARGS=\"\n  --num-layers 2 \\\n  --hidden-size 64\n --num-attention-heads 2 --seq-length 64 --vocab-size 128 \"\n"
     "torchrun --nproc_per_node 2 pretrain_gpt.py ${ARGS} \"$@\" --data-path \"\" --micro-batch-size 4 2>&1 | tee "
     "log\n",
     "system=megatron per_host=2 model.n_layer=2 model.n_embd=64 train_micro_batch_size_per_gpu=4"},
    {"A=(--num-layers 2 --hidden-size 64)\npretrain_gpt.py --bf16 \"${A[@]}\" --fp16-lm-cross-entropy \"\"\n",
     "bf16.enabled=true model.n_layer=2"},
    {"GPUS=8\nNODES=${N:-\"2\"} # of them\nLAYERS=${LAYERS:-48}\nA=(--nnodes $NODES --nproc_per_node ${GPUS})\nA+=(\n"
     "\"--tensor-model-parallel-size 2\" # --not-an-option\n--num-layers \"$LAYERS\"\n--hidden-size 64\n"
     "--micro-batch-size 1\n--global-batch-size 16\n--num-layers-per-virtual-pipeline-stage 6\n"
     "--pipeline-model-parallel-size 2)\ntorchrun pretrain_gpt.py ${A[@]}\n",
     "hosts=2 per_host=8 ranks=16 model.n_layer=48 parallel.tensor=2 parallel.chunks=4 "
     "parallel.schedule=interleaved gradient_accumulation_steps=4"},
    {"export H=64\nN=2; L=$((N * (H/16 + 2) % 7 - -1))\nif [ -z \"$X\" ]; then\n  PORT=1\nelse\n  PORT=2\nfi\n"
     "torchrun --master_port $PORT pretrain_gpt.py --num-layers $L --hidden-size $(( ${H}*$N )) --micro-batch-size 1\n",
     "model.n_layer=6 model.n_embd=128"},
    {"--num-layers 2 --hidden-size 8 --micro-batch-size 1 --recompute-granularity full",
     "activation_checkpointing.policy=unit"},
    {"--module llama3 --config llama3_8b", "activation_checkpointing.policy=selective"},
    {"--module qwen3 --config qwen3_14b --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 16 "
     "--parallelism.pipeline_parallel_microbatch_size 2 --training.disable_cuda_graphs activation-checkpoint:none",
     "system=fsdp2 model.preset=qwen3-14b train_micro_batch_size_per_gpu=2 zero_optimization.stage=2 "
     "activation_checkpointing.policy=none with.loss_chunks=8 data.seq_length=4096"},
    {"[training]\nlocal_batch_size = 2 # samples\nseq_len = 8192\n[parallelism]\ntensor_parallel_degree = 4\n"
     "[model]\nname = \"llama3\"\nflavor = '8B'\n[activation_checkpoint]\nmode = \"full\"\n",
     "model.preset=llama3.1-8b parallel.tensor=4 train_micro_batch_size_per_gpu=2 "
     "activation_checkpointing.policy=unit"},
    {"output_dir: out\noptim: lion_32bit\n", "system=trainer optimizer.type=Lion"},
    {"train.py --per_device_train_batch_size 4 --gradient_checkpointing True --bf16 True --max_grad_norm 0.3 "
     "--output_dir out --fsdp \"full_shard auto_wrap\" --model_max_length 2048",
     "system=trainer train_micro_batch_size_per_gpu=4 activation_checkpointing.policy=unit gradient_clipping=0.3 "
     "zero_optimization.stage=3 data.seq_length=2048"},
};

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        ZR_AUTO(zr__settings_clear) zr__settings theirs = {0};
        ZR_AUTO(zr__settings_clear) zr__settings ours = {0};
        const zr__format *format;
        char means[512];
        if (read_text(texts[i].text, &format, &theirs, &ours) != ZR_OK) fail_msg("%s", zr_error_message());
        snprintf(means, sizeof(means), "%s", texts[i].means);
        for (char *save = NULL, *word = strtok_r(means, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
            char *value = strchr(word, '=');
            *value++ = '\0';
            if (!has(&ours, word, value))
                fail_msg("text %zu: %s is %s, wanted %s", i, word, zr__settings_value(&ours, word), value);
        }
    }
}

/* Wrong texts, with a part of the message. */
static const struct {
    const char *text, *message;
} wrong[] = {
    {"just some words\nof a text\n", "FILE:1: no configuration: expected JSON"},
    {"distributed_type: FSDP\n  bad indent: [1\n", "not YAML"},
    {"distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 1\n", "distributed_type (line 1) is FSDP: without "},
    {"distributed_type: MULTI_GPU\nmixed_precison: bf16\n",
     "mixed_precison (line 2) = bf16 (did you mean mixed_precision?)"},
    {"distributed_type: MULTI_GPU\nmixed_precision: &a bf16\ndebug: *a\n", "FILE:3: debug is an alias"},
    {"--num-layers 2 --hidden-size 8\n--tensor-model-paralel-size 2\n",
     "tensor-model-paralel-size (line 2) = 2 (did you mean tensor-model-parallel-size?)"},
    {"--num-layers 2\n--num-layers 4\n--hidden-size 8",
     "num-layers (line 1) is 2, and num-layers (line 2) is 4; keep one"},
    {"--num-layers 2 --hidden-size $WIDTH", "hidden-size (line 1) is $WIDTH, a variable that the text does not set"},
    {"--num-layers 2 --hidden-size ${WIDTH}", "hidden-size (line 1) is ${WIDTH}, a variable that the text does not"},
    {"--num-layers 2 --hidden-size $((A*8))", "hidden-size (line 1) is $((A*8)), a variable that the text does not"},
    {"A=0\n--num-layers 2 --hidden-size $((8/A))", "hidden-size (line 2) is $((8/A)), a variable"},
    {"pretrain_gpt.py --num-layers 2 --micro-batch-size 1 \\\n  --bf16 ; pretrain_gpt.py $MORE --hidden-size 8",
     "$MORE (line 2) = not set in the text"},
    {"pretrain_gpt.py \"${MORE[@]}\" --num-layers 2 --micro-batch-size 1", "${MORE[@]} (line 1) = not set in the text"},
    {"if [ $A = 1 ]; then\n  L=2\nelse\n  L=4\nfi\npretrain_gpt.py --num-layers $L --micro-batch-size 1",
     "num-layers (line 6) is $L, a variable that the text does not set"},
    {"case $A in\n  1) ARGS=(--num-layers 2);;\nesac\npretrain_gpt.py --micro-batch-size 1",
     "FILE:2: --num-layers is in a branch of an if or a case"},
    {"--num-layers 2 --hidden-size 8 --num-experts 8", "zr plans dense models"},
    {"--recompute-activations --recompute-granularity full --num-layers 2", "recompute"},
    {"--nnodes 1 --nproc_per_node 8 --num-layers 2 --micro-batch-size 3 --global-batch-size 16",
     "global-batch-size 16 is not a multiple of micro-batch-size 3 x 8 data-parallel ranks"},
    {"GPT_ARGS=\"\n  --num-layers 2 \\\n  --hidden-size 8\n  --num-experts 8\n\"\ntorchrun pretrain_gpt.py ${GPT_ARGS}",
     "zr plans dense models"},
    {"--nproc_per_node gpu --num-layers 2 --micro-batch-size 1", "nproc_per_node is gpu; wanted a whole number"},
    {"--recompute-activations --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
     "--num-layers 2",
     "it means recompute-granularity selective"},
    {"--per_device_train_batch_size 1 --bf16 --label_smoothing_factor 0.1", "label_smoothing_factor (line 1) = 0.1"},
    {"{\"zero_optimization\": {\"stage\": 1}, \"zero_optimization\": {}}", "FILE:1:"},
    {"--module llama3 --config llama3_8b --parallelism.data_parallel_shard_degree 4 --nnodes 1 --nproc_per_node 8",
     "data_parallel_shard_degree 4 makes 4 ranks with the other degrees, but there are 8"},
    {"--module llama3 --config llama3_405b", "float8"},
};

static void test_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        ZR_AUTO(zr__settings_clear) zr__settings theirs = {0};
        ZR_AUTO(zr__settings_clear) zr__settings ours = {0};
        const zr__format *format;
        const zr_status st = read_text(wrong[i].text, &format, &theirs, &ours);
        if (st == ZR_OK) fail_msg("text %zu was read", i);
        assert_true(st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED);
        if (!strstr(zr_error_message(), wrong[i].message)) fail_msg("text %zu: %s", i, zr_error_message());
    }
}

/* What a system does not have is refused, and the message says what it has. */
static void test_refused(void **state)
{
    static const struct {
        const char *format, *name, *value, *message;
    } refused[] = {{"torchtitan", "zero_optimization.stage", "1", "zero_optimization.stage 1; it has 3, 2"},
                   {"torchtitan", "model.preset", "gpt2-124m", "model.preset gpt2-124m; it has llama3.1-8b"},
                   {"megatron", "zero_optimization.stage", "3", "zero_optimization.stage 3; it has 1, 0"},
                   {"megatron", "activation_checkpointing.policy", "keep", "policy keep; it has "},
                   {"trainer", "parallel.tensor", "2", "nothing for parallel.tensor, which is 2"},
                   {"accelerate", "parallel.pipeline", "2", "nothing for parallel.pipeline"}};
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        ZR_AUTO(zr__settings_clear) zr__settings theirs = {0};
        ZR_AUTO(zr__settings_clear) zr__settings ours = {0};
        ZR_AUTO(zr__text_clear) zr__text notes = {0};
        const zr__format *format;
        assert_int_equal(zr__format_find(refused[i].format, &format), ZR_OK);
        add(&ours, refused[i].name, refused[i].value);
        assert_int_equal(zr__format_write(format, &ours, &theirs, &notes), ZR_ERR_UNSUPPORTED);
        if (!strstr(zr_error_message(), refused[i].message)) fail_msg("%s", zr_error_message());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_plans), cmocka_unit_test(test_texts),
                                       cmocka_unit_test(test_wrong), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
