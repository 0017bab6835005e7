//TEST timeout=30
/* Randomly damaged token files: an accepted file gives the tokens it holds, all below vocab_size, and any other is
 * refused with the file's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/mutate_bytes.h"
#include "support/tempdir.h"
#include "zr/data.h"

enum { ROUNDS = 1500, ROOM = 4096, SEQ = 7, TOKENS = 100, HEADER = 1024 };

typedef struct sample {
    const char *name;
    int64_t vocab_size;
    size_t first_byte, token_bytes, n;
    uint8_t bytes[ROOM];
} sample;

static void put_word(sample *s, size_t at, uint32_t word)
{
    for (size_t b = 0; b < 4; b++) s->bytes[at + b] = (uint8_t)(word >> 8 * b);
}

static sample make(const char *name, uint32_t magic, uint32_t version, size_t token_bytes, int64_t vocab_size)
{
    sample s = {.name = name, .vocab_size = vocab_size, .token_bytes = token_bytes, .first_byte = magic ? HEADER : 0};
    if (magic) {
        put_word(&s, 0, magic);
        put_word(&s, 4, version);
        put_word(&s, 8, TOKENS);
    }
    s.n = s.first_byte;
    for (uint32_t i = 0; i < TOKENS; i++)
        for (size_t b = 0; b < token_bytes; b++) s.bytes[s.n++] = (uint8_t)((i * 37u) % 200u >> 8 * b);
    return s;
}

static uint32_t token_at(const zr_data_info *info, const uint8_t *bytes, int64_t i)
{
    bool header = strncmp(info->format, "llm.c", 5) == 0;
    size_t width = strcmp(info->format, "text") == 0 ? 1 : strstr(info->format, "uint32") ? 4 : 2;
    const uint8_t *at = bytes + (header ? HEADER : 0) + (size_t)i * width;
    uint32_t token = 0;
    for (size_t b = width; b > 0; b--) token = token << 8 | at[b - 1];
    return token;
}

/* Check that every window is read, or refused at the first token outside the vocabulary. */
static void check_windows(zr_data *data, const uint8_t *bytes, int64_t vocab_size)
{
    zr_data_info info = zr_data_get_info(data);
    int32_t tokens[SEQ], targets[SEQ];
    for (int64_t w = 0; w < info.windows; w++) {
        zr_status st = zr_data_window(data, w, tokens, targets);
        bool fits = true;
        for (int64_t i = 0; i <= SEQ; i++) fits = fits && token_at(&info, bytes, w * SEQ + i) < vocab_size;
        assert_int_equal(st, fits ? ZR_OK : ZR_ERR_DATA);
        for (int64_t i = 0; st == ZR_OK && i < SEQ; i++) {
            assert_int_equal(tokens[i], token_at(&info, bytes, w * SEQ + i));
            assert_int_equal(targets[i], token_at(&info, bytes, w * SEQ + i + 1));
        }
    }
}

static int replay(const sample *s, const uint8_t *bytes, size_t n)
{
    zr_data *data = NULL;
    zr_status st = zr_data_open(put_file(s->name, bytes, n), NULL, s->vocab_size, SEQ, ZR_SHUFFLED, 1, &data);
    if (st == ZR_OK) {
        check_windows(data, bytes, s->vocab_size);
        zr_data_close(&data);
        return 1;
    }
    assert_null(data);
    if (st != ZR_ERR_DATA || !strstr(zr_error_message(), s->name)) fail_msg("%d: %s", st, zr_error_message());
    return 0;
}

static void damaged_token_files(void **state)
{
    (void)state;
    const sample samples[] = {make("a.bin", 20240520, 1, 2, 200), make("b.bin", 20240801, 7, 4, 200),
                              make("c.bin", 0, 0, 2, 200), make("d.txt", 0, 0, 1, 256)};
    uint8_t bytes[ROOM];
    for (uint32_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        mutator m = mutator_make(i);
        assert_int_equal(replay(&samples[i], samples[i].bytes, samples[i].n), 1);
        int opened = 0;
        for (int round = 0; round < ROUNDS; round++) {
            memcpy(bytes, samples[i].bytes, samples[i].n);
            opened += replay(&samples[i], bytes, mutate_bytes(&m, bytes, samples[i].n, ROOM));
        }
        assert_in_range(opened, 1, ROUNDS); /* 0: damage never got past the header */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_token_files)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
