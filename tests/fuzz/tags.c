/** Fuzz target: arbitrary bytes as sentences whose words have tags. Sentences that are accepted have ascending words
 * inside them, each with a label, and the names that are collected from the bytes are those that are needed to read
 * them.
 */
#include "data/labelled/labelled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { T = 9, VOCAB = 15 };

static char folder[] = "/tmp/zr-fuzz-XXXXXX";
static char path[3][64]; /* tokenizer_config.json, vocab.txt and the sentences */

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static void remove_files(void)
{
    for (int i = 0; i < 3; i++) unlink(path[i]);
    rmdir(folder);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) abort();
}

/* Write a tokenizer of few words and letters. */
static void make_tokenizer(void)
{
    static const char *const name[3] = {"tokenizer_config.json", "vocab.txt", "words.txt"};
    static const char config[] = "{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": true}",
                      vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nriver\nold\nbridge\nis\n?\na\n##b\n##s\n,\n";
    if (!mkdtemp(folder)) abort();
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof(path[i]), "%s/%s", folder, name[i]);
    write_file(path[0], config, sizeof(config) - 1);
    write_file(path[1], vocab, sizeof(vocab) - 1);
    if (atexit(remove_files)) abort();
}

static void check_rows(zr_labelled *labelled, int64_t labels)
{
    int32_t tokens[T], documents[T], words[T], tags[T];
    const zr_labelled_row out = {.tokens = tokens, .documents = documents, .words = words, .tags = tags};
    for (int64_t row = 0; row < zr_labelled_get_info(labelled).rows; row++) {
        int32_t length = 0;
        hold(zr_labelled_read(labelled, row, &out) == ZR_OK, "a row is read");
        while (length < T && documents[length] == 0) length++;
        for (int i = 0; i < T && tags[i] >= 0; i++) {
            hold(tags[i] < labels, "a tag is a label");
            hold(words[i] > (i ? words[i - 1] : 0) && words[i] < length - 1, "words are inside and ascend");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zr__label_names names = {0};
    zr_labelled *labelled = NULL;
    if (!path[0][0]) make_tokenizer();
    write_file(path[2], bytes, n);
    const zr_status found = zr__labelled_names(path[2], ZR_LABELLED_TAGS, false, &names);
    hold(found == ZR_OK || found == ZR_ERR_DATA, "names are found, or the data are wrong");
    if (found == ZR_OK && names.n > 0) {
        const zr_labelled_args args = {.path = path[2],
                                       .kind = ZR_LABELLED_TAGS,
                                       .vocab_size = VOCAB,
                                       .seq_length = T,
                                       .samples = 1,
                                       .tokenizer = folder,
                                       .labels = names.n,
                                       .label_names = names.name};
        const zr_status st = zr_labelled_open(&args, &labelled);
        hold(st == ZR_OK || st == ZR_ERR_DATA, "sentences are read, or wrong");
        if (st == ZR_OK) check_rows(labelled, names.n);
        zr_labelled_close(&labelled);
    }
    zr__label_names_free(&names);
    return 0;
}
