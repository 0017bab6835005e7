/** Forms of records for fine-tuning: the members by which a form is recognised, and what a record becomes. A new form
 * is a row of the table in forms.c. */
#ifndef ZR_DATA_FORMS_H
#define ZR_DATA_FORMS_H

#include "data/text/chat.h"
#include "data/text/parts.h"

/** Kinds of text that the records of a file become. */
typedef enum zr__lines_kind {
    ZR__LINES_TEXT,     /* a text that counts as a whole */
    ZR__LINES_PAIR,     /* a prompt and its completion, with nothing between them */
    ZR__LINES_MESSAGES, /* a conversation, rendered with a chat template */
} zr__lines_kind;

/** Meanings of a record's members, in the order in which messages list them. */
typedef enum zr__slot {
    ZR__SLOT_TEXT,
    ZR__SLOT_LIST,   /* messages */
    ZR__SLOT_PROMPT, /* text of the user */
    ZR__SLOT_INPUT,  /* further text of the user, behind the prompt; may be missing or empty, as all members below */
    ZR__SLOT_ANSWER, /* (never missing) */
    ZR__SLOT_SYSTEM,
    ZR__SLOT_HISTORY, /* earlier prompts, each with its answer */
    ZR__SLOT_TOOLS,
    ZR__SLOTS
} zr__slot;

#define ZR__SAID_BYTES 192
typedef struct zr__form zr__form;

/** Form of the records of a file. Set it to zeros before the first use. */
typedef struct zr__form_found {
    const zr__form *form;
    zr__lines_kind kind;
    bool alpaca;                    /* whether the form has a prompt of its own for models without a chat template */
    const char *member[ZR__SLOTS];  /* names of the members in this file, or NULL */
    const char *role, *content;     /* names of the members of a message, or NULL for the usual ones */
    json_t *columns;                /* data.columns, which has these names */
    char said[ZR__SAID_BYTES - 48]; /* the members of the first record, for messages: "instruction, input, output" */
} zr__form_found;

/** Find the form of a file from its first record; of records that have several forms, the form that comes first in the
 * table. If bad lines are skipped, the first record that has a form decides. `like` says how to read the file.
 * `columns` is NULL, or the JSON text of an object that maps members of the table to the file's members; then only
 * forms with all mapped members are considered. `text_key` names the member "text", if it is not NULL. Errors:
 * ZR_ERR_CONFIG for `columns`; ZR_ERR_DATA if the record is bad or has no form; as zr__part_read. Close the result also
 * after an error. */
ZR_NODISCARD zr_status zr__form_find(const zr__parts *like, const char *columns, const char *text_key,
                                     zr__form_found *found);
void zr__form_close(zr__form_found *found);

/** Return a hash of the form and of the names of its members. */
uint64_t zr__form_hash(const zr__form_found *found);

/** Read a record that becomes a conversation. If it is bad, write the reason. Error: ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__form_read(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason);

/** Read a member that is a text. If it is bad, write the reason. */
bool zr__form_text(const zr__form_found *found, const json_t *record, zr__slot slot, const char **text, int64_t *bytes,
                   char *reason);

/** Write the reason why a record's member is bad: it is missing, or not `wanted`, such as "a text". */
void zr__form_refuse(const zr__form_found *found, const json_t *record, zr__slot slot, const char *wanted,
                     char *reason);

/* ---- conversations (talk.c) ------------------------------------------------------------------ */

/** Functions that read a conversation: a list of messages; prompt, history and answer as texts; prompt and completion
 * as lists of messages. */
typedef zr_status (*zr__read_fn)(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason);
zr_status zr__read_list(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason);
zr_status zr__read_turns(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason);
zr_status zr__read_lists(const zr__form_found *found, const json_t *record, zr__talk *talk, char *reason);

#endif
