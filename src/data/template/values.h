/** Values of templates, in memory that is released as a whole. Values never change, except for namespaces. */
#ifndef ZR_DATA_TEMPLATE_VALUES_H
#define ZR_DATA_TEMPLATE_VALUES_H

#include "data/template/template.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/** Memory that is released as a whole. Set it to zeros before the first use. */
typedef struct zr__pool {
    struct zr__pool_block *block;
    int64_t used, room;  /* bytes of the newest block */
    int64_t total, most; /* bytes of all blocks; their limit, or 0 */
} zr__pool;

/** Take zeroed memory. Error: ZR_ERR_MEMORY if memory is short, ZR_ERR_DATA at the limit. */
ZR_NODISCARD zr_status zr__pool_take(zr__pool *pool, int64_t bytes, void *out);
void zr__pool_clear(zr__pool *pool);

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum zr__kind {
    ZR__MISSING, /* an argument that was not given */
    ZR__UNDEFINED,
    ZR__NONE,
    ZR__BOOL,
    ZR__INT,
    ZR__REAL,
    ZR__STRING,
    ZR__LIST,
    ZR__DICT,
    ZR__NAMESPACE,
    ZR__MACRO,
    ZR__FUNCTION, /* a function, or a method with the value that it belongs to */
    ZR__LOOP,     /* the variable `loop` */
} zr__kind;

/** A text in UTF-8, which need not be ended by '\0'. Without marks it is text of the template. */
typedef struct zr__string {
    const char *text;
    int64_t bytes, marks;
    const zr__mark *mark;
    bool safe; /* whether it is a result of the filter `safe` */
} zr__string;

typedef struct zr__value {
    zr__kind kind;
    union {
        bool truth;
        int64_t number;
        double real;
        const zr__string *string;
        struct zr__list *list;
        struct zr__dict *dict; /* also of a namespace */
        const struct zr__macro *macro;
        const struct zr__function *function;
        struct zr__loop *loop;
        const char *name; /* UNDEFINED: the undefined name, for messages */
    };
    const struct zr__value *self; /* FUNCTION: the value that a method belongs to, or NULL */
} zr__value;

/** Kinds of Python's sequences. */
typedef enum zr__list_kind {
    ZR__A_LIST,
    ZR__A_TUPLE,
    ZR__A_RANGE,
    ZR__A_VIEW,     /* a view of a dict's keys, values or items: no indices */
    ZR__A_SEQUENCE, /* an iterator: no length, always true, has the items that were not taken from it yet */
} zr__list_kind;

typedef struct zr__list {
    zr__list_kind kind;
    int depth; /* levels of values within */
    zr__value *item;
    int64_t n, room;
} zr__list;

typedef struct zr__pair {
    zr__value key, value;
} zr__pair;

typedef struct zr__dict {
    int depth;
    zr__pair *pair;
    int64_t n, room;
} zr__dict;

/** An execution of a template. */
typedef struct zr__run {
    zr__pool pool;
    const zr__template *template;
    const zr__template_args *args;
    int line;      /* line of the statement or expression that is executed, for messages */
    int64_t steps; /* work done */
    int depth;
    struct zr__scope *scope;
    struct zr__builder *out; /* where output goes */
} zr__run;

/** Fail with ZR_ERR_DATA and the line of the template. */
zr_status zr__run_bad(const zr__run *r, const char *format, ...) ZR_PRINTF(2, 3);
/** Count work. Fail if the template has done too much. */
ZR_NODISCARD zr_status zr__run_work(zr__run *r, int64_t steps);

/* ---- texts ----------------------------------------------------------------------------------- */

/** A growing text with marks. Set it to zeros before the first use. */
typedef struct zr__builder {
    char *text;
    int64_t bytes, room;
    zr__mark *mark;
    int64_t marks, mark_room;
    bool marked; /* whether a mark differs from the mark of the template's text */
} zr__builder;

/** Append bytes of a source. */
ZR_NODISCARD zr_status zr__build_bytes(zr__run *r, zr__builder *b, const char *text, int64_t bytes, int32_t source);
ZR_NODISCARD zr_status zr__build_text(zr__run *r, zr__builder *b, const char *text);
/** Append a string, or its bytes [from, to). */
ZR_NODISCARD zr_status zr__build_string(zr__run *r, zr__builder *b, const zr__string *string);
ZR_NODISCARD zr_status zr__build_slice(zr__run *r, zr__builder *b, const zr__string *string, int64_t from, int64_t to);
/** Append a string as the text of a {% generation %} block. */
ZR_NODISCARD zr_status zr__build_generated(zr__run *r, zr__builder *b, const zr__string *string);
/** Append other bytes in place of bytes [from, to) of a string, with the mark of byte `from`. */
ZR_NODISCARD zr_status zr__build_instead(zr__run *r, zr__builder *b, const zr__string *string, int64_t from,
                                         const char *text, int64_t bytes);
/** Make a value of the built text. */
ZR_NODISCARD zr_status zr__build_done(zr__run *r, const zr__builder *b, zr__value *out);

ZR_NODISCARD zr_status zr__string_of(zr__run *r, const char *text, int64_t bytes, int32_t source, zr__value *out);
ZR_NODISCARD zr_status zr__string_slice(zr__run *r, const zr__string *string, int64_t from, int64_t to, zr__value *out);
/** Return the number of characters. */
int64_t zr__string_length(const zr__string *string);
/** Return the bytes of the character at byte `at`. */
int64_t zr__string_step(const zr__string *string, int64_t at);
/** Return the byte offset of the next occurrence of `what` from byte `at` on, or -1. */
int64_t zr__string_find(const zr__string *string, const zr__string *what, int64_t at);
/** Remove the characters of `set`, or white space if it is NULL, from the left and the right end. */
ZR_NODISCARD zr_status zr__string_strip(zr__run *r, const zr__string *string, const zr__string *set, bool left,
                                        bool right, zr__value *out);
/** Letters of a converted string: of each word's first character in TITLE_CASE, of the string's in CAPITALIZED. */
typedef enum zr__case { ZR__UPPER_CASE, ZR__LOWER_CASE, ZR__CAPITALIZED, ZR__TITLE_CASE } zr__case;
ZR_NODISCARD zr_status zr__string_case(zr__run *r, const zr__string *string, zr__case to, zr__value *out);
ZR_NODISCARD zr_status zr__string_replace(zr__run *r, const zr__string *string, const zr__string *old,
                                          const zr__string *new, int64_t most, zr__value *out);
/** Divide a string at `by`, or at white space if it is NULL, at most `most` times (if not negative). */
ZR_NODISCARD zr_status zr__string_split(zr__run *r, const zr__string *string, const zr__string *by, int64_t most,
                                        bool from_right, zr__value *out);
ZR_NODISCARD zr_status zr__string_join(zr__run *r, const zr__string *between, const zr__list *list, zr__value *out);

/* ---- lists and dicts ------------------------------------------------------------------------- */

static inline zr__value zr__int(int64_t number)
{
    return (zr__value){.kind = ZR__INT, .number = number};
}
static inline zr__value zr__bool(bool truth)
{
    return (zr__value){.kind = ZR__BOOL, .truth = truth};
}
static inline zr__value zr__undefined(const char *name)
{
    return (zr__value){.kind = ZR__UNDEFINED, .name = name};
}
static inline zr__value zr__none(void)
{
    return (zr__value){.kind = ZR__NONE};
}

ZR_NODISCARD zr_status zr__list_make(zr__run *r, zr__list_kind kind, int64_t room, zr__value *out);
ZR_NODISCARD zr_status zr__list_append(zr__run *r, zr__list *list, zr__value value);
ZR_NODISCARD zr_status zr__tuple_of(zr__run *r, zr__value first, zr__value second, zr__value *out);
ZR_NODISCARD zr_status zr__dict_make(zr__run *r, zr__kind kind, zr__value *out);
ZR_NODISCARD zr_status zr__dict_put(zr__run *r, zr__dict *dict, zr__value key, zr__value value);
/** Set *value to the value of a key, or to NULL. */
ZR_NODISCARD zr_status zr__dict_get(zr__run *r, const zr__dict *dict, const zr__value *key, zr__value **value);
/** Convert JSON. `source` is the source of its texts. The role of a message, `message`, is text of the template. */
ZR_NODISCARD zr_status zr__value_of_json(zr__run *r, const json_t *json, int32_t source, bool message, zr__value *out);

/** Return the name of a value's type in Python. */
const char *zr__type_name(const zr__value *v);
bool zr__is_true(const zr__value *v);
bool zr__is_number(const zr__value *v);
/** Return the number of a bool or an int. */
int64_t zr__int_of(const zr__value *v);
double zr__real_of(const zr__value *v);
/** Set *equal to whether two values are equal. */
ZR_NODISCARD zr_status zr__equal(zr__run *r, const zr__value *a, const zr__value *b, bool *equal);
/** Compare two values by size: *order receives -1, 0 or 1. Fail if Python does not order them. */
ZR_NODISCARD zr_status zr__order(zr__run *r, const zr__value *a, const zr__value *b, int *order);
/** Make a list of the items that a loop over the value visits. An iterator is used up. */
ZR_NODISCARD zr_status zr__items_of(zr__run *r, const zr__value *v, zr__list **items);
/** Find `value` in the container `in`. */
ZR_NODISCARD zr_status zr__is_in(zr__run *r, const zr__value *value, const zr__value *in, bool *found);
/** Return the attribute or the item of a value by name; `item` says which is tried first. */
ZR_NODISCARD zr_status zr__attribute(zr__run *r, const zr__value *of, const zr__value *key, bool item, zr__value *out);

/* ---- printing -------------------------------------------------------------------------------- */

/** Append a value as Python's str() prints it. */
ZR_NODISCARD zr_status zr__print(zr__run *r, zr__builder *b, const zr__value *v);
ZR_NODISCARD zr_status zr__to_string(zr__run *r, const zr__value *v, zr__value *out);

/** Settings of Python's json.dumps. */
typedef struct zr__json_style {
    bool ascii, sorted;
    int64_t indent; /* negative for one line */
    const zr__string *comma, *colon;
} zr__json_style;
ZR_NODISCARD zr_status zr__print_json(zr__run *r, zr__builder *b, const zr__value *v, const zr__json_style *style,
                                      int64_t level);

/* ---- functions ------------------------------------------------------------------------------- */

enum { ZR__SLOTS = 5, ZR__ARGS = 12 };

/** Arguments of a call, in the order of the template. */
typedef struct zr__args {
    zr__value value[ZR__ARGS];
    const char *key[ZR__ARGS]; /* name of a keyword argument, or NULL */
    int n;
} zr__args;

/** A call of a built-in function. */
typedef struct zr__call {
    zr__value self;            /* the value that is filtered or tested, or has the method */
    zr__value slot[ZR__SLOTS]; /* arguments in the order of the parameters; MISSING if not given */
    const zr__args *args;      /* all arguments */
    int variant;               /* that of the function */
} zr__call;

typedef enum zr__function_kind {
    ZR__FILTER,
    ZR__TEST,
    ZR__GLOBAL,
    ZR__STRING_METHOD,
    ZR__DICT_METHOD,
} zr__function_kind;

typedef struct zr__function {
    zr__function_kind kind;
    const char *name;
    const char *parameters; /* names, separated by spaces; "*" if the function reads call->args itself */
    int least;              /* number of parameters that must be given */
    int variant;            /* variant, for a `call` that several functions share */
    zr_status (*call)(zr__run *r, const zr__call *call, zr__value *out);
} zr__function;

/** Find a built-in function, or return NULL. */
const zr__function *zr__function_named(zr__function_kind kind, const char *name);
/** Return whether strings or dicts have a method of this name. */
bool zr__is_method(const char *name);
ZR_NODISCARD zr_status zr__function_call(zr__run *r, const zr__function *function, const zr__value *self,
                                         const zr__args *args, zr__value *out);

/* Tables of functions, each ended by a row without a name. */
extern const zr__function zr__filters[], zr__tests[], zr__methods[];

#endif
