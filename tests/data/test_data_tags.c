//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* Sentences whose words have tags: columns and records, words of several tokens, sentences that are too long, wrong
 * lines; and the entities that seqeval finds in tags. tests/peers/squad.py compares both with other programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/allocations.h"
#include "labelled.h"
#include "data/labelled/labelled.h"

static const char *const names[] = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static zr_labelled_args tags_args(const char *path)
{
    return (zr_labelled_args){.path = path,
                              .kind = ZR_LABELLED_TAGS,
                              .vocab_size = VOCAB,
                              .seq_length = 12,
                              .samples = 1,
                              .tokenizer = in_squad(""),
                              .labels = NAMES,
                              .label_names = names};
}

/* A row with its tagged words. */
typedef struct tagged {
    int32_t tokens[MOST_T], documents[MOST_T], words[MOST_T], tags[MOST_T];
} tagged;

static void read_tagged(zr_labelled *labelled, int64_t row, tagged *x)
{
    const zr_labelled_row out = {.tokens = x->tokens, .documents = x->documents, .words = x->words, .tags = x->tags};
    memset(x, 7, sizeof(*x));
    if (zr_labelled_read(labelled, row, &out) != ZR_OK) fail_msg("%s", zr_error_message());
}

/* Check the words and tags of a row of T tokens. */
static void expect_words(const tagged *x, int T, int n, const int32_t *words, const int32_t *tags)
{
    for (int i = 0; i < T; i++) {
        assert_int_equal(x->words[i], i < n ? words[i] : 0);
        assert_int_equal(x->tags[i], i < n ? tags[i] : -1);
    }
}

/* "trains" is two tokens, a control character none, and "Zurich." two. */
static const char columns[] = "\xef\xbb\xbf-DOCSTART- -X- -X- O\r\n\r\nTrains NN B-NP B-PER\r\n\x01 NN B-NP I-PER\r\n"
                              "at  IN  B-PP O\r\n  Zurich. NNP B-NP B-LOC \r\n \t\r\n\nthe DT B-NP O";

static void expect_columns(const char *path, const char *format)
{
    const zr_labelled_args args = tags_args(path);
    zr_labelled *labelled = open_labelled(&args);
    const zr_labelled_info info = zr_labelled_get_info(labelled);
    assert_true(info.samples == 2 && info.documents == 2 && info.cut_documents == 0);
    assert_string_equal(info.format, format);
    tagged x;
    read_tagged(labelled, 0, &x);
    assert_true(x.tokens[0] == CLS && x.tokens[6] == SEP && x.tokens[7] == 0 && x.documents[7] == 7);
    expect_words(&x, 12, 3, (const int32_t[]){1, 3, 4}, (const int32_t[]){1, 0, 3});
    read_tagged(labelled, 1, &x);
    expect_words(&x, 12, 1, (const int32_t[]){1}, (const int32_t[]){0});
    zr_labelled_close(&labelled);
}

static void columns_and_records_become_sentences(void **state)
{
    (void)state;
    expect_columns(write_file("words.txt", columns), "sentences with tags");
    expect_columns(write_file("words.json",
                              "{\"id\": 0, \"tokens\": [\"Trains\", \"\\u0001\", \"at\", \"Zurich.\"], \"ner_tags\": "
                              "[\"B-PER\", 2, \"O\", 3]}\n{\"tokens\": [\"the\"], \"tags\": [\"O\"]}\n"),
                   "sentences with tags");
    expect_columns(
        write_file("words.json",
                   "[{\"tokens\": [\"Trains\", \"\\u0001\", \"at\", \"Zurich.\"], \"labels\": [1, 2, 0, 3]},\n"
                   "{\"tokens\": [\"the\"], \"ner_tags\": [0]}]"),
        "sentences with tags");
    /* with tabs, spaces belong to words */
    const zr_labelled_args args = tags_args(write_file("tabs.txt", "the river\tB-LOC\nat\tO\n"));
    zr_labelled *labelled = open_labelled(&args);
    tagged x;
    read_tagged(labelled, 0, &x);
    expect_words(&x, 12, 2, (const int32_t[]){1, 3}, (const int32_t[]){3, 0});
    zr_labelled_close(&labelled);
}

/* Check that a sentence that does not fit into a row keeps the words that begin in it, and that sentences share rows.
 */
static void long_sentences_lose_their_end(void **state)
{
    (void)state;
    zr_labelled_args args = tags_args(write_file(
        "long.txt", "the O\nTrains B-PER\nTrains I-PER\nat O\n\nthe O\nTrains B-PER\nTrains I-PER\n\nTrains B-LOC\n"));
    args.seq_length = 6;
    zr_labelled *labelled = open_labelled(&args);
    zr_labelled_info info = zr_labelled_get_info(labelled);
    assert_int_equal(info.cut_documents, 2);
    assert_string_equal(info.cut, "2 of 3 sentences have more tokens than a row and lost their end");
    tagged x;
    for (int row = 0; row < 2; row++) {
        read_tagged(labelled, row, &x);
        expect_words(&x, 6, 3, (const int32_t[]){1, 2, 4}, (const int32_t[]){0, 1, 2});
        assert_int_equal(x.tokens[5], SEP);
    }
    zr_labelled_close(&labelled);
    args.seq_length = 16;
    args.samples = 3;
    labelled = open_labelled(&args);
    info = zr_labelled_get_info(labelled);
    assert_true(info.cut_documents == 0 && info.rows == 2 && info.samples == 3);
    int64_t words = 0;
    for (int row = 0; row < 2; row++) {
        int64_t numbers[3], n = 0, at = 0;
        read_tagged(labelled, row, &x);
        assert_int_equal(zr__labelled_samples(labelled, row, numbers, &n), ZR_OK);
        for (int64_t s = 0, begin = 0; s < n; s++) {
            int64_t its = 0;
            const zr__labelled_word *word = zr__labelled_words(labelled, numbers[s], &its);
            for (int64_t i = 0; i < its; i++, at++, words++) {
                assert_int_equal(x.words[at], begin + word[i].token);
                assert_int_equal(x.tags[at], word[i].tag);
                assert_int_equal(x.documents[x.words[at]], begin);
            }
            while (begin < 16 && x.tokens[begin] != SEP) begin++;
            begin++;
        }
        for (; at < 16; at++) assert_true(x.words[at] == 0 && x.tags[at] == -1);
    }
    assert_int_equal(words, 4 + 3 + 1);
    zr_labelled_close(&labelled);
}

/* Check that a share of the sentences is held out, and that both parts together have each sentence once. */
static void sentences_are_held_out(void **state)
{
    (void)state;
    enum { N = 40 };
    FILE *f = fopen(in_tempdir("many.tsv"), "w");
    int seen[N] = {0};
    assert_non_null(f);
    for (int i = 0; i < N; i++) { /* sentence i has i % 8 + 1 words "the", and the tag i / 8 of "river" */
        for (int w = 0; w <= i % 8; w++) fprintf(f, "the\tO\n");
        fprintf(f, "river\t%s\n\n", names[i / 8]);
    }
    fclose(f);
    for (int held_out = 0; held_out < 2; held_out++) {
        zr_labelled_args args = tags_args(in_tempdir("many.tsv"));
        args.part = (zr_data_part){.share = 0.25, .held_out = held_out};
        zr_labelled *labelled = open_labelled(&args);
        const zr_labelled_info info = zr_labelled_get_info(labelled);
        assert_int_equal(info.samples, held_out ? N / 4 : N - N / 4);
        for (int64_t i = 0; i < info.samples; i++) {
            tagged x;
            int64_t n = 0;
            const zr__labelled_word *word = zr__labelled_words(labelled, i, &n);
            seen[word[n - 1].tag * 8 + n - 2]++;
            read_tagged(labelled, i, &x);
            assert_true(x.tokens[n + 1] == SEP && x.tags[n - 1] == word[n - 1].tag && x.tags[n] == -1);
        }
        zr_labelled_close(&labelled);
    }
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
}

static void wrong_lines_are_refused_at_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"the O\n\nriver\n", "words.txt:3: \"river\" has no tag; write a word and its tag on each line"},
        {"the DT O\nriver O\n", "words.txt:2: the line of \"river\" has 2 columns, but line 1 has 3"},
        {"\nthe O\nriver NN B-LOC\n", "words.txt:3: the line of \"river\" has 3 columns, but line 2 has 2"},
        {"the O\nriver B-SEA\n",
         "words.txt:2: the tag B-SEA is none of the 5 labels of the model: O, B-PER, I-PER, B-LOC, I-LOC; correct"},
        {"the O\nriver B-SEA\n", "model.label_names"},
        {"the \xff\n", "words.txt:1: the tag in the last column is not UTF-8"},
        {"\n\n-DOCSTART- O\n", "there is no sentence with tags"},
        {"{\"tokens\": [\"a\"]}\n", "words.txt:1: expected a list of words and one of tags, as in {\"tokens\""},
        {"{\"tokens\": [\"a\"], \"tags\": [\"O\", \"O\"]}\n", "the number of words is 1, but that of tags is 2"},
        {"{\"tokens\": \"a\", \"tags\": [\"O\"]}\n", "words.txt:1: the tokens are not a list; expected {\"tokens\""},
        {"{\"tokens\": [3], \"tags\": [\"O\"]}\n", "word 1 is not a text"},
        {"{\"tokens\": [\"a\"], \"tags\": [\"O\"]}\n{\"tokens\": [\"a\", \"b\"], \"tags\": [0, 5]}\n",
         "words.txt:2: tag 2 is 5, which is none of the 5 labels"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const zr_labelled_args args = tags_args(write_file("words.txt", wrong[i].text));
        expect_refusal(&args, ZR_ERR_DATA, wrong[i].part);
    }
    zr_labelled_args args = tags_args(write_file("words.txt", columns));
    args.label_names = NULL;
    expect_refusal(&args, ZR_ERR_CONFIG, "the labels have no names, but tags have");
}

/* ---- names ------------------------------------------------------------------------------------- */

static void names_are_collected_and_sorted(void **state)
{
    (void)state;
    zr__label_names found = {0};
    assert_int_equal(zr__labelled_names(write_file("words.txt", columns), ZR_LABELLED_TAGS, false, &found), ZR_OK);
    assert_true(found.n == 4 && found.most == -1);
    for (int i = 0; i < 4; i++)
        assert_string_equal(found.name[i], ((const char *[]){"B-LOC", "B-PER", "I-PER", "O"})[i]);
    zr__label_names_free(&found);
    const char *labels =
        write_file("labels.jsonl", "{\"sentence\": \"a\", \"label\": \"pos\"}\n{\"label\": \"\xc3\xa4\"}\n"
                                   "{\"label\": \"neg\"}\n{\"label\": \"pos\"}\n{\"label\": 3}\n{}\n");
    assert_int_equal(zr__labelled_names(labels, ZR_LABELLED_CLASSES, false, &found), ZR_OK);
    assert_true(found.n == 3 && found.most == 3);
    for (int i = 0; i < 3; i++) assert_string_equal(found.name[i], ((const char *[]){"neg", "pos", "\xc3\xa4"})[i]);
    zr__label_names_free(&found);
    assert_int_equal(zr__labelled_names(in_tempdir("none"), ZR_LABELLED_TAGS, false, &found), ZR_ERR_NOT_FOUND);
    zr__label_names_free(&found);
}

/* ---- entities ----------------------------------------------------------------------------------- */

/* Tags of a sentence, and what seqeval 1.2.2 counts: entities in the right tags, in those found, and in both. */
static const struct {
    const char *right, *found;
    int64_t counts[3];
} entities[] = {
    {"O B-P I-P O", "O B-P I-P O", {1, 1, 1}},
    {"O B-P I-P O", "O B-P O O", {1, 1, 0}},
    {"B-P B-P", "B-P I-P", {2, 1, 0}},
    {"B-P I-L", "B-P B-L", {2, 2, 2}},     /* another type begins an entity */
    {"O I-P I-P", "O B-P I-P", {1, 1, 1}}, /* I after O begins one */
    {"I-P O I-P", "I-P I-P I-P", {2, 1, 0}},
    {"B-P I-P", "B-L I-L", {1, 1, 0}},
    {"S-P E-P", "B-P I-P", {2, 1, 0}}, /* S ends and begins */
    {"B-P I-P E-P O", "B-P I-P I-P O", {1, 1, 1}},
    {"B-P E-P I-P", "B-P E-P B-P", {2, 2, 2}},
    {"B I", "B-_ I-_", {1, 1, 1}}, /* without a type, it is _ */
    {"B-a-b I-a-b", "B-a-b I-a-c", {1, 2, 0}},
    {"PER PER O", "PER PER O", {1, 1, 1}}, /* the type of PER is ER */
    {"O O", "O O", {0, 0, 0}},
    {"", "", {0, 0, 0}},
    {"B-P O B-L I-L", "B-P O B-L O", {2, 2, 1}},
};

/* Divide tags into names, which are also the list of labels. Return their number. */
static int64_t divide(char *text, const char **name)
{
    int64_t n = 0;
    for (char *tag = strtok(text, " "); tag; tag = strtok(NULL, " ")) name[n++] = tag;
    return n;
}

static void entities_are_counted_as_by_seqeval(void **state)
{
    (void)state;
    zr__entities all = {0};
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        char right[64], found[64];
        const char *name[16];
        int32_t a[8], b[8];
        zr__entities e = {0};
        snprintf(right, sizeof(right), "%s", entities[i].right);
        snprintf(found, sizeof(found), "%s", entities[i].found);
        const int64_t n = divide(right, name), m = divide(found, name + n);
        assert_int_equal(n, m);
        for (int32_t k = 0; k < n; k++) a[k] = k, b[k] = (int32_t)n + k;
        zr__entities_add(&e, name, a, b, n);
        zr__entities_add(&all, name, a, b, n);
        const int64_t got[] = {e.right, e.found, e.both};
        for (int k = 0; k < 3; k++)
            if (got[k] != entities[i].counts[k])
                fail_msg("%s, count %d is %lld", entities[i].right, k, (long long)got[k]);
        assert_int_equal(e.words, n);
    }
    const zr__entities_scored scored = zr__entities_score(&all);
    assert_true(all.right == 20 && all.found == 18 && all.both == 10);
    assert_true(scored.precision == 10.0 / 18 && scored.recall == 10.0 / 20);
    assert_true(scored.f1 == 2 * (10.0 / 18) * (10.0 / 20) / (10.0 / 18 + 10.0 / 20));
    const zr__entities none = {0};
    assert_true(zr__entities_score(&none).f1 == 0);
    zr__entities words = {0};
    zr__entities_add(&words, names, (const int32_t[]){0, 1, 2}, (const int32_t[]){0, 1, 0}, 3);
    assert_true(words.words == 3 && words.words_right == 2);
}

/* ---- memory -------------------------------------------------------------------------------------- */

static zr_status open_and_read(void *arg)
{
    zr_labelled *labelled = NULL;
    const zr_status st = zr_labelled_open(arg, &labelled);
    tagged x;
    if (st == ZR_OK) read_tagged(labelled, 0, &x);
    zr_labelled_close(&labelled);
    return st;
}

static void memory_may_be_short(void **state)
{
    (void)state;
    zr_labelled_args args = tags_args(write_file("words.txt", columns));
    zr_tokenizer *tokenizer = NULL;
    const long before = alloc_made;
    assert_int_equal(zr_tokenizer_open(args.tokenizer, &tokenizer), ZR_OK);
    zr_tokenizer_close(&tokenizer);
    expect_each_allocation_fails(open_and_read, &args, alloc_made - before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_and_records_become_sentences),
        cmocka_unit_test(long_sentences_lose_their_end),
        cmocka_unit_test(wrong_lines_are_refused_at_their_place),
        cmocka_unit_test(sentences_are_held_out),
        cmocka_unit_test(names_are_collected_and_sorted),
        cmocka_unit_test(entities_are_counted_as_by_seqeval),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
