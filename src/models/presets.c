/* Finds named models of all families, and names that are similar to an unknown one. */
#include "zr/models.h"
#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

enum { NEAREST = 6, NEAREST_BYTES = 256, NAMES_MOST = 1024 };

const zr_preset *zr_family_preset(int i, const zr_family **family)
{
    for (int f = 0; (*family = zr_family_at(f)); f++)
        for (const zr_preset *preset = (*family)->preset; preset && preset->name; preset++)
            if (i-- == 0) return preset;
    return NULL;
}

/* Return the length of the longest prefix of `wanted` that occurs anywhere in `name`. For example, "60b" occurs in
 * zero-60b-75x8192x32. */
static size_t likeness(const char *name, const char *wanted)
{
    size_t most = 0;
    for (; *name; name++) {
        size_t n = 0;
        while (name[n] && name[n] == wanted[n]) n++;
        if (n > most) most = n;
    }
    return most;
}

/* List up to NEAREST names that contain a prefix of `wanted` of at least half its length, longest prefix first. A space
 * precedes each name. Return the number of all names. */
static int nearest(const char *wanted, char text[NEAREST_BYTES])
{
    size_t used = 0, length = strlen(wanted), found = 0;
    const char *names[NAMES_MOST];
    const zr_preset *preset;
    const zr_family *family;
    int n = 0;
    for (; n < NAMES_MOST && (preset = zr_family_preset(n, &family)); n++) names[n] = preset->name;
    text[0] = '\0';
    /* Begin with a name at edit distance 1, unless some name contains all of `wanted`. */
    const char *close = zr__text_nearest(wanted, names, n);
    if (close && zr__text_distance(wanted, close) > 1) close = NULL;
    for (int i = 0; i < n; i++)
        if (likeness(names[i], wanted) == length) close = NULL;
    if (close) {
        used += (size_t)snprintf(text, NEAREST_BYTES, " %s", close);
        found++;
    }
    for (size_t like = length; like > 0 && 2 * like >= length; like--)
        for (int i = 0; i < n && found < NEAREST && used < NEAREST_BYTES; i++) {
            if (likeness(names[i], wanted) != like || names[i] == close) continue;
            used += (size_t)snprintf(text + used, NEAREST_BYTES - used, " %s", names[i]);
            found++;
        }
    return n;
}

zr_status zr_family_find_preset(const char *name, const zr_family **family, zr_model_config *config)
{
    const zr_preset *preset;
    const zr_family *of;
    char near[NEAREST_BYTES];
    for (int i = 0; (preset = zr_family_preset(i, &of)); i++) {
        if (strcmp(preset->name, name) != 0) continue;
        *config = (zr_model_config){0};
        memcpy(config, preset->config, of->bytes);
        if (of->complete) of->complete(config);
        if (family) *family = of;
        return ZR_OK;
    }
    const int all = nearest(name, near);
    return ZR_FAIL(ZR_ERR_NOT_FOUND, "there is no preset \"%s\"%s%s; `zr plan --shapes` lists all %d", name,
                   near[0] ? "; nearest:" : "", near, all);
}
