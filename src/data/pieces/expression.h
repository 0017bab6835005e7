/**
 * Translates regular expressions from the syntax of tokenizer.json, which is Oniguruma's (Ruby), to PCRE2's.
 */
#ifndef ZR_DATA_EXPRESSION_H
#define ZR_DATA_EXPRESSION_H

#include "zr/base.h"

/** Translate an expression. Free *out with zr_free. `where` names the file and key in messages. Errors: ZR_ERR_DATA if
 * the two libraries may interpret a construct differently; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__expression_translate(const char *expression, const char *where, char **out);

#endif
