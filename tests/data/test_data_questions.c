//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* Questions become samples as with transformers 4.57, whose numbers for tests/squad are here. Wrong files are refused
 * at their place. tests/peers/squad.py compares other texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/allocations.h"
#include "labelled.h"
#include "data/labelled/labelled.h"

/* For each sample of tests/squad/questions.json: its number of tokens, the place at which its text begins, and the
 * first and last token of its answer. */
static const int32_t wanted[][4] = {
    {32, 8, 20, 21},  {32, 8, 12, 13},  {32, 8, 0, 0},    {32, 8, 0, 0},    {27, 8, 0, 0},    {32, 8, 16, 16},
    {32, 8, 8, 8},    {32, 8, 0, 0},    {32, 8, 0, 0},    {27, 8, 0, 0},    {32, 11, 0, 0},   {32, 11, 0, 0},
    {32, 11, 22, 23}, {32, 11, 14, 15}, {30, 11, 0, 0},   {32, 11, 27, 27}, {32, 11, 19, 19}, {32, 11, 11, 11},
    {32, 11, 0, 0},   {30, 11, 0, 0},   {32, 10, 22, 23}, {32, 10, 14, 15}, {32, 10, 0, 0},   {26, 10, 0, 0},
    {32, 13, 0, 0},   {32, 13, 25, 28}, {32, 13, 17, 20}, {29, 13, 0, 0},   {32, 12, 0, 0},   {32, 12, 0, 0},
    {32, 12, 25, 27}, {28, 12, 17, 19}, {32, 10, 15, 17}, {32, 10, 0, 0},   {32, 10, 0, 0},   {32, 10, 0, 0},
    {26, 10, 0, 0},   {32, 8, 24, 24},  {32, 8, 16, 16},  {32, 8, 8, 8},    {32, 8, 0, 0},    {32, 8, 0, 0},
    {32, 8, 0, 0},    {32, 8, 0, 0},    {32, 8, 26, 27},
};
enum { SAMPLES = sizeof(wanted) / sizeof(wanted[0]) };

/* Check sample `number` at the place `at` of a row. Return the place behind it. */
static int32_t check_sample(const room *x, int place, int32_t at, int number)
{
    const int32_t *its = wanted[number];
    assert_int_equal(x->first[place], at);
    assert_int_equal(x->tokens[at], CLS);
    assert_int_equal(x->tokens[at + its[1] - 1], SEP);
    assert_int_equal(x->tokens[at + its[0] - 1], SEP);
    assert_int_equal(x->answer[2 * place], at + its[2]);
    assert_int_equal(x->answer[2 * place + 1], at + its[3]);
    assert_int_equal(x->label[place], -1);
    for (int32_t i = 0; i < its[0]; i++) {
        assert_int_equal(x->documents[at + i], at);
        assert_int_equal(x->segments[at + i], i >= its[1]);
    }
    return at + its[0];
}

static void check_padding(const room *x, int32_t at, int32_t T)
{
    for (int32_t i = at; i < T; i++) assert_true(x->tokens[i] == 0 && x->segments[i] == 0 && x->documents[i] == at);
}

static void samples_are_those_of_transformers(void **state)
{
    (void)state;
    const zr_labelled_args args = questions_args(in_squad("questions.json"));
    zr_labelled *labelled = open_labelled(&args);
    const zr_labelled_info info = zr_labelled_get_info(labelled);
    int64_t tokens = 0;
    assert_int_equal(info.samples, SAMPLES);
    assert_int_equal(info.rows, SAMPLES);
    assert_int_equal(info.documents, 10);
    assert_string_equal(info.format, "SQuAD");
    assert_string_equal(info.note, "");
    assert_string_equal(info.cut, "");
    for (int i = 0; i < 2 * SAMPLES; i++) {
        room x;
        read_row(labelled, i, &x);
        check_padding(&x, check_sample(&x, 0, 0, i % SAMPLES), 32);
        if (i < SAMPLES) tokens += wanted[i][0];
    }
    assert_int_equal(info.tokens, tokens);
    zr_labelled_close(&labelled);
}

/* Check that each sample is in one row of an epoch, and the rows of epochs differ. */
static void samples_share_rows(void **state)
{
    (void)state;
    zr_labelled_args args = questions_args(in_squad("questions.json"));
    args.seq_length = MOST_T;
    args.doc_stride = 49; /* the texts fit into one window */
    args.samples = MOST_S;
    zr_labelled *alone = NULL, *packed = open_labelled(&args), *shuffled = NULL;
    args.order = ZR_SHUFFLED;
    shuffled = open_labelled(&args);
    args.samples = 1;
    alone = open_labelled(&args);
    const int64_t rows = zr_labelled_get_info(shuffled).rows, samples = zr_labelled_get_info(alone).rows;
    assert_int_equal(zr_labelled_get_info(packed).samples, samples);
    assert_true(rows <= samples);
    int differ = 0;
    for (int64_t row = 0; row < rows; row++) {
        room x, y;
        read_row(shuffled, row, &x);
        read_row(packed, row, &y);
        differ += memcmp(&x, &y, sizeof(x)) != 0;
    }
    assert_true(differ > 0);
    for (int epoch = 0; epoch < 3; epoch++) {
        int64_t seen = 0, sum = 0, sum_alone = 0;
        for (int64_t row = 0; row < samples; row++) {
            room x;
            read_row(alone, epoch * samples + row, &x);
            for (int i = 0; i < MOST_T; i++) sum_alone += x.tokens[i] * (i - x.documents[i] + 1);
        }
        for (int64_t row = 0; row < rows; row++) {
            room x;
            read_row(packed, epoch * rows + row, &x);
            for (int s = 0; s < MOST_S; s++) seen += x.answer[2 * s] >= 0;
            for (int i = 0; i < MOST_T; i++) sum += x.tokens[i] * (i - x.documents[i] + 1);
        }
        assert_int_equal(seen, samples);
        assert_int_equal(sum, sum_alone);
    }
    zr_labelled_close(&alone);
    zr_labelled_close(&packed);
    zr_labelled_close(&shuffled);
}

/* ---- wrong files ----------------------------------------------------------------------------- */

#define FILE_OF(context, answers)                                                                                      \
    "{\"data\": [{\"paragraphs\": [{\"context\": \"" context                                                           \
    "\", \"qas\": [\n{\"id\": \"x\", \"question\": \"who\", \"answers\": " answers "}]}]}]}"

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"{\"data\": 3}", "data: 3; expected a list"},
        {"{\"data\": []}", "there is no question with its answer"},
        {"{\"data\": [4]}", "data[0]: 4; expected an object"},
        {"{\"data\": [{\"paragraphs\": [{\"context\": 1}]}]}", "data[0].paragraphs[0].context: 1; expected a text"},
        {"{\"data\": [{\"paragraphs\": [{\"context\": \"a\"}]}]}", "qas: missing; expected a list"},
        {"{\"data\"", "squad.json:1:"},
        {FILE_OF("the river", "[]"), "squad.json:2:"},
        {FILE_OF("the river", "[]"), "qas[0].answers: []; expected a list of at least one answer"},
        {FILE_OF("the river", "[5]"), "answers[0]: 5; expected an object"},
        {FILE_OF("the river", "[{\"text\": \"the\", \"answer_start\": \"0\"}]"),
         "answer_start: \"0\"; expected the number"},
        {FILE_OF("the river", "[{\"answer_start\": 0}]"), "text: missing; expected a text"},
        {FILE_OF("the river", "[]"), "or \"is_impossible\": true (SQuAD 2.0)"},
        {FILE_OF("the river", "[], \"is_impossible\": false"), "answers: []; expected a list of at least one answer"},
        {FILE_OF("the river", "null, \"is_impossible\": true"),
         "answers: null; expected [], since is_impossible is true"},
        {FILE_OF("the river", "[{\"text\": \"the\", \"answer_start\": 0}], \"is_impossible\": true"),
         "expected [], since is_impossible is true"},
        {FILE_OF("the river", "[{\"text\": \"the\", \"answer_start\": 0}], \"is_impossible\": \"no\""),
         "qas[0].is_impossible: \"no\"; expected true or false"},
        {FILE_OF("the river", "[{\"text\": \"the\", \"answer_start\": 0}], \"is_impossible\": 0"),
         "is_impossible: 0; expected true or false"},
        {FILE_OF("the river", "[{\"text\": \"bridge\", \"answer_start\": 0}]"),
         "1 question left out: the answer is not at "
         "answer_start in its text; the first is"},
        {FILE_OF("the river", "[{\"text\": \"the\", \"answer_start\": 9}]"), "question x"},
        {FILE_OF("the river", "[{\"text\": \"the\", \"answer_start\": -9}]"), "left out"},
        {FILE_OF(" the river", "[{\"text\": \" \", \"answer_start\": 0}]"), "left out"},
        {FILE_OF("the river", "[{\"text\": \"\", \"answer_start\": 0}]"), "left out"},
        {FILE_OF("", "[{\"text\": \"the\", \"answer_start\": 0}]"), "left out"},
        {FILE_OF("\\u0000", "[]"), "context: a text has the character U+0000, which zr does not read"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const zr_labelled_args args = questions_args(write_file("squad.json", wrong[i].text));
        expect_refusal(&args, ZR_ERR_DATA, wrong[i].part);
    }
    const zr_labelled_args missing = questions_args(in_tempdir("none.json"));
    expect_refusal(&missing, ZR_ERR_NOT_FOUND, "none.json");
}

/* Check that each window of a question without an answer has the answer [CLS], as in transformers, and that such a
 * question is never lost. */
static void questions_may_lack_an_answer(void **state)
{
    (void)state;
    enum { WORDS = 26, WINDOWS = 3 }; /* windows of 16, 16 and 10 tokens, each 8 after the last one */
    char words[4 * WORDS + 1] = "", text[1024];
    for (int i = 0; i < WORDS; i++) strcat(words, i ? " the" : "the");
    snprintf(text, sizeof(text),
             "{\"data\": [{\"paragraphs\": [{\"context\": \"%s\", \"qas\": ["
             "{\"id\": \"a\", \"question\": \"the\", \"answers\": [], \"is_impossible\": true},"
             "{\"id\": \"b\", \"question\": \"the\", \"is_impossible\": false, \"answers\": [{\"text\": \"river\", "
             "\"answer_start\": 0}]},"
             "{\"id\": \"c\", \"question\": \"the\", \"is_impossible\": false, \"answers\": [{\"text\": \"the\", "
             "\"answer_start\": 4}]}]}]}]}",
             words);
    for (int every = 0; every < 2; every++) {
        zr_labelled_args args = questions_args(write_file("lack.json", text));
        args.seq_length = 20;
        args.max_query_length = 4;
        args.every_question = every;
        zr_labelled *labelled = open_labelled(&args);
        const zr_labelled_info info = zr_labelled_get_info(labelled);
        assert_true(info.documents == 2 + every && info.lost_answers == 1);
        assert_int_equal(info.samples, WINDOWS * info.documents);
        for (int64_t i = 0; i < info.samples; i++) {
            room x;
            read_row(labelled, i, &x);
            const bool lost = every && i / WINDOWS == 1, has = i == info.samples - WINDOWS;
            assert_int_equal(x.answer[0], lost ? -1 : has ? 4 : 0);
            assert_int_equal(x.answer[1], lost ? -1 : has ? 4 : 0);
        }
        zr_labelled_close(&labelled);
    }
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    const zr_labelled_args good = questions_args(in_squad("questions.json"));
    zr_labelled_args args = good;
    args.doc_stride = 18;
    expect_refusal(&args, ZR_ERR_CONFIG, "has 17 left for a window");
    args.max_query_length = 30;
    expect_refusal(&args, ZR_ERR_CONFIG, "has 0 left for a window");
    args = good;
    args.doc_stride = -1;
    expect_refusal(&args, ZR_ERR_ARG, "doc_stride is -1");
    args = good;
    args.vocab_size = VOCAB - 1;
    expect_refusal(&args, ZR_ERR_CONFIG, "needs a vocab_size of at least 155");
    args = good;
    args.tokenizer = NULL;
    expect_refusal(&args, ZR_ERR_CONFIG, "no tokenizer is given");
    args.tokenizer = "bytes";
    args.vocab_size = 256;
    expect_refusal(&args, ZR_ERR_CONFIG, "has no special token [CLS]");
    args = good;
    args.seq_length = 4;
    expect_refusal(&args, ZR_ERR_ARG, "seq_length is 4");
    args = good;
    args.samples = 33;
    expect_refusal(&args, ZR_ERR_ARG, "samples is 33");
    args = good;
    args.path = "[{\"path\": \"a.json\", \"weight\": 1}]";
    expect_refusal(&args, ZR_ERR_UNSUPPORTED, "weights");
    zr_labelled *labelled = open_labelled(&good);
    room x;
    const zr_labelled_row out = {.tokens = x.tokens};
    assert_int_equal(zr_labelled_read(labelled, -1, &out), ZR_ERR_ARG);
    zr_labelled_close(&labelled);
}

/* Check that a question whose answer is not at its place has no loss in an evaluation. */
static void lost_answers_do_not_count(void **state)
{
    (void)state;
    zr_labelled_args args =
        questions_args(write_file("squad.json", FILE_OF("the river", "[{\"text\": \"bridge\", \"answer_start\": 0}]")));
    room x;
    args.every_question = true;
    zr_labelled *labelled = open_labelled(&args);
    read_row(labelled, 0, &x);
    assert_true(x.answer[0] == -1 && x.answer[1] == -1);
    assert_int_equal(zr_labelled_get_info(labelled).lost_answers, 1);
    assert_non_null(strstr(zr_labelled_get_info(labelled).note, "without a loss"));
    zr_labelled_close(&labelled);
    /* the same words with other white space between them are the answer */
    args.path =
        write_file("squad.json", FILE_OF(" the \\n river", "[{\"text\": \"the  river \", \"answer_start\": 1}]"));
    labelled = open_labelled(&args);
    read_row(labelled, 0, &x);
    assert_true(x.answer[0] == 3 && x.answer[1] == 4);
    zr_labelled_close(&labelled);
}

/* Check that, as in transformers, an answer that consists only of white space becomes the word before it. */
static void white_answers_are_words(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t begin, end;
    } cases[] = {
        {FILE_OF("the old river", "[{\"text\": \" \", \"answer_start\": 3}]"), 3, 3},
        {FILE_OF("the old river", "[{\"text\": \"\\u3000\", \"answer_start\": 7}]"), 4, 4},
        {FILE_OF("the \\n old river ", "[{\"text\": \" \\n \", \"answer_start\": 3}]"), 3, 3},
        {FILE_OF("the old river \\t", "[{\"text\": \"\\t\", \"answer_start\": 14}]"), 5, 5},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const zr_labelled_args args = questions_args(write_file("squad.json", cases[i].text));
        room x;
        zr_labelled *labelled = open_labelled(&args);
        read_row(labelled, 0, &x);
        if (x.answer[0] != cases[i].begin || x.answer[1] != cases[i].end)
            fail_msg("%zu: the answer is %d .. %d", i, x.answer[0], x.answer[1]);
        assert_int_equal(zr_labelled_get_info(labelled).lost_answers, 0);
        zr_labelled_close(&labelled);
    }
}

/* Check that the note about a lost answer is cut between two characters. */
static void long_names_are_cut(void **state)
{
    (void)state;
    char text[512], id[64] = "";
    for (int i = 0; i < 15; i++) strcat(id, "\xe6\xb2\xb3");
    snprintf(text, sizeof(text),
             "{\"data\": [{\"paragraphs\": [{\"context\": \"the river\", \"qas\": [{\"id\": \"%s\", "
             "\"question\": \"who\", \"answers\": [{\"text\": \"bridge\", \"answer_start\": 0}]}]}]}]}",
             id);
    zr_labelled_args args = questions_args(write_file("squad.json", text));
    args.every_question = true;
    zr_labelled *labelled = open_labelled(&args);
    const char *note = strstr(zr_labelled_get_info(labelled).note, "\xe6\xb2\xb3");
    assert_non_null(note);
    assert_string_equal(note + 36, "...");
    zr_labelled_close(&labelled);
}

/* Keep the progress that was reported last. */
static void on_progress(void *arg, int64_t done, int64_t all)
{
    int64_t *last = arg;
    assert_true(done > last[0] && done <= all);
    last[0] = done;
    last[1] = all;
}

/* Check that progress is counted in bytes of all files. */
static void progress_is_told(void **state)
{
    (void)state;
    char path[2 * PATH_MAX];
    const char *one = in_squad("questions.json");
    int64_t opened[2] = {0}, checked[2] = {0};
    uint64_t hash = 0;
    snprintf(path, sizeof(path), "[\"%s\", \"%s\"]", one, one);
    zr_labelled_args args = questions_args(path);
    args.progress = on_progress;
    args.arg = opened;
    zr_labelled *labelled = open_labelled(&args);
    const int64_t bytes = zr_labelled_get_info(labelled).bytes;
    assert_int_equal(zr__labelled_check(labelled, &hash, on_progress, checked), ZR_OK);
    assert_true(opened[0] == bytes && opened[1] == bytes && checked[0] == bytes && checked[1] == bytes);
    zr_labelled_close(&labelled);
}

static void long_questions_are_cut(void **state)
{
    (void)state;
    zr_labelled_args args = questions_args(in_squad("questions.json"));
    room x;
    args.max_query_length = 2;
    zr_labelled *labelled = open_labelled(&args);
    assert_int_equal(zr_labelled_get_info(labelled).cut_documents, 10);
    assert_string_equal(zr_labelled_get_info(labelled).cut, "10 of 10 questions have more than 2 tokens and were cut");
    read_row(labelled, 0, &x);
    assert_true(x.tokens[3] == SEP && x.segments[3] == 0 && x.segments[4] == 1);
    zr_labelled_close(&labelled);
}

/* Check that a sample lies in the tokens of its list. */
static void check_inside(const zr__labelled_list *list, const zr__labelled_sample *sample)
{
    assert_true(sample->a >= 0 && sample->b >= 0 && sample->a_n >= 0 && sample->b_n >= 1);
    assert_true(sample->a + sample->a_n <= list->tokens && sample->b + sample->b_n <= list->tokens);
    assert_in_range(zr__labelled_length(sample), 3, 32);
    assert_true(sample->begin >= -1 && sample->begin < 32 && sample->end >= -1 && sample->end < 32);
}

/* Check that every part of a file, and the file with any one byte changed, is read or refused. */
static void damaged_files_are_read_or_refused(void **state)
{
    (void)state;
    static const char text[] = FILE_OF("the old bridge", "[{\"text\": \"old\", \"answer_start\": 4}]");
    zr_labelled_args args = questions_args("");
    zr_tokenizer *tokenizer = NULL;
    int refused = 0, read = 0;
    assert_int_equal(zr_tokenizer_open(args.tokenizer, &tokenizer), ZR_OK);
    for (size_t i = 0; i < 4 * sizeof(text) - 3; i++) { /* not the terminator */
        char copy[sizeof(text)];
        zr__labelled_list list;
        zr__questions questions;
        strcpy(copy, text);
        if (i < sizeof(text))
            copy[i] = '\0';
        else
            copy[(i - sizeof(text)) / 3] = (char)("\x80\"9"[i % 3]);
        args.every_question = i % 2;
        assert_int_equal(zr__labelled_list_open(tokenizer, &list), ZR_OK);
        assert_int_equal(zr__questions_open(&args, &list, &questions), ZR_OK);
        const zr_status st = zr__questions_read(&questions, write_file("damaged.json", copy));
        assert_true(st == ZR_OK || (st == ZR_ERR_DATA && strstr(zr_error_message(), "damaged.json")));
        for (int64_t k = 0; k < list.samples; k++) check_inside(&list, &list.sample[k]);
        refused += st != ZR_OK;
        read += st == ZR_OK && list.samples > 0;
        zr__questions_free(&questions);
        zr__labelled_list_free(&list);
    }
    assert_true(refused > 100 && read > 20);
    zr_tokenizer_close(&tokenizer);
}

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
    const zr_labelled_args args = questions_args(write_file(
        "short.json",
        "{\"data\": [{\"paragraphs\": [{\"context\": \"The old bridge\", \"qas\": [{\"id\": \"q\", \"question\": \"a\","
        " \"answers\": [{\"text\": \"old\", \"answer_start\": 4}]}, {\"id\": \"r\", \"question\": \"b\","
        " \"answers\": [{\"text\": \"old\", \"answer_start\": 8}]}]}]}]}"));
    zr_tokenizer *tokenizer = NULL;
    const long before = alloc_made;
    assert_int_equal(zr_tokenizer_open(args.tokenizer, &tokenizer), ZR_OK);
    zr_tokenizer_close(&tokenizer);
    const long first = alloc_made - before;
    zr_labelled *labelled = open_labelled(&args);
    zr_labelled_info info = zr_labelled_get_info(labelled);
    assert_int_equal(info.lost_answers, 1);
    assert_int_equal(info.samples, 1);
    assert_int_equal(info.documents, 1);
    assert_non_null(strstr(info.note, "1 question left out: the answer is not at answer_start in its text"));
    assert_in_range(info.memory_bytes, 1000, 1 << 18);
    zr_labelled_close(&labelled);
    expect_each_allocation_fails(open_and_read, (void *)&args, first);
}

static void all_memory_is_freed(void **state)
{
    (void)state;
    assert_int_equal(alloc_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_those_of_transformers),
        cmocka_unit_test(samples_share_rows),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(questions_may_lack_an_answer),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(lost_answers_do_not_count),
        cmocka_unit_test(white_answers_are_words),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(long_questions_are_cut),
        cmocka_unit_test(progress_is_told),
        cmocka_unit_test(damaged_files_are_read_or_refused),
        cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(all_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
