/* Operators: arithmetic, sums of texts and lists, comparisons, slices. */
#include "data/template/tree.h"

#include "base/text/text.h"

#include <math.h>
#include <string.h>

static zr_status whole_result(zr__run *r, bool overflows, int64_t number, zr__value *out)
{
    *out = zr__int(number);
    return overflows ? zr__run_bad(r, "a whole number of more than 64 bits is not supported") : ZR_OK;
}

static zr_status power(zr__run *r, int64_t base, int64_t exponent, zr__value *out)
{
    int64_t product = 1;
    bool overflows = false;
    for (int64_t i = 0; i < exponent && !overflows && (product != 1 || base != 1 || i == 0); i++) {
        ZR_TRY(zr__run_work(r, 1));
        overflows = __builtin_mul_overflow(product, base, &product);
    }
    return whole_result(r, overflows, product, out);
}

static zr_status calculate_whole(zr__run *r, zr__op op, int64_t a, int64_t b, zr__value *out)
{
    int64_t result = 0;
    bool overflows = false;
    switch (op) {
    case ZR__ADD:
        overflows = __builtin_add_overflow(a, b, &result);
        break;
    case ZR__SUBTRACT:
        overflows = __builtin_sub_overflow(a, b, &result);
        break;
    case ZR__MULTIPLY:
        overflows = __builtin_mul_overflow(a, b, &result);
        break;
    case ZR__POWER:
        return power(r, a, b, out);
    default: /* INT64_MIN / -1 has no result */
        overflows = b == -1 && a == INT64_MIN;
        const int64_t rest = b == -1 ? 0 : a % b, below = rest != 0 && (rest < 0) != (b < 0);
        result = op == ZR__MODULO ? rest + (below ? b : 0) : overflows ? 0 : a / b - below;
    }
    return whole_result(r, overflows, result, out);
}

static zr_status calculate(zr__run *r, zr__op op, const zr__value *a, const zr__value *b, zr__value *out)
{
    const double x = zr__real_of(a), y = zr__real_of(b);
    double result = 0;
    const bool divides = op == ZR__DIVIDE || op == ZR__FLOOR_DIVIDE || op == ZR__MODULO;
    if (divides && y == 0.0) return zr__run_bad(r, "a division by zero");
    if (a->kind != ZR__REAL && b->kind != ZR__REAL && op != ZR__DIVIDE && !(op == ZR__POWER && y < 0))
        return calculate_whole(r, op, zr__int_of(a), zr__int_of(b), out);
    switch (op) {
    case ZR__ADD:
        result = x + y;
        break;
    case ZR__SUBTRACT:
        result = x - y;
        break;
    case ZR__MULTIPLY:
        result = x * y;
        break;
    case ZR__DIVIDE:
        result = x / y;
        break;
    case ZR__POWER:
        result = pow(x, y);
        break;
    default:
        result = fmod(x, y);
        if (result != 0.0 && (result < 0) != (y < 0)) result += y;
        if (op == ZR__FLOOR_DIVIDE) result = floor((x - result) / y + 0.5);
    }
    *out = (zr__value){.kind = ZR__REAL, .real = result};
    return ZR_OK;
}

/* Append a string, with HTML's special characters escaped. */
static zr_status build_escaped(zr__run *r, zr__builder *b, const zr__string *s)
{
    static const char special[] = "&<>'\"";
    static const char *const escaped[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    for (int64_t i = 0; i < s->bytes; i++) {
        const char *found = s->text[i] ? strchr(special, s->text[i]) : NULL;
        const char *text = found ? escaped[found - special] : s->text + i;
        ZR_TRY(zr__build_instead(r, b, s, i, text, found ? (int64_t)strlen(text) : 1));
    }
    return s->bytes == 0 ? zr__build_string(r, b, s) : ZR_OK;
}

static zr_status add_strings(zr__run *r, const zr__string *a, const zr__string *b, zr__value *out)
{
    zr__builder builder = {0};
    const bool safe = a->safe || b->safe; /* then Jinja escapes the other string */
    zr__string *sum = NULL;
    ZR_TRY((safe && !a->safe ? build_escaped : zr__build_string)(r, &builder, a));
    ZR_TRY((safe && !b->safe ? build_escaped : zr__build_string)(r, &builder, b));
    ZR_TRY(zr__build_done(r, &builder, out));
    if (!safe) return ZR_OK;
    ZR_TRY(zr__pool_take(&r->pool, sizeof(*sum), &sum));
    *sum = *out->string;
    sum->safe = true;
    out->string = sum;
    return ZR_OK;
}

static zr_status add_lists(zr__run *r, const zr__list *a, const zr__list *b, zr__value *out)
{
    ZR_TRY(zr__list_make(r, a->kind, a->n + b->n, out));
    for (int64_t i = 0; i < a->n; i++) ZR_TRY(zr__list_append(r, out->list, a->item[i]));
    for (int64_t i = 0; i < b->n; i++) ZR_TRY(zr__list_append(r, out->list, b->item[i]));
    return ZR_OK;
}

/* Repeat a string or a list. */
static zr_status repeat(zr__run *r, const zr__value *what, int64_t times, zr__value *out)
{
    zr__builder b = {0};
    if (what->kind == ZR__STRING) {
        for (int64_t i = 0; i < times; i++) {
            ZR_TRY(zr__run_work(r, 1));
            ZR_TRY(zr__build_string(r, &b, what->string));
        }
        return zr__build_done(r, &b, out);
    }
    ZR_TRY(zr__list_make(r, what->list->kind, 0, out));
    for (int64_t i = 0; i < times; i++) {
        ZR_TRY(zr__run_work(r, 1));
        for (int64_t k = 0; k < what->list->n; k++) ZR_TRY(zr__list_append(r, out->list, what->list->item[k]));
    }
    return ZR_OK;
}

static bool is_sequence(const zr__value *v)
{
    return v->kind == ZR__STRING || (v->kind == ZR__LIST && v->list->kind <= ZR__A_TUPLE);
}

zr_status zr__binary(zr__run *r, zr__op op, const zr__value *a, const zr__value *b, zr__value *out)
{
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (zr__is_number(a) && zr__is_number(b)) return calculate(r, op, a, b, out);
    if (op == ZR__ADD && a->kind == ZR__STRING && b->kind == ZR__STRING)
        return add_strings(r, a->string, b->string, out);
    if (op == ZR__ADD && a->kind == ZR__LIST && b->kind == ZR__LIST && a->list->kind == b->list->kind && is_sequence(a))
        return add_lists(r, a->list, b->list, out);
    const bool a_counts = a->kind == ZR__INT || a->kind == ZR__BOOL,
               b_counts = b->kind == ZR__INT || b->kind == ZR__BOOL;
    if (op == ZR__MULTIPLY && is_sequence(a) && b_counts) return repeat(r, a, zr__int_of(b), out);
    if (op == ZR__MULTIPLY && is_sequence(b) && a_counts) return repeat(r, b, zr__int_of(a), out);
    const zr__value *undefined = a->kind == ZR__UNDEFINED ? a : b->kind == ZR__UNDEFINED ? b : NULL;
    if (undefined) return zr__run_bad(r, "%s is undefined (in %s)", ZR_SHOWN(undefined->name), signs[op]);
    if (op == ZR__MODULO && a->kind == ZR__STRING) return zr__run_bad(r, "the format operator %% is not supported");
    return zr__run_bad(r, "%s of a %s and a %s is not possible", signs[op], zr__type_name(a), zr__type_name(b));
}

zr_status zr__compare(zr__run *r, zr__op op, const zr__value *a, const zr__value *b, bool *truth)
{
    int order = 0;
    if (op == ZR__EQUAL || op == ZR__NOT_EQUAL) {
        ZR_TRY(zr__equal(r, a, b, truth));
        *truth = *truth == (op == ZR__EQUAL);
        return ZR_OK;
    }
    if (op == ZR__IN || op == ZR__NOT_IN) {
        ZR_TRY(zr__is_in(r, a, b, truth));
        *truth = *truth == (op == ZR__IN);
        return ZR_OK;
    }
    ZR_TRY(zr__order(r, a, b, &order));
    *truth = op == ZR__LESS         ? order == -1
             : op == ZR__LESS_EQUAL ? order == -1 || order == 0
             : op == ZR__GREATER    ? order == 1
                                    : order == 1 || order == 0;
    return ZR_OK;
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Take the bound of a slice. The value none does not change *bound. */
static zr_status take_bound(zr__run *r, const zr__value *value, int64_t *bound)
{
    if (value->kind == ZR__NONE) return ZR_OK;
    if (value->kind != ZR__INT && value->kind != ZR__BOOL)
        return zr__run_bad(r, "a %s is not an index of a slice", zr__type_name(value));
    *bound = zr__int_of(value);
    return ZR_OK;
}

/* Bring a bound into the range of indices, as Python does. */
static int64_t clip(int64_t bound, int64_t n, bool back)
{
    if (bound < 0) bound = bound + n < 0 ? (back ? -1 : 0) : bound + n;
    return bound >= n ? (back ? n - 1 : n) : bound;
}

static zr_status slice_string(zr__run *r, const zr__string *s, int64_t from, int64_t to, int64_t step, zr__value *out)
{
    zr__builder b = {0};
    int64_t *offset = NULL, n = 0, begin = 0, end = 0;
    if (step == 1) {
        if (to < from) to = from;
        for (; n < from; n++) begin += zr__string_step(s, begin);
        for (end = begin; n < to; n++) end += zr__string_step(s, end);
        return zr__string_slice(r, s, begin, end, out);
    }
    ZR_TRY(zr__pool_take(&r->pool, (s->bytes + 1) * (int64_t)sizeof(*offset), &offset));
    for (int64_t at = 0; at < s->bytes; at += zr__string_step(s, at)) offset[n++] = at;
    offset[n] = s->bytes;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        ZR_TRY(zr__run_work(r, 1));
        ZR_TRY(zr__build_slice(r, &b, s, offset[i], offset[i + 1]));
    }
    return zr__build_done(r, &b, out);
}

zr_status zr__slice(zr__run *r, const zr__value *of, const zr__value *from_value, const zr__value *to_value,
                    const zr__value *step_value, zr__value *out)
{
    int64_t from = 0, to = 0, step = 1;
    if (of->kind == ZR__UNDEFINED) return zr__run_bad(r, "%s is undefined, so it has no parts", ZR_SHOWN(of->name));
    ZR_TRY(take_bound(r, from_value, &from));
    ZR_TRY(take_bound(r, to_value, &to));
    ZR_TRY(take_bound(r, step_value, &step));
    if (!is_sequence(of)) {
        *out = zr__undefined("a slice");
        return of->kind == ZR__LIST ? zr__run_bad(r, "slices of iterators are not supported") : ZR_OK;
    }
    if (step == 0) return zr__run_bad(r, "the step of a slice is 0");
    if (of->kind == ZR__STRING) ZR_TRY(zr__run_work(r, of->string->bytes / 4));
    const int64_t n = of->kind == ZR__STRING ? zr__string_length(of->string) : of->list->n;
    const bool back = step < 0;
    if (step > n) step = n + 1;
    if (step < -n) step = -n - 1;
    from = from_value->kind != ZR__NONE ? clip(from, n, back) : back ? n - 1 : 0;
    to = to_value->kind != ZR__NONE ? clip(to, n, back) : back ? -1 : n;
    if (of->kind == ZR__STRING) return slice_string(r, of->string, from, to, step, out);
    ZR_TRY(zr__list_make(r, of->list->kind, 0, out));
    for (int64_t i = from; back ? i > to : i < to; i += step) ZR_TRY(zr__list_append(r, out->list, of->list->item[i]));
    return ZR_OK;
}
