/** The parser of templates: its state, and the functions that the parsers of statements (parse.c) and expressions
 * (expressions.c) share. */
#ifndef ZR_DATA_TEMPLATE_PARSE_H
#define ZR_DATA_TEMPLATE_PARSE_H

#include "base/text/text.h"
#include "data/template/tree.h"

#include <stdio.h>
#include <string.h>

/* depth of nested statements and expressions */
enum { MOST_DEPTH = 200 };

typedef struct parser {
    zr__template *t;
    const zr__token *at; /* the next token */
    int depth, loops;    /* loops: number of loops around the statement, which `break` can leave */
    bool in_macro;
} parser;

/* A growing list of nodes: the place of the next one. */
typedef zr__node **place;

/* ---- tokens ---------------------------------------------------------------------------------- */

static inline zr_status new_node(parser *p, zr__node_kind kind, zr__node **out)
{
    zr__node *node = NULL;
    ZR_TRY(zr__pool_take(&p->t->pool, sizeof(*node), &node));
    node->kind = kind;
    node->line = p->at->line;
    *out = node;
    return ZR_OK;
}

static inline zr_status new_unary(parser *p, zr__node_kind kind, zr__node *a, zr__node **out)
{
    zr__node *node = NULL;
    ZR_TRY(new_node(p, kind, &node));
    node->a = a;
    if (a) node->line = a->line;
    *out = node;
    return ZR_OK;
}

static inline zr_status new_binary(parser *p, zr__node_kind kind, zr__node *a, zr__node *b, zr__node **out)
{
    ZR_TRY(new_unary(p, kind, a, out));
    (*out)->b = b;
    return ZR_OK;
}

static inline void append(place *end, zr__node *node)
{
    **end = node;
    *end = &node->next;
}

static inline bool is_op(const parser *p, const char *op)
{
    return p->at->kind == ZR__T_OPERATOR && strcmp(p->at->text, op) == 0;
}

static inline bool is_word(const parser *p, const char *word)
{
    return p->at->kind == ZR__T_NAME && strcmp(p->at->text, word) == 0;
}

/* Skip an operator or a word if it is next. */
static inline bool skip_op(parser *p, const char *op)
{
    const bool is = is_op(p, op);
    p->at += is;
    return is;
}

static inline bool skip_word(parser *p, const char *word)
{
    const bool is = is_word(p, word);
    p->at += is;
    return is;
}

static inline const char *shown(const zr__token *token, char out[80])
{
    static const char *const kinds[] = {"the end of the template",
                                        "text",
                                        "{{",
                                        "the end of the tag",
                                        "{%",
                                        "the end of the tag",
                                        NULL,
                                        "a text in quotes",
                                        "a number",
                                        "a number",
                                        NULL};
    if (kinds[token->kind]) return kinds[token->kind];
    snprintf(out, 80, "\"%.60s\"", token->text);
    return out;
}
#define SHOWN_TOKEN(token) shown((token), (char[80]){0})

static inline zr_status want_op(parser *p, const char *op)
{
    if (skip_op(p, op)) return ZR_OK;
    return zr__template_wrong(p->t, p->at->line, ZR_ERR_DATA, "expected \"%s\", not %s", op, SHOWN_TOKEN(p->at));
}

static inline zr_status want_word(parser *p, const char *word)
{
    if (skip_word(p, word)) return ZR_OK;
    return zr__template_wrong(p->t, p->at->line, ZR_ERR_DATA, "expected \"%s\", not %s", word, SHOWN_TOKEN(p->at));
}

static inline zr_status want_name(parser *p, const char **name)
{
    if (p->at->kind != ZR__T_NAME)
        return zr__template_wrong(p->t, p->at->line, ZR_ERR_DATA, "expected a name, not %s", SHOWN_TOKEN(p->at));
    *name = p->at++->text;
    return ZR_OK;
}

static inline zr_status want_end(parser *p)
{
    if (p->at->kind != ZR__T_BLOCK_END)
        return zr__template_wrong(p->t, p->at->line, ZR_ERR_DATA, "expected the end of the tag (%%}), not %s",
                                  SHOWN_TOKEN(p->at));
    p->at++;
    return ZR_OK;
}

static inline zr_status unsupported(const parser *p, int line, const char *what, const char *name)
{
    return zr__template_wrong(p->t, line, ZR_ERR_UNSUPPORTED, "%s %s is not supported by zr", what, ZR_SHOWN(name));
}

/* Go one level deeper into nested statements or expressions. */
static inline zr_status go_down(parser *p)
{
    if (++p->depth <= MOST_DEPTH) return ZR_OK;
    return zr__template_wrong(p->t, p->at->line, ZR_ERR_UNSUPPORTED, "more than %d levels of nested parts", MOST_DEPTH);
}

/* ---- expressions ----------------------------------------------------------------------------- */

typedef enum tuple_of { OF_EXPRESSIONS, OF_SIMPLE, OF_TARGETS } tuple_of;

/** Parse an expression, possibly with `if` and `else`. */
ZR_NODISCARD zr_status zr__parse_expression(parser *p, zr__node **out);
/** Parse an expression, or several with commas: a tuple. OF_SIMPLE has no `if`, OF_TARGETS only names. `end` is a word
 * that ends it, or NULL. */
ZR_NODISCARD zr_status zr__parse_tuple(parser *p, tuple_of of, const char *end, bool may_be_empty, zr__node **out);
/** Parse a filter, whose "|" has been skipped. `of` may be NULL. */
ZR_NODISCARD zr_status zr__parse_filter(parser *p, zr__node *of, zr__node **out);

#endif
