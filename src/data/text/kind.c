#include "data/text/kind.h"

#include "base/text/text.h"
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
    const char *what, *names, *use; /* names: endings of names, each followed by a space or the end */
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
    {"PAR1", 4, 0, "parquet", ".parquet", "write its texts, or their tokens, to a file"},
    {"ARROW1", 6, 0, "arrow", ".arrow .feather", "write its texts, or their tokens, to a file"},
    {"\xff\xff\xff\xff", SURE_BYTES - 1, 0, "arrow", ".arrow", "write its texts, or their tokens, to a file"},
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

zr_status zr__data_refuse_kind(const zr__file *file, bool tokens)
{
    unsigned char head[512];
    int64_t n = file->bytes < (int64_t)sizeof(head) ? file->bytes : (int64_t)sizeof(head);
    ZR_TRY(zr__file_read(file, 0, head, n, ZR_ERR_DATA));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int end = kinds[i].at + kinds[i].bytes;
        if (n < end || (tokens && kinds[i].bytes < SURE_BYTES)) continue;
        if (memcmp(head + kinds[i].at, kinds[i].magic, (size_t)kinds[i].bytes) == 0)
            return refuse_format(file, kinds[i].what, kinds[i].use);
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

zr_status zr__data_refuse_table(const zr__file *file, const char *path, const char *remedy)
{
    static const char tables[] = "%s: by its name this is a table (%s), of which zr reads no columns; write each row "
                                 "as a line of JSON to a .jsonl file, %s";
    ZR_CHECK(!zr__path_ends(path, ".csv"), ZR_ERR_DATA, tables, file->name, "comma-separated values", remedy);
    ZR_CHECK(!zr__path_ends(path, ".tsv"), ZR_ERR_DATA, tables, file->name, "tab-separated values", remedy);
    return ZR_OK;
}

void zr__data_note_name(const zr__file *file, const char *path, char *note, size_t size)
{
    note[0] = '\0';
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

/* Check one part of a text for NULs and bytes that are not UTF-8. */
static zr_status look_at_part(const zr__file *file, int64_t at, unsigned char *part, char *note, size_t size)
{
    int64_t n = file->bytes - at < LOOK_BYTES ? file->bytes - at : LOOK_BYTES, nuls = 0, first = -1;
    ZR_TRY(zr__file_read(file, at, part, n, ZR_ERR_DATA));
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
    note[0] = '\0';
    ZR_CHECK(part, ZR_ERR_MEMORY, "%d bytes to look at %s", LOOK_BYTES, file->name);
    int64_t last = file->bytes > LOOK_BYTES ? file->bytes - LOOK_BYTES : 0;
    for (int i = 0; i < 3 && (i == 0 || last > 0); i++) ZR_TRY(look_at_part(file, last / 2 * i, part, note, size));
    return ZR_OK;
}
