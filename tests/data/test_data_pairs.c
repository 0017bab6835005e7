//TEST timeout=60
//LINK -Wl,--wrap=zr_alloc,--wrap=zr_free
/* Sentence pairs of texts: BERT's recipe, its statistics, packing, order and epochs. Each token of the corpus is
 * another word, so a token of a row tells its place in the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "support/allocations.h"
#include "support/tempdir.h"
#include "zr/data.h"
#include "data/pairs/groups.h"
#include "data/pairs/pairs.h"
#include "data/pairs/recipe.h"

enum {
    PAD,
    UNK,
    CLS,
    SEP,
    MASK,
    ENDING,
    WORDS, /* ENDING is a token that continues a word. Words have the ids from WORDS on. */
    DOCUMENTS = 60,
    SENTENCES = 900,
    TOKENS = 8000,
    VOCAB = WORDS + TOKENS,
    T = 64,
    P = 10,
    MOST_S = 8,
};

static int most_predictions = P; /* maximum number of predictions of the rows that are read */
static int sentence_of[VOCAB], document_of_sentence[SENTENCES], sentences, tokens, documents;

/* Return a number from 0 to n - 1 that follows from a counter. */
static int draw(int n)
{
    static uint64_t counter;
    const zr_rng rng = {.seed = 9, .purpose = ZR_RNG_SAMPLE};
    return (int)(zr_rng_u32(&rng, counter++) % (uint32_t)n);
}

static void write_tokenizer(void)
{
    FILE *f = fopen(in_tempdir("tokenizer.json"), "w");
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    assert_non_null(f);
    fprintf(f, "{\"added_tokens\":[");
    for (int i = 0; i < 5; i++)
        fprintf(f, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", i, special[i]);
    fprintf(f,
            "],\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
            "\"strip_accents\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
            "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]},"
            "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"WordPiece\","
            "\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,"
            "\"vocab\":{");
    for (int i = 0; i < 5; i++) fprintf(f, "\"%s\":%d,", special[i], i);
    fprintf(f, "\"##x\":%d", ENDING);
    for (int i = WORDS; i < VOCAB; i++) fprintf(f, ",\"w%d\":%d", i, i);
    fprintf(f, "}}}\n");
    fclose(f);
}

/* Write documents of 1 to 30 sentences of 1 to 16 words. Between documents are one or two blank lines. With `endings`
 * some words have a second token. */
static void write_corpus(const char *name, bool endings)
{
    FILE *f = fopen(in_tempdir(name), "w");
    int token = WORDS;
    assert_non_null(f);
    sentences = documents = 0;
    while (documents < DOCUMENTS) {
        const int n = 1 + draw(30);
        for (int s = 0; s < n && sentences < SENTENCES && token < VOCAB - 16; s++) {
            const int words = 1 + draw(16);
            for (int w = 0; w < words; w++) {
                sentence_of[token] = sentences;
                fprintf(f, "%sw%d%s", w ? " " : "", token++, endings && draw(3) == 0 ? "xx" + draw(2) : "");
            }
            document_of_sentence[sentences++] = documents;
            fprintf(f, "\n");
        }
        fprintf(f, "%s", draw(2) ? "\n" : " \t\n\n");
        documents++;
    }
    tokens = token - WORDS;
    fclose(f);
}

static zr_pairs_args args_for(const char *name)
{
    return (zr_pairs_args){.path = in_tempdir(name),
                           .tokenizer = in_tempdir("tokenizer.json"),
                           .vocab_size = VOCAB,
                           .seq_length = T,
                           .predictions = P,
                           .samples = 1,
                           .seed = 3,
                           .short_seq_prob = 0.1,
                           .cache_dir = in_tempdir("cache")};
}

static zr_pairs *open_pairs(const zr_pairs_args *args)
{
    zr_pairs *pairs = NULL;
    if (zr_pairs_open(args, &pairs) != ZR_OK) fail_msg("%s", zr_error_message());
    return pairs;
}

typedef struct room {
    int32_t tokens[T], segments[T], documents[T], masked[P], targets[P], first[MOST_S], next[MOST_S];
} room;

static void read_row(zr_pairs *pairs, int64_t row, room *x)
{
    memset(x, 0, sizeof(*x));
    for (int i = 0; i < P; i++) x->targets[i] = -1; /* a row may have room for fewer */
    const zr_pairs_row out = {x->tokens, x->segments, x->documents, x->masked, x->targets, x->first, x->next};
    if (zr_pairs_read(pairs, row, &out) != ZR_OK) fail_msg("%s", zr_error_message());
}

/* ---- one sample ------------------------------------------------------------------------------ */

/* A sample, taken out of its row. */
typedef struct sample {
    int32_t token[T], original[T], next, length, predicted;
    bool chosen[T];
} sample;

/* Read sample number s of a row with room for `most` samples. Return false if the row has no such sample. */
static bool take_sample(const room *x, int s, int most, sample *out)
{
    memset(out, 0, sizeof(*out));
    if (s >= most || x->next[s] < 0) return false;
    const int32_t from = x->first[s];
    out->next = x->next[s];
    while (from + out->length < T && x->documents[from + out->length] == from) {
        out->token[out->length] = out->original[out->length] = x->tokens[from + out->length];
        out->length++;
    }
    for (int i = 0; i < P && x->targets[i] >= 0; i++) {
        const int at = x->masked[i] - from;
        if (at < 0 || at >= out->length) continue;
        out->chosen[at] = true;
        out->original[at] = x->targets[i];
        out->predicted++;
    }
    return true;
}

/* Numbers of all samples of an object. */
typedef struct counts {
    int64_t samples, random, predicted, masked, kept, other, tokens, full;
    int seen[VOCAB];
} counts;

/* Check the form of a sample, and count. */
static void check_sample(const sample *s, counts *c)
{
    int separator = 1, wanted = (int)rint(0.15 * s->length);
    while (separator < s->length && s->original[separator] != SEP) separator++;
    assert_int_equal(s->original[0], CLS);
    assert_int_equal(s->original[s->length - 1], SEP);
    assert_in_range(separator, 2, s->length - 3);
    for (int i = 1; i < s->length - 1; i++) {
        if (i == separator) continue;
        assert_in_range(s->original[i], WORDS, VOCAB - 1);
        if (i != 1 && i != separator + 1) assert_int_equal(s->original[i], s->original[i - 1] + 1);
        if (i < separator || s->next == 0) c->seen[s->original[i]]++;
    }
    const int a = s->original[separator - 1], b = s->original[separator + 1];
    const bool same = document_of_sentence[sentence_of[a]] == document_of_sentence[sentence_of[b]];
    assert_int_equal(s->next, !same);
    if (same) assert_true(b > a && sentence_of[b] > sentence_of[a]);
    assert_false(s->chosen[0] || s->chosen[separator] || s->chosen[s->length - 1]);
    wanted = wanted < 1 ? 1 : wanted > P ? P : wanted;
    assert_int_equal(s->predicted, wanted);
    for (int i = 0; i < s->length; i++) {
        if (!s->chosen[i]) assert_int_equal(s->token[i], s->original[i]);
        c->masked += s->chosen[i] && s->token[i] == MASK;
        c->kept += s->chosen[i] && s->token[i] == s->original[i];
        c->other += s->chosen[i] && s->token[i] != MASK && s->token[i] != s->original[i];
    }
    c->samples++;
    c->random += s->next;
    c->predicted += s->predicted;
    c->tokens += s->length;
    c->full += s->length == T;
}

/* Check that the parts of a row fit together. */
static void check_row(const room *x, int most)
{
    int64_t predicted = 0;
    for (int i = 0; i < P; i++) {
        predicted += x->targets[i] >= 0;
        if (i > 0 && x->targets[i] >= 0) assert_true(x->targets[i - 1] >= 0 && x->masked[i] > x->masked[i - 1]);
        if (x->targets[i] < 0) assert_true(x->targets[i] == -1 && x->masked[i] == 0);
    }
    assert_true(predicted <= most_predictions);
    for (int s = 0; s < most; s++) {
        if (x->next[s] >= 0) assert_int_equal(x->tokens[x->first[s]], CLS);
        if (x->next[s] < 0) assert_true(x->next[s] == -1 && x->first[s] == 0);
    }
    for (int t = 0; t < T; t++) {
        assert_true(x->documents[t] == t || (t > 0 && x->documents[t] == x->documents[t - 1]));
        const bool padding = x->tokens[x->documents[t]] == PAD;
        if (padding) assert_true(x->tokens[t] == PAD && x->segments[t] == 0 && (t == T - 1 || x->tokens[t + 1] == PAD));
    }
}

static void count_all(zr_pairs *pairs, int64_t from, int64_t rows, counts *c)
{
    memset(c, 0, sizeof(*c));
    for (int64_t row = from; row < from + rows; row++) {
        room x;
        sample s;
        read_row(pairs, row, &x);
        check_row(&x, 1);
        assert_true(take_sample(&x, 0, 1, &s));
        for (int i = 0; i < s.length; i++)
            assert_true(x.segments[i] == (i > 0 && x.segments[i - 1]) || s.original[i - 1] == SEP);
        check_sample(&s, c);
    }
}

/* ---- the recipe ------------------------------------------------------------------------------ */

static void the_recipe_is_berts(void **state)
{
    (void)state;
    const zr_pairs_args args = args_for("corpus.txt");
    zr_pairs *pairs = open_pairs(&args);
    const zr_pairs_info info = zr_pairs_get_info(pairs);
    counts c;
    int64_t covered = 0;
    assert_int_equal(info.documents, documents);
    assert_int_equal(info.sentences, sentences);
    assert_int_equal(info.tokens, tokens);
    assert_string_equal(info.format, "text");
    count_all(pairs, 0, info.rows, &c);
    assert_int_equal(c.samples, info.samples);
    assert_true(fabs(info.filled - (double)c.tokens / ((double)info.rows * T)) < 1e-12);
    /* Each token occurs at most once in an A or in a B that follows its A. Few tokens are cut off. */
    for (int i = WORDS; i < WORDS + tokens; i++) {
        assert_in_range(c.seen[i], 0, 1);
        covered += c.seen[i];
    }
    assert_true(covered > tokens * 8 / 10);
    const double n = (double)c.predicted;
    assert_true(fabs((double)c.random / (double)c.samples - 0.5) < 0.12); /* some samples have one sentence */
    assert_true(fabs((double)c.masked / n - 0.8) < 0.05);
    assert_true(fabs((double)c.kept / n - 0.1) < 0.04);
    assert_true(fabs((double)c.other / n - 0.1) < 0.04);
    assert_true(c.full > c.samples / 3);
    zr_pairs_close(&pairs);
}

/* Check that with short_seq_prob 1 the target length of a document is from 2 to T - 3, each equally likely. */
static void short_samples_are_drawn(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("corpus.txt");
    counts c, short_c;
    args.short_seq_prob = 0;
    zr_pairs *pairs = open_pairs(&args);
    count_all(pairs, 0, zr_pairs_get_info(pairs).rows, &c);
    zr_pairs_close(&pairs);
    args.short_seq_prob = 1;
    pairs = open_pairs(&args);
    count_all(pairs, 0, zr_pairs_get_info(pairs).rows, &short_c);
    zr_pairs_close(&pairs);
    const double usual = (double)c.tokens / (double)c.samples,
                 shorter = (double)short_c.tokens / (double)short_c.samples;
    assert_true(shorter < 0.75 * usual);
}

/* Check that A and B lose as many tokens as in a loop that removes one token at a time from the longer part. */
static void pairs_are_shortened_like_a_loop(void **state)
{
    (void)state;
    for (int length = 5; length < 24; length++) {
        const zr__recipe recipe = {.seq_length = length, .predictions = 3, .masked = 0.15};
        for (int a = 1; a < 40; a++) {
            for (int b = 1; b < 40; b++) {
                const zr__sample s = {.a_n = a, .b_n = b};
                int64_t left_a = a, left_b = b, got_a = 0, got_b = 0;
                while (left_a + left_b > length - 3) {
                    if (left_a > left_b)
                        left_a--;
                    else
                        left_b--;
                }
                zr__recipe_parts(&recipe, &s, &got_a, &got_b);
                assert_int_equal(got_a, left_a);
                assert_int_equal(got_b, left_b);
                const int64_t wanted = a + b + 3 < length ? a + b + 3 : length;
                assert_int_equal(zr__recipe_length(&recipe, &s), wanted);
            }
        }
    }
}

static void whole_words_are_masked_together(void **state)
{
    (void)state;
    write_corpus("words.txt", true);
    zr_pairs_args args = args_for("words.txt");
    args.whole_words = true;
    zr_pairs *pairs = open_pairs(&args);
    int64_t together = 0, all = 0;
    for (int64_t row = 0; row < zr_pairs_get_info(pairs).rows; row++) {
        room x;
        sample s;
        read_row(pairs, row, &x);
        check_row(&x, 1);
        assert_true(take_sample(&x, 0, 1, &s));
        assert_true(s.predicted <= (rint(0.15 * s.length) < 1 ? 1 : rint(0.15 * s.length)));
        for (int i = 2; i < s.length; i++) {
            if (s.original[i] != ENDING || s.original[i - 1] == SEP) continue;
            assert_int_equal(s.chosen[i], s.chosen[i - 1]);
            together += s.chosen[i];
        }
        all += s.predicted;
    }
    assert_true(together > all / 10);
    zr_pairs_close(&pairs);
    write_corpus("corpus.txt", false);
}

/* ---- order ----------------------------------------------------------------------------------- */

static int compare_samples(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(sample));
}

/* Read all samples of rows [from, from + rows), sorted. */
static sample *all_samples(zr_pairs *pairs, int64_t from, int64_t rows, int most, int64_t *n)
{
    sample *all = calloc((size_t)rows * (size_t)most, sizeof(*all));
    assert_non_null(all);
    *n = 0;
    for (int64_t row = from; row < from + rows; row++) {
        room x;
        read_row(pairs, row, &x);
        check_row(&x, most);
        for (int s = 0; s < most && take_sample(&x, s, most, &all[*n]); s++) ++*n;
    }
    qsort(all, (size_t)*n, sizeof(*all), compare_samples);
    return all;
}

static void rows_depend_on_their_number_alone(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("corpus.txt");
    args.order = ZR_SHUFFLED;
    zr_pairs *one = open_pairs(&args), *two = open_pairs(&args);
    const int64_t rows = zr_pairs_get_info(one).rows;
    int differ = 0;
    args.seed++;
    zr_pairs *other = open_pairs(&args);
    for (int64_t i = 0; i < 3 * rows; i++) {
        const int64_t row = i * 101 % (3 * rows); /* back and forth through three epochs and more */
        room x, y;
        if (i % 7 != 0) continue;
        read_row(one, row, &x);
        for (int64_t before = row; before < row + 3; before++) read_row(two, before, &y);
        read_row(two, row, &y);
        assert_memory_equal(&x, &y, sizeof(x));
        read_row(other, row, &y);
        differ += memcmp(&x, &y, sizeof(x)) != 0;
    }
    assert_true(differ > 3 * rows / 7 - 3);
    zr_pairs_close(&one);
    zr_pairs_close(&two);
    zr_pairs_close(&other);
}

static void each_epoch_is_made_anew(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("corpus.txt");
    zr_pairs *in_order = open_pairs(&args);
    args.order = ZR_SHUFFLED;
    zr_pairs *shuffled = open_pairs(&args);
    const int64_t rows = zr_pairs_get_info(in_order).rows;
    int64_t n[3];
    counts c;
    sample *sequential = all_samples(in_order, 0, rows, 1, &n[0]);
    sample *again = all_samples(in_order, rows, rows, 1, &n[1]);
    sample *first = all_samples(shuffled, 0, rows, 1, &n[2]);
    assert_memory_equal(sequential, again, (size_t)n[0] * sizeof(*again));
    assert_memory_equal(sequential, first, (size_t)n[0] * sizeof(*first));
    room x, y;
    int moved = 0, common = 0;
    for (int64_t row = 0; row < rows; row++) {
        read_row(in_order, row, &x);
        read_row(shuffled, row, &y);
        moved += memcmp(&x, &y, sizeof(x)) != 0;
    }
    assert_true(moved > rows - 5);
    count_all(shuffled, rows, rows / 2, &c);
    for (int64_t row = rows; row < rows + rows / 2; row++) {
        sample s;
        read_row(shuffled, row, &x);
        take_sample(&x, 0, 1, &s);
        common += bsearch(&s, first, (size_t)n[2], sizeof(s), compare_samples) != NULL;
    }
    assert_true(common < rows / 20);
    free(sequential);
    free(again);
    free(first);
    zr_pairs_close(&in_order);
    zr_pairs_close(&shuffled);
}

/* ---- packing --------------------------------------------------------------------------------- */

static void packed_rows_hold_the_same_samples(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("corpus.txt");
    args.short_seq_prob = 0.9;
    args.predictions = most_predictions = 4;
    zr_pairs *plain = open_pairs(&args);
    int64_t n = 0, m = 0;
    sample *alone = all_samples(plain, 0, zr_pairs_get_info(plain).rows, 1, &n);
    for (int most = 2; most <= MOST_S; most += 3) {
        args.samples = most;
        zr_pairs *packed = open_pairs(&args);
        const zr_pairs_info info = zr_pairs_get_info(packed);
        sample *together = all_samples(packed, 0, info.rows, most, &m);
        assert_int_equal(m, n);
        assert_int_equal(info.samples, n);
        assert_memory_equal(alone, together, (size_t)n * sizeof(*alone));
        assert_true(info.rows < n);
        assert_true(info.filled > zr_pairs_get_info(plain).filled);
        free(together);
        zr_pairs_close(&packed);
    }
    most_predictions = P;
    free(alone);
    zr_pairs_close(&plain);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

/* Check that a text in two files gives the same documents, since the end of a file ends a document. */
static void files_end_documents(void **state)
{
    (void)state;
    put_text("a.txt", "w10 w11\nw12\n\n\nw13");
    put_text("b.txt", "\nw14 w15\n\x01\nw16\n");
    zr_pairs_args args = args_for("a.txt");
    char list[512];
    snprintf(list, sizeof(list), "[\"%s\", \"%s\"]", in_tempdir("a.txt"), in_tempdir("b.txt"));
    args.path = list;
    zr_pairs *pairs = open_pairs(&args);
    const zr_pairs_info info = zr_pairs_get_info(pairs);
    uint64_t hash = 0, other = 0;
    assert_int_equal(info.files, 2);
    assert_int_equal(info.documents, 4);
    assert_int_equal(info.sentences, 5);
    assert_int_equal(info.tokens, 7);
    assert_string_equal(info.path, list);
    assert_int_equal(zr__pairs_check(pairs, &hash, NULL, NULL), ZR_OK);
    zr_pairs_close(&pairs);
    put_text("b.txt", "\nw14 w15\n\x01\nw17\n");
    pairs = open_pairs(&args);
    assert_int_equal(zr__pairs_check(pairs, &other, NULL, NULL), ZR_OK);
    assert_true(hash != other);
    zr_pairs_close(&pairs);
}

/* Check that a sentence may be longer than a row, and longer than the type of stored lengths allows. */
static void long_sentences_are_shortened(void **state)
{
    (void)state;
    enum { LONG = 70000 };
    char *text = malloc(8 * LONG);
    size_t n = 0;
    room x;
    assert_non_null(text);
    for (int i = 0; i < LONG; i++) n += (size_t)sprintf(text + n, "w%d ", WORDS + i % 3000);
    n += (size_t)sprintf(text + n, "\nw9\n\nw8\nw9\n");
    put_file("long.txt", text, n);
    const zr_pairs_args args = args_for("long.txt");
    zr_pairs *pairs = open_pairs(&args);
    assert_int_equal(zr_pairs_get_info(pairs).sentences, 5);
    assert_int_equal(zr_pairs_get_info(pairs).tokens, LONG + 3);
    for (int64_t row = 0; row < zr_pairs_get_info(pairs).rows; row++) {
        read_row(pairs, row, &x);
        check_row(&x, 1);
    }
    zr_pairs_close(&pairs);
    free(text);
}

static void expect_refusal(const zr_pairs_args *args, zr_status status, const char *wanted)
{
    zr_pairs *pairs = NULL;
    const zr_status st = zr_pairs_open(args, &pairs);
    if (st != status || pairs || !strstr(zr_error_message(), wanted))
        fail_msg("status %d, message: %s; wanted %d and \"%s\"", st, zr_error_message(), status, wanted);
}

static void wrong_texts_are_refused(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("one.txt");
    char list[512];
    put_text("one.txt", "w9\nw10\n");
    expect_refusal(&args, ZR_ERR_DATA, "1 document; at least 2 are needed");
    put_text("one.txt", "\n \n");
    expect_refusal(&args, ZR_ERR_DATA, "0 documents; at least 2 are needed");
    args = args_for("corpus.txt");
    args.vocab_size = VOCAB - 1;
    expect_refusal(&args, ZR_ERR_CONFIG, "vocab_size");
    args = args_for("corpus.txt");
    args.tokenizer = NULL;
    expect_refusal(&args, ZR_ERR_CONFIG, "give data.tokenizer");
    args.tokenizer = "bytes";
    expect_refusal(&args, ZR_ERR_CONFIG, "has no special token [CLS]");
    args = args_for("lines.jsonl");
    put_text("lines.jsonl", "{\"text\": \"w9\"}\n");
    expect_refusal(&args, ZR_ERR_UNSUPPORTED, "a sentence on each line and a blank line");
    snprintf(list, sizeof(list), "[{\"path\": \"%s\", \"weight\": 1}]", in_tempdir("corpus.txt"));
    args.path = list;
    expect_refusal(&args, ZR_ERR_UNSUPPORTED, "several sources with weights");
    args.path = "[\"text.txt\", \"rows.safetensors\"]";
    expect_refusal(&args, ZR_ERR_UNSUPPORTED, "text.txt is the first of 2 files");
    args.path = in_tempdir("none.txt");
    expect_refusal(&args, ZR_ERR_NOT_FOUND, "none.txt");
}

/* ---- groups and memory ----------------------------------------------------------------------------- */

/* Check that documents are divided into groups that are as short as possible but have the tokens of 64 rows. */
static void groups_have_the_tokens_of_64_rows(void **state)
{
    (void)state;
    enum { ROW = 16 };
    zr_pairs_args args = args_for("corpus.txt");
    args.seq_length = ROW;
    zr__shards files = {0};
    zr__corpus corpus = {0};
    zr__recipe recipe = {0};
    zr__groups groups = {0};
    assert_int_equal(zr__shards_find(args.path, &files), ZR_OK);
    assert_int_equal(zr__corpus_open(&args, &files, &corpus), ZR_OK);
    assert_int_equal(zr__recipe_open(&args, &corpus, &recipe), ZR_OK);
    assert_int_equal(zr__groups_open(&recipe, 1, &groups), ZR_OK);
    assert_in_range(groups.n, 4, corpus.tokens->total / (64 * ROW));
    assert_true(groups.first[0] == 0 && groups.first[groups.n] == corpus.documents);
    for (int64_t g = 0; g + 1 < groups.n; g++) {
        const zr__corpus_document *begin = &corpus.document[groups.first[g]],
                                  *end = &corpus.document[groups.first[g + 1]];
        assert_true(end->token - begin->token >= 64 * ROW && end[-1].token - begin->token < 64 * ROW);
    }
    const int64_t lists = (groups.n + 1 + groups.samples.n) * (int64_t)sizeof(int64_t);
    assert_in_range(zr__groups_bytes(&groups) - zr__rows_bytes(&groups.rows), lists, 1 << 20);
    const int64_t held = corpus.sentences * (int64_t)sizeof(*corpus.length) +
                         corpus.documents * (int64_t)sizeof(*corpus.document) + VOCAB;
    assert_in_range(zr__corpus_bytes(&corpus), held, 2 * held + 4096);
    zr__groups_close(&groups);
    zr__recipe_close(&recipe);
    zr__corpus_close(&corpus);
    zr__shards_free(&files);
}

static void facts_are_told(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("corpus.txt");
    zr_pairs *pairs = open_pairs(&args);
    const zr_pairs_info info = zr_pairs_get_info(pairs);
    assert_true(info.files == 1 && info.without_prediction == 0);
    assert_in_range(info.bytes, 2 * info.tokens, 5 * info.tokens);
    assert_string_equal(info.note, "");
    assert_string_equal(info.path, args.path);
    assert_true(info.samples == info.rows);
    assert_in_range(info.memory_bytes, VOCAB, 4 << 20);
    zr_pairs_close(&pairs);
    /* tokens are kept in the folder that is named, and nowhere else */
    args = args_for("corpus.txt");
    args.cache_dir = in_tempdir("other");
    assert_int_equal(access(args.cache_dir, F_OK), -1);
    pairs = open_pairs(&args);
    zr_pairs_close(&pairs);
    assert_int_equal(access(args.cache_dir, F_OK), 0);
}

static zr_status open_and_read(void *arg)
{
    zr_pairs *pairs = NULL;
    const zr_status st = zr_pairs_open(arg, &pairs);
    room x;
    if (st == ZR_OK) read_row(pairs, 0, &x);
    zr_pairs_close(&pairs);
    return st;
}

static void memory_may_be_short(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("few.txt");
    zr_tokenizer *tokenizer = NULL;
    put_text("few.txt", "w10 w11\nw12\n\nw13\nw14 w15\n");
    args.whole_words = true;
    const long before = alloc_made;
    assert_int_equal(zr_tokenizer_open(args.tokenizer, &tokenizer), ZR_OK);
    zr_tokenizer_close(&tokenizer);
    alloc_forgiven = "no memory to normalize 1"; /* whether <|endoftext|> or a newline is a token */
    expect_each_allocation_fails(open_and_read, &args, alloc_made - before);
}

#define REFUSE(field, value, part)                                                                                     \
    do {                                                                                                               \
        zr_pairs_args args = args_for("few.txt");                                                                      \
        args.field = value;                                                                                            \
        expect_refusal(&args, ZR_ERR_ARG, part);                                                                       \
    } while (0)

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    const int64_t many = (int64_t)INT32_MAX + 1;
    REFUSE(path, NULL, "no path of data was given");
    REFUSE(vocab_size, 0, "vocab_size is 0; it must be from 1 to 2147483647");
    REFUSE(vocab_size, many, "vocab_size is 2147483648");
    REFUSE(seq_length, 4, "seq_length is 4; it must be from 5 to 2147483646");
    REFUSE(seq_length, INT32_MAX, "seq_length is 2147483647");
    REFUSE(predictions, 0, "predictions is 0; it must be from 1 to seq_length 64");
    REFUSE(predictions, T + 1, "predictions is 65; it must be from 1 to seq_length 64");
    REFUSE(samples, 0, "samples is 0; it must be from 1 to seq_length 64");
    REFUSE(samples, T + 1, "samples is 65");
    REFUSE(order, (zr_data_order)2, "2 is not a valid order of samples");
    REFUSE(masked_lm_prob, -0.5, "masked_lm_prob is -0.5; it must be from 0 to 1");
    REFUSE(masked_lm_prob, 1.5, "masked_lm_prob is 1.5; it must be from 0 to 1");
    REFUSE(short_seq_prob, -0.5, "short_seq_prob is -0.5; it must be from 0 to 1");
    REFUSE(short_seq_prob, 1.5, "short_seq_prob is 1.5; it must be from 0 to 1");
    zr_pairs_args args = args_for("few.txt");
    args.vocab_size = INT32_MAX;
    args.seq_length = args.predictions = args.samples = 5;
    args.masked_lm_prob = args.short_seq_prob = 1;
    zr_pairs *pairs = open_pairs(&args);
    assert_int_equal(zr_pairs_read(pairs, -1, &(zr_pairs_row){NULL}), ZR_ERR_ARG);
    zr_pairs_close(&pairs);
    zr_pairs_close(&pairs);
}

static void all_memory_is_freed(void **state)
{
    (void)state;
    assert_int_equal(alloc_live, 0);
}

/* Check a single text: consecutive tokens of a document, masked as those of a pair. Count its tokens. */
static void check_single(const room *x, int *seen, int64_t *masked)
{
    int length = 0, predicted = 0;
    int32_t original[T];
    while (length < T && x->documents[length] == 0) length++;
    memcpy(original, x->tokens, sizeof(original));
    for (; predicted < P && x->targets[predicted] >= 0; predicted++) {
        assert_in_range(x->masked[predicted], 1, length - 2);
        original[x->masked[predicted]] = x->targets[predicted];
        *masked += x->tokens[x->masked[predicted]] == MASK;
    }
    const int wanted = (int)rint(0.15 * length);
    assert_int_equal(predicted, wanted < 1 ? 1 : wanted > P ? P : wanted);
    assert_true(original[0] == CLS && original[length - 1] == SEP);
    assert_true(x->first[0] == 0 && x->next[0] == -1);
    for (int i = 0; i < T; i++) assert_true(x->segments[i] == 0 && (i < length || x->tokens[i] == 0));
    for (int i = 1; i < length - 1; i++) {
        seen[original[i]]++;
        if (i == 1) continue;
        assert_int_equal(original[i], original[i - 1] + 1);
        assert_int_equal(document_of_sentence[sentence_of[original[i]]],
                         document_of_sentence[sentence_of[original[i - 1]]]);
    }
}

/* Check that single texts have each token of the corpus once, with full rows or shorter ones, and that the arrays of
 * pairs may be missing. */
static void single_texts_lose_no_token(void **state)
{
    (void)state;
    zr_pairs_args args = args_for("corpus.txt");
    args.single = true;
    args.order = ZR_SHUFFLED;
    for (int shorter = 0; shorter < 2; shorter++) {
        args.short_seq_prob = shorter ? 0.5 : 0;
        zr_pairs *pairs = open_pairs(&args);
        int seen[VOCAB] = {0};
        int64_t masked = 0, rows = zr_pairs_get_info(pairs).rows;
        for (int64_t row = 0; row < rows; row++) {
            room x, y;
            read_row(pairs, row, &x);
            check_single(&x, seen, &masked);
            const zr_pairs_row out = {.tokens = y.tokens,
                                      .segments = y.segments,
                                      .documents = y.documents,
                                      .masked = y.masked,
                                      .masked_targets = y.targets};
            assert_int_equal(zr_pairs_read(pairs, row, &out), ZR_OK);
            assert_memory_equal(x.tokens, y.tokens, sizeof(x.tokens));
        }
        for (int i = WORDS; i < WORDS + tokens; i++) assert_int_equal(seen[i], 1);
        assert_true(masked > rows);
        assert_true(shorter ? rows > 2 * (tokens / (T - 2)) : rows < tokens / (T - 2) + documents + 1);
        zr_pairs_close(&pairs);
    }
    /* one document is enough, but none is not */
    FILE *f = fopen(in_tempdir("one.txt"), "w");
    assert_non_null(f);
    fprintf(f, "w%d w%d w%d\n", WORDS, WORDS + 1, WORDS + 2);
    fclose(f);
    args.path = in_tempdir("one.txt");
    zr_pairs *pairs = open_pairs(&args);
    assert_int_equal(zr_pairs_get_info(pairs).rows, 1);
    zr_pairs_close(&pairs);
    f = fopen(in_tempdir("one.txt"), "w");
    assert_non_null(f);
    fprintf(f, "\n\n");
    fclose(f);
    assert_int_equal(zr_pairs_open(&args, &pairs), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "there is no text"));
}

static int make(void **state)
{
    if (tempdir_make(state)) return -1;
    write_tokenizer();
    write_corpus("corpus.txt", false);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recipe_is_berts),
        cmocka_unit_test(short_samples_are_drawn),
        cmocka_unit_test(pairs_are_shortened_like_a_loop),
        cmocka_unit_test(whole_words_are_masked_together),
        cmocka_unit_test(rows_depend_on_their_number_alone),
        cmocka_unit_test(each_epoch_is_made_anew),
        cmocka_unit_test(packed_rows_hold_the_same_samples),
        cmocka_unit_test(single_texts_lose_no_token),
        cmocka_unit_test(files_end_documents),
        cmocka_unit_test(long_sentences_are_shortened),
        cmocka_unit_test(wrong_texts_are_refused),
        cmocka_unit_test(groups_have_the_tokens_of_64_rows),
        cmocka_unit_test(facts_are_told),
        cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(all_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, make, tempdir_remove);
}
