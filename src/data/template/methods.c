/* Methods of strings and dicts. */
#include "data/template/values.h"

#include "base/text/text.h"

#include <string.h>

enum { LEFT = 1, RIGHT = 2, KEYS = 1, VALUES = 2 };

/* Take an argument that is a text; *string does not change if it is missing or none. */
static zr_status take_string(zr__run *r, const zr__value *v, const zr__string **string)
{
    if (v->kind == ZR__MISSING || v->kind == ZR__NONE) return ZR_OK;
    if (v->kind != ZR__STRING) return zr__run_bad(r, "the argument is a %s; expected a text", zr__type_name(v));
    *string = v->string;
    return ZR_OK;
}

static zr_status take_whole(zr__run *r, const zr__value *v, int64_t *number)
{
    if (v->kind == ZR__MISSING) return ZR_OK;
    if (v->kind != ZR__INT) return zr__run_bad(r, "the argument is a %s; expected a whole number", zr__type_name(v));
    *number = v->number;
    return ZR_OK;
}

/* strip, lstrip, rstrip */
static zr_status call_strip(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__string *set = NULL;
    ZR_TRY(take_string(r, &c->slot[0], &set));
    return zr__string_strip(r, c->self.string, set, c->variant & LEFT, c->variant & RIGHT, out);
}

static zr_status call_split(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__string *by = NULL;
    int64_t most = -1;
    ZR_TRY(take_string(r, &c->slot[0], &by));
    ZR_TRY(take_whole(r, &c->slot[1], &most));
    return zr__string_split(r, c->self.string, by, most, c->variant == RIGHT, out);
}

/* startswith, endswith: whether a string has another one, or one of a tuple, at one end */
static zr_status call_affix(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__value *what = &c->slot[0];
    const zr__string *s = c->self.string;
    const bool tuple = what->kind == ZR__LIST && what->list->kind == ZR__A_TUPLE;
    *out = zr__bool(false);
    for (int64_t i = 0; i < (tuple ? what->list->n : 1) && !out->truth; i++) {
        const zr__value *one = tuple ? &what->list->item[i] : what;
        if (one->kind != ZR__STRING) return zr__run_bad(r, "the argument is a %s; expected a text", zr__type_name(one));
        ZR_TRY(zr__run_work(r, 1 + one->string->bytes / 64));
        const int64_t n = one->string->bytes, from = c->variant == RIGHT ? s->bytes - n : 0;
        out->truth = n == 0 || (n <= s->bytes && memcmp(s->text + from, one->string->text, (size_t)n) == 0);
    }
    return ZR_OK;
}

static zr_status call_case(zr__run *r, const zr__call *c, zr__value *out)
{
    return zr__string_case(r, c->self.string, (zr__case)c->variant, out);
}

static zr_status call_replace(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__string *old = NULL, *new = NULL;
    int64_t most = -1;
    ZR_TRY(take_string(r, &c->slot[0], &old));
    ZR_TRY(take_string(r, &c->slot[1], &new));
    ZR_TRY(take_whole(r, &c->slot[2], &most));
    if (!old || !new) return zr__run_bad(r, "replace() needs two texts");
    return zr__string_replace(r, c->self.string, old, new, most, out);
}

static zr_status call_join(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__list *items = NULL;
    ZR_TRY(zr__items_of(r, &c->slot[0], &items));
    for (int64_t i = 0; i < items->n; i++)
        if (items->item[i].kind != ZR__STRING)
            return zr__run_bad(r, "join() of a %s; expected texts", zr__type_name(&items->item[i]));
    return zr__string_join(r, c->self.string, items, out);
}

/* items, keys, values */
static zr_status call_items(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__dict *dict = c->self.dict;
    zr__value one;
    ZR_TRY(zr__list_make(r, ZR__A_VIEW, dict->n, out));
    for (int64_t i = 0; i < dict->n; i++) {
        one = c->variant & KEYS ? dict->pair[i].key : dict->pair[i].value;
        if (c->variant == (KEYS | VALUES)) ZR_TRY(zr__tuple_of(r, one, dict->pair[i].value, &one));
        ZR_TRY(zr__list_append(r, out->list, one));
    }
    return ZR_OK;
}

static zr_status call_get(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__value *value = NULL;
    ZR_TRY(zr__dict_get(r, c->self.dict, &c->slot[0], &value));
    *out = value ? *value : c->slot[1].kind != ZR__MISSING ? c->slot[1] : zr__none();
    return ZR_OK;
}

const zr__function zr__methods[] = {{ZR__STRING_METHOD, "strip", "chars", 0, LEFT | RIGHT, call_strip},
                                    {ZR__STRING_METHOD, "lstrip", "chars", 0, LEFT, call_strip},
                                    {ZR__STRING_METHOD, "rstrip", "chars", 0, RIGHT, call_strip},
                                    {ZR__STRING_METHOD, "split", "sep maxsplit", 0, LEFT, call_split},
                                    {ZR__STRING_METHOD, "rsplit", "sep maxsplit", 0, RIGHT, call_split},
                                    {ZR__STRING_METHOD, "startswith", "prefix", 1, LEFT, call_affix},
                                    {ZR__STRING_METHOD, "endswith", "suffix", 1, RIGHT, call_affix},
                                    {ZR__STRING_METHOD, "upper", "", 0, ZR__UPPER_CASE, call_case},
                                    {ZR__STRING_METHOD, "lower", "", 0, ZR__LOWER_CASE, call_case},
                                    {ZR__STRING_METHOD, "capitalize", "", 0, ZR__CAPITALIZED, call_case},
                                    {ZR__STRING_METHOD, "replace", "old new count", 2, 0, call_replace},
                                    {ZR__STRING_METHOD, "join", "iterable", 1, 0, call_join},
                                    {ZR__DICT_METHOD, "items", "", 0, KEYS | VALUES, call_items},
                                    {ZR__DICT_METHOD, "keys", "", 0, KEYS, call_items},
                                    {ZR__DICT_METHOD, "values", "", 0, VALUES, call_items},
                                    {ZR__DICT_METHOD, "get", "key default", 1, 0, call_get},
                                    {0}};
