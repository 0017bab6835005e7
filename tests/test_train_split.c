//TEST timeout=60
/* How a step's samples are split into micro-batches, where the configuration leaves that open; what is not open stays
 * as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "zr/train.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 2, ROWS = 16 };

static const zr_profile slow_link = {
    .facts = {.threads = 1}, .machine = {.flops_f32 = 1e12, .memory_bytes_sec = 1e12, .link = {{.bytes_sec = 1e6}}}};
static const zr_profile unknown = {.facts = {.threads = 1}};

static zr_config *config_of(const char *keys, int64_t limit_bytes)
{
    char text[1024];
    zr_config *config = NULL;
    snprintf(text, sizeof(text),
             "{\"model\": {\"n_layer\": 4, \"n_head\": 4, \"n_embd\": 64, \"n_positions\": 64, \"vocab_size\": 256}, "
             "\"zero_optimization\": {\"stage\": 3}, \"memory\": {\"limit\": %lld}, %s}",
             (long long)limit_bytes, keys);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
        zr_train_prepare(config, RANKS, 0) != ZR_OK)
        fail_msg("%s", zr_error_message());
    return config;
}

#define WORDS "\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": \"auto\""
#define AUTO "\"activation_checkpointing\": {\"policy\": \"auto\"}"
#define OPEN "\"train_batch_size\": 32, " WORDS ", " AUTO

/* What a process takes with so many micro-batches, as `again` computes again; a byte more is for rounding. */
static int64_t needs(int64_t accum, zr_config_policy again)
{
    zr_config *config = config_of(OPEN, (int64_t)1 << 40);
    zr_plan *plan = NULL;
    config->accumulation_steps = accum;
    config->micro_batch_size = ROWS / accum;
    config->recompute.policy = again;
    assert_int_equal(zr_train_plan(config, RANKS, -1, &unknown, &plan), ZR_OK);
    const int64_t bytes = zr_train_process_bytes(zr_memory_taken(&plan->memory), 1) + 1;
    zr_plan_destroy(&plan);
    zr_config_destroy(&config);
    return bytes;
}

/* How many micro-batches are taken, and the beginning of what is said of them. */
static int64_t taken_of(int64_t kept, int64_t limit_bytes, const zr_profile *profile, const char *why)
{
    zr_config *config = config_of(OPEN, limit_bytes);
    char note[ZR_TRAIN_NOTE_BYTES], want[ZR_TRAIN_NOTE_BYTES];
    assert_true(zr_config_split_open(config));
    if (zr_train_split(config, RANKS, profile, kept, note) != ZR_OK) fail_msg("%s", zr_error_message());
    const int64_t accum = config->accumulation_steps;
    assert_int_equal(accum * config->micro_batch_size, ROWS);
    assert_int_equal(config->train_batch_size, ROWS * RANKS);
    snprintf(want, sizeof(want),
             "gradient_accumulation_steps: auto, taken as %lld, and train_micro_batch_size_per_gpu as %lld: %s",
             (long long)accum, (long long)config->micro_batch_size, why);
    assert_string_equal(note, want);
    zr_config_destroy(&config);
    return accum;
}

static int64_t taken(int64_t limit_bytes, const zr_profile *profile, const char *why)
{
    return taken_of(0, limit_bytes, profile, why);
}

static const char all[] = "the fewest that fit memory.limit with no activation computed again";
static const char best[] = "the best of what fits memory.limit";
static const char none[] = "nothing fits memory.limit, and this takes the least";
static const char kept[] = "as the checkpoint has it";

/* The fewest micro-batches whose activations all fit; with less, twice as many. */
static void the_fewest_that_fit(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 4; accum *= 2) {
        const int64_t limit = needs(accum, ZR_POLICY_NONE);
        assert_int_equal(taken(limit, &unknown, all), accum);
        assert_int_equal(taken(limit - 64, &unknown, all), 2 * accum);
    }
    assert_int_equal(taken(1, &unknown, none), ROWS);
}

/* Each micro-batch gathers all parameters: where that takes longer than computing again, it is computed again. */
static void rates_decide(void **state)
{
    (void)state;
    const int64_t limit = needs(2, ZR_POLICY_NONE);
    assert_true(needs(1, ZR_POLICY_SELECTIVE) <= limit);
    assert_int_equal(taken(limit, &unknown, all), 2);
    assert_int_equal(taken(limit, &slow_link, best), 1);
}

/* A run that goes on keeps what it has, whatever this machine's rates, while that fits and can be had. */
static void what_a_run_has_stays(void **state)
{
    (void)state;
    const int64_t limit = needs(2, ZR_POLICY_NONE);
    assert_int_equal(taken_of(4, limit, &unknown, kept), 4);
    assert_int_equal(taken_of(1, limit, &unknown, kept), 1); /* computes again */
    assert_int_equal(taken_of(2, limit, &slow_link, kept), 2);
    assert_int_equal(taken_of(3, limit, &unknown, all), 2); /* no divisor of the rows */
    const int64_t least = needs(8, ZR_POLICY_UNIT);
    assert_true(needs(1, ZR_POLICY_UNIT) > least);
    assert_int_not_equal(taken_of(1, least, &unknown, all), 1);
    zr_config *config = config_of(OPEN, limit);
    char note[ZR_TRAIN_NOTE_BYTES];
    assert_int_equal(zr_config_set(config, "zero_optimization.stage", "1"), ZR_OK);
    assert_int_equal(zr_config_set(config, "collectives.reduce", "all_reduce"), ZR_OK);
    assert_int_equal(zr_train_split(config, RANKS, &unknown, 2, note), ZR_OK);
    assert_int_equal(config->accumulation_steps, 1);
    assert_null(strstr(note, kept));
    zr_config_destroy(&config);
}

static bool noted(const zr_config *config, const char *text)
{
    for (int i = 0; i < zr_config_notes(config); i++)
        if (strcmp(zr_config_note(config, i), text) == 0) return true;
    return false;
}

/* Nothing is said of what is not chosen yet, and all else is settled as ever. */
static void what_is_open(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int64_t limit_bytes, accum;
    } settled[] = {{"\"train_batch_size\": 32, " AUTO, 1 << 20, 1},
                   {"\"train_batch_size\": 32, \"gradient_accumulation_steps\": \"auto\", " AUTO, 1 << 20, 1},
                   {"\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": \"auto\", " AUTO, 1 << 20, 1},
                   {WORDS ", " AUTO, 1 << 20, 1},
                   {"\"train_batch_size\": 32, \"gradient_accumulation_steps\": 4, " AUTO, 1 << 20, 4},
                   {"\"train_batch_size\": 32, " WORDS, 1 << 20, 1}};
    for (size_t i = 0; i < sizeof(settled) / sizeof(*settled); i++) {
        zr_config *config = config_of(settled[i].keys, settled[i].limit_bytes);
        char note[ZR_TRAIN_NOTE_BYTES];
        assert_false(zr_config_split_open(config));
        assert_int_equal(zr_train_split(config, RANKS, &unknown, 0, note), ZR_OK);
        assert_int_equal(config->accumulation_steps, settled[i].accum);
        assert_string_equal(note, "");
        if (strstr(settled[i].keys, "steps\": \"auto"))
            assert_true(noted(config, "gradient_accumulation_steps: auto, taken as 1"));
        zr_config_destroy(&config);
    }
    zr_config *config = config_of(OPEN, 1 << 20);
    assert_int_equal(config->accumulation_steps, 1);
    assert_int_equal(config->micro_batch_size, ROWS);
    assert_false(noted(config, "gradient_accumulation_steps: auto, taken as 1"));
    zr_config_destroy(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fewest_that_fit),
        cmocka_unit_test(rates_decide),
        cmocka_unit_test(what_a_run_has_stays),
        cmocka_unit_test(what_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
