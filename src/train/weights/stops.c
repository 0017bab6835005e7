#include "train/weights/stops.h"

#include <string.h>

/* Return whether a stop text begins at offset `at` of the held text. With `begun`, the beginning of a stop text at the
 * end of the held text counts too. */
static bool stands_at(const zr__stops *s, int64_t at, bool begun)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t length = (int64_t)strlen(s->stop[i]), left = (int64_t)s->held.length - at;
        if (length > left && !begun) continue;
        if (memcmp(s->held.data + at, s->stop[i], (size_t)(length < left ? length : left)) == 0) return true;
    }
    return false;
}

/* Return the first offset at which a stop text begins (stands_at), or the length of the held text. */
static int64_t first(const zr__stops *s, bool begun)
{
    int64_t at = 0, n = (int64_t)s->held.length;
    while (at < n && !stands_at(s, at, begun)) at++;
    return at;
}

zr_status zr__stops_add(zr__stops *s, const char *piece, int64_t bytes, int64_t *ready, bool *found)
{
    zr__text_append(&s->held, piece, (size_t)bytes);
    ZR_CHECK(!s->held.failed, ZR_ERR_MEMORY, "no memory for a text of more than %zu bytes", s->held.length);
    *ready = first(s, false);
    *found = *ready < (int64_t)s->held.length;
    /* Look for an incomplete stop text only if there is no complete stop text. A complete stop text ends the text, even
     * if an incomplete stop text begins before it. */
    if (!*found) *ready = first(s, true);
    return ZR_OK;
}

void zr__stops_told(zr__stops *s, int64_t bytes)
{
    zr__text_drop(&s->held, (size_t)bytes);
}

void zr__stops_free(zr__stops *s)
{
    zr__text_clear(&s->held);
    *s = (zr__stops){0};
}
