//TEST timeout=60
/* Hugging Face directories whose config.json or index is randomly damaged: a file that is accepted has values that zr
 * can compute with, and any other is refused as bad data, with the file's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "checkpoint/checkpoint.h"
#include "support/hf_gpt2.h"
#include "support/golden.h"
#include "support/mutate_bytes.h"
#include "support/tempdir.h"
#include "zr/checkpoint.h"

enum { ROUNDS = 1000, ROOM = 8192 };

static size_t read_golden(const char *name, uint8_t *bytes, size_t room)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/model/%s", golden_own(), name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no %s: set ZR_SOURCE to the source tree", path);
    size_t n = fread(bytes, 1, room, file);
    fclose(file);
    return n;
}

static void refused(zr_status st, const char *name)
{
    if (st != ZR_ERR_DATA || !strstr(zr_error_message(), name)) fail_msg("%d: %s", st, zr_error_message());
}

/* Check that an accepted configuration is a valid GPT-2. */
static void check_config(const zr_gpt2_config *c)
{
    assert_in_range(c->n_layer, 1, INT32_MAX);
    assert_in_range(c->n_positions, 1, INT32_MAX);
    assert_in_range(c->vocab_size, 1, INT32_MAX);
    assert_in_range(c->n_head, 1, c->n_embd);
    assert_int_equal(c->n_embd % c->n_head, 0);
    assert_true(c->layer_norm_epsilon > 0 && c->layer_norm_epsilon < 1);
    assert_true(c->embd_pdrop >= 0 && c->embd_pdrop < 1 && c->attn_pdrop >= 0 && c->attn_pdrop < 1);
}

static void damaged_configs(void **state)
{
    (void)state;
    uint8_t good[ROOM], bytes[ROOM];
    mutator m = mutator_make(1);
    int read = 0;
    size_t n = read_golden("config.json", good, ROOM);
    mkdir(in_tempdir("hf"), 0777);
    for (int round = 0; round < ROUNDS; round++) {
        zr_gpt2_config c = {0};
        memcpy(bytes, good, n);
        put_file("hf/config.json", bytes, round ? mutate_bytes(&m, bytes, n, ROOM) : n);
        zr_status st = hf_gpt2_read(in_tempdir("hf"), &c);
        if (round == 0) assert_int_equal(st, ZR_OK);
        if (st != ZR_OK) {
            refused(st, "config.json");
            continue;
        }
        check_config(&c);
        read++;
    }
    assert_in_range(read, 10, ROUNDS);
}

/* Damage the index of two files. */
static void damaged_indices(void **state)
{
    (void)state;
    static const char index[] = "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {\"a\": \"1.safetensors\", "
                                "\"b\": \"2.safetensors\"}}";
    const zr__tensor_spec a = {"a", {1, {2}}}, b = {"b", {2, {2, 2}}};
    uint8_t bytes[ROOM];
    mutator m = mutator_make(2);
    int read = 0;
    mkdir(in_tempdir("set"), 0777);
    assert_int_equal(zr__safetensors_create(in_tempdir("set/1.safetensors"), NULL, &a, 1), ZR_OK);
    assert_int_equal(zr__safetensors_create(in_tempdir("set/2.safetensors"), NULL, &b, 1), ZR_OK);
    for (int round = 0; round < ROUNDS; round++) {
        zr_weights *weights = NULL;
        size_t n = sizeof index - 1;
        memcpy(bytes, index, n);
        put_file("set/model.safetensors.index.json", bytes, round ? mutate_bytes(&m, bytes, n, ROOM) : n);
        zr_status st = zr_weights_open(in_tempdir("set"), hf_gpt2_names(), &weights);
        if (round == 0) assert_int_equal(st, ZR_OK);
        if (st == ZR_OK) {
            read++;
            float value[2];
            zr_status found = zr_weights_read(weights, "a", 0, 2, value);
            assert_true(found == ZR_OK || found == ZR_ERR_DATA);
            zr_weights_close(&weights);
            continue;
        }
        assert_null(weights);
        /* A damaged index may name a file that does not exist. */
        if (st != ZR_ERR_NOT_FOUND) refused(st, "index.json");
    }
    assert_in_range(read, 10, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_configs), cmocka_unit_test(damaged_indices)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
