/**
 * Renders conversations as text with a chat template (data/template) from a tokenizer's directory, from a file, or one
 * of zr's own, which have the forms of known models.
 *
 * A rendered conversation consists of spans. A span tells whether the model is trained on it, and whether it is text of
 * a message. In the text of a message, names of control tokens are ordinary text.
 *
 * Which bytes are an answer follows from the marks of data/template. If the template has {% generation %} blocks, these
 * are the answers. Otherwise an answer is the text of its message with the template's text within, and two parts of the
 * template's text around it: the part before the message that is not in the template's generation prompt, and the part
 * after it up to the end of the first control token.
 */
#ifndef ZR_DATA_CHAT_H
#define ZR_DATA_CHAT_H

#include "base/text/text.h"
#include "data/template/template.h"
#include "zr/data.h"

#define ZR__MARK_BYTES 64
#define ZR__CHAT_REASON_BYTES 512

/** A message of a conversation. */
typedef struct zr__turn {
    bool answer;   /* whether the assistant writes it */
    bool switched; /* whether its record says whether the loss counts it */
    bool trains;   /* whether the loss counts its text and the token that ends its turn */
} zr__turn;

/** A conversation. Set it to zeros before the first use. */
typedef struct zr__talk {
    json_t *messages;     /* messages as the template gets them */
    json_t *tools, *more; /* variables of the template: tools, and an object of others; or NULL */
    zr__turn *turn;       /* array of n */
    int64_t n, room;
    int64_t prompt; /* number of messages before the completion; 0 if answers count, not a completion */
    int64_t bytes;  /* length of the texts in the record */
} zr__talk;

/** Append a message, an object {"role": ROLE, "content": TEXT or list of parts, ...}, which the talk then owns. If it
 * is NULL, fail with ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__talk_add(zr__talk *talk, json_t *message);
/** Append a message with a text. Errors: ZR_ERR_ARG if it is not UTF-8; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__talk_say(zr__talk *talk, const char *role, const char *text, int64_t bytes);
void zr__talk_clear(zr__talk *talk);

/** Part of a rendered conversation. */
typedef struct zr__span {
    int64_t end;  /* offset in the text at which the span ends and the next span begins */
    bool message; /* whether it is text of a message, not of the template */
    bool trains;  /* whether the loss counts the tokens that begin in this span */
    bool apart;   /* whether the text from this span on is encoded separately from the text before it */
} zr__span;

/** A rendered conversation. Set it to zeros before the first use. */
typedef struct zr__rendered {
    zr__text text;
    zr__span *span;
    int64_t n, room;
    bool begins;                        /* whether it begins with the tokens that begin the tokenizer's texts */
    bool failed;                        /* whether memory was short */
    char reason[ZR__CHAT_REASON_BYTES]; /* reason if the template has no form for the messages */
} zr__rendered;

void zr__rendered_clear(zr__rendered *rendered);
void zr__rendered_free(zr__rendered *rendered);

/** Rendering of conversations for one tokenizer. Close it with zr__chat_close. */
typedef struct zr__chat {
    const struct zr__chat_form *form;                /* form of zr's own template, or NULL */
    zr__template *template;                          /* NULL if it is missing or cannot be read */
    json_t *variables;                               /* special tokens by name, as variables of the template */
    uint64_t hash;                                   /* hash of the template's text */
    char date[16];                                   /* today's date in the template */
    char begin[ZR__MARK_BYTES], end[ZR__MARK_BYTES]; /* texts of the tokens that begin a text and end it, or "" */
    char turn_end[ZR__MARK_BYTES];                   /* text of the token that ends an answer, or "" */
    char (*control)[ZR__MARK_BYTES];                 /* texts of the template's control tokens */
    int64_t controls, control_room;
    bool listed;                       /* whether tokenizer_config.json lists the added tokens */
    bool joins;                        /* whether the template takes contents only as texts, not as lists of parts */
    bool all;                          /* whether the loss counts the text of the template, too */
    char unread[ZR_SHOWN_BYTES + 512]; /* error of reading the directory's template, or "" */
} zr__chat;

/** Find the chat template of a tokenizer. `named` is the name of a form, the path of a template's file (it ends in
 * ".jinja"), or NULL or "auto" for the template in the tokenizer's directory. `date` is YYYY-MM-DD, or NULL for
 * ZR__CHAT_DATE. `more` is NULL, or the JSON text of an object with further variables. Success does not mean that there
 * is a template (zr__chat_want). Errors: ZR_ERR_CONFIG if the form, file or date does not exist; ZR_ERR_DATA if a file
 * of the directory is damaged. Close the result also after an error. */
#define ZR__CHAT_DATE "2024-07-26"
ZR_NODISCARD zr_status zr__chat_find(const char *tokenizer, const char *named, const char *date, const char *more,
                                     zr__chat *chat);
void zr__chat_close(zr__chat *chat);

/** Return the name of a further variable that cannot be given, because zr sets it for each conversation, or NULL. */
const char *zr__chat_own_variable(const json_t *variables);

/** Find the control tokens of the directory's template. Fail with ZR_ERR_UNSUPPORTED if there is no template, or one
 * that zr cannot read, or if the tokenizer lacks a control token of zr's own template. The message says what the user
 * can do instead. `what` names the file or command that needs the template, `key` is the key or option that names a
 * form, and `instead` describes an alternative without a template. */
ZR_NODISCARD zr_status zr__chat_want(zr__chat *chat, const zr_tokenizer *tokenizer, const char *what, const char *key,
                                     const char *instead);

/** Return the name of the template's form, or "own" for another template, or "none". */
const char *zr__chat_name(const zr__chat *chat);

/** Find the first name of a control token in a text. Return its offset and set *length to its bytes, or return -1. */
int64_t zr__chat_control_in(const zr__chat *chat, const char *text, int64_t bytes, int64_t *length);

/** Render a conversation. If `asks` is true, the assistant's answer is to follow, so the text ends with the beginning
 * of its turn. *reason receives NULL, or the reason why the template has no form for these messages, which belongs to
 * `rendered`. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__chat_render(const zr__chat *chat, const zr__talk *talk, bool asks, zr__rendered *rendered,
                                       const char **reason);

/** Set chat->end to the token that ends a text without a chat template: the tokenizer's own, or else ZR_END_OF_TEXT, or
 * else a newline. */
void zr__chat_set_end(zr__chat *chat, const zr_tokenizer *tokenizer);

/** Render a prompt, its completion and the token that ends the text. The loss counts the completion and this token, and
 * with chat->all the prompt too. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__pair_render(const zr__chat *chat, const char *prompt, int64_t prompt_bytes,
                                       const char *completion, int64_t completion_bytes, zr__rendered *rendered);

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
