//TEST timeout=60
/* Settings that a configuration leaves open, chosen by the available memory: the division of a given number of samples
 * into micro-batches; stage, recompute policy and micro-batch, checked against a list of all choices. Given settings
 * stay. */
#include "choose_config.h"
#include "plan/cost/cost.h"

#define WORDS "\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": \"auto\""
#define AUTO "\"activation_checkpointing\": {\"policy\": \"auto\"}"
#define OPEN "\"train_batch_size\": 32, " WORDS ", " AUTO

/* Return the bytes that a process takes with `accum` micro-batches and recompute policy `again`; one byte more is for
 * rounding. */
static int64_t needs(int64_t accum, zr_recompute again)
{
    zr_config *config = config_of(OPEN, (int64_t)1 << 40);
    zr_plan *plan = NULL;
    config->accumulation_steps = accum;
    config->micro_batch_size = ROWS / accum;
    config->recompute.policy = again;
    assert_int_equal(zr__train_plan(config, RANKS, -1, &unknown, &plan), ZR_OK);
    const int64_t bytes = zr__process_bytes(zr__memory_taken(&plan->memory), 1) + 1;
    zr_plan_destroy(&plan);
    zr_config_destroy(&config);
    return bytes;
}

/* Return the number of micro-batches that is chosen, and check the note about it. */
static int64_t taken_of(int64_t kept, int64_t limit_bytes, const zr_profile *profile, const char *why)
{
    zr_config *config = config_of(OPEN, limit_bytes);
    char note[ZR_TRAIN_NOTE_BYTES], want[ZR_TRAIN_NOTE_BYTES];
    assert_true(zr__config_get_open(config).split);
    if (zr__train_choose(config, &(zr__train_target){.ranks = RANKS, .profile = profile}, kept_of(kept), NULL, note) !=
        ZR_OK)
        fail_msg("%s", zr_error_message());
    const int64_t accum = config->accumulation_steps;
    assert_int_equal(accum * config->micro_batch_size, ROWS);
    assert_int_equal(config->train_batch_size, ROWS * RANKS);
    snprintf(want, sizeof(want),
             "gradient_accumulation_steps: auto, set to %lld, and train_micro_batch_size_per_gpu as %lld: %s",
             (long long)accum, (long long)config->micro_batch_size, why);
    assert_string_equal(note, want);
    zr_config_destroy(&config);
    return accum;
}

static int64_t taken(int64_t limit_bytes, const zr_profile *profile, const char *why)
{
    return taken_of(0, limit_bytes, profile, why);
}

static const char all[] = "the fewest that fit memory.limit with no activation recomputed";
static const char best[] = "the best of what fits memory.limit";
static const char none[] = "nothing fits memory.limit, and this needs the least";
static const char kept[] = "as the checkpoint has it";

/* Check that the fewest micro-batches whose activations all fit are chosen, and with less memory twice that number. */
static void the_fewest_that_fit(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 4; accum *= 2) {
        const int64_t limit = needs(accum, ZR_RECOMPUTE_NONE);
        assert_int_equal(taken(limit, &unknown, all), accum);
        assert_int_equal(taken(limit - 64, &unknown, all), 2 * accum);
    }
    assert_int_equal(taken(1, &unknown, none), ROWS);
}

/* Check that rates decide: each micro-batch gathers all parameters, and where gathering takes longer than recompute,
 * there are fewer micro-batches with recompute. */
static void rates_decide(void **state)
{
    (void)state;
    const int64_t limit = needs(2, ZR_RECOMPUTE_NONE);
    assert_true(needs(1, ZR_RECOMPUTE_SELECTIVE) <= limit);
    assert_int_equal(taken(limit, &unknown, all), 2);
    assert_int_equal(taken(limit, &slow_link, best), 1);
}

/* Check that a resumed run keeps its number of micro-batches, whatever this machine's rates, while that number fits and
 * is possible. */
static void what_a_run_has_stays(void **state)
{
    (void)state;
    const int64_t limit = needs(2, ZR_RECOMPUTE_NONE);
    assert_int_equal(taken_of(4, limit, &unknown, kept), 4);
    assert_int_equal(taken_of(1, limit, &unknown, kept), 1); /* with recompute */
    assert_int_equal(taken_of(2, limit, &slow_link, kept), 2);
    assert_int_equal(taken_of(3, limit, &unknown, all), 2); /* no divisor of the rows */
    const int64_t least = needs(8, ZR_RECOMPUTE_UNIT);
    assert_true(needs(1, ZR_RECOMPUTE_UNIT) > least);
    assert_int_not_equal(taken_of(1, least, &unknown, all), 1);
    zr_config *config = config_of(OPEN, limit);
    char note[ZR_TRAIN_NOTE_BYTES];
    assert_int_equal(zr_config_set(config, "zero_optimization.stage", "1"), ZR_OK);
    assert_int_equal(zr_config_set(config, "collectives.reduce", "all_reduce"), ZR_OK);
    assert_int_equal(
        zr__train_choose(config, &(zr__train_target){.ranks = RANKS, .profile = &unknown}, kept_of(2), NULL, note),
        ZR_OK);
    assert_int_equal(config->accumulation_steps, 1);
    assert_null(strstr(note, kept));
    zr_config_destroy(&config);
}

/* Check that no note is made about a choice that is still open, and that all other settings are chosen as usual. */
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
        assert_false(zr__config_get_open(config).split);
        assert_int_equal(
            zr__train_choose(config, &(zr__train_target){.ranks = RANKS, .profile = &unknown}, kept_of(0), NULL, note),
            ZR_OK);
        assert_int_equal(config->accumulation_steps, settled[i].accum);
        assert_string_equal(note, "");
        if (strstr(settled[i].keys, "steps\": \"auto"))
            assert_true(noted(config, "gradient_accumulation_steps: auto, set to 1"));
        zr_config_destroy(&config);
    }
    zr_config *config = config_of(OPEN, 1 << 20);
    assert_int_equal(config->accumulation_steps, 1);
    assert_int_equal(config->micro_batch_size, ROWS);
    assert_false(noted(config, "gradient_accumulation_steps: auto, set to 1"));
    zr_config_destroy(&config);
}

/* ---- all of it ---------------------------------------------------------------------------------- */

#define STAGE "\"zero_optimization\": {\"stage\": 1}"
#define POLICY "\"activation_checkpointing\": {\"policy\": \"unit\"}"
#define BATCH "\"train_micro_batch_size_per_gpu\": 3"
#define ACCUM "\"gradient_accumulation_steps\": 2"
#define SAMPLES "\"train_batch_size\": 24"

/* Make a configuration that leaves all settings but `keys` open. */
static zr_config *left_open(const char *keys, int64_t limit_bytes)
{
    char text[1024];
    zr_config *config = NULL;
    snprintf(text, sizeof(text),
             "{\"model\": {\"n_layer\": 4, \"n_head\": 4, \"n_embd\": 128, \"n_positions\": 64, \"vocab_size\": 256}, "
             "\"memory\": {\"limit\": %lld}%s%s}",
             (long long)limit_bytes, *keys ? ", " : "", keys);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    zr__config_leave_open(config);
    if (zr_train_prepare(config, RANKS, 0) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

typedef struct made {
    double sec; /* estimated seconds per token */
    int64_t needs;
} made;

static made make(const zr_config *config, const zr_profile *profile)
{
    zr_plan *plan = NULL;
    zr_price price;
    if (zr__train_plan(config, RANKS, -1, profile, &plan) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_plans_price(&ZR__ALONE(plan), profile, &price), ZR_OK);
    const made m = {price.step_sec / (double)(config->train_batch_size * config->data.seq_length),
                    zr__process_bytes(zr__memory_taken(&plan->memory), 1)};
    zr_plan_destroy(&plan);
    return m;
}

/* Find the fastest step of all stages, policies and micro-batches that fit, and the least memory of all plans. */
static void list_all(int64_t limit_bytes, const zr_profile *profile, double *fastest, int64_t *least)
{
    static const zr_recompute policy[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_SELECTIVE, ZR_RECOMPUTE_UNIT,
                                          ZR_RECOMPUTE_AUTO};
    *fastest = 0;
    *least = INT64_MAX;
    for (int stage = 0; stage < 4; stage++)
        for (int p = 0; p < 4; p++)
            for (int64_t rows = 1; rows <= 48; rows += rows < 8 ? 1 : 8) {
                zr_config *config = left_open("", limit_bytes);
                config->zero.stage = stage;
                config->recompute.policy = policy[p];
                config->micro_batch_size = rows;
                config->train_batch_size = rows * RANKS;
                const made m = make(config, profile);
                zr_config_destroy(&config);
                if (m.needs < *least) *least = m.needs;
                if (m.needs <= limit_bytes && (*fastest == 0 || m.sec < *fastest)) *fastest = m.sec;
            }
}

/* Check the choice at limits from ample memory down to none: it fits, few other choices are faster by at most 2 %, and
 * less memory never makes it faster. */
static void the_fastest_of_all(void **state)
{
    (void)state;
    char note[ZR_TRAIN_NOTE_BYTES];
    double before = 0, fastest;
    int fitted = 0, failed = 0, stages = 0;
    static const double room[] = {10, 4, 2.5, 2, 1.6, 1.4, 1.25, 1.15, 1.07, 1, 0.9};
    int64_t least;
    list_all(1, &balanced, &fastest, &least);
    for (size_t i = 0; i < sizeof(room) / sizeof(*room); i++) {
        const int64_t alone = zr__process_bytes(0, 1), limit = alone + 1 + (int64_t)(room[i] * (double)(least - alone));
        zr_config *config = left_open("", limit);
        choose(config, &balanced, note);
        const made m = make(config, &balanced);
        list_all(limit, &balanced, &fastest, &least);
        if (fastest == 0) {
            assert_non_null(strstr(note, "nothing fits"));
            assert_true(m.needs <= least);
            failed++;
        } else {
            assert_true(m.needs <= limit);
            assert_true(m.sec <= 1.02 * fastest);
            assert_true(m.sec >= 0.99 * before);
            before = m.sec > before ? m.sec : before;
            stages |= 1 << config->zero.stage;
            fitted++;
        }
        zr_config_destroy(&config);
    }
    assert_true(fitted > 4 && failed > 0);
    assert_true((stages & 1) && stages > 1); /* the lowest stage where there is enough memory */
}

/* Check that given keys stay, and that the note names only keys that were open. */
static void given_keys_stay(void **state)
{
    (void)state;
    static const char *const keys[] = {STAGE, POLICY, BATCH, ACCUM, SAMPLES};
    for (int set = 0; set < 32; set++) {
        char text[512] = "", note[ZR_TRAIN_NOTE_BYTES];
        const bool stage = set & 1, policy = set & 2, batch = set & 4, accum = set & 8, samples = set & 16;
        for (int k = 0; k < 5; k++)
            if (set & 1 << k)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", *text ? ", " : "", keys[k]);
        if (batch && accum && samples) continue; /* 24 = 3 x 2 x 2 ranks does not hold */
        zr_config *config = left_open(text, 54000000);
        const zr__config_open open = zr__config_get_open(config);
        assert_true(open.stage == !stage && open.policy == !policy);
        assert_true(open.split == (samples && !batch && !accum) && open.batch == (!samples && !batch));
        choose(config, &balanced, note);
        if (stage) assert_int_equal(config->zero.stage, 1);
        if (policy) assert_int_equal(config->recompute.policy, ZR_RECOMPUTE_UNIT);
        if (batch) assert_int_equal(config->micro_batch_size, 3);
        if (accum) assert_int_equal(config->accumulation_steps, 2);
        if (samples) assert_int_equal(config->train_batch_size, 24);
        assert_int_equal(config->train_batch_size, config->micro_batch_size * config->accumulation_steps * RANKS);
        const bool any = !stage || !policy || open.batch;
        assert_int_equal(strstr(note, "zero_optimization.stage") != NULL, !stage);
        assert_int_equal(strstr(note, "activation_checkpointing.policy") != NULL, !policy);
        assert_int_equal(strstr(note, "train_micro_batch_size_per_gpu") != NULL, open.split || open.batch);
        assert_int_equal(note[0] != '\0', any || open.split);
        for (int i = 0; i < zr_config_notes(config); i++) assert_null(strstr(zr_config_note(config, i), "not given"));
        zr_config_destroy(&config);
    }
}

/* Check that a limit alone, and --memory without a limit, leave no setting open. */
static void a_limit_is_a_limit(void **state)
{
    (void)state;
    zr_config *config = config_of("\"steps_per_print\": 1", 1 << 20);
    const zr__config_open open = zr__config_get_open(config);
    assert_false(open.stage || open.policy || open.split || open.batch);
    zr_config_destroy(&config);
    assert_int_equal(zr_config_parse("{}", 2, "c.json", NULL, 0, &config), ZR_OK);
    zr__config_leave_open(config);
    assert_false(zr__config_get_open(config).stage);
    zr_config_destroy(&config);
}

/* Check that a resumed run has its checkpoint's micro-batches; the choice is also made, and noted, without rates. */
static void a_run_keeps_its_samples(void **state)
{
    (void)state;
    char note[ZR_TRAIN_NOTE_BYTES];
    zr_config *config = left_open("", 90000000);
    assert_int_equal(zr__train_choose(config, &(zr__train_target){.ranks = RANKS, .profile = &unknown},
                                      (zr__train_kept){.rows = 5, .accum = 3}, NULL, note),
                     ZR_OK);
    assert_int_equal(config->micro_batch_size, 5);
    assert_int_equal(config->accumulation_steps, 3);
    assert_int_equal(config->train_batch_size, 30);
    assert_non_null(strstr(note, "usual rates"));
    zr_config_destroy(&config);
}

/* Check that a resumed run keeps its micro-batches where only the batch is open; a given number of micro-batches stays,
 * each with the checkpoint's samples. */
static void a_run_keeps_its_batch(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int64_t accum;
    } given[] = {{"", 3}, {", \"gradient_accumulation_steps\": 4", 4}};
    for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
        char note[ZR_TRAIN_NOTE_BYTES], keys[256];
        snprintf(keys, sizeof(keys),
                 "\"zero_optimization\": {\"stage\": 1}, \"activation_checkpointing\": {\"policy\": \"none\"}%s",
                 given[i].keys);
        zr_config *config = left_open(keys, 90000000);
        assert_true(zr__config_get_open(config).batch);
        assert_int_equal(zr__train_choose(config, &(zr__train_target){.ranks = RANKS, .profile = &unknown},
                                          (zr__train_kept){.rows = 5, .accum = 3}, NULL, note),
                         ZR_OK);
        assert_int_equal(config->micro_batch_size, 5);
        assert_int_equal(config->accumulation_steps, given[i].accum);
        assert_int_equal(config->train_batch_size, 5 * given[i].accum * RANKS);
        assert_string_equal(note, "");
        zr_config_destroy(&config);
    }
}

/* Check that stages above 1 are not chosen with collectives that exclude them. */
static void what_excludes_each_other(void **state)
{
    (void)state;
    char note[ZR_TRAIN_NOTE_BYTES];
    zr_config *config = left_open("\"collectives\": {\"reduce\": \"all_reduce\"}", 53000000);
    choose(config, &balanced, note);
    assert_true(config->zero.stage <= 1);
    zr_config_destroy(&config);
}

/* Return whether the order "layer" is chosen with `accum` micro-batches, with the reason in a note. */
static bool layer_taken(int64_t accum, int64_t limit_bytes, const zr_profile *profile, char note[ZR_TRAIN_NOTE_BYTES])
{
    char keys[256];
    snprintf(keys, sizeof(keys),
             "\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": %lld, \"train\": "
             "{\"accumulation_order\": \"auto\"}, \"activation_checkpointing\": {\"policy\": \"unit\"}",
             (long long)accum);
    zr_config *config = config_of(keys, limit_bytes);
    choose(config, profile, note);
    const bool layer = config->train.layer_major;
    zr_config_destroy(&config);
    return layer;
}

/* Check that the order "layer" is chosen where gathers are slow and the order fits in memory, otherwise "micro". */
static void the_order_of_micro_batches(void **state)
{
    (void)state;
    char note[ZR_TRAIN_NOTE_BYTES];
    assert_true(layer_taken(4, 1 << 30, &slow_link, note));
    assert_non_null(strstr(note, "train.accumulation_order: auto, set to layer, with which a step takes "));
    assert_false(layer_taken(4, 1 << 20, &slow_link, note));
    assert_non_null(strstr(note, "does not fit"));
    assert_false(layer_taken(4, 1 << 30, &unknown, note));
    assert_non_null(strstr(note, "rates are not known"));
    assert_false(layer_taken(32, 1 << 30, &slow_link, note));
    assert_non_null(strstr(note, "32 micro-batches"));
    assert_false(layer_taken(1, 1 << 30, &slow_link, note));
    assert_string_equal(note, "");
}

/* ---- quantised exchanges ------------------------------------------------------------------------ */

static zr_config *quantised_config(const char *zero, const char *others)
{
    char text[1024];
    zr_config *config = NULL;
    snprintf(text, sizeof(text),
             "{\"model\": {\"n_layer\": 4, \"n_head\": 4, \"n_embd\": 64, \"n_positions\": 64, \"vocab_size\": 256}, "
             "\"zero_optimization\": {\"stage\": 3, %s}%s}",
             zero, others);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
        zr_train_prepare(config, RANKS, 0) != ZR_OK)
        fail_msg("%s", zr_error_message());
    return config;
}

#define BOTH_AUTO "\"zero_quantized_weights\": \"auto\", \"zero_quantized_gradients\": \"auto\""

/* Choose, and check the values of both keys and parts of the note. */
static void check_quantised(const char *zero, const char *others, const zr_profile *profile, int ranks,
                            zr__train_kept has, bool weights, bool gradients, const char *part)
{
    char note[ZR_TRAIN_NOTE_BYTES];
    zr_config *config = quantised_config(zero, others);
    const zr__train_target target = {.ranks = ranks, .profile = profile};
    assert_true(zr__config_is_open(config));
    assert_int_equal(zr__train_choose(config, &target, has, NULL, note), ZR_OK);
    assert_int_equal(config->zero.quantized_weights, weights ? ZR_SWITCH_ON : ZR_SWITCH_OFF);
    assert_int_equal(config->zero.quantized_gradients, gradients ? ZR_SWITCH_ON : ZR_SWITCH_OFF);
    assert_true(!gradients || config->reduce_once);
    assert_false(zr__config_is_open(config));
    if (!strstr(note, part)) fail_msg("%s: %s", part, note);
    zr_config_destroy(&config);
}

/* Return a profile of which all forms of values are encoded and decoded at a rate. */
static zr_profile with_casts(zr_profile profile, double rate)
{
    for (int i = 0; i < ZR_RECORD_CODES; i++) profile.machine.records[i] = (zr_record_rate){rate, rate, rate};
    return profile;
}

/* Check that exchanges are quantised where the step is then shorter: with a slow link, and casts that are not slow. */
static void what_is_quantised(void **state)
{
    (void)state;
    const zr_profile slow_link_casts = with_casts(slow_link, 1e9), slow_casts = with_casts(balanced, 1e6);
    zr_profile slow_gradients = slow_link_casts;
    slow_gradients.machine.records[ZR_CODES_INT4] = (zr_record_rate){1e3, 1e3, 1e3};
    const zr__train_kept new = {0};
    check_quantised(BOTH_AUTO, "", &slow_link_casts, RANKS, new, true, true,
                    "zero_optimization.zero_quantized_weights and zero_optimization.zero_quantized_gradients: auto, "
                    "set to true, with which a step takes ");
    check_quantised(BOTH_AUTO, "", &slow_casts, RANKS, new, false, false,
                    "zero_optimization.zero_quantized_gradients: auto, set to false, since a step of ");
    check_quantised(BOTH_AUTO, "", &slow_gradients, RANKS, new, true, false,
                    "zero_quantized_gradients: auto, set to "
                    "false, since a step of ");
    check_quantised("\"zero_quantized_weights\": \"auto\"", "", &slow_link_casts, RANKS, new, true, false,
                    "auto, set to true");
    check_quantised("\"zero_quantized_gradients\": \"auto\"", "", &slow_link_casts, RANKS, new, false, true,
                    "auto, set to true");
    check_quantised(BOTH_AUTO, "", &unknown, RANKS, new, false, false, "rates are not known");
    check_quantised(BOTH_AUTO, "", &slow_link, 1, new, false, false, "nothing passes between data-parallel ranks");
    check_quantised(BOTH_AUTO, ", \"memory\": {\"limit\": 1000}", &slow_link_casts, RANKS, new, false, false,
                    "zero_quantized_gradients: auto, set to false, as true cannot be planned, or does not fit");
    check_quantised(BOTH_AUTO, ", \"train\": {\"reproducible\": \"world\"}", &slow_link_casts, RANKS, new, true, false,
                    "zero_quantized_gradients: auto, set to false, as train.reproducible is world");
    check_quantised(BOTH_AUTO, ", \"gradient_accumulation_steps\": 2, \"gradient_reduction\": \"micro\"",
                    &slow_link_casts, RANKS, new, true, false, "as gradient_reduction is micro");
}

/* Return the numbers of seconds with and without in a note. */
static void seconds_of(const char *note, double *with, double *without)
{
    const char *at = strstr(note, "with which a step takes ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "with which a step takes %lf s instead of %lf s", with, without), 2);
}

/* Check that the note on both keys has the exact step, not that with one of the keys. */
static void both_beside_exact(void **state)
{
    (void)state;
    const zr_profile profile = with_casts(slow_link, 1e9);
    const zr__train_target target = {.ranks = RANKS, .profile = &profile};
    char note[ZR_TRAIN_NOTE_BYTES];
    double sec[3], exact[3];
    static const char *const keys[] = {BOTH_AUTO, "\"zero_quantized_weights\": \"auto\"",
                                       "\"zero_quantized_gradients\": \"auto\""};
    for (int i = 0; i < 3; i++) {
        zr_config *config = quantised_config(keys[i], "");
        assert_int_equal(zr__train_choose(config, &target, (zr__train_kept){0}, NULL, note), ZR_OK);
        seconds_of(note, &sec[i], &exact[i]);
        zr_config_destroy(&config);
    }
    assert_true(exact[0] == exact[1] && exact[0] == exact[2]);
    assert_true(sec[0] < sec[1] && sec[0] < sec[2]);
}

/* Check that on processors nothing is quantised at unknown rates of casts, in the form and the rounding that it has;
 * that GPUs have no such rates; and that a note says what is not known of GPUs. */
static void casts_without_rates(void **state)
{
    (void)state;
    const zr__train_kept new = {0};
    zr_profile int8 = slow_link, nearest = with_casts(slow_link, 1e9), gpu = slow_link;
    int8.machine.records[ZR_CODES_INT8] = (zr_record_rate){1e9, 1e9, 1e9};
    for (int i = 0; i < ZR_RECORD_CODES; i++) nearest.machine.records[i].encode_random = 0;
    gpu.facts.own_memory = true;
    check_quantised(BOTH_AUTO, "", &slow_link, RANKS, new, false, false,
                    "zero_quantized_weights: auto, set to false, as the rates of encoding are not known");
    check_quantised(BOTH_AUTO, "", &int8, RANKS, new, true, false,
                    "zero_quantized_gradients: auto, set to false, as the rates of encoding are not known");
    check_quantised(BOTH_AUTO, "", &nearest, RANKS, new, true, true, "set to true");
    check_quantised(BOTH_AUTO, ", \"quantization\": {\"rounding\": \"stochastic\"}", &nearest, RANKS, new, false, false,
                    "as the rates of encoding are not known");
    check_quantised(BOTH_AUTO, "", &gpu, RANKS, new, true, true, "set to true");
    gpu.machine.link[0].bytes_sec = 0;
    check_quantised(BOTH_AUTO, "", &gpu, RANKS, new, false, false,
                    "set to false, as links between GPUs are not measured (`zr plan --cluster` tells");
}

/* Check that a resumed run keeps what its checkpoint has, whatever is faster. */
static void a_run_stays_quantised(void **state)
{
    (void)state;
    for (int on = 0; on < 4; on++)
        check_quantised(BOTH_AUTO, "", on % 2 ? &balanced : &slow_link, RANKS, (zr__train_kept){1, 1, {on & 1, on & 2}},
                        on & 1, on & 2, "as the checkpoint has it");
}

/* Check that a note says if exchanges that the user quantises are slower so. */
static void slower_if_quantised(void **state)
{
    (void)state;
    const zr_profile slow_casts = with_casts(balanced, 1e6);
    zr_config *config = quantised_config("\"zero_quantized_weights\": true", "");
    ZR_AUTO(zr__text_clear) zr__text text = {0};
    zr__train_target target = {.ranks = RANKS, .profile = &slow_link};
    assert_int_equal(zr__note_quantised(config, &target, &text), ZR_OK);
    assert_null(text.data);
    target.profile = &unknown;
    assert_int_equal(zr__note_quantised(config, &target, &text), ZR_OK);
    assert_null(text.data);
    target.profile = &slow_casts;
    assert_int_equal(zr__note_quantised(config, &target, &text), ZR_OK);
    assert_non_null(strstr(text.data, "zero_optimization.zero_quantized_weights: a step takes "));
    zr_config_destroy(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fewest_that_fit),        cmocka_unit_test(rates_decide),
        cmocka_unit_test(what_a_run_has_stays),       cmocka_unit_test(what_is_open),
        cmocka_unit_test(the_fastest_of_all),         cmocka_unit_test(given_keys_stay),
        cmocka_unit_test(a_limit_is_a_limit),         cmocka_unit_test(a_run_keeps_its_samples),
        cmocka_unit_test(a_run_keeps_its_batch),      cmocka_unit_test(what_excludes_each_other),
        cmocka_unit_test(the_order_of_micro_batches), cmocka_unit_test(what_is_quantised),
        cmocka_unit_test(both_beside_exact),          cmocka_unit_test(casts_without_rates),
        cmocka_unit_test(a_run_stays_quantised),      cmocka_unit_test(slower_if_quantised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
