/* Memory of values, lists and dicts, comparison, attributes. */
#include "data/template/values.h"

#include "base/text/text.h"

#include <math.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct zr__pool_block {
    struct zr__pool_block *before;
    char data[];
} pool_block;

enum { BLOCK_BYTES = 1 << 14, LARGEST_BLOCK_BYTES = 1 << 20, ALIGN = 16, MOST_DEPTH = 200 };

zr_status zr__pool_take(zr__pool *pool, int64_t bytes, void *out)
{
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > pool->room - pool->used) {
        int64_t room = pool->room * 2 < BLOCK_BYTES ? BLOCK_BYTES : pool->room * 2;
        if (room > LARGEST_BLOCK_BYTES) room = LARGEST_BLOCK_BYTES;
        if (room < bytes) room = bytes;
        ZR_CHECK(pool->most == 0 || pool->total + room <= pool->most, ZR_ERR_DATA,
                 "the chat template needs more than %lld bytes of memory", (long long)pool->most);
        pool_block *block = zr_alloc(sizeof(*block) + (size_t)room);
        ZR_CHECK(block, ZR_ERR_MEMORY, "no memory for a chat template");
        block->before = pool->block;
        pool->block = block;
        pool->used = 0;
        pool->room = room;
        pool->total += room;
    }
    void *taken = pool->block->data + pool->used;
    memcpy(out, &taken, sizeof(taken));
    pool->used += bytes;
    return ZR_OK;
}

void zr__pool_clear(zr__pool *pool)
{
    for (pool_block *block = pool->block, *before; block; block = before) {
        before = block->before;
        zr_free(block);
    }
    *pool = (zr__pool){.most = pool->most};
}

/* ---- lists and dicts ------------------------------------------------------------------------- */

zr_status zr__list_make(zr__run *r, zr__list_kind kind, int64_t room, zr__value *out)
{
    zr__list *list = NULL;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*list), &list));
    list->kind = kind;
    list->room = room;
    if (room > 0) ZR_TRY(zr__pool_take(&r->pool, room * (int64_t)sizeof(*list->item), &list->item));
    *out = (zr__value){.kind = ZR__LIST, .list = list};
    return ZR_OK;
}

/* Note that a container with *depth levels contains a value. The depth is bounded, since values are compared and
 * printed by recursion. */
static zr_status go_deeper(zr__run *r, int *depth, const zr__value *value)
{
    const int inner = value->kind == ZR__LIST ? value->list->depth : value->kind == ZR__DICT ? value->dict->depth : 0;
    if (inner >= MOST_DEPTH) return zr__run_bad(r, "lists and dicts are nested more than %d levels deep", MOST_DEPTH);
    if (*depth < inner + 1) *depth = inner + 1;
    return ZR_OK;
}

zr_status zr__list_append(zr__run *r, zr__list *list, zr__value value)
{
    ZR_TRY(zr__run_work(r, 1));
    ZR_TRY(go_deeper(r, &list->depth, &value));
    if (list->n == list->room) {
        zr__value *more = NULL;
        const int64_t room = 2 * list->room + 4;
        ZR_TRY(zr__pool_take(&r->pool, room * (int64_t)sizeof(*more), &more));
        if (list->n > 0) memcpy(more, list->item, (size_t)list->n * sizeof(*more));
        list->item = more;
        list->room = room;
    }
    list->item[list->n++] = value;
    return ZR_OK;
}

zr_status zr__tuple_of(zr__run *r, zr__value first, zr__value second, zr__value *out)
{
    ZR_TRY(zr__list_make(r, ZR__A_TUPLE, 2, out));
    ZR_TRY(zr__list_append(r, out->list, first));
    return zr__list_append(r, out->list, second);
}

zr_status zr__dict_make(zr__run *r, zr__kind kind, zr__value *out)
{
    zr__dict *dict = NULL;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*dict), &dict));
    *out = (zr__value){.kind = kind, .dict = dict};
    return ZR_OK;
}

zr_status zr__dict_get(zr__run *r, const zr__dict *dict, const zr__value *key, zr__value **value)
{
    bool equal = false;
    *value = NULL;
    for (int64_t i = 0; i < dict->n && !equal; i++) {
        ZR_TRY(zr__equal(r, &dict->pair[i].key, key, &equal));
        if (equal) *value = &dict->pair[i].value;
    }
    return ZR_OK;
}

zr_status zr__dict_put(zr__run *r, zr__dict *dict, zr__value key, zr__value value)
{
    zr__value *old = NULL;
    ZR_TRY(zr__run_work(r, 1));
    ZR_TRY(go_deeper(r, &dict->depth, &value));
    ZR_TRY(zr__dict_get(r, dict, &key, &old));
    if (old) {
        *old = value;
        return ZR_OK;
    }
    if (dict->n == dict->room) {
        zr__pair *more = NULL;
        const int64_t room = 2 * dict->room + 4;
        ZR_TRY(zr__pool_take(&r->pool, room * (int64_t)sizeof(*more), &more));
        if (dict->n > 0) memcpy(more, dict->pair, (size_t)dict->n * sizeof(*more));
        dict->pair = more;
        dict->room = room;
    }
    dict->pair[dict->n++] = (zr__pair){key, value};
    return ZR_OK;
}

static zr_status dict_of_json(zr__run *r, const json_t *json, int32_t source, bool message, zr__value *out)
{
    void *at;
    zr__value key, value;
    ZR_TRY(zr__dict_make(r, ZR__DICT, out));
    zr__dict *dict = out->dict;
    dict->room = (int64_t)json_object_size(json);
    if (dict->room > 0) ZR_TRY(zr__pool_take(&r->pool, dict->room * (int64_t)sizeof(*dict->pair), &dict->pair));
    for (at = json_object_iter((json_t *)json); at; at = json_object_iter_next((json_t *)json, at)) {
        const char *name = json_object_iter_key(at);
        const bool role = message && strcmp(name, "role") == 0;
        ZR_TRY(zr__run_work(r, 1));
        ZR_TRY(zr__string_of(r, name, (int64_t)json_object_iter_key_len(at), source, &key));
        ZR_TRY(zr__value_of_json(r, json_object_iter_value(at), role ? ZR__FROM_TEMPLATE : source, false, &value));
        ZR_TRY(go_deeper(r, &dict->depth, &value));
        dict->pair[dict->n++] = (zr__pair){key, value};
    }
    return ZR_OK;
}

zr_status zr__value_of_json(zr__run *r, const json_t *json, int32_t source, bool message, zr__value *out)
{
    *out = zr__none();
    if (json_is_string(json))
        return zr__string_of(r, json_string_value(json), (int64_t)json_string_length(json), source, out);
    if (json_is_object(json)) return dict_of_json(r, json, source, message, out);
    if (json_is_integer(json)) *out = zr__int(json_integer_value(json));
    if (json_is_real(json)) *out = (zr__value){.kind = ZR__REAL, .real = json_real_value(json)};
    if (json_is_boolean(json)) *out = zr__bool(json_is_true(json));
    if (json_is_array(json)) {
        zr__value value;
        ZR_TRY(zr__list_make(r, ZR__A_LIST, (int64_t)json_array_size(json), out));
        for (size_t i = 0; i < json_array_size(json); i++) {
            ZR_TRY(zr__value_of_json(r, json_array_get(json, i), source, false, &value));
            ZR_TRY(zr__list_append(r, out->list, value));
        }
    }
    return ZR_OK;
}

/* ---- comparison ------------------------------------------------------------------------------ */

const char *zr__type_name(const zr__value *v)
{
    static const char *const names[] = {"nothing", "undefined", "none",      "bool",  "int",      "float", "str",
                                        "list",    "dict",      "namespace", "macro", "function", "loop"};
    return names[v->kind];
}

bool zr__is_true(const zr__value *v)
{
    switch (v->kind) {
    case ZR__MISSING:
    case ZR__UNDEFINED:
    case ZR__NONE:
        return false;
    case ZR__BOOL:
        return v->truth;
    case ZR__INT:
        return v->number != 0;
    case ZR__REAL:
        return v->real != 0.0;
    case ZR__STRING:
        return v->string->bytes > 0;
    case ZR__LIST:
        return v->list->kind == ZR__A_SEQUENCE || v->list->n > 0;
    case ZR__DICT:
        return v->dict->n > 0;
    default:
        return true;
    }
}

bool zr__is_number(const zr__value *v)
{
    return v->kind == ZR__BOOL || v->kind == ZR__INT || v->kind == ZR__REAL;
}

int64_t zr__int_of(const zr__value *v)
{
    return v->kind == ZR__BOOL ? v->truth : v->number;
}

double zr__real_of(const zr__value *v)
{
    return v->kind == ZR__REAL ? v->real : (double)zr__int_of(v);
}

/* Compare two numbers: return -1, 0 or 1, or 2 if one is NaN. */
static int order_numbers(const zr__value *a, const zr__value *b)
{
    if (a->kind != ZR__REAL && b->kind != ZR__REAL)
        return (zr__int_of(a) > zr__int_of(b)) - (zr__int_of(a) < zr__int_of(b));
    const double x = zr__real_of(a), y = zr__real_of(b);
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

static int order_strings(const zr__string *a, const zr__string *b)
{
    const int64_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = n > 0 ? memcmp(a->text, b->text, (size_t)n) : 0;
    return order ? (order > 0) - (order < 0) : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static zr_status equal_dicts(zr__run *r, const zr__dict *a, const zr__dict *b, bool *equal)
{
    zr__value *other = NULL;
    *equal = a->n == b->n;
    for (int64_t i = 0; i < a->n && *equal; i++) {
        ZR_TRY(zr__dict_get(r, b, &a->pair[i].key, &other));
        *equal = other != NULL;
        if (other) ZR_TRY(zr__equal(r, &a->pair[i].value, other, equal));
    }
    return ZR_OK;
}

static zr_status equal_lists(zr__run *r, const zr__list *a, const zr__list *b, bool *equal)
{
    *equal = a->n == b->n && a->kind == b->kind && a->kind != ZR__A_SEQUENCE;
    for (int64_t i = 0; i < a->n && *equal; i++) ZR_TRY(zr__equal(r, &a->item[i], &b->item[i], equal));
    *equal = *equal || a == b;
    return ZR_OK;
}

zr_status zr__equal(zr__run *r, const zr__value *a, const zr__value *b, bool *equal)
{
    ZR_TRY(zr__run_work(r, 1));
    *equal = a->kind == b->kind;
    if (zr__is_number(a) && zr__is_number(b)) *equal = order_numbers(a, b) == 0;
    if (a->kind != b->kind) return ZR_OK;
    switch (a->kind) {
    case ZR__STRING:
        *equal = a->string->bytes == b->string->bytes;
        if (!*equal) return ZR_OK;
        *equal = order_strings(a->string, b->string) == 0;
        return zr__run_work(r, a->string->bytes / 64);
    case ZR__LIST:
        return equal_lists(r, a->list, b->list, equal);
    case ZR__DICT:
        return equal_dicts(r, a->dict, b->dict, equal);
    case ZR__NAMESPACE:
    case ZR__MACRO:
    case ZR__FUNCTION:
    case ZR__LOOP:
        *equal = a->dict == b->dict && a->self == b->self;
        return ZR_OK;
    default:
        return ZR_OK;
    }
}

zr_status zr__order(zr__run *r, const zr__value *a, const zr__value *b, int *order)
{
    if (a->kind == ZR__STRING && b->kind == ZR__STRING) {
        *order = order_strings(a->string, b->string);
        return zr__run_work(r, a->string->bytes / 64);
    }
    if (zr__is_number(a) && zr__is_number(b)) {
        *order = order_numbers(a, b);
        return ZR_OK;
    }
    return zr__run_bad(r, "a %s and a %s have no order", zr__type_name(a), zr__type_name(b));
}

/* ---- containers ------------------------------------------------------------------------------ */

zr_status zr__items_of(zr__run *r, const zr__value *v, zr__list **items)
{
    zr__value made = zr__none();
    if (v->kind == ZR__LIST && v->list->kind != ZR__A_SEQUENCE) {
        *items = v->list;
        return ZR_OK;
    }
    ZR_TRY(zr__list_make(r, ZR__A_LIST, 0, &made));
    *items = made.list;
    if (v->kind == ZR__LIST) { /* an iterator gives its items once */
        *made.list = (zr__list){.item = v->list->item, .n = v->list->n, .room = v->list->n};
        v->list->n = 0;
        return ZR_OK;
    }
    if (v->kind == ZR__DICT) {
        for (int64_t i = 0; i < v->dict->n; i++) ZR_TRY(zr__list_append(r, made.list, v->dict->pair[i].key));
        return ZR_OK;
    }
    if (v->kind == ZR__STRING) {
        for (int64_t at = 0, n; at < v->string->bytes; at += n) {
            zr__value character;
            n = zr__string_step(v->string, at);
            ZR_TRY(zr__string_slice(r, v->string, at, at + n, &character));
            ZR_TRY(zr__list_append(r, made.list, character));
        }
        return ZR_OK;
    }
    return v->kind == ZR__UNDEFINED ? ZR_OK : zr__run_bad(r, "a %s has no items", zr__type_name(v));
}

zr_status zr__is_in(zr__run *r, const zr__value *value, const zr__value *in, bool *found)
{
    zr__list *items = NULL;
    *found = false;
    if (in->kind == ZR__STRING) {
        if (value->kind != ZR__STRING) return zr__run_bad(r, "a %s is looked for in a text", zr__type_name(value));
        ZR_TRY(zr__run_work(r, in->string->bytes / 64));
        *found = zr__string_find(in->string, value->string, 0) >= 0;
        return ZR_OK;
    }
    if (in->kind == ZR__DICT) {
        if (value->kind == ZR__DICT || (value->kind == ZR__LIST && value->list->kind == ZR__A_LIST))
            return zr__run_bad(r, "a %s cannot be a key of a dict", zr__type_name(value));
        zr__value *of_key = NULL;
        ZR_TRY(zr__dict_get(r, in->dict, value, &of_key));
        *found = of_key != NULL;
        return ZR_OK;
    }
    ZR_TRY(zr__items_of(r, in, &items));
    for (int64_t i = 0; i < items->n && !*found; i++) ZR_TRY(zr__equal(r, &items->item[i], value, found));
    return ZR_OK;
}

/* Return whether the value has an item with this key, and the item. Indices count from the end if they are negative. */
static zr_status find_item(zr__run *r, const zr__value *of, const zr__value *key, bool *found, zr__value *out)
{
    *found = false;
    if (of->kind == ZR__DICT) {
        zr__value *value = NULL;
        ZR_TRY(zr__dict_get(r, of->dict, key, &value));
        *found = value != NULL;
        if (value) *out = *value;
    }
    if (key->kind != ZR__INT && key->kind != ZR__BOOL) return ZR_OK;
    int64_t index = zr__int_of(key);
    if (of->kind == ZR__LIST && of->list->kind <= ZR__A_RANGE) {
        if (index < 0) index += of->list->n;
        *found = index >= 0 && index < of->list->n;
        if (*found) *out = of->list->item[index];
    }
    if (of->kind != ZR__STRING) return ZR_OK;
    const zr__string *s = of->string;
    int64_t at = 0;
    ZR_TRY(zr__run_work(r, s->bytes / 16));
    if (index < 0) index += zr__string_length(s);
    while (index > 0 && at < s->bytes) {
        at += zr__string_step(s, at);
        index--;
    }
    *found = index == 0 && at < s->bytes;
    return *found ? zr__string_slice(r, s, at, at + zr__string_step(s, at), out) : ZR_OK;
}

/* Return whether the value has an attribute with this name in Python, and the attribute. `name` is the text of `key`.
 */
static zr_status find_attribute(zr__run *r, const zr__value *of, const zr__value *key, const char *name, bool *found,
                                zr__value *out)
{
    static const char *const others[] = {"append", "clear",  "copy", "count",   "extend", "index",
                                         "insert", "remove", "sort", "reverse", "pop"};
    const zr__function *method = NULL;
    *found = false;
    if (of->kind == ZR__NAMESPACE) {
        zr__value *value = NULL;
        ZR_TRY(zr__dict_get(r, of->dict, key, &value));
        *found = value != NULL;
        if (value) *out = *value;
        return ZR_OK;
    }
    if (of->kind == ZR__STRING) method = zr__function_named(ZR__STRING_METHOD, name);
    if (of->kind == ZR__DICT) method = zr__function_named(ZR__DICT_METHOD, name);
    for (size_t i = 0; of->kind == ZR__LIST && i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(name, others[i]) == 0) return zr__run_bad(r, "the method %s() of lists is not supported", name);
    if (of->kind == ZR__MACRO || of->kind == ZR__FUNCTION)
        return zr__run_bad(r, "the attribute %s of a %s is not supported", ZR_SHOWN(name), zr__type_name(of));
    if (!method) return ZR_OK;
    zr__value *self = NULL;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*self), &self));
    *self = *of;
    *out = (zr__value){.kind = ZR__FUNCTION, .function = method, .self = self};
    *found = true;
    return ZR_OK;
}

zr_status zr__attribute(zr__run *r, const zr__value *of, const zr__value *key, bool item, zr__value *out)
{
    char *name = NULL;
    bool found = false;
    const bool named = key->kind == ZR__STRING;
    if (named) {
        ZR_TRY(zr__pool_take(&r->pool, key->string->bytes + 1, &name));
        memcpy(name, key->string->text, (size_t)key->string->bytes);
    }
    if (of->kind == ZR__UNDEFINED)
        return zr__run_bad(r, "%s is undefined, so it has no %s", ZR_SHOWN(of->name), named ? ZR_SHOWN(name) : "items");
    if (item) ZR_TRY(find_item(r, of, key, &found, out));
    if (!found && named) ZR_TRY(find_attribute(r, of, key, name, &found, out));
    if (!found && !item) ZR_TRY(find_item(r, of, key, &found, out));
    if (!found) *out = zr__undefined(name ? name : "an item");
    return ZR_OK;
}
