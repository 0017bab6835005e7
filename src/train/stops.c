#include "train/stops.h"

#include <string.h>

static zr_status append(zr__stops *s, const char *piece, int64_t bytes)
{
    if (s->have + bytes > s->room) {
        int64_t room = 2 * (s->have + bytes) + 64;
        char *more = zr_alloc((size_t)room);
        ZR_CHECK(more, ZR_ERR_MEMORY, "no memory for a text of %lld bytes", (long long)room);
        if (s->have) memcpy(more, s->held, (size_t)s->have);
        zr_free(s->held);
        s->held = more;
        s->room = room;
    }
    if (bytes) memcpy(s->held + s->have, piece, (size_t)bytes);
    s->have += bytes;
    return ZR_OK;
}

/* Does one of the texts stand at byte `at`, or (`begun`) as much of one as there are bytes? */
static bool stands_at(const zr__stops *s, int64_t at, bool begun)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t length = (int64_t)strlen(s->stop[i]), left = s->have - at;
        if (length > left && !begun) continue;
        if (memcmp(s->held + at, s->stop[i], (size_t)(length < left ? length : left)) == 0) return true;
    }
    return false;
}

/* The first byte at which that is so; s->have: nowhere. */
static int64_t first(const zr__stops *s, bool begun)
{
    int64_t at = 0;
    while (at < s->have && !stands_at(s, at, begun)) at++;
    return at;
}

zr_status zr__stops_add(zr__stops *s, const char *piece, int64_t bytes, int64_t *ready, bool *found)
{
    ZR_TRY(append(s, piece, bytes));
    *ready = first(s, false);
    *found = *ready < s->have;
    /* A text that is whole ends it, whatever else has only begun. */
    if (!*found) *ready = first(s, true);
    return ZR_OK;
}

void zr__stops_told(zr__stops *s, int64_t bytes)
{
    s->have -= bytes;
    if (s->have) memmove(s->held, s->held + bytes, (size_t)s->have);
}

void zr__stops_free(zr__stops *s)
{
    zr_free(s->held);
    *s = (zr__stops){0};
}
