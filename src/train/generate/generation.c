/* Settings for text generation in a Hugging Face directory: the tokens that end a text, and how to draw tokens. */
#include "train/generate/generate.h"

#include "base/file/folder.h"
#include "base/json/json.h"

#include <math.h>
#include <string.h>

static const char settings_name[] = "generation_config.json";

void zr__ends_add(zr__ends *ends, int32_t token)
{
    for (int i = 0; i < ends->n; i++)
        if (ends->token[i] == token) return;
    if (token >= 0 && ends->n <= ZR_IDS_MOST) ends->token[ends->n++] = token;
}

/* Read a JSON object of a directory. *root receives NULL if the file does not exist. */
static zr_status read_object(const char *dir, const char *name, char path[PATH_MAX], json_t **root)
{
    *root = NULL;
    ZR_TRY(zr__path_join(path, dir, name));
    return zr__path_is_in(dir, name) ? zr__json_load_data(path, root) : ZR_OK;
}

/* Add a token that ends a text. The number -1 stands for no token. */
static zr_status add_end(zr__ends *ends, const json_t *value, const char *path)
{
    const json_int_t token = json_integer_value(value);
    ZR_CHECK(json_is_integer(value) && token >= -1 && token <= INT32_MAX, ZR_ERR_DATA,
             "%s: eos_token_id has %s; expected the number of a token, or a list of numbers", ZR_SHOWN(path),
             ZR_JSON_SHOWN(value));
    ZR_CHECK(ends->n < ZR_IDS_MOST, ZR_ERR_DATA, "%s: eos_token_id has more than %d tokens", ZR_SHOWN(path),
             ZR_IDS_MOST);
    zr__ends_add(ends, (int32_t)token);
    return ZR_OK;
}

/* Read eos_token_id from a file. *told receives whether the file has the key. */
static zr_status read_ends(const json_t *root, const char *path, zr__ends *ends, bool *told)
{
    const json_t *value = json_object_get(root, "eos_token_id"), *one;
    size_t i;
    *told = value && !json_is_null(value);
    if (!*told) return ZR_OK;
    if (!json_is_array(value)) return add_end(ends, value, path);
    json_array_foreach(value, i, one) ZR_TRY(add_end(ends, one, path));
    return ZR_OK;
}

static zr_status ends_in(const char *dir, const char *name, zr__ends *ends, bool *told)
{
    char path[PATH_MAX];
    json_auto_t *root = NULL;
    *told = false;
    ZR_TRY(read_object(dir, name, path, &root));
    return root ? read_ends(root, path, ends, told) : ZR_OK;
}

zr_status zr__ends_find(const zr__loaded *loaded, const char *tokenizer, zr__ends *ends)
{
    bool told = false;
    ends->n = 0;
    ZR_TRY(ends_in(loaded->stored.path, settings_name, ends, &told));
    if (!told && tokenizer && strcmp(tokenizer, "bytes") != 0) ZR_TRY(ends_in(tokenizer, settings_name, ends, &told));
    if (!told) ZR_TRY(ends_in(loaded->stored.path, "config.json", ends, &told));
    return ZR_OK;
}

/* ---- how to draw tokens ---------------------------------------------------------------------- */

/* Read a number between `least` and `most`. If it is missing, use `usual`. */
static zr_status read_number(const json_t *root, const char *path, const char *key, double usual, double most,
                             double *number)
{
    const json_t *value = json_object_get(root, key);
    *number = usual;
    if (!value || json_is_null(value)) return ZR_OK;
    *number = json_number_value(value);
    ZR_CHECK(json_is_number(value) && isfinite(*number) && *number >= 0 && *number <= most, ZR_ERR_DATA,
             "%s: %s is %s; expected a number from 0 to %g", ZR_SHOWN(path), key, ZR_JSON_SHOWN(value), most);
    return ZR_OK;
}

zr_status zr_sampling_of_dir(const char *dir, zr_sampling *sampling)
{
    char path[PATH_MAX];
    zr__stored stored;
    double top_k = 0;
    json_auto_t *root = NULL;
    ZR_CHECK(dir && sampling, ZR_ERR_ARG, "zr_sampling_of_dir was given a NULL pointer");
    ZR_TRY(zr__stored_find(dir, true, &stored));
    ZR_TRY(read_object(stored.path, settings_name, path, &root));
    ZR_CHECK(root, ZR_ERR_NOT_FOUND, "%s does not exist, so the directory has no settings for drawing tokens",
             ZR_SHOWN(path));
    ZR_TRY(read_number(root, path, "temperature", 1, 1e6, &sampling->temperature));
    ZR_TRY(read_number(root, path, "top_p", 1, 1, &sampling->top_p));
    ZR_TRY(read_number(root, path, "top_k", 50, INT32_MAX, &top_k)); /* transformers has the default 50 */
    sampling->top_k = (int64_t)top_k;
    ZR_CHECK(sampling->top_p > 0, ZR_ERR_DATA, "%s: top_p is 0; expected a number above 0 and at most 1",
             ZR_SHOWN(path));
    if (!json_is_true(json_object_get(root, "do_sample"))) *sampling = (zr_sampling){.top_p = 1};
    return ZR_OK;
}
