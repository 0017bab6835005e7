/* Token files: which format, how many tokens, and windows of them. */
#include "zr/data.h"
#include "base/file.h"
#include "data/kind.h"
#include "data/order.h"

#include <string.h>

enum {
    LLMC_MAGIC_U16 = 20240520,
    LLMC_VERSION_U16 = 1,
    LLMC_MAGIC_U32 = 20240801,
    LLMC_VERSION_U32 = 7,
    BLOCK = 64, /* tokens that are compared at once */
};

struct zr_data {
    char *path;
    zr__file file;
    const char *format;
    zr_tokenizer *tokenizer; /* NULL: a token file, text unknown */
    int64_t first_byte;      /* of token 0 */
    int token_bytes;         /* 1, 2 or 4 */
    int64_t tokens, windows, epoch_samples;
    int64_t vocab_size, seq_length;
    zr_data_order order;
    uint64_t seed;
    char note[ZR_FILE_NAME_BYTES + 96]; /* of a text */
    unsigned char *stage;               /* (T+1) tokens as they lie in the file */
};

static uint32_t le_u32(const unsigned char *at, int bytes)
{
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* ---- formats --------------------------------------------------------------------------------- */

static zr_status read_llmc(zr_data *data, uint32_t magic)
{
    unsigned char word[8];
    bool wide = magic == LLMC_MAGIC_U32;
    int64_t wanted_version = wide ? LLMC_VERSION_U32 : LLMC_VERSION_U16;
    data->format = wide ? "llm.c uint32" : "llm.c uint16";
    data->token_bytes = wide ? 4 : 2;
    data->first_byte = ZR_LLMC_HEADER_BYTES;
    ZR_CHECK(data->file.bytes >= ZR_LLMC_HEADER_BYTES, ZR_ERR_DATA,
             "%s: an llm.c file (magic %u) ends inside its header: %lld bytes, wanted at least %d", data->file.name,
             magic, (long long)data->file.bytes, ZR_LLMC_HEADER_BYTES);
    ZR_TRY(zr__file_read(&data->file, 4, word, sizeof(word), ZR_ERR_DATA));
    int32_t version = (int32_t)le_u32(word, 4), count = (int32_t)le_u32(word + 4, 4);
    ZR_CHECK(version == wanted_version, ZR_ERR_DATA, "%s: byte 4: llm.c version %d, wanted %lld for magic %u",
             data->file.name, version, (long long)wanted_version, magic);
    ZR_CHECK(count >= 0, ZR_ERR_DATA, "%s: byte 8: token count %d, wanted 0 .. 2147483647", data->file.name, count);
    int64_t wanted_bytes = ZR_LLMC_HEADER_BYTES + (int64_t)count * data->token_bytes;
    ZR_CHECK(data->file.bytes == wanted_bytes, ZR_ERR_DATA,
             "%s: byte 8: the header says %d tokens of %d bytes, so %lld bytes in all; the file has %lld",
             data->file.name, count, data->token_bytes, (long long)wanted_bytes, (long long)data->file.bytes);
    data->tokens = count;
    return ZR_OK;
}

zr_status zr_llmc_header(int token_bytes, int64_t tokens, unsigned char header[ZR_LLMC_HEADER_BYTES])
{
    ZR_CHECK(token_bytes == 2 || token_bytes == 4, ZR_ERR_ARG, "tokens of %d bytes, 2 or 4 are possible", token_bytes);
    ZR_CHECK(tokens >= 0 && tokens <= INT32_MAX, ZR_ERR_DATA,
             "%lld tokens, and llm.c's header counts up to %d; take the format nanogpt, or several files",
             (long long)tokens, INT32_MAX);
    const bool wide = token_bytes == 4;
    const uint32_t word[] = {wide ? LLMC_MAGIC_U32 : LLMC_MAGIC_U16, wide ? LLMC_VERSION_U32 : LLMC_VERSION_U16,
                             (uint32_t)tokens};
    memset(header, 0, ZR_LLMC_HEADER_BYTES);
    for (size_t i = 0; i < sizeof(word); i++) header[i] = (unsigned char)(word[i / 4] >> 8 * (i % 4));
    return ZR_OK;
}

static zr_status read_uint16(zr_data *data)
{
    ZR_TRY(zr__data_refuse_kind(&data->file, true));
    data->format = "uint16";
    data->token_bytes = 2;
    ZR_CHECK(data->file.bytes % 2 == 0, ZR_ERR_DATA,
             "%s: %lld bytes, an odd number, cannot be uint16 tokens (a .bin file without llm.c's header); "
             "text must not be called .bin",
             data->file.name, (long long)data->file.bytes);
    data->tokens = data->file.bytes / 2;
    return ZR_OK;
}

static zr_status read_text(zr_data *data)
{
    if (!data->tokenizer) ZR_TRY(zr_tokenizer_open("bytes", &data->tokenizer));
    int64_t vocab = zr_tokenizer_vocab(data->tokenizer);
    ZR_CHECK(data->vocab_size >= vocab, ZR_ERR_CONFIG,
             "%s: text through the tokenizer \"%s\" needs a vocab_size of at least %lld, given %lld", data->file.name,
             zr_tokenizer_name(data->tokenizer), (long long)vocab, (long long)data->vocab_size);
    ZR_TRY(zr__data_refuse_kind(&data->file, false));
    ZR_TRY(zr__data_look_at_text(&data->file, data->note, sizeof(data->note)));
    data->format = "text";
    data->token_bytes = 1;
    data->tokens = data->file.bytes;
    return ZR_OK;
}

static zr_status read_format(zr_data *data)
{
    unsigned char word[4] = {0};
    if (data->file.bytes >= 4) ZR_TRY(zr__file_read(&data->file, 0, word, sizeof(word), ZR_ERR_DATA));
    uint32_t magic = le_u32(word, 4);
    uint32_t swapped = (uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 | word[3];
    ZR_CHECK(swapped != LLMC_MAGIC_U16 && swapped != LLMC_MAGIC_U32, ZR_ERR_DATA,
             "%s: byte 0: llm.c's magic %u in the wrong byte order, wanted little-endian", data->file.name, swapped);
    if (magic == LLMC_MAGIC_U16 || magic == LLMC_MAGIC_U32) {
        ZR_TRY(read_llmc(data, magic));
    } else if (ends_with(data->path, ".bin")) {
        ZR_TRY(read_uint16(data));
    } else {
        ZR_TRY(read_text(data));
    }
    ZR_CHECK(data->tokens > data->seq_length, ZR_ERR_DATA,
             "%s: %lld tokens (%s), wanted at least %lld: seq_length %lld and one more", data->file.name,
             (long long)data->tokens, data->format, (long long)data->seq_length + 1, (long long)data->seq_length);
    return ZR_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static zr_status check_token(const zr_data *data, int64_t position, uint32_t token)
{
    ZR_CHECK(token < (uint64_t)data->vocab_size, ZR_ERR_DATA,
             "%s: token %lld (byte %lld) is %u, wanted below vocab_size %lld (read as %s)", data->file.name,
             (long long)position, (long long)(data->first_byte + position * data->token_bytes), token,
             (long long)data->vocab_size, data->format);
    return ZR_OK;
}

/* Is a token of these at `limit` or above? In blocks of a constant length, which the compiler makes vectors of. */
#define DEFINE_ANY_ABOVE(type)                                                                                         \
    static bool any_above_##type(const type *token, int64_t n, type limit)                                             \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        type above = 0;                                                                                                \
        for (; i + BLOCK <= n && !above; i += BLOCK)                                                                   \
            for (int j = 0; j < BLOCK; j++) above |= (type)(token[i + j] >= limit);                                    \
        for (; i < n; i++) above |= (type)(token[i] >= limit);                                                         \
        return above;                                                                                                  \
    }
DEFINE_ANY_ABOVE(uint8_t)
DEFINE_ANY_ABOVE(uint16_t)
DEFINE_ANY_ABOVE(uint32_t)

/* Every value of a token's type is one: there is nothing to look for. */
static bool all_are_tokens(const zr_data *data)
{
    return data->vocab_size >> 8 * data->token_bytes;
}

static bool any_outside(const zr_data *data, const unsigned char *tokens, int64_t n)
{
    int64_t limit = data->vocab_size;
    if (all_are_tokens(data)) return false;
    if (data->token_bytes == 1) return any_above_uint8_t(tokens, n, (uint8_t)limit);
    if (data->token_bytes == 2) return any_above_uint16_t((const uint16_t *)(const void *)tokens, n, (uint16_t)limit);
    return any_above_uint32_t((const uint32_t *)(const void *)tokens, n, (uint32_t)limit);
}

typedef struct whole {
    const zr_data *data;
    zr_progress_fn fn;
    void *arg;
} whole;

/* Pieces and what comes before the tokens are multiples of a token. */
static zr_status check_piece(void *arg, int64_t at, const void *piece, int64_t bytes)
{
    const whole *w = arg;
    const zr_data *data = w->data;
    int width = data->token_bytes;
    int64_t skipped = at < data->first_byte ? data->first_byte - at : 0;
    const unsigned char *tokens = (const unsigned char *)piece + skipped;
    int64_t n = (bytes - skipped) / width, first = (at + skipped - data->first_byte) / width;
    bool outside = any_outside(data, tokens, n);
    for (int64_t i = 0; outside && i < n; i++) ZR_TRY(check_token(data, first + i, le_u32(tokens + i * width, width)));
    if (w->fn) w->fn(w->arg, at + bytes, data->file.bytes);
    return ZR_OK;
}

zr_status zr_data_check(const zr_data *data, uint64_t *hash, zr_progress_fn fn, void *arg)
{
    whole w = {data, fn, arg};
    if (all_are_tokens(data) && !hash) return ZR_OK;
    ZR_TRY(zr__file_pass(&data->file, check_piece, &w, hash));
    return ZR_OK;
}

static zr_status read_window(zr_data *data, int64_t first, int32_t *tokens, int32_t *targets)
{
    int64_t n = data->seq_length;
    int width = data->token_bytes;
    ZR_TRY(zr__file_read(&data->file, data->first_byte + first * width, data->stage, (n + 1) * width, ZR_ERR_IO));
    ZR_TRY(zr__file_unchanged(&data->file)); /* after the read: a change during it shows too */
    for (int64_t i = 0; i <= n; i++) {
        uint32_t token = le_u32(data->stage + i * width, width);
        ZR_TRY(check_token(data, first + i, token));
        if (i < n) tokens[i] = (int32_t)token;
        if (i > 0) targets[i - 1] = (int32_t)token;
    }
    return ZR_OK;
}

/* ---- the object ------------------------------------------------------------------------------ */

static zr_status open_into(zr_data *data, const char *path, const char *tokenizer)
{
    size_t n = strlen(path) + 1;
    data->path = zr_alloc(n);
    ZR_CHECK(data->path, ZR_ERR_MEMORY, "%zu bytes for a path", n);
    memcpy(data->path, path, n);
    /* Text is read a byte a token; with another tokenizer a file of tokens is made first. */
    ZR_CHECK(!tokenizer || strcmp(tokenizer, "bytes") == 0, ZR_ERR_UNSUPPORTED,
             "%s through the tokenizer \"%s\": make a file of tokens with zr tokenize, and give that", path, tokenizer);
    if (tokenizer) ZR_TRY(zr_tokenizer_open(tokenizer, &data->tokenizer));
    ZR_TRY(zr__file_open(path, false, &data->file));
    ZR_TRY(read_format(data));
    int64_t stage_bytes = (data->seq_length + 1) * data->token_bytes; /* at most the file's */
    data->stage = zr_alloc((size_t)stage_bytes);
    ZR_CHECK(data->stage, ZR_ERR_MEMORY, "%lld bytes to read %s", (long long)stage_bytes, data->file.name);
    data->windows = (data->tokens - 1) / data->seq_length;
    int64_t shuffled = (data->tokens - data->seq_length) / data->seq_length;
    data->epoch_samples = data->order == ZR_SEQUENTIAL ? data->windows : shuffled > 1 ? shuffled : 1;
    return ZR_OK;
}

zr_status zr_data_open(const char *path, const char *tokenizer, int64_t vocab_size, int64_t seq_length,
                       zr_data_order order, uint64_t seed, zr_data **out)
{
    ZR_CHECK(vocab_size >= 1 && vocab_size <= INT32_MAX, ZR_ERR_ARG, "vocab_size %lld, wanted 1 .. 2147483647",
             (long long)vocab_size);
    ZR_CHECK(seq_length >= 1 && seq_length < INT32_MAX, ZR_ERR_ARG, "seq_length %lld, wanted 1 .. 2147483646",
             (long long)seq_length);
    ZR_CHECK(order == ZR_SEQUENTIAL || order == ZR_SHUFFLED, ZR_ERR_ARG, "order %d is none", (int)order);
    zr_data *data = zr_alloc(sizeof(*data));
    ZR_CHECK(data, ZR_ERR_MEMORY, "%zu bytes for a data file", sizeof(*data));
    *data =
        (zr_data){.file = {.fd = -1}, .vocab_size = vocab_size, .seq_length = seq_length, .order = order, .seed = seed};
    zr_status st = ZR_OK;
    ZR_TRY_GOTO(st, open_into(data, path, tokenizer), failed);
    *out = data;
    return ZR_OK;
failed:
    zr_data_close(&data);
    return st;
}

void zr_data_close(zr_data **data)
{
    if (!*data) return;
    zr__file_close(&(*data)->file);
    zr_tokenizer_close(&(*data)->tokenizer);
    zr_free((*data)->path);
    zr_free((*data)->stage);
    zr_free(*data);
    *data = NULL;
}

zr_data_info zr_data_get_info(const zr_data *data)
{
    /* A token of the tokenizer "bytes" is a byte of text, in a token file too. */
    return (zr_data_info){.path = data->path,
                          .format = data->format,
                          .note = data->note,
                          .bytes = data->file.bytes,
                          .tokens = data->tokens,
                          .windows = data->windows,
                          .epoch_samples = data->epoch_samples,
                          .bytes_per_token = data->tokenizer ? 1 : 0};
}

int64_t zr_data_tokens(const zr_data *data)
{
    return data->tokens;
}

int64_t zr_data_windows(const zr_data *data)
{
    return data->windows;
}

zr_status zr_data_locate(const zr_data *data, int64_t sample, int64_t *first_token)
{
    ZR_CHECK(sample >= 0, ZR_ERR_ARG, "sample %lld, wanted at least 0", (long long)sample);
    int64_t epoch = sample / data->epoch_samples, i = sample % data->epoch_samples;
    if (data->order == ZR_SEQUENTIAL) {
        *first_token = i * data->seq_length;
        return ZR_OK;
    }
    ZR_CHECK(epoch <= UINT32_MAX, ZR_ERR_ARG, "sample %lld lies in epoch %lld, wanted below 2^32", (long long)sample,
             (long long)epoch);
    int64_t room = data->tokens - data->seq_length; /* a single window may begin at so many tokens */
    int64_t offset = zr__order_offset(data->seed, (uint32_t)epoch, room < data->seq_length ? room : data->seq_length);
    int64_t window = zr__order_permute(data->seed, (uint32_t)epoch, data->epoch_samples, i);
    *first_token = offset + window * data->seq_length;
    return ZR_OK;
}

zr_status zr_data_sample(zr_data *data, int64_t sample, int32_t *tokens, int32_t *targets)
{
    int64_t first = 0;
    ZR_TRY(zr_data_locate(data, sample, &first));
    ZR_TRY(read_window(data, first, tokens, targets));
    return ZR_OK;
}

zr_status zr_data_window(zr_data *data, int64_t window, int32_t *tokens, int32_t *targets)
{
    ZR_CHECK(window >= 0 && window < data->windows, ZR_ERR_ARG, "window %lld of %lld", (long long)window,
             (long long)data->windows);
    ZR_TRY(read_window(data, window * data->seq_length, tokens, targets));
    return ZR_OK;
}
