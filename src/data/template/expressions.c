/* Parses expressions, with the precedences of Jinja2. */
#include "data/template/parse.h"

static zr_status parse_unary(parser *p, bool filters, zr__node **out);

/* ---- primary expressions --------------------------------------------------------------------- */

/* Parse a text, which may consist of several in quotes. */
static zr_status parse_string(parser *p, zr__node *node)
{
    const zr__token *first = p->at;
    zr__string *string = NULL;
    char *text = NULL;
    int64_t bytes = 0;
    for (; p->at->kind == ZR__T_STRING; p->at++) bytes += p->at->bytes;
    ZR_TRY(zr__pool_take(&p->t->pool, bytes + 1, &text));
    ZR_TRY(zr__pool_take(&p->t->pool, sizeof(*string), &string));
    *string = (zr__string){.text = text};
    for (; first < p->at; first++) {
        memcpy(text + string->bytes, first->text, (size_t)first->bytes);
        string->bytes += first->bytes;
    }
    node->value = (zr__value){.kind = ZR__STRING, .string = string};
    return ZR_OK;
}

static zr_status parse_name(parser *p, zr__node *node)
{
    static const char *const of_macros[] = {"varargs", "kwargs", "caller"};
    const char *name = p->at++->text;
    const bool truth = strcmp(name, "true") == 0 || strcmp(name, "True") == 0;
    if (truth || strcmp(name, "false") == 0 || strcmp(name, "False") == 0) {
        node->value = zr__bool(truth);
    } else if (strcmp(name, "none") == 0 || strcmp(name, "None") == 0) {
        node->value = zr__none();
    } else {
        node->kind = ZR__NAME;
        node->name = name;
    }
    for (size_t i = 0; i < sizeof(of_macros) / sizeof(of_macros[0]) && p->in_macro; i++)
        if (strcmp(name, of_macros[i]) == 0) return unsupported(p, node->line, "in a macro, the name", name);
    return ZR_OK;
}

/* Parse expressions with commas between them, up to `close`, which is skipped. `pairs`: key : value. */
static zr_status parse_elements(parser *p, const char *close, bool pairs, zr__node **list)
{
    place end = list;
    zr__node *one = NULL;
    for (bool first = true; !is_op(p, close); first = false) {
        if (!first) ZR_TRY(want_op(p, ","));
        if (is_op(p, close)) break;
        ZR_TRY(zr__parse_expression(p, &one));
        append(&end, one);
        if (!pairs) continue;
        ZR_TRY(want_op(p, ":"));
        ZR_TRY(zr__parse_expression(p, &one));
        append(&end, one);
    }
    return want_op(p, close);
}

/* Return whether the next token ends a tuple without parentheses. */
static bool ends_tuple(const parser *p, const char *end)
{
    return p->at->kind == ZR__T_PRINT_END || p->at->kind == ZR__T_BLOCK_END || is_op(p, ")") ||
           (end && is_word(p, end));
}

static zr_status parse_primary(parser *p, bool may_assign, zr__node **out);
static zr_status parse_or(parser *p, zr__node **out);

/* Parse an expression, or several with commas: a tuple. OF_SIMPLE has no `if`, OF_TARGETS only names. `end` is a word
 * that ends it, or NULL. */
zr_status zr__parse_tuple(parser *p, tuple_of of, const char *end, bool may_be_empty, zr__node **out)
{
    zr__node *tuple = NULL, *one = NULL;
    bool commas = false;
    ZR_TRY(go_down(p));
    ZR_TRY(new_node(p, ZR__ITEMS, &tuple));
    tuple->value = zr__int(ZR__A_TUPLE);
    place last = &tuple->list;
    while (!ends_tuple(p, end)) {
        if (of == OF_TARGETS)
            ZR_TRY(parse_primary(p, true, &one));
        else
            ZR_TRY((of == OF_SIMPLE ? parse_or : zr__parse_expression)(p, &one));
        append(&last, one);
        if (!skip_op(p, ",")) break;
        commas = true;
    }
    if (!commas && !tuple->list && !may_be_empty)
        return zr__template_wrong(p->t, p->at->line, ZR_ERR_DATA, "expected an expression, not %s", SHOWN_TOKEN(p->at));
    *out = commas || !tuple->list ? tuple : tuple->list;
    p->depth--;
    return ZR_OK;
}

/* Parse a name, a constant, a list, a dict, or an expression in parentheses. */
static zr_status parse_primary(parser *p, bool may_assign, zr__node **out)
{
    const zr__token *token = p->at;
    zr__node *node = NULL;
    ZR_TRY(new_node(p, ZR__CONSTANT, &node));
    *out = node;
    if (token->kind == ZR__T_NAME) {
        ZR_TRY(parse_name(p, node));
        if (!may_assign || !skip_op(p, ".")) return ZR_OK;
        node->kind = ZR__ATTRIBUTE; /* namespace.name = ... */
        ZR_TRY(new_node(p, ZR__NAME, &node->a));
        node->a->name = node->name;
        return want_name(p, &node->name);
    }
    if (token->kind == ZR__T_STRING) return parse_string(p, node);
    if (token->kind == ZR__T_INT || token->kind == ZR__T_REAL) {
        p->at++;
        node->value =
            token->kind == ZR__T_INT ? zr__int(token->number) : (zr__value){.kind = ZR__REAL, .real = token->real};
        return ZR_OK;
    }
    if (skip_op(p, "(")) {
        ZR_TRY(zr__parse_tuple(p, may_assign ? OF_TARGETS : OF_EXPRESSIONS, NULL, true, out));
        return want_op(p, ")");
    }
    if (skip_op(p, "[")) {
        node->kind = ZR__ITEMS;
        node->value = zr__int(ZR__A_LIST);
        return parse_elements(p, "]", false, &node->list);
    }
    if (skip_op(p, "{")) {
        node->kind = ZR__PAIRS;
        return parse_elements(p, "}", true, &node->list);
    }
    return zr__template_wrong(p->t, token->line, ZR_ERR_DATA, "unexpected %s", SHOWN_TOKEN(token));
}

/* ---- postfix expressions --------------------------------------------------------------------- */

/* Parse arguments, whose parenthesis has been skipped. */
static zr_status parse_arguments(parser *p, zr__node **list)
{
    place end = list;
    int n = 0;
    bool keys = false;
    for (; !is_op(p, ")"); n++) {
        const char *key = NULL;
        zr__node *one = NULL;
        if (n > 0) ZR_TRY(want_op(p, ","));
        if (is_op(p, ")")) break;
        if (is_op(p, "*") || is_op(p, "**")) return unsupported(p, p->at->line, "an argument with", p->at->text);
        if (p->at->kind == ZR__T_NAME && p->at[1].kind == ZR__T_OPERATOR && strcmp(p->at[1].text, "=") == 0) {
            key = p->at->text;
            p->at += 2;
        }
        if (keys && !key)
            return zr__template_wrong(p->t, p->at->line, ZR_ERR_DATA,
                                      "an argument without a name follows one with a name");
        keys = key != NULL;
        if (n == ZR__ARGS)
            return zr__template_wrong(p->t, p->at->line, ZR_ERR_UNSUPPORTED, "more than %d arguments", ZR__ARGS);
        ZR_TRY(zr__parse_expression(p, &one));
        one->key = key;
        append(&end, one);
    }
    return want_op(p, ")");
}

/* Parse the index or slice after "[". */
static zr_status parse_index(parser *p, zr__node *of, zr__node **out)
{
    zr__node *index = NULL, *part = NULL;
    ZR_TRY(new_unary(p, ZR__ITEM, of, &index));
    *out = index;
    if (!is_op(p, ":")) ZR_TRY(zr__parse_expression(p, &index->b));
    if (is_op(p, ",")) return unsupported(p, index->line, "an index with", ",");
    for (int i = 0; i < 2 && skip_op(p, ":"); i++) {
        index->kind = ZR__SLICE;
        part = NULL;
        if (!is_op(p, ":") && !is_op(p, "]")) ZR_TRY(zr__parse_expression(p, &part));
        if (i == 0)
            index->c = part;
        else
            index->d = part;
    }
    return want_op(p, "]");
}

static zr_status parse_call(parser *p, zr__node *of, zr__node **out)
{
    ZR_TRY(new_unary(p, ZR__CALL, of, out));
    if (of->kind == ZR__ATTRIBUTE && !zr__is_method(of->name)) return unsupported(p, of->line, "the method", of->name);
    return parse_arguments(p, &(*out)->list);
}

/* Parse attributes, indices and calls that follow an expression. */
static zr_status parse_postfix(parser *p, zr__node **node)
{
    for (;;) {
        zr__node *of = *node;
        if (skip_op(p, ".")) {
            if (p->at->kind == ZR__T_INT) {
                ZR_TRY(new_unary(p, ZR__ITEM, of, node));
                ZR_TRY(parse_primary(p, false, &(*node)->b));
            } else {
                ZR_TRY(new_unary(p, ZR__ATTRIBUTE, of, node));
                ZR_TRY(want_name(p, &(*node)->name));
            }
        } else if (skip_op(p, "[")) {
            ZR_TRY(parse_index(p, of, node));
        } else if (skip_op(p, "(")) {
            ZR_TRY(parse_call(p, of, node));
        } else {
            return ZR_OK;
        }
    }
}

/* Parse a filter, whose "|" has been skipped. `of` may be NULL. */
zr_status zr__parse_filter(parser *p, zr__node *of, zr__node **out)
{
    const int line = p->at->line;
    ZR_TRY(new_unary(p, ZR__FILTERED, of, out));
    (*out)->line = line;
    ZR_TRY(want_name(p, &(*out)->name));
    (*out)->function = zr__function_named(ZR__FILTER, (*out)->name);
    if (!(*out)->function) return unsupported(p, line, "the filter", (*out)->name);
    return skip_op(p, "(") ? parse_arguments(p, &(*out)->list) : ZR_OK;
}

/* Parse a test, whose "is" has been skipped. */
static zr_status parse_test(parser *p, zr__node *of, zr__node **out)
{
    zr__node *node = NULL;
    const int line = p->at->line;
    const bool negated = skip_word(p, "not");
    ZR_TRY(new_unary(p, ZR__TESTED, of, &node));
    ZR_TRY(want_name(p, &node->name));
    node->function = zr__function_named(ZR__TEST, node->name);
    if (!node->function) return unsupported(p, line, "the test", node->name);
    const bool begins = p->at->kind == ZR__T_NAME || p->at->kind == ZR__T_STRING || p->at->kind == ZR__T_INT ||
                        p->at->kind == ZR__T_REAL || is_op(p, "[") || is_op(p, "{");
    if (skip_op(p, "(")) {
        ZR_TRY(parse_arguments(p, &node->list));
    } else if (is_word(p, "is")) {
        return zr__template_wrong(p->t, line, ZR_ERR_DATA, "a test follows a test");
    } else if (begins && !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and")) {
        ZR_TRY(parse_primary(p, false, &node->list));
        ZR_TRY(parse_postfix(p, &node->list));
    }
    *out = node;
    return negated ? new_unary(p, ZR__NOT, node, out) : ZR_OK;
}

static zr_status parse_filters(parser *p, zr__node **node)
{
    for (;;) {
        zr__node *of = *node;
        if (skip_op(p, "|"))
            ZR_TRY(zr__parse_filter(p, of, node));
        else if (skip_word(p, "is"))
            ZR_TRY(parse_test(p, of, node));
        else if (skip_op(p, "("))
            ZR_TRY(parse_call(p, of, node));
        else
            return ZR_OK;
    }
}

/* ---- operators ------------------------------------------------------------------------------- */

static zr_status parse_unary(parser *p, bool filters, zr__node **out)
{
    zr__node *a = NULL;
    ZR_TRY(go_down(p));
    if (is_op(p, "-") || is_op(p, "+")) {
        const bool negative = is_op(p, "-");
        p->at++;
        ZR_TRY(parse_unary(p, false, &a));
        ZR_TRY(new_unary(p, negative ? ZR__NEGATIVE : ZR__POSITIVE, a, out));
    } else {
        ZR_TRY(parse_primary(p, false, out));
    }
    ZR_TRY(parse_postfix(p, out));
    if (filters) ZR_TRY(parse_filters(p, out));
    p->depth--;
    return ZR_OK;
}

typedef zr_status (*level)(parser *p, zr__node **out);

static zr_status parse_filtered(parser *p, zr__node **out)
{
    return parse_unary(p, true, out);
}

static const struct {
    const char *text;
    zr__op op;
    int level; /* 0 binds strongest */
} operators[] = {{"**", ZR__POWER, 0},        {"*", ZR__MULTIPLY, 1},    {"/", ZR__DIVIDE, 1},
                 {"//", ZR__FLOOR_DIVIDE, 1}, {"%", ZR__MODULO, 1},      {"+", ZR__ADD, 2},
                 {"-", ZR__SUBTRACT, 2},      {"==", ZR__EQUAL, 3},      {"!=", ZR__NOT_EQUAL, 3},
                 {"<", ZR__LESS, 3},          {"<=", ZR__LESS_EQUAL, 3}, {">", ZR__GREATER, 3},
                 {">=", ZR__GREATER_EQUAL, 3}};

/* Skip an operator of a level if it is next. */
static bool skip_operator(parser *p, int of_level, zr__op *op)
{
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (operators[i].level == of_level && skip_op(p, operators[i].text)) {
            *op = operators[i].op;
            return true;
        }
    return false;
}

/* Parse operands of one level of binary operators, from left to right. */
static zr_status parse_binary(parser *p, int of_level, level operand, zr__node **out)
{
    zr__op op;
    ZR_TRY(operand(p, out));
    while (skip_operator(p, of_level, &op)) {
        zr__node *b = NULL;
        ZR_TRY(operand(p, &b));
        ZR_TRY(new_binary(p, ZR__BINARY, *out, b, out));
        (*out)->op = op;
    }
    return ZR_OK;
}

static zr_status parse_power(parser *p, zr__node **out)
{
    return parse_binary(p, 0, parse_filtered, out);
}

static zr_status parse_product(parser *p, zr__node **out)
{
    return parse_binary(p, 1, parse_power, out);
}

static zr_status parse_concat(parser *p, zr__node **out)
{
    zr__node *one = NULL, *all = NULL;
    ZR_TRY(parse_product(p, out));
    if (!is_op(p, "~")) return ZR_OK;
    ZR_TRY(new_node(p, ZR__CONCAT, &all));
    place end = &all->list;
    append(&end, *out);
    while (skip_op(p, "~")) {
        ZR_TRY(parse_product(p, &one));
        append(&end, one);
    }
    *out = all;
    return ZR_OK;
}

static zr_status parse_sum(parser *p, zr__node **out)
{
    return parse_binary(p, 2, parse_concat, out);
}

static zr_status parse_compare(parser *p, zr__node **out)
{
    zr__node *all = NULL, *one = NULL;
    place end = NULL;
    ZR_TRY(parse_sum(p, out));
    for (zr__op op;;) {
        const bool not_in = is_word(p, "not") && p->at[1].kind == ZR__T_NAME && strcmp(p->at[1].text, "in") == 0;
        p->at += not_in;
        if (not_in || is_word(p, "in")) {
            p->at++;
            op = not_in ? ZR__NOT_IN : ZR__IN;
        } else if (!skip_operator(p, 3, &op)) {
            return ZR_OK;
        }
        if (!all) {
            ZR_TRY(new_unary(p, ZR__COMPARE, *out, &all));
            end = &all->list;
            *out = all;
        }
        ZR_TRY(parse_sum(p, &one));
        one->compare = op;
        append(&end, one);
    }
}

static zr_status parse_not(parser *p, zr__node **out)
{
    zr__node *a = NULL;
    if (!skip_word(p, "not")) return parse_compare(p, out);
    ZR_TRY(go_down(p));
    ZR_TRY(parse_not(p, &a));
    p->depth--;
    return new_unary(p, ZR__NOT, a, out);
}

/* Parse operands that a word joins, from the left. */
static zr_status parse_joined(parser *p, const char *word, zr__node_kind operation,
                              zr_status (*parse)(parser *, zr__node **), zr__node **out)
{
    ZR_TRY(parse(p, out));
    while (skip_word(p, word)) {
        zr__node *b = NULL;
        ZR_TRY(parse(p, &b));
        ZR_TRY(new_binary(p, operation, *out, b, out));
    }
    return ZR_OK;
}

static zr_status parse_and(parser *p, zr__node **out)
{
    return parse_joined(p, "and", ZR__AND, parse_not, out);
}

static zr_status parse_or(parser *p, zr__node **out)
{
    return parse_joined(p, "or", ZR__OR, parse_and, out);
}

/* Parse an expression, possibly with `if` and `else`. */
zr_status zr__parse_expression(parser *p, zr__node **out)
{
    ZR_TRY(go_down(p));
    ZR_TRY(parse_or(p, out));
    while (skip_word(p, "if")) {
        zr__node *test = NULL;
        ZR_TRY(parse_or(p, &test));
        ZR_TRY(new_binary(p, ZR__CHOICE, test, *out, out));
        if (skip_word(p, "else")) ZR_TRY(zr__parse_expression(p, &(*out)->c));
    }
    p->depth--;
    return ZR_OK;
}
