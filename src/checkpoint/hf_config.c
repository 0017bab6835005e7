/* config.json of a Hugging Face directory of any family: its type, numbers and booleans. */
#include "base/file/folder.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

zr_status zr__hf_config_open(const char *dir, zr__hf_config *config)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    zr_status st = ZR_OK;
    ZR_TRY(zr__path_of_input(path, dir, "config.json"));
    ZR_TRY_GOTO(st, zr__json_read_file(path, &text, &bytes), done);
    ZR_TRY_GOTO(st, zr__json_parse(text, bytes, path, &config->root), done);
    zr__text_escape(path, config->file, sizeof(config->file));
done:
    zr_free(text);
    /* Fail with ZR_ERR_DATA, because a model's config.json counts as data. ZR_ERR_CONFIG is for a run's CONFIG.json. */
    return st == ZR_ERR_CONFIG ? ZR_FAIL(ZR_ERR_DATA, "%s", zr_error_message()) : st;
}

void zr__hf_config_close(zr__hf_config *config)
{
    json_decref(config->root);
    config->root = NULL;
}

/** Print the names as "a", "b" or "c". Return `text`. */
static const char *any_of(const char *const *name, int n, char text[ZR_HF_SHOWN_BYTES])
{
    size_t used = 0;
    for (int i = 0; i < n && used < ZR_HF_SHOWN_BYTES; i++) {
        const char *between = i == 0 ? "" : i + 1 < n ? ", " : " or ";
        used += (size_t)snprintf(text + used, ZR_HF_SHOWN_BYTES - used, "%s\"%s\"", between, name[i]);
    }
    return text;
}

zr_status zr__hf_config_type(const zr__hf_config *config, const char *const *known, int n, int *which)
{
    char wanted[ZR_HF_SHOWN_BYTES] = "";
    const json_t *type = json_object_get(config->root, "model_type");
    const char *name = json_string_value(type);
    for (*which = 0; name && *which < n; (*which)++)
        if (strcmp(name, known[*which]) == 0) return ZR_OK;
    return ZR_FAIL(ZR_ERR_DATA, "%s: unsupported architecture: model_type is %s; expected %s", config->file,
                   ZR_JSON_SHOWN(type), any_of(known, n, wanted));
}

zr_status zr__hf_model_type(const char *dir, const char *const *known, int n, int *which)
{
    zr__hf_config config;
    ZR_TRY(zr__hf_config_open(dir, &config));
    zr_status st = zr__hf_config_type(&config, known, n, which);
    zr__hf_config_close(&config);
    return st;
}

zr_status zr__hf_config_numbers(const zr__hf_config *config, const zr__hf_numbers *numbers, void *out)
{
    for (int i = 0; i < numbers->integers; i++) {
        const zr__hf_integer *field = &numbers->integer[i];
        const json_t *value = json_object_get(config->root, field->key);
        int64_t number = value ? json_integer_value(value) : field->fallback;
        ZR_CHECK((!value || json_is_integer(value)) && number >= 1 && number <= INT32_MAX, ZR_ERR_DATA,
                 "%s: %s is %s; expected an integer from 1 to 2147483647", config->file, field->key,
                 ZR_JSON_SHOWN(value));
        memcpy((char *)out + field->place, &number, sizeof(number));
    }
    for (int i = 0; i < numbers->reals; i++) {
        const zr__hf_real *field = &numbers->real[i];
        const json_t *value = json_object_get(config->root, field->key);
        double number = value ? json_number_value(value) : field->fallback;
        ZR_CHECK((!value || json_is_number(value)) && number >= field->low && number < field->high, ZR_ERR_DATA,
                 "%s: %s is %s; expected a number x with %g <= x < %g", config->file, field->key, ZR_JSON_SHOWN(value),
                 field->low, field->high);
        memcpy((char *)out + field->place, &number, sizeof(number));
    }
    return ZR_OK;
}

zr_status zr__hf_config_bool(const zr__hf_config *config, const char *model, const char *key, bool wanted)
{
    const json_t *value = json_object_get(config->root, key);
    ZR_CHECK(!value || (wanted ? json_is_true(value) : json_is_false(value)), ZR_ERR_DATA,
             "%s: unsupported architecture: %s is %s; zr computes %s only with %s", config->file, key,
             ZR_JSON_SHOWN(value), model, wanted ? "true" : "false");
    return ZR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Return the double at offset `place` of a family's struct. */
static double real_at(const void *in, size_t place)
{
    double number;
    memcpy(&number, (const char *)in + place, sizeof(number));
    return number;
}

int zr__hf_set_integers(json_t *root, const zr__hf_numbers *numbers, const void *in)
{
    int failed = 0;
    for (int i = 0; i < numbers->integers; i++) {
        int64_t number;
        memcpy(&number, (const char *)in + numbers->integer[i].place, sizeof(number));
        failed |= json_object_set_new(root, numbers->integer[i].key, json_integer(number));
    }
    return failed;
}

int zr__hf_set_reals(json_t *root, const zr__hf_numbers *numbers, const void *in)
{
    int failed = 0;
    for (int i = 0; i < numbers->reals; i++)
        failed |= json_object_set_new(root, numbers->real[i].key, json_real(real_at(in, numbers->real[i].place)));
    return failed;
}

/** Return the number of digits, 15 to 17, with which every real number reads back as the same number. */
static size_t digits_for(const zr__hf_numbers *numbers, const void *in)
{
    size_t digits = 15;
    for (int i = 0; i < numbers->reals; i++) {
        const double number = real_at(in, numbers->real[i].place);
        char text[ZR_NUMBER_BYTES];
        do snprintf(text, sizeof(text), "%.*g", (int)digits, number);
        while (strtod(text, NULL) != number && digits++ < 17);
    }
    return digits < 17 ? digits : 17;
}

zr_status zr__hf_config_write(const char *dir, const json_t *root, const zr__hf_numbers *numbers, const void *in)
{
    char path[PATH_MAX];
    ZR_TRY(zr__path_join(path, dir, "config.json"));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(digits_for(numbers, in)));
    ZR_CHECK(text, ZR_ERR_MEMORY, "no memory for the text of config.json");
    zr_status st = zr__file_put(path, text, (int64_t)strlen(text));
    free(text); /* jansson allocated the text, so zr_free cannot free it */
    return st;
}
