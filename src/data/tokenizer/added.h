/**
 * Added tokens such as <|endoftext|>. A text is searched for them before it is cut into pieces. If several tokens begin
 * at the same byte, the longest is found.
 */
#ifndef ZR_DATA_ADDED_H
#define ZR_DATA_ADDED_H

#include "data/pieces/classes.h"

/** An added token, with the properties that it has in tokenizer.json. */
typedef struct zr__added {
    int32_t token;
    /* whether the token is searched for in normalized text, in a second search between the tokens found by the first */
    bool later;
    bool special;
    bool single_word;    /* whether the token is found only if no character of a word precedes or follows it */
    bool lstrip, rstrip; /* whether the token includes white space before it (lstrip) or after it (rstrip) */
    char *text;          /* text that is searched for; normalized if `later`; owned by the list */
    int64_t bytes;
} zr__added;

/** A list of added tokens that are searched for together, and its index. Set it to zeros before the first use. */
typedef struct zr__added_list {
    zr__added *added; /* sorted by text */
    int64_t n;
    bool begins[256]; /* for each byte: whether a text of the list begins with it */
    /* for each byte: whether it is the second byte of a text in the list; all true if a text has one byte */
    bool follows[256];
} zr__added_list;

/** Sort the list and build its index. If several tokens have the same text, the first is kept. */
void zr__added_index(zr__added_list *list);
void zr__added_free(zr__added_list *list);

/** A token found in a text: text[from, to), including white space that it strips. */
typedef struct zr__added_found {
    const zr__added *added;
    int64_t from, to;
} zr__added_found;

/** State of a search. `done` is the end of the last token found; at first both are 0. */
typedef struct zr__added_search {
    int64_t at, done;
} zr__added_search;

/** Find the next token, and set search->done to its end. Return false if no token follows. The text between the
 * previous `done` and found->from contains no token; the caller encodes it as text. */
bool zr__added_next(const zr__added_list *list, const zr__classes *classes, const char *text, int64_t bytes,
                    zr__added_search *search, zr__added_found *found);

#endif
