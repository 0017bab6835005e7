#include "data/tokens/shard.h"

#include "base/text/text.h"
#include "data/text/kind.h"
#include "data/tokens/cache.h"
#include "data/tokens/indexed.h"
#include "data/tokens/texts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LLMC_MAGIC_U16 = 20240520,
    LLMC_VERSION_U16 = 1,
    LLMC_MAGIC_U32 = 20240801,
    LLMC_VERSION_U32 = 7,
};

/* Bare tokens have no header. KIND_RECORDS is text with JSON records. */
typedef enum kind { KIND_LLMC, KIND_BARE, KIND_INDEXED, KIND_TEXT, KIND_RECORDS } kind;

static zr_status set_path(zr__shard *s, const char *path)
{
    zr_free(s->path);
    return zr__text_copy(path, strlen(path), &s->path);
}

/* ---- which format ---------------------------------------------------------------------------- */

static zr_status find_llmc(const zr__file *file, bool *found)
{
    unsigned char word[4] = {0};
    if (file->bytes >= 4) ZR_TRY(zr__file_read(file, 0, word, sizeof(word), ZR_ERR_DATA));
    uint32_t magic = (uint32_t)zr__le(word, 4);
    uint32_t swapped = (uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 | word[3];
    ZR_CHECK(swapped != LLMC_MAGIC_U16 && swapped != LLMC_MAGIC_U32, ZR_ERR_DATA,
             "%s: byte 0: llm.c's magic %u in the wrong byte order, wanted little-endian", file->name, swapped);
    *found = magic == LLMC_MAGIC_U16 || magic == LLMC_MAGIC_U32;
    return ZR_OK;
}

/* Find how a text's records follow each other. `note` receives a remark if the file's name suggests another format. */
static zr_status find_records(const zr__shard *s, bool as_text, kind *found, zr__shape *shape, char *note, size_t size)
{
    *shape = ZR__SHAPE_TEXT;
    note[0] = '\0';
    if (!as_text) ZR_TRY(zr__shape_find(&s->file, s->path, shape, note, size));
    *found = *shape == ZR__SHAPE_TEXT ? KIND_TEXT : KIND_RECORDS;
    return ZR_OK;
}

/* Find a file's format from its name, its first bytes and an .idx file beside it. `index` receives the path of the .idx
 * file if the format has one, *shape and `note` the results of find_records. */
static zr_status find_kind(const zr__shard *s, bool as_text, kind *found, zr__shape *shape, char index[PATH_MAX],
                           char *note, size_t size)
{
    const bool bin = zr__text_ends(s->path, ".bin"), lines = zr__shape_is_lines(s->path);
    const int stem = (int)strlen(s->path) - 4;
    bool llmc = false;
    zr__packing packing;
    ZR_TRY(zr__packing_of(&s->file, &packing));
    ZR_CHECK(as_text || bin || packing == ZR__UNPACKED || !zr__path_ends(s->path, ".bin"), ZR_ERR_DATA,
             "%s: tokens are not read from compressed files; unpack it, or give data.format \"text\" if it is a text",
             s->file.name);
    if (!as_text && !lines) ZR_TRY(find_llmc(&s->file, &llmc));
    if (as_text || lines || (!llmc && !bin)) return find_records(s, as_text, found, shape, note, size);
    *shape = ZR__SHAPE_TEXT;
    note[0] = '\0';
    if (llmc)
        *found = KIND_LLMC;
    else if (snprintf(index, PATH_MAX, "%.*s.idx", stem, s->path) < PATH_MAX && access(index, F_OK) == 0)
        *found = KIND_INDEXED;
    else
        *found = KIND_BARE;
    return ZR_OK;
}

/* Refuse a text that is in another format. If `note` is empty, it receives a remark on a suspicious text. */
static zr_status check_text(const zr__shard *s, kind found, bool as_text, char *note, size_t size)
{
    ZR_TRY(zr__data_refuse_kind(&s->file, false));
    if (found == KIND_RECORDS) return ZR_OK;
    char odd[ZR__NOTE_BYTES];
    ZR_TRY(zr__data_look_at_text(&s->file, odd, sizeof(odd)));
    if (!note[0]) snprintf(note, size, "%s", odd);
    if (!note[0] && !as_text) zr__data_note_name(&s->file, s->path, note, size);
    return ZR_OK;
}

/* ---- formats --------------------------------------------------------------------------------- */

static zr_status read_llmc(zr__shard *s)
{
    unsigned char word[12];
    ZR_CHECK(s->file.bytes >= ZR_LLMC_HEADER_BYTES, ZR_ERR_DATA,
             "%s: an llm.c file ends inside its header: %lld bytes, wanted at least %d", s->file.name,
             (long long)s->file.bytes, ZR_LLMC_HEADER_BYTES);
    ZR_TRY(zr__file_read(&s->file, 0, word, sizeof(word), ZR_ERR_DATA));
    uint32_t magic = (uint32_t)zr__le(word, 4);
    bool wide = magic == LLMC_MAGIC_U32;
    int64_t wanted_version = wide ? LLMC_VERSION_U32 : LLMC_VERSION_U16;
    s->format = wide ? "llm.c uint32" : "llm.c uint16";
    s->token_bytes = wide ? 4 : 2;
    s->first_byte = ZR_LLMC_HEADER_BYTES;
    int32_t version = (int32_t)zr__le(word + 4, 4), count = (int32_t)zr__le(word + 8, 4);
    ZR_CHECK(version == wanted_version, ZR_ERR_DATA, "%s: byte 4: llm.c version %d, wanted %lld for magic %u",
             s->file.name, version, (long long)wanted_version, magic);
    ZR_CHECK(count >= 0, ZR_ERR_DATA, "%s: byte 8: token count %d, wanted 0 .. 2147483647", s->file.name, count);
    int64_t wanted_bytes = ZR_LLMC_HEADER_BYTES + (int64_t)count * s->token_bytes;
    ZR_CHECK(s->file.bytes == wanted_bytes, ZR_ERR_DATA,
             "%s: byte 8: the header says %d tokens of %d bytes, so %lld bytes in all; the file has %lld", s->file.name,
             count, s->token_bytes, (long long)wanted_bytes, (long long)s->file.bytes);
    s->tokens = count;
    return ZR_OK;
}

zr_status zr__llmc_header(int token_bytes, int64_t tokens, unsigned char header[ZR_LLMC_HEADER_BYTES])
{
    ZR_CHECK(token_bytes == 2 || token_bytes == 4, ZR_ERR_ARG, "tokens cannot have %d bytes; it must be 2 or 4",
             token_bytes);
    ZR_CHECK(tokens >= 0 && tokens <= INT32_MAX, ZR_ERR_DATA,
             "%lld tokens are too many for the header of llm.c (at most %d); use the format nanogpt, or several files",
             (long long)tokens, INT32_MAX);
    const bool wide = token_bytes == 4;
    const uint32_t word[] = {wide ? LLMC_MAGIC_U32 : LLMC_MAGIC_U16, wide ? LLMC_VERSION_U32 : LLMC_VERSION_U16,
                             (uint32_t)tokens};
    memset(header, 0, ZR_LLMC_HEADER_BYTES);
    for (size_t i = 0; i < sizeof(word); i++) header[i] = (unsigned char)(word[i / 4] >> 8 * (i % 4));
    return ZR_OK;
}

/* Check that data.token_bytes does not contradict a header or an index. */
static zr_status check_width(const zr__shard *s, int given)
{
    ZR_CHECK(given == 0 || given == s->token_bytes, ZR_ERR_CONFIG,
             "%s: data.token_bytes is %d, but its header says that tokens have %d bytes (%s); leave the key out",
             s->file.name, given, s->token_bytes, s->format);
    return ZR_OK;
}

/* Return whether numbers of `width` bytes are the halves of n tokens twice as wide: every second number is at most
 * `most`, the largest upper half of a token, but at least a quarter of the others are above it. Real tokens of `width`
 * bytes do not look like this: every second token of a text would be one of the first few tokens of the vocabulary. */
enum { HALVES_LEAST = 32, HALVES_MOST = 1 << 14 };
static bool are_halves(const unsigned char *tokens, int64_t n, int width, uint64_t most)
{
    int64_t above = 0;
    for (int64_t i = 0; i < n; i++) {
        if (zr__le(tokens + 2 * i * width + width, width) > most) return false;
        above += zr__le(tokens + 2 * i * width, width) > most;
    }
    return 4 * above >= n;
}

/* Refuse a file without a header that looks like tokens of 4 or 8 bytes. A file of fewer than HALVES_LEAST such tokens
 * is too short to decide. */
static zr_status refuse_halves(const zr__shard *s, int64_t vocab_size)
{
    const int64_t all = s->file.bytes / 4, n = all < HALVES_MOST ? all : HALVES_MOST;
    const uint32_t most = (uint32_t)((vocab_size - 1) >> 16);
    if (s->file.bytes % 4 != 0 || all < HALVES_LEAST) return ZR_OK;
    ZR_AUTO_FREE unsigned char *tokens = zr_alloc((size_t)n * 4);
    ZR_CHECK(tokens, ZR_ERR_MEMORY, "no memory to look at %lld tokens of %s", (long long)n, s->file.name);
    ZR_TRY(zr__file_read(&s->file, 0, tokens, n * 4, ZR_ERR_DATA));
    const bool halves = are_halves(tokens, n, 2, most);
    const bool quarters = halves && s->file.bytes % 8 == 0 && n / 2 >= HALVES_LEAST && are_halves(tokens, n / 2, 4, 0);
    ZR_CHECK(
        !quarters, ZR_ERR_DATA,
        "%s: every second of its first %lld numbers of 4 bytes is 0 and the others are not, so its tokens seem to have "
        "8 bytes (int64), which zr does not read; write them as uint32 (with numpy: a.astype('uint32').tofile(PATH)) "
        "and give data.token_bytes 4. If they are not int64, give data.token_bytes 2 or 4",
        s->file.name, (long long)n);
    ZR_CHECK(!halves, ZR_ERR_DATA,
             "%s: every second of its first %lld numbers of 2 bytes is at most %u and the others are not, so its "
             "tokens seem to have 4 bytes (uint32); give data.token_bytes 4, or 2 if they are uint16 after all (in `zr "
             "eval` --token-bytes)",
             s->file.name, (long long)(2 * n), most);
    return ZR_OK;
}

/* Read tokens without a header. */
static zr_status read_bare(const zr__opening *o, zr__shard *s)
{
    const int given = o->args->token_bytes;
    ZR_TRY(zr__data_refuse_kind(&s->file, true));
    s->token_bytes = given ? given : 2;
    s->format = s->token_bytes == 2 ? "uint16" : "uint32";
    ZR_CHECK(s->file.bytes % 2 == 0, ZR_ERR_DATA,
             "%s: it has %lld bytes, an odd number, and so cannot hold uint16 tokens (as a .bin file without the "
             "header of llm.c does); if it is text, rename it so that it does not end in .bin",
             s->file.name, (long long)s->file.bytes);
    ZR_CHECK(s->file.bytes % s->token_bytes == 0, ZR_ERR_DATA,
             "%s: it has %lld bytes, which is no multiple of 4, and so cannot hold tokens of data.token_bytes 4",
             s->file.name, (long long)s->file.bytes);
    if (!given) ZR_TRY(refuse_halves(s, o->args->vocab_size));
    s->tokens = s->file.bytes / s->token_bytes;
    return ZR_OK;
}

/* Open the cache file with the tokens of a text. */
static zr_status read_cached(zr__opening *o, zr__shard *s, zr__shape shape, zr__text_form form)
{
    static const char *const format[] = {[ZR__LINES_TEXT] = "jsonl",
                                         [ZR__LINES_PAIR] = "jsonl with prompts",
                                         [ZR__LINES_MESSAGES] = "jsonl with messages"};
    char path[PATH_MAX];
    zr__cached made;
    ZR_TRY(zr__cache_tokens(o->args, o->tokenizer, &s->file, shape, form, path, &made));
    zr__file_close(&s->file);
    ZR_TRY(set_path(s, path));
    ZR_TRY(zr__file_open(path, false, &s->file));
    s->token_bytes = made.token_bytes;
    s->first_byte = ZR__CACHE_HEADER_BYTES;
    s->tokens = made.tokens;
    s->lines = form == ZR__TEXT_JSONL;
    s->documents = made.documents;
    s->answers_only = made.kind != ZR__LINES_TEXT;
    memcpy(s->said, made.said, sizeof(s->said));
    if (s->lines) s->format = format[made.kind];
    s->text_bytes = made.text_bytes;
    s->skipped_lines = made.skipped_lines;
    s->first_skipped = made.first_skipped;
    s->hash = made.hash;
    s->checked = made.checked;
    if (made.damaged && !o->made_again[0])
        snprintf(o->made_again, sizeof(o->made_again),
                 "%s: its tokens in the cache were damaged, so it is tokenized again: %s", s->name, s->file.name);
    return ZR_OK;
}

static zr_status read_text_tokens(zr__opening *o, zr__shard *s, zr__shape shape, zr__text_form form)
{
    if (!o->tokenizer) ZR_TRY(zr_tokenizer_open("bytes", &o->tokenizer));
    int64_t vocab = zr_tokenizer_vocab(o->tokenizer);
    const char *name = zr_tokenizer_name(o->tokenizer);
    ZR_CHECK(o->args->vocab_size >= vocab, ZR_ERR_CONFIG,
             "%s: the tokenizer \"%s\" needs a vocab_size of at least %lld, but it is %lld: its token ids go up to "
             "%lld; give model.vocab_size %lld or more, or the tokenizer that belongs to the model (the vocab_size of "
             "existing weights cannot change)",
             s->file.name, name, (long long)vocab, (long long)o->args->vocab_size, (long long)vocab - 1,
             (long long)vocab);
    s->format = form == ZR__TEXT_JSONL ? "jsonl" : "text";
    zr__packing packing;
    ZR_TRY(zr__packing_of(&s->file, &packing));
    if (form != ZR__TEXT_PLAIN || packing != ZR__UNPACKED || strcmp(name, "bytes") != 0)
        return read_cached(o, s, shape, form);
    s->token_bytes = 1;
    s->tokens = s->text_bytes = s->file.bytes;
    return ZR_OK;
}

static zr_status read_format(zr__opening *o, zr__shard *s)
{
    char index[PATH_MAX], note[ZR__NOTE_BYTES];
    const bool as_text = o->args->as_text;
    zr__shape shape = ZR__SHAPE_TEXT;
    kind found = KIND_TEXT;
    ZR_TRY(find_kind(s, as_text, &found, &shape, index, note, sizeof(note)));
    ZR_CHECK(!o->sentences || found == KIND_TEXT, ZR_ERR_UNSUPPORTED,
             "%s: sentence pairs are made of text files with a sentence on each line and a blank line between "
             "documents, or read from one .safetensors file%s",
             s->name,
             found == KIND_RECORDS ? "; this file has JSON records (data.format \"text\" reads it as text)" : "");
    switch (found) {
    case KIND_LLMC:
        ZR_TRY(read_llmc(s));
        return check_width(s, o->args->token_bytes);
    case KIND_BARE:
        return read_bare(o, s);
    case KIND_INDEXED:
        ZR_TRY(zr__indexed_read(index, &s->file, &s->token_bytes));
        s->format = s->token_bytes == 2 ? "Megatron uint16" : "Megatron int32";
        s->tokens = s->file.bytes / s->token_bytes;
        return check_width(s, o->args->token_bytes);
    case KIND_TEXT:
    case KIND_RECORDS:
        break;
    }
    ZR_TRY(check_text(s, found, as_text, note, sizeof(note)));
    if (!o->note[0]) memcpy(o->note, note, sizeof(note));
    return read_text_tokens(o, s, shape,
                            o->sentences            ? ZR__TEXT_SENTENCES
                            : found == KIND_RECORDS ? ZR__TEXT_JSONL
                                                    : ZR__TEXT_PLAIN);
}

/* ---- open and close -------------------------------------------------------------------------- */

static zr_status open_shard_file(const char *path, zr__shard *s)
{
    ZR_TRY(set_path(s, path));
    ZR_TRY(zr__file_open(path, false, &s->file));
    memcpy(s->name, s->file.name, sizeof(s->name));
    /* Refuse index files. Otherwise a pattern that matches both files would read the tokens twice. */
    ZR_CHECK(!zr__text_ends(path, ".idx"), ZR_ERR_DATA,
             "%s: this is the index of a token file; give the .bin file beside it", s->file.name);
    return ZR_OK;
}

zr_status zr__shard_open(zr__opening *opening, const char *path, zr__shard *shard)
{
    *shard = (zr__shard){.file = {.fd = -1}, .text_bytes = -1};
    ZR_TRY(open_shard_file(path, shard));
    ZR_TRY(read_format(opening, shard));
    /* With the tokenizer "bytes", a token is a byte of text, in token files too. */
    if (shard->text_bytes < 0 && opening->tokenizer && strcmp(zr_tokenizer_name(opening->tokenizer), "bytes") == 0)
        shard->text_bytes = shard->tokens;
    return ZR_OK;
}

void zr__shard_close(zr__shard *shard)
{
    zr__file_close(&shard->file);
    zr_free(shard->path);
    shard->path = NULL;
}

zr_status zr__shard_is_text(const char *path, bool as_text, bool *text, zr__shape *shape, char *note, size_t size)
{
    ZR_AUTO(zr__shard_close) zr__shard s = {.file = {.fd = -1}};
    char index[PATH_MAX], own[ZR__NOTE_BYTES] = "";
    kind found = KIND_BARE;
    ZR_TRY(open_shard_file(path, &s));
    ZR_TRY(find_kind(&s, as_text, &found, shape, index, own, sizeof(own)));
    *text = found == KIND_TEXT || found == KIND_RECORDS;
    if (*text) ZR_TRY(check_text(&s, found, as_text, own, sizeof(own)));
    snprintf(note, size, "%s", own);
    return ZR_OK;
}
