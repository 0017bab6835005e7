#include "train/dir/events.h"

#include "base/file/folder.h"
#include "train/host/host.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Field numbers and enum values of TensorBoard's event.proto and summary.proto. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1, STATUS_START = 1 };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { HEADER_BYTES = 12, FOOTER_BYTES = 4, TAG_BYTES = 64, VALUE_BYTES = 96 };

/* ---- protocol buffers ------------------------------------------------------------------------- */

_Static_assert(ZR_SCALARS *VALUE_BYTES <= ZR_EVENT_BYTES - 128, "a step's scalars do not fit into a record");

/** Buffer into which a protocol buffer message is written. */
typedef struct message {
    unsigned char *data;
    int length, room;
} message;

static void put_raw(message *m, const void *bytes, int n)
{
    if (n > m->room - m->length) return;
    memcpy(m->data + m->length, bytes, (size_t)n);
    m->length += n;
}

static void put_varint(message *m, uint64_t x)
{
    unsigned char byte[10];
    int n = 0;
    for (; x >= 0x80; x >>= 7) byte[n++] = (unsigned char)(0x80 | (x & 0x7f));
    byte[n++] = (unsigned char)x;
    put_raw(m, byte, n);
}

/** Append the lowest n bytes of x in little-endian order. */
static void put_fixed(message *m, uint64_t x, int n)
{
    unsigned char byte[8];
    for (int i = 0; i < n; i++) byte[i] = (unsigned char)(x >> 8 * i);
    put_raw(m, byte, n);
}

static void put_key(message *m, int field, int type)
{
    put_varint(m, (uint64_t)(field << 3 | type));
}

static void put_bytes(message *m, int field, const void *bytes, int n)
{
    put_key(m, field, BYTES);
    put_varint(m, (uint64_t)n);
    put_raw(m, bytes, n);
}

/* ---- records ---------------------------------------------------------------------------------- */

/** Return the CRC-32C (Castagnoli) checksum of n bytes, masked as the TFRecord format requires. */
static uint32_t masked_crc32c(const unsigned char *bytes, int n)
{
    uint32_t crc = ~0u;
    for (int i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/** Begin an event in `record`. Leave HEADER_BYTES bytes free before it, for the header of the TFRecord frame. */
static message begin_event(char record[ZR_EVENT_BYTES], double wall_sec, int64_t step)
{
    uint64_t bits;
    message m = {(unsigned char *)record + HEADER_BYTES, 0, ZR_EVENT_BYTES - HEADER_BYTES - FOOTER_BYTES};
    memcpy(&bits, &wall_sec, sizeof(bits));
    put_key(&m, EVENT_WALL_TIME, FIXED64);
    put_fixed(&m, bits, 8);
    if (step == 0) return m; /* leave the field out, since 0 is the default value in protocol buffers */
    put_key(&m, EVENT_STEP, VARINT);
    put_varint(&m, (uint64_t)step);
    return m;
}

/** Write the TFRecord header and footer around the message, and return the length of the record. */
static int end_event(const message *m, char record[ZR_EVENT_BYTES])
{
    unsigned char *bytes = (unsigned char *)record;
    message frame = {bytes, 0, HEADER_BYTES};
    put_fixed(&frame, (uint64_t)m->length, 8);
    put_fixed(&frame, masked_crc32c(bytes, 8), 4);
    frame.length += m->length;
    frame.room = frame.length + FOOTER_BYTES;
    put_fixed(&frame, masked_crc32c(m->data, m->length), 4);
    return frame.length;
}

int zr__event_version(double wall_sec, char record[ZR_EVENT_BYTES])
{
    static const char version[] = "brain.Event:2";
    message m = begin_event(record, wall_sec, 0);
    put_bytes(&m, EVENT_FILE_VERSION, version, (int)strlen(version));
    return end_event(&m, record);
}

int zr__event_start(double wall_sec, int64_t step, char record[ZR_EVENT_BYTES])
{
    unsigned char status[4];
    message log = {status, 0, sizeof(status)};
    message m = begin_event(record, wall_sec, step);
    put_key(&log, SESSION_STATUS, VARINT);
    put_varint(&log, STATUS_START);
    put_bytes(&m, EVENT_SESSION_LOG, log.data, log.length);
    return end_event(&m, record);
}

static void put_scalar(message *summary, const char *group, const zr__scalar *scalar)
{
    char tag[TAG_BYTES];
    unsigned char room[VALUE_BYTES];
    message value = {room, 0, sizeof(room)};
    const float simple = (float)scalar->value;
    uint32_t bits;
    memcpy(&bits, &simple, sizeof(bits));
    snprintf(tag, sizeof(tag), "%s/%s", group, scalar->name);
    put_bytes(&value, VALUE_TAG, tag, (int)strlen(tag));
    put_key(&value, VALUE_SIMPLE, FIXED32);
    put_fixed(&value, bits, 4);
    put_bytes(summary, SUMMARY_VALUE, value.data, value.length);
}

int zr__event_scalars(double wall_sec, int64_t step, const char *group, const zr__scalar *scalar, int n,
                      char record[ZR_EVENT_BYTES])
{
    unsigned char room[ZR_SCALARS * VALUE_BYTES];
    message summary = {room, 0, sizeof(room)}, m = begin_event(record, wall_sec, step);
    for (int i = 0; i < n; i++) put_scalar(&summary, group, &scalar[i]);
    put_bytes(&m, EVENT_SUMMARY, summary.data, summary.length);
    return end_event(&m, record);
}

/* ---- files ------------------------------------------------------------------------------------ */

double zr__event_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/** Return the latest time stamp in the names of a folder's event files, in seconds since 1970. Return -1 if the folder
 * has no event file. */
static long long latest_in(const char *folder)
{
    long long latest = -1;
    ZR_AUTO(zr__close_dir) DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long long sec;
        if (sscanf(e->d_name, ZR_EVENTS_PREFIX "%10lld.", &sec) == 1 && sec > latest) latest = sec;
    }
    return latest;
}

void zr__events_name(const char *folder, char name[ZR_EVENTS_NAME_BYTES])
{
    char host[65];
    zr__host_name(host, sizeof(host));
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.') *c = '_';
    long long now = (long long)time(NULL), latest = latest_in(folder);
    snprintf(name, ZR_EVENTS_NAME_BYTES, ZR_EVENTS_PREFIX "%010lld.%s.%ld", now > latest ? now : latest + 1, host,
             (long)getpid());
}
