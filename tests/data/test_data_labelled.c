//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* Labelled texts: labels by number and by name, pairs of texts, texts that are too long, and bad lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/allocations.h"
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
        const zr_labelled_row out = {.tokens = part == 0 ? y.tokens : NULL,
                                     .segments = part == 1 ? y.segments : NULL,
                                     .documents = part == 2 ? y.documents : NULL,
                                     .first = part == 3 ? y.first : NULL,
                                     .label = part == 4 ? y.label : NULL,
                                     .answer = part == 5 ? y.answer : NULL};
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
        {GOOD "[1]\n", "the record is not a JSON object"},
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

/* ---- memory ------------------------------------------------------------------------------------ */

static zr_status open_and_read(void *arg)
{
    zr_labelled *labelled = NULL;
    const zr_status st = zr_labelled_open(arg, &labelled);
    room x;
    if (st == ZR_OK) read_row(labelled, 0, &x);
    zr_labelled_close(&labelled);
    return st;
}

static void memory_may_be_short(void **state)
{
    (void)state;
    zr_labelled_args args = labels_args(in_squad("labels.jsonl"));
    zr_tokenizer *tokenizer = NULL;
    const long before = alloc_made;
    assert_int_equal(zr_tokenizer_open(args.tokenizer, &tokenizer), ZR_OK);
    zr_tokenizer_close(&tokenizer);
    args.samples = 3;
    args.order = ZR_SHUFFLED;
    expect_each_allocation_fails(open_and_read, &args, alloc_made - before);
}

/* Check that the bytes of the info are those of the arrays, which grow with the texts. */
static void memory_is_counted(void **state)
{
    (void)state;
    enum { MANY = 2000, WORDS = 12 };
    int64_t bytes[2];
    for (int many = 0; many < 2; many++) {
        FILE *f = fopen(in_tempdir("many.jsonl"), "w");
        assert_non_null(f);
        for (int i = 0; i < (many ? MANY : 1); i++)
            fprintf(f, "{\"text\": \"the the the the the the the the the the the the\", \"label\": %d}\n", i % 2);
        fclose(f);
        const zr_labelled_args args = labels_args(in_tempdir("many.jsonl"));
        zr_labelled *labelled = open_labelled(&args);
        const zr_labelled_info info = zr_labelled_get_info(labelled);
        assert_int_equal(info.rows, many ? MANY : 1);
        assert_int_equal(info.tokens, (many ? MANY : 1) * (WORDS + 2));
        assert_true(info.filled == (WORDS + 2) / 32.0);
        bytes[many] = info.memory_bytes;
        zr_labelled_close(&labelled);
    }
    const int64_t least = MANY * (int64_t)(WORDS * sizeof(int32_t) + sizeof(zr__labelled_sample));
    assert_in_range(bytes[0], 1, 1 << 16);
    assert_in_range(bytes[1], least, 3 * least);
}

/* ---- packing and order ----------------------------------------------------------------------------- */

/* Check rows of several samples, of more samples than are packed together, in the order of the file and shuffled: each
 * epoch has each sample once. Sample i has i % 7 words and the label i % 5. */
static void packed_rows_hold_each_sample_once(void **state)
{
    (void)state;
    enum { N = 600, LABELS = 5, LONGEST = 7 };
    FILE *f = fopen(in_tempdir("packed.jsonl"), "w");
    assert_non_null(f);
    int64_t tokens = 0;
    for (int i = 0; i < N; i++) {
        fprintf(f, "{\"text\": \"");
        for (int w = 0; w < i % LONGEST; w++) fprintf(f, "the ");
        fprintf(f, "\", \"label\": %d}\n", i % LABELS);
        tokens += i % LONGEST + 2;
    }
    fclose(f);
    zr_labelled_args args = labels_args(in_tempdir("packed.jsonl"));
    args.labels = LABELS;
    args.label_names = NULL;
    args.samples = MOST_S;
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        args.order = shuffled ? ZR_SHUFFLED : ZR_SEQUENTIAL;
        zr_labelled *labelled = open_labelled(&args);
        const zr_labelled_info info = zr_labelled_get_info(labelled);
        int64_t row = 0, order[2][N];
        assert_true(info.samples == N && info.documents == N && info.tokens == tokens);
        assert_true(info.rows < N / 3 && info.filled == (double)tokens / (double)(info.rows * 32));
        for (int epoch = 0; epoch < 2; epoch++) {
            int64_t n = 0, count[LABELS][LONGEST] = {{0}};
            while (n < N) {
                room x;
                int64_t found[MOST_S], its = 0;
                read_row(labelled, row, &x);
                assert_int_equal(zr__labelled_samples(labelled, row++, found, &its), ZR_OK);
                assert_in_range(its, 1, MOST_S);
                int32_t at = 0;
                for (int64_t i = 0; i < MOST_S; i++) {
                    assert_int_equal(x.label[i], i < its ? (int32_t)(found[i] % LABELS) : -1);
                    assert_int_equal(x.first[i], i < its ? at : 0);
                    if (i >= its) continue;
                    const int32_t end = at + (int32_t)(found[i] % LONGEST) + 2;
                    assert_true(x.tokens[at] == CLS && x.tokens[end - 1] == SEP);
                    for (; at < end; at++) assert_true(x.documents[at] == x.first[i] && x.segments[at] == 0);
                    count[found[i] % LABELS][found[i] % LONGEST]++;
                    order[epoch][n++] = found[i];
                }
                for (int32_t i = at; i < 32; i++) assert_true(x.tokens[i] == 0 && x.documents[i] == at);
            }
            for (int l = 0; l < LABELS; l++)
                for (int w = 0; w < LONGEST; w++)
                    assert_in_range(count[l][w], N / LABELS / LONGEST, N / LABELS / LONGEST + 1);
            bool seen[N] = {false};
            for (int i = 0; i < N; i++) {
                assert_false(seen[order[epoch][i]]);
                seen[order[epoch][i]] = true;
            }
        }
        assert_true((memcmp(order[0], order[1], sizeof(order[0])) != 0) == shuffled);
        int64_t inside = 0; /* unshuffled, samples are packed with those of their group alone */
        for (int i = 0; i < N; i++) inside += order[0][i] / 256 == i / 256;
        assert_true((inside == N) != shuffled);
        zr_labelled_close(&labelled);
    }
}

/* Check that a file is read by its bytes, and that several files are joined: sizes, counts, the first bad line. */
static void files_are_joined(void **state)
{
    (void)state;
    char list[3 * PATH_MAX], first[64];
    uint64_t hash[2] = {0};
    (void)write_file("a.jsonl", GOOD GOOD);
    (void)write_file("b.jsonl", GOOD "{\n" GOOD);
    (void)write_file("c.jsonl", "{}\n[]\n" GOOD);
    snprintf(list, sizeof(list), "[\"%s\", \"%s\", \"%s\"]", in_tempdir("a.jsonl"), in_tempdir("b.jsonl"),
             in_tempdir("c.jsonl"));
    zr_labelled_args args = labels_args(list);
    args.skip_bad_lines = true;
    zr_labelled *labelled = open_labelled(&args);
    const zr_labelled_info info = zr_labelled_get_info(labelled);
    assert_true(info.files == 3 && info.samples == 5 && info.documents == 5 && info.skipped_lines == 3);
    assert_int_equal(info.bytes, (int64_t)(5 * strlen(GOOD) + strlen("{\n{}\n[]\n")));
    assert_string_equal(info.path, list);
    assert_string_equal(info.cut, "");
    snprintf(first, sizeof(first), "3 bad lines left out; the first is ");
    assert_int_equal(strncmp(info.note, first, strlen(first)), 0);
    assert_non_null(strstr(info.note, "/b.jsonl:2"));
    assert_int_equal(zr__labelled_check(labelled, &hash[0], NULL, NULL), ZR_OK);
    zr_labelled_close(&labelled);
    snprintf(list, sizeof(list), "[\"%s\", \"%s\", \"%s\"]", in_tempdir("a.jsonl"), in_tempdir("c.jsonl"),
             in_tempdir("b.jsonl"));
    labelled = open_labelled(&args);
    assert_int_equal(zr__labelled_check(labelled, &hash[1], NULL, NULL), ZR_OK);
    assert_true(hash[0] != hash[1]);
    zr_labelled_close(&labelled);
}

#define REFUSE(status, field, value, part)                                                                             \
    do {                                                                                                               \
        zr_labelled_args args = labels_args(in_squad("labels.jsonl"));                                                 \
        args.field = value;                                                                                            \
        expect_refusal(&args, status, part);                                                                           \
    } while (0)

/* Check that arguments out of range are refused by name, and that the first and last in range are not. */
static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    const int64_t many = (int64_t)INT32_MAX + 1;
    char weighted[PATH_MAX + 64];
    snprintf(weighted, sizeof(weighted), "[{\"path\": \"%s\", \"weight\": 2}]", in_squad("labels.jsonl"));
    REFUSE(ZR_ERR_ARG, path, NULL, "no path of data was given");
    REFUSE(ZR_ERR_ARG, kind, (zr_labelled_kind)7, "7 is not a kind of labelled samples");
    REFUSE(ZR_ERR_ARG, vocab_size, 0, "vocab_size is 0; it must be from 1 to 2147483647");
    REFUSE(ZR_ERR_ARG, vocab_size, many, "vocab_size is 2147483648");
    REFUSE(ZR_ERR_ARG, seq_length, 4, "seq_length is 4; it must be from 5 to 2147483646");
    REFUSE(ZR_ERR_ARG, seq_length, INT32_MAX, "seq_length is 2147483647");
    REFUSE(ZR_ERR_ARG, samples, 0, "samples is 0; it must be from 1 to seq_length 32");
    REFUSE(ZR_ERR_ARG, samples, 33, "samples is 33");
    REFUSE(ZR_ERR_ARG, order, (zr_data_order)5, "5 is not a valid order of samples");
    REFUSE(ZR_ERR_ARG, labels, 0, "labels is 0; it must be from 1 to 2147483647");
    REFUSE(ZR_ERR_ARG, labels, many, "labels is 2147483648");
    REFUSE(ZR_ERR_ARG, doc_stride, -1, "doc_stride is -1 and max_query_length 0");
    REFUSE(ZR_ERR_ARG, max_query_length, -1, "doc_stride is 0 and max_query_length -1");
    REFUSE(ZR_ERR_CONFIG, tokenizer, NULL, "no tokenizer is given");
    REFUSE(ZR_ERR_CONFIG, vocab_size, VOCAB - 1, "needs a vocab_size of at least 155, but it is 154");
    REFUSE(ZR_ERR_UNSUPPORTED, path, weighted, "labelled samples are not drawn from several sources with weights");
    zr_labelled_args args = labels_args(in_squad("labels.jsonl"));
    args.vocab_size = args.labels = INT32_MAX;
    args.seq_length = args.samples = 5;
    zr_labelled *labelled = open_labelled(&args);
    zr_labelled_close(&labelled);
}

static void all_memory_is_freed(void **state)
{
    (void)state;
    assert_int_equal(alloc_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_samples),   cmocka_unit_test(parts_of_a_row_may_be_missing),
        cmocka_unit_test(the_longer_text_is_cut), cmocka_unit_test(bad_lines_are_refused_or_skipped),
        cmocka_unit_test(odd_lines_are_samples),  cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(memory_is_counted),      cmocka_unit_test(packed_rows_hold_each_sample_once),
        cmocka_unit_test(files_are_joined),       cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(all_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
