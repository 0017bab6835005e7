/** Fuzz target: arbitrary bytes as a tokenizer.json, and as the text after a vocabulary of all bytes, without which
 * almost no input would get past the vocabulary. An accepted tokenizer must decode a text's tokens to the same bytes,
 * unless it changes the text.
 */
#include "data/tokenizer/bpe_make.h"
#include "zr/data.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void hold(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static char input_path[] = "/tmp/zr-fuzz-XXXXXX";

static void remove_file(void)
{
    unlink(input_path);
}

static void write_file(const char *head, const uint8_t *bytes, size_t n)
{
    static int fd = -1;
    if (fd < 0) {
        fd = mkstemp(input_path);
        if (fd < 0 || atexit(remove_file)) abort();
    }
    size_t before = strlen(head);
    if (pwrite(fd, head, before, 0) != (ssize_t)before || pwrite(fd, bytes, n, (off_t)before) != (ssize_t)n) abort();
    if (ftruncate(fd, (off_t)(before + n))) abort();
}

static void check_together(const zr_tokenizer *t, const int32_t *tokens, int64_t n)
{
    char *text = NULL;
    int64_t bytes = -1;
    hold(zr_tokenizer_text(t, tokens, n, true, &text, &bytes) == ZR_OK && bytes >= 0, "tokens have a text");
    zr_free(text);
}

/* Return whether a tokenizer.json may change texts or leave out characters, by the words that it contains. */
static bool may_change(const uint8_t *bytes, size_t n)
{
    static const char *const words[] = {"normalizer", "strip",     "ByteFallback", "Removed", "prefix_space",
                                        "Whitespace", "Delimiter", "Bert",         "Scripts", "Metaspace"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (memmem(bytes, n, words[i], strlen(words[i]))) return true;
    return !memmem(bytes, n, "pre_tokenizer", strlen("pre_tokenizer")) ||
           !memmem(bytes, n, "ByteLevel", strlen("ByteLevel"));
}

static void check_round_trip(const zr_tokenizer *t, const char *text, int64_t bytes, bool changes)
{
    const int64_t room = zr_tokenizer_room(t, bytes);
    int32_t *tokens = malloc((size_t)room * sizeof(*tokens));
    int64_t n = 0, at = 0;
    if (!tokens) abort();
    hold(zr_tokenizer_encode(t, text, bytes, tokens, room, &n) == ZR_OK && n <= room, "a text has its tokens");
    check_together(t, tokens, n);
    for (int64_t i = 0; i < n && !changes; i++) {
        const char *piece = NULL;
        int64_t length = 0;
        hold(zr_tokenizer_decode(t, tokens[i], &piece, &length) == ZR_OK, "a token is in the vocabulary");
        hold(length <= bytes - at && memcmp(piece, text + at, (size_t)length) == 0, "tokens have the text's bytes");
        at += length;
    }
    hold(changes || at == bytes, "all of them");
    free(tokens);
}

static void open_file(bool changes)
{
    static const char text[] = "ab abab  c\n <end>12'll a\xff\xe3\x81\x82 \xc3";
    zr_tokenizer *t = NULL;
    zr_status st = zr_tokenizer_open(input_path, &t);
    hold(st == ZR_OK || st == ZR_ERR_DATA, "a refusal is of the file");
    hold((st == ZR_OK) == (t != NULL) && (t || zr_error_message()[0]), "a tokenizer, or why there is none");
    if (t) check_round_trip(t, text, sizeof(text) - 1, changes);
    zr_tokenizer_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static char head[8192];
    if (!head[0]) {
        char *vocab = bpe_vocab("\"ab\": 256, \"abab\": 257");
        vocab[strlen(vocab) - 1] = '\0';
        snprintf(head, sizeof(head), "{\"model\": {\"type\": \"BPE\", \"vocab\": %s", vocab);
        zr_free(vocab);
    }
    write_file("", bytes, n);
    open_file(true); /* its vocabulary may lack bytes */
    write_file(head, bytes, n);
    open_file(may_change(bytes, n));
    return 0;
}
