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
    /* ChatML: system prompt for conversations without one, or NULL. Llama 3: text before the system prompt, or NULL */
    const char *system;
    const char *open, *close,
        *lead; /* Mistral: text before a user's message, text after it, and text before an answer */
    /* Mistral: `late`: whether the system prompt is in the last user message, and [INST] and [/INST] are control
     * tokens; `strips`: whether answers lose white space at both ends; `no_system`: whether system prompts are not
     * allowed */
    bool late, strips, no_system;
    const char *begin, *end; /* tokens that begin a text and end it, if the tokenizer does not name its own */
    const char *control[ZR__CHAT_CONTROLS]; /* further control tokens, followed by NULL */
} zr__chat_form;

#endif
