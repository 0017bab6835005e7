//TEST timeout=60
/* The table of model families: declarations are complete, configurations can name each family, each family accepts all
 * its presets, and a model comes back from the directory it is written to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/config.h"
#include "support/tempdir.h"
#include "train/family/family.h"
#include "zr/run.h"

static void test_declarations_are_complete(void **state)
{
    (void)state;
    const zr_family *family;
    assert_non_null(zr_family_at(0));
    assert_null(zr_family_at(-1));
    for (int f = 0; (family = zr_family_at(f)); f++) {
        if (zr_family_check(family) != ZR_OK) fail_msg("%s", zr_error_message());
        assert_ptr_equal(zr_family_find(family->name), family);
    }
    assert_null(zr_family_find("no such family"));
}

static void test_wrong_declarations_are_refused(void **state)
{
    (void)state;
    const zr_family *gpt2 = zr_family_at(0);
    zr_field field[64];
    int n = 0, heads = -1;
    for (; gpt2->field[n].key && n < 63; n++) {
        field[n] = gpt2->field[n];
        if (strcmp(field[n].key, "n_head") == 0) heads = n;
    }
    field[n] = (zr_field){0};
    const struct {
        zr_field field;
        const char *fault;
    } wrong[] = {
        {{.key = "n_layer", .standard = "1"}, "two fields have the key n_layer"},
        {{.key = "n_head", .type = ZR_FIELD_INT}, "n_head has no default"},
        {{.key = "n_head", .type = ZR_FIELD_INT, .standard = "1"}, "n_head has no help text"},
        {{.key = "n_head", .type = ZR_FIELD_INT, .standard = "1", .help = "h"}, "n_head has no range"},
        {{.key = "n_head", .type = ZR_FIELD_INT, .standard = "1", .help = "h", .max = 2, .offset = 1 << 20},
         "n_head is outside the struct"},
        {{.key = "n_head", .type = ZR_FIELD_INT, .standard = "1", .help = "h", .max = 2, .divides = "x"},
         "n_head divides x, which is no field"},
        {{.key = "n_head", .type = ZR_FIELD_CHOICE, .standard = "1", .help = "h"}, "n_head has no choices"},
        {{.key = "n_head", .type = ZR_FIELD_INT, .standard = "1", .help = "h", .max = 2},
         "no field of type INT and role SHAPE means \"heads\""},
    };
    zr_family copy = *gpt2;
    copy.field = field;
    assert_int_equal(zr_family_check(&copy), ZR_ERR_INTERNAL);
    assert_non_null(strstr(zr_error_message(), "two families have this name"));
    copy.name = NULL;
    assert_int_equal(zr_family_check(&copy), ZR_ERR_INTERNAL);
    copy.name = "copy";
    assert_int_equal(zr_family_check(&copy), ZR_OK);
    copy.samples = (zr_samples)7;
    assert_int_equal(zr_family_check(&copy), ZR_ERR_INTERNAL);
    assert_non_null(strstr(zr_error_message(), "copy: there are no samples 7"));
    copy.samples = ZR_SAMPLES_NEXT;
    assert_true(heads >= 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        field[heads] = wrong[i].field;
        assert_int_equal(zr_family_check(&copy), ZR_ERR_INTERNAL);
        if (!strstr(zr_error_message(), wrong[i].fault)) fail_msg("%s: %s", wrong[i].fault, zr_error_message());
    }
}

static void test_configurations_name_the_families(void **state)
{
    (void)state;
    char names[256] = "";
    zr_key *keys = NULL, *key;
    const zr_family *family;
    assert_int_equal(zr_config_keys(&keys), ZR_OK);
    for (key = keys; strcmp(key->path, "model.type") != 0;) key++;
    for (int f = 0; (family = zr_family_at(f)); f++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", f ? "|" : "", family->name);
    assert_string_equal(key->built, names);
    zr_free(keys);
}

static void test_presets_pass_their_check(void **state)
{
    (void)state;
    const zr_family *family;
    const zr_preset *preset;
    int i = 0;
    for (; (preset = zr_family_preset(i, &family)); i++) {
        zr__family_model model;
        if (zr__family_find_preset(preset->name, &model) != ZR_OK) fail_msg("%s: %s", preset->name, zr_error_message());
        assert_ptr_equal(model.family, family);
        if (family->check(&model.config) != ZR_OK) fail_msg("%s: %s", preset->name, zr_error_message());
        const zr_model_sizes *s = &model.sizes;
        assert_true(s->layers > 0 && s->heads > 0 && s->width > 0 && s->positions > 0 && s->vocabulary > 0);
        assert_string_equal(zr__family_builder(&model).name, family->name);
    }
    assert_true(i > 0);
    zr__family_model none;
    assert_int_equal(zr__family_find_preset("no such shape", &none), ZR_ERR_NOT_FOUND);
}

/* Return a small model of a family, with values of its other fields that differ from the defaults where they can. */
static zr__family_model small(const zr_family *family)
{
    char type[64];
    const char *const text = "{}", *const override = type;
    const zr_model_sizes sizes = {2, 4, 64, 32, 300};
    zr_config *config = NULL;
    zr__family_model model;
    snprintf(type, sizeof(type), "model.type=%s", family->name);
    if (zr_config_parse(text, strlen(text), "c.json", &override, 1, &config) != ZR_OK)
        fail_msg("%s", zr_error_message());
    assert_ptr_equal(config->model.family, family);
    zr__config_resize(config, &sizes);
    for (const zr_field *field = family->field; field->key; field++) {
        const bool dropout = field->role == ZR_FIELD_DROPOUT && field->place != ZR_FIELD_IN_CONFIG;
        const double value = (field->min + field->max) / 2;
        if (dropout || (field->type == ZR_FIELD_REAL && field->role == ZR_FIELD_START))
            memcpy(config->model.config.bytes + field->offset, &value, sizeof(value));
    }
    if (zr_train_prepare(config, 1, 0) != ZR_OK || zr__train_model(config, &model) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_config_destroy(&config);
    return model;
}

static void test_a_directory_gives_the_model_back(void **state)
{
    (void)state;
    const zr_family *family;
    for (int f = 0; (family = zr_family_at(f)); f++) {
        const zr__family_model wrote = small(family);
        zr__family_model model;
        assert_ptr_equal(wrote.family, family);
        assert_int_equal(zr_hf_write(tempdir, family, &wrote.config), ZR_OK);
        if (zr__family_read(tempdir, &model) != ZR_OK) fail_msg("%s", zr_error_message());
        assert_ptr_equal(model.family, family);
        assert_memory_equal(&model.sizes, &wrote.sizes, sizeof(wrote.sizes));
        assert_memory_equal(&model.config, &wrote.config, sizeof(wrote.config));
    }
}

/* Check that a directory of no known family, and sizes that the family's check refuses, are refused. */
static void test_other_directories_are_refused(void **state)
{
    (void)state;
    const char *const other = "{\"model_type\": \"bloom\"}";
    zr__family_model model = {0};
    put_file("config.json", other, strlen(other));
    assert_int_equal(zr__family_read(tempdir, &model), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "model_type is \"bloom\"; expected \"gpt2\""));
    assert_int_equal(zr__family_read(in_tempdir("nowhere"), &model), ZR_ERR_NOT_FOUND);
    const char *const deep = "{\"model_type\": \"gpt2\", \"n_layer\": 1000000}";
    put_file("config.json", deep, strlen(deep));
    assert_int_equal(zr__family_read(tempdir, &model), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "/config.json: gpt2: n_layer is 1000000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declarations_are_complete),        cmocka_unit_test(test_wrong_declarations_are_refused),
        cmocka_unit_test(test_configurations_name_the_families), cmocka_unit_test(test_presets_pass_their_check),
        cmocka_unit_test(test_a_directory_gives_the_model_back), cmocka_unit_test(test_other_directories_are_refused),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
