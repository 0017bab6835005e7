/** Fuzz target: arbitrary bytes as a file of SQuAD. Questions that are accepted have samples whose answers are inside
 * them, and the same samples whether or not questions with lost answers are kept.
 */
#include "data/labelled/questions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { T = 24, VOCAB = 15 };

static char folder[] = "/tmp/zr-fuzz-XXXXXX";
static char path[3][64]; /* tokenizer_config.json, vocab.txt and the questions */
static zr_tokenizer *tokenizer;

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void remove_files(void)
{
    zr_tokenizer_close(&tokenizer);
    for (int i = 0; i < 3; i++) unlink(path[i]);
    rmdir(folder);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) abort();
}

/* Open a tokenizer of few words and letters. */
static void make_tokenizer(void)
{
    static const char *const name[3] = {"tokenizer_config.json", "vocab.txt", "squad.json"};
    static const char config[] = "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": true}",
                      vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nriver\nold\nbridge\nis\n?\na\n##b\n##s\n,\n";
    if (!mkdtemp(folder)) abort();
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof(path[i]), "%s/%s", folder, name[i]);
    write_file(path[0], config, sizeof(config) - 1);
    write_file(path[1], vocab, sizeof(vocab) - 1);
    if (zr_tokenizer_open(folder, &tokenizer) != ZR_OK || atexit(remove_files)) abort();
}

/* The questions of a file, and whether they are accepted. */
typedef struct result {
    zr__labelled_list list;
    zr__questions questions;
    bool accepted;
} result;

static void read_questions(bool every, result *r)
{
    const zr_labelled_args args = {.seq_length = T, .doc_stride = 5, .max_query_length = 8, .every_question = every};
    if (zr__labelled_list_open(tokenizer, &r->list) != ZR_OK) abort();
    hold(zr__questions_open(&args, &r->list, &r->questions) == ZR_OK, "options are accepted");
    const zr_status st = zr__questions_read(&r->questions, path[2]);
    hold(st == ZR_OK || (st == ZR_ERR_DATA && strstr(zr_error_message(), path[2])), "a refusal names the file");
    r->accepted = st == ZR_OK;
}

static void free_questions(result *r)
{
    zr__questions_free(&r->questions);
    zr__labelled_list_free(&r->list);
}

/* Check that a sample fits into a row, and that its answer is [CLS] or in its text. */
static void check_sample(const zr__labelled_list *list, const zr__labelled_sample *s)
{
    hold(s->a >= 0 && s->a_n >= 0 && s->a + s->a_n <= list->tokens, "a sample has a question");
    hold(s->b >= 0 && s->b_n > 0 && s->b + s->b_n <= list->tokens, "a sample has a text");
    hold(zr__labelled_length(s) <= T, "a sample fits into a row");
    hold((s->begin < 0) == (s->end < 0) && s->begin <= s->end, "an answer has a first and a last token");
    const int64_t text = zr__labelled_second(s);
    hold(s->begin > 0 ? s->begin >= text && s->end < text + s->b_n : s->end == s->begin, "an answer is in the text");
}

/* Check the samples of all questions, and their numbers. */
static void check_all(const result *r)
{
    int64_t samples = 0;
    for (int64_t i = 0; i < r->questions.n; i++) {
        hold(r->questions.question[i].sample == samples, "questions have their samples in order");
        samples += r->questions.question[i].samples;
    }
    hold(samples == r->list.samples, "each sample belongs to a question");
    for (int64_t i = 0; i < samples; i++) check_sample(&r->list, &r->list.sample[i]);
}

/* Return whether the samples with an answer are those of `some`, in the same order. */
static bool have_samples(const result *every, const result *some)
{
    int64_t k = 0;
    for (int64_t i = 0; i < every->list.samples; i++) {
        const zr__labelled_sample *a = &every->list.sample[i], *b = &some->list.sample[k];
        if (a->begin < 0) continue;
        if (k == some->list.samples || a->a_n != b->a_n || a->b_n != b->b_n || a->begin != b->begin || a->end != b->end)
            return false;
        k++;
    }
    return k == some->list.samples;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    result every, some;
    if (!tokenizer) make_tokenizer();
    write_file(path[2], bytes, n);
    read_questions(true, &every);
    read_questions(false, &some);
    hold(every.accepted == some.accepted, "a file is accepted or it is not");
    if (every.accepted) {
        check_all(&every);
        check_all(&some);
        hold(every.questions.lost == some.questions.lost, "the same answers are lost");
        hold(every.questions.n == some.questions.n + some.questions.lost, "and only those are left out");
        hold(have_samples(&every, &some), "the other questions have the same samples");
    }
    free_questions(&every);
    free_questions(&some);
    return 0;
}
