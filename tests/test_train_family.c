//TEST timeout=60
/* The table of model families: no row leaves a function out, configurations can name each row, each family accepts all
 * its shapes, and a model comes back from the directory it is written to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tempdir.h"
#include "train/family/family.h"
#include "zr/run.h"

static const zr__family *const *table;
static int families;

static int get_table(void **state)
{
    table = zr__families(&families);
    return tempdir_make(state);
}

/* Check that every field of a row is set, also fields added later; a row consists of pointers only. */
static void test_rows_are_complete(void **state)
{
    (void)state;
    const void *const nothing = NULL;
    assert_true(families > 0);
    assert_int_equal(sizeof(zr__family) % sizeof(nothing), 0);
    for (int f = 0; f < families; f++)
        for (size_t at = 0; at < sizeof(zr__family); at += sizeof(nothing))
            if (memcmp((const char *)table[f] + at, &nothing, sizeof(nothing)) == 0)
                fail_msg("family %d: nothing at byte %zu of its row", f, at);
}

static void test_configurations_name_the_rows(void **state)
{
    (void)state;
    char names[256] = "";
    int n;
    const zr_key *key = zr_config_keys(&n);
    while (strcmp(key->path, "model.type") != 0) key++;
    for (int f = 0; f < families; f++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", f ? "|" : "", table[f]->name);
    assert_string_equal(key->built, names);
}

static void test_shapes_pass_their_check(void **state)
{
    (void)state;
    int i = 0;
    for (int f = 0; f < families; f++) {
        for (const char *const *name = table[f]->presets(); *name; name++, i++) {
            zr__family_model model;
            assert_string_equal(zr__family_preset_name(i), *name);
            if (zr__family_find_preset(*name, &model) != ZR_OK) fail_msg("%s: %s", *name, zr_error_message());
            assert_ptr_equal(model.family, table[f]);
            if (table[f]->check(&model.numbers) != ZR_OK) fail_msg("%s: %s", *name, zr_error_message());
            const zr_config_sizes *s = &model.sizes;
            assert_true(s->n_layer > 0 && s->n_head > 0 && s->n_embd > 0 && s->n_positions > 0 && s->vocab_size > 0);
            assert_string_equal(zr__family_builder(&model).name, table[f]->name);
        }
    }
    assert_null(zr__family_preset_name(i));
    zr__family_model none;
    assert_int_equal(zr__family_find_preset("no such shape", &none), ZR_ERR_NOT_FOUND);
}

/* Return the model of a configuration whose numbers differ from every family's defaults. */
static zr__family_model small(const zr__family *family)
{
    char type[64];
    const char *const text = "{\"model\": {\"n_layer\": 2, \"n_head\": 4, \"n_embd\": 64, \"n_positions\": 32,"
                             " \"vocab_size\": 300, \"layer_norm_epsilon\": 1e-6, \"initializer_range\": 0.5}}";
    const char *const override = type;
    zr_config *config = NULL;
    zr__family_model model;
    snprintf(type, sizeof(type), "model.type=%s", family->name);
    if (zr_config_parse(text, strlen(text), "c.json", &override, 1, &config) != ZR_OK ||
        zr_train_prepare(config, 1, 0) != ZR_OK || zr__train_model(config, &model) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_config_destroy(&config);
    return model;
}

static void test_a_directory_gives_the_model_back(void **state)
{
    (void)state;
    for (int f = 0; f < families; f++) {
        const zr__family_model wrote = small(table[f]);
        const zr__family *found = NULL;
        zr__family_model model;
        assert_ptr_equal(wrote.family, table[f]);
        assert_int_equal(table[f]->write(tempdir, &wrote.numbers), ZR_OK);
        assert_int_equal(zr__family_of_dir(tempdir, &found), ZR_OK);
        assert_ptr_equal(found, table[f]);
        assert_int_equal(zr__family_read(found, tempdir, &model), ZR_OK);
        assert_memory_equal(&model.sizes, &wrote.sizes, sizeof(wrote.sizes));
        assert_memory_equal(&model.numbers, &wrote.numbers, sizeof(wrote.numbers));
    }
}

/* Check that a directory of no known family, and sizes that the family's check refuses, are refused. */
static void test_other_directories_are_refused(void **state)
{
    (void)state;
    const char *const other = "{\"model_type\": \"bloom\"}";
    const zr__family *found = NULL;
    zr__family_model model = {0};
    put_file("config.json", other, strlen(other));
    assert_int_equal(zr__family_of_dir(tempdir, &found), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "model_type is \"bloom\"; expected \"gpt2\""));
    assert_int_equal(zr__family_of_dir(in_tempdir("nowhere"), &found), ZR_ERR_NOT_FOUND);
    const char *const deep = "{\"model_type\": \"gpt2\", \"n_layer\": 1000000}";
    put_file("config.json", deep, strlen(deep));
    assert_int_equal(zr__family_of_dir(tempdir, &found), ZR_OK);
    assert_int_equal(zr__family_read(found, tempdir, &model), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "/config.json: gpt2: n_layer is 1000000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_complete),
        cmocka_unit_test(test_configurations_name_the_rows),
        cmocka_unit_test(test_shapes_pass_their_check),
        cmocka_unit_test(test_a_directory_gives_the_model_back),
        cmocka_unit_test(test_other_directories_are_refused),
    };
    return cmocka_run_group_tests(tests, get_table, tempdir_remove);
}
