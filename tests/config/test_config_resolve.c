//TEST timeout=20
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* Values that follow from other keys and from the number of ranks, what is said about keys without effect and about
 * "auto", and configurations that do not fit together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/allocations.h"
#include "config/config.h"
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

/* Read members of a configuration of a small model. */
static zr_status parse(const char *members, zr_config **config)
{
    char text[2048];
    const bool model = strstr(members, "\"model\"") != NULL;
    snprintf(text, sizeof(text), "{%s%s%s}", model ? "" : "\"model\": {\"n_layer\": 2, \"n_head\": 2, \"n_embd\": 64}",
             model || !*members ? "" : ", ", members);
    return zr_config_parse(text, strlen(text), "c.json", NULL, 0, config);
}

static zr_config *load(const char *members)
{
    zr_config *config = NULL;
    if (parse(members, &config) != ZR_OK) fail_msg("%s: %s", members, zr_error_message());
    return config;
}

static zr_config *resolved(const char *members, int ranks)
{
    zr_config *config = load(members);
    if (zr_config_resolve(config, ranks) != ZR_OK) fail_msg("%s: %s", members, zr_error_message());
    return config;
}

static const char *note_with(const zr_config *config, const char *part)
{
    for (int i = 0; i < zr_config_notes(config); i++)
        if (strstr(zr_config_note(config, i), part)) return zr_config_note(config, i);
    return NULL;
}

static void refuse(const char *members, int ranks, zr_status status, const char *part)
{
    zr_config *config = NULL;
    zr_status st = parse(members, &config);
    if (st == ZR_OK) st = zr_config_resolve(config, ranks);
    if (st != status || !strstr(zr_error_message(), part))
        fail_msg("%s: status %d, %s; wanted %s", members, (int)st, st == ZR_OK ? "" : zr_error_message(), part);
    zr_config_destroy(&config);
}

/* ---- optimizers --------------------------------------------------------------------------------- */

#define OPTIMIZER(type, params) "\"optimizer\": {\"type\": \"" type "\", \"params\": {" params "}}"

static void optimizers_have_their_own_defaults(void **state)
{
    (void)state;
    static const char clip[] = "gradient_clipping: not given, set to 1, which is max_grad_norm of NVIDIA's LAMB";
    static const struct {
        const char *members;
        double clip, eps, decay, momentum;
        bool says;
    } cases[] = {
        {OPTIMIZER("Lamb", "\"variant\": \"nvidia\"") ", \"gradient_clipping\": 0", 0, 1e-6, 0.01, 0, false},
        {OPTIMIZER("Lamb", "\"variant\": \"nvidia\"") ", \"gradient_clipping\": 0.5", 0.5, 1e-6, 0.01, 0, false},
        {OPTIMIZER("Lamb", "\"variant\": \"nvidia\""), 1, 1e-6, 0.01, 0, true},
        {OPTIMIZER("Lamb", "\"variant\": \"nvidia\", \"eps\": 0.25, \"weight_decay\": 0.125"), 1, 0.25, 0.125, 0, true},
        {OPTIMIZER("Lars", "\"lr\": 1") ", \"gradient_clipping\": 0", 0, -1, -1, 0.9, false},
        {OPTIMIZER("Lars", "\"momentum\": 0.5") ", \"gradient_clipping\": 0", 0, -1, -1, 0.5, false},
        {OPTIMIZER("SGD", "\"lr\": 1") ", \"gradient_clipping\": 0", 0, -1, -1, 0, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = resolved(cases[i].members, 1);
        if (c->gradient_clipping != cases[i].clip || (note_with(c, clip) != NULL) != cases[i].says)
            fail_msg("%s: clipping %g", cases[i].members, c->gradient_clipping);
        if (cases[i].eps >= 0) assert_true(c->optimizer.eps == cases[i].eps);
        if (cases[i].decay >= 0) assert_true(c->optimizer.weight_decay == cases[i].decay);
        if (cases[i].momentum > 0) assert_true(c->optimizer.momentum == cases[i].momentum);
        zr_config_destroy(&c);
    }
    for (int v = ZR_LAMB_DEEPSPEED; v <= ZR_LAMB_PAPER; v++) {
        static const char *const name[] = {"deepspeed", "nvidia", "paper"};
        char members[128];
        snprintf(members, sizeof(members), OPTIMIZER("Lamb", "\"variant\": \"%s\""), name[v]);
        zr_config *c = resolved(members, 1);
        const zr_lamb_args standard = zr_lamb_defaults((zr_lamb_variant)v);
        assert_true(c->optimizer.eps == standard.eps && c->optimizer.weight_decay == standard.weight_decay);
        zr_config_destroy(&c);
    }
}

/* ---- keys without effect --------------------------------------------------------------------------- */

#define ZERO(members) "\"zero_optimization\": {" members "}"

static void keys_without_effect_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *members, *note;
    } cases[] = {
        {ZERO("\"offload_optimizer\": {\"ratio\": 0.5}"),
         "zero_optimization.offload_optimizer.ratio has no effect: offload_optimizer.device is none"},
        {ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}"), NULL},
        {ZERO("\"offload_optimizer\": {\"gradients\": false}"),
         "zero_optimization.offload_optimizer.gradients has no effect: offload_optimizer.device is none"},
        {ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"gradients\": false}"), NULL},
        {ZERO("\"offload_optimizer\": {\"buffer_count\": 7}"),
         "zero_optimization.offload_optimizer.buffer_count has no effect: offload_optimizer.device is none"},
        {ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0}"),
         "zero_optimization.offload_optimizer.device has no effect: offload_optimizer.ratio is 0"},
        {ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\", \"ratio\": 0}"),
         "zero_optimization.offload_param.device has no effect: offload_param.ratio is 0"},
        {ZERO("\"stage\": 3, \"offload_param\": {\"ratio\": 0.5}"),
         "zero_optimization.offload_param.ratio has no effect: offload_param.device is none"},
        {ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\", \"ratio\": 0.5}"), NULL},
        {ZERO("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\", \"ratio\": 0.5}"),
         "zero_optimization.offload_param.ratio has no effect: stage is 2"},
        {ZERO("\"stage\": 2, \"max_live_parameters\": 7, \"max_reuse_distance\": 7"),
         "zero_optimization: these keys have no effect: max_live_parameters, max_reuse_distance: stage is 2"},
        {ZERO("\"sub_group_size\": 5000"), "zero_optimization.sub_group_size has no effect: no states are offloaded"},
        {ZERO("\"sub_group_size\": 5000, \"offload_optimizer\": {\"device\": \"cpu\"}"), NULL},
        {ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"nvme_path\": \"/tmp\"}"),
         "zero_optimization.offload_optimizer.nvme_path has no effect: nothing is stored on disk"},
        {ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\", \"nvme_path\": \"/tmp\"}"),
         "zero_optimization.offload_param.nvme_path has no effect: nothing is stored on disk"},
        {ZERO("\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/tmp\"}"), NULL},
        {"\"aio\": {\"block_size\": 8192}", "aio.block_size has no effect: nothing is stored on disk"},
        {"\"aio\": {\"queue_depth\": 4}", "aio.queue_depth has no effect: nothing is stored on disk"},
        {"\"aio\": {\"queue_depth\": 4}, " ZERO(
             "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/tmp\"}"),
         NULL},
        {"\"parallel\": {\"sequence\": \"keep\"}", "parallel.sequence has no effect: with parallel.tensor 1"},
        {"\"activation_checkpointing\": {\"policy\": \"keep\", \"cpu_checkpointing\": true}",
         "nothing is checkpointed, and nothing kept on the host, because policy is keep"},
        {"\"activation_checkpointing\": {\"policy\": \"none\", \"offload\": \"host\"}",
         "nothing is checkpointed, and nothing kept on the host, because policy is none"},
        {"\"activation_checkpointing\": {\"policy\": \"none\", \"partition_activations\": true}",
         "activation_checkpointing: nothing is checkpointed, because policy is none; "
         "--activation_checkpointing.policy=unit keeps the input of each block"},
        {"\"activation_checkpointing\": {\"policy\": \"unit\", \"partition_activations\": true}",
         "activation_checkpointing.partition_activations has no effect: with parallel.tensor 1"},
        {"\"activation_checkpointing\": {\"policy\": \"unit\"}", NULL},
        {"\"activation_checkpointing\": {\"policy\": \"none\"}", NULL},
        {"\"memory\": {\"norm\": \"two_pass\"}, \"gradient_accumulation_steps\": 2",
         "memory.norm: two_pass has no effect, because with gradient_accumulation_steps above 1"},
        {"\"memory\": {\"norm\": \"two_pass\"}, \"train\": {\"reproducible\": \"world\"}",
         "memory.norm: two_pass has no effect, because with train.reproducible world"},
        {"\"train\": {\"accumulation_order\": \"layer\"}", "train.accumulation_order: layer has no effect"},
        {"\"train\": {\"accumulation_order\": \"layer\"}, \"gradient_accumulation_steps\": 2", NULL},
        {"\"fp16\": {\"enabled\": false, \"loss_scale\": 8}", "fp16: not enabled, so its other keys have no effect"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = resolved(cases[i].members, 1);
        const char *note = note_with(c, "has no effect");
        if (!note) note = note_with(c, "nothing is checkpointed");
        if (!note) note = note_with(c, "have no effect");
        if (cases[i].note ? !note_with(c, cases[i].note) : note != NULL)
            fail_msg("%s: %s; wanted %s", cases[i].members, note ? note : "no note",
                     cases[i].note ? cases[i].note : "none");
        for (int n = 0; n < zr_config_notes(c); n++) assert_true(zr_config_note(c, n)[0]);
        zr_config_destroy(&c);
    }
}

static void reductions_without_effect_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *members, *note;
        int ranks;
    } cases[] = {
        {"\"gradient_reduction\": \"step\"", NULL, 1},
        {"\"gradient_reduction\": \"step\"", "gradient_reduction: step has no effect, because a training step has one",
         2},
        {"\"gradient_reduction\": \"step\", \"gradient_accumulation_steps\": 2, " ZERO("\"stage\": 2"),
         "gradient_reduction: with step, each rank keeps the whole gradient in fp32, although zero_optimization.stage "
         "is 2",
         2},
        {"\"gradient_reduction\": \"step\", \"gradient_accumulation_steps\": 2, " ZERO("\"stage\": 1"), NULL, 2},
        {ZERO("\"zero_quantized_gradients\": true"),
         "zero_quantized_gradients has no effect on one data-parallel rank: nothing is reduced", 1},
        {ZERO("\"zero_quantized_gradients\": true, \"zeropp_loco_param\": {\"reset_T\": 9}"),
         "nothing is reduced, and zeropp_loco_param keeps no errors", 1},
        {ZERO("\"zero_quantized_gradients\": true"), NULL, 2},
        {"\"gradient_accumulation_steps\": 2, " ZERO("\"zero_quantized_gradients\": true"),
         "gradient_reduction: step, because of zero_optimization.zero_quantized_gradients", 2},
        {ZERO("\"reduce_bucket_size\": 1000"), "reduce_bucket_size: rounded up to 1024, a multiple of 32 x 2 ranks", 2},
        {ZERO("\"reduce_bucket_size\": 1024"), NULL, 2},
        {ZERO("\"reduce_bucket_size\": 0"), "reduce_bucket_size: rounded up to 64, a multiple of 32 x 2 ranks", 2},
        {ZERO("\"allgather_bucket_size\": 0"), "allgather_bucket_size: rounded up to 64, a multiple of 32 x 2 ranks",
         2},
        {ZERO("\"allgather_bucket_size\": 100"), "allgather_bucket_size: rounded up to 128, a multiple of 32 x 2 ranks",
         2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = resolved(cases[i].members, cases[i].ranks);
        const char *note = note_with(c, "gradient_reduction");
        if (!note) note = note_with(c, "bucket_size");
        if (cases[i].note ? !note_with(c, cases[i].note) : note != NULL)
            fail_msg("%s: %s; wanted %s", cases[i].members, note ? note : "no note",
                     cases[i].note ? cases[i].note : "none");
        zr_config_destroy(&c);
    }
}

static void quantised_keys_without_effect_are_said(void **state)
{
    (void)state;
#define OFFLOADED ZERO("\"stage\": 3, \"zero_quantized_weights\": true, \"offload_param\": {\"device\": \"cpu\"}")
#define FROZEN ZERO("\"stage\": 3, \"zero_quantized_nontrainable_weights\": true")
    static const struct {
        const char *members, *part, *note; /* the note with `part`, or NULL for none */
    } cases[] = {
        {FROZEN, "nontrainable", "zero_quantized_nontrainable_weights has no effect: no parameters are frozen"},
        {"\"model\": {\"frozen\": \"wte.*\"}, " FROZEN, "nontrainable", NULL},
        {"\"model\": {\"frozen\": [\"wte.*\", \"h.0.*\"]}, " FROZEN, "nontrainable", NULL},
        {ZERO("\"zero_quantized_weights\": true"), "zero_quantized_weights",
         "at zero_optimization.stage 0 no parameters pass between ranks: values are rounded, but nothing is saved"},
        {ZERO("\"stage\": 1, \"zero_quantized_weights\": true"), "zero_quantized_weights", NULL},
        {"\"model\": {\"lora\": {\"rank\": 4}}, " ZERO("\"stage\": 3, \"zero_quantized_weights\": true"), "model.lora",
         "it quantises only the adapters; zero_quantized_nontrainable_weights quantises the frozen matrices"},
        {OFFLOADED, "zero_quantized_weights", "trained matrices of blocks are cast from their fp32 masters"},
        {"\"bf16\": {\"enabled\": true}, " OFFLOADED, "zero_quantized_weights", NULL},
        {"\"bf16\": {\"enabled\": true}, " OFFLOADED, "offload_param",
         "offload_param has no effect with memory.layout"},
    };
#undef FROZEN
#undef OFFLOADED
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = resolved(cases[i].members, 2);
        const char *note = note_with(c, cases[i].part);
        if (cases[i].note ? !note || !strstr(note, cases[i].note) : note != NULL)
            fail_msg("%s: %s; wanted %s", cases[i].members, note ? note : "no note",
                     cases[i].note ? cases[i].note : "none");
        zr_config_destroy(&c);
    }
}

/* ---- "auto" -------------------------------------------------------------------------------------- */

/* Check what "auto" becomes and which value Hugging Face's Trainer takes: the model is 64 wide. */
static void autos_are_compared_with_trainer(void **state)
{
    (void)state;
    static const struct {
        const char *members, *note;
    } cases[] = {
        {ZERO("\"stage\": 3, \"reduce_bucket_size\": \"auto\""),
         "; Hugging Face's Trainer uses 4096 (n_embd x n_embd), which --zero_optimization.reduce_bucket_size=4096 "
         "sets"},
        {ZERO("\"stage\": 3, \"stage3_prefetch_bucket_size\": \"auto\""),
         "; Hugging Face's Trainer uses 3686 (0.9 x n_embd x n_embd), which "
         "--zero_optimization.stage3_prefetch_bucket_size=3686 sets"},
        {ZERO("\"stage\": 3, \"stage3_param_persistence_threshold\": \"auto\""),
         "; Hugging Face's Trainer uses 640 (10 x n_embd), which "
         "--zero_optimization.stage3_param_persistence_threshold=640 sets"},
        {"\"train\": {\"steps\": 77}, \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": "
         "\"auto\"}}",
         "scheduler.params.total_num_steps: auto, set to 77, as Hugging Face's Trainer does (the steps of the run)"},
        {"\"bf16\": {\"enabled\": \"auto\"}", "bf16.enabled: auto, set to false"},
        {"\"memory\": {\"limit\": \"1GB\"}, \"bf16\": {\"enabled\": \"auto\"}, " ZERO(
             "\"offload_optimizer\": {\"device\": \"auto\", \"nvme_path\": \"/tmp\"}"),
         "bf16.enabled: auto, set to false"}, /* beside a choice that stays open */
        {"\"train_micro_batch_size_per_gpu\": \"auto\"", "train_micro_batch_size_per_gpu: auto, set to 1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = resolved(cases[i].members, 1);
        if (!note_with(c, cases[i].note))
            fail_msg("%s: %s; wanted %s", cases[i].members, note_with(c, "auto") ? note_with(c, "auto") : "no note",
                     cases[i].note);
        zr_config_destroy(&c);
    }
    zr_config *c = resolved(
        ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": \"auto\", \"buffer_count\": \"auto\"}"), 1);
    assert_null(note_with(c, ".pin_memory: auto"));
    zr_config_destroy(&c);
}

/* ---- batches ------------------------------------------------------------------------------------------ */

/* Check the three keys of the batch, 0 for none, for a number of ranks. */
static void batches_follow_from_two_keys(void **state)
{
    (void)state;
    static const struct {
        int batch, micro, accum, ranks, want_batch, want_micro, want_accum;
        const char *fault;
    } cases[] = {
        {0, 0, 0, 3, 3, 1, 1, NULL},
        {0, 2, 0, 3, 6, 2, 1, NULL},
        {0, 0, 4, 3, 12, 1, 4, NULL},
        {0, 2, 4, 3, 24, 2, 4, NULL},
        {24, 0, 0, 3, 24, 8, 1, NULL},
        {24, 2, 0, 3, 24, 2, 4, NULL},
        {24, 0, 4, 3, 24, 2, 4, NULL},
        {24, 2, 4, 3, 24, 2, 4, NULL},
        {2, 0, 0, 3, 0, 0, 0, "2 = ? x 1 x 3; train_batch_size is too small"},
        {4, 0, 0, 3, 0, 0, 0, "4 = ? x 1 x 3; train_batch_size is not a multiple of the other factors"},
        {24, 9, 0, 3, 0, 0, 0, "24 = 9 x ? x 3; train_batch_size is too small"},
        {24, 8, 0, 3, 24, 8, 1, NULL},
        {24, 3, 0, 3, 0, 0, 0, "24 = 3 x ? x 3; train_batch_size is not a multiple"},
        {24, 2, 4, 2, 0, 0, 0, "24 = 2 x 4 x 2; it holds for 3 ranks: use that number, or leave out one of the three"},
        {8, 2, 4, 2, 0, 0, 0, "it holds for 1 rank: use that number"},
        {25, 2, 4, 2, 0, 0, 0, "25 = 2 x 4 x 2; leave out one of the three"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char members[256] = "\"train\": {\"steps\": 10}";
        const int value[] = {cases[i].batch, cases[i].micro, cases[i].accum};
        static const char *const key[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                          "gradient_accumulation_steps"};
        for (int k = 0; k < 3; k++)
            if (value[k])
                snprintf(members + strlen(members), sizeof(members) - strlen(members), ", \"%s\": %d", key[k],
                         value[k]);
        if (cases[i].fault) {
            refuse(members, cases[i].ranks, ZR_ERR_CONFIG, cases[i].fault);
            continue;
        }
        zr_config *c = resolved(members, cases[i].ranks);
        if (c->train_batch_size != cases[i].want_batch || c->micro_batch_size != cases[i].want_micro ||
            c->accumulation_steps != cases[i].want_accum)
            fail_msg("%s: %lld = %lld x %lld", members, (long long)c->train_batch_size, (long long)c->micro_batch_size,
                     (long long)c->accumulation_steps);
        assert_true((note_with(c, "train_micro_batch_size_per_gpu: not given, set to 1") != NULL) ==
                    (!cases[i].batch && !cases[i].micro));
        zr_config_destroy(&c);
    }
}

/* Check a run that goes on with another number of ranks: it keeps its batch. */
static void a_resumed_run_keeps_its_batch(void **state)
{
    (void)state;
    static const char three[] = "\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 4,"
                                " \"gradient_accumulation_steps\": 3"; /* of 2 ranks */
    static const struct {
        const char *key[2];
        int ranks, micro, accum, batch;
        const char *fault;
    } cases[] = {
        {{NULL}, 2, 4, 3, 24, NULL},
        {{NULL}, 1, 4, 6, 24, NULL},
        {{NULL}, 3, 4, 2, 24, NULL},
        {{NULL}, 4, 2, 3, 24, NULL},
        {{NULL}, 5, 0, 0, 0, "a resumed run keeps its 24 (it had 2 ranks), which is not a multiple of 5 ranks"},
        {{"train_micro_batch_size_per_gpu=2"}, 3, 2, 4, 24, NULL},
        {{"train_micro_batch_size_per_gpu=3"}, 3, 0, 0, 0, "24 = 3 x ? x 3; a resumed run keeps its train_batch_size"},
        {{"gradient_accumulation_steps=4"}, 3, 2, 4, 24, NULL},
        {{"gradient_accumulation_steps=3"}, 3, 0, 0, 0, "24 = ? x 3 x 3; a resumed run keeps its train_batch_size"},
        {{"gradient_accumulation_steps=4", "train_micro_batch_size_per_gpu=3"},
         3,
         0,
         0,
         0,
         "24 = 3 x 4 x 3; a resumed run keeps its train_batch_size"},
        {{"gradient_accumulation_steps=4", "train_micro_batch_size_per_gpu=2"}, 3, 2, 4, 24, NULL},
        {{"train_batch_size=30"}, 5, 2, 3, 30, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        zr_config *c = NULL;
        snprintf(text, sizeof(text), "{\"model\": {\"n_layer\": 2, \"n_head\": 2, \"n_embd\": 64}, %s}", three);
        const int keys = (cases[i].key[0] != NULL) + (cases[i].key[1] != NULL);
        assert_int_equal(zr_config_parse(text, strlen(text), "c.json", cases[i].key, keys, &c), ZR_OK);
        zr__config_go_on(c);
        const zr_status st = zr_config_resolve(c, cases[i].ranks);
        if (cases[i].fault) {
            if (st != ZR_ERR_CONFIG || !strstr(zr_error_message(), cases[i].fault))
                fail_msg("%zu: %s", i, zr_error_message());
        } else {
            if (st != ZR_OK) fail_msg("%zu: %s", i, zr_error_message());
            if (c->train_batch_size != cases[i].batch || c->micro_batch_size != cases[i].micro ||
                c->accumulation_steps != cases[i].accum)
                fail_msg("%zu: %lld = %lld x %lld", i, (long long)c->train_batch_size, (long long)c->micro_batch_size,
                         (long long)c->accumulation_steps);
            char note[200];
            snprintf(note, sizeof(note),
                     "train_batch_size: still 24, on %d rank%s with train_micro_batch_size_per_gpu %d and "
                     "gradient_accumulation_steps %d",
                     cases[i].ranks, cases[i].ranks == 1 ? "" : "s", cases[i].micro, cases[i].accum);
            if (i > 0 && i < 10 && keys < 2) assert_non_null(note_with(c, note));
            if (i == 0) assert_null(note_with(c, "train_batch_size"));
        }
        zr_config_destroy(&c);
    }
}

/* ---- choices that stay open ----------------------------------------------------------------------------- */

static void choices_stay_open_or_not(void **state)
{
    (void)state;
    enum { STAGE = 1, POLICY = 2, SPLIT = 4, BATCH = 8, OFFLOAD = 16, OPTIM = 32, PARAM = 64, ORDER = 128 };
    static const char limit[] = "\"memory\": {\"limit\": \"1GB\"}";
    static const struct {
        const char *members;
        bool by_memory;
        int64_t disk_bytes;
        int open;
    } cases[] = {
        {"", false, 0, 0},
        {"", true, 0, 0}, /* without a limit nothing is open */
        {limit, false, 0, 0},
        {limit, true, 0, STAGE | POLICY | BATCH},
        {limit, true, 1, STAGE | POLICY | BATCH | OFFLOAD},
        {"\"memory\": {\"limit\": \"1GB\"}, \"train_batch_size\": 8", true, 0, STAGE | POLICY | SPLIT},
        {"\"memory\": {\"limit\": \"1GB\"}, \"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2", true, 0,
         STAGE | POLICY},
        {"\"memory\": {\"limit\": \"1GB\"}, \"train_micro_batch_size_per_gpu\": 2", true, 0, STAGE | POLICY},
        {"\"memory\": {\"limit\": \"1GB\"}, \"activation_checkpointing\": {\"policy\": \"keep\"}", true, 0,
         STAGE | BATCH},
        {"\"memory\": {\"limit\": \"1GB\"}, " ZERO("\"stage\": 1"), true, 0, POLICY | BATCH},
        {"\"memory\": {\"limit\": \"1GB\"}, " ZERO("\"offload_optimizer\": {\"device\": \"none\"}"), true, 1,
         STAGE | POLICY | BATCH},
        {"\"memory\": {\"limit\": \"1GB\"}, " ZERO("\"offload_optimizer\": {\"nvme_path\": \"/tmp\"}"), true, 0,
         STAGE | POLICY | BATCH | OFFLOAD},
        {"\"memory\": {\"limit\": \"1GB\"}, " ZERO(
             "\"offload_optimizer\": {\"nvme_path\": \"/tmp\", \"device\": \"auto\"}"),
         false, 0, OFFLOAD},
        {"\"memory\": {\"limit\": \"1GB\"}, " ZERO("\"offload_optimizer\": {\"nvme_path\": \"/tmp\"}"), false, 0, 0},
        {"\"memory\": {\"limit\": \"1GB\"}, \"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": \"auto\","
         " \"gradient_accumulation_steps\": \"auto\", \"activation_checkpointing\": {\"policy\": \"auto\"}",
         false, 0, SPLIT},
        {ZERO("\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": \"auto\"}"), false, 0, OPTIM},
        {ZERO("\"offload_optimizer\": {\"device\": \"none\", \"ratio\": \"auto\"}"), false, 0, 0},
        {ZERO("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\", \"ratio\": \"auto\"}"), false, 0, PARAM},
        {"\"gradient_accumulation_steps\": 2, \"train\": {\"accumulation_order\": \"auto\"}", false, 0, ORDER},
        {"\"gradient_accumulation_steps\": 1, \"train\": {\"accumulation_order\": \"auto\"}", false, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = load(cases[i].members);
        if (cases[i].by_memory) zr__config_leave_open(c);
        zr__config_offer_disk(c, cases[i].disk_bytes);
        assert_int_equal(zr__config_disk_bytes(c), cases[i].disk_bytes);
        if (zr_config_resolve(c, 2) != ZR_OK) fail_msg("%s: %s", cases[i].members, zr_error_message());
        const zr__config_open o = zr__config_get_open(c);
        const int open = o.stage * STAGE | o.policy * POLICY | o.split * SPLIT | o.batch * BATCH | o.offload * OFFLOAD |
                         o.optim_ratio * OPTIM | o.param_ratio * PARAM | o.order * ORDER;
        if (open != cases[i].open) fail_msg("%zu %s: %d is open, wanted %d", i, cases[i].members, open, cases[i].open);
        assert_int_equal(zr__config_is_open(c), open != 0);
        zr_config_destroy(&c);
    }
}

/* ---- what does not fit ------------------------------------------------------------------------------------ */

#define MUON(params) "\"optimizer\": {\"type\": \"Muon\", \"params\": {" params "}}"
#define WARMUP(params) "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {" params "}}"

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    refuse("\"parallel\": {\"tensor\": 2}", 3, ZR_ERR_CONFIG,
           "parallel.tensor: 2 does not divide the 3 ranks; use a number of ranks that is a multiple of 2");
    refuse("\"train\": {\"reproducible\": \"world\"}", 6, ZR_ERR_CONFIG,
           "power of two, but there are 6 ranks; use 4 or 8 ranks, or \"layout\"");
    refuse("\"train\": {\"reproducible\": \"world\"}", 3, ZR_ERR_CONFIG, "there are 3 ranks; use 2 or 4 ranks");
    refuse("\"train\": {\"gradient_noise_scale\": true}", 1, ZR_ERR_CONFIG,
           "train.gradient_noise_scale: needs at least two");
    refuse("\"train\": {\"keep_best\": true, \"eval_interval\": 0}, \"data\": {\"train\": \"t\", \"val\": \"v\"}", 1,
           ZR_ERR_CONFIG, "train.keep_best: needs evaluations, but there are none (train.eval_interval is 0)");
    refuse("\"train\": {\"keep_best\": true, \"eval_interval\": 5}, \"data\": {\"train\": \"t\"}", 1, ZR_ERR_CONFIG,
           "there are none (there is no data.val)");
    refuse("\"train\": {\"sample_tokens\": 5}, \"data\": {\"train\": \"t\"}", 1, ZR_ERR_CONFIG,
           "train.sample_tokens: token files need a tokenizer");
    refuse("\"train\": {\"sample_tokens\": 5}, \"parallel\": {\"tensor\": 2}", 2, ZR_ERR_UNSUPPORTED,
           "train.sample_tokens cannot be used with parallel.tensor 2");
    refuse("\"collectives\": {\"reduce\": \"all_reduce\"}, \"gradient_accumulation_steps\": 2, " ZERO("\"stage\": 1"),
           2, ZR_ERR_UNSUPPORTED, "there are 2 with layout; use reduce_scatter or stage 0");
    refuse("\"data\": {\"seq_length\": 1025}", 1, ZR_ERR_CONFIG,
           "data.seq_length: 1025 is longer than model.n_positions 1024");
    refuse("\"model\": {\"n_head\": 5, \"n_embd\": 64}", 1, ZR_ERR_CONFIG, "model.n_head: 5 does not divide n_embd 64");
    refuse("\"model\": {\"type\": \"bert\"}, \"data\": {\"seq_length\": 4}", 1, ZR_ERR_CONFIG,
           "data.seq_length: 4 is too short for a pair of sentences");
    refuse("\"model\": {\"type\": \"bert\"}, \"data\": {\"seq_length\": 8, \"max_predictions\": 9}", 1, ZR_ERR_CONFIG,
           "data.max_predictions: 9 is more than data.seq_length 8");
    refuse("\"model\": {\"type\": \"bert\"}, \"data\": {\"seq_length\": 8, \"max_samples\": 9}", 1, ZR_ERR_CONFIG,
           "data.max_samples: 9 is more than data.seq_length 8");
    refuse(MUON("\"adam_lr\": 0"), 1, ZR_ERR_CONFIG,
           "optimizer.params: muon_lr is 0.02 and adamw.lr (adam_lr) 0, but both must be above 0, or both 0; to keep "
           "parameters as they are, name them in model.frozen");
    refuse(MUON("\"muon_lr\": 0"), 1, ZR_ERR_CONFIG, "muon_lr is 0 and adamw.lr (adam_lr) 0.0003, but both");
    refuse(MUON("\"lr\": 0, \"muon_lr\": 0.02"), 1, ZR_ERR_CONFIG, "muon_lr is 0.02 and lr 0, but");
    refuse(MUON("\"lr\": 0.02, \"adam_lr\": 0.003") ", " WARMUP("\"warmup_min_lr\": 0.001"), 1, ZR_ERR_CONFIG,
           "scheduler.params.warmup_min_lr: 0.001 is the lowest learning rate of all parameters, but "
           "optimizer.params.lr is 0.02 and adamw.lr (adam_lr) 0.003; leave it out");
    static const struct {
        const char *members;
        int ranks;
    } right[] = {
        {MUON("\"lr\": 0"), 1},
        {MUON("\"lr\": 0.02, \"adam_lr\": 0.003") ", " WARMUP("\"warmup_num_steps\": 2"), 1},
        {MUON("\"lr\": 0.02") ", " WARMUP("\"warmup_min_lr\": 0.001"), 1},
        {"\"parallel\": {\"tensor\": 2}", 4},
        {"\"train\": {\"reproducible\": \"world\"}", 8},
        {"\"train\": {\"gradient_noise_scale\": true}", 2},
        {"\"train\": {\"gradient_noise_scale\": true}, \"gradient_accumulation_steps\": 2", 1},
        {"\"train\": {\"keep_best\": true, \"eval_interval\": 5}, \"data\": {\"train\": \"t\", \"val\": \"v\"}", 1},
        {"\"collectives\": {\"reduce\": \"all_reduce\"}, \"gradient_accumulation_steps\": 2, " ZERO("\"stage\": 0"), 2},
        {"\"collectives\": {\"reduce\": \"all_reduce\"}, " ZERO("\"stage\": 1"), 2},
        {"\"data\": {\"seq_length\": 1024}", 1},
        {"\"model\": {\"type\": \"bert\"}, \"data\": {\"seq_length\": 8, \"max_predictions\": 8, \"max_samples\": 8}",
         1},
        {"\"model\": {\"type\": \"bert\"}, \"data\": {\"seq_length\": 5}", 1},
    };
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        zr_config *c = resolved(right[i].members, right[i].ranks);
        zr_config_destroy(&c);
    }
    zr_config *c = resolved("\"model\": {\"type\": \"bert\"}, \"data\": {\"seq_length\": 8}", 1);
    assert_int_equal(c->data.max_predictions, 8); /* not the default, which is more than a row has */
    zr_config_destroy(&c);
    c = resolved("\"data\": {\"tokenizer\": \"bytes\"}", 1);
    assert_int_equal(zr_config_sizes(c).vocabulary, 256);
    zr_config_destroy(&c);
    refuse("", 0, ZR_ERR_ARG, "the number of ranks is 0; it must be at least 1");
}

/* ---- values and places -------------------------------------------------------------------------------- */

/* Check that an error is reported where the value was given: in the file or on the command line. */
static void errors_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *override, *message;
    } cases[] = {
        {"{\"train\": {\"steps\": -1}}", "collectives.reduce=all_reduce", "c.json:1:12: train.steps: found -1"},
        {"{\"train\": {\"steps\": -1}}", "train.seed=3", "c.json:1:12: train.steps: found -1"},
        {"{\"train\": {\"steps\": 1}}", "train.steps=-1", "command line: train.steps: found -1"},
        {"{}", "train.steps=-1", "command line: train.steps: found -1"},
        {"{\"optimizer\": {\"params\": {\"betas\": [2, 0.5]}}}", "train.seed=3", "c.json:1:"},
        {"{}", "optimizer.params.betas=[2, 0.5]", "command line: optimizer.params.betas[0]: "},
        {"{\"model\": 3}", NULL, "c.json:1:2: model: wanted an object"},
        {"{}", "train=3", "command line: train: wanted an object"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = NULL;
        const zr_status st = zr_config_parse(cases[i].text, strlen(cases[i].text), "c.json", &cases[i].override,
                                             cases[i].override != NULL, &c);
        if (st != ZR_ERR_CONFIG || strncmp(zr_error_message(), cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s %s: %s", cases[i].text, cases[i].override, zr_error_message());
    }
}

/* Check that a key of another family is refused with what to write instead, and a shape other than the preset's. */
static void keys_of_other_models_are_refused(void **state)
{
    (void)state;
    refuse("\"model\": {\"type\": \"llama\", \"n_embd\": 8}", 1, ZR_ERR_CONFIG,
           "model.n_embd: this is a key of model.type gpt2; with llama write model.hidden_size");
    refuse("\"model\": {\"hidden_size\": 8}", 1, ZR_ERR_CONFIG,
           "model.hidden_size: this is a key of model.type llama, mistral, qwen2, qwen3, bert, bert-preln; with gpt2 "
           "write "
           "model.n_embd");
    refuse("\"model\": {\"sliding_window\": 8}", 1, ZR_ERR_CONFIG,
           "model.sliding_window: this is a key of model.type mistral, qwen2, qwen3; gpt2 has no such key");
    refuse(
        "\"model\": {\"init\": \"nowhere\", \"sliding_window\": 8}", 1, ZR_ERR_CONFIG,
        "model.sliding_window: this is a key of model.type mistral, qwen2, qwen3, but the model that is given is none "
        "of those that zr reads; without this key zr says why");
    refuse("\"model\": {\"type\": \"llama\", \"hidden_sizes\": 8}", 1, ZR_ERR_CONFIG,
           "model.hidden_sizes: unknown key; did you mean model.hidden_size?");
    refuse("\"model\": {\"zzzzzzzzzzzz\": 8}", 1, ZR_ERR_CONFIG, "unknown key; docs/config.md lists them all");
    zr_config *c = load("\"model\": {\"preset\": \"gpt2-124m\", \"n_layer\": 3, \"layer_norm_epsilon\": 0.5}");
    zr_model_config settings;
    assert_int_equal(zr_family_find_preset("gpt2-124m", NULL, &settings), ZR_OK);
    assert_int_equal(zr__config_adopt(c, &settings, "the preset"), ZR_ERR_CONFIG);
    assert_non_null(
        strstr(zr_error_message(), "model.n_layer: 3 differs from 12, which the preset sets; leave it out"));
    zr_config_destroy(&c);
    c = load("\"model\": {\"preset\": \"gpt2-124m\", \"n_layer\": 12, \"layer_norm_epsilon\": 0.5}");
    assert_int_equal(zr__config_adopt(c, &settings, "the preset"), ZR_OK);
    const zr_gpt2_config *model = (const zr_gpt2_config *)&c->model.config;
    assert_true(model->n_layer == 12 && model->n_embd == 768 && model->layer_norm_epsilon == 0.5);
    zr_config_destroy(&c);
}

/* Check that settings that are not available are listed together, each with its value and what to write. */
static void refusals_are_listed_together(void **state)
{
    (void)state;
    zr_config *c = NULL;
    assert_int_equal(parse("\"amp\": {\"enabled\": true}, \"sparse_attention\": {\"mode\": \"fixed\"}", &c),
                     ZR_ERR_UNSUPPORTED);
    static const char *const said[] = {
        "c.json: 2 settings are not available in zr: remove each, or use the value given for it\n",
        ": amp: enabled true (write false)", ": sparse_attention: mode \"fixed\" (write \"dense\")",
        "\nor override them on the command line: --amp.enabled=false --sparse_attention.mode=dense"};
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        if (!strstr(zr_error_message(), said[i])) fail_msg("%s: %s", said[i], zr_error_message());
    refuse("\"amp\": {\"enabled\": true}", 1, ZR_ERR_UNSUPPORTED, "amp.enabled: true is not available in zr");
}

/* Check that a section's name that is too long is refused with all of it. */
static void long_sections_are_refused(void **state)
{
    (void)state;
    for (int n = 127; n < 130; n++) {
        char override[176], name[160];
        const char *const given = override;
        zr_config *c = NULL;
        memset(name, 'a', (size_t)n);
        name[n] = '\0';
        snprintf(override, sizeof(override), "%s.b=1", name);
        assert_int_equal(zr_config_parse("{}", 2, "c.json", &given, 1, &c), ZR_ERR_CONFIG);
        if (!strstr(zr_error_message(), name)) fail_msg("%s", zr_error_message());
    }
}

/* Check that a size in bytes may be the least and the most of its key, and no less or more. */
static void sizes_have_limits(void **state)
{
    (void)state;
    zr_key *key = NULL;
    int sizes = 0;
    assert_int_equal(zr_config_keys(&key), ZR_OK);
    for (int i = 0; key[i].path; i++) {
        if (key[i].type != ZR_KEY_BYTES) continue;
        for (int end = 0; end < 2; end++)
            for (int past = 0; past < 2; past++) {
                const int64_t value = (int64_t)(end ? key[i].max : key[i].min) + (past ? (end ? 1 : -1) : 0);
                char override[128];
                const char *const given = override;
                zr_config *c = NULL;
                if (value < 0 || (end && key[i].max >= 0x1p53)) continue;
                snprintf(override, sizeof(override), "%s=%lld", key[i].path, (long long)value);
                const zr_status st = zr_config_parse("{}", 2, "c.json", &given, 1, &c);
                if (st != (past ? ZR_ERR_CONFIG : ZR_OK)) fail_msg("%s: %s", override, zr_error_message());
                zr_config_destroy(&c);
                sizes++;
            }
    }
    assert_true(sizes > 0);
    zr_free(key);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

static zr_status resolve_alone(void *arg)
{
    const long left = atomic_exchange(&alloc_left, -1);
    zr_config *config = load(arg);
    atomic_store(&alloc_left, left);
    const zr_status st = zr_config_resolve(config, 2);
    zr_config_destroy(&config);
    return st;
}

static void notes_need_memory(void **state)
{
    (void)state;
    static const char *const members[] = {
        "\"activation_checkpointing\": {\"policy\": \"none\", \"cpu_checkpointing\": true}",
        "\"aio\": {\"queue_depth\": 4}, \"dump_state\": true, \"steps_per_print\": 3, \"parallel\": {\"sequence\": "
        "\"keep\"}",
        ZERO("\"reduce_bucket_size\": 1000, \"sub_group_size\": 5000, \"offload_optimizer\": {\"ratio\": 0.5}"),
        "\"memory\": {\"norm\": \"two_pass\"}, \"gradient_accumulation_steps\": 2",
        "\"gradient_reduction\": \"step\", \"train\": {\"accumulation_order\": \"layer\"}",
    };
    alloc_forgiven = "no memory for a text"; /* a note then shows "a value" (zr__json_show) */
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        expect_each_allocation_fails(resolve_alone, (void *)members[i], 0);
    for (long n = 0;; n++) { /* several refusals are joined in one message */
        zr_config *c = NULL;
        atomic_store(&alloc_left, n);
        const zr_status st = parse("\"amp\": {\"enabled\": true}, \"sparse_attention\": {\"mode\": \"fixed\"}", &c);
        const bool hit = atomic_exchange(&alloc_left, -1) < 0;
        /* the message is whole, or says that memory is short */
        if (st != ZR_ERR_MEMORY && (st == ZR_OK || !strstr(zr_error_message(), "sparse_attention: mode ")))
            fail_msg("allocation %ld: %d %s", n, (int)st, zr_error_message());
        if (!hit) break;
    }
    assert_int_equal(alloc_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_have_their_own_defaults),
        cmocka_unit_test(keys_without_effect_are_said),
        cmocka_unit_test(reductions_without_effect_are_said),
        cmocka_unit_test(quantised_keys_without_effect_are_said),
        cmocka_unit_test(autos_are_compared_with_trainer),
        cmocka_unit_test(batches_follow_from_two_keys),
        cmocka_unit_test(a_resumed_run_keeps_its_batch),
        cmocka_unit_test(choices_stay_open_or_not),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(errors_name_their_place),
        cmocka_unit_test(keys_of_other_models_are_refused),
        cmocka_unit_test(refusals_are_listed_together),
        cmocka_unit_test(long_sections_are_refused),
        cmocka_unit_test(sizes_have_limits),
        cmocka_unit_test(notes_need_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
