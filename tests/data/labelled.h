/* The samples of tests/squad: questions about little texts, labelled texts, and a tokenizer. */
#ifndef ZR_TESTS_LABELLED_H
#define ZR_TESTS_LABELLED_H

#include "support/tempdir.h"
#include "zr/data.h"

enum { VOCAB = 155, CLS = 2, SEP = 3, MOST_T = 64, MOST_S = 8 };

/* Return the path of a file of tests/squad. */
static inline const char *in_squad(const char *name)
{
    static char path[4][PATH_MAX];
    static int next;
    const char *source = getenv("ZR_SOURCE");
    char *to = path[next++ % 4];
    snprintf(to, PATH_MAX, "%s/tests/squad/%s", source ? source : ".", name);
    return to;
}

static inline zr_labelled_args questions_args(const char *path)
{
    return (zr_labelled_args){.path = path,
                              .kind = ZR_LABELLED_ANSWERS,
                              .vocab_size = VOCAB,
                              .seq_length = 32,
                              .samples = 1,
                              .tokenizer = in_squad(""),
                              .doc_stride = 8,
                              .max_query_length = 12};
}

static inline zr_labelled *open_labelled(const zr_labelled_args *args)
{
    zr_labelled *labelled = NULL;
    if (zr_labelled_open(args, &labelled) != ZR_OK) fail_msg("%s", zr_error_message());
    return labelled;
}

/* Expect that data are refused with a message that contains `part`. */
static inline void expect_refusal(const zr_labelled_args *args, zr_status status, const char *part)
{
    zr_labelled *labelled = NULL;
    const zr_status st = zr_labelled_open(args, &labelled);
    if (st != status || !strstr(zr_error_message(), part))
        fail_msg("\"%s\" is expected: status %d, \"%s\"", part, (int)st, zr_error_message());
}

static inline const char *write_file(const char *name, const char *text)
{
    const char *path = in_tempdir(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

/* Memory of a row. */
typedef struct room {
    int32_t tokens[MOST_T], segments[MOST_T], documents[MOST_T], first[MOST_S], label[MOST_S], answer[2 * MOST_S];
} room;

static inline void read_row(zr_labelled *labelled, int64_t row, room *x)
{
    memset(x, 0, sizeof(*x));
    const zr_labelled_row out = {.tokens = x->tokens,
                                 .segments = x->segments,
                                 .documents = x->documents,
                                 .first = x->first,
                                 .label = x->label,
                                 .answer = x->answer};
    if (zr_labelled_read(labelled, row, &out) != ZR_OK) fail_msg("%s", zr_error_message());
}

#endif
