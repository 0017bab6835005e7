/* Reading of templates: their memory, names and messages. */
#include "data/template/tree.h"

#include "base/text/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Limits of a template: bytes of its text, and of its tree. */
enum { MOST_TEXT_BYTES = 1 << 20, MOST_BYTES = 64 << 20 };

zr_status zr__template_wrong(const zr__template *t, int line, zr_status status, const char *format, ...)
{
    char buffer[512];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    return ZR_FAIL(status, "%s:%d: %s", t->name, line, buffer);
}

/* Return the bucket of a name. */
static size_t bucket_of(const char *text, int64_t bytes)
{
    uint32_t hash = 2166136261u;
    for (int64_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash % ZR__NAME_BUCKETS;
}

static const char *find_name(const zr__template *t, const char *text, int64_t bytes)
{
    for (const zr__name *name = t->names[bucket_of(text, bytes)]; name; name = name->next)
        if (strncmp(name->text, text, (size_t)bytes) == 0 && !name->text[bytes]) return name->text;
    return NULL;
}

const char *zr__name_find(const zr__template *t, const char *name)
{
    return find_name(t, name, (int64_t)strlen(name));
}

zr_status zr__name_add(zr__template *t, const char *text, int64_t bytes, const char **name)
{
    zr__name *new = NULL;
    *name = find_name(t, text, bytes);
    if (*name) return ZR_OK;
    ZR_TRY(zr__pool_take(&t->pool, (int64_t)sizeof(*new) + bytes + 1, &new));
    memcpy(new->text, text, (size_t)bytes);
    new->next = t->names[bucket_of(text, bytes)];
    t->names[bucket_of(text, bytes)] = new;
    *name = new->text;
    return ZR_OK;
}

bool zr__template_generates(const zr__template *t)
{
    return t->generates;
}

bool zr__template_contains(const zr__template *t, const char *text)
{
    for (int64_t i = 0; i < t->n; i++)
        if ((t->token[i].kind == ZR__T_DATA || t->token[i].kind == ZR__T_STRING) &&
            memmem(t->token[i].text, (size_t)t->token[i].bytes, text, strlen(text)))
            return true;
    return false;
}

bool zr__template_reads(const zr__template *t, const char *name)
{
    const int64_t bytes = (int64_t)strlen(name);
    for (int64_t i = 0; i < t->n; i++)
        if ((t->token[i].kind == ZR__T_NAME || t->token[i].kind == ZR__T_STRING) && t->token[i].bytes == bytes &&
            memcmp(t->token[i].text, name, (size_t)bytes) == 0)
            return true;
    return false;
}

static zr_status read_template(zr__template *t, const char *text, int64_t bytes)
{
    ZR_CHECK(bytes <= MOST_TEXT_BYTES, ZR_ERR_UNSUPPORTED, "%s: %lld bytes; a chat template has at most %d", t->name,
             (long long)bytes, MOST_TEXT_BYTES);
    t->pool.most = MOST_BYTES;
    ZR_TRY(zr__template_lex(t, text, bytes));
    return zr__template_parse(t);
}

zr_status zr__template_read(const char *text, int64_t bytes, const char *name, zr__template **out)
{
    *out = NULL;
    zr__template *t = zr_alloc(sizeof(*t));
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory for a chat template");
    zr_status st = zr__text_copy(name, strlen(name), &t->name);
    if (st == ZR_OK) st = read_template(t, text, bytes);
    if (st != ZR_OK)
        zr__template_close(&t);
    else
        *out = t;
    return st;
}

void zr__template_close(zr__template **t)
{
    if (!*t) return;
    zr__pool_clear(&(*t)->pool);
    zr_free((*t)->name);
    zr_free(*t);
    *t = NULL;
}
