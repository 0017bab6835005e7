#include "data/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b)
{
    const zr__added *x = a, *y = b;
    const int order = memcmp(x->text, y->text, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    if (order != 0) return order;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

void zr__added_index(zr__added_list *list)
{
    int64_t n = 0;
    if (list->n > 1) qsort(list->added, (size_t)list->n, sizeof(*list->added), by_text);
    for (int64_t i = 0; i < list->n; i++) {
        zr__added *a = &list->added[i], *last = n > 0 ? &list->added[n - 1] : NULL;
        if (last && last->bytes == a->bytes && memcmp(last->text, a->text, (size_t)a->bytes) == 0) {
            zr_free(a->text);
            a->text = NULL;
            continue;
        }
        list->begins[(unsigned char)a->text[0]] = true;
        if (a->bytes > 1) list->follows[(unsigned char)a->text[1]] = true;
        if (a->bytes == 1) memset(list->follows, true, sizeof(list->follows));
        list->added[n++] = *a;
    }
    list->n = n;
}

void zr__added_free(zr__added_list *list)
{
    for (int64_t i = 0; i < list->n; i++) zr_free(list->added[i].text);
    zr_free(list->added);
    *list = (zr__added_list){.n = 0};
}

/* Return the first token in added[low, high) whose byte number k is at least `byte` (greater than `byte` if `above`).
 * All tokens of the range have the same first k bytes. A token of exactly k bytes comes first. */
static int64_t bound(const zr__added_list *list, int64_t low, int64_t high, int64_t k, unsigned char byte, bool above)
{
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const zr__added *a = &list->added[middle];
        const int own = a->bytes > k ? (unsigned char)a->text[k] : -1;
        if (own < byte || (above && own == byte))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Return the longest token at the beginning of the text, or NULL. */
static const zr__added *longest_at(const zr__added_list *list, const char *text, int64_t bytes)
{
    const zr__added *best = NULL;
    int64_t low = 0, high = list->n;
    for (int64_t k = 0; low < high && k < bytes; k++) {
        const unsigned char byte = (unsigned char)text[k];
        low = bound(list, low, high, k, byte, false);
        high = bound(list, low, high, k, byte, true);
        if (low < high && list->added[low].bytes == k + 1) best = &list->added[low];
    }
    return best;
}

/* Find the leftmost token from *at on, and set *at to its beginning. */
static const zr__added *leftmost(const zr__added_list *list, const char *text, int64_t bytes, int64_t *at)
{
    for (; *at < bytes; ++*at) {
        if (!list->begins[(unsigned char)text[*at]]) continue;
        if (*at + 1 < bytes && !list->follows[(unsigned char)text[*at + 1]]) continue;
        const zr__added *a = longest_at(list, text + *at, bytes - *at);
        if (a) return a;
    }
    return NULL;
}

static int64_t previous(const char *text, int64_t at)
{
    for (at--; at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80;) at--;
    return at;
}

static int64_t next(const char *text, int64_t at, int64_t bytes)
{
    for (at++; at < bytes && ((unsigned char)text[at] & 0xc0) == 0x80;) at++;
    return at;
}

bool zr__added_next(const zr__added_list *list, const zr__classes *classes, const char *text, int64_t bytes,
                    zr__added_search *search, zr__added_found *found)
{
    const unsigned space = ZR__BIT(ZR__SPACE);
    for (const zr__added *a; (a = list->n ? leftmost(list, text, bytes, &search->at) : NULL);) {
        int64_t from = search->at, to = from + a->bytes;
        search->at = to;
        if (a->single_word && ((from > 0 && zr__class_before(classes, text, from, ZR__WORDS)) ||
                               (to < bytes && zr__class_behind(classes, text, to, bytes, ZR__WORDS))))
            continue;
        while (a->lstrip && from > search->done && zr__class_before(classes, text, from, space))
            from = previous(text, from);
        while (a->rstrip && to < bytes && zr__class_behind(classes, text, to, bytes, space)) to = next(text, to, bytes);
        *found = (zr__added_found){a, from, to};
        search->done = to;
        return true;
    }
    return false;
}
