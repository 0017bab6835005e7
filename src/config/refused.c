/* Refuses settings that are not available, in one message with one line per section. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_LINES = 9, OPTIONS_BYTES = 400, MOST_REFUSALS = 64 };

struct zr__refusal {
    struct zr__refusal *next;
    zr_status status;
    const zr_key *key; /* key whose value is not available, or NULL for another error */
    bool unknown;
    bool said;
    char section[64]; /* first part of `path` */
    char path[128];
    char found[ZR_JSON_SHOWN_BYTES];
    char where[160];   /* position, such as "ds.json:3:5" */
    char message[512]; /* message that is shown if this is the only refusal */
};

const char *zr__key_available(const zr_key *key, char *out, size_t size)
{
    const bool quoted = key->type == ZR_KEY_CHOICE || key->type == ZR_KEY_STRING || key->type == ZR_KEY_EITHER;
    const char *quote = quoted ? "\"" : "", *between = "write ";
    size_t used = 0;
    for (const char *at = key->built; used < size; at++) {
        size_t n = strcspn(at, "|");
        used += (size_t)snprintf(out + used, size - used, "%s%s%.*s%s", between, quote, (int)n, at, quote);
        at += n;
        if (!*at) break;
        between = strchr(at + 1, '|') ? ", " : " or ";
    }
    return out;
}

const char *zr__key_instead(const zr_key *key, const char *found)
{
    char only[64];
    snprintf(only, sizeof(only), "\"%s\"", key->instead_of ? key->instead_of : "");
    return !key->instead_of || strcasecmp(found, only) == 0 ? key->instead : NULL;
}

zr_status zr__refusal_add(zr_config *config, zr_status status, const zr_key *key, bool unknown, const char *path,
                          const char *found)
{
    struct zr__refusal **end = &config->state->refused, *r = zr_alloc(sizeof(*r));
    ZR_CHECK(r, ZR_ERR_MEMORY, "out of memory for the configuration");
    *r = (struct zr__refusal){.status = status, .key = key, .unknown = unknown};
    snprintf(r->message, sizeof(r->message), "%s", zr_error_message());
    snprintf(r->path, sizeof(r->path), "%s", path);
    snprintf(r->section, sizeof(r->section), "%.*s", (int)strcspn(path, "."), path);
    snprintf(r->found, sizeof(r->found), "%s", found);
    const char *colon = strstr(r->message, path[0] ? path : "wanted");
    int length = colon && colon - r->message > 2 ? (int)(colon - r->message) - 2 : 0;
    snprintf(r->where, sizeof(r->where), "%.*s", length, r->message);
    int n = 1;
    for (; *end; end = &(*end)->next) n++;
    *end = r;
    /* Fail early after MOST_REFUSALS refusals, since a file may have a million wrong keys. */
    return n < MOST_REFUSALS ? ZR_OK : zr__refusals_say(config);
}

void zr__refusals_free(zr_config *config)
{
    while (config->state->refused) {
        struct zr__refusal *next = config->state->refused->next;
        zr_free(config->state->refused);
        config->state->refused = next;
    }
}

/* Return whether an unknown key probably belongs to a feature that is not available, because another key of its section
 * has an unavailable value. */
static bool follows_from(const struct zr__refusal *all, const struct zr__refusal *r)
{
    for (; r->unknown && all; all = all->next)
        if (all->key && strcmp(all->section, r->section) == 0) return true;
    return false;
}

static bool is_of_section(const struct zr__refusal *a, const struct zr__refusal *b)
{
    return strcmp(a->section, b->section) == 0;
}

/* Add one line about the section of `first`: its unavailable values, and its unknown keys from `all`, which probably
 * belong to the unavailable feature. */
static void add_refused_section(zr__text *out, struct zr__refusal *all, struct zr__refusal *first)
{
    const char *instead = NULL, *between = "";
    bool top = strcmp(first->section, first->path) == 0;
    zr__text_add(out, "\n%s: %s%s", first->where, top ? "" : first->section, top ? "" : ": ");
    for (struct zr__refusal *r = first; r; r = r->next) {
        if (!r->key || !is_of_section(r, first)) continue;
        zr__text_add(out, "%s%s %s (%s)", between, zr__key_in_section(r->path), r->found, ZR_AVAILABLE(r->key));
        if (!instead) instead = zr__key_instead(r->key, r->found);
        between = ", ";
        r->said = true;
    }
    if (instead) zr__text_add(out, "; %s", instead);
    between = "; remove also the keys that belong to it: ";
    for (struct zr__refusal *r = all; r; r = r->next) {
        if (r->key || !r->unknown || !is_of_section(r, first)) continue;
        zr__text_add(out, "%s%s", between, zr__key_in_section(r->path));
        between = ", ";
        r->said = true;
    }
}

/* Add the command line options that would make the unchanged file acceptable. */
static void add_options(zr__text *out, const struct zr__refusal *all)
{
    char options[OPTIONS_BYTES] = "";
    size_t used = 0;
    for (; all; all = all->next) {
        if (!all->key) return; /* if an option cannot correct one of the errors, add no options */
        used += (size_t)snprintf(options + used, sizeof(options) - used, " --%s=%.*s", all->key->path,
                                 (int)strcspn(all->key->built, "|"), all->key->built);
        if (used >= sizeof(options)) return;
    }
    zr__text_add(out, "\nor override them on the command line:%s", options);
}

zr_status zr__refusals_say(zr_config *config)
{
    int n = 0, all_n = 0, lines = 0;
    zr__text text = {0};
    zr_status st = ZR_ERR_UNSUPPORTED;
    struct zr__refusal *all = config->state->refused;
    for (struct zr__refusal *r = all; r; r = r->next, all_n++) {
        if (follows_from(all, r)) continue;
        n++;
        if (r->status == ZR_ERR_CONFIG) st = ZR_ERR_CONFIG;
    }
    if (n == 0) return ZR_OK;
    if (all_n == 1) return ZR_FAIL(st, "%s", all->message);
    zr__text_add(&text, "%s: %d setting%s %s", config->state->name, n, n == 1 ? "" : "s",
                 st == ZR_ERR_CONFIG ? "cannot be used"
                 : n == 1            ? "is not available in zr: remove it, or use the value given for it"
                                     : "are not available in zr: remove each, or use the value given for it");
    for (struct zr__refusal *r = all; r && lines < MOST_LINES; r = r->next) {
        if (r->said || (!r->key && follows_from(all, r))) continue;
        lines++;
        if (r->key) add_refused_section(&text, all, r);
        if (!r->key) zr__text_add(&text, "\n%s", r->message);
        r->said = true;
    }
    int left = 0;
    for (struct zr__refusal *r = all; r; r = r->next) left += !r->said;
    if (left) zr__text_add(&text, "\nand %d more", left);
    add_options(&text, all);
    ZR_AUTO_FREE char *whole = NULL;
    ZR_TRY(zr__text_take(&text, &whole));
    return ZR_FAIL(st, "%s", whole);
}
