/* Executes templates: variables, statements and expressions. */
#include "data/template/tree.h"

#include "base/text/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Limits of an execution: units of work, nested parts, bytes of memory. */
enum { MOST_STEPS = 20000000, MOST_DEPTH = 300, MOST_BYTES = 256 << 20 };

typedef struct variable {
    struct variable *next;
    const char *name; /* as in the tree */
    zr__value value;
} variable;

/* Variables of a template, of an iteration of a loop, or of a block. */
typedef struct zr__scope {
    struct zr__scope *outer;
    variable *variable;
} scope;

/* The variable `loop`. */
typedef struct zr__loop {
    zr__list *items;    /* items that the loop visits, as far as they are known */
    int64_t at;         /* index of the item of this iteration, or of the last one after the loop */
    const zr__list *of; /* all items; the loop's condition selects some */
    int64_t tried;      /* number of items in `of` for which the condition is known */
    const zr__node *node;
    scope *outer;
} loop;

/* Effect of a statement on the loop around it. */
typedef enum flow { GO_ON, BREAKS, CONTINUES } flow;

zr_status zr__run_bad(const zr__run *r, const char *format, ...)
{
    char buffer[512];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    return ZR_FAIL(ZR_ERR_DATA, "%s:%d: %s", r->template->name, r->line, buffer);
}

zr_status zr__run_work(zr__run *r, int64_t steps)
{
    r->steps += steps;
    if (r->steps <= MOST_STEPS) return ZR_OK;
    return zr__run_bad(r, "the template has not ended after %d steps", MOST_STEPS);
}

static zr_status go_down(zr__run *r)
{
    ZR_TRY(zr__run_work(r, 1));
    if (++r->depth <= MOST_DEPTH) return ZR_OK;
    return zr__run_bad(r, "more than %d levels of nested parts or calls of macros", MOST_DEPTH);
}

/* ---- variables ------------------------------------------------------------------------------- */

static zr_status new_scope(zr__run *r, scope *outer, scope **out)
{
    ZR_TRY(zr__pool_take(&r->pool, sizeof(**out), out));
    (*out)->outer = outer;
    return ZR_OK;
}

/* Set a variable of the innermost scope. */
static zr_status set_variable(zr__run *r, const char *name, zr__value value)
{
    variable *v = r->scope->variable;
    for (; v && v->name != name; v = v->next) ZR_TRY(zr__run_work(r, 1));
    if (!v) {
        ZR_TRY(zr__pool_take(&r->pool, sizeof(*v), &v));
        v->name = name;
        v->next = r->scope->variable;
        r->scope->variable = v;
    }
    v->value = value;
    return ZR_OK;
}

static zr_status get_variable(zr__run *r, const char *name, zr__value *out)
{
    for (const scope *s = r->scope; s; s = s->outer)
        for (const variable *v = s->variable; v; v = v->next) {
            ZR_TRY(zr__run_work(r, 1));
            if (v->name != name) continue;
            *out = v->value;
            return ZR_OK;
        }
    const zr__function *function = zr__function_named(ZR__GLOBAL, name);
    *out = function ? (zr__value){.kind = ZR__FUNCTION, .function = function} : zr__undefined(name);
    return ZR_OK;
}

/* ---- expressions ----------------------------------------------------------------------------- */

static zr_status evaluate(zr__run *r, const zr__node *node, zr__value *out);
static zr_status execute(zr__run *r, const zr__node *node, flow *how);
static zr_status assign(zr__run *r, const zr__node *target, zr__value value);

static zr_status evaluate_compare(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value a, b;
    bool truth = true;
    ZR_TRY(evaluate(r, node->a, &a));
    for (const zr__node *one = node->list; one && truth; one = one->next, a = b) {
        ZR_TRY(evaluate(r, one, &b));
        ZR_TRY(zr__compare(r, one->compare, &a, &b, &truth));
    }
    *out = zr__bool(truth);
    return ZR_OK;
}

static zr_status evaluate_items(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value value;
    ZR_TRY(zr__list_make(r, (zr__list_kind)node->value.number, 0, out));
    for (const zr__node *one = node->list; one; one = one->next) {
        ZR_TRY(evaluate(r, one, &value));
        ZR_TRY(zr__list_append(r, out->list, value));
    }
    return ZR_OK;
}

static zr_status evaluate_pairs(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value key, value;
    ZR_TRY(zr__dict_make(r, ZR__DICT, out));
    for (const zr__node *one = node->list; one; one = one->next->next) {
        ZR_TRY(evaluate(r, one, &key));
        ZR_TRY(evaluate(r, one->next, &value));
        if (key.kind == ZR__DICT || (key.kind == ZR__LIST && key.list->kind == ZR__A_LIST))
            return zr__run_bad(r, "a %s cannot be a key of a dict", zr__type_name(&key));
        ZR_TRY(zr__dict_put(r, out->dict, key, value));
    }
    return ZR_OK;
}

static zr_status evaluate_slice(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value of, from = zr__none(), to = zr__none(), step = zr__none();
    ZR_TRY(evaluate(r, node->a, &of));
    if (node->b) ZR_TRY(evaluate(r, node->b, &from));
    if (node->c) ZR_TRY(evaluate(r, node->c, &to));
    if (node->d) ZR_TRY(evaluate(r, node->d, &step));
    return zr__slice(r, &of, &from, &to, &step, out);
}

/* Evaluate the condition of a loop for further items, until `wanted` are selected. As in Jinja, evaluation is lazy,
 * since the body may change variables of the condition. */
static zr_status select_items(zr__run *r, loop *l, int64_t wanted)
{
    zr__value truth;
    scope *before = r->scope;
    while (l->node->c && l->items->n < wanted && l->tried < l->of->n) {
        const zr__value one = l->of->item[l->tried++];
        ZR_TRY(new_scope(r, l->outer, &r->scope));
        ZR_TRY(assign(r, l->node->a, one));
        ZR_TRY(evaluate(r, l->node->c, &truth));
        if (zr__is_true(&truth)) ZR_TRY(zr__list_append(r, l->items, one));
    }
    r->scope = before;
    return ZR_OK;
}

/* Return an attribute of `loop`. */
static zr_status loop_attribute(zr__run *r, loop *l, const char *name, zr__value *out)
{
    static const char *const of_next[] = {"last", "nextitem"}, *const of_all[] = {"length", "revindex", "revindex0"};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(name, of_next[i]) == 0) ZR_TRY(select_items(r, l, l->at + 2));
    for (size_t i = 0; i < 3; i++)
        if (strcmp(name, of_all[i]) == 0) ZR_TRY(select_items(r, l, INT64_MAX));
    const int64_t at = l->at, n = l->items->n;
    const struct {
        const char *name;
        zr__value value;
    } attributes[] = {{"index", zr__int(at + 1)},
                      {"index0", zr__int(at)},
                      {"revindex", zr__int(n - at)},
                      {"revindex0", zr__int(n - at - 1)},
                      {"first", zr__bool(at == 0)},
                      {"last", zr__bool(at == n - 1)},
                      {"length", zr__int(n)},
                      {"depth", zr__int(1)},
                      {"depth0", zr__int(0)},
                      {"previtem", at > 0 ? l->items->item[at - 1] : zr__undefined("loop.previtem")},
                      {"nextitem", at + 1 < n ? l->items->item[at + 1] : zr__undefined("loop.nextitem")}};
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (strcmp(name, attributes[i].name) == 0) {
            *out = attributes[i].value;
            return ZR_OK;
        }
    return zr__run_bad(r, "loop.%s is not supported", ZR_SHOWN(name));
}

static zr_status evaluate_attribute(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value of, key = zr__int(0);
    zr__string name = {0};
    ZR_TRY(evaluate(r, node->a, &of));
    if (node->kind == ZR__ITEM) {
        ZR_TRY(evaluate(r, node->b, &key));
    } else {
        name.text = node->name;
        name.bytes = (int64_t)strlen(node->name);
        key = (zr__value){.kind = ZR__STRING, .string = &name};
    }
    r->line = node->line;
    if (of.kind == ZR__LOOP && key.kind == ZR__STRING) {
        char *copy = NULL;
        ZR_TRY(zr__pool_take(&r->pool, key.string->bytes + 1, &copy));
        memcpy(copy, key.string->text, (size_t)key.string->bytes);
        return loop_attribute(r, of.loop, copy, out);
    }
    return zr__attribute(r, &of, &key, node->kind == ZR__ITEM, out);
}

static zr_status evaluate_arguments(zr__run *r, const zr__node *list, zr__args *args)
{
    args->n = 0;
    for (const zr__node *one = list; one; one = one->next) {
        args->key[args->n] = one->key;
        ZR_TRY(evaluate(r, one, &args->value[args->n++]));
    }
    return ZR_OK;
}

/* Set a macro's parameters as variables of its scope. */
static zr_status bind_parameters(zr__run *r, const zr__macro *macro, const zr__args *args)
{
    int used = 0, at = 0;
    zr__value value;
    for (const zr__node *one = macro->node->a; one; one = one->next, at++) {
        const zr__value *given = at < args->n && !args->key[at] ? &args->value[at] : NULL;
        for (int i = 0; i < args->n; i++)
            if (args->key[i] == one->name) {
                if (given) return zr__run_bad(r, "the macro's parameter %s is given twice", ZR_SHOWN(one->name));
                given = &args->value[i];
            }
        used += given != NULL;
        value = zr__undefined(one->name);
        if (given)
            value = *given;
        else if (one->b)
            ZR_TRY(evaluate(r, one->b, &value));
        ZR_TRY(set_variable(r, one->name, value));
    }
    return used == args->n
               ? ZR_OK
               : zr__run_bad(r, "the macro %s has no parameter for one of its arguments", ZR_SHOWN(macro->node->name));
}

/* Execute statements in a scope of their own, and make a string of their output. */
static zr_status capture(zr__run *r, scope *outer, const zr__macro *macro, const zr__args *args, const zr__node *body,
                         zr__value *out)
{
    zr__builder made = {0}, *output = r->out;
    scope *before = r->scope;
    flow how = GO_ON;
    ZR_TRY(new_scope(r, outer, &r->scope));
    r->out = &made;
    if (macro) ZR_TRY(bind_parameters(r, macro, args));
    ZR_TRY(execute(r, body, &how));
    r->scope = before;
    r->out = output;
    return zr__build_done(r, &made, out);
}

static zr_status evaluate_call(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value function;
    zr__args args;
    ZR_TRY(evaluate(r, node->a, &function));
    ZR_TRY(evaluate_arguments(r, node->list, &args));
    r->line = node->line;
    if (function.kind == ZR__FUNCTION) return zr__function_call(r, function.function, function.self, &args, out);
    if (function.kind == ZR__MACRO) {
        ZR_TRY(capture(r, function.macro->scope, function.macro, &args, function.macro->node->list, out));
        r->line = node->line;
        return ZR_OK;
    }
    if (function.kind == ZR__UNDEFINED) return zr__run_bad(r, "the function %s is undefined", ZR_SHOWN(function.name));
    return zr__run_bad(r, "a %s is not a function", zr__type_name(&function));
}

static zr_status evaluate_filtered(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value self;
    zr__args args;
    ZR_TRY(evaluate(r, node->a, &self));
    ZR_TRY(evaluate_arguments(r, node->list, &args));
    r->line = node->line;
    return zr__function_call(r, node->function, &self, &args, out);
}

static zr_status evaluate_sign(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value a;
    const zr__value zero = zr__int(0), minus = zr__int(-1);
    ZR_TRY(evaluate(r, node->a, &a));
    if (!zr__is_number(&a)) return zr__run_bad(r, "a sign before a %s", zr__type_name(&a));
    return node->kind == ZR__NEGATIVE ? zr__binary(r, ZR__MULTIPLY, &a, &minus, out)
                                      : zr__binary(r, ZR__ADD, &a, &zero, out);
}

static zr_status evaluate_logic(zr__run *r, const zr__node *node, zr__value *out)
{
    ZR_TRY(evaluate(r, node->a, out));
    const bool truth = zr__is_true(out);
    switch (node->kind) {
    case ZR__NOT:
        *out = zr__bool(!truth);
        return ZR_OK;
    case ZR__AND:
        return truth ? evaluate(r, node->b, out) : ZR_OK;
    case ZR__OR:
        return truth ? ZR_OK : evaluate(r, node->b, out);
    default:
        break;
    }
    if (truth) return evaluate(r, node->b, out);
    *out = zr__undefined("the value of an if without else");
    return node->c ? evaluate(r, node->c, out) : ZR_OK;
}

static zr_status evaluate_concat(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__builder b = {0};
    for (const zr__node *one = node->list; one; one = one->next) {
        ZR_TRY(evaluate(r, one, out));
        ZR_TRY(zr__print(r, &b, out));
    }
    return zr__build_done(r, &b, out);
}

static zr_status evaluate_binary(zr__run *r, const zr__node *node, zr__value *out)
{
    zr__value a, b;
    ZR_TRY(evaluate(r, node->a, &a));
    ZR_TRY(evaluate(r, node->b, &b));
    r->line = node->line;
    return zr__binary(r, node->op, &a, &b, out);
}

static zr_status evaluate_inside(zr__run *r, const zr__node *node, zr__value *out)
{
    switch (node->kind) {
    case ZR__CONSTANT:
        *out = node->value;
        return ZR_OK;
    case ZR__NAME:
        return get_variable(r, node->name, out);
    case ZR__ITEMS:
        return evaluate_items(r, node, out);
    case ZR__PAIRS:
        return evaluate_pairs(r, node, out);
    case ZR__ATTRIBUTE:
    case ZR__ITEM:
        return evaluate_attribute(r, node, out);
    case ZR__SLICE:
        return evaluate_slice(r, node, out);
    case ZR__CALL:
        return evaluate_call(r, node, out);
    case ZR__FILTERED:
    case ZR__TESTED:
        return evaluate_filtered(r, node, out);
    case ZR__NEGATIVE:
    case ZR__POSITIVE:
        return evaluate_sign(r, node, out);
    case ZR__BINARY:
        return evaluate_binary(r, node, out);
    case ZR__CONCAT:
        return evaluate_concat(r, node, out);
    case ZR__COMPARE:
        return evaluate_compare(r, node, out);
    default:
        return evaluate_logic(r, node, out);
    }
}

static zr_status evaluate(zr__run *r, const zr__node *node, zr__value *out)
{
    ZR_TRY(go_down(r));
    r->line = node->line;
    ZR_TRY(evaluate_inside(r, node, out));
    r->depth--;
    return ZR_OK;
}

/* ---- statements ------------------------------------------------------------------------------ */

static zr_status assign(zr__run *r, const zr__node *target, zr__value value)
{
    zr__list *items = NULL;
    zr__value of;
    if (target->kind == ZR__NAME) return set_variable(r, target->name, value);
    if (target->kind == ZR__ATTRIBUTE) {
        ZR_TRY(get_variable(r, target->a->name, &of));
        if (of.kind != ZR__NAMESPACE)
            return zr__run_bad(r, "%s is not a namespace, so %s cannot be set", ZR_SHOWN(target->a->name),
                               ZR_SHOWN(target->name));
        zr__value key;
        ZR_TRY(zr__string_of(r, target->name, (int64_t)strlen(target->name), ZR__FROM_TEMPLATE, &key));
        return zr__dict_put(r, of.dict, key, value);
    }
    ZR_TRY(zr__items_of(r, &value, &items));
    int64_t i = 0, n = items->n;
    for (const zr__node *one = target->list; one; one = one->next, i++)
        if (i < n) ZR_TRY(assign(r, one, items->item[i]));
    return i == n ? ZR_OK : zr__run_bad(r, "%lld names for %lld values", (long long)i, (long long)n);
}

static zr_status execute_for(zr__run *r, const zr__node *node, flow *outer)
{
    zr__value value;
    scope *before = r->scope;
    flow how = GO_ON;
    loop *l = NULL;
    const char *loop_name = zr__name_find(r->template, "loop");
    ZR_TRY(evaluate(r, node->b, &value));
    r->line = node->line;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*l), &l));
    *l = (loop){.node = node, .outer = before};
    ZR_TRY(zr__items_of(r, &value, &l->items));
    if (node->c) {
        l->of = l->items;
        ZR_TRY(zr__list_make(r, ZR__A_LIST, 0, &value));
        l->items = value.list;
    }
    for (; how != BREAKS; l->at++) {
        ZR_TRY(select_items(r, l, l->at + 1));
        if (l->at >= l->items->n) break;
        ZR_TRY(new_scope(r, before, &r->scope));
        if (loop_name) ZR_TRY(set_variable(r, loop_name, (zr__value){.kind = ZR__LOOP, .loop = l}));
        r->line = node->line;
        ZR_TRY(assign(r, node->a, l->items->item[l->at]));
        how = GO_ON;
        ZR_TRY(execute(r, node->list, &how));
        r->scope = before;
    }
    if (l->at > 0) l->at--;
    if (l->items->n == 0 && node->other) {
        ZR_TRY(new_scope(r, before, &r->scope));
        ZR_TRY(execute(r, node->other, outer));
    }
    r->scope = before;
    return ZR_OK;
}

static zr_status execute_if(zr__run *r, const zr__node *node, flow *how)
{
    zr__value value;
    for (;;) {
        ZR_TRY(evaluate(r, node->a, &value));
        if (zr__is_true(&value)) return execute(r, node->list, how);
        if (!node->other || node->other->kind != ZR__IF || node->other->next) break;
        node = node->other;
    }
    return node->other ? execute(r, node->other, how) : ZR_OK;
}

/* Execute a block whose output is a value, or counts as generated. */
static zr_status execute_block(zr__run *r, const zr__node *node)
{
    zr__value made;
    zr__args args;
    ZR_TRY(capture(r, r->scope, NULL, NULL, node->list, &made));
    if (node->kind == ZR__GENERATION) return zr__build_generated(r, r->out, made.string);
    /* filters apply from the inside out */
    const zr__node *filter[ZR__ARGS];
    int n = 0;
    for (const zr__node *one = node->b; one; one = one->a) {
        if (n == ZR__ARGS) return zr__run_bad(r, "more than %d filters", ZR__ARGS);
        filter[n++] = one;
    }
    while (n-- > 0) {
        const zr__value self = made;
        ZR_TRY(evaluate_arguments(r, filter[n]->list, &args));
        ZR_TRY(zr__function_call(r, filter[n]->function, &self, &args, &made));
    }
    return assign(r, node->a, made);
}

static zr_status define_macro(zr__run *r, const zr__node *node)
{
    zr__macro *macro = NULL;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*macro), &macro));
    *macro = (zr__macro){node, r->scope};
    return set_variable(r, node->name, (zr__value){.kind = ZR__MACRO, .macro = macro});
}

static zr_status execute_one(zr__run *r, const zr__node *node, flow *how)
{
    zr__value value;
    r->line = node->line;
    switch (node->kind) {
    case ZR__DATA:
        return zr__build_string(r, r->out, node->value.string);
    case ZR__PRINT:
        ZR_TRY(evaluate(r, node->a, &value));
        return zr__print(r, r->out, &value);
    case ZR__FOR:
        return execute_for(r, node, how);
    case ZR__IF:
        return execute_if(r, node, how);
    case ZR__SET:
        ZR_TRY(evaluate(r, node->b, &value));
        return assign(r, node->a, value);
    case ZR__DEFINE:
        return define_macro(r, node);
    case ZR__BREAK:
        *how = BREAKS;
        return ZR_OK;
    case ZR__CONTINUE:
        *how = CONTINUES;
        return ZR_OK;
    default:
        return execute_block(r, node);
    }
}

/* Execute statements one after the other, until one leaves the loop around them. */
static zr_status execute(zr__run *r, const zr__node *node, flow *how)
{
    ZR_TRY(go_down(r));
    for (; node && *how == GO_ON; node = node->next) ZR_TRY(execute_one(r, node, how));
    r->depth--;
    return ZR_OK;
}

/* ---- a whole template ------------------------------------------------------------------------ */

/* Set a variable from outside, if the template contains its name. */
static zr_status give(zr__run *r, const char *name, const json_t *json, int32_t source)
{
    zr__value value;
    const char *known = zr__name_find(r->template, name);
    if (!known) return ZR_OK;
    ZR_TRY(zr__value_of_json(r, json, source, false, &value));
    return set_variable(r, known, value);
}

static zr_status give_messages(zr__run *r)
{
    zr__value list, value;
    const json_t *messages = r->args->messages;
    const char *known = zr__name_find(r->template, "messages");
    if (!known) return ZR_OK;
    ZR_TRY(zr__list_make(r, ZR__A_LIST, (int64_t)json_array_size(messages), &list));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        ZR_TRY(zr__value_of_json(r, json_array_get(messages, i), (int32_t)i, true, &value));
        ZR_TRY(zr__list_append(r, list.list, value));
    }
    return set_variable(r, known, list);
}

static zr_status run_template(zr__run *r, zr__template_text *out)
{
    const zr__template_args *args = r->args;
    const char *name;
    json_t *one;
    zr__builder made = {0};
    zr__value text;
    flow how = GO_ON;
    ZR_TRY(new_scope(r, NULL, &r->scope));
    r->out = &made;
    ZR_TRY(give(r, "tools", args->tools, ZR__FROM_DATA));
    ZR_TRY(give(r, "documents", args->documents, ZR__FROM_DATA));
    ZR_TRY(
        give(r, "add_generation_prompt", args->add_generation_prompt ? json_true() : json_false(), ZR__FROM_TEMPLATE));
    json_object_foreach((json_t *)args->more, name, one) ZR_TRY(give(r, name, one, ZR__FROM_TEMPLATE));
    ZR_TRY(give_messages(r));
    ZR_TRY(execute(r, r->template->body, &how));
    ZR_TRY(zr__build_done(r, &made, &text));
    out->text = text.string->text;
    out->bytes = text.string->bytes;
    out->mark = made.mark;
    out->n = made.marks;
    return ZR_OK;
}

zr_status zr__template_run(const zr__template *template, const zr__template_args *args, zr__template_text *out)
{
    *out = (zr__template_text){0};
    zr__run *r = zr_alloc(sizeof(*r));
    ZR_CHECK(r, ZR_ERR_MEMORY, "no memory for a chat template");
    *r = (zr__run){.template = template, .args = args, .pool.most = MOST_BYTES, .line = 1};
    out->run = r;
    return run_template(r, out);
}

void zr__template_release(zr__template_text *text)
{
    if (text->run) zr__pool_clear(&text->run->pool);
    zr_free(text->run);
    *text = (zr__template_text){0};
}
