#include "base/json/json_scan.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_mark(char c)
{
    return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':';
}

zr__json_token zr__json_next(const char *text, size_t bytes, size_t at)
{
    while (at < bytes && is_space(text[at])) at++;
    zr__json_token token = {0, at, at};
    if (at == bytes) return token;
    token.kind = text[at++];
    if (token.kind == '"') {
        /* A string ends at its closing quote or, if that is missing, at the end of its line. */
        while (at < bytes && text[at] != '"' && text[at] != '\n') at += text[at] == '\\' && at + 1 < bytes ? 2 : 1;
        if (at < bytes && text[at] == '"') at++;
    } else if (!is_mark(token.kind)) {
        token.kind = 'x';
        while (at < bytes && !is_space(text[at]) && !is_mark(text[at]) && text[at] != '"') at++;
    }
    token.end = at;
    return token;
}

/* Follow a token. Return false if it opens one level too many. */
static bool step(zr__json_trail *trail, const zr__json_token *token)
{
    const char kind = token->kind;
    const int top = trail->depth - 1;
    if (kind == '{' || kind == '[') {
        if (trail->depth == ZR_JSON_MAX_DEPTH) return false;
        memset(&trail->level[trail->depth], 0, sizeof(trail->level[0]));
        trail->level[trail->depth++].bracket = kind;
        return true;
    }
    if (top < 0) return true;
    if (kind == '}' || kind == ']') trail->depth--;
    if (kind == ',') trail->level[top].index++;
    if (kind == ',' || kind == ':') trail->level[top].value = kind == ':';
    if (kind != '"' || trail->level[top].bracket != '{' || trail->level[top].value) return true;
    trail->level[top].begin = token->begin;
    trail->level[top].end = token->end;
    return true;
}

bool zr__json_walk(const char *text, size_t bytes, size_t stop, zr__json_trail *trail, zr__json_token *token)
{
    trail->depth = 0;
    *token = zr__json_next(text, bytes, 0);
    while (token->kind) {
        if (token->end >= stop && token->kind != '"') return true;
        if (!step(trail, token)) return false;
        if (token->end >= stop) return true;
        *token = zr__json_next(text, bytes, token->end);
    }
    return true;
}

void zr__json_line(const char *text, size_t at, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        bool continues = ((unsigned char)text[i] & 0xC0) == 0x80;
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (!continues) {
            ++*column;
        }
    }
}

/* Return whether a string that reaches the end of the text ends there with a quote that no backslash escapes. */
static bool is_closed(const char *text, const zr__json_token *string)
{
    size_t last = string->end - 1, escapes = 0;
    while (last - escapes > string->begin && text[last - escapes - 1] == '\\') escapes++;
    return last > string->begin && text[last] == '"' && escapes % 2 == 0;
}

int64_t zr__json_value_end(const char *text, int64_t n, int64_t at, bool whole)
{
    int64_t depth = 0;
    do {
        const zr__json_token token = zr__json_next(text, (size_t)n, (size_t)at);
        at = (int64_t)token.end;
        if (!token.kind) return -1;
        if (token.kind == '"' && at == n && !is_closed(text, &token)) return -1;
        if (token.kind == 'x' && at == n && !whole) return -1;
        depth += token.kind == '{' || token.kind == '[';
        depth -= token.kind == '}' || token.kind == ']';
    } while (depth > 0);
    return at;
}

static bool key_is(const char *text, const zr__json_token *token, const char *key)
{
    size_t length = strlen(key);
    return token->end - token->begin == length + 2 && memcmp(text + token->begin + 1, key, length) == 0;
}

/* Find the value at `place`. Set *mark to the offset to show in a message, which is the key's offset if the value has a
 * key. Set *at to the offset of the value's first byte. */
static bool enter(const char *text, size_t bytes, const zr__json_place *place, size_t *mark, size_t *at)
{
    if (!place->parent) {
        *at = *mark = zr__json_next(text, bytes, 0).begin;
        return true;
    }
    if (!enter(text, bytes, place->parent, mark, at)) return false;
    zr__json_token token = zr__json_next(text, bytes, *at);
    if (token.kind != (place->key ? '{' : '[')) return false;
    for (size_t index = 0;; index++) {
        token = zr__json_next(text, bytes, token.end);
        size_t value = token.begin;
        if (place->key) value = zr__json_next(text, bytes, token.end).end;
        if (place->key ? key_is(text, &token, place->key) : index == place->index) {
            *mark = token.begin;
            *at = value;
            return true;
        }
        const int64_t end = zr__json_value_end(text, (int64_t)bytes, (int64_t)value, true);
        token = zr__json_next(text, bytes, end < 0 ? bytes : (size_t)end);
        if (token.kind != ',') return false;
    }
}

bool zr__json_find(const char *text, size_t bytes, const zr__json_place *place, int *line, int *column)
{
    size_t mark = 0, at = 0;
    bool found = enter(text, bytes, place, &mark, &at);
    zr__json_line(text, mark, line, column);
    return found;
}
