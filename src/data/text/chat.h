/**
 * Renders conversations as text, in the forms of known chat templates. A template in a tokenizer's directory is a
 * program in the language Jinja, which zr does not execute. zr compares the hash of the template's text with the hashes
 * of templates that it knows, and renders these with its own code. zr refuses every other template.
 *
 * A rendered conversation consists of spans. A span tells whether the model is trained on it, whether it is a control
 * token, and whether it is text of a message. In the text of a message, names of control tokens are ordinary text.
 */
#ifndef ZR_DATA_CHAT_H
#define ZR_DATA_CHAT_H

#include "base/text/text.h"
#include "zr/data.h"

#define ZR__MARK_BYTES 64
#define ZR__CHAT_CONTROLS 6

typedef enum zr__role { ZR__SYSTEM, ZR__USER, ZR__ASSISTANT, ZR__ROLES } zr__role;

/** A message of a conversation. The text is borrowed. */
typedef struct zr__message {
    zr__role role;
    const char *text;
    int64_t bytes;
    bool trains; /* whether the loss counts its text and the token that ends its turn */
} zr__message;

typedef enum zr__span_kind {
    ZR__SPAN_FRAME,   /* text of the template */
    ZR__SPAN_CONTROL, /* control token, one token of the tokenizer's vocabulary */
    ZR__SPAN_MESSAGE, /* text of a message */
} zr__span_kind;

/** Part of a rendered conversation. */
typedef struct zr__span {
    int64_t end; /* offset in the text at which the span ends and the next span begins */
    zr__span_kind kind;
    bool trains; /* whether the loss counts the tokens that begin in this span */
    bool apart;  /* whether the text from this span on is encoded separately from the text before it */
} zr__span;

/** A rendered conversation. Set it to zeros before the first use. */
typedef struct zr__rendered {
    zr__text text;
    zr__span *span;
    int64_t n, room;
    bool failed; /* whether memory was short */
} zr__rendered;

void zr__rendered_clear(zr__rendered *rendered);
void zr__rendered_free(zr__rendered *rendered);

/** Rendering of conversations for one tokenizer. */
typedef struct zr__chat {
    const struct zr__chat_form *form;                /* the template's form; NULL if there is no template */
    char begin[ZR__MARK_BYTES], end[ZR__MARK_BYTES]; /* texts of the tokens that begin a text and end it, or "" */
    bool all;                                        /* whether the loss counts the text of the template, too */
    char unknown[ZR_SHOWN_BYTES + 64];               /* location of a template that zr does not know, or "" */
} zr__chat;

/** Find the chat template of a tokenizer. `named` is the name of a form, or NULL or "auto" for the template in the
 * tokenizer's directory. Success does not mean that there is a template (zr__chat_want). Errors: ZR_ERR_CONFIG if no
 * form has this name; ZR_ERR_DATA if a file of the directory is damaged. */
ZR_NODISCARD zr_status zr__chat_find(const char *tokenizer, const char *named, zr__chat *chat);

/** Fail with ZR_ERR_UNSUPPORTED if there is no known template, or if the tokenizer lacks one of its control tokens. The
 * message says what the user can do instead. `what` names the file or command that needs the template, `key` is the key
 * or option that names a form, and `instead` describes an alternative without a template. */
ZR_NODISCARD zr_status zr__chat_want(const zr__chat *chat, const zr_tokenizer *tokenizer, const char *what,
                                     const char *key, const char *instead);

/** Return the name of the template's form, or "none". */
const char *zr__chat_name(const zr__chat *chat);

/** Return the text of the token that ends a turn of the assistant. */
const char *zr__chat_turn_end(const zr__chat *chat);

/** Store the texts of the control tokens of the template in `control`. Return their number. */
int zr__chat_controls(const zr__chat *chat, const char *control[ZR__CHAT_CONTROLS]);

/** Render a conversation of n messages. If `asks` is true, the assistant's answer is to follow, so the text ends with
 * the beginning of its turn. *reason receives NULL, or the reason why the template has no form for these messages.
 * Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__chat_render(const zr__chat *chat, const zr__message *message, int64_t n, bool asks,
                                       zr__rendered *rendered, const char **reason);

/** Render a prompt, its completion and the token that ends the text. The loss counts the completion and this token, and
 * with chat->all the prompt too. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__pair_render(const zr__chat *chat, const zr__message *prompt, const zr__message *completion,
                                       zr__rendered *rendered);

/**
 * Encode a rendered text, and append its tokens to the growing array *ids, which has *n tokens and capacity *room. A
 * token counts for the loss if its first byte belongs to a span that trains. Other tokens have ZR__IGNORED added.
 *
 * The text is encoded as a whole, as transformers does. It is divided only before a span that is `apart`, and in names
 * of control tokens in messages. Errors: ZR_ERR_MEMORY, and the errors of zr_tokenizer_encode.
 */
#define ZR__IGNORED INT32_MIN
ZR_NODISCARD zr_status zr__rendered_encode(const zr__rendered *rendered, const zr__chat *chat,
                                           const zr_tokenizer *tokenizer, int32_t **ids, int64_t *room, int64_t *n);

#endif
