/* Filters. */
#include "data/template/values.h"

#include "base/text/text.h"

#include <stdlib.h>
#include <string.h>

enum { BY_ATTRIBUTE = 1, REJECTS = 2, MOST_INDENT = 1000 };

static bool given(const zr__value *v)
{
    return v->kind != ZR__MISSING;
}

static bool is_yes(const zr__value *v)
{
    return given(v) && zr__is_true(v);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static zr_status call_trim(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__value text, chars;
    const bool has = given(&c->slot[0]) && c->slot[0].kind != ZR__NONE;
    ZR_TRY(zr__to_string(r, &c->self, &text));
    if (has) ZR_TRY(zr__to_string(r, &c->slot[0], &chars));
    return zr__string_strip(r, text.string, has ? chars.string : NULL, true, true, out);
}

static zr_status call_string(zr__run *r, const zr__call *c, zr__value *out)
{
    return zr__to_string(r, &c->self, out);
}

static zr_status call_safe(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__string *safe = NULL;
    ZR_TRY(zr__to_string(r, &c->self, out));
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*safe), &safe));
    *safe = *out->string;
    safe->safe = true;
    out->string = safe;
    return ZR_OK;
}

static zr_status call_case(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__value text;
    ZR_TRY(zr__to_string(r, &c->self, &text));
    return zr__string_case(r, text.string, (zr__case)c->variant, out);
}

static zr_status call_replace(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__value text, old, new;
    int64_t most = -1;
    ZR_TRY(zr__to_string(r, &c->self, &text));
    ZR_TRY(zr__to_string(r, &c->slot[0], &old));
    ZR_TRY(zr__to_string(r, &c->slot[1], &new));
    if (c->slot[2].kind == ZR__INT) most = c->slot[2].number;
    return zr__string_replace(r, text.string, old.string, new.string, most, out);
}

static zr_status call_tojson(zr__run *r, const zr__call *c, zr__value *out)
{
    static const zr__string comma = {.text = ", ", .bytes = 2}, short_comma = {.text = ",", .bytes = 1},
                            colon = {.text = ": ", .bytes = 2};
    const zr__value *indent = &c->slot[1], *separators = &c->slot[2];
    zr__json_style style = {
        .ascii = is_yes(&c->slot[0]), .sorted = is_yes(&c->slot[3]), .indent = -1, .comma = &comma, .colon = &colon};
    zr__builder b = {0};
    if (given(indent) && indent->kind != ZR__NONE) {
        if (indent->kind != ZR__INT) return zr__run_bad(r, "tojson() needs a whole number as its indent");
        if (indent->number > MOST_INDENT)
            return zr__run_bad(r, "tojson() with an indent of more than %d is not supported", MOST_INDENT);
        style.indent = indent->number < 0 ? 0 : indent->number;
        style.comma = &short_comma;
    }
    if (given(separators) && separators->kind != ZR__NONE) {
        const zr__list *pair = separators->kind == ZR__LIST ? separators->list : NULL;
        if (!pair || pair->n != 2 || pair->item[0].kind != ZR__STRING || pair->item[1].kind != ZR__STRING)
            return zr__run_bad(r, "tojson() needs two texts as separators");
        style.comma = pair->item[0].string;
        style.colon = pair->item[1].string;
    }
    ZR_TRY(zr__print_json(r, &b, &c->self, &style, 0));
    return zr__build_done(r, &b, out);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static zr_status call_length(zr__run *r, const zr__call *c, zr__value *out)
{
    switch (c->self.kind) {
    case ZR__STRING:
        *out = zr__int(zr__string_length(c->self.string));
        return zr__run_work(r, c->self.string->bytes / 16);
    case ZR__DICT:
        *out = zr__int(c->self.dict->n);
        return ZR_OK;
    case ZR__UNDEFINED:
        *out = zr__int(0);
        return ZR_OK;
    case ZR__LIST:
        *out = zr__int(c->self.list->n);
        if (c->self.list->kind != ZR__A_SEQUENCE) return ZR_OK;
        return zr__run_bad(r, "an iterator has no length; use the filter list before length");
    default:
        return zr__run_bad(r, "a %s has no length", zr__type_name(&c->self));
    }
}

/* Read a text as a number. */
static bool read_number(const zr__string *s, bool whole, int64_t *number, double *real)
{
    char text[64], *end = text;
    int64_t from = 0, to = s->bytes;
    while (from < to && strchr(" \t\n\r\f\v", s->text[from])) from++;
    while (to > from && strchr(" \t\n\r\f\v", s->text[to - 1])) to--;
    if (to == from || to - from >= (int64_t)sizeof(text)) return false;
    memcpy(text, s->text + from, (size_t)(to - from));
    text[to - from] = '\0';
    if (strspn(text, whole ? "+-0123456789" : "+-0123456789.eE") != (size_t)(to - from)) return false;
    if (whole && to - from > 18) return false;
    if (whole)
        *number = strtoll(text, &end, 10);
    else
        *real = strtod(text, &end);
    return *end == '\0';
}

static zr_status call_int(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__value usual = given(&c->slot[0]) ? c->slot[0] : zr__int(0);
    double real = 0;
    int64_t number = 0;
    if (given(&c->slot[1])) return zr__run_bad(r, "int() with a base is not supported");
    if (c->self.kind == ZR__UNDEFINED) return zr__run_bad(r, "%s is undefined", ZR_SHOWN(c->self.name));
    if (c->self.kind == ZR__STRING) ZR_TRY(zr__run_work(r, c->self.string->bytes / 16));
    if (c->self.kind == ZR__STRING && read_number(c->self.string, true, &number, &real)) {
        *out = zr__int(number);
        return ZR_OK;
    }
    *out = usual;
    if (c->self.kind == ZR__BOOL || c->self.kind == ZR__INT)
        *out = zr__int(c->self.kind == ZR__INT ? c->self.number : c->self.truth);
    const bool is_real =
        c->self.kind == ZR__REAL || (c->self.kind == ZR__STRING && read_number(c->self.string, false, &number, &real));
    if (!is_real) return ZR_OK;
    if (c->self.kind == ZR__REAL) real = c->self.real;
    if (!(real > -9e18 && real < 9e18)) return zr__run_bad(r, "int() of a number that is too large");
    *out = zr__int((int64_t)real);
    return ZR_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static zr_status call_default(zr__run *r, const zr__call *c, zr__value *out)
{
    const bool missing = c->self.kind == ZR__UNDEFINED || (is_yes(&c->slot[1]) && !zr__is_true(&c->self));
    *out = c->self;
    if (!missing) return ZR_OK;
    *out = c->slot[0];
    return given(out) ? ZR_OK : zr__string_of(r, "", 0, ZR__FROM_TEMPLATE, out);
}

/* Make an iterator over items. */
static zr_status iterate(zr__run *r, const zr__list *items, bool back, zr__list_kind kind, zr__value *out)
{
    ZR_TRY(zr__list_make(r, kind, items->n, out));
    for (int64_t i = 0; i < items->n; i++)
        ZR_TRY(zr__list_append(r, out->list, items->item[back ? items->n - 1 - i : i]));
    return ZR_OK;
}

static zr_status call_list(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__list *items = NULL;
    ZR_TRY(zr__items_of(r, &c->self, &items));
    return iterate(r, items, false, ZR__A_LIST, out);
}

static zr_status call_reverse(zr__run *r, const zr__call *c, zr__value *out)
{
    static const zr__string nothing = {.text = ""};
    zr__list *items = NULL;
    zr__value back;
    ZR_TRY(zr__items_of(r, &c->self, &items));
    if (c->self.kind != ZR__STRING) return iterate(r, items, true, ZR__A_SEQUENCE, out);
    ZR_TRY(iterate(r, items, true, ZR__A_LIST, &back));
    return zr__string_join(r, &nothing, back.list, out);
}

static zr_status call_first(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__list *items = NULL;
    const bool iterator = c->self.kind == ZR__LIST && c->self.list->kind == ZR__A_SEQUENCE;
    if (iterator)
        items = c->self.list;
    else
        ZR_TRY(zr__items_of(r, &c->self, &items));
    *out = items->n > 0 ? items->item[0] : zr__undefined("the first of no items");
    if (iterator && items->n > 0) { /* the others stay in it */
        items->item++;
        items->n--;
    }
    return ZR_OK;
}

static zr_status call_last(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__list *items = NULL;
    if (c->self.kind == ZR__LIST && c->self.list->kind == ZR__A_SEQUENCE)
        return zr__run_bad(r, "the last item of an iterator; use the filter list before last");
    ZR_TRY(zr__items_of(r, &c->self, &items));
    *out = items->n > 0 ? items->item[items->n - 1] : zr__undefined("the last of no items");
    return ZR_OK;
}

static zr_status call_items(zr__run *r, const zr__call *c, zr__value *out)
{
    ZR_TRY(zr__list_make(r, ZR__A_SEQUENCE, 0, out));
    if (c->self.kind == ZR__UNDEFINED) return ZR_OK;
    if (c->self.kind != ZR__DICT) return zr__run_bad(r, "items of a %s; expected a dict", zr__type_name(&c->self));
    for (int64_t i = 0; i < c->self.dict->n; i++) {
        zr__value pair;
        ZR_TRY(zr__tuple_of(r, c->self.dict->pair[i].key, c->self.dict->pair[i].value, &pair));
        ZR_TRY(zr__list_append(r, out->list, pair));
    }
    return ZR_OK;
}

static bool has_only_digits(const zr__string *s)
{
    int64_t i = 0;
    while (i < s->bytes && s->text[i] >= '0' && s->text[i] <= '9') i++;
    return i == s->bytes;
}

/* Look up an attribute by a path such as "function.name". */
static zr_status attribute_at(zr__run *r, const zr__value *of, const zr__value *path, zr__value *out)
{
    static const zr__string point = {.text = ".", .bytes = 1};
    zr__value parts, value = *of;
    int64_t number = 0;
    double real = 0;
    if (path->kind != ZR__STRING) return zr__attribute(r, of, path, true, out);
    ZR_TRY(zr__string_split(r, path->string, &point, -1, false, &parts));
    for (int64_t i = 0; i < parts.list->n; i++) {
        zr__value part = parts.list->item[i];
        const zr__value before = value;
        if (has_only_digits(part.string) && read_number(part.string, true, &number, &real)) part = zr__int(number);
        ZR_TRY(zr__attribute(r, &before, &part, true, &value));
    }
    *out = value;
    return ZR_OK;
}

static zr_status call_join(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__list *items = NULL;
    zr__value between, picked;
    ZR_TRY(zr__string_of(r, "", 0, ZR__FROM_TEMPLATE, &between));
    if (given(&c->slot[0])) ZR_TRY(zr__to_string(r, &c->slot[0], &between));
    ZR_TRY(zr__items_of(r, &c->self, &items));
    if (given(&c->slot[1]) && c->slot[1].kind != ZR__NONE) {
        ZR_TRY(zr__list_make(r, ZR__A_LIST, items->n, &picked));
        for (int64_t i = 0; i < items->n; i++) {
            zr__value one;
            ZR_TRY(attribute_at(r, &items->item[i], &c->slot[1], &one));
            ZR_TRY(zr__list_append(r, picked.list, one));
        }
        items = picked.list;
    }
    return zr__string_join(r, between.string, items, out);
}

/* ---- sorting --------------------------------------------------------------------------------- */

/* Return the sort key of a value: for texts without regard to case, unless `exact`. */
static zr_status sort_key(zr__run *r, const zr__value *v, bool exact, zr__value *key)
{
    *key = *v;
    return v->kind == ZR__STRING && !exact ? zr__string_case(r, v->string, ZR__LOWER_CASE, key) : ZR_OK;
}

/* Sort a list by keys of its items, keeping the order of equal items. */
static zr_status sort(zr__run *r, zr__list *items, zr__value *keys, bool back)
{
    for (int64_t i = 1; i < items->n; i++)
        for (int64_t k = i; k > 0; k--) {
            int order = 0;
            ZR_TRY(zr__run_work(r, 1));
            ZR_TRY(zr__order(r, &keys[k - 1], &keys[k], &order));
            if (back ? order >= 0 : order <= 0) break;
            const zr__value item = items->item[k], key = keys[k];
            items->item[k] = items->item[k - 1];
            items->item[k - 1] = item;
            keys[k] = keys[k - 1];
            keys[k - 1] = key;
        }
    return ZR_OK;
}

static zr_status call_dictsort(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__value *by = &c->slot[1];
    const bool values = by->kind == ZR__STRING && by->string->bytes == 5 && memcmp(by->string->text, "value", 5) == 0;
    zr__value *keys = NULL, pair;
    if (c->self.kind != ZR__DICT) return zr__run_bad(r, "dictsort of a %s", zr__type_name(&c->self));
    const zr__dict *dict = c->self.dict;
    ZR_TRY(zr__list_make(r, ZR__A_LIST, dict->n, out));
    ZR_TRY(zr__pool_take(&r->pool, (dict->n + 1) * (int64_t)sizeof(*keys), &keys));
    for (int64_t i = 0; i < dict->n; i++) {
        ZR_TRY(zr__tuple_of(r, dict->pair[i].key, dict->pair[i].value, &pair));
        ZR_TRY(zr__list_append(r, out->list, pair));
        ZR_TRY(sort_key(r, values ? &dict->pair[i].value : &dict->pair[i].key, is_yes(&c->slot[0]), &keys[i]));
    }
    return sort(r, out->list, keys, is_yes(&c->slot[2]));
}

/* ---- filters that call functions ------------------------------------------------------------- */

/* Find the function that an argument names, and copy the arguments after it. */
static zr_status take_function(zr__run *r, const zr__args *args, int at, zr__function_kind kind,
                               const zr__function **function, zr__args *rest)
{
    char name[64] = "";
    const zr__value *named = &args->value[at];
    if (args->key[at] || named->kind != ZR__STRING || named->string->bytes >= (int64_t)sizeof(name))
        return zr__run_bad(r, "the name of a filter or a test is not a text");
    memcpy(name, named->string->text, (size_t)named->string->bytes);
    *function = zr__function_named(kind, name);
    if (!*function)
        return zr__run_bad(r, "the %s %s is not supported by zr", kind == ZR__TEST ? "test" : "filter", name);
    rest->n = 0;
    for (int i = at + 1; i < args->n; i++) {
        rest->value[rest->n] = args->value[i];
        rest->key[rest->n++] = args->key[i];
    }
    return ZR_OK;
}

/* Return an argument by its name, or NULL. */
static const zr__value *named(const zr__args *args, const char *name)
{
    for (int i = 0; i < args->n; i++)
        if (args->key[i] && strcmp(args->key[i], name) == 0) return &args->value[i];
    return NULL;
}

static zr_status call_map(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__value *attribute = named(c->args, "attribute"), *usual = named(c->args, "default");
    const zr__function *function = NULL;
    zr__list *items = NULL;
    zr__args rest = {0};
    zr__value one;
    ZR_TRY(zr__list_make(r, ZR__A_SEQUENCE, 0, out));
    if (!zr__is_true(&c->self)) return ZR_OK;
    ZR_TRY(zr__items_of(r, &c->self, &items));
    if (!attribute && c->args->n == 0) return zr__run_bad(r, "map() needs a filter or an attribute");
    if (!attribute) ZR_TRY(take_function(r, c->args, 0, ZR__FILTER, &function, &rest));
    for (int64_t i = 0; i < items->n; i++) {
        if (attribute)
            ZR_TRY(attribute_at(r, &items->item[i], attribute, &one));
        else
            ZR_TRY(zr__function_call(r, function, &items->item[i], &rest, &one));
        if (attribute && usual && one.kind == ZR__UNDEFINED) one = *usual;
        ZR_TRY(zr__list_append(r, out->list, one));
    }
    return ZR_OK;
}

/* select, reject, selectattr, rejectattr: keep the items for which a test, of the item or of its attribute, has the
 * result `wanted`. */
static zr_status call_select(zr__run *r, const zr__call *c, zr__value *out)
{
    const bool by_attribute = c->variant & BY_ATTRIBUTE, wanted = !(c->variant & REJECTS);
    const zr__args *args = c->args;
    const zr__function *function = NULL;
    zr__list *items = NULL;
    zr__args rest = {0};
    ZR_TRY(zr__list_make(r, ZR__A_SEQUENCE, 0, out));
    if (!zr__is_true(&c->self)) return ZR_OK;
    ZR_TRY(zr__items_of(r, &c->self, &items));
    if (by_attribute && args->n == 0) return zr__run_bad(r, "selectattr() needs an attribute");
    if (args->n > by_attribute) ZR_TRY(take_function(r, args, by_attribute, ZR__TEST, &function, &rest));
    for (int64_t i = 0; i < items->n; i++) {
        zr__value tested = items->item[i], result;
        ZR_TRY(zr__run_work(r, 1));
        if (by_attribute) ZR_TRY(attribute_at(r, &items->item[i], &args->value[0], &tested));
        result = tested;
        if (function) ZR_TRY(zr__function_call(r, function, &tested, &rest, &result));
        if (zr__is_true(&result) == wanted) ZR_TRY(zr__list_append(r, out->list, items->item[i]));
    }
    return ZR_OK;
}

const zr__function zr__filters[] = {
    {ZR__FILTER, "trim", "chars", 0, 0, call_trim},
    {ZR__FILTER, "string", "", 0, 0, call_string},
    {ZR__FILTER, "safe", "", 0, 0, call_safe},
    {ZR__FILTER, "upper", "", 0, ZR__UPPER_CASE, call_case},
    {ZR__FILTER, "lower", "", 0, ZR__LOWER_CASE, call_case},
    {ZR__FILTER, "capitalize", "", 0, ZR__CAPITALIZED, call_case},
    {ZR__FILTER, "title", "", 0, ZR__TITLE_CASE, call_case},
    {ZR__FILTER, "replace", "old new count", 2, 0, call_replace},
    {ZR__FILTER, "tojson", "ensure_ascii indent separators sort_keys", 0, 0, call_tojson},
    {ZR__FILTER, "length", "", 0, 0, call_length},
    {ZR__FILTER, "count", "", 0, 0, call_length},
    {ZR__FILTER, "int", "default base", 0, 0, call_int},
    {ZR__FILTER, "default", "default_value boolean", 0, 0, call_default},
    {ZR__FILTER, "d", "default_value boolean", 0, 0, call_default},
    {ZR__FILTER, "list", "", 0, 0, call_list},
    {ZR__FILTER, "reverse", "", 0, 0, call_reverse},
    {ZR__FILTER, "first", "", 0, 0, call_first},
    {ZR__FILTER, "last", "", 0, 0, call_last},
    {ZR__FILTER, "items", "", 0, 0, call_items},
    {ZR__FILTER, "join", "d attribute", 0, 0, call_join},
    {ZR__FILTER, "dictsort", "case_sensitive by reverse", 0, 0, call_dictsort},
    {ZR__FILTER, "map", "*", 0, 0, call_map},
    {ZR__FILTER, "select", "*", 0, 0, call_select},
    {ZR__FILTER, "reject", "*", 0, REJECTS, call_select},
    {ZR__FILTER, "selectattr", "*", 0, BY_ATTRIBUTE, call_select},
    {ZR__FILTER, "rejectattr", "*", 0, BY_ATTRIBUTE | REJECTS, call_select},
    {0}};
