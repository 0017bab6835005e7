/* Reads the footer of a Parquet file, a Thrift struct in the compact protocol, as far as the schema. The footer is not
 * trusted: every length is checked, and none decides an allocation. Sources: apache/parquet-format, parquet.thrift;
 * apache/thrift, doc/specs/thrift-compact-protocol.md. */
#include "data/files/parquet.h"

#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

enum {
    TAIL_BYTES = 8, /* length of the footer, and "PAR1" */
    MOST_BYTES = 1 << 20,
    DEEPEST = 8, /* levels of values that are skipped */
    MOST_SHOWN = 12,
    /* types of the compact protocol; BYTE to DOUBLE follow each other */
    STOP = 0,
    BYTE = 3,
    I64 = 6,
    DOUBLE = 7,
    BINARY = 8,
    LIST = 9,
    SET = 10,
    MAP = 11,
    STRUCT = 12,
    /* fields of FileMetaData and of SchemaElement */
    SCHEMA = 2,
    NAME = 4,
    CHILDREN = 5,
};

/* The bytes that are left; `bad` if they violate the protocol. */
typedef struct reader {
    const unsigned char *at, *end;
    bool bad;
} reader;

static uint64_t read_byte(reader *r)
{
    r->bad = r->bad || r->at == r->end;
    return r->bad ? 0 : *r->at++;
}

static uint64_t read_varint(reader *r)
{
    uint64_t value = 0, byte = 0x80;
    for (int shift = 0; byte & 0x80 && !r->bad; shift += 7) {
        byte = read_byte(r);
        r->bad = r->bad || shift > 56;
        value |= (byte & 0x7f) << shift;
    }
    return value;
}

static void skip_bytes(reader *r, uint64_t n)
{
    r->bad = r->bad || n > (uint64_t)(r->end - r->at);
    if (!r->bad) r->at += n;
}

/* Read the head of a list: the type of its elements, and their number, which is no more than the bytes that are left.
 */
static uint64_t read_list(reader *r, uint64_t *type)
{
    const uint64_t head = read_byte(r);
    const uint64_t n = head >> 4 == 15 ? read_varint(r) : head >> 4;
    *type = head & 15;
    r->bad = r->bad || n > (uint64_t)(r->end - r->at);
    return r->bad ? 0 : n;
}

/* Read the head of a struct's field. Return its type, and in *id its number. */
static uint64_t read_field(reader *r, int64_t *id)
{
    const uint64_t head = read_byte(r), step = head >> 4;
    if (head == STOP) return STOP;
    if (step == 0) {
        const uint64_t zigzag = read_varint(r);
        *id = (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
    } else {
        *id += (int64_t)step;
    }
    return r->bad ? STOP : head & 15;
}

static void skip(reader *r, uint64_t type, int depth);

static void skip_struct(reader *r, int depth)
{
    int64_t id = 0;
    for (uint64_t type; (type = read_field(r, &id)) != STOP;) skip(r, type, depth);
}

static void skip(reader *r, uint64_t type, int depth)
{
    uint64_t of = 0;
    r->bad = r->bad || depth == DEEPEST || type > STRUCT;
    if (r->bad || type < BYTE) return;
    if (type == BYTE) skip_bytes(r, 1);
    if (type > BYTE && type <= I64) (void)read_varint(r);
    if (type == DOUBLE) skip_bytes(r, 8);
    if (type == BINARY) skip_bytes(r, read_varint(r));
    if (type == LIST || type == SET)
        for (uint64_t n = read_list(r, &of); n > 0 && !r->bad; n--) {
            if (of < BYTE) skip_bytes(r, 1); /* a bool in a list is a byte */
            skip(r, of, depth + 1);
        }
    if (type == MAP) {
        uint64_t n = read_varint(r);
        const uint64_t types = n > 0 ? read_byte(r) : 0;
        for (; n > 0 && !r->bad; n--) {
            skip(r, types >> 4, depth + 1);
            skip(r, types & 15, depth + 1);
        }
    }
    if (type == STRUCT) skip_struct(r, depth + 1);
}

/* Read an element of the schema: its name, and how many of the next elements belong to it. */
static void read_element(reader *r, const unsigned char **name, uint64_t *bytes, uint64_t *children)
{
    int64_t id = 0;
    *bytes = *children = 0;
    for (uint64_t type; (type = read_field(r, &id)) != STOP;) {
        if (id == NAME && type == BINARY) {
            *bytes = read_varint(r);
            *name = r->at;
            skip_bytes(r, *bytes);
        } else if (id == CHILDREN && type > BYTE && type <= I64) {
            *children = read_varint(r) >> 1;
        } else {
            skip(r, type, 0);
        }
    }
}

/* List the columns of the schema: the elements that belong to the first one. */
static int list_columns(reader *r, char *out, size_t size)
{
    uint64_t type, left = read_list(r, &type), bytes, children, inside = 0;
    const unsigned char *name = NULL;
    int shown = 0;
    size_t used = 0;
    for (bool root = true; left > 0 && type == STRUCT && !r->bad; left--, root = false) {
        const bool column = !root && inside == 0;
        read_element(r, &name, &bytes, &children);
        if (inside > 0) inside--;
        if (!root) inside = children > MOST_BYTES ? MOST_BYTES : inside + children;
        if (r->bad || !column || used >= size) continue;
        char text[64], escaped[80];
        snprintf(text, sizeof(text), "%.*s", (int)(bytes < 60 ? bytes : 60), (const char *)name);
        if (shown < MOST_SHOWN)
            used += (size_t)snprintf(out + used, size - used, "%s\"%s\"", shown ? ", " : "",
                                     zr__text_escape(text, escaped, sizeof(escaped)));
        if (shown++ == MOST_SHOWN) used += (size_t)snprintf(out + used, size - used, " ...");
    }
    return r->bad ? 0 : shown;
}

bool zr__parquet_columns(const zr__file *file, char *out, size_t size)
{
    unsigned char tail[TAIL_BYTES];
    int64_t id = 0;
    if (file->bytes < 2 * TAIL_BYTES) return false;
    if (zr__file_read(file, file->bytes - TAIL_BYTES, tail, TAIL_BYTES, ZR_ERR_DATA) != ZR_OK) return false;
    const int64_t n = tail[0] | tail[1] << 8 | tail[2] << 16 | (int64_t)tail[3] << 24;
    if (memcmp(tail + 4, "PAR1", 4) != 0 || n > MOST_BYTES || n > file->bytes - TAIL_BYTES) return false;
    ZR_AUTO_FREE unsigned char *footer = zr_alloc((size_t)n + 1);
    if (!footer || zr__file_read(file, file->bytes - TAIL_BYTES - n, footer, n, ZR_ERR_DATA) != ZR_OK) return false;
    reader r = {footer, footer + n, false};
    for (uint64_t type; (type = read_field(&r, &id)) != STOP;) {
        if (id == SCHEMA && type == LIST) return list_columns(&r, out, size) > 0;
        skip(&r, type, 0);
    }
    return false;
}
