/**
 * Text in stretches of one script, as the pre-tokenizer UnicodeScripts of the package `tokenizers` divides it.
 */
#ifndef ZR_DATA_SCRIPTS_H
#define ZR_DATA_SCRIPTS_H

#include "zr/base.h"

/** Make a regular expression for PCRE2 that matches a stretch of one script. Free *expression with zr_free. Error:
 * ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__scripts_expression(char **expression);

#endif
