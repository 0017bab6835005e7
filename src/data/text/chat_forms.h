/** Forms of conversations that zr knows by name, as templates of its own. */
#ifndef ZR_DATA_CHAT_FORMS_H
#define ZR_DATA_CHAT_FORMS_H

#include <stdbool.h>

enum { ZR__FORM_CONTROLS = 3 };

typedef struct zr__chat_form {
    const char *name;
    const char *template;
    const char *begin, *end; /* tokens that begin a text and end it, if the tokenizer does not name its own, or NULL */
    const char *control[ZR__FORM_CONTROLS]; /* further control tokens */
    bool plain; /* whether it is a text without control tokens, which begins and ends as the tokenizer's texts do */
} zr__chat_form;

/** Return the form with this name, or NULL. */
const zr__chat_form *zr__chat_form_named(const char *name);
/** List the names of all forms as "a, b or c". */
const char *zr__chat_form_names(char *out, unsigned long size);
#define ZR__CHAT_FORMS() zr__chat_form_names((char[256]){0}, 256)

#endif
