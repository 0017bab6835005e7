/* Finds built-in functions and binds their arguments. Has range, namespace and other functions that need no value. */
#include "data/template/values.h"

#include "base/text/text.h"

#include <string.h>
#include <time.h>

enum { MOST_RANGE = 100000 };

/* ---- functions that need no value ------------------------------------------------------------ */

static zr_status call_range(zr__run *r, const zr__call *c, zr__value *out)
{
    int64_t bound[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++) {
        if (c->slot[i].kind == ZR__MISSING) continue;
        if (c->slot[i].kind != ZR__INT) return zr__run_bad(r, "range() of a %s", zr__type_name(&c->slot[i]));
        bound[i] = c->slot[i].number;
    }
    if (c->slot[1].kind == ZR__MISSING) {
        bound[1] = bound[0];
        bound[0] = 0;
    }
    if (bound[2] == 0) return zr__run_bad(r, "the step of range() is 0");
    ZR_TRY(zr__list_make(r, ZR__A_RANGE, 0, out));
    for (int64_t i = bound[0]; bound[2] > 0 ? i < bound[1] : i > bound[1];) {
        if (out->list->n == MOST_RANGE) return zr__run_bad(r, "range() of more than %d numbers", MOST_RANGE);
        ZR_TRY(zr__list_append(r, out->list, zr__int(i)));
        if (__builtin_add_overflow(i, bound[2], &i)) break;
    }
    return ZR_OK;
}

/* Make a dict or a namespace of a dict and keyword arguments. */
static zr_status call_dict(zr__run *r, const zr__call *c, zr__value *out)
{
    ZR_TRY(zr__dict_make(r, (zr__kind)c->variant, out));
    for (int i = 0; i < c->args->n; i++) {
        const zr__value *value = &c->args->value[i];
        const char *key = c->args->key[i];
        zr__value name;
        if (key) {
            ZR_TRY(zr__string_of(r, key, (int64_t)strlen(key), ZR__FROM_TEMPLATE, &name));
            ZR_TRY(zr__dict_put(r, out->dict, name, *value));
            continue;
        }
        if (i > 0 || value->kind != ZR__DICT) return zr__run_bad(r, "a dict is made of a %s", zr__type_name(value));
        for (int64_t k = 0; k < value->dict->n; k++)
            ZR_TRY(zr__dict_put(r, out->dict, value->dict->pair[k].key, value->dict->pair[k].value));
    }
    return ZR_OK;
}

static zr_status call_raise_exception(zr__run *r, const zr__call *c, zr__value *out)
{
    zr__builder b = {0};
    ZR_TRY(zr__print(r, &b, &c->slot[0]));
    ZR_TRY(zr__build_bytes(r, &b, "\0", 1, ZR__FROM_TEMPLATE));
    *out = zr__none();
    return zr__run_bad(r, "the template refuses the messages: %s", ZR_SHOWN(b.text));
}

static zr_status call_strftime_now(zr__run *r, const zr__call *c, zr__value *out)
{
    struct tm day = {0};
    char format[128], text[256];
    if (c->slot[0].kind != ZR__STRING || c->slot[0].string->bytes >= (int64_t)sizeof(format))
        return zr__run_bad(r, "strftime_now() needs a short text as its format");
    memcpy(format, c->slot[0].string->text, (size_t)c->slot[0].string->bytes);
    format[c->slot[0].string->bytes] = '\0';
    const char *end = r->args->date ? strptime(r->args->date, "%Y-%m-%d", &day) : NULL;
    if (!end || *end) return zr__run_bad(r, "strftime_now() needs a date, YYYY-MM-DD");
    const size_t n = strftime(text, sizeof(text), format, &day);
    char *copy = NULL;
    ZR_TRY(zr__pool_take(&r->pool, (int64_t)n + 1, &copy));
    memcpy(copy, text, n);
    return zr__string_of(r, copy, (int64_t)n, ZR__FROM_TEMPLATE, out);
}

static const zr__function globals[] = {{ZR__GLOBAL, "range", "start stop step", 1, 0, call_range},
                                       {ZR__GLOBAL, "dict", "*", 0, ZR__DICT, call_dict},
                                       {ZR__GLOBAL, "namespace", "*", 0, ZR__NAMESPACE, call_dict},
                                       {ZR__GLOBAL, "raise_exception", "message", 1, 0, call_raise_exception},
                                       {ZR__GLOBAL, "strftime_now", "format", 1, 0, call_strftime_now},
                                       {0}};

/* ---- calls ----------------------------------------------------------------------------------- */

const zr__function *zr__function_named(zr__function_kind kind, const char *name)
{
    const zr__function *table = kind == ZR__FILTER   ? zr__filters
                                : kind == ZR__TEST   ? zr__tests
                                : kind == ZR__GLOBAL ? globals
                                                     : zr__methods;
    for (; table->name; table++)
        if (table->kind == kind && strcmp(table->name, name) == 0) return table;
    return NULL;
}

bool zr__is_method(const char *name)
{
    return zr__function_named(ZR__STRING_METHOD, name) || zr__function_named(ZR__DICT_METHOD, name);
}

/* Return the index of a parameter in a list of names, or -1. */
static int parameter_named(const char *parameters, const char *name)
{
    const size_t bytes = strlen(name);
    int i = 0;
    for (const char *at = parameters; *at; i++) {
        const size_t n = strcspn(at, " ");
        if (n == bytes && memcmp(at, name, n) == 0) return i;
        at += n + (at[n] == ' ');
    }
    return -1;
}

static int count_parameters(const char *parameters)
{
    int n = parameters[0] != '\0';
    for (; *parameters; parameters++) n += *parameters == ' ';
    return n;
}

static zr_status bind(zr__run *r, const zr__function *function, const zr__args *args, zr__call *c)
{
    const int n = count_parameters(function->parameters);
    for (int i = 0; i < args->n; i++) {
        const int at = args->key[i] ? parameter_named(function->parameters, args->key[i]) : i;
        if (at < 0 || at >= n)
            return zr__run_bad(r, "%s() has no argument %s", function->name,
                               args->key[i] ? ZR_SHOWN(args->key[i]) : "so far to the right");
        if (c->slot[at].kind != ZR__MISSING)
            return zr__run_bad(r, "%s() has two arguments %s", function->name, ZR_SHOWN(args->key[i]));
        c->slot[at] = args->value[i];
    }
    for (int i = 0; i < function->least; i++)
        if (c->slot[i].kind == ZR__MISSING)
            return zr__run_bad(r, "%s() needs %d argument%s", function->name, function->least,
                               function->least == 1 ? "" : "s");
    return ZR_OK;
}

zr_status zr__function_call(zr__run *r, const zr__function *function, const zr__value *self, const zr__args *args,
                            zr__value *out)
{
    zr__call c = {.args = args, .variant = function->variant};
    zr__value result = zr__none();
    if (self) c.self = *self;
    ZR_TRY(zr__run_work(r, 1));
    if (function->parameters[0] != '*') ZR_TRY(bind(r, function, args, &c));
    ZR_TRY(function->call(r, &c, &result));
    /* a string made of a safe string is safe */
    if (self && self->kind == ZR__STRING && self->string->safe && result.kind == ZR__STRING && !result.string->safe) {
        zr__string *safe = NULL;
        ZR_TRY(zr__pool_take(&r->pool, sizeof(*safe), &safe));
        *safe = *result.string;
        safe->safe = true;
        result.string = safe;
    }
    *out = result;
    return ZR_OK;
}
