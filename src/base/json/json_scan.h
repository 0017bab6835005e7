/** The tokens of a JSON text with their positions, which jansson does not keep. It accepts more than valid JSON. */
#ifndef ZR_BASE_JSON_SCAN_H
#define ZR_BASE_JSON_SCAN_H

#include "base/json/json.h"

typedef struct zr__json_token {
    char kind; /* one of {}[],: or '"' string, 'x' number or word, 0 end */
    size_t begin, end;
} zr__json_token;

/** Levels that are open before a token, each with its current key or index. */
typedef struct zr__json_trail {
    int depth;
    struct {
        char bracket;
        bool value;        /* after ':' */
        size_t begin, end; /* bytes of the last key, with its quotes */
        size_t index;
    } level[ZR_JSON_MAX_DEPTH];
} zr__json_trail;

/** Return the token at or after `at`. */
zr__json_token zr__json_next(const char *text, size_t bytes, size_t at);

/** Return where the value that begins at `at` ends: where its brackets close, or the text ends. */
size_t zr__json_skip(const char *text, size_t bytes, size_t at);

/** Walk to the token that reaches byte `stop` (SIZE_MAX: to the end). False: the level limit is exceeded; *token is
 * the bracket that exceeds it. */
bool zr__json_walk(const char *text, size_t bytes, size_t stop, zr__json_trail *trail, zr__json_token *token);

/** Compute line and column of a byte, from 1, columns in characters. */
void zr__json_line(const char *text, size_t at, int *line, int *column);

#endif
