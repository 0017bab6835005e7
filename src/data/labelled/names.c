#include "data/labelled/names.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LABELS = 1 << 20 };

/* Return a label given as a number, or as the text of a number, as in a table; otherwise -1. */
static json_int_t number_of(const json_t *label)
{
    const char *text = json_string_value(label);
    char *end = NULL;
    if (json_is_integer(label)) return json_integer_value(label);
    if (!text || strlen(text) > 9 || *text < '0' || *text > '9') return -1;
    const json_int_t number = strtoll(text, &end, 10);
    return *end ? -1 : number;
}

int32_t zr__label_of(const zr_labelled_args *args, const json_t *label)
{
    const char *name = json_string_value(label);
    for (int64_t i = 0; name && args->label_names && i < args->labels; i++)
        if (strcmp(name, args->label_names[i]) == 0) return (int32_t)i;
    const json_int_t number = number_of(label);
    return number >= 0 && number < args->labels ? (int32_t)number : -1;
}

zr_status zr__label_note(zr__label_names *names, const json_t *label)
{
    const char *name = json_string_value(label);
    const json_int_t number = number_of(label);
    if (number > names->most && number < MOST_LABELS) names->most = number;
    if (!name || number >= 0 || json_object_get(names->seen, name)) return ZR_OK;
    ZR_CHECK(json_object_set_new(names->seen, name, json_true()) == 0, ZR_ERR_MEMORY, "no memory for names of labels");
    return ZR_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

zr_status zr__label_names_sort(zr__label_names *names)
{
    const char *key;
    json_t *value;
    names->n = 0;
    names->name = zr_alloc((json_object_size(names->seen) + 1) * sizeof(*names->name));
    ZR_CHECK(names->name, ZR_ERR_MEMORY, "no memory for %zu names of labels", json_object_size(names->seen));
    json_object_foreach(names->seen, key, value) names->name[names->n++] = key;
    qsort(names->name, (size_t)names->n, sizeof(*names->name), compare);
    return ZR_OK;
}

void zr__label_names_free(zr__label_names *names)
{
    json_decref(names->seen);
    zr_free(names->name);
    *names = (zr__label_names){.seen = NULL};
}
