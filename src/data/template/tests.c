/* Tests, such as `is defined`. */
#include "data/template/values.h"

#include "base/text/text.h"

typedef enum test {
    DEFINED,
    UNDEFINED,
    NONE,
    TRUE,
    FALSE,
    BOOLEAN,
    INTEGER,
    FLOAT,
    NUMBER,
    STRING,
    MAPPING,
    ITERABLE,
    SEQUENCE,
    CALLABLE,
    EQUAL,
    NOT_EQUAL,
    IN,
    ODD,
    EVEN,
} test;

static zr_status call_test(zr__run *r, const zr__call *c, zr__value *out)
{
    const zr__value *v = &c->self;
    const zr__kind kind = v->kind;
    const bool has_items = kind == ZR__STRING || kind == ZR__DICT || kind == ZR__UNDEFINED;
    bool truth = false;
    switch ((test)c->variant) {
    case DEFINED:
        truth = kind != ZR__UNDEFINED;
        break;
    case UNDEFINED:
        truth = kind == ZR__UNDEFINED;
        break;
    case NONE:
        truth = kind == ZR__NONE;
        break;
    case TRUE:
        truth = kind == ZR__BOOL && v->truth;
        break;
    case FALSE:
        truth = kind == ZR__BOOL && !v->truth;
        break;
    case BOOLEAN:
        truth = kind == ZR__BOOL;
        break;
    case INTEGER:
        truth = kind == ZR__INT;
        break;
    case FLOAT:
        truth = kind == ZR__REAL;
        break;
    case NUMBER:
        truth = zr__is_number(v);
        break;
    case STRING:
        truth = kind == ZR__STRING;
        break;
    case MAPPING:
        truth = kind == ZR__DICT;
        break;
    case ITERABLE:
        truth = has_items || kind == ZR__LIST;
        break;
    case SEQUENCE:
        truth = has_items || (kind == ZR__LIST && v->list->kind <= ZR__A_RANGE);
        break;
    case CALLABLE:
        truth = kind == ZR__FUNCTION || kind == ZR__MACRO || kind == ZR__UNDEFINED;
        break;
    case EQUAL:
    case NOT_EQUAL:
        ZR_TRY(zr__equal(r, v, &c->slot[0], &truth));
        truth = truth == (c->variant == EQUAL);
        break;
    case IN:
        ZR_TRY(zr__is_in(r, v, &c->slot[0], &truth));
        break;
    case ODD:
    case EVEN:
        if (kind != ZR__INT) return zr__run_bad(r, "a %s is neither even nor odd", zr__type_name(v));
        truth = (v->number % 2 == 0) == (c->variant == EVEN);
    }
    *out = zr__bool(truth);
    return ZR_OK;
}

#define ROW(name, variant)                                                                                             \
    {                                                                                                                  \
        ZR__TEST, name, "", 0, variant, call_test                                                                      \
    }
#define WITH(name, variant)                                                                                            \
    {                                                                                                                  \
        ZR__TEST, name, "other", 1, variant, call_test                                                                 \
    }
const zr__function zr__tests[] = {ROW("defined", DEFINED),
                                  ROW("undefined", UNDEFINED),
                                  ROW("none", NONE),
                                  ROW("true", TRUE),
                                  ROW("false", FALSE),
                                  ROW("boolean", BOOLEAN),
                                  ROW("integer", INTEGER),
                                  ROW("float", FLOAT),
                                  ROW("number", NUMBER),
                                  ROW("string", STRING),
                                  ROW("mapping", MAPPING),
                                  ROW("iterable", ITERABLE),
                                  ROW("sequence", SEQUENCE),
                                  ROW("callable", CALLABLE),
                                  ROW("odd", ODD),
                                  ROW("even", EVEN),
                                  WITH("equalto", EQUAL),
                                  WITH("eq", EQUAL),
                                  WITH("==", EQUAL),
                                  WITH("ne", NOT_EQUAL),
                                  WITH("!=", NOT_EQUAL),
                                  WITH("in", IN),
                                  {0}};
