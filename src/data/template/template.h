/**
 * data/template: executes chat templates, which are programs in a part of the language Jinja. The results equal
 * Jinja2's with the settings of transformers. read.c reads a template: lex.c divides it into tokens, parse.c and
 * expressions.c make the tree of tree.h. run.c executes it, with operators.c. call.c finds functions and binds their
 * arguments; filters.c, tests.c and methods.c have them. values.h has the values, string.c their texts, values.c
 * compares them, print.c prints them.
 *
 * A template is a program that is not trusted. It can neither read files nor the clock, and its depth, steps and memory
 * are bounded. A construct that zr does not support is refused with its line: when the template is read, or, if only
 * the values show it, when it is executed.
 *
 * Each byte of the result has a mark: whether a message contains it, which one, and whether the template puts it into a
 * {% generation %} block. Marks follow texts through slices, strip(), split(), joins and all other operations.
 */
#ifndef ZR_DATA_TEMPLATE_H
#define ZR_DATA_TEMPLATE_H

#include "base/core/scope.h"

#include <jansson.h>

/** Source of bytes that belong to no message: text of the template, and text of other arguments, such as tools. */
enum { ZR__FROM_TEMPLATE = -1, ZR__FROM_DATA = -2 };

/** A part of a text, up to the offset `end`. A part may be empty, such as an empty message. */
typedef struct zr__mark {
    int64_t end;
    int32_t source; /* index of the message, or ZR__FROM_... */
    bool generated; /* whether it is in a {% generation %} block */
} zr__mark;

typedef struct zr__template zr__template;

/** Read a template. `name` is its name in messages; it is copied. Errors: ZR_ERR_DATA for a mistake in the template;
 * ZR_ERR_UNSUPPORTED for a part of Jinja that zr does not support; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__template_read(const char *text, int64_t bytes, const char *name, zr__template **out);
void zr__template_close(zr__template **template);

/** Return whether the template has a {% generation %} block. */
bool zr__template_generates(const zr__template *template);
/** Return whether a text occurs in the template's own text or in one of its strings. */
bool zr__template_contains(const zr__template *template, const char *text);

/** Return whether a template reads a variable or a member of this name, or may do so because one of its strings is the
 * name. */
bool zr__template_reads(const zr__template *template, const char *name);

/** Variables of a template. Members may be NULL. */
typedef struct zr__template_args {
    const json_t *messages;          /* array of objects; borrowed until the result is released, as all members */
    const json_t *tools, *documents; /* NULL is none */
    const json_t *more;              /* object: further variables, such as bos_token */
    bool add_generation_prompt;
    const char *date; /* date of strftime_now, "YYYY-MM-DD" */
} zr__template_args;

/** A rendered text, in memory that belongs to `run`. */
typedef struct zr__template_text {
    const char *text;
    int64_t bytes;
    const zr__mark *mark; /* marks of the whole text, in order */
    int64_t n;
    struct zr__run *run;
} zr__template_text;

/** Execute a template. Release the result with zr__template_release, also after an error. Different threads may execute
 * one template. Errors: ZR_ERR_DATA if the template fails or refuses the messages; ZR_ERR_MEMORY. */
ZR_NODISCARD zr_status zr__template_run(const zr__template *template, const zr__template_args *args,
                                        zr__template_text *out);
void zr__template_release(zr__template_text *text);

#endif
