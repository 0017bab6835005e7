/** Tokens of a JSON text with their positions, which jansson does not keep. The scanner also accepts some texts that
 * are not valid JSON. */
#ifndef ZR_BASE_JSON_SCAN_H
#define ZR_BASE_JSON_SCAN_H

#include "base/json/json.h"

typedef struct zr__json_token {
    /* Kind of token: '"' for a string, 'x' for a number or word, 0 for the end of the text. Any other kind is the
     * character itself: a bracket, a comma or a colon. */
    char kind;
    size_t begin, end;
} zr__json_token;

/** The objects and arrays that are open before a token, each with its current key or index. */
typedef struct zr__json_trail {
    int depth;
    struct {
        char bracket;
        bool value;        /* whether the key's ':' has been read, so that its value comes next */
        size_t begin, end; /* offsets of the last key's opening quote, and of the byte after its closing quote */
        size_t index;
    } level[ZR_JSON_MAX_DEPTH];
} zr__json_trail;

/** Return the first token at or after offset `at`. */
zr__json_token zr__json_next(const char *text, size_t bytes, size_t at);

/** Return the offset behind the value that begins at offset `at`, or -1 if the value does not end in text[0, n). If
 * `whole`, nothing follows the text, so a number or a word may end with the text. */
int64_t zr__json_value_end(const char *text, int64_t n, int64_t at, bool whole);

/** Read tokens until one ends at offset `stop` or later; with SIZE_MAX, read to the end of the text. *token receives
 * the last token. If the text is nested too deeply, return false; *token is then the bracket that exceeds the limit. */
bool zr__json_walk(const char *text, size_t bytes, size_t stop, zr__json_trail *trail, zr__json_token *token);

/** Compute line and column of the byte at offset `at`, both from 1; columns count characters. */
void zr__json_line(const char *text, size_t at, int *line, int *column);

#endif
