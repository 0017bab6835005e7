/**
 * Names of enumerators, taken from the X-macro list that also defines the enumeration.
 */
#ifndef ZR_BASE_NAMES_H
#define ZR_BASE_NAMES_H

/** Body of a function that returns an enumerator's name: the second entry of the enumerator's row in LIST. If `value`
 * is not below `n`, return `other`. */
#define ZR__NAME_IN(LIST, n, value, other)                                                                             \
    static const char *const name[] = {LIST(ZR__NAME_OF_ROW)};                                                         \
    return (unsigned)(value) < (n) ? name[value] : (other)

#define ZR__NAME_OF_ROW(id, ...) ZR__FIRST_OF(__VA_ARGS__, 0),
#define ZR__FIRST_OF(first, ...) first

#endif
