//TEST timeout=20
//LINK -Wl,--wrap=zr_alloc
/* Growing arrays and strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/core/grow.h"
#include "base/text/text.h"

#include <string.h>

static int allowed = INT32_MAX, taken; /* number of allocations */

void *__wrap_zr_alloc(size_t bytes);
void *__real_zr_alloc(size_t bytes);

void *__wrap_zr_alloc(size_t bytes)
{
    return taken++ < allowed ? __real_zr_alloc(bytes) : NULL;
}

static int start_anew(void **state)
{
    (void)state;
    taken = 0;
    allowed = INT32_MAX;
    return 0;
}

typedef struct numbers {
    int32_t *number;
    int64_t n, room;
} numbers;

static zr_status add(numbers *all, int32_t number)
{
    ZR_GROW(all->number, all->room, all->n + 1, "numbers");
    all->number[all->n++] = number;
    return ZR_OK;
}

/* Check that elements appended one by one are kept, and the array is copied only a few times. */
static void elements_are_kept(void **state)
{
    (void)state;
    enum { N = 100000 };
    numbers all = {0};
    for (int32_t i = 0; i < N; i++) assert_int_equal(add(&all, i), ZR_OK);
    for (int32_t i = 0; i < N; i++) assert_int_equal(all.number[i], i);
    for (int64_t i = N; i < all.room; i++) assert_int_equal(all.number[i], 0);
    assert_in_range(taken, 2, 20);
    zr_free(all.number);
}

static void what_is_asked_for_at_once_is_taken_at_once(void **state)
{
    (void)state;
    int64_t room = 0;
    char *bytes = zr__enlarge(NULL, &room, 1000001, 1);
    assert_int_equal(room, 1000001);
    assert_ptr_equal(zr__enlarge(bytes, &room, 1000001, 1), bytes);
    assert_int_equal(taken, 1);
    zr_free(bytes);
}

static void without_memory_all_is_as_it_was(void **state)
{
    (void)state;
    numbers all = {0};
    int64_t room = 0;
    allowed = 1;
    while (add(&all, 7) == ZR_OK) {
    }
    assert_non_null(strstr(zr_error_message(), "no memory for 17 numbers"));
    assert_int_equal(all.n, 16);
    assert_int_equal(all.number[15], 7);
    zr_free(all.number);
    assert_null(zr__enlarge(NULL, &room, INT64_MAX, 8));
    assert_null(zr__enlarge(NULL, &room, INT64_MAX / 8, 8));
    assert_int_equal(room, 0);
}

static void a_text_takes_any_bytes(void **state)
{
    (void)state;
    zr__text text = {0};
    char *data = NULL;
    zr__text_append(&text, NULL, 0);
    assert_int_equal(text.length, 0);
    for (int i = 0; i < 100; i++) zr__text_append(&text, "a\0b%", 4);
    assert_int_equal(text.length, 400);
    zr__text_drop(&text, 398);
    assert_memory_equal(text.data, "b%", 3);
    zr__text_add(&text, "%d", 5);
    zr__text_drop(&text, 0);
    assert_string_equal(text.data, "b%5");
    zr__text_drop(&text, 3);
    assert_int_equal(text.length, 0);
    assert_int_equal(zr__text_take(&text, &data), ZR_OK);
    assert_string_equal(data, "");
    zr_free(data);
}

static void a_text_without_memory_says_so_at_the_end(void **state)
{
    (void)state;
    zr__text text = {0};
    char *data = NULL;
    allowed = 1;
    for (int i = 0; i < 100; i++) zr__text_append(&text, "word", 4);
    allowed = INT32_MAX;
    zr__text_append(&text, "more", 4);
    assert_int_equal(zr__text_take(&text, &data), ZR_ERR_MEMORY);
    assert_null(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(elements_are_kept, start_anew),
        cmocka_unit_test_setup(what_is_asked_for_at_once_is_taken_at_once, start_anew),
        cmocka_unit_test_setup(without_memory_all_is_as_it_was, start_anew),
        cmocka_unit_test_setup(a_text_takes_any_bytes, start_anew),
        cmocka_unit_test_setup(a_text_without_memory_says_so_at_the_end, start_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
