/* Holds the strings and notes that a configuration owns. Also tells whether the file or an override gave a key. */
#include "config/internal.h"
#include "config/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NOTES = 2 * ZR_CONFIG_MAX_KEYS }; /* enough for one note per key */

static zr__string *new_string(const char *text)
{
    zr__string *string = zr_alloc(sizeof(*string) + strlen(text) + 1);
    if (string) memcpy(string->text, text, strlen(text));
    return string;
}

const char *zr__config_keep(zr_config *config, const char *text)
{
    zr__string *string = new_string(text);
    if (!string) return NULL;
    string->next = config->state->strings;
    config->state->strings = string;
    return string->text;
}

/* Append a string, unless the list contains it already or has `most` strings. The number of strings is limited because
 * a section may have a million keys. */
static zr_status append_once(zr__string **end, const char *text, int most)
{
    int n = 0;
    for (; *end; end = &(*end)->next, n++)
        if (strcmp((*end)->text, text) == 0) return ZR_OK;
    if (n == most) return ZR_OK;
    if (n == MOST_NOTES - 1) text = "there are more notes, which are not shown";
    *end = new_string(text);
    ZR_CHECK(*end, ZR_ERR_MEMORY, "out of memory for a notice");
    return ZR_OK;
}

zr_status zr__config_note(zr_config *config, const char *format, ...)
{
    char text[1024];
    ZR_PRINT_ARGS(text, format);
    return append_once(&config->state->notes, text, MOST_NOTES);
}

zr_status zr__config_unused(zr_config *config, const char *path)
{
    return append_once(&config->state->unused, path, ZR_CONFIG_MAX_KEYS);
}

zr_status zr__config_refuse(const zr_config *config, const char *format, ...)
{
    char text[512];
    ZR_PRINT_ARGS(text, format);
    return ZR_FAIL(ZR_ERR_CONFIG, "%s: %s", config->state->name, text);
}

int zr_config_notes(const zr_config *config)
{
    int n = 0;
    for (const zr__string *note = config->state->notes; note; note = note->next) n++;
    return n;
}

const char *zr_config_note(const zr_config *config, int index)
{
    const zr__string *note = config->state->notes;
    while (note && index-- > 0) note = note->next;
    return note ? note->text : "";
}

static void free_strings(zr__string *string)
{
    while (string) {
        zr__string *next = string->next;
        zr_free(string);
        string = next;
    }
}

void zr_config_destroy(zr_config **config)
{
    if (!*config) return;
    if ((*config)->state) {
        free_strings((*config)->state->strings);
        free_strings((*config)->state->notes);
        free_strings((*config)->state->unused);
        zr__refusals_free(*config);
        zr_free((*config)->state->keys);
        zr_free((*config)->state);
    }
    zr_free(*config);
    *config = NULL;
}

double zr__share_of(const char *text)
{
    json_auto_t *share = text && isdigit((unsigned char)*text) ? zr__json_loads(text, JSON_DECODE_ANY) : NULL;
    return json_number_value(share);
}

double zr__config_val_share(const zr_config *config)
{
    return zr__share_of(config->data.val);
}

void zr__config_inputs(const zr_config *config, const char *path[ZR_CONFIG_INPUTS + 1])
{
    const char *tokenizer = config->data.tokenizer;
    if (tokenizer && strcmp(tokenizer, "bytes") == 0) tokenizer = NULL;
    const char *const all[ZR_CONFIG_INPUTS] = {config->state ? config->state->path : NULL,
                                               config->data.train,
                                               zr__config_val_share(config) > 0 ? NULL : config->data.val,
                                               config->model.init,
                                               config->model.lora_init,
                                               tokenizer};
    int n = 0;
    for (int i = 0; i < ZR_CONFIG_INPUTS; i++)
        if (all[i]) path[n++] = all[i];
    path[n] = NULL;
}

bool zr__config_from_file(const zr_config *config)
{
    return config->state && config->state->path;
}

bool zr__config_given(const zr_config *config, const char *path)
{
    const zr_key *key = zr__key_find(zr__keys_of(config), path);
    return key && zr__origin_of(config, key)->given;
}

bool zr__config_overridden(const zr_config *config, const char *path)
{
    const zr_key *key = zr__key_find(zr__keys_of(config), path);
    return key && zr__origin_of(config, key)->overridden;
}
