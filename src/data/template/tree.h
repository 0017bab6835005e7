/** The tree of a template, and how it is read: the tokens of lex.c and the parser. */
#ifndef ZR_DATA_TEMPLATE_TREE_H
#define ZR_DATA_TEMPLATE_TREE_H

#include "data/template/values.h"

typedef enum zr__node_kind {
    /* expressions */
    ZR__CONSTANT,  /* value */
    ZR__NAME,      /* name */
    ZR__ITEMS,     /* list or tuple (value.kind: 0 or 1): list */
    ZR__PAIRS,     /* dict: list, keys and values in turn */
    ZR__ATTRIBUTE, /* a.name */
    ZR__ITEM,      /* a[b] */
    ZR__SLICE,     /* a[b:c:d]; b, c and d may be NULL */
    ZR__CALL,      /* a(list) */
    ZR__FILTERED,  /* a | function(list); a is NULL for a filter of a block */
    ZR__TESTED,    /* a is function(list) */
    ZR__NOT,       /* a */
    ZR__NEGATIVE,  /* a */
    ZR__POSITIVE,  /* a */
    ZR__AND,       /* a, b */
    ZR__OR,        /* a, b */
    ZR__BINARY,    /* a op b, arithmetic */
    ZR__CONCAT,    /* list, joined by ~ */
    ZR__COMPARE,   /* a, then list, each with its operator */
    ZR__CHOICE,    /* b if a else c, which may be NULL */
    /* statements */
    ZR__DATA,       /* value */
    ZR__PRINT,      /* a */
    ZR__FOR,        /* for a in b if c: list; other */
    ZR__IF,         /* if a: list; other */
    ZR__SET,        /* a = b */
    ZR__SET_BLOCK,  /* a = list, filtered by b if it is not NULL */
    ZR__DEFINE,     /* a macro: name, parameters a (names with defaults b), list */
    ZR__GENERATION, /* list */
    ZR__BREAK,
    ZR__CONTINUE,
} zr__node_kind;

/** Operators. */
typedef enum zr__op {
    ZR__ADD,
    ZR__SUBTRACT,
    ZR__MULTIPLY,
    ZR__DIVIDE,
    ZR__FLOOR_DIVIDE,
    ZR__MODULO,
    ZR__POWER,
    ZR__EQUAL,
    ZR__NOT_EQUAL,
    ZR__LESS,
    ZR__LESS_EQUAL,
    ZR__GREATER,
    ZR__GREATER_EQUAL,
    ZR__IN,
    ZR__NOT_IN,
} zr__op;

typedef struct zr__node {
    zr__node_kind kind;
    zr__op op;
    zr__op compare; /* in a comparison: the operator before this operand */
    int line;
    const char *name; /* equal names have equal pointers */
    const char *key;  /* name of a keyword argument, or NULL */
    const zr__function *function;
    zr__value value;
    struct zr__node *a, *b, *c, *d;
    struct zr__node *list, *other; /* the first of several nodes */
    struct zr__node *next;         /* next node of the list that contains this one */
} zr__node;

/** A macro, with the scope in which it was defined. */
typedef struct zr__macro {
    const zr__node *node;
    struct zr__scope *scope;
} zr__macro;

typedef enum zr__token_kind {
    ZR__T_END, /* end of the template */
    ZR__T_DATA,
    ZR__T_PRINT_BEGIN,
    ZR__T_PRINT_END,
    ZR__T_BLOCK_BEGIN,
    ZR__T_BLOCK_END,
    ZR__T_NAME,
    ZR__T_STRING,
    ZR__T_INT,
    ZR__T_REAL,
    ZR__T_OPERATOR,
} zr__token_kind;

typedef struct zr__token {
    zr__token_kind kind;
    int line;
    const char *text; /* the text of data, a string or a name, or the operator; ended by '\0' */
    int64_t bytes;
    int64_t number;
    double real;
} zr__token;

enum { ZR__NAME_BUCKETS = 256 };

typedef struct zr__name {
    struct zr__name *next;
    char text[];
} zr__name;

struct zr__template {
    zr__pool pool;
    char *name; /* name of the template in messages */
    zr__token *token;
    int64_t n, room;
    zr__name *names[ZR__NAME_BUCKETS];
    zr__node *body; /* first statement */
    bool generates;
};

/** Divide the template into tokens, which end with ZR__T_END. Errors: as zr__template_read. */
ZR_NODISCARD zr_status zr__template_lex(zr__template *t, const char *text, int64_t bytes);
/** Make the tree. Errors: as zr__template_read. */
ZR_NODISCARD zr_status zr__template_parse(zr__template *t);

/** Apply an arithmetic operator. */
ZR_NODISCARD zr_status zr__binary(zr__run *r, zr__op op, const zr__value *a, const zr__value *b, zr__value *out);
/** Apply an operator of comparison. */
ZR_NODISCARD zr_status zr__compare(zr__run *r, zr__op op, const zr__value *a, const zr__value *b, bool *truth);
/** Slice a text or a list; bounds may be none. */
ZR_NODISCARD zr_status zr__slice(zr__run *r, const zr__value *of, const zr__value *from, const zr__value *to,
                                 const zr__value *step, zr__value *out);

/** Return the pointer that stands for a name in the template, or NULL if the template does not contain it. */
const char *zr__name_find(const zr__template *t, const char *name);
/** Return the pointer that stands for a name, and add it if it is new. */
ZR_NODISCARD zr_status zr__name_add(zr__template *t, const char *text, int64_t bytes, const char **name);

/** Fail with the template's name and a line. */
zr_status zr__template_wrong(const zr__template *t, int line, zr_status status, const char *format, ...)
    ZR_PRINTF(4, 5);

#endif
