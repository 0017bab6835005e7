#include "data/tokens/indexed.h"

#include "data/tokens/shard.h"

#include <string.h>

enum { HEADER_BYTES = 34, VERSION = 1, VERSION_AT = 9, TYPE_AT = 17, SEQUENCES_AT = 18, DOCUMENTS_AT = 26 };
enum { PART = 8192, LENGTH_BYTES = 4, PLACE_BYTES = 8 };

static const char magic[VERSION_AT] = "MMIDIDX\0"; /* the size includes the NUL that ends the string */

typedef struct table {
    zr__file file;
    const zr__file *bin;
    int token_bytes;
    int64_t sequences, documents;
    int64_t end; /* end of the sequences checked so far, as a byte offset in `bin` */
    /* Buffers for up to PART entries: `length` for the table of lengths, `place` for the tables of offsets and
     * documents. */
    unsigned char length[PART * LENGTH_BYTES], place[PART * PLACE_BYTES];
} table;

static zr_status read_type(table *x, int code)
{
    static const char *const names[] = {"0",     "uint8",   "int8",    "int16", "int32",
                                        "int64", "float64", "float32", "uint16"};
    x->token_bytes = code == 4 ? 4 : 2;
    if (code == 4 || code == 8) return ZR_OK;
    return ZR_FAIL(ZR_ERR_DATA, "%s: byte %d: tokens of the type %s (code %d), wanted int32 (4) or uint16 (8)",
                   x->file.name, TYPE_AT, code < 9 ? names[code] : "unknown", code);
}

static zr_status read_header(table *x)
{
    unsigned char head[HEADER_BYTES];
    ZR_CHECK(x->file.bytes >= HEADER_BYTES, ZR_ERR_DATA, "%s: %lld bytes, an index has at least %d", x->file.name,
             (long long)x->file.bytes, HEADER_BYTES);
    ZR_TRY(zr__file_read(&x->file, 0, head, sizeof(head), ZR_ERR_DATA));
    ZR_CHECK(memcmp(head, magic, sizeof(magic)) == 0, ZR_ERR_DATA,
             "%s: byte 0: not the index of a token file (wanted \"MMIDIDX\" and two NULs); where %s has no index, move "
             "this file away",
             x->file.name, x->bin->name);
    const uint64_t version = zr__le(head + VERSION_AT, 8);
    ZR_CHECK(version == VERSION, ZR_ERR_DATA, "%s: byte %d: version %llu, wanted %d", x->file.name, VERSION_AT,
             (unsigned long long)version, VERSION);
    ZR_TRY(read_type(x, head[TYPE_AT]));
    const uint64_t sequences = zr__le(head + SEQUENCES_AT, 8), documents = zr__le(head + DOCUMENTS_AT, 8);
    const uint64_t room = (uint64_t)(x->file.bytes - HEADER_BYTES);
    ZR_CHECK(sequences <= room / (LENGTH_BYTES + PLACE_BYTES) &&
                 documents <= (room - sequences * (LENGTH_BYTES + PLACE_BYTES)) / PLACE_BYTES,
             ZR_ERR_DATA, "%s: byte %d: %llu sequences and %llu documents do not fit into its %lld bytes", x->file.name,
             SEQUENCES_AT, (unsigned long long)sequences, (unsigned long long)documents, (long long)x->file.bytes);
    x->sequences = (int64_t)sequences;
    x->documents = (int64_t)documents;
    const int64_t wanted = HEADER_BYTES + x->sequences * (LENGTH_BYTES + PLACE_BYTES) + x->documents * PLACE_BYTES;
    ZR_CHECK(x->file.bytes == wanted || x->file.bytes == wanted + x->sequences, ZR_ERR_DATA,
             "%s: byte %d: %lld sequences and %lld documents make %lld bytes; the file has %lld", x->file.name,
             SEQUENCES_AT, (long long)sequences, (long long)documents, (long long)wanted, (long long)x->file.bytes);
    return ZR_OK;
}

/* Check n sequences from `first` on: each must begin where the previous one ends. */
static zr_status check_sequences(table *x, int64_t first, int64_t n)
{
    const int64_t lengths = HEADER_BYTES + first * LENGTH_BYTES;
    const int64_t places = HEADER_BYTES + x->sequences * LENGTH_BYTES + first * PLACE_BYTES;
    ZR_TRY(zr__file_read(&x->file, lengths, x->length, n * LENGTH_BYTES, ZR_ERR_DATA));
    ZR_TRY(zr__file_read(&x->file, places, x->place, n * PLACE_BYTES, ZR_ERR_DATA));
    for (int64_t i = 0; i < n; i++) {
        const int32_t length = (int32_t)zr__le(x->length + i * LENGTH_BYTES, LENGTH_BYTES);
        const int64_t place = (int64_t)zr__le(x->place + i * PLACE_BYTES, PLACE_BYTES);
        ZR_CHECK(place == x->end, ZR_ERR_DATA,
                 "%s: byte %lld: sequence %lld begins at byte %lld of %s, wanted %lld, the end of the one before",
                 x->file.name, (long long)(places + i * PLACE_BYTES), (long long)(first + i), (long long)place,
                 x->bin->name, (long long)x->end);
        ZR_CHECK(length >= 0 && length <= (x->bin->bytes - x->end) / x->token_bytes, ZR_ERR_DATA,
                 "%s: byte %lld: sequence %lld has %d tokens of %d bytes from byte %lld on; %s ends at byte %lld",
                 x->file.name, (long long)(lengths + i * LENGTH_BYTES), (long long)(first + i), length, x->token_bytes,
                 (long long)x->end, x->bin->name, (long long)x->bin->bytes);
        x->end += (int64_t)length * x->token_bytes;
    }
    return ZR_OK;
}

/* Check the table of documents: each document must consist of consecutive sequences. */
static zr_status check_documents(table *x)
{
    const int64_t documents = HEADER_BYTES + x->sequences * (LENGTH_BYTES + PLACE_BYTES);
    int64_t before = 0;
    for (int64_t first = 0, n; first < x->documents; first += n) {
        n = x->documents - first < PART ? x->documents - first : PART;
        ZR_TRY(zr__file_read(&x->file, documents + first * PLACE_BYTES, x->place, n * PLACE_BYTES, ZR_ERR_DATA));
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = (int64_t)zr__le(x->place + i * PLACE_BYTES, PLACE_BYTES);
            ZR_CHECK(at >= before && at <= x->sequences, ZR_ERR_DATA,
                     "%s: byte %lld: document %lld begins with sequence %lld, wanted %lld .. %lld", x->file.name,
                     (long long)(documents + (first + i) * PLACE_BYTES), (long long)(first + i), (long long)at,
                     (long long)before, (long long)x->sequences);
            before = at;
        }
    }
    return ZR_OK;
}

static zr_status check_index(table *x)
{
    ZR_TRY(read_header(x));
    for (int64_t first = 0; first < x->sequences; first += PART)
        ZR_TRY(check_sequences(x, first, x->sequences - first < PART ? x->sequences - first : PART));
    ZR_CHECK(x->end == x->bin->bytes, ZR_ERR_DATA, "%s: its sequences end at byte %lld of %s, which has %lld bytes",
             x->file.name, (long long)x->end, x->bin->name, (long long)x->bin->bytes);
    ZR_TRY(check_documents(x));
    return zr__file_unchanged(&x->file);
}

zr_status zr__indexed_read(const char *path, const zr__file *bin, int *token_bytes)
{
    ZR_AUTO_FREE table *x = zr_alloc(sizeof(*x));
    ZR_CHECK(x, ZR_ERR_MEMORY, "no memory for %zu bytes to read an index", sizeof(*x));
    x->bin = bin;
    zr_status st = zr__file_open(path, false, &x->file);
    if (st == ZR_OK) st = check_index(x);
    *token_bytes = x->token_bytes;
    zr__file_close(&x->file);
    return st;
}
