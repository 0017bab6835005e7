/** The tokens of a JSON text with their places: what jansson does not keep. Accepts more than JSON is. */
#ifndef ZR_BASE_JSON_SCAN_H
#define ZR_BASE_JSON_SCAN_H

#include "base/json.h"

typedef struct zr__json_token {
    char kind; /* one of {}[],: or '"' string, 'x' number or word, 0 end */
    size_t begin, end;
} zr__json_token;

/** Levels that are open before a token, with the key or index each is at. */
typedef struct zr__json_trail {
    int depth;
    struct {
        char bracket;
        bool value;        /* after ':' */
        size_t begin, end; /* of the last key, quotes included */
        size_t index;
    } level[ZR_JSON_MAX_DEPTH];
} zr__json_trail;

/** The token at or after `at`. */
zr__json_token zr__json_next(const char *text, size_t bytes, size_t at);

/** Walk to the token that reaches byte `stop` (SIZE_MAX: to the end). False at the bracket that opens one
 *  level too many. */
bool zr__json_walk(const char *text, size_t bytes, size_t stop, zr__json_trail *trail, zr__json_token *token);

/** Line and column of a byte, from 1, columns in characters. */
void zr__json_line(const char *text, size_t at, int *line, int *column);

#endif
