/* Makes the tree of a template from its tokens. The grammar is Jinja2's. */
#include "data/template/parse.h"

static zr_status parse_body(parser *p, const char *const *ends, zr__node **out);

/* Check that an expression can be assigned to. */
static zr_status check_target(parser *p, const zr__node *target, bool attributes)
{
    const bool tuple = target->kind == ZR__ITEMS && target->value.number == ZR__A_TUPLE;
    if (target->kind == ZR__NAME || (attributes && target->kind == ZR__ATTRIBUTE)) return ZR_OK;
    if (!tuple) return zr__template_wrong(p->t, target->line, ZR_ERR_DATA, "only names can be assigned to");
    for (const zr__node *one = target->list; one; one = one->next) ZR_TRY(check_target(p, one, attributes));
    return ZR_OK;
}

static zr_status parse_for(parser *p, zr__node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const end[] = {"endfor", NULL};
    ZR_TRY(zr__parse_tuple(p, OF_TARGETS, "in", false, &node->a));
    ZR_TRY(check_target(p, node->a, false));
    ZR_TRY(want_word(p, "in"));
    ZR_TRY(zr__parse_tuple(p, OF_SIMPLE, "recursive", false, &node->b));
    if (skip_word(p, "if")) ZR_TRY(zr__parse_expression(p, &node->c));
    if (is_word(p, "recursive")) return unsupported(p, node->line, "a loop that is", "recursive");
    p->loops++;
    ZR_TRY(parse_body(p, ends, &node->list));
    p->loops--;
    if (skip_word(p, "endfor")) return ZR_OK;
    p->at++; /* else */
    ZR_TRY(parse_body(p, end, &node->other));
    p->at++;
    return ZR_OK;
}

static zr_status parse_if(parser *p, zr__node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const end[] = {"endif", NULL};
    for (;;) {
        ZR_TRY(zr__parse_tuple(p, OF_SIMPLE, NULL, false, &node->a));
        ZR_TRY(parse_body(p, ends, &node->list));
        if (skip_word(p, "endif")) return ZR_OK;
        if (skip_word(p, "else")) {
            ZR_TRY(parse_body(p, end, &node->other));
            p->at++;
            return ZR_OK;
        }
        p->at++; /* elif */
        ZR_TRY(new_node(p, ZR__IF, &node->other));
        node = node->other;
    }
}

static zr_status parse_set(parser *p, zr__node *node)
{
    static const char *const end[] = {"endset", NULL};
    ZR_TRY(zr__parse_tuple(p, OF_TARGETS, NULL, false, &node->a));
    ZR_TRY(check_target(p, node->a, true));
    if (skip_op(p, "=")) return zr__parse_tuple(p, OF_EXPRESSIONS, NULL, false, &node->b);
    node->kind = ZR__SET_BLOCK;
    while (skip_op(p, "|")) ZR_TRY(zr__parse_filter(p, node->b, &node->b));
    ZR_TRY(parse_body(p, end, &node->list));
    p->at++;
    return ZR_OK;
}

static zr_status parse_macro(parser *p, zr__node *node)
{
    static const char *const end[] = {"endmacro", NULL};
    const parser outer = *p;
    place last = &node->a;
    ZR_TRY(want_name(p, &node->name));
    ZR_TRY(want_op(p, "("));
    for (bool defaults = false; !skip_op(p, ")");) {
        zr__node *parameter = NULL;
        if (node->a) ZR_TRY(want_op(p, ","));
        ZR_TRY(new_node(p, ZR__NAME, &parameter));
        ZR_TRY(want_name(p, &parameter->name));
        if (skip_op(p, "="))
            ZR_TRY(zr__parse_expression(p, &parameter->b));
        else if (defaults)
            return zr__template_wrong(p->t, node->line, ZR_ERR_DATA,
                                      "a parameter without a default follows one with a default");
        defaults = parameter->b != NULL;
        append(&last, parameter);
    }
    p->in_macro = true;
    p->loops = 0;
    ZR_TRY(parse_body(p, end, &node->list));
    p->in_macro = outer.in_macro;
    p->loops = outer.loops;
    p->at++;
    return ZR_OK;
}

static zr_status parse_generation(parser *p, zr__node *node)
{
    static const char *const end[] = {"endgeneration", NULL};
    const int loops = p->loops;
    p->t->generates = true;
    p->loops = 0;
    ZR_TRY(parse_body(p, end, &node->list));
    p->loops = loops;
    p->at++;
    return ZR_OK;
}

/* Parse a statement, whose first word is p->at. */
static zr_status parse_statement(parser *p, zr__node **out)
{
    static const struct {
        const char *word;
        zr__node_kind kind;
        zr_status (*parse)(parser *p, zr__node *node);
    } statements[] = {{"for", ZR__FOR, parse_for},
                      {"if", ZR__IF, parse_if},
                      {"set", ZR__SET, parse_set},
                      {"macro", ZR__DEFINE, parse_macro},
                      {"generation", ZR__GENERATION, parse_generation},
                      {"break", ZR__BREAK, NULL},
                      {"continue", ZR__CONTINUE, NULL}};
    const int line = p->at->line;
    const char *word = NULL;
    ZR_TRY(want_name(p, &word));
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (strcmp(word, statements[i].word) != 0) continue;
        ZR_TRY(new_node(p, statements[i].kind, out));
        (*out)->line = line;
        if (statements[i].parse) return statements[i].parse(p, *out);
        return p->loops > 0
                   ? ZR_OK
                   : zr__template_wrong(p->t, line, ZR_ERR_DATA, "\"%s\" is not in a loop that it could leave", word);
    }
    if (strncmp(word, "end", 3) == 0 || strcmp(word, "else") == 0 || strcmp(word, "elif") == 0)
        return zr__template_wrong(p->t, line, ZR_ERR_DATA, "\"%s\" belongs to no tag before it", word);
    return unsupported(p, line, "the statement", word);
}

/* Parse text and tags up to a tag that begins with one of the words `ends`, or to the end of the template if `ends` is
 * NULL. p->at becomes that word. The last word of `ends` is the word that the tag needs. First end the tag before the
 * body. */
static zr_status parse_body(parser *p, const char *const *ends, zr__node **out)
{
    place last = out;
    const int line = p->at->line;
    zr__node *node = NULL;
    ZR_TRY(go_down(p));
    if (ends) ZR_TRY(want_end(p));
    while (p->at->kind != ZR__T_END) {
        if (p->at->kind == ZR__T_DATA) {
            ZR_TRY(new_node(p, ZR__DATA, &node));
            zr__string *string = NULL;
            ZR_TRY(zr__pool_take(&p->t->pool, sizeof(*string), &string));
            *string = (zr__string){.text = p->at->text, .bytes = p->at->bytes};
            node->value = (zr__value){.kind = ZR__STRING, .string = string};
            p->at++;
        } else if (p->at++->kind == ZR__T_PRINT_BEGIN) {
            ZR_TRY(new_node(p, ZR__PRINT, &node));
            ZR_TRY(zr__parse_tuple(p, OF_EXPRESSIONS, NULL, false, &node->a));
            if (p->at->kind != ZR__T_PRINT_END)
                return zr__template_wrong(p->t, p->at->line, ZR_ERR_DATA, "expected the end of the tag (}}), not %s",
                                          SHOWN_TOKEN(p->at));
            p->at++;
        } else {
            for (int i = 0; ends && ends[i]; i++)
                if (is_word(p, ends[i])) {
                    p->depth--;
                    return ZR_OK;
                }
            ZR_TRY(parse_statement(p, &node));
            ZR_TRY(want_end(p));
        }
        append(&last, node);
    }
    p->depth--;
    if (!ends) return ZR_OK;
    while (ends[1]) ends++;
    return zr__template_wrong(p->t, line, ZR_ERR_DATA, "the tag has no \"%s\"", ends[0]);
}

zr_status zr__template_parse(zr__template *t)
{
    parser p = {.t = t, .at = t->token};
    return parse_body(&p, NULL, &t->body);
}
