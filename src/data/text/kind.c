#include "data/text/kind.h"

#include "base/text/text.h"
#include "data/files/parquet.h"
#include "data/files/stream.h"
#include "data/text/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOK_BYTES = 1 << 16,
    SURE_BYTES = 4, /* a magic number of at least this many bytes does not occur by chance */
    TAR_AT = 257,
    BINARY = 16, /* a file counts as binary if at least one of this many bytes is NUL */
};

/* Magic numbers of formats that zr refuses, their offsets in a file, and names of such files. */
static const struct {
    const char *magic;
    int bytes, at;
    /* names: endings of names, each followed by a space or the end; use: advice, or NULL for tables of columns */
    const char *what, *names, *use;
} kinds[] = {
    {"\x1f\x8b\x08", 3, 0, "gzip", ".gz .tgz", "unpack it (gunzip)"},
    {"PK\x03\x04", 4, 0, "zip", ".zip .npz .pt .pth .xlsx .docx", "unpack it (unzip)"},
    {"\x28\xb5\x2f\xfd", 4, 0, "zstd", ".zst", "unpack it (unzstd)"},
    {"\xfd"
     "7zXZ\0",
     6, 0, "xz", ".xz", "unpack it (unxz)"},
    {"BZh", 3, 0, "bzip2", ".bz2", "unpack it (bunzip2)"},
    {"7z\xbc\xaf\x27\x1c", 6, 0, "7z", ".7z", "unpack it (7z x)"},
    {"\x04\x22\x4d\x18", 4, 0, "lz4", ".lz4", "unpack it (unlz4)"},
    {"ustar", 5, TAR_AT, "tar", ".tar", "unpack it (tar -x)"},
    {"\x93NUMPY", 6, 0, "npy", ".npy", "write its tokens with numpy: a.astype('uint16').tofile('tokens.bin')"},
    {"PAR1", 4, 0, "Parquet", ".parquet", NULL},
    {"ARROW1", 6, 0, "Arrow", ".arrow .feather", NULL},
    {"\xff\xff\xff\xff", SURE_BYTES - 1, 0, "Arrow", ".arrow", NULL},
    {"\x80\x04\x95", 3, 0, "pickle", ".pkl .pickle", "write its texts, or their tokens, to a file"},
    {"\x89HDF\r\n", 6, 0, "HDF5", ".h5 .hdf5", "write its texts, or their tokens, to a file"},
    {"SQLite format 3", 15, 0, "SQLite", ".db .sqlite", "write its texts to a file"},
    {"%PDF-", 5, 0, "PDF", ".pdf", "take its text (pdftotext)"},
    {"\x89PNG", 4, 0, "PNG", ".png", "name a text"},
    {"\xff\xd8\xff", 3, 0, "JPEG", ".jpg .jpeg", "name a text"},
    {"\x7f"
     "ELF",
     4, 0, "ELF", ".so .o", "name a text"},
    {"\xff\xfe", 2, 0, "UTF-16", "", "make it UTF-8 (iconv -f UTF-16 -t UTF-8)"},
    {"\xfe\xff", 2, 0, "UTF-16", "", "make it UTF-8 (iconv -f UTF-16 -t UTF-8)"},
};

/* Return whether the file begins like a safetensors file: an 8-byte length, then JSON. */
static bool is_safetensors(const unsigned char *head, int64_t n, int64_t file_bytes)
{
    uint64_t length = 0;
    if (n < 10 || head[8] != '{' || head[9] != '"') return false;
    for (int i = 7; i >= 0; i--) length = length << 8 | head[i];
    return length <= (uint64_t)file_bytes - 8;
}

static zr_status refuse_format(const zr__file *file, const char *what, const char *use)
{
    return ZR_FAIL(ZR_ERR_DATA, "%s: its format is %s, which zr cannot read; %s", file->name, what, use);
}

/* Refuse a table of columns, and say which program writes it as records. */
static zr_status refuse_columns(const zr__file *file, const char *what)
{
    char names[640], columns[704] = "", use[1280];
    const bool parquet = strcmp(what, "Parquet") == 0;
    if (parquet && zr__parquet_columns(file, names, sizeof(names)))
        snprintf(columns, sizeof(columns), "its columns are %s; ", names);
    snprintf(use, sizeof(use) - 128,
             parquet
                 ? "%swrite its rows as JSON Lines: duckdb -c \"COPY (FROM '%s') TO 'rows.jsonl' (FORMAT json)\", or "
                   "in Python: import datasets; datasets.Dataset.from_parquet('%s').to_json('rows.jsonl')"
                 : "%swrite its rows as JSON Lines, in Python: import datasets; "
                   "datasets.Dataset.from_file('%s').to_json('rows.jsonl')",
             columns, file->name, file->name);
    strcat(use, "; a program in Python can also pass them (docs/python.md)");
    return refuse_format(file, what, use);
}

zr_status zr__data_refuse_kind(const zr__file *file, bool tokens)
{
    unsigned char head[512];
    int64_t n = file->bytes < (int64_t)sizeof(head) ? file->bytes : (int64_t)sizeof(head);
    if (tokens)
        ZR_TRY(zr__file_read(file, 0, head, n, ZR_ERR_DATA));
    else
        ZR_TRY(zr__stream_head(file, head, sizeof(head), &n));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int end = kinds[i].at + kinds[i].bytes;
        if (n < end || (tokens && kinds[i].bytes < SURE_BYTES)) continue;
        if (memcmp(head + kinds[i].at, kinds[i].magic, (size_t)kinds[i].bytes) != 0) continue;
        return kinds[i].use ? refuse_format(file, kinds[i].what, kinds[i].use) : refuse_columns(file, kinds[i].what);
    }
    if (is_safetensors(head, n, file->bytes))
        return refuse_format(file, "safetensors", "model.init takes a directory with such weights");
    return ZR_OK;
}

/* Return whether a path has one of the endings in a list such as ".gz .tgz". */
static bool has_ending(const char *path, const char *list)
{
    char end[16];
    for (size_t n; (n = strcspn(list, " ")) > 0; list += n + (list[n] == ' ')) {
        snprintf(end, sizeof(end), "%.*s", (int)n, list);
        if (zr__path_ends(path, end)) return true;
    }
    return false;
}

void zr__data_note_name(const zr__file *file, const char *path, char *note, size_t size)
{
    zr__packing packing = ZR__UNPACKED;
    note[0] = '\0';
    if (zr__packing_of(file, &packing) != ZR_OK || packing != ZR__UNPACKED) return;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !note[0]; i++)
        if (has_ending(path, kinds[i].names))
            snprintf(
                note, size,
                "%s: it is read as text, although by its name its format is %s: it does not begin like that format",
                file->name, kinds[i].what);
}

/* Return the offset of the first byte that is not UTF-8, or -1 if all bytes are. A last character that is cut off by
 * the end of the text is accepted. */
static int64_t first_not_utf8(const unsigned char *text, int64_t n)
{
    int64_t i = 0;
    /* the part may begin inside a character: skip up to 3 continuation bytes */
    while (i < n && i < 3 && (text[i] & 0xc0) == 0x80) i++;
    while (i < n) {
        int64_t bytes = zr__text_utf8((const char *)text + i, n - i);
        if (bytes == 0) return n - i < 4 ? -1 : i;
        i += bytes;
    }
    return -1;
}

/* Check one part of a text, n bytes from offset `at` on, for NULs and bytes that are not UTF-8. */
static zr_status look_at_part(const zr__file *file, int64_t at, const unsigned char *part, int64_t n, char *note,
                              size_t size)
{
    int64_t nuls = 0, first = -1;
    for (int64_t i = 0; i < n; i++) {
        nuls += part[i] == 0;
        if (part[i] == 0 && first < 0) first = at + i;
    }
    ZR_CHECK(nuls == 0 || nuls * BINARY < n, ZR_ERR_DATA,
             "%s: this is not a text: of %" PRId64 " bytes from byte %" PRId64 " on, %" PRId64
             " are NUL; a file of uint16 tokens is named .bin, UTF-16 becomes UTF-8 with iconv",
             file->name, n, at, nuls);
    int64_t bad = first_not_utf8(part, n);
    if (note[0]) return ZR_OK;
    if (first >= 0)
        snprintf(note, size, "%s: byte %" PRId64 " is NUL, which texts do not contain; its bytes are used unchanged",
                 file->name, first);
    else if (bad >= 0)
        snprintf(note, size, "%s: byte %" PRId64 " is not UTF-8; its bytes are used unchanged", file->name, at + bad);
    return ZR_OK;
}

zr_status zr__data_look_at_text(const zr__file *file, char *note, size_t size)
{
    ZR_AUTO_FREE unsigned char *part = zr_alloc(LOOK_BYTES);
    const int64_t last = file->bytes > LOOK_BYTES ? file->bytes - LOOK_BYTES : 0;
    int64_t n = 0;
    zr__packing packing;
    note[0] = '\0';
    ZR_CHECK(part, ZR_ERR_MEMORY, "%d bytes to look at %s", LOOK_BYTES, file->name);
    ZR_TRY(zr__packing_of(file, &packing));
    ZR_TRY(zr__stream_head(file, part, LOOK_BYTES, &n));
    ZR_TRY(look_at_part(file, 0, part, n, note, size));
    for (int i = 1; i < 3 && last > 0 && packing == ZR__UNPACKED; i++) {
        ZR_TRY(zr__file_read(file, last / 2 * i, part, LOOK_BYTES, ZR_ERR_DATA));
        ZR_TRY(look_at_part(file, last / 2 * i, part, LOOK_BYTES, note, size));
    }
    return ZR_OK;
}
