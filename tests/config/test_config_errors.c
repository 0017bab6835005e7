//TEST timeout=20
/* Refused configurations and their error messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/config.h"
#include "config/config.h"

#include <stdio.h>
#include <string.h>

static zr_status load(const char *text, const char *override, int ranks)
{
    zr_config *config;
    zr_status st = zr_config_parse(text, strlen(text), "c.json", &override, override != NULL, &config);
    if (st == ZR_OK) st = zr_config_resolve(config, ranks);
    zr_config_destroy(&config);
    return st;
}

static void expect(zr_status status, const char *text, const char *message)
{
    assert_int_equal(load(text, NULL, 2), status);
    assert_string_equal(zr_error_message(), message);
}

static void expect_override(zr_status status, const char *override, const char *message)
{
    assert_int_equal(load("{\"train\": {\"steps\": 5}}", override, 2), status);
    assert_string_equal(zr_error_message(), message);
}

static void unknown_keys(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, "{\n \"train\": {\"stpes\": 3}}",
           "c.json:2:12: train.stpes: unknown key; did you mean train.steps?");
    expect(ZR_ERR_CONFIG, "{\"optimzer\": {}}", "c.json:1:2: optimzer: unknown key; did you mean optimizer?");
    expect(ZR_ERR_CONFIG, "{\"stage\": 2}", "c.json:1:2: stage: unknown key; did you mean zero_optimization.stage?");
    expect(ZR_ERR_CONFIG, "{\"zero_optimization\": {\"reduce_bucket\": 2}}",
           "c.json:1:24: zero_optimization.reduce_bucket: unknown key; "
           "did you mean zero_optimization.reduce_bucket_size?");
    expect(ZR_ERR_CONFIG, "{\"qwertyuiop\": 2}", "c.json:1:2: qwertyuiop: unknown key; docs/config.md lists them all");
    expect(ZR_ERR_CONFIG, "{\"train.steps\": 2}",
           "c.json:1:2: train.steps: unknown key; in a file write nested objects, not dots");
    expect(ZR_ERR_CONFIG, "{\"a\\u001b[31m\": 2}",
           "c.json:1:1: a\\x1b[31m: unknown key; docs/config.md lists them all");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"steps\": {\"a\": 1}}}",
           "c.json:1:12: train.steps: found an object, wanted an integer from 1 to 2^53");
}

static void wrong_values(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, "{\"train\": 3}", "c.json:1:2: train: wanted an object { ... } of keys");
    expect(ZR_ERR_CONFIG, "[]", "c.json:1:1: wanted an object { ... } of keys");
    expect(ZR_ERR_CONFIG, "{\"zero_optimization\": true}",
           "c.json:1:2: zero_optimization: found true, wanted an object of keys: {\"stage\": 1}");
    static const char *const none[] = {"", " \n", "First Citizen:\n",
                                       "\xef\xbb\xbf"
                                       "4"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        expect(
            ZR_ERR_CONFIG, none[i],
            "c.json: wanted an object { ... } of keys; a configuration is JSON, and a text to train on is given with "
            "--data");
    expect(ZR_ERR_CONFIG, "{\"train\":\n {\"steps\": \"many\"}}",
           "c.json:2:3: train.steps: found \"many\", wanted an integer from 1 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"steps\": 1.5}}",
           "c.json:1:12: train.steps: found 1.5, wanted an integer from 1 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"steps\": -4}}",
           "c.json:1:12: train.steps: found -4, wanted an integer from 1 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"steps\": null}}",
           "c.json:1:12: train.steps: found null, wanted an integer from 1 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"seed\": 9007199254740993}}",
           "c.json:1:12: train.seed: found 9007199254740993, wanted an integer from 0 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"seed\": 1e300}}",
           "c.json:1:12: train.seed: found 1e+300, wanted an integer from 0 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"gradient_clipping\": 1e400}",
           "c.json:1:23: gradient_clipping: real number overflow near '1e400'");
    expect(ZR_ERR_CONFIG, "{\"gradient_clipping\": -Infinity}",
           "c.json:1:23: gradient_clipping: invalid token near '-'");
    expect(ZR_ERR_CONFIG, "{\"gradient_clipping\": NaN}", "c.json:1:23: gradient_clipping: invalid token near 'NaN'");
    expect(ZR_ERR_CONFIG, "{\"gradient_clipping\": -0.5}",
           "c.json:1:2: gradient_clipping: found -0.5, wanted a number from 0 to 3.4e+38");
    expect(ZR_ERR_CONFIG, "{\"zero_optimization\": {\"stage\": 4}}",
           "c.json:1:24: zero_optimization.stage: found 4, wanted an integer from 0 to 3");
    expect(ZR_ERR_CONFIG, "{\"zero_optimization\": {\"overlap_comm\": 1}}",
           "c.json:1:24: zero_optimization.overlap_comm: found 1, wanted true, false or \"auto\"");
    expect(ZR_ERR_CONFIG, "{\"bf16\": {\"enabled\": \"yes\"}}",
           "c.json:1:11: bf16.enabled: found \"yes\", wanted true or false");
    expect(ZR_ERR_CONFIG, "{\"data\": {\"order\": \"random\"}}",
           "c.json:1:11: data.order: found \"random\", wanted one of shuffled, sequential");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"reproducible\": \"always\"}}",
           "c.json:1:12: train.reproducible: found \"always\", wanted one of layout, world");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"accumulation_order\": \"row\"}}",
           "c.json:1:12: train.accumulation_order: found \"row\", wanted one of micro, layer, auto");
    expect(
        ZR_ERR_CONFIG, "{\"zero_optimization\": {\"offload_param\": {\"ratio\": \"all\"}}}",
        "c.json:1:42: zero_optimization.offload_param.ratio: found \"all\", wanted a number from 0 to 1, or \"auto\"");
    expect(ZR_ERR_CONFIG, "{\"collectives\": {\"buffer\": true}}",
           "c.json:1:18: collectives.buffer: found true, wanted one of constant");
    expect(ZR_ERR_CONFIG, "{\"zero_optimization\": {\"stage3_max_live_parameters\": -1}}",
           "c.json:1:24: zero_optimization.stage3_max_live_parameters: found -1, wanted an integer from 0 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"zero_optimization\": {\"max_live_parameters\": \"many\"}}",
           "c.json:1:24: zero_optimization.max_live_parameters: found \"many\", wanted an integer from 0 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"fp16\": {\"min_loss_scale\": 0}}",
           "c.json:1:11: fp16.min_loss_scale: found 0, wanted a number from 1e-6 to 1e+38");
    expect(ZR_ERR_CONFIG, "{\"data\": {\"train\": \"\"}}",
           "c.json:1:11: data.train: found \"\", wanted a path, a list of paths, or a list of {\"path\": PATH, "
           "\"weight\": NUMBER above 0}");
    expect(ZR_ERR_CONFIG, "{\"memory\": {\"limit\": \"2 gigs\"}}",
           "c.json:1:13: memory.limit: found \"2 gigs\", wanted bytes, such as 2000000000, \"2GB\" or \"2GiB\"");
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"params\": {\"betas\": [0.9, 1]}}}",
           "c.json:1:42: optimizer.params.betas[1]: found 1, wanted two numbers, each at least 0 and below 1");
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"params\": {\"betas\": [0.9]}}}",
           "c.json:1:27: optimizer.params.betas: found [0.9], wanted two numbers, each at least 0 and below 1");
}

static void bad_json(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, "{\"train\": {\"steps\": 1, \"steps\": 2}}",
           "c.json:1:24: train.steps: duplicate object key near '\"steps\"'");
    expect(ZR_ERR_CONFIG, "{\"train\": {\"steps\": 1,}}",
           "c.json:1:22: train.steps: remove the comma before the closing }, which JSON does not allow");
    expect(ZR_ERR_CONFIG, "{\"data\": {\"train\": \"\xff\"}}",
           "c.json:1:20: data.train: unable to decode byte 0xff near '\"'");
    static const char comma[] = "a comma is missing after this value";
    static const struct {
        const char *text, *where;
    } no_comma[] = {
        {"{\"model\": {\"n_layer\": 2,\n \"n_head\": 24\n \"n_embd\": 32},\n \"train\": {}}",
         "c.json:2:13: model.n_head: "},
        {"{\"model\": {\"n_layer\": 2}\n \"train\": {\"steps\": 3}}", "c.json:1:24: model: "},
        {"{\"data\": {\"train\": [\"a\"\n \"b\"]}}", "c.json:1:23: data.train[0]: "},
        {"{\"data\": {\"train\": \"a\" \"val\": \"b\"}}", "c.json:1:22: data.train: "},
    };
    for (size_t i = 0; i < sizeof(no_comma) / sizeof(no_comma[0]); i++) {
        char message[160];
        snprintf(message, sizeof(message), "%s%s", no_comma[i].where, comma);
        expect(ZR_ERR_CONFIG, no_comma[i].text, message);
    }
    expect(ZR_ERR_CONFIG, "{\"train\" {\"steps\": 3}}", "c.json:1:10: train: ':' expected near '{'");
}

static void not_built(void **state)
{
    (void)state;
    expect(ZR_ERR_UNSUPPORTED, "{\"optimizer\": {\"type\": \"Adagrad\"}}",
           "c.json:1:16: optimizer.type: \"Adagrad\" is not available in zr; write \"AdamW\", \"Adam\", \"SGD\", "
           "\"Lamb\", "
           "\"Lars\", \"Muon\", \"Lion\" or \"AdamW8bit\", or leave it out");
    expect(ZR_ERR_UNSUPPORTED, "{\"optimizer\": {\"type\": \"adafactor\"}}",
           "c.json:1:16: optimizer.type: \"adafactor\" is not available in zr; write \"AdamW\", \"Adam\", \"SGD\", "
           "\"Lamb\", \"Lars\", \"Muon\", \"Lion\" or \"AdamW8bit\", or leave it out; its second moment is a mean of "
           "the rows and one of "
           "the columns of whole matrices, and ranks have parts of them; Lion has half of AdamW's states, AdamW8bit a "
           "quarter");
    expect(ZR_ERR_UNSUPPORTED, "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"max_grad_norm\": 1.0}}}",
           "c.json:1:43: optimizer.params.max_grad_norm: 1.0 is not available in zr; write 0, or leave it out; set "
           "gradient_clipping, which clips to the same norm");
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"type\": \"Adan\"}}",
           "c.json:1:16: optimizer.type: found \"Adan\", wanted one of AdamW, Adam, SGD, Lamb, Lars, Muon, Lion, "
           "AdamW8bit");
    expect(ZR_ERR_UNSUPPORTED, "{\"pipeline\": {\"stages\": 2}}",
           "c.json:1:15: pipeline.stages: 2 is not available in zr; write 0 or 1, or leave it out; here "
           "it is parallel.pipeline");
    expect(ZR_ERR_UNSUPPORTED, "{\"communication_data_type\": \"bf16\"}",
           "c.json:1:2: communication_data_type: bf16 needs bf16.enabled; available now: fp32");
    expect(ZR_ERR_UNSUPPORTED, "{\"communication_data_type\": \"fp16\", \"bf16\": {\"enabled\": true}}",
           "c.json:1:2: communication_data_type: fp16 needs fp16.enabled; available now: fp32, bf16");
    static const char *const more[] = {"fp16.fp16_master_weights_and_grads=true",
                                       "data_types.grad_accum_dtype=bf16",
                                       "communication_data_type=fp16",
                                       "scheduler.type=LRRangeTest",
                                       "prescale_gradients=true",
                                       "gradient_predivide_factor=2.0",
                                       "bf16.bf16_optimizer_states=true",
                                       "sparse_attention.mode=fixed",
                                       "tensor_parallel.autotp_size=4",
                                       "pipeline.stages=2",
                                       "data_efficiency.enabled=true",
                                       "torch_autocast.enabled=true",
                                       "gradient_allreduce_op=sum",
                                       "data_types.param_dtype=bf16",
                                       "sequence_parallel_size=2",
                                       "scheduler.params.last_batch_iteration=5"};
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        assert_int_equal(load("{}", more[i], 1), ZR_ERR_UNSUPPORTED);
        assert_memory_equal(zr_error_message() + strlen("command line: "), more[i], strcspn(more[i], "="));
    }
}

/* Check that keys without which adapters would be made otherwise are not given in vain. */
static void keys_that_need_another(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, "{\"model\": {\"lora\": {\"targets\": \"q_proj\"}}}",
           "c.json:1:21: model.lora.targets: it has no effect alone; give model.lora.rank or model.lora.init too, or "
           "leave it out");
    expect_override(ZR_ERR_CONFIG, "model.lora.alpha=16",
                    "command line: model.lora.alpha: it has no effect alone; give model.lora.rank or model.lora.init "
                    "too, or leave it out");
    expect(ZR_ERR_CONFIG, "{\"model\": {\"lora\": {\"rank\": 0, \"dropout\": 0.1}}}",
           "c.json:1:32: model.lora.dropout: it has no effect alone; give model.lora.rank or model.lora.init too, or "
           "leave it out");
    assert_int_equal(load("{\"model\": {\"lora\": {\"rank\": 4, \"alpha\": 16}}}", NULL, 1), ZR_OK);
    assert_int_equal(load("{\"model\": {\"lora\": {\"init\": \"a\", \"dropout\": 0.1}}}", NULL, 1), ZR_OK);
}

static void off_values_are_fine(void **state)
{
    (void)state;
    static const char text[] =
        "{\"fp16\": {\"enabled\": false}, \"parallel\": {\"tensor\": 1}, \"scheduler\": null,"
        " \"zero_optimization\": {\"offload_param\": null, \"offload_optimizer\": {\"device\": \"none\"},"
        " \"stage3_param_persistence_threshold\": 0, \"stage3_max_live_parameters\": \"auto\"},"
        " \"activation_checkpointing\": {\"policy\": \"none\", \"partition_activations\": false, "
        "\"number_checkpoints\": null}, \"wandb\": {\"enabled\": false, \"project\": \"x\"},"
        " \"pipeline\": {\"stages\": 1}, \"tensor_parallel\": {\"autotp_size\": 1}}"; /* numbers that zr supports */
    assert_int_equal(load(text, NULL, 1), ZR_OK);
}

static void overrides(void **state)
{
    (void)state;
    expect_override(ZR_ERR_CONFIG, "--train.stepz=3",
                    "command line: train.stepz: unknown key; did you mean train.steps?");
    expect_override(ZR_ERR_CONFIG, "train.steps=abc",
                    "command line: train.steps: found \"abc\", wanted an integer from 1 to 2^53");
    expect_override(ZR_ERR_CONFIG, "train.steps=1e400",
                    "command line: train.steps: found \"1e400\", wanted an integer from 1 to 2^53");
    expect_override(ZR_ERR_CONFIG, "--train.steps", "command line: --train.steps: expected --key.path=value");
    expect_override(ZR_ERR_CONFIG, "=3", "command line: =3: expected --key.path=value");
    expect_override(ZR_ERR_CONFIG, "train.steps.x=3",
                    "command line: train.steps.x=3: part of this path is a key whose value is not an object, so it "
                    "cannot have keys of its own");
    expect_override(ZR_ERR_CONFIG, "a..b=3", "command line: a: unknown key; docs/config.md lists them all");
    expect_override(ZR_ERR_CONFIG, "--optimzer.params.lr=1",
                    "command line: optimzer: unknown key; did you mean optimizer?");
    expect_override(ZR_ERR_CONFIG, "optimizer={\"params\":{\"lr\":-1}}",
                    "command line: optimizer.params.lr: found -1, wanted a number from 0 to 3.4e+38");
    for (const char *const *key = (const char *const[]){"optimizer.params.lr", "optimizer.params.weight_decay",
                                                        "scheduler.params.warmup_max_lr", "gradient_clipping", NULL};
         *key; key++) { /* numbers beyond the range of fp32, in which updates are computed */
        char override[80], message[120];
        snprintf(override, sizeof override, "%s=1e39", *key);
        snprintf(message, sizeof message, "command line: %s: found 1e+39, wanted a number from 0 to 3.4e+38", *key);
        expect_override(ZR_ERR_CONFIG, override, message);
    }
}

static void impossible_models(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, "{\"model\": {\"n_head\": 5, \"n_embd\": 64}}",
           "c.json:1:12: model.n_head: 5 does not divide n_embd 64");
    expect(ZR_ERR_CONFIG, "{\"model\": {\"n_head\": 5}}", "c.json: model.n_head: 5 does not divide n_embd 768");
    expect(ZR_ERR_CONFIG, "{\"model\": {\"n_layer\": 0}}",
           "c.json:1:12: model.n_layer: found 0, wanted an integer from 1 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"model\": {\"vocab_size\": 0}}",
           "c.json:1:12: model.vocab_size: found 0, wanted an integer from 1 to 2^53");
    expect(ZR_ERR_CONFIG, "{\"model\": {\"n_positions\": 8}, \"data\": {\"seq_length\": 9}}",
           "c.json:1:40: data.seq_length: 9 is longer than model.n_positions 8; give at most that");
    expect(ZR_ERR_CONFIG, "{\"model\": {\"preset\": \"gpt2-124m\", \"init\": \"d\"}}",
           "c.json:1:12: model.preset: it cannot be given together with model.init, since each sets all sizes; leave "
           "out one of the two");
}

static void parameters_of_another_type(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"momentum\": 0.9}}}",
           "c.json:1:44: optimizer.params.momentum: AdamW has no parameter of this name; leave it out");
#define MUON(params) "{\"optimizer\": {\"type\": \"Muon\", \"params\": {" params "}}}"
    expect(ZR_ERR_CONFIG, MUON("\"ns_coefficients\": [3, -4, 2e3]"),
           "c.json:1:70: optimizer.params.ns_coefficients[2]: found 2000.0, wanted three numbers, each from -1000 to "
           "1000");
    expect(ZR_ERR_CONFIG, MUON("\"ns_coefficients\": [3, -4]"),
           "c.json:1:43: optimizer.params.ns_coefficients: found [3, -4], wanted three numbers, each from -1000 to "
           "1000");
    expect(ZR_ERR_CONFIG, MUON("\"momentum\": 1"),
           "c.json:1:43: optimizer.params.momentum: with 1 a moving average stays 0; write a number below 1, or "
           "momentum_form sum");
    expect(ZR_ERR_UNSUPPORTED, MUON("\"use_muon\": false"),
           "c.json:1:43: optimizer.params.use_muon: false is not available in zr; write true, or leave it out; "
           "optimizer.params.matrices names the matrices that Muon trains");
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0.9, 0.95]}}}",
           "c.json:1:42: optimizer.params.betas: SGD has no parameter of this name; leave it out");
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}}}",
           "c.json:1:44: optimizer.params.adam_w_mode: false is Adam's, AdamW has decoupled decay");
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"nesterov\": true}}}",
           "c.json:1:42: optimizer.params.nesterov: true needs a momentum above 0");
    expect(ZR_ERR_CONFIG, "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"cos_min_ratio\": 0.1}}}",
           "c.json:1:47: scheduler.params.cos_min_ratio: WarmupLR has no parameter of this name; leave it out");
    expect(ZR_ERR_CONFIG, "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": 0.1}}}",
           "c.json:1:52: scheduler.params.warmup_min_lr: 0.1 is above warmup_max_lr, which is 0.001; wanted 0.001 or "
           "less");
    expect(ZR_ERR_CONFIG, "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"min_coeff\": 3, \"max_coeff\": 0.5}}}",
           "c.json:1:43: optimizer.params.min_coeff: 3 is above max_coeff, which is 0.5; wanted 0.5 or less");
    expect(
        ZR_ERR_CONFIG,
        "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.02, \"cycle_max_lr\": 0.01}}}",
        "c.json:1:47: scheduler.params.cycle_min_lr: 0.02 is above cycle_max_lr, which is 0.01; wanted 0.01 or less");
}

static void keys_that_rule_each_other_out(void **state)
{
    (void)state;
    expect(ZR_ERR_CONFIG, "{\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": true}}",
           "c.json:1:38: fp16.enabled: it is true, and so is bf16.enabled; enable only one of the two");
    expect(
        ZR_ERR_CONFIG, "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 3, \"min_loss_scale\": 9}}",
        "c.json:1:54: fp16.min_loss_scale: 9 is above the initial loss scale, 2 to the power 3 (initial_scale_power)");
    expect(ZR_ERR_CONFIG, "{\"fp16\": {\"enabled\": true, \"loss_scale\": 1e-40}}",
           "c.json:1:28: fp16.loss_scale: found 1e-40, wanted 0 (a dynamic scale) or a number of at least 1e-06");
    expect(
        ZR_ERR_CONFIG, "{\"memory\": {\"layout\": \"paper\", \"norm\": \"two_pass\"}}",
        "c.json:1:32: memory.norm: two_pass works only with memory.layout lean, but the layout is paper; leave it out");
    expect(ZR_ERR_CONFIG, "{\"activation_checkpointing\": {\"policy\": \"selective\", \"every\": 2}}",
           "c.json:1:54: activation_checkpointing.every: it works only with activation_checkpointing.policy unit; "
           "leave it out");
    expect(ZR_ERR_CONFIG, "{\"collectives\": {\"reduce\": \"all_reduce\"}, \"zero_optimization\": {\"stage\": 2}}",
           "c.json:1:18: collectives.reduce: all_reduce cannot be used with zero_optimization.stage 2, where a rank "
           "keeps only its own sums; use stage 0 or 1, or reduce_scatter");
    expect(
        ZR_ERR_UNSUPPORTED, "{\"collectives\": {\"reduce\": \"owner\"}}",
        "c.json:1:18: collectives.reduce: \"owner\" is not available in zr; write \"reduce_scatter\", \"all_reduce\" "
        "or \"nccl\", or leave it out; owner reduced to one rank after the other, which takes longer, and nobody "
        "trains so; a reduce-scatter gives the same sums");
    expect(ZR_ERR_CONFIG, "{\"collectives\": {\"reduce\": \"none\"}}",
           "c.json:1:18: collectives.reduce: found \"none\", wanted one of reduce_scatter, all_reduce, nccl");
    expect(
        ZR_ERR_UNSUPPORTED, "{\"collectives\": {\"gather\": \"broadcast\"}}",
        "c.json:1:18: collectives.gather: \"broadcast\" is not available in zr; write \"all_gather\", or leave it out; "
        "an all-gather gives the same parameters, in less time");
    expect(
        ZR_ERR_UNSUPPORTED, "{\"collectives\": {\"buffer\": \"fused\"}}",
        "c.json:1:18: collectives.buffer: \"fused\" is not available in zr; write \"constant\", or leave it out; the "
        "sums are the same");
    expect(ZR_ERR_CONFIG, "{\"collectives\": {\"reduce\": \"nccl\"}}",
           "c.json:1:18: collectives.reduce: nccl works only between processes on GPUs; set \"device\" to \"cuda\" "
           "too, or use reduce_scatter");
    static const char nccl[] = "{\"device\": \"cuda\", \"collectives\": {\"reduce\": \"nccl\"}}";
    assert_int_equal(load(nccl, NULL, 2), ZR_OK);
    assert_int_equal(load(nccl, "device=cpu", 2), ZR_ERR_CONFIG);
    assert_int_equal(load(nccl, "train.reproducible=world", 2), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "c.json:1:36: collectives.reduce: nccl cannot be used with train.reproducible world, because "
                        "NCCL chooses the order of sums; leave out one of the two");
    static const char quantised[] = "{\"zero_optimization\": {\"zero_quantized_gradients\": true}}";
    assert_int_equal(load(quantised, "gradient_accumulation_steps=2", 2), ZR_OK);
    assert_int_equal(load(quantised, "train.reproducible=world", 2), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "c.json:1:24: zero_optimization.zero_quantized_gradients: it cannot be used with "
                        "train.reproducible world: each rank quantises its own sums, so values depend on the number of "
                        "ranks; leave out one of the two");
    assert_int_equal(load(quantised, "collectives.reduce=nccl", 2), ZR_ERR_CONFIG);
    static const char micro[] = "{\"zero_optimization\": {\"zero_quantized_gradients\": true}, "
                                "\"gradient_reduction\": \"micro\"}";
    assert_int_equal(load(micro, "gradient_accumulation_steps=2", 1), ZR_OK);
    assert_int_equal(load(micro, "gradient_accumulation_steps=2", 2), ZR_ERR_CONFIG);
    assert_int_equal(load(micro, NULL, 2), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "c.json: gradient_reduction: micro would quantise the gradients of each micro-batch "
                        "(zero_optimization.zero_quantized_gradients); use step, or leave it out");
    static const char loco[] = "{\"zero_optimization\": {\"zero_quantized_gradients\": true, \"zeropp_loco_param\": "
                               "{\"err_beta\": 0.7, \"reset_T\": 1024}}}";
    assert_int_equal(load(loco, NULL, 2), ZR_OK);
    assert_int_equal(load(loco, "zero_optimization.zeropp_loco_param.err_beta=1", 2), ZR_ERR_CONFIG);
    assert_string_equal(
        zr_error_message(),
        "command line: zero_optimization.zeropp_loco_param.err_beta: found 1, wanted a number from 0 to "
        "below 1, or errors would never change");
    assert_int_equal(load(loco, "zero_optimization.zero_quantized_gradients=false", 2), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "c.json:1:97: zero_optimization.zeropp_loco_param.reset_T: it has no effect alone; give "
                        "zero_quantized_gradients true too, or leave it out");
    assert_int_equal(load(loco, "zero_optimization.zeropp_loco_param.reset_T=0", 2), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "err_beta: it has no effect alone; give reset_T too, such as 1024"));
    static const char two_pass[] = "{\"memory\": {\"layout\": \"lean\", \"norm\": \"two_pass\"}, "
                                   "\"zero_optimization\": {\"zero_quantized_gradients\": true}}";
    assert_int_equal(load(two_pass, "zero_optimization.zeropp_loco_param.reset_T=9", 2), ZR_ERR_UNSUPPORTED);
    assert_string_equal(zr_error_message(),
                        "command line: zero_optimization.zeropp_loco_param.reset_T: it cannot be used with memory.norm "
                        "two_pass, which quantises each gradient twice; leave out one of the two");
    static const char auto_world[] = "{\"zero_optimization\": {\"zero_quantized_gradients\": \"auto\"}, "
                                     "\"train\": {\"reproducible\": \"world\"}}";
    assert_int_equal(load(auto_world, NULL, 2), ZR_OK); /* false is then chosen */
    static const char auto_loco[] = "{\"zero_optimization\": {\"zero_quantized_gradients\": \"auto\", "
                                    "\"zeropp_loco_param\": {\"err_beta\": 1, \"reset_T\": 9}}}";
    assert_int_equal(load(auto_loco, NULL, 2), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "err_beta: found 1, wanted a number from 0 to below 1"));
    static const char auto_two_pass[] = "{\"memory\": {\"layout\": \"lean\", \"norm\": \"two_pass\"}, "
                                        "\"zero_optimization\": {\"zero_quantized_gradients\": \"auto\"}}";
    assert_int_equal(load(auto_two_pass, NULL, 2), ZR_OK);
    assert_int_equal(load(auto_two_pass, "zero_optimization.zeropp_loco_param.reset_T=9", 2), ZR_ERR_UNSUPPORTED);
    static const char auto_differences[] = "{\"zero_optimization\": {\"stage\": 3, \"zero_quantized_weights\": "
                                           "\"auto\"}, \"quantization\": {\"weight_differences\": true}}";
    assert_int_equal(load(auto_differences, NULL, 2), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "weight_differences: it cannot be used with zero_optimization.stage 3"));
    assert_int_equal(load(auto_differences, "zero_optimization.stage=2", 2), ZR_OK);
    expect_override(ZR_ERR_CONFIG, "quantization.block=200",
                    "command line: quantization.block: found 200, wanted 128 or 256 elements");
    static const char first[] =
        "{\"zero_optimization\": {\"stage\": 1}, \"collectives\": {\"reduce\": \"all_reduce\"}}";
    assert_int_equal(load(first, NULL, 2), ZR_OK);
    assert_int_equal(load(first, "train.reproducible=world", 2), ZR_ERR_UNSUPPORTED);
    assert_int_equal(load(first, "gradient_accumulation_steps=3", 2), ZR_ERR_UNSUPPORTED);
    assert_string_equal(
        zr_error_message(),
        "c.json: collectives.reduce: all_reduce at zero_optimization.stage 1 needs one micro-batch per step and "
        "train.reproducible layout, but there are 3 with layout; use reduce_scatter or stage 0");
}

static void world_needs_a_power_of_two(void **state)
{
    (void)state;
    static const char text[] = "{\"train\": {\"reproducible\": \"world\"}}";
    for (int ranks = 1; ranks <= 8; ranks++)
        assert_int_equal(load(text, NULL, ranks), ranks & (ranks - 1) ? ZR_ERR_CONFIG : ZR_OK);
    assert_int_equal(load(text, NULL, 6), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(), "c.json: train.reproducible: world needs a number of ranks that is a power "
                                            "of two, but there are 6 ranks; use 4 or 8 ranks, or \"layout\"");
    assert_int_equal(load(text, NULL, INT32_MAX), ZR_ERR_CONFIG);
}

static void batch_contradictions(void **state)
{
    (void)state;
    static const char equation[] = "c.json: train_batch_size = train_micro_batch_size_per_gpu x "
                                   "gradient_accumulation_steps x ranks does not hold: ";
    static const struct {
        const char *text, *rest;
    } bad[] = {
        {"{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3, \"gradient_accumulation_steps\": 2}",
         "8 = 3 x 2 x 2; leave out one of the three"},
        {"{\"train_batch_size\": 13, \"train_micro_batch_size_per_gpu\": 3, \"gradient_accumulation_steps\": 2}",
         "13 = 3 x 2 x 2; leave out one of the three"},
        {"{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 3, \"gradient_accumulation_steps\": 2}",
         "24 = 3 x 2 x 2; it holds for 4 ranks: use that number, or leave out one of the three "
         "(--gradient_accumulation_steps=auto)"},
        {"{\"train_batch_size\": 7}", "7 = ? x 1 x 2; train_batch_size is not a multiple of the other factors"},
        {"{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 3}",
         "8 = 3 x ? x 2; train_batch_size is not a multiple of the other factors"},
        {"{\"train_batch_size\": 1}", "1 = ? x 1 x 2; train_batch_size is too small"},
        {"{\"train_micro_batch_size_per_gpu\": 9007199254740992}",
         "? = 9007199254740992 x 1 x 2; the product is too large"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(load(bad[i].text, NULL, 2), ZR_ERR_CONFIG);
        assert_memory_equal(zr_error_message(), equation, sizeof(equation) - 1);
        assert_string_equal(zr_error_message() + sizeof(equation) - 1, bad[i].rest);
    }
}

/* Check runs that are resumed on another number of ranks, with the batch sizes that their own file gives for two ranks:
 * the resulting batch sizes, or the error message. */
static void a_run_goes_on_on_other_ranks(void **state)
{
    (void)state;
    static const char text[] = "{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 4, "
                               "\"gradient_accumulation_steps\": 3}";
    static const char equation[] = "c.json: train_batch_size = train_micro_batch_size_per_gpu x "
                                   "gradient_accumulation_steps x ranks does not hold: ";
    static const char advice[] =
        "; a resumed run keeps its train_batch_size; give numbers whose product it is, or another "
        "train_batch_size too";
    static const char batch[] = "train_batch_size=", micro[] = "train_micro_batch_size_per_gpu=",
                      accum[] = "gradient_accumulation_steps=";
    static const struct {
        int ranks;
        const char *key[3];
        int value[3];
        int64_t is[3];
        const char *rest; /* rest of the expected message, or NULL if resuming succeeds */
    } on[] = {
        {2, {NULL}, {0}, {24, 4, 3}, NULL},
        {1, {NULL}, {0}, {24, 4, 6}, NULL},
        {3, {NULL}, {0}, {24, 4, 2}, NULL},
        {4, {NULL}, {0}, {24, 2, 3}, NULL}, /* 4 does not divide the 6 rows of a rank */
        {24, {NULL}, {0}, {24, 1, 1}, NULL},
        {1, {micro}, {8}, {24, 8, 3}, NULL},
        {2, {micro}, {6}, {24, 6, 2}, NULL},
        {1, {accum}, {2}, {24, 12, 2}, NULL},
        {1, {batch}, {32}, {32, 4, 8}, NULL},
        {1, {batch, micro, accum}, {32, 16, 2}, {32, 16, 2}, NULL},
        {1, {micro, accum}, {8, 3}, {24, 8, 3}, NULL},
        {1, {micro, accum}, {8, 2}, {0}, "24 = 8 x 2 x 1"},
        {1, {micro}, {5}, {0}, "24 = 5 x ? x 1"},
        {1, {accum}, {5}, {0}, "24 = ? x 5 x 1"},
    };
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        zr_config *config;
        char word[3][64];
        const char *override[3];
        int n = 0;
        for (; n < 3 && on[i].key[n]; n++) {
            snprintf(word[n], sizeof(word[n]), "%s%d", on[i].key[n], on[i].value[n]);
            override[n] = word[n];
        }
        assert_int_equal(zr_config_parse(text, strlen(text), "c.json", override, n, &config), ZR_OK);
        zr__config_go_on(config);
        assert_int_equal(zr_config_resolve(config, on[i].ranks), on[i].rest ? ZR_ERR_CONFIG : ZR_OK);
        if (on[i].rest) {
            const char *rest = zr_error_message() + sizeof(equation) - 1;
            assert_memory_equal(zr_error_message(), equation, sizeof(equation) - 1);
            assert_memory_equal(rest, on[i].rest, strlen(on[i].rest));
            assert_string_equal(rest + strlen(on[i].rest), advice);
        } else {
            assert_int_equal(zr_config_resolve(config, on[i].ranks), ZR_OK); /* resolving twice is allowed */
            assert_int_equal(config->train_batch_size, on[i].is[0]);
            assert_int_equal(config->micro_batch_size, on[i].is[1]);
            assert_int_equal(config->accumulation_steps, on[i].is[2]);
        }
        zr_config_destroy(&config);
    }
    zr_config *config;
    assert_int_equal(zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config), ZR_OK);
    zr__config_go_on(config);
    assert_int_equal(zr_config_resolve(config, 5), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "c.json: train_batch_size: a resumed run keeps its 24 (it had 2 ranks), which is not a "
                        "multiple of 5 ranks; use a number of ranks that divides it, or give another train_batch_size");
    zr_config_destroy(&config);
}

static void missing_files(void **state)
{
    (void)state;
    zr_config *config;
    assert_int_equal(zr_config_load("/nonexistent.json", NULL, 0, &config), ZR_ERR_NOT_FOUND);
    assert_null(config);
    assert_string_equal(zr_error_message(), "/nonexistent.json: cannot open: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(wrong_values),
        cmocka_unit_test(bad_json),
        cmocka_unit_test(not_built),
        cmocka_unit_test(keys_that_need_another),
        cmocka_unit_test(off_values_are_fine),
        cmocka_unit_test(overrides),
        cmocka_unit_test(impossible_models),
        cmocka_unit_test(parameters_of_another_type),
        cmocka_unit_test(keys_that_rule_each_other_out),
        cmocka_unit_test(world_needs_a_power_of_two),
        cmocka_unit_test(batch_contradictions),
        cmocka_unit_test(a_run_goes_on_on_other_ranks),
        cmocka_unit_test(missing_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
