//TEST timeout=60
/* Offload that a configuration leaves open, chosen by the available memory and disk space: the degree of offload, and
 * the share of the optimizer states on disk, checked against plans of all degrees and shares. Given devices stay. */
#include "choose_config.h"

#define FEW                                                                                                            \
    "\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 2, \"activation_checkpointing\": "        \
    "{\"policy\": \"unit\"}"

/* Return a configuration whose buckets and transfers are small compared with its states, with a degree of offload. With
 * many `rows` (samples), activation checkpoints are larger than the states. */
static zr_config *offloaded(int64_t rows, int64_t limit_bytes, zr__offload offload)
{
    zr_config *config = config_of(FEW, limit_bytes);
    zr__train_set_batch(config, RANKS, rows, config->accumulation_steps);
    assert_int_equal(zr_config_set(config, "model.n_layer", "12"), ZR_OK);
    assert_int_equal(zr_config_set(config, "zero_optimization.sub_group_size", "2048"), ZR_OK);
    assert_int_equal(zr_config_set(config, "aio.block_size", "4096"), ZR_OK);
    zr__train_set_offload(config, offload, ZR_HOME_NVME, 0);
    return config;
}

/* Find the memory and the disk space, in bytes, of a rank with this degree of offload. */
static void bytes_of(int64_t rows, zr__offload offload, int64_t *needs_bytes, int64_t *disk_bytes)
{
    zr_plan *plan = NULL;
    zr_config *config = offloaded(rows, (int64_t)1 << 40, offload);
    assert_int_equal(zr__train_plan(config, RANKS, -1, &unknown, &plan), ZR_OK);
    *needs_bytes = zr__rank_needs(&plan->memory, &plan->profile.facts);
    *disk_bytes = plan->memory.space[ZR_SPACE_DISK].total_bytes;
    zr_plan_destroy(&plan);
    zr_config_destroy(&config);
}

/* Return the degree of offload that is chosen. */
static zr__offload offload_taken(int64_t rows, int64_t limit_bytes, int64_t disk_bytes, const char *place,
                                 const char *part)
{
    char note[ZR_TRAIN_NOTE_BYTES];
    zr_config *config = offloaded(rows, limit_bytes, ZR__OFFLOAD_NONE);
    const zr__train_target target = {.ranks = RANKS, .profile = &unknown, .disk_bytes = disk_bytes};
    zr__config_offer_disk(config, disk_bytes);
    if (place) assert_int_equal(zr_config_set(config, "activation_checkpointing.offload", place), ZR_OK);
    assert_int_equal(zr__train_choose(config, &target, kept_of(0), NULL, note), ZR_OK);
    if (!strstr(note, part)) fail_msg("%s: %s is missing", note, part);
    const int states = config->zero.param.device == ZR_HOME_NVME   ? ZR__OFFLOAD_PARAM
                       : config->zero.optim.device != ZR_HOME_NVME ? ZR__OFFLOAD_NONE
                       : config->zero.offload_gradients            ? ZR__OFFLOAD_GRAD
                                                                   : ZR__OFFLOAD_OPTIM;
    const bool checkpoints = !place && config->recompute.offload == ZR_OFFLOAD_DISK;
    zr_config_destroy(&config);
    return states + (checkpoints ? ZR__OFFLOAD_CHECKPOINTS : 0);
}

/* Find the memory and the disk space of a rank for all degrees of offload. Check that each degree needs less memory
 * than the one before. */
static void bytes_of_all(int64_t rows, int degrees, int64_t *needs_bytes, int64_t *disk_bytes)
{
    for (int o = ZR__OFFLOAD_NONE; o < degrees; o++) {
        bytes_of(rows, o, &needs_bytes[o], &disk_bytes[o]);
        if (o > 0) assert_true(needs_bytes[o] < needs_bytes[o - 1]);
        if (zr__train_offload_states(o) > 0) assert_true(disk_bytes[o] > disk_bytes[o - 1]);
    }
}

/* Check that the chosen offload is the least with which the plan fits both memory and disk. */
static void the_least_offload_that_fits(void **state)
{
    (void)state;
    static const char *const part[] = {" no offload,", "offload_optimizer.device nvme with gradients false (",
                                       "offload_optimizer.device nvme (", "offload_param.device nvme ("};
    int64_t needs_bytes[ZR__OFFLOADS], disk_bytes[ZR__OFFLOADS];
    bytes_of_all(1, ZR__OFFLOAD_CHECKPOINTS, needs_bytes, disk_bytes);
    for (zr__offload o = ZR__OFFLOAD_NONE; o < ZR__OFFLOAD_CHECKPOINTS; o++) {
        assert_int_equal(offload_taken(1, needs_bytes[o], disk_bytes[ZR__OFFLOAD_PARAM], NULL, part[o]), o);
        if (o == ZR__OFFLOAD_NONE) continue;
        /* a disk too small for this degree, and therefore for all greater degrees */
        (void)offload_taken(1, needs_bytes[o], disk_bytes[o] - 1, NULL, ": nothing fits");
    }
}

/* Check that activation checkpoints are offloaded if no offload of states is enough, unless their place is given. */
static void checkpoints_that_do_not_fit(void **state)
{
    (void)state;
    enum { MANY = 64 };
    static const char *const part[] = {
        " activation_checkpointing.offload disk (",
        "offload_optimizer.device nvme with gradients false and activation_checkpointing.offload disk (",
        "offload_optimizer.device nvme and activation_checkpointing.offload disk (",
        "offload_param.device nvme and activation_checkpointing.offload disk ("};
    int64_t needs_bytes[ZR__OFFLOADS], disk_bytes[ZR__OFFLOADS];
    bytes_of_all(MANY, ZR__OFFLOADS, needs_bytes, disk_bytes);
    for (zr__offload o = ZR__OFFLOAD_PARAM; o < ZR__OFFLOADS; o++) {
        const bool checkpoints = o >= ZR__OFFLOAD_CHECKPOINTS;
        const char *note = checkpoints ? part[o - ZR__OFFLOAD_CHECKPOINTS] : "offload_param.device nvme (";
        assert_int_equal(offload_taken(MANY, needs_bytes[o], (int64_t)1 << 40, NULL, note), o);
        if (!checkpoints) continue;
        (void)offload_taken(MANY, needs_bytes[o], disk_bytes[o] - 1, NULL, ": nothing fits");
        assert_int_equal(offload_taken(MANY, needs_bytes[o], (int64_t)1 << 40, "none", ": nothing fits"),
                         ZR__OFFLOAD_PARAM);
    }
}

/* Check that a device that is given is not changed, and that nothing is offloaded without a disk. */
static void an_offload_that_is_given(void **state)
{
    (void)state;
    char note[ZR_TRAIN_NOTE_BYTES];
    for (int64_t disk_bytes = 0; disk_bytes < 2; disk_bytes++) {
        zr_config *config = offloaded(1, 1, ZR__OFFLOAD_NONE);
        const zr__train_target target = {.ranks = RANKS, .profile = &unknown, .disk_bytes = disk_bytes << 40};
        zr__config_offer_disk(config, disk_bytes << 40);
        if (disk_bytes)
            assert_int_equal(zr_config_set(config, "zero_optimization.offload_optimizer.device", "cpu"), ZR_OK);
        assert_int_equal(zr__train_choose(config, &target, kept_of(0), NULL, note), ZR_OK);
        assert_string_equal(note, "");
        assert_int_equal(config->zero.optim.device, disk_bytes ? ZR_HOME_CPU : ZR_HOME_NONE);
        zr_config_destroy(&config);
    }
}

/* ---- shares and order --------------------------------------------------------------------------- */

#define FOLDER                                                                                                         \
    "\"zero_optimization\": {\"stage\": 3, \"sub_group_size\": 2048, \"offload_optimizer\": {\"nvme_path\": \".\""

/* Make a configuration with `optim` as further keys of offload_optimizer. */
static zr_config *with_folder(const char *optim, int64_t limit_bytes, bool by_memory)
{
    char text[1024], limit[64] = "";
    zr_config *config = NULL;
    if (limit_bytes) snprintf(limit, sizeof(limit), "\"memory\": {\"limit\": %lld}, ", (long long)limit_bytes);
    snprintf(text, sizeof(text),
             "{\"model\": {\"n_layer\": 6, \"n_head\": 4, \"n_embd\": 64, \"n_positions\": 64, \"vocab_size\": 256}, "
             "%s" FOLDER "%s}}, " FEW "}",
             limit, optim);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    if (by_memory) zr__config_leave_open(config);
    if (zr_train_prepare(config, RANKS, 0) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

/* Return the bytes of memory that a rank needs with a share of its optimizer states on disk, and the bytes on disk. */
static int64_t share_needs(double ratio, int64_t *disk_bytes)
{
    zr_plan *plan = NULL;
    zr_config *config = with_folder(", \"device\": \"nvme\"", 0, false);
    config->zero.optim.ratio = ratio;
    assert_int_equal(zr__train_plan(config, RANKS, -1, &unknown, &plan), ZR_OK);
    const int64_t bytes = zr__rank_needs(&plan->memory, &plan->profile.facts);
    *disk_bytes = plan->memory.space[ZR_SPACE_DISK].total_bytes;
    zr_plan_destroy(&plan);
    zr_config_destroy(&config);
    return bytes;
}

/* Let ratio "auto" choose the share. Return it, with its description in `note`. */
static double share_taken(int64_t limit_bytes, const zr_profile *profile, int64_t memory_bytes,
                          char note[ZR_TRAIN_NOTE_BYTES])
{
    zr_config *config = with_folder(", \"device\": \"nvme\", \"ratio\": \"auto\"", limit_bytes, false);
    assert_true(zr__config_get_open(config).optim_ratio && !zr__config_get_open(config).param_ratio);
    const zr__train_target target = {.ranks = RANKS, .profile = profile, .memory_bytes = memory_bytes};
    if (!limit_bytes) zr__train_set_batch(config, RANKS, ROWS, 1); /* updates run beside the backward pass */
    if (zr__train_choose(config, &target, kept_of(0), NULL, note) != ZR_OK) fail_msg("%s", zr_error_message());
    const double ratio = config->zero.optim.ratio;
    for (int i = 0; i < zr_config_notes(config); i++) assert_null(strstr(zr_config_note(config, i), "ratio"));
    zr_config_destroy(&config);
    return ratio;
}

/* Check that the share is the least of all that fit the limit: at each limit, plans of all shares are compared. */
static void the_least_share_that_fits(void **state)
{
    (void)state;
    enum { STEPS = 64 };
    int64_t needs_bytes[STEPS + 1], disk_bytes[STEPS + 1];
    int between = 0;
    char note[ZR_TRAIN_NOTE_BYTES];
    for (int i = 0; i <= STEPS; i++) needs_bytes[i] = share_needs((double)i / STEPS, &disk_bytes[i]);
    for (int i = 0; i <= STEPS; i += 4) {
        int64_t its_disk, least_disk = INT64_MAX;
        const double ratio = share_taken(needs_bytes[i], &unknown, 0, note);
        assert_true(share_needs(ratio, &its_disk) <= needs_bytes[i]);
        for (int k = 0; k <= STEPS; k++)
            if (needs_bytes[k] <= needs_bytes[i] && disk_bytes[k] < least_disk) least_disk = disk_bytes[k];
        assert_true(its_disk <= least_disk);
        assert_non_null(strstr(note, "zero_optimization.offload_optimizer.ratio: auto, set to "));
        assert_non_null(strstr(note, "the least with which "));
        between += ratio > 0 && ratio < 1;
    }
    assert_true(between > 3);
    assert_true(share_taken(needs_bytes[STEPS] - 1, &unknown, 0, note) == 1);
    assert_non_null(strstr(note, "not enough either"));
}

/* Check the share without a limit: all states on disk if the disk is fast, none if it is slow, a part if it is between
 * the two, and all if rates are unknown. */
static void the_share_that_costs_no_time(void **state)
{
    (void)state;
    zr_profile fast = balanced, slow = balanced;
    char note[ZR_TRAIN_NOTE_BYTES];
    double before = 0, part = 0;
    fast.machine.disk_read_bytes_sec = fast.machine.disk_write_bytes_sec = 1e15;
    slow.machine.disk_read_bytes_sec = slow.machine.disk_write_bytes_sec = 1;
    assert_true(share_taken(0, &fast, 0, note) == 1);
    assert_non_null(strstr(note, "prolong a step by at most 1 %"));
    assert_true(share_taken(0, &slow, 0, note) == 0);
    for (double rate = 1e6; rate < 1e15; rate *= 2) {
        slow.machine.disk_read_bytes_sec = slow.machine.disk_write_bytes_sec = rate;
        const double ratio = share_taken(0, &slow, 0, note);
        assert_true(ratio >= before);
        before = ratio;
        if (ratio > 0 && ratio < 1) part = ratio;
    }
    assert_true(part > 0 && before == 1);
    assert_true(share_taken(0, &balanced, 0, note) == 1);
    assert_non_null(strstr(note, "rates are not known"));
    slow.machine.disk_read_bytes_sec = slow.machine.disk_write_bytes_sec = 1;
    assert_true(share_taken(0, &slow, (int64_t)1 << 40, note) == 0);
    assert_true(share_taken(0, &slow, 1, note) == 1); /* a share on disk because it does not fit the available memory */
    assert_non_null(strstr(note, "not enough either"));
}

/* Check when the offload is open: with a limit, and a folder and either --memory or the device "auto". */
static void when_the_offload_is_open(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        bool limit, by_memory, open;
    } all_ways[] = {{"", true, true, true},
                    {"", true, false, false},
                    {"", false, true, false},
                    {", \"device\": \"auto\"", true, false, true},
                    {", \"device\": \"auto\"", false, false, false},
                    {", \"device\": \"none\"", true, true, false},
                    {", \"device\": \"nvme\"", true, true, false}};
    for (size_t i = 0; i < sizeof(all_ways) / sizeof(*all_ways); i++) {
        zr_config *config = with_folder(all_ways[i].keys, all_ways[i].limit ? 1 << 30 : 0, all_ways[i].by_memory);
        assert_int_equal(zr__config_get_open(config).offload, all_ways[i].open);
        assert_int_equal(noted(config, "zero_optimization.offload_optimizer.device: auto, set to \"none\""),
                         strstr(all_ways[i].keys, "auto") && !all_ways[i].open);
        zr_config_destroy(&config);
    }
    zr_config *config = with_folder(", \"device\": \"auto\", \"ratio\": \"auto\"", 1 << 30, false);
    char note[ZR_TRAIN_NOTE_BYTES];
    choose(config, &unknown, note);
    assert_non_null(strstr(note, " no offload,"));
    assert_null(strstr(note, "ratio"));
    zr_config_destroy(&config);
}

/* Check that the message names an offload with which the configuration would fit, if there is one. */
static void the_offload_that_would_fit(void **state)
{
    (void)state;
    enum { MANY = 64 };
    int64_t needs_bytes[ZR__OFFLOADS], disk_bytes[ZR__OFFLOADS];
    char remedy[ZR_OFFLOAD_REMEDY_BYTES], keys[ZR_OFFLOAD_KEYS_BYTES];
    const zr__train_target target = {.ranks = RANKS, .profile = &unknown};
    bytes_of_all(MANY, ZR__OFFLOADS, needs_bytes, disk_bytes);
    for (zr__offload o = ZR__OFFLOAD_OPTIM; o < ZR__OFFLOADS; o++) {
        zr_config *config = offloaded(MANY, 1 << 20, ZR__OFFLOAD_NONE);
        zr__train_offload_remedy(config, &target, needs_bytes[o], remedy);
        zr__train_offload_keys(o, ZR_HOME_NVME, 0, keys);
        if (strncmp(remedy, keys, strlen(keys)) != 0) fail_msg("%s, not %s", remedy, keys);
        assert_int_equal(remedy[strlen(keys)], ',');
        assert_non_null(strstr(remedy, "nvme_path"));
        zr__train_offload_remedy(config, &target, 1, remedy);
        assert_string_equal(remedy, "");
        assert_int_equal(zr_config_set(config, "zero_optimization.offload_optimizer.device", "none"), ZR_OK);
        zr__train_offload_remedy(config, &target, needs_bytes[o], remedy);
        assert_string_equal(remedy, "");
        zr_config_destroy(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_offload_that_fits), cmocka_unit_test(an_offload_that_is_given),
        cmocka_unit_test(the_least_share_that_fits),   cmocka_unit_test(the_share_that_costs_no_time),
        cmocka_unit_test(when_the_offload_is_open),    cmocka_unit_test(the_offload_that_would_fit),
        cmocka_unit_test(checkpoints_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
