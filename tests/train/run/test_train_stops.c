//TEST timeout=20
/* Stop texts: however a text is cut into pieces, the text before the first whole stop text is reported, and text that
 * may be the beginning of a stop text is held back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "train/generate/generate.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 64 };

/* Pass `text` in pieces and collect the told text: bit i of `cuts` cuts the text after byte i. */
static bool told(const char *text, unsigned cuts, const char *const *stop, int n, char out[ROOM])
{
    zr__stops s = {.stop = stop, .n = n};
    int64_t length = (int64_t)strlen(text), have = 0, ready = 0;
    bool found = false;
    for (int64_t begin = 0, end; begin < length && !found; begin = end) {
        for (end = begin + 1; end < length && !(cuts >> (end - 1) & 1); end++) {
        }
        assert_int_equal(zr__stops_add(&s, text + begin, end - begin, &ready, &found), ZR_OK);
        memcpy(out + have, s.held.data, (size_t)ready);
        have += ready;
        zr__text_drop(&s.held, found ? s.held.length : (size_t)ready);
        assert_true(s.held.length < 8); /* only a possible beginning is held back */
    }
    if (s.held.length) memcpy(out + have, s.held.data, s.held.length);
    out[have + (int64_t)s.held.length] = '\0';
    zr__text_clear(&s.held);
    return found;
}

/* Find the expected text by searching all text so far after each piece. */
static bool wanted(const char *text, unsigned cuts, const char *const *stop, int n, char out[ROOM])
{
    size_t length = strlen(text);
    for (size_t end = 1; end <= length; end++) {
        if (end < length && !(cuts >> (end - 1) & 1)) continue;
        snprintf(out, ROOM, "%.*s", (int)end, text);
        char *first = NULL;
        for (int i = 0; i < n; i++) {
            char *at = strstr(out, stop[i]);
            if (at && (!first || at < first)) first = at;
        }
        if (first) return *first = '\0', true;
    }
    return false;
}

static void it_ends_before_the_first_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"abcabcd", "aaab", "aab", "xyz", "ababac", "end", "abcabxabcabcabd", "b"};
    static const struct {
        const char *stop[3];
        int n;
    } stops[] = {{{"abcd"}, 1},  {{"aab"}, 1}, {{"b"}, 1}, {{"abac", "z"}, 2}, {{"bcabcx", "c", "bx"}, 3},
                 {{"abcabd"}, 1}};
    char got[ROOM], want[ROOM];
    int ended = 0, whole = 0;
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
            unsigned ways = 1u << (strlen(texts[t]) - 1);
            for (unsigned cuts = 0; cuts < ways; cuts++) {
                bool found = told(texts[t], cuts, stops[i].stop, stops[i].n, got);
                assert_int_equal(found, wanted(texts[t], cuts, stops[i].stop, stops[i].n, want));
                assert_string_equal(got, want);
                ended += found;
                whole += !found;
            }
        }
    }
    assert_true(ended > 1000 && whole > 1000);
}

/* Check that text that cannot be the beginning of a stop text is reported at once. */
static void nothing_is_held_longer_than_it_must(void **state)
{
    (void)state;
    const char *const stop[] = {"</s>"};
    zr__stops s = {.stop = stop, .n = 1};
    int64_t ready = 0;
    bool found = false;
    assert_int_equal(zr__stops_add(&s, "a <b", 4, &ready, &found), ZR_OK);
    assert_true(ready == 4 && !found);
    zr__text_drop(&s.held, (size_t)ready);
    assert_int_equal(zr__stops_add(&s, " </", 3, &ready, &found), ZR_OK);
    assert_true(ready == 1 && !found);
    zr__text_drop(&s.held, (size_t)ready);
    assert_int_equal(zr__stops_add(&s, "", 0, &ready, &found), ZR_OK);
    assert_true(ready == 0 && !found && s.held.length == 2);
    assert_int_equal(zr__stops_add(&s, "p>", 2, &ready, &found), ZR_OK);
    assert_true(ready == 4 && !found);
    zr__text_clear(&s.held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_ends_before_the_first_text),
                                       cmocka_unit_test(nothing_is_held_longer_than_it_must)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
