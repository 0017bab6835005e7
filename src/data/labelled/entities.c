/* Entities of tagged sentences, counted as seqeval 1.2 counts them by default. */
#include "data/labelled/labelled.h"

#include <stdio.h>
#include <string.h>

/* A tag: B, I, E, S, O or another character, and the type of its entity. */
typedef struct tag {
    char kind;
    const char *type;
} tag;

/* Return the parts of a tag's name, such as B-PER. The type follows the first hyphen after the first character; without
 * a hyphen it is the rest of the name. */
static tag parse(const char *name)
{
    const char *rest = *name ? name + 1 : name;
    while (((unsigned char)*rest & 0xc0) == 0x80) rest++; /* the rest of a character */
    const char *dash = strchr(rest, '-');
    const char *type = dash ? dash + 1 : rest;
    return (tag){*name, *type ? type : "_"};
}

static bool is_in(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Return whether an entity ends between two tags. */
static bool ends(const tag *last, const tag *next)
{
    return is_in(last->kind, "ES") || (is_in(last->kind, "BI") && is_in(next->kind, "BSO")) ||
           (!is_in(last->kind, "O.") && strcmp(last->type, next->type) != 0);
}

/* Return whether an entity begins between two tags. */
static bool begins(const tag *last, const tag *next)
{
    return is_in(next->kind, "BS") || (is_in(last->kind, "ESO") && is_in(next->kind, "EI")) ||
           (!is_in(next->kind, "O.") && strcmp(last->type, next->type) != 0);
}

/* A pass over the tags of a sentence. */
typedef struct walk {
    tag last;
    int64_t begin; /* index of the first word of the entity */
} walk;

/* Go on to word i. If an entity ends before it, set *type and *begin, and return true. */
static bool step(walk *w, const char *name, int64_t i, const char **type, int64_t *begin)
{
    const tag next = parse(name);
    const bool found = ends(&w->last, &next);
    *type = w->last.type;
    *begin = w->begin;
    if (begins(&w->last, &next)) w->begin = i;
    w->last = next;
    return found;
}

void zr__entities_add(zr__entities *e, const char *const *names, const int32_t *right, const int32_t *found, int64_t n)
{
    static const tag outside = {'O', "_"};
    walk a = {.last = outside}, b = {.last = outside};
    for (int64_t i = 0; i <= n; i++) {
        const char *a_type, *b_type;
        int64_t a_begin, b_begin;
        const bool in_right = step(&a, i < n ? names[right[i]] : "O", i, &a_type, &a_begin),
                   in_found = step(&b, i < n ? names[found[i]] : "O", i, &b_type, &b_begin);
        e->right += in_right;
        e->found += in_found;
        e->both += in_right && in_found && a_begin == b_begin && strcmp(a_type, b_type) == 0;
        if (i < n) e->words_right += right[i] == found[i];
    }
    e->words += n;
}

zr__entities_scored zr__entities_score(const zr__entities *e)
{
    const double precision = e->found > 0 ? (double)e->both / (double)e->found : 0,
                 recall = e->right > 0 ? (double)e->both / (double)e->right : 0, sum = precision + recall;
    return (zr__entities_scored){
        .precision = precision, .recall = recall, .f1 = sum > 0 ? 2 * precision * recall / sum : 0};
}
