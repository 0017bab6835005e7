/* Reads the vocabulary, the added tokens and the merges of a tokenizer. */
#include "base/text/text.h"
#include "data/tokenizer/read.h"

#include <stdio.h>
#include <string.h>

enum {
    SHOWN = 96,
    ADDED_MOST_BYTES = 1024, /* longest text of an added token, which is compared at each place of a text */
};

/* ---- the vocabulary -------------------------------------------------------------------------- */

/* Token names, indexed by token number. They come from the vocabulary and from the list of added tokens. */
typedef struct names {
    const char **name;
    int64_t *bytes;
    bool *raw; /* whether the token is an added token; its name is then its literal text */
    int64_t n, all_bytes;
} names;

static zr_status token_of(const zr__reader *r, const json_t *value, const char *name, int64_t n, int32_t *token)
{
    ZR_CHECK(json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < n, ZR_ERR_DATA,
             "%s: token \"%s\" is %s; the %lld tokens must be numbered 0 to %lld without a gap", r->file,
             ZR_SHOWN(name), ZR_JSON_SHOWN(value), (long long)n, (long long)n - 1);
    *token = (int32_t)json_integer_value(value);
    return ZR_OK;
}

static zr_status note_name(const zr__reader *r, names *all, int32_t token, const char *name, size_t bytes)
{
    ZR_CHECK(bytes > 0, ZR_ERR_DATA, "%s: token %d has an empty name", r->file, token);
    ZR_CHECK(!all->name[token], ZR_ERR_DATA, "%s: \"%s\" and \"%s\" are both token %d", r->file,
             ZR_SHOWN(all->name[token]), ZR_SHOWN(name), token);
    all->name[token] = name;
    all->bytes[token] = (int64_t)bytes;
    all->all_bytes += (int64_t)bytes;
    return ZR_OK;
}

/* Normalize the text of an added token, which is searched for in normalized text. */
static zr_status normalize_added(const zr__bpe *bpe, zr__added *added, const char *name, size_t bytes)
{
    ZR_AUTO(zr__changing_free) zr__changing work = {0};
    zr__changed x = {0};
    ZR_TRY(zr__changes_apply(&bpe->normalizer, name, (int64_t)bytes, ZR__BEHIND, &work, &x));
    added->bytes = x.bytes;
    return zr__text_copy(x.text, (size_t)x.bytes, &added->text);
}

/* Append to a list of added tokens, which has space for one more. A token whose text becomes empty by normalization is
 * not appended. */
static void append_added(zr__added_list *list, zr__added added)
{
    if (added.bytes > 0)
        list->added[list->n++] = added;
    else
        zr_free(added.text);
}

zr_status zr__read_add_token(const zr__reader *r, zr__added added, const char *name, size_t bytes)
{
    zr__bpe *bpe = r->bpe;
    zr__added_list *list = added.later ? &bpe->later : &bpe->added;
    ZR_CHECK(bytes <= ADDED_MOST_BYTES, ZR_ERR_DATA, "%s: the added token \"%s\" has %zu bytes; the limit is %d",
             r->file, ZR_SHOWN(name), bytes, ADDED_MOST_BYTES);
    added.bytes = (int64_t)bytes;
    if (added.later)
        ZR_TRY(normalize_added(bpe, &added, name, bytes));
    else
        ZR_TRY(zr__text_copy(name, bytes, &added.text));
    append_added(list, added);
    return ZR_OK;
}

static zr_status note_added(const zr__reader *r, names *all, const json_t *added)
{
    const json_t *content = json_object_get(added, "content");
    const char *name = json_string_value(content);
    int32_t token = 0;
    ZR_CHECK(name, ZR_ERR_DATA, "%s: added_tokens: a token has no content", r->file);
    ZR_TRY(token_of(r, json_object_get(added, "id"), name, all->n, &token));
    bool again = all->raw[token] && strcmp(all->name[token], name) == 0;
    if (!again && !json_object_get(r->vocab, name)) ZR_TRY(note_name(r, all, token, name, json_string_length(content)));
    ZR_CHECK(all->name[token] && strcmp(all->name[token], name) == 0, ZR_ERR_DATA,
             "%s: added_tokens: \"%s\" is token %d here, but another token in the vocabulary", r->file, ZR_SHOWN(name),
             token);
    if (again) return ZR_OK; /* the first entry of a token takes effect */
    all->raw[token] = true;
    const zr__added flags = {.token = token,
                             .later = json_is_true(json_object_get(added, "normalized")),
                             .special = json_is_true(json_object_get(added, "special")),
                             .single_word = json_is_true(json_object_get(added, "single_word")),
                             .lstrip = json_is_true(json_object_get(added, "lstrip")),
                             .rstrip = json_is_true(json_object_get(added, "rstrip"))};
    return zr__read_add_token(r, flags, name, json_string_length(content));
}

/* Count the added tokens that are not in the vocabulary. An added token may be listed twice. */
static zr_status count_new(const zr__reader *r, int64_t *n)
{
    json_auto_t *seen = json_object();
    bool kept = seen;
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(r->added, i), "content"));
        if (name && !json_object_get(r->vocab, name)) kept = json_object_set_new(seen, name, json_null()) == 0 && kept;
    }
    *n = (int64_t)json_object_size(seen);
    ZR_CHECK(kept, ZR_ERR_MEMORY, "%s: no memory for added tokens", r->file);
    return ZR_OK;
}

static zr_status note_all(const zr__reader *r, names *all)
{
    const char *name;
    json_t *value;
    int32_t token = 0;
    json_object_foreach((json_t *)r->vocab, name, value)
    {
        ZR_TRY(token_of(r, value, name, all->n, &token));
        ZR_TRY(note_name(r, all, token, name, strlen(name)));
    }
    for (size_t i = 0; i < json_array_size(r->added); i++) ZR_TRY(note_added(r, all, json_array_get(r->added, i)));
    value = r->two_files ? json_object_get(r->vocab, ZR_END_OF_TEXT) : NULL;
    if (value) {
        token = (int32_t)json_integer_value(value);
        all->raw[token] = true;
        ZR_TRY(zr__read_add_token(r, (zr__added){.token = token}, ZR_END_OF_TEXT, sizeof(ZR_END_OF_TEXT) - 1));
    }
    return ZR_OK;
}

/* Convert the name of a token of byte-level BPE to its bytes at `out`. Return their number. */
static int64_t spell_token(const zr__reader *r, const names *all, int64_t token, char *out)
{
    zr__bpe *bpe = r->bpe;
    int64_t bytes = zr__bpe_spell(all->name[token], all->bytes[token], out);
    bpe->spelled[token] = bytes >= 0 && json_object_get(r->vocab, all->name[token]);
    if (bytes >= 0 && !all->raw[token]) return bytes;
    bytes = all->bytes[token];
    bpe->spelled[token] = bpe->spelled[token] && !memcmp(out, all->name[token], (size_t)bytes);
    memcpy(out, all->name[token], (size_t)bytes);
    return bytes;
}

static void find_bytes(const zr__reader *r)
{
    zr__bpe *bpe = r->bpe;
    for (int byte = 0; byte < ZR__BPE_BYTES; byte++) {
        const char text = (char)byte;
        char name[ZR__BPE_BYTE_NAME + 1];
        snprintf(name, sizeof(name), "<0x%02X>", (unsigned)byte);
        bpe->byte_token[byte] =
            bpe->by_character ? zr__bpe_find(bpe, name, ZR__BPE_BYTE_NAME) : zr__bpe_find(bpe, &text, 1);
    }
}

zr_status zr__read_want_bytes(const zr__reader *r)
{
    for (int byte = 0; byte < ZR__BPE_BYTES; byte++)
        ZR_CHECK(r->bpe->byte_token[byte] >= 0, ZR_ERR_DATA,
                 "%s: the vocabulary has no token for byte %d (U+%04X) that is not an added one", r->file, byte,
                 (unsigned)zr__bpe_symbol((unsigned char)byte));
    return ZR_OK;
}

/* Store the names of all tokens. Every token has a name here, because n distinct tokens from 0 to n-1 leave no gap. */
static zr_status spell_all(const zr__reader *r, const names *all)
{
    zr__bpe *bpe = r->bpe;
    int64_t at = 0;
    ZR_TRY(zr__bpe_take_tokens(bpe, all->n, all->all_bytes));
    for (int64_t token = 0; token < all->n; token++) {
        bpe->begin[token] = at;
        if (!bpe->by_character) {
            at += spell_token(r, all, token, bpe->text + at);
            continue;
        }
        bpe->spelled[token] = json_object_get(r->vocab, all->name[token]);
        memcpy(bpe->text + at, all->name[token], (size_t)all->bytes[token]);
        at += all->bytes[token];
    }
    bpe->begin[all->n] = at;
    for (int64_t i = 0; i < bpe->added.n; i++) bpe->special[bpe->added.added[i].token] = bpe->added.added[i].special;
    for (int64_t i = 0; i < bpe->later.n; i++) bpe->special[bpe->later.added[i].token] = bpe->later.added[i].special;
    zr__bpe_name_tokens(bpe);
    find_bytes(r);
    return ZR_OK;
}

int32_t zr__read_find(const zr__reader *r, const char *name)
{
    const json_t *value = json_object_get(r->vocab, name);
    if (json_is_integer(value)) return (int32_t)json_integer_value(value);
    for (size_t i = 0; i < json_array_size(r->added); i++) {
        const json_t *added = json_array_get(r->added, i);
        const char *content = json_string_value(json_object_get(added, "content"));
        if (content && strcmp(content, name) == 0) return (int32_t)json_integer_value(json_object_get(added, "id"));
    }
    return -1;
}

static void names_free(names *all)
{
    zr_free(all->name);
    zr_free(all->bytes);
    zr_free(all->raw);
}

zr_status zr__read_vocab(const zr__reader *r)
{
    ZR_CHECK(json_is_object(r->vocab) && json_object_size(r->vocab) > 0, ZR_ERR_DATA,
             "%s: there is no vocabulary; expected an object with names and their token numbers", r->file);
    ZR_CHECK(!r->added || json_is_array(r->added), ZR_ERR_DATA, "%s: added_tokens is not a list", r->file);
    int64_t n = 0;
    ZR_TRY(count_new(r, &n));
    n += (int64_t)json_object_size(r->vocab);
    ZR_AUTO(names_free) names all = {.n = n};
    all.name = zr_alloc((size_t)n * sizeof(*all.name));
    all.bytes = zr_alloc((size_t)n * sizeof(*all.bytes));
    all.raw = zr_alloc((size_t)n);
    const size_t added = json_array_size(r->added) + 1;
    r->bpe->added.added = zr_alloc(added * sizeof(zr__added));
    r->bpe->later.added = zr_alloc(added * sizeof(zr__added));
    ZR_CHECK(all.name && all.bytes && all.raw && r->bpe->added.added && r->bpe->later.added, ZR_ERR_MEMORY,
             "%s: no memory for %lld tokens", r->file, (long long)n);
    ZR_TRY(note_all(r, &all));
    return spell_all(r, &all);
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Find a token by its name in a merge. For messages, `number` is the number of the merge, or the line in merges.txt,
 * from 1. */
static zr_status token_named(const zr__reader *r, const char *name, size_t bytes, int64_t number, int32_t *token)
{
    ZR_AUTO_FREE char *spelled = zr_alloc(bytes + 1);
    ZR_CHECK(spelled, ZR_ERR_MEMORY, "%s: no memory for a name of %zu bytes", r->file, bytes);
    int64_t n = r->bpe->by_character ? (int64_t)bytes : zr__bpe_spell(name, (int64_t)bytes, spelled);
    *token = n > 0 ? zr__bpe_find(r->bpe, r->bpe->by_character ? name : spelled, n) : -1;
    memcpy(spelled, name, bytes);
    spelled[bytes] = '\0';
    ZR_CHECK(*token >= 0, ZR_ERR_DATA, "%s: merge %lld: \"%s\" is %s", r->file, (long long)number,
             zr__text_escape(spelled, (char[SHOWN]){0}, SHOWN),
             json_object_get(r->vocab, spelled)
                 ? "an added token; merges that also make an added token are not supported"
                 : "not a token of the vocabulary");
    return ZR_OK;
}

static zr_status add_merge(const zr__reader *r, const char *left, size_t n_left, const char *right, size_t n_right,
                           int64_t number, uint32_t rank)
{
    int32_t a = 0, b = 0, into = 0;
    ZR_AUTO_FREE char *both = zr_alloc(n_left + n_right + 1);
    ZR_CHECK(both, ZR_ERR_MEMORY, "%s: no memory for a name", r->file);
    memcpy(both, left, n_left);
    memcpy(both + n_left, right, n_right);
    ZR_TRY(token_named(r, left, n_left, number, &a));
    ZR_TRY(token_named(r, right, n_right, number, &b));
    ZR_TRY(token_named(r, both, n_left + n_right, number, &into));
    zr__bpe_merge(r->bpe, a, b, into, rank);
    return ZR_OK;
}

/* Add a merge written as "a b". */
static zr_status add_spaced(const zr__reader *r, const char *text, size_t bytes, int64_t number, uint32_t rank)
{
    char cut[SHOWN];
    const char *space = memchr(text, ' ', bytes);
    size_t n = space ? (size_t)(space - text) : 0;
    snprintf(cut, sizeof(cut), "%.*s", (int)(bytes < SHOWN ? bytes : SHOWN),
             text); /* only `bytes` bytes belong to this merge */
    ZR_CHECK(n > 0 && n + 1 < bytes && !memchr(space + 1, ' ', bytes - n - 1), ZR_ERR_DATA,
             "%s: merge %lld is \"%s\"; expected two names with a space between them", r->file, (long long)number,
             ZR_SHOWN(cut));
    return add_merge(r, text, n, space + 1, bytes - n - 1, number, rank);
}

zr_status zr__read_merges(const zr__reader *r)
{
    ZR_CHECK(json_is_array(r->merges), ZR_ERR_DATA, "%s: model.merges is not a list", r->file);
    size_t n = json_array_size(r->merges);
    ZR_TRY(zr__bpe_take_merges(r->bpe, (int64_t)n));
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(r->merges, i), *a = json_array_get(m, 0), *b = json_array_get(m, 1);
        int64_t number = (int64_t)i + 1;
        bool pair = json_array_size(m) == 2 && json_is_string(a) && json_is_string(b);
        ZR_CHECK(pair || json_is_string(m), ZR_ERR_DATA, "%s: merge %lld is neither \"a b\" nor [\"a\", \"b\"]",
                 r->file, (long long)number);
        if (pair)
            ZR_TRY(add_merge(r, json_string_value(a), json_string_length(a), json_string_value(b),
                             json_string_length(b), number, (uint32_t)i));
        else
            ZR_TRY(add_spaced(r, json_string_value(m), json_string_length(m), number, (uint32_t)i));
    }
    return ZR_OK;
}

/* Read merges, one per line. The first line may give the version of the format, as "#version: 0.2", and is then
 * skipped. */
zr_status zr__read_merge_lines(const zr__reader *r, const char *text, size_t bytes)
{
    static const char version[] = "#version";
    uint32_t rank = 0;
    int64_t lines = 1;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    ZR_TRY(zr__bpe_take_merges(r->bpe, lines));
    for (int64_t number = 1; bytes > 0; number++) {
        const char *end = memchr(text, '\n', bytes);
        size_t n = end ? (size_t)(end - text) : bytes, whole = end ? n + 1 : n;
        if (n > 0 && text[n - 1] == '\r') n--;
        bool told = n >= sizeof(version) - 1 && strncmp(text, version, sizeof(version) - 1) == 0;
        if (n > 0 && !(told && number == 1)) ZR_TRY(add_spaced(r, text, n, number, rank++));
        text += whole;
        bytes -= whole;
    }
    return ZR_OK;
}
