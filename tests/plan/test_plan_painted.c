//TEST timeout=60
/* Times painted on ranges of bytes, checked against a table with an entry for each place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "plan/list/list.h"

enum { PLACES = 40, BUFFERS = 60, EACH = 64 };

static void test_as_byte_by_byte(void **state)
{
    (void)state;
    const zr_rng rng = {.seed = 3, .purpose = ZR_RNG_INIT};
    uint64_t drawn = 0;
    for (int round = 0; round < 50; round++) {
        zr_buffer buffer[BUFFERS] = {{0}};
        const zr_schedule s = {.buffer = buffer, .n_buffers = 1 + round % BUFFERS};
        int32_t table[2 * PLACES][ZR_STREAMS];
        zr__painted painted;
        memset(table, -1, sizeof table);
        for (int b = 0; b < s.n_buffers; b++) {
            buffer[b].space = ZR_SPACE_DEVICE;
            buffer[b].offset = EACH * (int64_t)(PLACES * zr_rng_uniform(&rng, drawn++));
            buffer[b].bytes = EACH * (int64_t)(PLACES * zr_rng_uniform(&rng, drawn++)); /* some are empty */
        }
        assert_int_equal(zr__painted_begin(&painted, &s, ZR_SPACE_DEVICE), ZR_OK);
        for (int b = 0; b < s.n_buffers; b++) {
            int32_t found[ZR_STREAMS], want[ZR_STREAMS], time[ZR_STREAMS];
            const int first = (int)(buffer[b].offset / EACH), end = first + (int)(buffer[b].bytes / EACH);
            for (int k = 0; k < ZR_STREAMS; k++) {
                found[k] = want[k] = -1;
                time[k] = (int32_t)(100 * zr_rng_uniform(&rng, drawn++)) - 1;
            }
            for (int at = first; at < end; at++)
                for (int k = 0; k < ZR_STREAMS; k++)
                    if (table[at][k] > want[k]) want[k] = table[at][k];
            zr__painted_latest(&painted, &buffer[b], found);
            assert_memory_equal(found, want, sizeof found);
            if (b % 2 == 1) continue; /* looked up without being painted */
            zr__painted_add(&painted, &buffer[b], time);
            for (int at = first; at < end; at++)
                for (int k = 0; k < ZR_STREAMS; k++)
                    if (time[k] > table[at][k]) table[at][k] = time[k];
        }
        zr__painted_end(&painted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_byte_by_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
