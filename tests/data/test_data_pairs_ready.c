//TEST timeout=30
/* Ready rows of encoders: batches of transformers read back exactly, and every defect that a file can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/golden.h"
#include "support/tempdir.h"
#include "zr/checkpoint.h"
#include "zr/data.h"
#include "data/pairs/pairs.h"

enum { T = 6, ROWS = 4, MOST_T = 64, MOST_P = 64, S = 2, IGNORED = -100, VOCAB = 50 };

typedef struct room {
    int32_t tokens[MOST_T], segments[MOST_T], documents[MOST_T], masked[MOST_P], targets[MOST_P], first[S], next[S];
} room;

static zr_pairs_row row_of(room *x)
{
    memset(x, 0x55, sizeof(*x)); /* a marker, to notice elements that are not written */
    return (zr_pairs_row){x->tokens, x->segments, x->documents, x->masked, x->targets, x->first, x->next};
}

/* ---- a file to be changed -------------------------------------------------------------------- */

static struct {
    int32_t ids[ROWS][T], labels[ROWS][T], segments[ROWS][T], mask[ROWS][T], next[ROWS];
} batch;

/* Fill the batch: row r has 3 + r tokens, and its second token is predicted. */
static void fill(void)
{
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < T; i++) {
            batch.ids[r][i] = i < 3 + r ? 10 * r + i : 0;
            batch.labels[r][i] = i == 1 ? 40 + r : IGNORED;
            batch.segments[r][i] = i >= 2 && i < 3 + r;
            batch.mask[r][i] = i < 3 + r;
        }
        batch.next[r] = r % 2;
    }
}

/* The form of a file: type and shape of its tensors of tokens, and the tensors that it lacks. */
typedef struct form {
    const char *type, *shape, *without;
} form;

static size_t put_numbers(unsigned char *out, const int32_t *number, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++) {
        const int64_t wide = number[i];
        memcpy(out + i * width, &wide, width);
    }
    return n * width;
}

static const char *put_batch(form f)
{
    static unsigned char image[1 << 14];
    static const char *const name[] = {"input_ids", "labels", "token_type_ids", "attention_mask",
                                       "next_sentence_label"};
    const int32_t *from[] = {batch.ids[0], batch.labels[0], batch.segments[0], batch.mask[0], batch.next};
    unsigned char data[1 << 12];
    const size_t width = strcmp(f.type, "I64") == 0 ? 8 : 4;
    char header[2048] = "{", *end = header + 1;
    size_t bytes = 0;
    for (size_t i = 0; i < 5; i++) {
        if (f.without && strstr(f.without, name[i])) continue;
        const size_t its = put_numbers(data + bytes, from[i], i < 4 ? (size_t)ROWS * T : ROWS, width);
        end += sprintf(end, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                       end > header + 1 ? "," : "", name[i], f.type, i < 4 ? f.shape : "[4]", bytes, bytes + its);
        bytes += its;
    }
    strcpy(end, "}");
    const uint64_t n = strlen(header);
    memcpy(image, &n, sizeof(n));
    memcpy(image + 8, header, n);
    memcpy(image + 8 + n, data, bytes);
    return put_file("rows.safetensors", image, 8 + n + bytes);
}

static const form usual = {"I32", "[2,2,6]", NULL};

static zr_pairs_args args_for(const char *path)
{
    return (zr_pairs_args){.path = path, .vocab_size = VOCAB, .seq_length = T, .predictions = 2, .samples = S};
}

static zr_pairs *open_batch(form f)
{
    const zr_pairs_args args = args_for(put_batch(f));
    zr_pairs *pairs = NULL;
    if (zr_pairs_open(&args, &pairs) != ZR_OK) fail_msg("%s", zr_error_message());
    return pairs;
}

static void expect_row(zr_pairs *pairs, int64_t row, int r, bool segments, bool mask, bool next)
{
    room x;
    const zr_pairs_row out = row_of(&x);
    const int length = mask ? 3 + r : T;
    if (zr_pairs_read(pairs, row, &out) != ZR_OK) fail_msg("%s", zr_error_message());
    for (int i = 0; i < T; i++) {
        assert_int_equal(x.tokens[i], batch.ids[r][i]);
        assert_int_equal(x.segments[i], segments ? batch.segments[r][i] : 0);
        assert_int_equal(x.documents[i], i < length ? 0 : length);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(x.masked[i], i == 0 ? 1 : 0);
        assert_int_equal(x.targets[i], i == 0 ? 40 + r : -1);
        assert_int_equal(x.first[i], 0);
        assert_int_equal(x.next[i], i == 0 && next ? batch.next[r] : -1);
    }
    for (int i = T; i < MOST_T; i++) /* nothing is written behind an array */
        assert_true(x.tokens[i] == 0x55555555 && x.segments[i] == 0x55555555 && x.documents[i] == 0x55555555);
    for (int i = 2; i < MOST_P; i++) assert_true(x.masked[i] == 0x55555555 && x.targets[i] == 0x55555555);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void rows_are_read_back(void **state)
{
    (void)state;
    static const form forms[] = {{"I32", "[2,2,6]", NULL},
                                 {"I64", "[4,6]", NULL},
                                 {"I32", "[4,6]", "token_type_ids"},
                                 {"I64", "[4,6]", "attention_mask"},
                                 {"I32", "[4,6]", "next_sentence_label"}};
    fill();
    batch.ids[ROWS - 1][2] = 0; /* the least token */
    batch.ids[0][2] = VOCAB - 1;
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        zr_pairs *pairs = open_batch(forms[f]);
        const zr_pairs_info info = zr_pairs_get_info(pairs);
        assert_int_equal(info.rows, ROWS);
        assert_int_equal(info.samples, ROWS);
        assert_int_equal(info.tokens, f == 3 ? ROWS * T : 3 + 4 + 5 + 6);
        assert_int_equal(info.without_prediction, 0);
        assert_true(info.filled == (double)info.tokens / (ROWS * T));
        for (int row = 0; row < 3 * ROWS; row++) expect_row(pairs, row, row % ROWS, f != 2, f != 3, f != 4);
        zr_pairs_close(&pairs);
    }
}

/* Check that in shuffled order each epoch has each row once, and epochs differ. */
static void epochs_are_permutations(void **state)
{
    (void)state;
    int order[8][ROWS], same = 0;
    fill();
    zr_pairs_args args = args_for(put_batch(usual));
    args.order = ZR_SHUFFLED;
    args.seed = 3;
    zr_pairs *pairs = NULL;
    assert_int_equal(zr_pairs_open(&args, &pairs), ZR_OK);
    for (int epoch = 0; epoch < 8; epoch++) {
        int seen = 0;
        for (int i = 0; i < ROWS; i++) {
            room x;
            const zr_pairs_row out = row_of(&x);
            assert_int_equal(zr_pairs_read(pairs, epoch * ROWS + i, &out), ZR_OK);
            order[epoch][i] = x.targets[0] - 40;
            seen |= 1 << order[epoch][i];
        }
        assert_int_equal(seen, (1 << ROWS) - 1);
        same += memcmp(order[epoch], order[0], sizeof(order[0])) == 0;
    }
    assert_in_range(same, 1, 4);
    zr_pairs_close(&pairs);
}

static void expect_refusal(form f, const char *wanted)
{
    const zr_pairs_args args = args_for(put_batch(f));
    zr_pairs *pairs = NULL;
    const zr_status st = zr_pairs_open(&args, &pairs);
    if (st != ZR_ERR_DATA || pairs || !strstr(zr_error_message(), wanted) || !strstr(zr_error_message(), args.path))
        fail_msg("status %d, message: %s; wanted \"%s\"", st, zr_error_message(), wanted);
}

static void defects_are_refused(void **state)
{
    (void)state;
    static const struct {
        int32_t *at, value;
        const char *wanted;
    } bad[] = {
        {&batch.ids[2][3], VOCAB, "input_ids of row 2, token 3 (both from 0), is 50; expected a token below"},
        {&batch.ids[0][0], -1, "input_ids of row 0, token 0 (both from 0), is -1"},
        {&batch.segments[3][5], 2, "token_type_ids of row 3, token 5 (both from 0), is 2; expected 0 or 1"},
        {&batch.mask[1][2], 0, "attention_mask of row 1, token 3 (both from 0), is 1; expected ones and then zeros"},
        {&batch.mask[1][4], 2, "attention_mask of row 1, token 4 (both from 0), is 2; expected 0 or 1"},
        {&batch.mask[2][0], 0, "attention_mask of row 2, token 0 (both from 0), is 0; expected ones"},
        {&batch.labels[0][0], VOCAB, "labels of row 0, token 0 (both from 0), is 50; expected -100 or a token"},
        {&batch.labels[0][0], -1, "labels of row 0, token 0 (both from 0), is -1"},
        {&batch.labels[0][3], 1, "labels of row 0, token 3 (both from 0), is 1; expected -100, because this token is"},
        {&batch.next[1], 2, "next_sentence_label of row 1 (from 0) is 2; expected 0, 1"},
        {&batch.next[1], -2, "next_sentence_label of row 1 (from 0) is -2"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fill();
        *bad[i].at = bad[i].value;
        expect_refusal(usual, bad[i].wanted);
    }
    fill();
    batch.labels[3][3] = batch.labels[3][4] = 7;
    expect_refusal(usual, "labels of row 3: 3 tokens are predicted, but data.max_predictions is 2");
    fill();
    for (int i = 0; i < ROWS; i++) batch.labels[i][1] = IGNORED;
    expect_refusal(usual, "labels: all are -100");
    fill();
    expect_refusal((form){"F32", "[4,6]", NULL}, "tensor input_ids has type F32; expected I32 or I64");
    expect_refusal((form){"I32", "[4,2,3]", NULL}, "tensor input_ids has the shape (4, 2, 3); expected");
    expect_refusal((form){"I32", "[24]", NULL}, "tensor input_ids has the shape (24); expected");
    expect_refusal((form){"I32", "[4,6]", "labels"}, "there is no tensor labels");
    expect_refusal((form){"I32", "[4,6]", "input_ids"}, "there is no tensor input_ids");
}

static void rows_without_prediction_are_counted(void **state)
{
    (void)state;
    room x;
    const zr_pairs_row out = row_of(&x);
    fill();
    batch.labels[1][1] = IGNORED;
    batch.next[1] = IGNORED;
    zr_pairs *pairs = open_batch(usual);
    assert_int_equal(zr_pairs_get_info(pairs).without_prediction, 1);
    assert_int_equal(zr_pairs_read(pairs, 1, &out), ZR_OK);
    for (int i = 0; i < 2; i++) assert_true(x.targets[i] == -1 && x.next[i] == -1);
    zr_pairs_close(&pairs);
}

static void a_changed_file_is_noticed(void **state)
{
    (void)state;
    uint64_t hash = 0, other = 0;
    room x;
    const zr_pairs_row out = row_of(&x);
    fill();
    zr_pairs *pairs = open_batch(usual);
    assert_int_equal(zr__pairs_check(pairs, &hash, NULL, NULL), ZR_OK);
    put_file("rows.safetensors", "", 0);
    assert_int_equal(zr_pairs_read(pairs, 0, &out), ZR_ERR_IO);
    zr_pairs_close(&pairs);
    batch.ids[0][0]++;
    pairs = open_batch(usual);
    assert_int_equal(zr__pairs_check(pairs, &other, NULL, NULL), ZR_OK);
    assert_true(hash != other);
    zr_pairs_close(&pairs);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    fill();
    const zr_pairs_args good = args_for(put_batch(usual));
    zr_pairs_args bad[9];
    zr_pairs *pairs = NULL;
    for (size_t i = 0; i < 9; i++) bad[i] = good;
    bad[0].path = NULL;
    bad[1].vocab_size = 0;
    bad[2].seq_length = 4;
    bad[3].predictions = 0;
    bad[4].predictions = T + 1;
    bad[5].samples = 0;
    bad[6].samples = T + 1;
    bad[7].order = (zr_data_order)7;
    bad[8].masked_lm_prob = 1.5;
    for (size_t i = 0; i < 9; i++) assert_int_equal(zr_pairs_open(&bad[i], &pairs), ZR_ERR_ARG);
    assert_int_equal(zr_pairs_open(&good, &pairs), ZR_OK);
    assert_int_equal(zr_pairs_read(pairs, -1, &(zr_pairs_row){NULL}), ZR_ERR_ARG);
    zr_pairs_close(&pairs);
}

/* ---- batches of transformers ----------------------------------------------------------------- */

/* Read rows of a tensor of the golden file by themselves, without pairs. */
static void read_golden(const zr_safetensors *file, const char *name, int64_t first, int64_t n, int32_t *out)
{
    const zr_safetensors_tensor *t = zr_safetensors_find(file, name);
    assert_non_null(t);
    assert_int_equal(zr_safetensors_read_i32(file, t, first, n, out), ZR_OK);
}

static void check_golden_row(zr_pairs *pairs, const zr_safetensors *file, int64_t row, int64_t length)
{
    int32_t ids[MOST_T], labels[MOST_T], segments[MOST_T], mask[MOST_T], next = 0, n = 0;
    room x;
    const zr_pairs_row out = row_of(&x);
    read_golden(file, "input_ids", row * length, length, ids);
    read_golden(file, "labels", row * length, length, labels);
    read_golden(file, "token_type_ids", row * length, length, segments);
    read_golden(file, "attention_mask", row * length, length, mask);
    read_golden(file, "next_sentence_label", row, 1, &next);
    assert_int_equal(zr_pairs_read(pairs, row, &out), ZR_OK);
    for (int32_t i = 0; i < length; i++) {
        assert_int_equal(x.tokens[i], ids[i]);
        assert_int_equal(x.segments[i], segments[i]);
        assert_int_equal(x.documents[i] == 0, mask[i] == 1);
        if (labels[i] == IGNORED) continue;
        assert_int_equal(x.masked[n], i);
        assert_int_equal(x.targets[n++], labels[i]);
    }
    for (; n < MOST_P && n < length; n++) assert_int_equal(x.targets[n], -1);
    assert_int_equal(x.next[0], next);
}

static void golden_batches_are_read_back(void **state)
{
    (void)state;
    char dir[GOLDEN_DIR_BYTES], path[GOLDEN_DIR_BYTES + 32];
    enum { GOLDEN_T = 24, GOLDEN_ROWS = 40 };
    if (!golden_larger_dir("bert-tiny", dir)) skip();
    snprintf(path, sizeof(path), "%s/batches.safetensors", dir);
    zr_pairs_args args = args_for(path);
    args.vocab_size = 200;
    args.seq_length = args.predictions = GOLDEN_T;
    zr_safetensors *file = NULL;
    zr_pairs *pairs = NULL;
    assert_int_equal(zr_safetensors_open(path, &file), ZR_OK);
    if (zr_pairs_open(&args, &pairs) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_pairs_get_info(pairs).rows, GOLDEN_ROWS);
    for (int64_t row = 0; row < GOLDEN_ROWS; row++) check_golden_row(pairs, file, row, GOLDEN_T);
    zr_pairs_close(&pairs);
    zr_safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_back),           cmocka_unit_test(epochs_are_permutations),
        cmocka_unit_test(defects_are_refused),          cmocka_unit_test(rows_without_prediction_are_counted),
        cmocka_unit_test(a_changed_file_is_noticed),    cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(golden_batches_are_read_back),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
