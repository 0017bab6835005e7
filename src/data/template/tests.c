/* Tests, such as `is defined`. */
#include "data/template/values.h"

#include "base/text/text.h"

static bool is_text(const zr__value *v)
{
    return v->kind == ZR__STRING;
}

static zr_status kind_is(zr__value *out, bool truth)
{
    *out = zr__bool(truth);
    return ZR_OK;
}

#define TEST(name, truth)                                                                                              \
    static zr_status name(zr__run *r, const zr__call *c, zr__value *out)                                               \
    {                                                                                                                  \
        const zr__value *v = &c->self;                                                                                 \
        (void)r;                                                                                                       \
        return kind_is(out, (truth));                                                                                  \
    }
TEST(is_defined, v->kind != ZR__UNDEFINED)
TEST(is_undefined, v->kind == ZR__UNDEFINED)
TEST(is_none, v->kind == ZR__NONE)
TEST(is_true, v->kind == ZR__BOOL && v->truth)
TEST(is_false, v->kind == ZR__BOOL && !v->truth)
TEST(is_boolean, v->kind == ZR__BOOL)
TEST(is_integer, v->kind == ZR__INT)
TEST(is_float, v->kind == ZR__REAL)
TEST(is_number, zr__is_number(v))
TEST(is_string, is_text(v))
TEST(is_mapping, v->kind == ZR__DICT)
TEST(is_iterable, is_text(v) || v->kind == ZR__LIST || v->kind == ZR__DICT || v->kind == ZR__UNDEFINED)
TEST(is_sequence, is_text(v) || v->kind == ZR__DICT || v->kind == ZR__UNDEFINED ||
                      (v->kind == ZR__LIST && v->list->kind <= ZR__A_RANGE))
TEST(is_callable, v->kind == ZR__FUNCTION || v->kind == ZR__MACRO || v->kind == ZR__UNDEFINED)
TEST(is_equal, zr__equal(v, &c->slot[0]))
TEST(is_not_equal, !zr__equal(v, &c->slot[0]))

/* Compare with the argument: whether the order is `first` or `second`. */
static zr_status order_is(zr__run *r, const zr__call *c, int first, int second, zr__value *out)
{
    int order = 0;
    ZR_TRY(zr__order(r, &c->self, &c->slot[0], &order));
    return kind_is(out, order == first || order == second);
}

static zr_status is_less(zr__run *r, const zr__call *c, zr__value *out)
{
    return order_is(r, c, -1, -1, out);
}

static zr_status is_less_equal(zr__run *r, const zr__call *c, zr__value *out)
{
    return order_is(r, c, -1, 0, out);
}

static zr_status is_greater(zr__run *r, const zr__call *c, zr__value *out)
{
    return order_is(r, c, 1, 1, out);
}

static zr_status is_greater_equal(zr__run *r, const zr__call *c, zr__value *out)
{
    return order_is(r, c, 1, 0, out);
}

static zr_status is_in(zr__run *r, const zr__call *c, zr__value *out)
{
    bool found = false;
    ZR_TRY(zr__is_in(r, &c->self, &c->slot[0], &found));
    return kind_is(out, found);
}

/* Find out whether a whole number divided by `by` leaves `rest`. */
static zr_status leaves(zr__run *r, const zr__call *c, int64_t by, int64_t rest, zr__value *out)
{
    if (c->self.kind != ZR__INT || by == 0) return zr__run_bad(r, "a %s is not divided", zr__type_name(&c->self));
    return kind_is(out, by == -1 ? rest == 0 : (c->self.number % by + by) % by == rest);
}

static zr_status is_even(zr__run *r, const zr__call *c, zr__value *out)
{
    return leaves(r, c, 2, 0, out);
}

static zr_status is_odd(zr__run *r, const zr__call *c, zr__value *out)
{
    return leaves(r, c, 2, 1, out);
}

static zr_status is_divisible(zr__run *r, const zr__call *c, zr__value *out)
{
    if (c->slot[0].kind != ZR__INT) return zr__run_bad(r, "divisibleby needs a whole number");
    const int64_t by = c->slot[0].number;
    return c->self.kind == ZR__INT && by != 0 && by != -1 ? kind_is(out, c->self.number % by == 0)
                                                          : leaves(r, c, by, 0, out);
}

const zr__function zr__tests[] = {{ZR__TEST, "defined", "", 0, is_defined},
                                  {ZR__TEST, "undefined", "", 0, is_undefined},
                                  {ZR__TEST, "none", "", 0, is_none},
                                  {ZR__TEST, "true", "", 0, is_true},
                                  {ZR__TEST, "false", "", 0, is_false},
                                  {ZR__TEST, "boolean", "", 0, is_boolean},
                                  {ZR__TEST, "integer", "", 0, is_integer},
                                  {ZR__TEST, "float", "", 0, is_float},
                                  {ZR__TEST, "number", "", 0, is_number},
                                  {ZR__TEST, "string", "", 0, is_string},
                                  {ZR__TEST, "mapping", "", 0, is_mapping},
                                  {ZR__TEST, "iterable", "", 0, is_iterable},
                                  {ZR__TEST, "sequence", "", 0, is_sequence},
                                  {ZR__TEST, "callable", "", 0, is_callable},
                                  {ZR__TEST, "equalto", "other", 1, is_equal},
                                  {ZR__TEST, "eq", "other", 1, is_equal},
                                  {ZR__TEST, "==", "other", 1, is_equal},
                                  {ZR__TEST, "ne", "other", 1, is_not_equal},
                                  {ZR__TEST, "!=", "other", 1, is_not_equal},
                                  {ZR__TEST, "lt", "other", 1, is_less},
                                  {ZR__TEST, "lessthan", "other", 1, is_less},
                                  {ZR__TEST, "<", "other", 1, is_less},
                                  {ZR__TEST, "le", "other", 1, is_less_equal},
                                  {ZR__TEST, "<=", "other", 1, is_less_equal},
                                  {ZR__TEST, "gt", "other", 1, is_greater},
                                  {ZR__TEST, "greaterthan", "other", 1, is_greater},
                                  {ZR__TEST, ">", "other", 1, is_greater},
                                  {ZR__TEST, "ge", "other", 1, is_greater_equal},
                                  {ZR__TEST, ">=", "other", 1, is_greater_equal},
                                  {ZR__TEST, "in", "container", 1, is_in},
                                  {ZR__TEST, "even", "", 0, is_even},
                                  {ZR__TEST, "odd", "", 0, is_odd},
                                  {ZR__TEST, "divisibleby", "number", 1, is_divisible},
                                  {0}};
