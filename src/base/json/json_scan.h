/** Tokens of a JSON text with their positions, which jansson does not keep. The scanner accepts more than valid
 * JSON. */
#ifndef ZR_BASE_JSON_SCAN_H
#define ZR_BASE_JSON_SCAN_H

#include "base/json/json.h"

typedef struct zr__json_token {
    char kind; /* kind of token: one of {}[],: or '"' for a string, 'x' for a number or word, 0 for the end of the
                  text */
    size_t begin, end;
} zr__json_token;

/** The objects and arrays that are open before a token, each with its current key or index. */
typedef struct zr__json_trail {
    int depth;
    struct {
        char bracket;
        bool value;        /* whether a ':' has been read, so that a value follows */
        size_t begin, end; /* offsets of the last key's first byte and end, with its quotes */
        size_t index;
    } level[ZR_JSON_MAX_DEPTH];
} zr__json_trail;

/** Return the first token at or after offset `at`. */
zr__json_token zr__json_next(const char *text, size_t bytes, size_t at);

/** Return the offset at which the value that begins at `at` ends: after its closing bracket, or the end of the text. */
size_t zr__json_skip(const char *text, size_t bytes, size_t at);

/** Walk through the tokens up to the first token that ends at offset `stop` or later (SIZE_MAX for the end of the
 * text). Return false if the text is nested too deeply; *token is then the bracket that exceeds the limit. */
bool zr__json_walk(const char *text, size_t bytes, size_t stop, zr__json_trail *trail, zr__json_token *token);

/** Compute line and column of the byte at offset `at`, both from 1; columns count characters. */
void zr__json_line(const char *text, size_t at, int *line, int *column);

#endif
