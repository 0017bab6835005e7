/**
 * The names of enumerators, from the list (X-macro) that the enumeration is made of.
 */
#ifndef ZR_BASE_NAMES_H
#define ZR_BASE_NAMES_H

/** The body of a function that names an enumerator: the second entry of its row in LIST; `other` beyond `n` rows. */
#define ZR__NAME_IN(LIST, n, value, other)                                                                             \
    static const char *const name[] = {LIST(ZR__NAME_OF_ROW)};                                                         \
    return (unsigned)(value) < (n) ? name[value] : (other)

#define ZR__NAME_OF_ROW(id, ...) ZR__FIRST_OF(__VA_ARGS__, 0),
#define ZR__FIRST_OF(first, ...) first

#endif
