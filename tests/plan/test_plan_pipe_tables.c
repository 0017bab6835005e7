//TEST timeout=60
/* Pipeline schedules that a user gives as a table: read from text like torch's, planned as the named schedules are, and
 * refused with the cell that is wrong. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/program/pipeline.h"
#include "plan_ways.h"

/* ---- tables that zr's lists give --------------------------------------------------------------- */

enum { TEXT = 1 << 16 };

/* Print the lists of a pipeline as a table. If `spread`, an action is in the column of its time, and the table has the
 * cells that torch adds for moves. If `mixed`, I and W that follow each other are a B. */
static void print_table(const zr__pipe *p, bool spread, bool mixed, char *text)
{
    zr__timed t = {0};
    assert_int_equal(zr__timed_begin(&t, p), ZR_OK);
    char *at = text;
    for (int32_t r = 0; r < p->ranks; r++) {
        int32_t column = 0;
        for (int32_t i = 0; i < t.n[r]; i++) {
            const zr_pipe_action *a = &t.list[r * t.room + i], *next = a + 1;
            const bool whole = mixed && a->kind == ZR_PIPE_I && i + 1 < t.n[r] && next->kind == ZR_PIPE_W &&
                               next->stage == a->stage && next->micro == a->micro;
            for (; spread && column < t.begin[r * t.room + i]; column++) at += sprintf(at, ",");
            at += sprintf(at, "%d%c%d,", a->stage, whole ? 'B' : "FBIW"[a->kind], a -> micro);
            column++;
            if (spread && a->kind == ZR_PIPE_F)
                at += sprintf(at, " %dSEND_F%d,%dUNSHARD ,", a->stage, a->micro, a->stage);
            i += whole;
        }
        at[-1] = '\n';
    }
    assert_true(at - text < TEXT);
    *at = '\0';
    zr__timed_end(&t);
}

static zr_pipe_table *read_table(const char *text)
{
    zr_pipe_table *table = NULL;
    if (zr_pipe_table_read(text, strlen(text), &table) != ZR_OK) fail_msg("%s\n%s", zr_error_message(), text);
    return table;
}

/* Return the next step from *i on that is no SENT. Channels of tables are deeper, so that theirs come later. */
static const zr_step *next_step(const zr_schedule *s, int32_t *i)
{
    while (*i < s->n_steps && s->step[*i].kind == ZR_STEP_SENT) (*i)++;
    return *i < s->n_steps ? &s->step[(*i)++] : NULL;
}

/* Check that plans of a table have the steps of the plans of a schedule. */
static void compare_plans(zr_layout l, const zr_pipe_table *table)
{
    const zr_gpt2_config model = ways_deeper(7);
    zr_plans want, got;
    assert_int_equal(ways_plan_roles(&model, l, &want), ZR_OK);
    l.pipeline_schedule = ZR_PIPELINE_TABLE;
    l.pipeline_table = table;
    const zr_status st = ways_plan_roles(&model, l, &got);
    if (st != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr_plans_check(&got) != ZR_OK) fail_msg("%s", zr_error_message());
    for (int32_t r = 0; r < want.n; r++) {
        const zr_schedule *a = &want.role[r]->schedule[ZR_SCHEDULE_TRAIN],
                          *b = &got.role[r]->schedule[ZR_SCHEDULE_TRAIN];
        assert_int_equal(a->n_steps, b->n_steps);
        int32_t i = 0, k = 0;
        for (const zr_step *one = next_step(a, &i), *other = next_step(b, &k); one || other;
             one = next_step(a, &i), other = next_step(b, &k)) {
            assert_true(one && other);
            assert_int_equal(one->kind, other->kind);
            assert_int_equal(one->op, other->op);
            assert_int_equal(one->micro, other->micro);
        }
    }
    ways_drop(&want);
    ways_drop(&got);
}

static void test_same_lists(void **state)
{
    (void)state;
    static char text[TEXT];
    static zr_pipe_action want[2000], got[2000];
    int32_t tried = 0;
    for (int s = 0; s <= ZR_PIPELINE_ZB_V; s++)
        for (int32_t P = 2; P <= 4; P++)
            for (int32_t v = 1; v <= 2; v++) {
                const zr__pipe p = {(zr_pipe_schedule)s, P, v, 2 * P, NULL};
                if (zr__pipe_check(&p) != ZR_OK) continue;
                for (int spread = 0; spread < 2; spread++) {
                    print_table(&p, spread, false, text);
                    zr_pipe_table *table = read_table(text);
                    const zr__pipe by_table = {ZR_PIPELINE_TABLE, P, v, 2 * P, table};
                    if (zr__pipe_check(&by_table) != ZR_OK) fail_msg("%s\n%s", zr_error_message(), text);
                    assert_int_equal(zr__pipe_splits(&by_table), zr__pipe_splits(&p));
                    assert_true(isnan(zr__pipe_bubble(&by_table)));
                    for (int32_t k = 0; k < P * v; k++)
                        assert_int_equal(zr__pipe_rank(&by_table, k), zr__pipe_rank(&p, k));
                    for (int32_t r = 0; r < P; r++) {
                        const int32_t n = zr__pipe_list(&p, r, want);
                        assert_int_equal(zr__pipe_list(&by_table, r, got), n);
                        for (int32_t i = 0; i < n; i++) assert_memory_equal(&want[i], &got[i], sizeof want[i]);
                    }
                    /* breadth-first, parameters stay gathered, and a tied table's look-ups come first */
                    zr_layout l = layout_of(s % 4, 2, ZR_BF16, 2 * P);
                    l.pipeline = P;
                    l.chunks = v;
                    l.pipeline_schedule = (zr_pipe_schedule)s;
                    if (spread && P < 4 && s != ZR_PIPELINE_BREADTH) compare_plans(l, table);
                    zr_pipe_table_destroy(&table);
                    tried++;
                }
            }
    assert_true(tried > 30);
}

/* ---- tables as torch writes them --------------------------------------------------------------- */

/* Check a table with micro-batches 0 to micros - 1: it is refused with a message that has `wanted`, or accepted if that
 * is NULL, and then its plans are proved. */
static void try_table(const char *text, int32_t ranks, int32_t chunks, int32_t micros, const char *wanted)
{
    zr_pipe_table *table = NULL;
    zr_status st = zr_pipe_table_read(text, strlen(text), &table);
    zr_layout l = layout_of(2, 1, ZR_BF16, micros);
    const zr_gpt2_config model = ways_deeper(7);
    zr_plans plans = {0};
    l.pipeline = ranks;
    l.chunks = chunks;
    l.pipeline_schedule = ZR_PIPELINE_TABLE;
    l.pipeline_table = table;
    if (st == ZR_OK) st = ways_plan_roles(&model, l, &plans);
    if (st == ZR_OK) st = zr_plans_check(&plans);
    if (wanted) {
        if (st != ZR_ERR_CONFIG) fail_msg("not refused (%d, %s):\n%s", (int)st, zr_error_message(), text);
        if (!strstr(zr_error_message(), wanted))
            fail_msg("the message is \"%s\"\nwithout \"%s\" for\n%s", zr_error_message(), wanted, text);
    } else if (st != ZR_OK) {
        fail_msg("%s\n%s", zr_error_message(), text);
    }
    ways_drop(&plans);
    zr_pipe_table_destroy(&table);
}

/* Check tables in which actions of several ranks begin at the same time, so that channels of both directions could wait
 * for each other. */
static void test_same_times(void **state)
{
    (void)state;
    static char text[TEXT];
    for (int32_t k = 2; k <= 12; k++) { /* stages 0 and 3 on a rank, 1 and 2 on the other */
        char *at = text;
        for (int32_t m = 0; m < k; m++) at += sprintf(at, "0F%d,", m);
        for (int32_t m = 0; m < k; m++) at += sprintf(at, "3F%d,3B%d,", m, m);
        for (int32_t m = 0; m < k; m++) at += sprintf(at, "0B%d%c", m, m + 1 < k ? ',' : '\n');
        for (int32_t m = 0; m < k; m++) at += sprintf(at, "1F%d,2F%d,", m, m);
        for (int32_t m = 0; m < k; m++) at += sprintf(at, "2I%d,1I%d,2W%d,", m, m, m);
        for (int32_t m = 0; m < k; m++) at += sprintf(at, "1W%d%c", m, m + 1 < k ? ',' : '\n');
        try_table(text, 2, 2, k, NULL);
    }
    try_table(
        "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0F8,0I0,0W0,0I1,0W1,0I2,0I3,0I4,0I5,0I6,0I7,0W2,0W3,0W4,0I8,0W5,0W6,0W7,0W8\n"
        "1F0,1F1,1F2,1F3,1F4,1F5,1F6,1F7,1F8,1I0,1I1,1W0,1W1,1I2,1I3,1W2,1I4,1I5,1W3,1W4,1I6,1I7,1W5,1W6,1I8,1W7,1W8\n"
        "2F0,2F1,2I0,2F2,2F3,2F4,2I1,2I2,2F5,2I3,2F6,2W0,2F7,2F8,2W1,2I4,2I5,2W2,2W3,2I6,2W4,2I7,2W5,2W6,2I8,2W7,2W8",
        3, 1, 9, NULL);
}

static void test_torch(void **state)
{
    (void)state;
    /* GPipe */
    try_table("0F0,0F1,0F2,,,0B0,0B1,0B2\n,1F0,1F1,1F2,1B0,1B1,1B2,\n", 2, 1, 3, NULL);
    /* 1F1B, as Windows ends lines, with spaces */
    try_table("0F0, 0F1, , 0B0, 0F2, 0B1, , 0B2\r\n, 1F0, 1B0, 1F1, 1B1, 1F2, 1B2, \r\n\r\n", 2, 1, 3, NULL);
    /* Interleaved 1F1B with the moves that torch adds */
    try_table(
        "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2F1,2SEND_F1,,2RECV_B0,2B0,2SEND_B0,2B1,2SEND_B1,"
        "0RECV_B0,0B0,0B1,0REDUCE_GRAD,0RESHARD\n"
        "1RECV_F0,1F0,1SEND_F0,1F1,1SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3F1,3B1,3SEND_B1,1B0,1SEND_B0,1B1,1SEND_B1\n",
        2, 2, 2, NULL);
    /* ZB-H1 */
    try_table("0F0,0F1,,0I0,0W0,0F2,0I1,0W1,,0I2,0W2\n,1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2,\n", 2, 1, 3, NULL);
    /* stages in another order than the rows, and two neighbours on one rank */
    try_table("1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n", 2, 2, 2, NULL);
    /* a backward pass is split for some micro-batches */
    try_table("0F0,0F1,,,0B0,0F2,0I1,0W1,0B2\n,1F0,1F1,1I0,1W0,1B1,1F2,1I2,1W2\n", 2, 1, 3, NULL);
    /* DualPipe: each rank has two stages, and each stage is on two ranks */
    try_table("0F0,0F1,1F2,1B2,0B0,0B1\n1F0,0F2,1B0,1F1,1B1,0B2\n", 2, 1, 3,
              "1F0 in row 2, column 1: stage 1 is in row 1 too");
    /* DualPipeV of torch: F and B of two micro-batches in one cell */
    try_table("0F0,(0F1;3B0)OVERLAP_F_B\n1F0\n", 2, 1, 1, "row 1, column 2: \"(0F1;3B0)OVERLAP_F_B\" is no action");
}

/* V schedules with whole and split backward passes, as DualPipeV has them. */
static void test_mixed(void **state)
{
    (void)state;
    static char text[TEXT];
    for (int32_t P = 2; P <= 3; P++) {
        const zr__pipe p = {ZR_PIPELINE_ZB_V, P, 2, 2 * P, NULL};
        print_table(&p, false, true, text);
        assert_non_null(strchr(text, 'B'));
        assert_non_null(strchr(text, 'W'));
        try_table(text, P, 2, 2 * P, NULL);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t ranks, chunks, micros;
        const char *wanted;
    } bad[] = {
        {"", 2, 1, 2, "is empty"},
        {" \n\n", 2, 1, 2, "is empty"},
        {"0F0,0X0\n1F0,1B0\n", 2, 1, 1, "row 1, column 2: \"0X0\" is no action"},
        {"0F0,0B0\n1F0,1B\n", 2, 1, 1, "row 2, column 2: \"1B\" is no action"},
        {"0F0,0B0\nF0,1B0\n", 2, 1, 1, "row 2, column 1: \"F0\" is no action"},
        {"0F0,0B0x\n1F0,1B0\n", 2, 1, 1, "row 1, column 2: \"0B0x\" is no action"},
        {"0F0,0B9999999999\n1F0,1B0\n", 2, 1, 1, "row 1, column 2: \"0B9999999999\" is no action"},
        {"0F0,0SEND_F0x,0B0\n1F0,1B0\n", 2, 1, 1, "row 1, column 2: \"0SEND_F0x\" is no action"},
        {"0F0,0B-1\n1F0,1B0\n", 2, 1, 1, "row 1, column 2: \"0B-1\" is no action"},
        {"0F0,0B0\n", 2, 1, 1, "has 1 rows: 2 are wanted"},
        {"0F0,0B0\n1F0,1B0\n2F0,2B0\n", 2, 1, 1, "has 3 rows: 2 are wanted"},
        {"0F0,0B0\n1F0,1B0\n", 2, 1, 4, "has the micro-batches 0 to 0, but gradient_accumulation_steps is 4; give 1"},
        {"0F0,0F1,0B0,0B1\n1F0,1F1,1B1,\n", 2, 1, 2, "row 2: 1B0 is missing, or 1I0 and 1W0 instead"},
        {"0F0,,0B0,0B1\n1F0,1F1,1B0,1B1\n", 2, 1, 2, "row 1: 0F1 is missing"},
        {"0F0,0F1,0I0,0I1,0W0\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "row 1: 0W1 is missing, the other part of 0I1 in row 1, column 4"},
        {"0F0,0F1,0I0,0W0,0W1\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "row 1: 0I1 is missing, which must come before 0W1 in row 1, column 5"},
        {"0F0,0F1,0B0,0B1,0F1\n1F0,1F1,1B0,1B1\n", 2, 1, 2, "0F1 in row 1, column 2 comes again in column 5"},
        {"0F0,0F1,0B0,0B1,0W1\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "0W1 in row 1, column 5 is a part of 0B1 in row 1, column 4"},
        {"0F0,0B1,0B0,0F1\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "0B1 in row 1, column 2 comes before its forward pass, 0F1 in row 1, column 4"},
        {"0F0,0W0,0I0\n1F0,1B0,\n", 2, 1, 1, "0W0 in row 1, column 2 comes before 0I0 in row 1, column 3"},
        {"0F0,0F1,0B0,0B1,1F0\n1F1,1B0,1B1\n", 2, 1, 2, "1F1 in row 2, column 1: stage 1 is in row 1 too"},
        {"0F0,0B0,\n2F0,2B0,\n", 2, 1, 1, "2F0 in row 2, column 1: there is no stage 2"},
        {"0F0,0F2,0B0,0B2\n1F0,1F1,1B0,1B1\n", 2, 1, 2, "0F2 in row 1, column 2: there is no micro-batch 2"},
        {"0F0,1F0,1B0,0B0\n,,,\n", 2, 1, 1, "row 1, has 2 stages: 1 are wanted"},
        {"0F0,0B0\n,\n", 2, 1, 1, "has no cell of stage 1"},
        /* the order of a stage's micro-batches: sums of gradients, and messages */
        {"0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n", 2, 1, 2,
         "0B1 in row 1, column 3 comes before 0B0 in row 1, column 4: sums of gradients"},
        {"0F0,0F1,0I0,0I1,0W1,0W0\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "0W1 in row 1, column 5 comes before 0W0 in row 1, column 6: sums of gradients"},
        {"0F0,0F1,0I0,0B1,0W0,\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "0B1 in row 1, column 4 comes before 0W0 in row 1, column 5: sums of gradients"},
        {"0F1,0F0,0B0,0B1\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "0F1 in row 1, column 1 comes before 0F0 in row 1, column 2: values travel"},
        {"0F0,0F1,0I1,0I0,0W0,0W1\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "0I1 in row 1, column 3 comes before 0I0 in row 1, column 4: values travel"},
        /* circles */
        {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", 2, 1, 2,
         "never ends: 0B0 in row 1, column 2 waits for 1B0 in row 2, column 3; before that, 1F1 in row 2, column 2 "
         "waits for 0F1 in row 1, column 3, which comes after the first"},
        {"3F0,0F0,0B0,3B0\n1F0,2F0,2B0,1B0\n", 2, 2, 1,
         "never ends: 3F0 in row 1, column 1 waits for 2F0 in row 2, column 2; before that, 1F0 in row 2, column 1 "
         "waits for 0F0 in row 1, column 2, which"},
        {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n2F0,2F1,2B0,2B1\n", 3, 1, 2,
         "never ends: 1B0 in row 2, column 2 waits for 2B0 in row 3, column 3; before that, 2F1"},
        {"1F0,0F0,0B0,1B0\n2F0,3F0,3B0,2B0\n", 2, 2, 1,
         "never ends: 1F0 in row 1, column 1 waits for 0F0 in row 1, column 2, which"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        try_table(bad[i].text, bad[i].ranks, bad[i].chunks, bad[i].micros, bad[i].wanted);
    zr_layout l = layout_of(2, 1, ZR_BF16, 4);
    const zr_gpt2_config model = ways_deeper(4);
    zr_plans plans = {0};
    l.pipeline = 2;
    l.pipeline_schedule = ZR_PIPELINE_TABLE;
    assert_int_equal(ways_plan_roles(&model, l, &plans), ZR_ERR_ARG);
    ways_drop(&plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_lists), cmocka_unit_test(test_same_times),
                                       cmocka_unit_test(test_torch), cmocka_unit_test(test_mixed),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
