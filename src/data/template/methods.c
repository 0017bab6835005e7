/* Methods of strings and dicts. */
#include "data/template/values.h"

#include "base/text/text.h"

#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

/* Take an argument that is a string; *string does not change if it is missing or none. */
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

/* ---- strings --------------------------------------------------------------------------------- */

static zr_status strip(zr__run *r, const zr__call *c, bool left, bool right, zr__value *out)
{
    const zr__string *set = NULL;
    ZR_TRY(take_string(r, &c->slot[0], &set));
    return zr__string_strip(r, c->self.string, set, left, right, out);
}

static zr_status call_strip(zr__run *r, const zr__call *c, zr__value *out)
{
    return strip(r, c, true, true, out);
}

static zr_status call_lstrip(zr__run *r, const zr__call *c, zr__value *out)
{
    return strip(r, c, true, false, out);
}

static zr_status call_rstrip(zr__run *r, const zr__call *c, zr__value *out)
{
    return strip(r, c, false, true, out);
}

static zr_status split(zr__run *r, const zr__call *c, bool from_right, zr__value *out)
{
    const zr__string *by = NULL;
    int64_t most = -1;
    ZR_TRY(take_string(r, &c->slot[0], &by));
    ZR_TRY(take_whole(r, &c->slot[1], &most));
    return zr__string_split(r, c->self.string, by, most, from_right, out);
}

static zr_status call_split(zr__run *r, const zr__call *c, zr__value *out)
{
    return split(r, c, false, out);
}

static zr_status call_rsplit(zr__run *r, const zr__call *c, zr__value *out)
{
    return split(r, c, true, out);
}

/* Return whether a string has another one at one end. */
static bool has_at(const zr__string *s, const zr__string *part, bool end)
{
    return s->bytes >= part->bytes && (part->bytes == 0 || memcmp(s->text + (end ? s->bytes - part->bytes : 0),
                                                                  part->text, (size_t)part->bytes) == 0);
}

/* Find out whether a string has another one, or one of a tuple, at one end. */
static zr_status has_affix(zr__run *r, const zr__call *c, bool end, zr__value *out)
{
    const zr__value *what = &c->slot[0];
    const bool tuple = what->kind == ZR__LIST && what->list->kind == ZR__A_TUPLE;
    *out = zr__bool(false);
    for (int64_t i = 0; i < (tuple ? what->list->n : 1) && !out->truth; i++) {
        const zr__value *one = tuple ? &what->list->item[i] : what;
        if (one->kind != ZR__STRING)
            return zr__run_bad(r, "%s() needs a text, not a %s", end ? "endswith" : "startswith", zr__type_name(one));
        out->truth = has_at(c->self.string, one->string, end);
    }
    return ZR_OK;
}

static zr_status call_startswith(zr__run *r, const zr__call *c, zr__value *out)
{
    return has_affix(r, c, false, out);
}

static zr_status call_endswith(zr__run *r, const zr__call *c, zr__value *out)
{
    return has_affix(r, c, true, out);
}

static zr_status remove_affix(zr__run *r, const zr__call *c, bool end, zr__value *out)
{
    const zr__string *s = c->self.string, *part = NULL;
    ZR_TRY(take_string(r, &c->slot[0], &part));
    if (!part) return zr__run_bad(r, "the argument is none; expected a text");
    const int64_t less = has_at(s, part, end) ? part->bytes : 0;
    return zr__string_slice(r, s, end ? 0 : less, s->bytes - (end ? less : 0), out);
}

static zr_status call_removeprefix(zr__run *r, const zr__call *c, zr__value *out)
{
    return remove_affix(r, c, false, out);
}

static zr_status call_removesuffix(zr__run *r, const zr__call *c, zr__value *out)
{
    return remove_affix(r, c, true, out);
}

static zr_status call_upper(zr__run *r, const zr__call *c, zr__value *out)
{
    return zr__string_case(r, c->self.string, 'u', 'u', NULL, out);
}

static zr_status call_lower(zr__run *r, const zr__call *c, zr__value *out)
{
    return zr__string_case(r, c->self.string, 'l', 'l', NULL, out);
}

static zr_status call_capitalize(zr__run *r, const zr__call *c, zr__value *out)
{
    return zr__string_case(r, c->self.string, 'u', 'l', NULL, out);
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

static zr_status call_find(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__string *s = c->self.string, *what = NULL;
    ZR_TRY(take_string(r, &c->slot[0], &what));
    if (!what) return zr__run_bad(r, "find() needs a text");
    ZR_TRY(zr__run_work(r, s->bytes / 64));
    const int64_t at = zr__string_find(s, what, 0);
    *out = zr__int(at < 0 ? -1 : zr__string_length(&(zr__string){.text = s->text, .bytes = at}));
    return ZR_OK;
}

static zr_status call_count(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__string *s = c->self.string, *what = NULL;
    ZR_TRY(take_string(r, &c->slot[0], &what));
    if (!what) return zr__run_bad(r, "count() needs a text");
    ZR_TRY(zr__run_work(r, s->bytes / 64));
    *out = zr__int(what->bytes == 0 ? zr__string_length(s) + 1 : 0);
    for (int64_t at = 0; what->bytes > 0 && (at = zr__string_find(s, what, at)) >= 0; at += what->bytes) out->number++;
    return ZR_OK;
}

/* ---- dicts ----------------------------------------------------------------------------------- */

static zr_status list_pairs(zr__run *r, const zr__dict *dict, bool keys, bool values, zr__value *out)
{
    zr__value one;
    ZR_TRY(zr__list_make(r, ZR__A_VIEW, dict->n, out));
    for (int64_t i = 0; i < dict->n; i++) {
        one = keys ? dict->pair[i].key : dict->pair[i].value;
        if (keys && values) ZR_TRY(zr__tuple_of(r, dict->pair[i].key, dict->pair[i].value, &one));
        ZR_TRY(zr__list_append(r, out->list, one));
    }
    return ZR_OK;
}

static zr_status call_items(zr__run *r, const zr__call *c, zr__value *out)
{
    return list_pairs(r, c->self.dict, true, true, out);
}

static zr_status call_keys(zr__run *r, const zr__call *c, zr__value *out)
{
    return list_pairs(r, c->self.dict, true, false, out);
}

static zr_status call_values(zr__run *r, const zr__call *c, zr__value *out)
{
    return list_pairs(r, c->self.dict, false, true, out);
}

static zr_status call_get(zr__run *r, const zr__call *c, zr__value *out)
{
    ZR_TRY(zr__run_work(r, c->self.dict->n / 8));
    const zr__value *value = zr__dict_get(c->self.dict, &c->slot[0]);
    *out = value ? *value : c->slot[1].kind != ZR__MISSING ? c->slot[1] : zr__none();
    return ZR_OK;
}

const zr__function zr__methods[] = {{ZR__STRING_METHOD, "strip", "chars", 0, call_strip},
                                    {ZR__STRING_METHOD, "lstrip", "chars", 0, call_lstrip},
                                    {ZR__STRING_METHOD, "rstrip", "chars", 0, call_rstrip},
                                    {ZR__STRING_METHOD, "split", "sep maxsplit", 0, call_split},
                                    {ZR__STRING_METHOD, "rsplit", "sep maxsplit", 0, call_rsplit},
                                    {ZR__STRING_METHOD, "startswith", "prefix", 1, call_startswith},
                                    {ZR__STRING_METHOD, "endswith", "suffix", 1, call_endswith},
                                    {ZR__STRING_METHOD, "removeprefix", "prefix", 1, call_removeprefix},
                                    {ZR__STRING_METHOD, "removesuffix", "suffix", 1, call_removesuffix},
                                    {ZR__STRING_METHOD, "upper", "", 0, call_upper},
                                    {ZR__STRING_METHOD, "lower", "", 0, call_lower},
                                    {ZR__STRING_METHOD, "capitalize", "", 0, call_capitalize},
                                    {ZR__STRING_METHOD, "replace", "old new count", 2, call_replace},
                                    {ZR__STRING_METHOD, "join", "iterable", 1, call_join},
                                    {ZR__STRING_METHOD, "find", "what", 1, call_find},
                                    {ZR__STRING_METHOD, "count", "what", 1, call_count},
                                    {ZR__DICT_METHOD, "items", "", 0, call_items},
                                    {ZR__DICT_METHOD, "keys", "", 0, call_keys},
                                    {ZR__DICT_METHOD, "values", "", 0, call_values},
                                    {ZR__DICT_METHOD, "get", "key default", 1, call_get},
                                    {0}};
