//TEST timeout=60
/* Offload of a run: which share selects which units, the keys and words of each degree, and the folders on disk. */
#include "train/choose/shares.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "support/tempdir.h"
#include "zr/run.h"

/* ---- shares ------------------------------------------------------------------------------------ */

/* Return the number of last units that the planner takes for a share, which it rounds up to whole units. */
static int taken(const units *u, double share)
{
    int n = 0;
    while ((double)u->elems[n] < share * (double)u->elems[u->n]) n++;
    return n;
}

/* Check that each share selects as many units as it is to, if all units are equal and if they are not. */
static void shares_select_whole_units(void **state)
{
    (void)state;
    enum { MOST = 64 };
    for (int kind = 0; kind < 3; kind++)
        for (int n = 1; n <= MOST; n++) {
            int64_t elems[MOST + 1] = {0};
            for (int i = 0; i < n; i++)
                elems[i + 1] = elems[i] + (kind == 0 ? 7 : kind == 1 ? 1 + i : 1 + 1000 * (i % 2));
            const units u = {elems, n};
            assert_true(share_of(&u, 0) == 0 && share_of(&u, n) == 1);
            for (int i = 0; i <= n; i++)
                if (taken(&u, share_of(&u, i)) != i)
                    fail_msg("a share of %g takes %d of %d units, not %d", share_of(&u, i), taken(&u, share_of(&u, i)),
                             n, i);
        }
    /* the number has the fewest digits */
    int64_t four[] = {0, 1, 2, 3, 4}, twenty[21];
    for (int i = 0; i <= 20; i++) twenty[i] = i;
    const units few = {four, 4}, many = {twenty, 20};
    assert_true(share_of(&few, 1) == 0.2 && share_of(&few, 2) == 0.5 && share_of(&few, 3) == 0.7);
    assert_true(share_of(&many, 11) == 0.55 && share_of(&many, 12) == 0.6);
}

/* Check that each share that is open is chosen for its own states, and no other. */
static void shares_are_of_their_states(void **state)
{
    (void)state;
    static const char *const names[] = {
        "zero_optimization.offload_param.ratio: auto, set to 1, as rates are not known",
        "zero_optimization.offload_optimizer.ratio: auto, set to 1, as rates are not known"};
    const zr_profile profile = {.facts = {.own_memory = true}};
    const zr__train_target target = {.ranks = 2, .profile = &profile};
    for (int open = 0; open < 4; open++) {
        char text[512];
        zr_config *config = NULL;
        zr__text said = {0};
        snprintf(text, sizeof(text),
                 "{\"model\": {\"n_layer\": 2, \"n_head\": 2, \"n_embd\": 64}, \"zero_optimization\": {\"stage\": 3,"
                 " \"offload_param\": {\"device\": \"cpu\", \"ratio\": %s}, \"offload_optimizer\": {\"device\": "
                 "\"cpu\", \"ratio\": %s}}}",
                 open & 1 ? "\"auto\"" : "0.5", open & 2 ? "\"auto\"" : "0.25");
        if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
            zr_train_prepare(config, 2, 0) != ZR_OK)
            fail_msg("%s", zr_error_message());
        assert_int_equal(zr__train_choose_shares(config, &target, &said), ZR_OK);
        for (int i = 0; i < 2; i++) assert_int_equal(said.data && strstr(said.data, names[i]) != NULL, (open >> i & 1));
        assert_true(config->zero.param.ratio == (open & 1 ? 1 : 0.5));
        assert_true(config->zero.optim.ratio == (open & 2 ? 1 : 0.25));
        zr__text_clear(&said);
        zr_config_destroy(&config);
    }
}

/* ---- words ------------------------------------------------------------------------------------- */

static zr_config *load(const char *members)
{
    char text[1024];
    zr_config *config = NULL;
    snprintf(text, sizeof(text), "{\"zero_optimization\": {\"stage\": 3%s%s}}", *members ? ", " : "", members);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

#define OPTIM(device) "\"offload_optimizer\": {\"device\": \"" device "\"}"
#define PARAM(device) "\"offload_param\": {\"device\": \"" device "\"}"

/* Check the note that an offload to the host moves nothing, which is said only where it is so. */
static void an_offload_to_the_same_memory_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *members, *note;
    } cases[] = {
        {"", ""},
        {OPTIM("cpu"),
         "zero_optimization: offload_optimizer.device cpu moves nothing: ranks compute in the host's memory"},
        {PARAM("cpu"), "zero_optimization: offload_param.device cpu moves nothing"},
        {OPTIM("cpu") ", " PARAM("cpu"),
         "zero_optimization: offload_optimizer.device and offload_param.device cpu moves nothing"},
        {OPTIM("none"), ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char note[ZR_OFFLOAD_NOTE_BYTES] = "?";
        zr_config *c = load(cases[i].members);
        zr__train_offload_note(c, &(zr_device_facts){.own_memory = true}, note);
        assert_string_equal(note, "");
        zr__train_offload_note(c, &(zr_device_facts){.own_memory = false}, note);
        if (!*cases[i].note) assert_string_equal(note, "");
        if (strncmp(note, cases[i].note, strlen(cases[i].note)) != 0) fail_msg("%s", note);
        zr_config_destroy(&c);
    }
}

static void degrees_have_keys(void **state)
{
    (void)state;
    static const char *const keys[][2] = {
        {"", ""},
        {"zero_optimization.offload_optimizer.device cpu with gradients false",
         "zero_optimization.offload_optimizer.device nvme with gradients false"},
        {"zero_optimization.offload_optimizer.device cpu", "zero_optimization.offload_optimizer.device nvme"},
        {"zero_optimization.offload_optimizer.device and offload_param.device cpu",
         "zero_optimization.offload_optimizer.device and offload_param.device nvme"},
    };
    for (int o = ZR__OFFLOAD_NONE; o < ZR__OFFLOADS; o++)
        for (int disk = 0; disk < 2; disk++) {
            const zr_config_home device = disk ? ZR_HOME_NVME : ZR_HOME_CPU;
            const bool kept = o >= ZR__OFFLOAD_CHECKPOINTS;
            const int states = o % ZR__OFFLOAD_CHECKPOINTS;
            char text[ZR_OFFLOAD_KEYS_BYTES], want[ZR_OFFLOAD_KEYS_BYTES];
            zr_config *c = load("");
            zr__train_set_offload(c, (zr__offload)o, device, 0);
            assert_int_equal(c->zero.optim.device, states >= ZR__OFFLOAD_OPTIM ? device : ZR_HOME_NONE);
            /* without an offload of the optimizer, the key stays as it is */
            assert_int_equal(c->zero.offload_gradients, states != ZR__OFFLOAD_OPTIM);
            assert_int_equal(c->zero.param.device, states >= ZR__OFFLOAD_PARAM ? device : ZR_HOME_NONE);
            if (kept) assert_int_equal(c->recompute.offload, disk ? ZR_OFFLOAD_DISK : ZR_OFFLOAD_HOST);
            assert_int_equal(zr__train_offload_states((zr__offload)o), states);
            snprintf(want, sizeof(want), "%s%s%s", keys[states][disk], states && kept ? " and " : "",
                     !kept  ? ""
                     : disk ? "activation_checkpointing.offload disk"
                            : "activation_checkpointing.offload host");
            assert_string_equal(zr__train_offload_keys((zr__offload)o, device, 0, text), want);
            zr_config_destroy(&c);
        }
    static const struct {
        const char *members;
        bool open;
    } cases[] = {{"", true}, {OPTIM("none"), false}, {PARAM("none"), false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zr_config *c = load(cases[i].members);
        assert_int_equal(zr__train_offload_open(c), cases[i].open);
        assert_int_equal(zr__train_offload_degrees(c), ZR__OFFLOADS);
        assert_int_equal(zr_config_set(c, "activation_checkpointing.offload", "none"), ZR_OK);
        zr_config_destroy(&c);
    }
}

/* Check the words of a plan: which states are where, and only those that there are. */
static void states_are_named_by_their_place(void **state)
{
    (void)state;
    zr_memory memory = {0};
    zr_homes home = {.optim = ZR_SPACE_HOST, .grad = ZR_SPACE_HOST, .param = ZR_SPACE_DISK};
    char words[ZR_OFFLOAD_NOTE_BYTES];
    zr__train_offload_words(&home, &memory, words);
    assert_string_equal(words, "");
    memory.space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_OPTIM] = 1;
    zr__train_offload_words(&home, &memory, words);
    assert_string_equal(words, "optimizer states in the host's memory");
    memory.space[ZR_SPACE_HOST].category_bytes[ZR_CATEGORY_GRAD] = 1;
    memory.space[ZR_SPACE_DISK].category_bytes[ZR_CATEGORY_PARAM] = 1;
    memory.space[ZR_SPACE_DISK].category_bytes[ZR_CATEGORY_CHECKPOINT] = 1;
    zr__train_offload_words(&home, &memory, words);
    assert_string_equal(words,
                        "optimizer states, gradients in the host's memory; parameters, activation checkpoints on disk");
}

/* ---- folders ----------------------------------------------------------------------------------- */

static void refuse(const char *members, zr_status status, const char *part)
{
    zr__folders folders;
    zr_config *c = load(members);
    const zr_status st = zr__train_folders(c, &folders);
    if (st != status || !strstr(zr_error_message(), part)) fail_msg("%s: %d %s", part, (int)st, zr_error_message());
    zr__folders_free(&folders);
    zr_config_destroy(&c);
}

#define AT(kind, path) "\"" kind "\": {\"device\": \"nvme\"" path "}"

static void folders_are_checked(void **state)
{
    (void)state;
    char members[512];
    zr__folders folders;
    put_file("file", "x", 1);
    (void)mkdir(in_tempdir("a"), 0777);
    (void)mkdir(in_tempdir("b"), 0777);
    zr_config *c = load("");
    assert_int_equal(zr__train_folders(c, &folders), ZR_OK);
    assert_true(folders.n == 0 && zr__folders_free_bytes(&folders) == 0);
    zr__folders_free(&folders);
    zr_config_destroy(&c);
    c = load("");
    c->zero.param.device = ZR_HOME_NVME; /* as a choice may set it */
    assert_int_equal(zr__train_folders(c, &folders), ZR_ERR_CONFIG);
    assert_string_equal(zr_error_message(),
                        "zero_optimization.offload_param.nvme_path: not given, but a device is nvme; "
                        "name a folder on a fast local disk");
    zr__folders_free(&folders);
    c->zero.param.device = ZR_HOME_NONE;
    c->recompute.offload = ZR_OFFLOAD_DISK;
    assert_int_equal(zr__train_folders(c, &folders), ZR_ERR_CONFIG);
    assert_non_null(strstr(zr_error_message(), "not given, but activation_checkpointing.offload is disk"));
    zr__folders_free(&folders);
    zr_config_destroy(&c);
    snprintf(members, sizeof(members), AT("offload_optimizer", ", \"nvme_path\": \"%s/missing\""), tempdir);
    refuse(members, ZR_ERR_CREATE, "zero_optimization.offload_optimizer.nvme_path: /tmp/");
    refuse(members, ZR_ERR_CREATE, "/missing: No such file or directory; make the folder");
    snprintf(members, sizeof(members), AT("offload_optimizer", ", \"nvme_path\": \"%s/file\""), tempdir);
    refuse(members, ZR_ERR_CREATE, "/file is not a folder");
    snprintf(members, sizeof(members), AT("offload_param", ", \"nvme_path\": \"%s/missing\""), tempdir);
    refuse(members, ZR_ERR_CREATE, "zero_optimization.offload_param.nvme_path: /tmp/");

    /* the optimizer's folders hold all states; without them the parameters' do */
    snprintf(members, sizeof(members),
             AT("offload_optimizer", ", \"nvme_path\": [\"%s/a\", \"%s/b\"]") ", " PARAM("nvme"), tempdir, tempdir);
    c = load(members);
    assert_int_equal(zr__train_folders(c, &folders), ZR_OK);
    assert_int_equal(folders.n, 2);
    assert_string_equal(folders.path[0], in_tempdir("a"));
    assert_string_equal(folders.path[1], in_tempdir("b"));
    const int64_t two = zr__folders_free_bytes(&folders);
    zr__folders_free(&folders);
    zr_config_destroy(&c);
    snprintf(members, sizeof(members), AT("offload_param", ", \"nvme_path\": \"%s/b\""), tempdir);
    c = load(members);
    assert_int_equal(zr__train_folders(c, &folders), ZR_OK);
    assert_int_equal(folders.n, 1);
    assert_string_equal(folders.path[0], in_tempdir("b"));
    const int64_t one = zr__folders_free_bytes(&folders);
    assert_true(one > 0 && two > one); /* each folder holds an equal part */
    assert_in_range(two / 2, one / 2, 2 * one);
    zr__folders_free(&folders);
    zr_config_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_select_whole_units),
        cmocka_unit_test(shares_are_of_their_states),
        cmocka_unit_test(an_offload_to_the_same_memory_is_said),
        cmocka_unit_test(degrees_have_keys),
        cmocka_unit_test(states_are_named_by_their_place),
        cmocka_unit_test(folders_are_checked),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
