//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* Answers are found from logits, and compared with the right ones. tests/peers/squad.py compares both with
 * transformers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "support/allocations.h"
#include "data/labelled/labelled.h"
#include "labelled.h"
#include "data/labelled/final.h"
#include "data/tokenizer/tokenizer.h"

static float logits[64][2 * MOST_T];

/* Open the questions with rows that may have several samples, and set all logits to -9. */
static zr_labelled *open_questions(int64_t samples)
{
    zr_labelled_args args = questions_args(in_squad("questions.json"));
    args.samples = samples;
    args.seq_length = samples > 1 ? MOST_T : 32;
    args.every_question = true;
    for (int row = 0; row < 64; row++)
        for (int i = 0; i < 2 * MOST_T; i++) logits[row][i] = -9;
    return open_labelled(&args);
}

static zr__answers *answer(zr_labelled *labelled, int64_t n_best, int64_t longest)
{
    zr__answers *answers = NULL;
    if (zr__answers_open(labelled, n_best, longest, &answers) != ZR_OK) fail_msg("%s", zr_error_message());
    for (int64_t row = zr_labelled_get_info(labelled).rows - 1; row >= 0; row--)
        if (zr__answers_add(answers, row, logits[row]) != ZR_OK) fail_msg("%s", zr_error_message());
    return answers;
}

static void expect_answer(zr__answers *answers, int64_t question, int64_t place, const char *text)
{
    const char *id = NULL;
    const zr__answer *list = NULL;
    int64_t n = 0;
    if (zr__answers_get(answers, question, &id, &list, &n) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_true(n > place);
    assert_string_equal(list[place].text, text);
}

/* Check that a model that knows the answers scores 100 percent, with one sample or several samples in a row. */
static void right_answers_are_found(void **state)
{
    (void)state;
    for (int64_t samples = 1; samples <= 3; samples += 2) {
        zr_labelled *labelled = open_questions(samples);
        zr__answers_scored scored;
        char *json = NULL;
        for (int64_t row = 0; row < zr_labelled_get_info(labelled).rows; row++) {
            room x;
            read_row(labelled, row, &x);
            for (int s = 0; s < samples; s++) {
                if (x.answer[2 * s] < 0 || x.answer[2 * s] == x.first[s]) continue;
                logits[row][2 * x.answer[2 * s]] = 5;
                logits[row][2 * x.answer[2 * s + 1] + 1] = 5;
            }
            for (int i = 0; i < (samples > 1 ? MOST_T : 32); i++) /* padding is not read */
                if (x.tokens[i] == 0) logits[row][2 * i] = logits[row][2 * i + 1] = NAN;
        }
        zr__answers *answers = answer(labelled, 0, 0);
        assert_int_equal(zr__answers_score(answers, &scored), ZR_OK);
        assert_true(scored.exact == 100 && scored.f1 == 100 && scored.questions == 10);
        assert_int_equal(zr__answers_json(answers, &json), ZR_OK);
        assert_non_null(strstr(json, "\n    \"b1\": \"Ana Weiss.\",\n    \"b2\": \"1912\","));
        expect_answer(answers, 6, 0, "two coins");
        zr_free(json);
        zr__answers_close(&answers);
        zr_labelled_close(&labelled);
    }
}

/* ---- questions that may lack an answer ------------------------------------------------------------------------ */

#define LACK                                                                                                           \
    "{\"data\": [{\"paragraphs\": [{\"context\": \"the old bridge at the river\", \"qas\": ["                          \
    "{\"id\": \"has\", \"question\": \"what\", \"is_impossible\": false, \"answers\": [{\"text\": \"old bridge\", "    \
    "\"answer_start\": 4}, {\"text\": \"the\", \"answer_start\": 0}]},"                                                \
    "{\"id\": \"lacks\", \"question\": \"when\", \"is_impossible\": true, \"answers\": []}]}]}]}"

/* Answer both questions with "old bridge" (tokens 4 and 5) and the logits `sum` / 2; [CLS] has 0 and, in the second
 * question, `null` / 2. Check the scores. */
static void expect_scores(double threshold, float sum, float null, const double want[7], const char *json)
{
    zr_labelled_args args = questions_args(write_file("lack.json", LACK));
    args.every_question = true;
    zr_labelled *labelled = open_labelled(&args);
    assert_int_equal(zr_labelled_get_info(labelled).rows, 2);
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < 2 * MOST_T; i++) logits[row][i] = -99;
        logits[row][0] = logits[row][1] = row ? null / 2 : 0;
        logits[row][2 * 4] = logits[row][2 * 5 + 1] = sum / 2;
    }
    zr__answers *answers = answer(labelled, 0, 0);
    zr__answers_scored s;
    char *got = NULL;
    zr__answers_threshold(answers, threshold);
    assert_int_equal(zr__answers_score(answers, &s), ZR_OK);
    const double is[] = {s.exact, s.f1, s.has_exact, s.has_f1, s.no_exact, s.best_f1, s.best_threshold};
    for (int i = 0; i < 7; i++)
        if (is[i] != want[i]) fail_msg("score %d is %g, not %g", i, is[i], want[i]);
    assert_true(s.questions == 2 && s.lack == 1);
    assert_int_equal(zr__answers_json(answers, &got), ZR_OK);
    if (!strstr(got, json)) fail_msg("%s", got);
    zr_free(got);
    zr__answers_close(&answers);
    zr_labelled_close(&labelled);
}

static void no_answer_competes_with_answers(void **state)
{
    (void)state;
    const double all_right[] = {100, 100, 100, 100, 100, 100, -2}, none[] = {50, 50, 0, 0, 100, 100, -2},
                 both[] = {50, 50, 100, 100, 0, 100, -2};
    expect_scores(0, 6, 8, all_right, "\"has\": \"old bridge\",\n    \"lacks\": \"\"");
    expect_scores(-7, 6, 8, none, "\"has\": \"\"");
    expect_scores(-6, 6, 8, all_right, "\"has\": \"old bridge\""); /* an answer must be worse by more */
    expect_scores(2, 6, 8, both, "\"lacks\": \"old bridge\"");
    expect_scores(1.5, 6, 8, all_right, "\"lacks\": \"\"");
    /* both have the same odds, so a threshold takes both or neither */
    const double same[] = {50, 50, 100, 100, 0, 50, -7};
    expect_scores(0, 6, 0, same, "\"lacks\": \"old bridge\"");
    /* the list of answers has "" at its place, or behind the best ones */
    zr_labelled_args args = questions_args(write_file("lack.json", LACK));
    zr_labelled *labelled = open_labelled(&args);
    for (int i = 0; i < 2 * MOST_T; i++) logits[0][i] = logits[1][i] = -9;
    logits[0][2 * 4] = logits[0][2 * 5 + 1] = 3;
    logits[0][2 * 3] = logits[0][2 * 4 + 1] = 2;
    zr__answers *answers = answer(labelled, 2, 0);
    expect_answer(answers, 0, 0, "old bridge");
    expect_answer(answers, 0, 1, "old");
    expect_answer(answers, 0, 2, ""); /* a third one, although only two best are kept */
    expect_answer(answers, 1, 0, "empty");
    expect_answer(answers, 1, 1, "");
    zr__answers_close(&answers);
    zr_labelled_close(&labelled);
}

/* Check that candidates are combined from the best first tokens and the best last tokens, and are not longer than
 * allowed. */
static void candidates_have_limits(void **state)
{
    (void)state;
    zr_labelled *labelled = open_questions(1);
    /* question b2, sample 5: tokens 8 to 30 are "The old bridge at Zurich was built in 1912 by the engineer Ana [UNK] .
     * Its..." */
    float *row = logits[5];
    row[2 * 9] = 7;      /* old ... */
    row[2 * 20 + 1] = 7; /* ... Ana: 12 tokens */
    row[2 * 10 + 1] = 3; /* ... bridge */
    row[2 * 2] = 50;     /* a token of the question */
    row[2 * 8 + 1] = 40; /* as a last token, it is before all first tokens but itself */
    row[2 * 31] = 50;    /* [SEP] */
    zr__answers *answers = answer(labelled, 0, 12);
    expect_answer(answers, 1, 0, "The");
    expect_answer(answers, 1, 1, "old bridge at Z\xc3\xbcrich was built in 1912 by the engineer Ana");
    expect_answer(answers, 1, 2, "old bridge");
    zr__answers_close(&answers);
    answers = answer(labelled, 1 << 20, 12); /* a number of best tokens greater than the number of a sample's tokens */
    expect_answer(answers, 1, 2, "old bridge");
    zr__answers_close(&answers);
    answers = answer(labelled, 0, 11);
    expect_answer(answers, 1, 1, "old bridge");
    zr__answers_close(&answers);
    answers = answer(labelled, 2, 11); /* only two best tokens of each kind: the first tokens are outside the text */
    expect_answer(answers, 1, 0, "empty");
    zr__answers_close(&answers);
    zr_labelled_close(&labelled);
}

/* Check that an answer may begin with a token only in the sample in which the token has the most context. */
static void tokens_count_where_they_have_most_context(void **state)
{
    (void)state;
    zr_labelled *labelled = open_questions(1);
    /* question b2: "1912" is token 16 of sample 5, and token 8, the first one of the text, of sample 6 */
    logits[6][2 * 8] = logits[6][2 * 8 + 1] = 9;
    zr__answers *answers = answer(labelled, 0, 0);
    const char *id = NULL;
    const zr__answer *list = NULL;
    int64_t n = 0;
    assert_int_equal(zr__answers_get(answers, 1, &id, &list, &n), ZR_OK);
    assert_string_equal(id, "b2");
    for (int64_t i = 0; i < n; i++) assert_true(list[i].start == -9);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += list[i].probability;
    assert_true(fabs(sum - 1) < 1e-12);
    zr__answers_close(&answers);
    logits[5][2 * 16] = logits[5][2 * 16 + 1] = 8;
    answers = answer(labelled, 0, 0);
    expect_answer(answers, 1, 0, "1912");
    zr__answers_close(&answers);
    zr_labelled_close(&labelled);
}

/* Check that two questions with the same id are refused, since the file of answers has one answer for each id. */
static void an_id_has_one_question(void **state)
{
    (void)state;
    static const char text[] =
        "{\"data\": [{\"paragraphs\": [{\"context\": \"old\", \"qas\": ["
        "{\"id\": \"q7\", \"question\": \"a\", \"answers\": [{\"text\": \"old\", \"answer_start\": 0}]},"
        "{\"id\": \"q8\", \"question\": \"b\", \"answers\": [{\"text\": \"old\", \"answer_start\": 0}]},"
        "{\"id\": \"q7\", \"question\": \"c\", \"answers\": [{\"text\": \"old\", \"answer_start\": 0}]}]}]}]}";
    zr_labelled_args args = questions_args(write_file("twice.json", text));
    zr_labelled *labelled = open_labelled(&args);
    zr__answers *answers = NULL;
    assert_int_equal(zr__answers_open(labelled, 0, 0, &answers), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "two questions have the id q7"));
    assert_null(answers);
    zr_labelled_close(&labelled);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    zr_labelled *labelled = open_questions(1);
    zr__answers *answers = NULL;
    zr__answers_scored scored;
    const char *id = NULL;
    const zr__answer *list = NULL;
    int64_t n = 0;
    assert_int_equal(zr__answers_open(labelled, -1, 0, &answers), ZR_ERR_ARG);
    assert_non_null(strstr(zr_error_message(), "n_best is -1 and max_answer_length 0; they must be at least 1"));
    assert_int_equal(zr__answers_open(labelled, (1 << 20) + 1, 0, &answers), ZR_ERR_ARG);
    assert_non_null(strstr(zr_error_message(), "n_best is 1048577 and max_answer_length 0"));
    assert_int_equal(zr__answers_open(labelled, 0, -1, &answers), ZR_ERR_ARG);
    assert_non_null(strstr(zr_error_message(), "n_best is 0 and max_answer_length -1"));
    assert_null(answers);
    assert_int_equal(zr__answers_open(labelled, 0, 0, &answers), ZR_OK);
    assert_int_equal(zr__answers_score(answers, &scored), ZR_ERR_STATE);
    assert_non_null(strstr(zr_error_message(), "question b1"));
    logits[2][3] = NAN;
    assert_int_equal(zr__answers_add(answers, 2, logits[2]), ZR_ERR_DATA);
    assert_int_equal(zr__answers_add(answers, -1, logits[2]), ZR_ERR_ARG);
    assert_int_equal(zr__answers_get(answers, 10, &id, &list, &n), ZR_ERR_ARG);
    assert_int_equal(zr__answers_get(answers, -1, &id, &list, &n), ZR_ERR_ARG);
    assert_non_null(strstr(zr_error_message(), "the question is -1; it must be from 0 to "));
    zr__answers_close(&answers);
    zr_labelled_close(&labelled);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Check the examples of get_final_text, and texts whose normalization drops characters or turns one into several. */
static void texts_are_parts_of_the_original(void **state)
{
    (void)state;
    static const char *const wanted[][3] = {
        {"steve smith", "Steve Smith's", "Steve Smith"},
        {"zurich", "(Z\xc3\xbcrich),", "Z\xc3\xbcrich"},
        {"12", "12\xe2\x82\xac", "12"},
        {"\xe2\x82\xac", "12\xe2\x82\xac", "\xe2\x82\xac"},
        {"smith", "Jones", "Jones"},                /* not found */
        {"cafe", "cafe\xcc\x81s", "cafe\xcc\x81s"}, /* the normalization drops the mark, so that the lengths differ */
        {"", "Steve", "Steve"},
        {"a . b", "A.B", "A.B"},
        {"u . s", "the U.S. army", "U.S"},
    };
    zr_tokenizer *tokenizer = NULL;
    assert_int_equal(zr_tokenizer_open(in_squad(""), &tokenizer), ZR_OK);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        zr__text out = {0};
        const zr_status st = zr__final_text(zr__tokenizer_bert(tokenizer), wanted[i][0], wanted[i][1], &out);
        assert_int_equal(st, ZR_OK);
        assert_string_equal(out.data, wanted[i][2]);
        zr__text_clear(&out);
    }
    zr_tokenizer_close(&tokenizer);
}

static void answers_are_compared_like_squad(void **state)
{
    (void)state;
    static const struct {
        const char *answer, *right;
        bool exact;
        double f1;
    } wanted[] = {
        {"The Old Bridge!", "old bridge", true, 1},
        {"an apple a day", "apple, day", true, 1},
        {"old", "the old bridge", false, 2. / 3},
        {"two two one", "two one one", false, 2. / 3},
        {"Ana", "Ben", false, 0},
        {"the", "a", true, 0}, /* the normalization removes all words */
        {"theatre and", "theatre an d", false, 0.5},
        {"Z\xc3\x9cRICH\xc2\xa0"
         "x",
         "z\xc3\xbcrich x", true, 1},
        {"twenty-one", "twentyone", true, 1},
        {"a\xcc\x81", "\xcc\x81", true, 1}, /* as in Python, a mark is not a letter, so "a" is an article */
        {"_a_", "b", false, 0},
    };
    zr__classes *classes = NULL;
    assert_int_equal(zr__classes_open(&classes), ZR_OK);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        bool exact = false;
        double f1 = -1;
        assert_int_equal(zr__answer_compare(classes, wanted[i].answer, wanted[i].right, &exact, &f1), ZR_OK);
        if (exact != wanted[i].exact || fabs(f1 - wanted[i].f1) > 1e-15)
            fail_msg("%s, %s: %d, %g", wanted[i].answer, wanted[i].right, exact, f1);
    }
    zr__classes_close(&classes);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static zr_status answer_all(void *arg)
{
    zr_labelled *labelled = arg;
    zr__answers *answers = NULL;
    zr__answers_scored scored;
    char *json = NULL;
    zr_status st = zr__answers_open(labelled, 0, 0, &answers);
    for (int64_t row = 0; st == ZR_OK && row < zr_labelled_get_info(labelled).rows; row++)
        st = zr__answers_add(answers, row, logits[row]);
    if (st == ZR_OK) st = zr__answers_score(answers, &scored);
    if (st == ZR_OK) st = zr__answers_json(answers, &json);
    zr_free(json);
    zr__answers_close(&answers);
    zr__answers_close(&answers);
    return st;
}

static void memory_may_be_short(void **state)
{
    (void)state;
    zr_labelled_args args = questions_args(write_file(
        "short.json", "{\"data\": [{\"paragraphs\": [{\"context\": \"The old bridge\", \"qas\": [{\"id\": \"q\","
                      " \"question\": \"a\", \"answers\": [{\"text\": \"old\", \"answer_start\": 4}]}]}]}]}"));
    zr_labelled *labelled = open_labelled(&args);
    for (int i = 0; i < MOST_T; i++) logits[0][i] = (float)i;
    expect_each_allocation_fails(answer_all, labelled, 0);
    zr_labelled_close(&labelled);
    zr_labelled_close(&labelled);
    args = (zr_labelled_args){.path = in_squad("labels.jsonl"),
                              .vocab_size = VOCAB,
                              .seq_length = 32,
                              .samples = 1,
                              .tokenizer = in_squad(""),
                              .labels = 2,
                              .label_names = (const char *const[]){"town", "garden"}};
    labelled = open_labelled(&args);
    zr__answers *answers = NULL;
    assert_int_equal(zr__answers_open(labelled, 0, 0, &answers), ZR_ERR_ARG);
    assert_string_equal(zr_error_message(), "answers are given to questions, but the object has labelled texts");
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
        cmocka_unit_test(right_answers_are_found),
        cmocka_unit_test(no_answer_competes_with_answers),
        cmocka_unit_test(candidates_have_limits),
        cmocka_unit_test(tokens_count_where_they_have_most_context),
        cmocka_unit_test(an_id_has_one_question),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(texts_are_parts_of_the_original),
        cmocka_unit_test(answers_are_compared_like_squad),
        cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(all_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
