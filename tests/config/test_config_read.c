//TEST timeout=20
/* Reading configurations: defaults, overrides, the batch triangle, the resolved file, every key of the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/internal.h"
#include "zr/plan.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/config_reference.h"

static zr_config *load(const char *text, const char *override)
{
    zr_config *config;
    zr_status st = zr_config_parse(text, strlen(text), "c.json", &override, override != NULL, &config);
    if (st != ZR_OK) print_message("%s\n", zr_error_message());
    assert_int_equal(st, ZR_OK);
    return config;
}

static char *resolved(const char *text, const char *override)
{
    char *json;
    zr_config *config = load(text, override);
    assert_int_equal(zr_config_resolve(config, 4), ZR_OK);
    assert_int_equal(zr_config_to_json(config, &json), ZR_OK);
    zr_config_destroy(&config);
    return json;
}

static const zr_gpt2_config *gpt2(const zr_config *config)
{
    return (const zr_gpt2_config *)&config->model.config;
}

/* Set the model's sizes to `sizes`, as a preset would, and its other settings to those of the configured preset or of
 * GPT-2 124M. */
static zr_status adopt(zr_config *config, const zr_model_sizes *sizes, const char *origin)
{
    zr_model_config settings;
    const char *preset = config->model.preset ? config->model.preset : "gpt2-124m";
    assert_int_equal(zr_family_find_preset(preset, NULL, &settings), ZR_OK);
    zr_family_resize(config->model.family, &settings, sizes);
    return zr__config_adopt(config, &settings, origin);
}

/* The family whose keys a test goes through, and its keys. */
static const zr_family *family;
static zr_key *keys;

/* Call a test for each key of each family. */
static void for_each_key(void (*test)(const zr_key *key))
{
    for (int f = 0; (family = zr_family_at(f)); f++) {
        assert_int_equal(zr__keys_make(family, &keys), ZR_OK);
        for (const zr_key *key = keys; key->path; key++) test(key);
        zr_free(keys);
    }
}

static bool has_note(const zr_config *config, const char *text)
{
    for (int i = 0; i < zr_config_notes(config); i++)
        if (strcmp(zr_config_note(config, i), text) == 0) return true;
    return false;
}

static void defaults(void **state)
{
    (void)state;
    zr_config *c;
    assert_int_equal(zr_config_load(NULL, NULL, 0, &c), ZR_OK);
    assert_int_equal(zr_config_resolve(c, 2), ZR_OK);
    assert_string_equal(c->model.type, "gpt2");
    assert_int_equal(zr_config_sizes(c).width, 768);
    assert_int_equal(zr_config_sizes(c).vocabulary, 50257);
    assert_int_equal(c->data.seq_length, 1024);
    assert_int_equal(c->optimizer.type, ZR_OPTIMIZER_ADAMW);
    assert_true(c->optimizer.lr == 1e-3 && c->optimizer.betas[0] == 0.9 && c->optimizer.betas[1] == 0.999);
    assert_true(c->optimizer.eps == 1e-8 && c->optimizer.weight_decay == 0 && c->optimizer.adam_w_mode);
    assert_int_equal(c->scheduler.type, ZR_SCHEDULER_NONE);
    assert_int_equal(c->zero.stage, 0);
    assert_int_equal(c->zero.reduce_bucket_elems, ZR_DEFAULT_BUCKET_ELEMS);
    assert_int_equal(c->zero.overlap_comm, ZR_SWITCH_ON);
    assert_int_equal(c->communication_dtype, ZR_CONFIG_FP32);
    assert_int_equal(c->train_batch_size, 2);
    assert_int_equal(c->memory.limit_bytes, 0);
    assert_null(c->train.output_dir);
    assert_int_equal(c->memory.layout, ZR_LAYOUT_LEAN);
    assert_int_equal(c->memory.norm, ZR_NORM_ONE_PASS);
    assert_false(c->train.rank_free_sums || c->fp16 || c->bf16);
    assert_int_equal(c->recompute.policy, ZR_RECOMPUTE_NONE);
    assert_int_equal(c->recompute.every, 1);
    assert_int_equal(c->collectives.reduce, ZR_REDUCE_TO_SHARDS);
    assert_int_equal(c->zero.prefetch_bucket_elems, 50000000);
    assert_int_equal(c->zero.persistence_elems, 0);
    assert_int_equal(c->zero.model_persistence_elems, 0);
    assert_int_equal(c->zero.max_live_elems, 0);
    assert_int_equal(c->zero.max_reuse_elems, 0);
    assert_true(has_note(c, "train_micro_batch_size_per_gpu: not given, set to 1"));
    zr_config_destroy(&c);
    zr_config_destroy(&c);
}

static const char deepspeed[] =
    "\xEF\xBB\xBF{\r\n"
    "  \"train_batch_size\": 16, \"gradient_accumulation_steps\": 2,\r\n"
    "  \"optimizer\": {\"type\": \"adam\", \"params\": {\"lr\": 3e-4, \"betas\": [0.8, 0.95], \"adam_w_mode\": "
    "false}},\r\n"
    "  \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 10, \"warmup_type\": "
    "\"linear\"}},\r\n"
    "  \"gradient_clipping\": \"auto\", \"bf16\": {\"enabled\": true},\r\n"
    "  \"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 5e8, \"contiguous_gradients\": true,\r\n"
    "     \"stage3_prefetch_bucket_size\": 0, \"offload_param\": {\"device\": \"none\", \"pin_memory\": true}},\r\n"
    "  \"train\": {\"steps\": 70}, \"memory\": {\"limit\": \"1.5GiB\"}, \"model\": {\"dropout\": 0.1, \"attn_pdrop\": "
    "0.2}\r\n"
    "}\r\n";

static void a_deepspeed_file(void **state)
{
    (void)state;
    zr_config *c = load(deepspeed, NULL);
    assert_int_equal(zr_config_resolve(c, 4), ZR_OK);
    assert_int_equal(c->micro_batch_size, 2);
    assert_int_equal(c->optimizer.type, ZR_OPTIMIZER_ADAM);
    assert_true(c->optimizer.lr == 3e-4 && c->optimizer.betas[0] == 0.8 && !c->optimizer.adam_w_mode);
    assert_int_equal(c->scheduler.type, ZR_SCHEDULER_WARMUP_DECAY);
    assert_int_equal(c->scheduler.warmup_type, ZR_WARMUP_LINEAR);
    assert_int_equal(c->scheduler.total_num_steps, 70);
    assert_int_equal(c->zero.reduce_bucket_elems, 500000000);
    assert_int_equal(c->zero.prefetch_bucket_elems, 0);
    assert_int_equal(c->zero.overlap_comm, ZR_SWITCH_ON);
    assert_int_equal(c->communication_dtype, ZR_CONFIG_BF16);
    assert_int_equal(c->memory.limit_bytes, 1610612736);
    assert_true(gpt2(c)->embd_pdrop == 0.1 && gpt2(c)->resid_pdrop == 0.1 && gpt2(c)->attn_pdrop == 0.2);
    assert_true(
        has_note(c, "gradient_clipping: auto, set to 0.0; Hugging Face's Trainer uses 1 (its max_grad_norm when not "
                    "given), which --gradient_clipping=1 sets"));
    assert_true(has_note(
        c, "zero_optimization: these keys have no effect in zr (docs/config.md says why): contiguous_gradients, "
           "offload_param.pin_memory"));
    assert_true(zr__config_given(c, "zero_optimization.stage"));
    assert_false(zr__config_given(c, "gradient_clipping"));
    assert_false(zr__config_given(c, "no.such.key"));
    zr_config_destroy(&c);
}

static const char schedule[] = "{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 7, "
                               "\"stage3_param_persistence_threshold\": 1e5,"
                               "  \"stage3_model_persistence_threshold\": 2e6, \"stage3_max_live_parameters\": 1e9,"
                               "  \"stage3_max_reuse_distance\": 3e8},"
                               " \"memory\": {\"layout\": \"paper\"}, \"train\": {\"reproducible\": \"world\"},"
                               " \"activation_checkpointing\": {\"policy\": \"unit\", \"every\": 5}}";

static void keys_of_the_schedule(void **state)
{
    (void)state;
    zr_config *c = load(schedule, NULL);
    assert_int_equal(zr_config_resolve(c, 4), ZR_OK);
    assert_int_equal(c->zero.prefetch_bucket_elems, 7);
    assert_int_equal(c->zero.persistence_elems, 100000);
    assert_int_equal(c->zero.model_persistence_elems, 2000000);
    assert_int_equal(c->zero.max_live_elems, 1000000000);
    assert_int_equal(c->zero.max_reuse_elems, 300000000);
    assert_int_equal(c->memory.layout, ZR_LAYOUT_PAPER);
    assert_true(c->train.rank_free_sums);
    assert_int_equal(c->recompute.policy, ZR_RECOMPUTE_UNIT);
    assert_int_equal(c->recompute.every, 5);
    assert_int_equal(zr_config_notes(c), 1); /* the note about the micro-batch */
    zr_config_destroy(&c);
    /* For this key "auto" is a policy, not the default. */
    c = load("{\"activation_checkpointing\": {\"policy\": \"auto\"}}", NULL);
    assert_int_equal(c->recompute.policy, ZR_RECOMPUTE_AUTO);
    assert_true(zr__config_given(c, "activation_checkpointing.policy"));
    zr_config_destroy(&c);
}

static const char half[] =
    "{\"fp16\": {\"enabled\": true, \"auto_cast\": false, \"loss_scale\": 0, \"initial_scale_power\": 8,"
    "  \"loss_scale_window\": 500, \"hysteresis\": 3, \"consecutive_hysteresis\": true, \"min_loss_scale\": 0.5},"
    " \"communication_data_type\": \"auto\", \"memory\": {\"norm\": \"two_pass\"}}";

static void half_precision(void **state)
{
    (void)state;
    zr_config *c = load(half, NULL);
    assert_int_equal(zr_config_resolve(c, 2), ZR_OK);
    assert_true(c->fp16 && !c->bf16);
    assert_true(c->scale.loss_scale == 0 && c->scale.min_loss_scale == 0.5 && c->scale.consecutive_hysteresis);
    assert_int_equal(c->scale.initial_scale_power, 8);
    assert_int_equal(c->scale.loss_scale_window, 500);
    assert_int_equal(c->scale.hysteresis, 3);
    assert_int_equal(c->communication_dtype, ZR_CONFIG_FP16);
    assert_int_equal(c->grad_accum_dtype, ZR_CONFIG_FP32);
    assert_int_equal(c->memory.norm, ZR_NORM_TWO_PASS);
    assert_true(has_note(c, "communication_data_type: auto, set to \"fp16\""));
    assert_int_equal(zr_config_notes(c), 2);
    zr_config_destroy(&c);
    c = load("{\"fp16\": {\"enabled\": true, \"loss_scale\": 128}}", "communication_data_type=fp32");
    assert_int_equal(zr_config_resolve(c, 2), ZR_OK);
    assert_true(c->scale.loss_scale == 128);
    assert_int_equal(c->communication_dtype, ZR_CONFIG_FP32);
    zr_config_destroy(&c);
}

static void keys_without_effect_are_said(void **state)
{
    (void)state;
    static const char two_pass[] = "{\"memory\": {\"norm\": \"two_pass\"}}";
    static const struct {
        const char *text, *override, *note;
    } said[] = {
        {"{\"fp16\": {\"enabled\": false, \"loss_scale\": 0, \"hysteresis\": 2}}", NULL,
         "fp16: not enabled, so its other keys have no effect"},
        {two_pass, NULL, NULL}, /* has an effect without clipping too: it lets steps with bad gradients be skipped */
        {two_pass, "--gradient_clipping=1", NULL},
        {two_pass, "--train.reproducible=world",
         "memory.norm: two_pass has no effect, because with train.reproducible world the gradient is kept anyway"},
        {"{\"memory\": {\"norm\": \"two_pass\"}, \"gradient_clipping\": 1}", "--gradient_accumulation_steps=2",
         "memory.norm: two_pass has no effect, because with gradient_accumulation_steps above 1 the gradient is kept "
         "anyway"},
        {"{\"activation_checkpointing\": {\"partition_activations\": true}}", NULL,
         "activation_checkpointing: nothing is checkpointed, because policy is none; "
         "--activation_checkpointing.policy=unit keeps the input of each block and recomputes the rest"},
        {"{\"activation_checkpointing\": {\"cpu_checkpointing\": true}}", NULL,
         "activation_checkpointing: nothing is checkpointed, and nothing kept on the host, because policy is none; "
         "--activation_checkpointing.policy=unit keeps the input of each block and recomputes the rest"},
        {"{\"activation_checkpointing\": {\"cpu_checkpointing\": true}}", "--activation_checkpointing.policy=keep",
         "activation_checkpointing: nothing is checkpointed, and nothing kept on the host, because policy is keep; "
         "--activation_checkpointing.policy=unit keeps the input of each block and recomputes the rest"},
        {"{\"activation_checkpointing\": {\"partition_activations\": false, \"cpu_checkpointing\": false}}", NULL,
         NULL},
        {"{\"activation_checkpointing\": {\"partition_activations\": true}}", "--activation_checkpointing.policy=unit",
         "activation_checkpointing.partition_activations has no effect: with parallel.tensor 1 there are no ranks "
         "to divide checkpoints among"},
        {"{\"zero_optimization\": {\"stage\": 1, \"stage3_prefetch_bucket_size\": 7, \"max_live_parameters\": 9}}",
         NULL,
         "zero_optimization: these keys have no effect: stage3_prefetch_bucket_size, max_live_parameters: stage is 1"},
        {"{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 7, \"max_live_parameters\": 0}}",
         NULL, NULL},
        {"{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 7}}",
         "--zero_optimization.overlap_comm=false",
         "zero_optimization.stage3_prefetch_bucket_size has no effect: overlap_comm is false"},
        {"{\"fp16\": {\"enabled\": true, \"loss_scale\": 4, \"hysteresis\": 5}}", NULL,
         "fp16.hysteresis has no effect: fp16.loss_scale makes the loss scale constant"},
        {"{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"hysteresis\": 5}}", NULL, NULL},
        {"{\"train\": {\"sample_prompt\": \"x\"}}", NULL, "train.sample_prompt has no effect: sample_tokens is 0"},
        {"{\"data\": {\"train\": \"a\"}, \"train\": {\"eval_interval\": 7}}", NULL,
         "train.eval_interval has no effect: there is no data.val"},
        {"{\"data\": {\"train\": \"a\"}, \"train\": {\"eval_interval\": 0}}", NULL, NULL},
        {"{\"data\": {\"train\": \"a\", \"val\": \"b\"}}", "--train.eval_interval=0",
         "data.val has no effect: train.eval_interval is 0"},
        {"{\"checkpoint\": {\"async\": true}}", NULL, "checkpoint.async has no effect: train.save_interval is 0"},
        {"{}", "--model.lora.alpha=8", "model.lora.alpha has no effect: give model.lora.rank or model.lora.init too"},
        {"{\"model\": {\"lora\": {\"rank\": 4, \"alpha\": 8}}}", NULL, NULL},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.002}}}",
         "--optimizer.params.lr=0.003", NULL},
        {"{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 1000}}}",
         "--optimizer.params.lr=3e-5",
         "optimizer.params.lr has no effect: the highest learning rate of the schedule is "
         "scheduler.params.warmup_max_lr, 0.001"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 3e-5}}}",
         "--optimizer.params.lr=3e-5", NULL},
        {"{\"bfloat16\": {\"enabled\": \"auto\"}}", NULL, "bfloat16.enabled: auto, set to false"},
        {"{\"optimizer\": {\"type\": \"FusedAdam\", \"params\": {\"adam_w_mode\": false}}}", NULL,
         "optimizer.type: FusedAdam is DeepSpeed's implementation of Adam; zr uses its own Adam"},
        {"{\"optimizer\": {\"type\": \"FusedLamb\", \"params\": {\"max_coeff\": 0.3}}}", NULL,
         "optimizer.type: FusedLamb is DeepSpeed's implementation of Lamb; zr uses its own Lamb, with "
         "optimizer.params.variant nvidia that of apex's FusedLAMB"},
    };
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        zr_config *c = load(said[i].text, said[i].override);
        for (int again = 0; again < 2; again++) assert_int_equal(zr_config_resolve(c, 2), ZR_OK);
        if (said[i].note) assert_true(has_note(c, said[i].note));
        if (strstr(said[i].text, "WarmupLR")) assert_true(c->scheduler.warmup_max_lr == c->optimizer.lr);
        if (strstr(said[i].text, "FusedAdam")) assert_int_equal(c->optimizer.type, ZR_OPTIMIZER_ADAM);
        if (strstr(said[i].text, "FusedLamb")) assert_int_equal(c->optimizer.type, ZR_OPTIMIZER_LAMB);
        assert_int_equal(zr_config_notes(c), said[i].note ? 2 : 1); /* one is about the micro-batch */
        zr_config_destroy(&c);
    }
}

/* Check files as users write them: from the tutorials and from Hugging Face's integration, stages 1 to 3. */
static void usual_deepspeed_files(void **state)
{
    (void)state;
    static const char *const text[] = {
        "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\","
        " \"gradient_accumulation_steps\": \"auto\", \"gradient_clipping\": \"auto\", \"steps_per_print\": 2000,"
        " \"fp16\": {\"enabled\": false, \"auto_cast\": false, \"loss_scale\": 0, \"initial_scale_power\": 16,"
        "  \"loss_scale_window\": 1000, \"hysteresis\": 2, \"consecutive_hysteresis\": false, \"min_loss_scale\": 1},"
        " \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2, \"allgather_partitions\": true,"
        "  \"allgather_bucket_size\": 2e8, \"overlap_comm\": true, \"reduce_scatter\": true,"
        "  \"reduce_bucket_size\": \"auto\", \"contiguous_gradients\": true, \"round_robin_gradients\": true},"
        " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\", \"eps\": \"auto\","
        "  \"weight_decay\": \"auto\", \"torch_adam\": true, \"adam_w_mode\": true}},"
        " \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": \"auto\","
        "  \"warmup_max_lr\": \"auto\", \"warmup_num_steps\": \"auto\", \"total_num_steps\": \"auto\"}},"
        " \"comms_logger\": {\"enabled\": false, \"verbose\": false, \"prof_all\": true, \"prof_ops\": [], \"debug\": "
        "false},"
        " \"aio\": {\"block_size\": 1048576, \"queue_depth\": 8, \"single_submit\": false},"
        " \"wall_clock_breakdown\": false}",
        "{\"train_batch_size\": 16, \"steps_per_print\": 2000, \"prescale_gradients\": false,"
        " \"gradient_predivide_factor\": 1.0, \"gradient_clipping\": 1.0, \"wall_clock_breakdown\": true,"
        " \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.001, \"betas\": [0.8, 0.999], \"eps\": 1e-8,"
        "  \"weight_decay\": 3e-7}}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0,"
        "  \"warmup_max_lr\": 0.001, \"warmup_num_steps\": 1000}}, \"zero_optimization\": {\"stage\": 1,"
        "  \"cpu_offload\": false, \"legacy_stage1\": true}, \"flops_profiler\": {\"enabled\": true,"
        "  \"profile_step\": 1, \"module_depth\": -1, \"output_file\": null}, \"timers\": {\"throughput\":"
        "  {\"enabled\": true}}, \"elasticity\": {\"enabled\": false, \"micro_batch_sizes\": [2, 4]},"
        " \"data_types\": {\"grad_accum_dtype\": null}, \"communication_data_type\": null}",
        "{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"stage\": 3, \"contiguous_gradients\": true,"
        "  \"stage3_max_live_parameters\": \"auto\", \"stage3_max_reuse_distance\": \"auto\","
        "  \"stage3_prefetch_bucket_size\": 1e7, \"stage3_param_persistence_threshold\": \"auto\","
        "  \"reduce_bucket_size\": 1e7, \"sub_group_size\": 1e9, \"offload_optimizer\": {\"device\": \"none\"},"
        "  \"stage3_gather_16bit_weights_on_model_save\": true}, \"activation_checkpointing\": {"
        "  \"partition_activations\": false, \"contiguous_memory_optimization\": true, \"number_checkpoints\": 12,"
        "  \"cpu_checkpointing\": false, \"profile\": true}, \"zero_allow_untested_optimizer\": true}",
        "{\"zero_optimization\": {\"stage\": 3}, \"scheduler\": {\"type\": \"OneCycle\", \"params\": {"
        "  \"cycle_min_lr\": 1e-4, \"cycle_max_lr\": 1e-3, \"cycle_momentum\": false,"
        "  \"cycle_first_stair_count\": 0, \"cycle_second_stair_count\": null}}}",
    };
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        zr_config *c = load(text[i], NULL);
        assert_int_equal(zr_config_resolve(c, 4), ZR_OK);
        assert_int_equal(c->zero.stage, i == 0 ? 2 : i == 1 ? 1 : 3);
        zr_config_destroy(&c);
    }
}

static void what_auto_became_is_said(void **state)
{
    (void)state;
    zr_config *c = load("{\"train_batch_size\": \"auto\", \"train\": {\"threads\": \"auto\", \"steps\": 7},"
                        " \"model\": {\"n_layer\": \"auto\"}, \"communication_data_type\": \"auto\","
                        " \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": \"auto\"}}}",
                        NULL);
    for (int again = 0; again < 2; again++) assert_int_equal(zr_config_resolve(c, 3), ZR_OK);
    assert_true(has_note(c, "train_batch_size: auto, set to 3"));
    assert_true(has_note(c, "model.n_layer: auto, set to 12"));
    assert_true(has_note(c, "communication_data_type: auto, set to \"fp32\""));
    assert_true(
        has_note(c, "scheduler.params.total_num_steps: auto, set to 7, as Hugging Face's Trainer does (the steps of "
                    "the run)"));
    assert_true(has_note(c, "scheduler.params.total_num_steps: 7 is less than warmup_num_steps 1000, so the learning "
                            "rate does not decay before the warm-up ends"));
    assert_int_equal(zr_config_notes(c), 6);
    zr_config_destroy(&c);
}

/* Check that a hundred thousand unknown keys are read quickly and give a bounded number of notes. */
static void notices_are_bounded(void **state)
{
    (void)state;
    enum { KEYS = 100000 };
    zr__text text = {0};
    char *json;
    zr__text_add(&text, "{\"aio\": {");
    for (int i = 0; i < KEYS; i++) zr__text_add(&text, "\"k%d\": 1, ", i);
    zr__text_add(&text, "\"last\": 1}}");
    assert_int_equal(zr__text_take(&text, &json), ZR_OK);
    zr_config *c = load(json, NULL);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    assert_int_equal(zr_config_notes(c), 2);
    assert_true(has_note(c, "aio has no effect in zr: it concerns DeepSpeed's library of transfers"));
    zr_config_destroy(&c);
    zr_free(json);
}

static void later_overrides_win(void **state)
{
    (void)state;
    static const char text[] =
        "{\"train\": {\"steps\": 5, \"seed\": 7}, \"fp16\": {\"enabled\": true}, \"optimizer\": null}";
    static const char *const override[] = {"--train.steps=6",          "fp16.enabled=false",   "train.steps=8",
                                           "optimizer.params.lr=0.25", "data.train=a b=c.txt", "memory.limit=2GiB",
                                           "--train.output_dir=2024"};
    zr_config *c;
    assert_int_equal(zr_config_parse(text, strlen(text), "c.json", override, 7, &c), ZR_OK);
    assert_int_equal(c->train.steps, 8);
    assert_int_equal(c->train.seed, 7);
    assert_true(c->optimizer.lr == 0.25);
    assert_string_equal(c->data.train, "a b=c.txt");
    assert_string_equal(c->train.output_dir, "2024");
    assert_int_equal(c->memory.limit_bytes, (int64_t)2 << 30);
    zr_config_destroy(&c);
}

static void setting_after_loading(void **state)
{
    (void)state;
    zr_config *c = load("{}", NULL);
    assert_int_equal(zr_config_set(c, "train.output_dir", "runs/x-\xff"), ZR_OK);
    assert_string_equal(c->train.output_dir, "runs/x-\xff");
    assert_true(zr__config_given(c, "train.output_dir"));
    assert_int_equal(zr_config_set(c, "train.steps", "0"), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(), "command line: train.steps: found 0, wanted an integer from 1 to 2^53");
    assert_int_equal(zr_config_set(c, "train.stage", "0"), ZR_ERR_CONFIG);
    zr_config_destroy(&c);
}

static void the_batch_triangle(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    static const int64_t batch = 30, micro = 5, accum = 2;
    for (int mask = 0; mask < 8; mask++) {
        char text[256], b[64] = "", m[64] = "", a[64] = "";
        if (mask & 1) snprintf(b, sizeof(b), "\"train_batch_size\": %d, ", (int)batch);
        if (mask & 2) snprintf(m, sizeof(m), "\"train_micro_batch_size_per_gpu\": %d, ", (int)micro);
        if (mask & 4) snprintf(a, sizeof(a), "\"gradient_accumulation_steps\": %d, ", (int)accum);
        snprintf(text, sizeof(text), "{%s%s%s\"steps_per_print\": 1}", b, m, a);
        zr_config *c = load(text, NULL);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(zr_config_resolve(c, RANKS), ZR_OK);
            assert_int_equal(c->train_batch_size, c->micro_batch_size * c->accumulation_steps * RANKS);
            if (mask & 1) assert_int_equal(c->train_batch_size, batch);
            if (mask & 2) assert_int_equal(c->micro_batch_size, micro);
            if (mask & 4) assert_int_equal(c->accumulation_steps, accum);
            if (!(mask & 4) && (mask & 3) != 3) assert_int_equal(c->accumulation_steps, 1);
            if (!(mask & 3)) assert_int_equal(c->micro_batch_size, 1);
        }
        zr_config_destroy(&c);
    }
}

static void sizes_of_presets(void **state)
{
    (void)state;
    const zr_model_sizes sizes = {24, 16, 1024, 1024, 50257};
    zr_config *c = load("{\"model\": {\"preset\": \"gpt2-350m\", \"n_layer\": 24}}", NULL);
    assert_int_equal(zr_config_resolve(c, 1), ZR_ERR_STATE);
    assert_int_equal(adopt(c, &sizes, "preset gpt2-350m"), ZR_OK);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    assert_int_equal(zr_config_sizes(c).width, 1024);
    zr_config_destroy(&c);
    c = load("{\"model\": {\"preset\": \"gpt2-350m\", \"n_layer\": 12}}", NULL);
    assert_int_equal(adopt(c, &sizes, "preset gpt2-350m"), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "c.json: model.n_layer: 12 differs from 24, which preset gpt2-350m sets; leave it out");
    zr_config_destroy(&c);
    c = load("{\"data\": {\"tokenizer\": \"bytes\"}}", NULL);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    assert_int_equal(zr_config_sizes(c).vocabulary, 256);
    zr_config_destroy(&c);
}

/* Return the configuration of a text, resolved with a preset's sizes and, as in zr train, with the recipe. */
static zr_config *trained(const char *text, const char *override, const zr_model_sizes *sizes, bool recipe)
{
    zr_config *c = load(text, override);
    if (recipe) zr__config_take_recipe(c);
    assert_int_equal(adopt(c, sizes, "a preset"), ZR_OK);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    return c;
}

static bool has_recipe(const zr_config *c)
{
    return c->optimizer.type == ZR_OPTIMIZER_ADAMW && c->optimizer.betas[1] == 0.95 &&
           c->optimizer.weight_decay == 0.1 && c->scheduler.type == ZR_SCHEDULER_WARMUP_COSINE &&
           c->scheduler.cos_min_ratio == 0.1 && c->gradient_clipping == 1.0;
}

static void presets_take_a_recipe(void **state)
{
    (void)state;
    static const char preset[] = "{\"model\": {\"preset\": \"gpt2-124m\"}}";
    static const zr_model_sizes shape = {12, 12, 768, 1024, 50257};
    static const struct {
        zr_model_sizes sizes;
        double lr; /* table 2.1 of Brown et al. 2020 */
    } sizes[] = {{{12, 12, 768, 1024, 50257}, 6e-4},     {{24, 16, 1024, 1024, 50257}, 3e-4},
                 {{36, 20, 1280, 1024, 50257}, 2.5e-4},  {{48, 25, 1600, 1024, 50257}, 2e-4},
                 {{32, 32, 2560, 2048, 50257}, 1.6e-4},  {{32, 32, 4096, 2048, 50257}, 1.2e-4},
                 {{40, 40, 5120, 2048, 50257}, 1e-4},    {{96, 96, 12288, 2048, 50257}, 0.6e-4},
                 {{127, 160, 25600, 1024, 50257}, 6e-5}, {{2, 2, 64, 64, 256}, 6e-4}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        zr_config *c = trained(preset, NULL, &sizes[i].sizes, true);
        assert_true(has_recipe(c) && c->optimizer.lr == sizes[i].lr);
        assert_int_equal(c->scheduler.warmup_num_steps, 50);
        assert_int_equal(c->scheduler.total_num_steps, 1000);
        zr_config_destroy(&c);
    }

    /* A preset has the learning rate of its authors; weights are fine-tuned as Llama 2 was. */
    const zr_model_sizes large = {32, 32, 4096, 8192, 128256}, huge = {126, 128, 16384, 131072, 128256};
    zr_config *own_rate = trained("{\"model\": {\"preset\": \"llama3-8b\"}}", NULL, &large, true);
    assert_true(has_recipe(own_rate) && own_rate->optimizer.lr == 3e-4);
    zr_config_destroy(&own_rate);
    own_rate = trained("{\"model\": {\"preset\": \"llama3.1-405b\"}}", NULL, &huge, true);
    assert_true(has_recipe(own_rate) && own_rate->optimizer.lr == 8e-5);
    zr_config_destroy(&own_rate);
    own_rate = trained("{\"model\": {\"init\": \"weights\"}}", NULL, &shape, true);
    assert_true(has_recipe(own_rate) && own_rate->optimizer.lr == 2e-5);
    assert_true(has_note(own_rate,
                         "model.init weights: the training recipe for fine-tuning sets what is not given: "
                         "gradient_clipping 1.0, optimizer.type AdamW, lr 2e-5, betas [0.9, 0.95], weight_decay 0.1, "
                         "scheduler.type WarmupCosineLR, warmup_num_steps 50, warmup_type linear_from_1, cos_min_ratio "
                         "0.1; an optimizer or scheduler that a file gives with a type stands as written"));
    zr_config_destroy(&own_rate);

    /* The note describes the recipe; the resolved file of the run trains the same way again, without a note. */
    char *json, *again;
    zr_config *c = trained(preset, "train.steps=30", &shape, true);
    assert_int_equal(c->scheduler.warmup_num_steps, 2);
    assert_true(has_note(
        c, "model.preset gpt2-124m: the training recipe for this size sets what is not given: gradient_clipping 1.0, "
           "optimizer.type AdamW, lr 6e-4, betas [0.9, 0.95], weight_decay 0.1, scheduler.type WarmupCosineLR, "
           "warmup_num_steps 2, warmup_type linear_from_1, cos_min_ratio 0.1; an optimizer or scheduler that a file "
           "gives with a type stands as written"));
    assert_int_equal(zr_config_to_json(c, &json), ZR_OK);
    zr_config_destroy(&c);
    c = trained(json, "train.steps=60", &shape, true);
    assert_true(has_recipe(c) && c->scheduler.warmup_num_steps == 2 && c->optimizer.lr == 6e-4);
    assert_int_equal(zr_config_notes(c), 0);
    zr_config_destroy(&c);
    c = trained(json, NULL, &shape, true);
    assert_int_equal(zr_config_to_json(c, &again), ZR_OK);
    assert_string_equal(json, again);
    zr_config_destroy(&c);
    zr_free(json);
    zr_free(again);

    /* Another command, and a model without a preset, take no recipe. */
    c = trained(preset, NULL, &shape, false);
    assert_true(c->gradient_clipping == 0 && c->optimizer.lr == 1e-3 && c->scheduler.type == ZR_SCHEDULER_NONE);
    zr_config_destroy(&c);
    c = trained("{\"model\": {}}", NULL, &shape, true);
    assert_true(c->gradient_clipping == 0 && c->optimizer.lr == 1e-3 && c->scheduler.type == ZR_SCHEDULER_NONE);
    zr_config_destroy(&c);

    /* gradient_clipping belongs to neither section, so setting it keeps the recipe. */
    c = trained(preset, "gradient_clipping=0.5", &shape, true);
    assert_true(c->gradient_clipping == 0.5 && c->optimizer.lr == 6e-4);
    zr_config_destroy(&c);
}

#define SMALL "\"model\": {\"preset\": \"gpt2-124m\"}, \"train\": {\"steps\": 40}"
#define TUNED "\"model\": {\"init\": \"weights\"}, \"train\": {\"steps\": 40}"
#define ALL_AUTO                                                                                                       \
    "\"gradient_clipping\": \"auto\", \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": " \
    "\"auto\", \"eps\": \"auto\", \"weight_decay\": \"auto\"}}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": "  \
    "{\"warmup_min_lr\": \"auto\", \"warmup_max_lr\": \"auto\", \"warmup_num_steps\": \"auto\"}}"

/* Check that given keys lie over the recipe, and that a file's optimizer or scheduler with a type stands as written but
 * for its "auto" values. */
static void keys_lie_over_a_recipe(void **state)
{
    (void)state;
    static const zr_model_sizes shape = {12, 12, 768, 1024, 50257};
    static const struct {
        const char *text, *override;
        double clip, lr, beta, decay;
        zr_config_optimizer type;
        zr_config_scheduler scheduler;
        int64_t warmup;
        const char *note; /* part of the note about the recipe; NULL: there is none */
    } way[] = {
        {"{" SMALL "}", "optimizer.params.lr=0.01", 1, 0.01, 0.95, 0.1, ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP_COSINE,
         2, ": gradient_clipping 1.0, optimizer.type AdamW, betas [0.9, 0.95], weight_decay 0.1, scheduler.type"},
        {"{" TUNED ", \"optimizer\": {\"params\": {\"weight_decay\": 0.5}}}", NULL, 1, 2e-5, 0.95, 0.5,
         ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP_COSINE, 2, "lr 2e-5, betas [0.9, 0.95], scheduler.type"},
        {"{" SMALL "}", "optimizer.type=SGD", 1, 6e-4, 0.999, 0.1, ZR_OPTIMIZER_SGD, ZR_SCHEDULER_WARMUP_COSINE, 2,
         ": gradient_clipping 1.0, lr 6e-4, weight_decay 0.1, scheduler.type"},
        {"{" SMALL "}", "optimizer.type=Lion", 1, 2e-4, 0.99, 0.3, ZR_OPTIMIZER_LION, ZR_SCHEDULER_WARMUP_COSINE, 2,
         ": gradient_clipping 1.0, lr 0.0002, weight_decay 0.3, scheduler.type"},
        {"{" TUNED ", \"optimizer\": {\"type\": \"Lion\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\"}}}", NULL,
         0, 6.66666667e-6, 0.99, 0, ZR_OPTIMIZER_LION, ZR_SCHEDULER_NONE, 1000, NULL},
        {"{" SMALL "}", "scheduler.type=WarmupLR", 1, 6e-4, 0.95, 0.1, ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP, 2,
         "warmup_num_steps 2, warmup_type linear_from_1, warmup_max_lr 0.0006;"},
        {"{" SMALL "}", "scheduler.type=none", 1, 6e-4, 0.95, 0.1, ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_NONE, 1000,
         "weight_decay 0.1;"},
        {"{" SMALL ", \"scheduler\": {\"params\": {\"warmup_num_steps\": 7}}}", NULL, 1, 6e-4, 0.95, 0.1,
         ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP_COSINE, 7, "scheduler.type WarmupCosineLR, warmup_type linear_from_1"},
        {"{" SMALL ", \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-5}}}", NULL, 0, 3e-5, 0.999, 0,
         ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_NONE, 1000, NULL},
        {"{" SMALL ", \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-5}}}", "optimizer.type=Adam", 0,
         3e-5, 0.999, 0, ZR_OPTIMIZER_ADAM, ZR_SCHEDULER_NONE, 1000, NULL},
        {"{" SMALL ", \"optimizer\": {\"type\": \"AdamW\"}}", "scheduler.params.warmup_num_steps=3", 0, 1e-3, 0.999, 0,
         ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP_COSINE, 3, ": scheduler.type WarmupCosineLR, warmup_type"},
        {"{" SMALL ", \"scheduler\": {\"type\": \"WarmupDecayLR\"}}", NULL, 1, 6e-4, 0.95, 0.1, ZR_OPTIMIZER_ADAMW,
         ZR_SCHEDULER_WARMUP_DECAY, 1000, "weight_decay 0.1;"},
        {"{" TUNED ", " ALL_AUTO "}", NULL, 1, 2e-5, 0.95, 0.1, ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP, 2, NULL},
        {"{" SMALL ", " ALL_AUTO "}", NULL, 1, 6e-4, 0.95, 0.1, ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP, 2, NULL},
        {"{" TUNED ", \"gradient_clipping\": \"auto\", \"optimizer\": {\"type\": \"Lamb\", \"params\": {\"lr\": "
         "\"auto\", \"variant\": \"nvidia\", \"weight_decay\": \"auto\"}}}",
         NULL, 1, 2e-5, 0.999, 0.1, ZR_OPTIMIZER_LAMB, ZR_SCHEDULER_NONE, 1000, NULL},
        {"{" ALL_AUTO "}", NULL, 1, 1e-3, 0.95, 0.1, ZR_OPTIMIZER_ADAMW, ZR_SCHEDULER_WARMUP, 50, NULL},
    };
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        zr_config *c = trained(way[i].text, way[i].override, &shape, true);
        const char *note = NULL;
        for (int k = 0; k < zr_config_notes(c); k++)
            if (strstr(zr_config_note(c, k), "training recipe")) note = zr_config_note(c, k);
        if (way[i].note ? !note || !strstr(note, way[i].note) : note != NULL) fail_msg("%zu: %s", i, note ? note : "");
        assert_true(c->gradient_clipping == way[i].clip && c->optimizer.lr == way[i].lr);
        assert_true(c->optimizer.betas[1] == way[i].beta && c->optimizer.weight_decay == way[i].decay);
        assert_int_equal(c->optimizer.type, way[i].type);
        assert_int_equal(c->scheduler.type, way[i].scheduler);
        assert_int_equal(c->scheduler.warmup_num_steps, way[i].warmup);
        if (strstr(way[i].text, "warmup_max_lr")) assert_true(c->scheduler.warmup_max_lr == c->optimizer.lr);
        zr_config_destroy(&c);
    }
}

/* Check the lowest learning rate against the highest that a recipe gives, not against the default. */
static void rates_fit_a_recipe(void **state)
{
    (void)state;
    static const zr_model_sizes shape = {12, 12, 768, 1024, 50257};
    static const struct {
        const char *text, *override, *message;
        double highest;
    } way[] = {
        {"{" TUNED ", \"scheduler\": {\"params\": {\"warmup_min_lr\": 1e-4}}}", "scheduler.type=WarmupLR",
         "c.json: scheduler.params.warmup_min_lr: 0.0001 is above warmup_max_lr, which is 2e-05; wanted 2e-05 or less",
         0},
        {"{\"optimizer\": {\"params\": {\"lr\": 1e-5}}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": "
         "{\"warmup_min_lr\": 1e-4, \"warmup_max_lr\": \"auto\"}}}",
         NULL,
         "c.json: scheduler.params.warmup_min_lr: 0.0001 is above warmup_max_lr, which is 1e-05; wanted 1e-05 or less",
         0},
        {"{" TUNED ", \"scheduler\": {\"params\": {\"cycle_min_lr\": 2e-5}}}", "scheduler.type=OneCycle", NULL, 2e-5},
        {"{" TUNED ", \"optimizer\": {\"params\": {\"lr\": 0.01}}, \"scheduler\": {\"params\": {\"cycle_min_lr\": "
         "2e-3}}}",
         "scheduler.type=OneCycle", NULL, 0.01},
    };
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        zr_config *c = load(way[i].text, way[i].override);
        zr__config_take_recipe(c);
        assert_int_equal(adopt(c, &shape, "weights"), ZR_OK);
        assert_int_equal(zr_config_resolve(c, 1), way[i].message ? ZR_ERR_CONFIG : ZR_OK);
        if (way[i].message)
            assert_string_equal(zr_error_message(), way[i].message);
        else
            assert_true(c->scheduler.cycle_max_lr == way[i].highest);
        zr_config_destroy(&c);
    }
}

/* Check that a resumed run keeps the rest of its rule when a key of it is given. */
static void a_resumed_run_keeps_its_rule(void **state)
{
    (void)state;
    static const zr_model_sizes shape = {12, 12, 768, 1024, 50257};
    zr_config *run = trained("{" TUNED "}", NULL, &shape, true), *c = load("{" TUNED "}", "optimizer.params.lr=1e-4");
    assert_int_equal(zr_config_set(c, "train.steps", "100"), ZR_OK);
    assert_int_equal(zr__config_keep_rule(c, run), ZR_OK);
    zr__config_take_recipe(c);
    assert_int_equal(adopt(c, &shape, "weights"), ZR_OK);
    assert_int_equal(zr_config_resolve(c, 1), ZR_OK);
    assert_true(c->optimizer.lr == 1e-4 && c->optimizer.betas[1] == 0.95 && c->gradient_clipping == 1);
    assert_int_equal(c->scheduler.warmup_num_steps, 2); /* a twentieth of the steps of `run` */
    zr_config_destroy(&c);
    c = load("{" TUNED ", \"optimizer\": {\"type\": \"AdamW\"}}", NULL);
    assert_int_equal(zr__config_keep_rule(c, run), ZR_OK);
    assert_true(c->optimizer.betas[1] == 0.999 && c->gradient_clipping == 0);
    assert_int_equal(c->scheduler.type, ZR_SCHEDULER_NONE);
    zr_config_destroy(&c);
    zr_config_destroy(&run);
}

static void buckets_are_rounded_as_the_plan_does(void **state)
{
    (void)state;
    char note[160];
    zr_config *c = load("{\"zero_optimization\": {\"allgather_bucket_size\": 1000}}", NULL);
    assert_int_equal(zr_config_resolve(c, 3), ZR_OK);
    snprintf(note, sizeof(note),
             "zero_optimization.allgather_bucket_size: rounded up to 1056, "
             "a multiple of %d x 3 ranks",
             ZR_SHARD_ALIGN);
    assert_true(has_note(c, note));
    zr_config_destroy(&c);
    /* With NCCL's reduce no rounding is noted, because the bucket size has no effect. */
    c = load("{\"device\": \"cuda\", \"collectives\": {\"reduce\": \"nccl\"},"
             " \"zero_optimization\": {\"reduce_bucket_size\": 1001}}",
             NULL);
    assert_int_equal(zr_config_resolve(c, 3), ZR_OK);
    assert_int_equal(c->collectives.reduce, ZR_REDUCE_NCCL);
    assert_true(has_note(c, "zero_optimization.reduce_bucket_size: it has no effect with collectives.reduce nccl, "
                            "which reduces a whole unit at once"));
    assert_int_equal(zr_config_notes(c), 2); /* one more about the micro-batch */
    zr_config_destroy(&c);
}

static void resolved_files_load_again(void **state)
{
    (void)state;
    static const char *const text[] = {
        "{}",
        deepspeed,
        schedule,
        half,
        "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.9, \"nesterov\": true}}}",
        "{\"device\": \"cuda\", \"collectives\": {\"reduce\": \"nccl\"}}",
        "{\"scheduler\": {\"type\": \"WarmupCosineLR\"}, \"data\": {\"train\": \"a\\\"b\\\\\\n\"}}"};
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        char *once = resolved(text[i], NULL), *twice = resolved(once, NULL);
        assert_string_equal(once, twice);
        zr_config *c = load(once, NULL);
        assert_int_equal(zr_config_resolve(c, 4), ZR_OK);
        assert_int_equal(zr_config_notes(c), 0);
        zr_config_destroy(&c);
        zr_free(once);
        zr_free(twice);
    }
}

static void hashes_tell_configurations_apart(void **state)
{
    (void)state;
    static const char *const override[] = {NULL, NULL, "train.steps=1001", "optimizer.params.lr=0.0010000000000000002"};
    uint64_t hash[4];
    for (int i = 0; i < 4; i++) {
        zr_config *c = load("{}", override[i]);
        assert_int_equal(zr_config_resolve(c, 2), ZR_OK);
        assert_int_equal(zr__config_hash(c, &hash[i]), ZR_OK);
        zr_config_destroy(&c);
    }
    assert_true(hash[0] == hash[1]);
    assert_true(hash[0] != hash[2] && hash[0] != hash[3] && hash[2] != hash[3]);
}

/* Return the section that must accompany an override of this key for the key to be valid. */
static const char *companion(const zr_key *key)
{
    static const char *const optimizer[] = {"AdamW", "Adam", "SGD", "Lamb", "Lars", "Muon"};
    static const char *const scheduler[] = {
        "none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "WarmupExpDecayLR", "WarmupPolyDecayLR", "OneCycle"};
    static char text[128];
    bool optim = strncmp(key->path, "optimizer", 9) == 0;
    int type = 0;
    if (strncmp(key->path, "zero_optimization.offload_", strlen("zero_optimization.offload_")) == 0)
        return "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"nvme_path\": \"d\"}}}";
    if (strncmp(key->path, "model.lora.", strlen("model.lora.")) == 0) return "{\"model\": {\"lora\": {\"rank\": 4}}}";
    if (strcmp(key->path, "activation_checkpointing.offload") == 0) /* on disk it needs a folder */
        return "{\"zero_optimization\": {\"offload_optimizer\": {\"nvme_path\": \"d\"}}}";
    while (key->only && !(key->only & 1u << type)) type++;
    snprintf(text, sizeof(text), "{\"%s\": {\"type\": \"%s\"}}", optim ? "optimizer" : "scheduler",
             optim ? optimizer[type] : scheduler[type]);
    return key->only ? text : "{}";
}

static zr_status load_status(const char *text, const char *override)
{
    zr_config *config;
    char type[64];
    const char *const overrides[] = {type, override};
    snprintf(type, sizeof(type), "model.type=%s", family ? family->name : "gpt2");
    zr_status st = zr_config_parse(text, strlen(text), "c.json", overrides, 2, &config);
    zr_config_destroy(&config);
    return st;
}

static void check_default_and_nonsense(const zr_key *key)
{
    char override[256], path[128];
    const char *text = companion(key);
    snprintf(path, sizeof(path), "%s", key->path);
    if (path[strlen(path) - 1] == '*') snprintf(path + strlen(path) - 1, 8, "any");
    assert_true(key->help && *key->help && key->standard);
    assert_int_equal(key->state == ZR_KEY_LIMITED, key->built != NULL);
    assert_ptr_equal(zr__key_find(keys, path), key);
    for (const zr_key *other = keys; other < key; other++) assert_string_not_equal(other->path, key->path);

    snprintf(override, sizeof(override), "%s=%s", path, key->standard);
    if (load_status(text, override) != ZR_OK) fail_msg("%s: %s", override, zr_error_message());
    snprintf(override, sizeof(override), "%s=auto", path);
    bool free_string = (key->type == ZR_KEY_STRING && !key->choices && key->built) ||
                       (key->type == ZR_KEY_ANY && key->state == ZR_KEY_LIMITED);
    /* for these keys, "auto" is an ordinary text; the families of encoders do not have them */
    const bool wrong = (strcmp(path, "data.text_key") == 0 || strcmp(path, "data.chat_date") == 0) && family &&
                       family->samples != ZR_SAMPLES_NEXT;
    assert_int_equal(load_status(text, override), wrong ? ZR_ERR_CONFIG : free_string ? ZR_ERR_UNSUPPORTED : ZR_OK);
    snprintf(override, sizeof(override), "%s=[\"nonsense\"]", path);
    /* no family has labels with its first task */
    bool listed = key->type == ZR_KEY_ANY || (zr__key_is_text(key) && key->type != ZR_KEY_STRING &&
                                              key->type != ZR_KEY_OBJECT && strcmp(path, "model.label_names") != 0);
    assert_int_equal(load_status(text, override), !listed                        ? ZR_ERR_CONFIG
                                                  : key->state == ZR_KEY_LIMITED ? ZR_ERR_UNSUPPORTED
                                                                                 : ZR_OK);
    if (!listed) assert_non_null(strstr(zr_error_message(), path));
}

static void every_key_takes_its_default_and_refuses_nonsense(void **state)
{
    (void)state;
    for_each_key(check_default_and_nonsense);
}

/* Check that lists of paths are kept as text and written back as lists. */
static void paths_may_be_lists(void **state)
{
    (void)state;
    static const struct {
        const char *json, *kept, *wrong; /* wrong: the bad place */
    } value[] = {
        {"\"a.txt\"", "a.txt", NULL},
        {"[\"a.txt\", \"b_*.txt\"]", "[\"a.txt\",\"b_*.txt\"]", NULL},
        {"[{\"path\": \"a\", \"weight\": 2}, {\"path\": [\"b\", \"c\"], \"weight\": 0.5}]",
         "[{\"path\":\"a\",\"weight\":2},{\"path\":[\"b\",\"c\"],\"weight\":0.5}]", NULL},
        {"\"[ab].txt\"", "[ab].txt", NULL},
        {"7", NULL, "data.train: found 7, wanted a path, a list of paths, or a list of"},
        {"[]", NULL, "data.train: found"},
        {"[\"a\", \"\"]", NULL, "data.train[1]: found"},
        {"[[\"a\"]]", NULL, "data.train[0]: found"},
        {"[\"a\", {\"path\": \"b\", \"weight\": 1}]", NULL, "data.train[1]: found"},
        {"[{\"path\": \"a\"}]", NULL, "data.train[0]: found"},
        {"[{\"path\": \"a\", \"weight\": -1}]", NULL, "data.train[0]: found"},
        {"[{\"path\": \"a\", \"weight\": 1, \"wieght\": 1}]", NULL, "data.train[0]: found"},
        {"[{\"path\": [], \"weight\": 1}]", NULL, "data.train[0]: found"},
    };
    for (size_t i = 0; i < sizeof(value) / sizeof(value[0]); i++) {
        char text[512], *json = NULL;
        zr_config *config = NULL, *again = NULL;
        snprintf(text, sizeof(text), "{\"data\": {\"train\": %s}}", value[i].json);
        zr_status st = zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config);
        assert_int_equal(st, value[i].wrong ? ZR_ERR_CONFIG : ZR_OK);
        if (value[i].wrong) assert_non_null(strstr(zr_error_message(), value[i].wrong));
        if (value[i].wrong) continue;
        assert_string_equal(config->data.train, value[i].kept);
        assert_true(zr__config_given(config, "data.train"));
        assert_int_equal(zr_config_to_json(config, &json), ZR_OK);
        assert_int_equal(zr_config_parse(json, strlen(json), "again.json", NULL, 0, &again), ZR_OK);
        assert_string_equal(again->data.train, value[i].kept);
        zr_free(json);
        zr_config_destroy(&config);
        zr_config_destroy(&again);
    }
}

/* Check that patterns of names are kept one per line; one is written back as a string, several as a list. */
static void names_may_be_lists(void **state)
{
    (void)state;
    static const struct {
        const char *json, *kept, *back, *wrong; /* wrong: the bad place */
    } value[] = {
        {"null", NULL, "\"frozen\": null", NULL},
        {"\"wte.*\"", "wte.*", "\"frozen\": \"wte.*\"", NULL},
        {"[\"wte.*\"]", "wte.*", "\"frozen\": \"wte.*\"", NULL},
        {"\"[hw]*\"", "[hw]*", "\"frozen\": \"[hw]*\"", NULL},
        {"[\"wte.*\", \"h.[0-3].*\"]", "wte.*\nh.[0-3].*", "\"h.[0-3].*\"", NULL},
        {"7", NULL, NULL, "model.frozen: found 7, wanted a pattern of names"},
        {"[]", NULL, NULL,
         "model.frozen: found [], wanted a pattern of names, a list of one or more, or null for none"},
        {"\"\"", NULL, NULL, "model.frozen: found"},
        {"[\"a\", \"\"]", NULL, NULL, "model.frozen[1]: found"},
        {"[[\"a\"]]", NULL, NULL, "model.frozen[0]: found"},
        {"\"a\\nb\"", NULL, NULL, "model.frozen: found"},
        {"{\"path\": \"a\"}", NULL, NULL, "model.frozen"},
    };
    for (size_t i = 0; i < sizeof(value) / sizeof(value[0]); i++) {
        char text[512], *json = NULL;
        zr_config *config = NULL, *again = NULL;
        snprintf(text, sizeof(text), "{\"model\": {\"frozen\": %s}}", value[i].json);
        assert_int_equal(zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config),
                         value[i].wrong ? ZR_ERR_CONFIG : ZR_OK);
        if (value[i].wrong && !strstr(zr_error_message(), value[i].wrong)) fail_msg("%s", zr_error_message());
        if (value[i].wrong) continue;
        assert_int_equal(zr_config_to_json(config, &json), ZR_OK);
        assert_non_null(strstr(json, value[i].back));
        assert_int_equal(zr_config_parse(json, strlen(json), "again.json", NULL, 0, &again), ZR_OK);
        if (value[i].kept) {
            assert_string_equal(config->model.frozen, value[i].kept);
            assert_string_equal(again->model.frozen, value[i].kept);
        } else {
            assert_null(config->model.frozen);
        }
        zr_free(json);
        zr_config_destroy(&config);
        zr_config_destroy(&again);
    }
}

/* Copy the n-th word of "a|b|c"; return false after the last. */
static bool nth_word(const char *choices, int n, char out[32])
{
    for (; n > 0 && choices; n--) {
        choices = strchr(choices, '|');
        if (choices) choices++;
    }
    if (choices) snprintf(out, 32, "%.*s", (int)strcspn(choices, "|"), choices);
    return choices != NULL;
}

static int words;

/* Set each available word of a choice, resolve, save and read it back. */
static void check_words(const zr_key *key)
{
    char override[160], word[32];
    bool either = key->type == ZR_KEY_EITHER;
    if ((key->type != ZR_KEY_CHOICE && !either) || key->state != ZR_KEY_BUILT || key->field) return;
    for (int w = 0; nth_word(key->choices, w, word); w++, words++) {
        bool wire = strcmp(key->path, "communication_data_type") == 0 && strcmp(word, "fp32") != 0;
        snprintf(override, sizeof(override), "%s=%s", key->path, wire ? "fp32" : word);
        const bool on_gpus = strcmp(word, "nccl") == 0;
        char *text = resolved(on_gpus ? "{\"device\": \"cuda\"}" : companion(key), override);
        zr_config *c = load(text, NULL);
        json_t *got = zr__value_get(c, key);
        assert_string_equal(json_string_value(got), wire ? "fp32" : word);
        json_decref(got);
        zr_config_destroy(&c);
        zr_free(text);
    }
    assert_true(!either || !nth_word(key->choices, 2, word));
}

static void every_word_of_a_choice_comes_back(void **state)
{
    (void)state;
    words = 0;
    for_each_key(check_words);
    assert_true(words > 20);
}

static void check_limits(const zr_key *key)
{
    char override[256], low[ZR_NUMBER_BYTES], high[ZR_NUMBER_BYTES];
    if (key->type != ZR_KEY_INT && key->type != ZR_KEY_NUMBER) return;
    const double step = key->type == ZR_KEY_INT ? 1 : key->min > 0 ? key->min / 2 : 0.5;
    snprintf(override, sizeof(override), "%s=%s", key->path, zr__text_shortest(key->min - step, low));
    assert_int_equal(load_status(companion(key), override), ZR_ERR_CONFIG);
    if (key->max > ZR_CONFIG_MAX_INT) return;
    snprintf(override, sizeof(override), "%s=%s", key->path, zr__text_shortest(key->max + 2, high));
    assert_int_equal(load_status(companion(key), override), ZR_ERR_CONFIG);
}

static void limits_of_numbers_hold(void **state)
{
    (void)state;
    for_each_key(check_limits);
}

static void the_reference_lists_every_key(void **state)
{
    (void)state;
    zr_key *key = NULL;
    char *markdown, cell[160];
    assert_int_equal(zr_config_keys(&key), ZR_OK);
    assert_int_equal(config_reference(&markdown), ZR_OK);
    for (int i = 0; key[i].path; i++) {
        snprintf(cell, sizeof(cell), "`%s`", key[i].path);
        assert_non_null(strstr(markdown, cell));
    }
    zr_free(key);
    zr_free(markdown);
}

static void files_are_read(void **state)
{
    (void)state;
    char path[] = "/tmp/zr-config-XXXXXX";
    int fd = mkstemp(path);
    zr_config *c;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, deepspeed, sizeof(deepspeed) - 1), sizeof(deepspeed) - 1);
    close(fd);
    assert_int_equal(zr_config_load(path, NULL, 0, &c), ZR_OK);
    assert_int_equal(c->zero.stage, 3);
    zr_config_destroy(&c);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(a_deepspeed_file),
        cmocka_unit_test(keys_of_the_schedule),
        cmocka_unit_test(half_precision),
        cmocka_unit_test(keys_without_effect_are_said),
        cmocka_unit_test(usual_deepspeed_files),
        cmocka_unit_test(what_auto_became_is_said),
        cmocka_unit_test(notices_are_bounded),
        cmocka_unit_test(later_overrides_win),
        cmocka_unit_test(setting_after_loading),
        cmocka_unit_test(the_batch_triangle),
        cmocka_unit_test(sizes_of_presets),
        cmocka_unit_test(presets_take_a_recipe),
        cmocka_unit_test(keys_lie_over_a_recipe),
        cmocka_unit_test(rates_fit_a_recipe),
        cmocka_unit_test(a_resumed_run_keeps_its_rule),
        cmocka_unit_test(buckets_are_rounded_as_the_plan_does),
        cmocka_unit_test(resolved_files_load_again),
        cmocka_unit_test(hashes_tell_configurations_apart),
        cmocka_unit_test(every_key_takes_its_default_and_refuses_nonsense),
        cmocka_unit_test(paths_may_be_lists),
        cmocka_unit_test(names_may_be_lists),
        cmocka_unit_test(every_word_of_a_choice_comes_back),
        cmocka_unit_test(limits_of_numbers_hold),
        cmocka_unit_test(the_reference_lists_every_key),
        cmocka_unit_test(files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
