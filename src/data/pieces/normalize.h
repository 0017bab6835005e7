/**
 * data/pieces: text before it is encoded. split.h cuts it into pieces, with expression.h for regular expressions,
 * scan.h for known ones, and scripts.h for scripts. bert.h has the text of BERT, symbols.h the names of bytes,
 * classes.h the classes of characters, and nfc.h Unicode's normal forms.
 *
 * This header has the changes that a tokenizer makes to a text: the normalizers of the package `tokenizers`, and the
 * changes that its pre-tokenizers Metaspace and ByteLevel make.
 */
#ifndef ZR_DATA_NORMALIZE_H
#define ZR_DATA_NORMALIZE_H

#include "data/pieces/bert.h"
#include "data/pieces/nfc.h"

struct zr__split;

typedef enum zr__change_kind {
    ZR__NORMAL_C, /* Unicode's normal forms, in the order of zr__unicode_form */
    ZR__NORMAL_D,
    ZR__NORMAL_KC,
    ZR__NORMAL_KD,
    ZR__LOWERCASE,
    ZR__STRIP_ACCENTS,  /* leave out marks */
    ZR__STRIP_LEFT,     /* leave out white space at the beginning */
    ZR__STRIP_RIGHT,    /* leave out white space at the end */
    ZR__REPLACE,        /* replace each `from` by `to` */
    ZR__REPLACE_MATCH,  /* replace each match of the regular expression `from` by `to` */
    ZR__PREPEND,        /* put `to` before a text that is not empty */
    ZR__PREPEND_ABSENT, /* put `to` before a text that does not begin with it */
    ZR__SYMBOLS,        /* replace each byte by the character that represents it (symbols.h) */
    ZR__SPELL,          /* replace each character of ZR__SYMBOLS by its byte */
    ZR__BERT,           /* zr__bert_add */
} zr__change_kind;

typedef struct zr__change {
    zr__change_kind kind;
    char *from, *to;         /* texts released with zr_free; NULL if the kind has none */
    bool first;              /* whether something is prepended only at the beginning of the whole text */
    zr__classes *table;      /* table of a normal form (nfc.h), or NULL */
    struct zr__split *match; /* compiled expression of ZR__REPLACE_MATCH, or NULL */
} zr__change;

enum {
    ZR__CHANGES_MOST = 16,
    /* Maximum size in bytes of the replacement of one byte of text, and of a prefix put before a text. Known tokenizers
     * need less than 20. Without a limit, a few replacements in a row could turn a short text into gigabytes. */
    ZR__GROWTH_MOST = 64,
};

/** A list of changes. Set it to zeros before the first use. */
typedef struct zr__changes {
    zr__change change[ZR__CHANGES_MOST];
    int n;
    zr__bert *bert; /* tables for the change of the kind ZR__BERT; NULL if there is none */
} zr__changes;

/** Append a change, with copies of the texts. `where` names the file and key in messages. Errors: ZR_ERR_DATA if there
 * are too many changes, or if they let a text grow too much; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__changes_add(zr__changes *changes, zr__change_kind kind, const char *from, const char *to,
                                       const char *where);
/** Append a change of the kind ZR__BERT. The list must not have one already. Errors: as for zr__changes_add. */
ZR_NODISCARD zr_status zr__changes_add_bert(zr__changes *changes, zr__bert_options options, const char *where);
void zr__changes_free(zr__changes *changes);

/** Return the maximum number of bytes that one byte of text may become, and add to *more the bytes that may be
 * prepended. ZR__SYMBOLS counts as no growth, since ZR__SPELL follows. */
int64_t zr__changes_growth(const zr__changes *changes, int64_t *more);

/** Return whether a text, cut before ASCII white space behind another character, can be normalized in two parts: they
 * make the normalized whole, and the cut stays between such characters. */
bool zr__changes_keep_cuts(const zr__changes *changes);

/** Return an XXH3-64 hash of the changes and of the version of Unicode. */
uint64_t zr__changes_hash(const zr__changes *changes, uint64_t seed);

/** Position of a text, on which prepending depends. */
typedef enum zr__begins {
    ZR__CONTINUES,  /* the text continues an earlier text, so nothing is prepended */
    ZR__BEHIND,     /* the text begins anew behind an added token */
    ZR__WHOLE_BEGIN /* the text is the beginning of the whole text */
} zr__begins;

/** A normalized text, which points to the original if nothing was changed. */
typedef struct zr__changed {
    const char *text;
    int64_t bytes;
} zr__changed;

/** Working memory: two texts that changes read and write alternately. Set it to zeros before the first use. */
typedef struct zr__changing {
    zr__text text[2];
} zr__changing;

/** Apply the changes. *changed points to `text` or to a text of `work`, which the next call overwrites. Error:
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__changes_apply(const zr__changes *changes, const char *text, int64_t bytes, zr__begins begins,
                                         zr__changing *work, zr__changed *changed);
void zr__changing_free(zr__changing *work);

#endif
