//TEST timeout=60
/* Labelled texts: labels by number and by name, pairs of texts, texts that are too long, and bad lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "labelled.h"
#include "data/labelled/classes.h"
#include "data/labelled/labelled.h"

static const char *const names[] = {"town", "garden"};

static zr_labelled_args labels_args(const char *path)
{
    return (zr_labelled_args){.path = path,
                              .vocab_size = VOCAB,
                              .seq_length = 32,
                              .samples = 1,
                              .tokenizer = in_squad(""),
                              .labels = 2,
                              .label_names = names};
}

static void texts_become_samples(void **state)
{
    (void)state;
    static const int32_t label[] = {0, 1, 0, 1, 0, 1, 0, 1};
    const zr_labelled_args args = labels_args(in_squad("labels.jsonl"));
    zr_labelled *labelled = open_labelled(&args);
    const zr_labelled_info info = zr_labelled_get_info(labelled);
    uint64_t hash = 0, again = 0;
    assert_true(info.samples == 8 && info.rows == 8 && info.documents == 8 && info.files == 1);
    assert_string_equal(info.format, "jsonl with labels");
    for (int i = 0; i < 8; i++) {
        room x;
        read_row(labelled, i, &x);
        int32_t n = 0, second = 0;
        while (n < 32 && x.documents[n] == 0) second += x.segments[n++] == 0;
        assert_int_equal(x.label[0], label[i]);
        assert_true(x.answer[0] == -1 && x.first[0] == 0 && x.tokens[0] == CLS && x.tokens[n - 1] == SEP);
        assert_int_equal(n - second, i % 2 ? 7 : 0); /* length of "Is it about a garden? [SEP]" */
        assert_int_equal(x.tokens[second - 1], SEP);
    }
    assert_int_equal(zr__labelled_check(labelled, &hash, NULL, NULL), ZR_OK);
    assert_int_equal(zr__labelled_check(labelled, &again, NULL, NULL), ZR_OK);
    assert_true(hash == again && hash != 0);
    zr_labelled_close(&labelled);
}

/* Check that members of a row may be NULL: these are left out, and the others are filled as usual. */
static void parts_of_a_row_may_be_missing(void **state)
{
    (void)state;
    zr_labelled_args args = labels_args(in_squad("labels.jsonl"));
    room x, y;
    args.samples = 3;
    args.seq_length = MOST_T;
    zr_labelled *labelled = open_labelled(&args);
    read_row(labelled, 0, &x);
    memset(&y, 0, sizeof(y));
    memset(y.label, 9, sizeof(y.label));
    for (int part = 0; part < 6; part++) {
        const zr_labelled_row out = {part == 0 ? y.tokens : NULL,    part == 1 ? y.segments : NULL,
                                     part == 2 ? y.documents : NULL, part == 3 ? y.first : NULL,
                                     part == 4 ? y.label : NULL,     part == 5 ? y.answer : NULL};
        assert_int_equal(zr_labelled_read(labelled, 0, &out), ZR_OK);
    }
    assert_memory_equal(y.tokens, x.tokens, sizeof(x.tokens));
    assert_memory_equal(y.segments, x.segments, sizeof(x.segments));
    assert_memory_equal(y.documents, x.documents, sizeof(x.documents));
    assert_memory_equal(y.first, x.first, sizeof(x.first));
    assert_memory_equal(y.label, x.label, 3 * sizeof(*x.label));
    assert_memory_equal(y.answer, x.answer, sizeof(x.answer));
    zr_labelled_close(&labelled);
}

/* Check that texts are shortened as by the package `tokenizers` with the strategy longest_first, whose definition is
 * repeated here. */
static void the_longer_text_is_cut(void **state)
{
    (void)state;
    for (int64_t most = 2; most < 12; most++) {
        for (int64_t a = 0; a < 16; a++) {
            for (int64_t b = 0; b < 16; b++) {
                int64_t n = a < b ? a : b, m = a < b ? b : a, left = a, right = b;
                if (a + b > most) m = n > most ? n : n > most - n ? n : most - n;
                if (n + m > most) {
                    n = most / 2;
                    m = n + most % 2;
                }
                zr__labelled_shorten(most, &left, &right);
                assert_int_equal(left, a > b ? m : n);
                assert_int_equal(right, a > b ? n : m);
            }
            int64_t left = a, none = ZR__NO_TEXT;
            zr__labelled_shorten(most, &left, &none);
            assert_int_equal(left, a < most ? a : most);
            assert_int_equal(none, ZR__NO_TEXT);
        }
    }
    zr_labelled_args args = labels_args(in_squad("labels.jsonl"));
    args.seq_length = 9;
    zr_labelled *labelled = open_labelled(&args);
    assert_int_equal(zr_labelled_get_info(labelled).cut_documents, 7);
    assert_string_equal(zr_labelled_get_info(labelled).cut, "7 of 8 texts have more tokens than a row and were cut");
    zr_labelled_close(&labelled);
}

/* ---- bad lines ------------------------------------------------------------------------------- */

#define GOOD "{\"text\": \"the\", \"label\": 0}\n"

static void bad_lines_are_refused_or_skipped(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {GOOD "{\"text\": \"the\"}\n",
         "lines.jsonl:2: \"label\" is missing; expected an integer from 0 to 1 or the name"},
        {GOOD GOOD "{\"label\": 1}\n", "lines.jsonl:3: \"text\" is missing"},
        {"{\"text\": 4, \"label\": 1}\n" GOOD, "lines.jsonl:1: \"text\" is not a text"},
        {GOOD "{\"text\": \"a\", \"label\": 2}\n", "\"label\" is 2; expected an integer from 0 to 1"},
        {GOOD "{\"text\": \"a\", \"label\": -1}\n", "\"label\" is -1"},
        {GOOD "{\"text\": \"a\", \"label\": 0.5}\n", "\"label\" is 0.5"},
        {GOOD "{\"text\": \"a\", \"label\": \"sea\"}\n", "\"label\" is \"sea\""},
        {GOOD "{\"text\": \"a\", \"text_pair\": 7, \"label\": 0}\n", "\"text_pair\" is not a text"},
        {GOOD "[1]\n", "the line is not an object"},
        {GOOD "{\n", "lines.jsonl:2: column"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        zr_labelled_args args = labels_args(write_file("lines.jsonl", wrong[i].text));
        expect_refusal(&args, ZR_ERR_DATA, wrong[i].part);
        expect_refusal(&args, ZR_ERR_DATA, "data.bad_lines");
        args.skip_bad_lines = true;
        zr_labelled *labelled = open_labelled(&args);
        const zr_labelled_info info = zr_labelled_get_info(labelled);
        assert_true(info.skipped_lines == 1 && info.samples == info.documents && info.samples >= 1);
        assert_non_null(strstr(info.note, "1 bad lines left out; the first is "));
        zr_labelled_close(&labelled);
    }
    zr_labelled_args args = labels_args(write_file("empty.jsonl", "\n \n"));
    expect_refusal(&args, ZR_ERR_DATA, "there is no text with a label");
    args = labels_args(write_file("lines.jsonl", "{\"text\": \"a\", \"label\": \"town\"}\n"));
    args.label_names = NULL;
    expect_refusal(&args, ZR_ERR_DATA, "the labels have no names");
    args.labels = 0;
    expect_refusal(&args, ZR_ERR_ARG, "labels is 0");
}

/* Check odd lines: an empty text and a last line without a newline are samples, too. */
static void odd_lines_are_samples(void **state)
{
    (void)state;
    const zr_labelled_args args = labels_args(write_file(
        "odd.jsonl",
        "\xef\xbb\xbf{\"text\": \"\", \"label\": 1, \"text_pair\": null}\r\n\n{\"label\": 0, \"text\": \"the\"}"));
    zr_labelled *labelled = open_labelled(&args);
    room x;
    assert_int_equal(zr_labelled_get_info(labelled).samples, 2);
    read_row(labelled, 0, &x);
    assert_true(x.tokens[0] == CLS && x.tokens[1] == SEP && x.documents[2] == 2 && x.label[0] == 1);
    zr_labelled_close(&labelled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_samples),   cmocka_unit_test(parts_of_a_row_may_be_missing),
        cmocka_unit_test(the_longer_text_is_cut), cmocka_unit_test(bad_lines_are_refused_or_skipped),
        cmocka_unit_test(odd_lines_are_samples),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
