/** The forms of chat templates that zr can render, and how to recognise them. */
#ifndef ZR_DATA_CHAT_FORMS_H
#define ZR_DATA_CHAT_FORMS_H

#include "data/text/chat.h"

typedef enum zr__chat_like {
    ZR__LIKE_CHATML,
    ZR__LIKE_QWEN3,
    ZR__LIKE_LLAMA2,
    ZR__LIKE_LLAMA3,
    ZR__LIKE_MISTRAL,
} zr__chat_like;

/** A form of conversations. Members that a form does not use are zeros. */
typedef struct zr__chat_form {
    const char *name;
    zr__chat_like like;
    const char *system; /* like ChatML: system prompt of conversations without one, or NULL. Like Llama 3: text before
                           the system prompt, or NULL */
    const char *open, *close, *lead; /* like Mistral: text before and after a user's message, and before an answer */
    bool late, strips, no_system;    /* like Mistral: whether the system prompt is in the last user message and the
                                        marks are control tokens; whether answers lose white space at both ends; whether
                                        there is no place for a system prompt */
    const char *begin, *end;         /* tokens that begin a text and end it, if the tokenizer does not name its own */
    const char *control[ZR__CHAT_CONTROLS]; /* further control tokens, followed by NULL */
} zr__chat_form;

#endif
