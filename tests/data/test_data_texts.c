//TEST timeout=60 tsan=1
//LINK -Wl,--wrap=flock,--wrap=pread,--wrap=pwrite,--wrap=fsync,--wrap=link
/* .jsonl files: the conversion to tokens, bad lines, and the cache that holds the tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/tokenizer/bpe_make.h"
#include "data/text/encode.h"
#include "support/tempdir.h"
#include "zr/data.h"
#include "data/samples/samples.h"
#include "data/tokenizer/tokenizer.h"

enum { SEQ = 4, ROOM = 4 << 20 };

/* Whether locks have no effect, as on a file system without locks, or with locks local to each host. */
static bool no_locks;
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    return no_locks ? 0 : __real_flock(fd, operation);
}

/* Files written and not yet synced, and how many of the files given their final names were unsynced. */
enum { FILES = 16 };
static struct {
    ino_t number;
    bool unsynced;
} written[FILES];
static int linked, linked_unsynced;

static int place_of(ino_t number)
{
    int i = 0;
    while (i < FILES - 1 && written[i].number != number && written[i].number != 0) i++;
    written[i].number = number;
    return i;
}

static int64_t bytes_read;
ssize_t __real_pread(int fd, void *bytes, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t at)
{
    const ssize_t got = __real_pread(fd, bytes, n, at);
    bytes_read += got > 0 ? got : 0;
    return got;
}

ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    struct stat info;
    if (fstat(fd, &info) == 0) written[place_of(info.st_ino)].unsynced = true;
    return __real_pwrite(fd, bytes, n, at);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat info;
    if (fstat(fd, &info) == 0) written[place_of(info.st_ino)].unsynced = false;
    return __real_fsync(fd);
}

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
    struct stat info;
    linked++;
    if (stat(from, &info) != 0 || written[place_of(info.st_ino)].unsynced) linked_unsynced++;
    return __real_link(from, to);
}

static zr_data_args args_of(const char *path)
{
    return (zr_data_args){.path = path,
                          .vocab_size = 256,
                          .seq_length = SEQ,
                          .order = ZR_SEQUENTIAL,
                          .cache_dir = in_tempdir("cache/tokens")};
}

static void refused(const zr_data_args *args, zr_status wanted, const char *says)
{
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(args, &data), wanted);
    if (!strstr(zr_error_message(), says)) fail_msg("\"%s\" is not in: %s", says, zr_error_message());
}

/* Check the text spelled by the windows of a .jsonl file. The tokens after the last window are not checked. */
static void reads_as(const zr_data_args *args, const char *wanted)
{
    zr_data *data = NULL;
    int32_t token[SEQ], target[SEQ];
    if (zr_data_open_with(args, &data) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_data_get_info(data).tokens, strlen(wanted));
    for (int64_t w = 0; w < zr_data_get_info(data).windows; w++) {
        assert_int_equal(zr_data_window(data, w, token, target), ZR_OK);
        for (int i = 0; i < SEQ; i++) assert_int_equal(token[i], (unsigned char)wanted[w * SEQ + i]);
        assert_int_equal(target[SEQ - 1], (unsigned char)wanted[w * SEQ + SEQ]);
    }
    assert_string_equal(zr_data_get_info(data).format, "jsonl");
    zr_data_close(&data);
}

static void reads(const char *image, const char *wanted)
{
    const zr_data_args args = args_of(put_file("x.jsonl", image, strlen(image)));
    reads_as(&args, wanted);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void texts_stand_behind_each_other(void **state)
{
    (void)state;
    reads("{\"text\": \"first\"}\n{\"text\": \"second\"}\n", "first\nsecond\n");
    reads("{\"text\": \"first\"}\r\n\r\n  \n{\"meta\": {\"a\": [1]}, \"text\": \"second\"}", "first\nsecond\n");
    reads("\xef\xbb\xbf{\"text\": \"\\u00e9\\n\\ud83d\\ude00\"}\n", "\xc3\xa9\n\xf0\x9f\x98\x80\n");
    reads("{\"text\": \"\"}\n{\"text\": \"an empty one says nothing\"}\n", "an empty one says nothing\n");
}

static void the_member_has_a_name(void **state)
{
    (void)state;
    static const char image[] = "{\"text\": \"no\", \"body\": \"the text\"}\n";
    zr_data_args args = args_of(put_file("named.jsonl", image, strlen(image)));
    args.text_key = "body";
    reads_as(&args, "the text\n");
    args.text_key = "title";
    refused(&args, ZR_ERR_DATA,
            "named.jsonl:1: \"title\" is missing; expected a text (data.text_key or data.columns sets the name)");
}

static const struct {
    const char *line, *says;
    size_t bytes; /* length in bytes; 0 for the length of the string */
} bad[] = {
    {"{\"text\": \"open", "bad.jsonl:3: column ", 0},
    {"{\"text\": 7}", "bad.jsonl:3: \"text\" is not a string; expected a text", 0},
    {"{\"other\": \"x\"}", "bad.jsonl:3: \"text\" is missing", 0},
    {"[\"text\"]", "bad.jsonl:3: the record is not a JSON object", 0},
    {"{\"text\": \"\xff\xfe\"}", "bad.jsonl:3: column ", 0},
    {"{\"text\": \"\\ud800\"}", "bad.jsonl:3: column ", 0},
    {"{\"text\": \"\\u0000\"}", "a text has the character U+0000, which", 0},
    {"{\"text\": \"a\0b\"}", "bad.jsonl:3: column ", 14},
    {"{\"text\": \"a\", \"text\": \"b\"}", "bad.jsonl:3: column ", 0},
    {"{\"text\": \"a\"} {\"text\": \"b\"}", "bad.jsonl:3: column ", 0},
};

static void bad_lines_are_named_or_left_out(void **state)
{
    (void)state;
    static const char before[] = "{\"text\": \"good\"}\n\n", after[] = "\n{\"text\": \"also good\"}\n";
    char image[256];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const size_t n = bad[i].bytes ? bad[i].bytes : strlen(bad[i].line);
        memcpy(image, before, strlen(before));
        memcpy(image + strlen(before), bad[i].line, n);
        memcpy(image + strlen(before) + n, after, strlen(after));
        zr_data_args args = args_of(put_file("bad.jsonl", image, strlen(before) + n + strlen(after)));
        refused(&args, ZR_ERR_DATA, bad[i].says);
        args.skip_bad_lines = true;
        reads_as(&args, "good\nalso good\n");
        for (int turn = 0; turn < 2; turn++) { /* encoded, then found in the cache */
            zr_data *data = NULL;
            assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
            assert_int_equal(zr_data_get_info(data).skipped_lines, 1);
            assert_non_null(
                strstr(zr_data_get_info(data).note, "bad.jsonl: 1 bad lines left out; the first is line 3"));
            zr_data_close(&data);
        }
    }
}

static void a_line_has_a_longest_length(void **state)
{
    (void)state;
    FILE *file = fopen(put_file("long.jsonl", "", 0), "wb");
    if (!file) abort();
    fputs("{\"text\": \"short\"}\n{\"text\": \"", file);
    for (int i = 0; i < 17 << 20; i++) fputc('x', file);
    fputs("\"}\n{\"text\": \"again short\"}\n", file);
    fclose(file);
    zr_data_args args = args_of(in_tempdir("long.jsonl"));
    refused(&args, ZR_ERR_DATA, "long.jsonl:2: the line is longer than 16777216 bytes");
    args.skip_bad_lines = true;
    reads_as(&args, "short\nagain short\n");
}

/* Check that a long file is encoded in many parts, on several threads: lines are counted and texts keep their order. */
static void a_long_file_is_read_in_parts(void **state)
{
    (void)state;
    static char wanted[ROOM];
    size_t n = 0;
    FILE *file = fopen(put_file("parts.jsonl", "", 0), "wb");
    if (!file) abort();
    for (int i = 0; n + 4096 < sizeof(wanted); i++) {
        const int letters = i % 7 * i % 1500;
        size_t begin = n;
        n += (size_t)snprintf(wanted + n, 32, "text %d ", i);
        for (int k = 0; k < letters; k++) wanted[n++] = (char)('a' + (i + k) % 26);
        fprintf(file, "{\"text\": \"%.*s\", \"n\": %d}\n", (int)(n - begin), wanted + begin, i);
        wanted[n++] = '\n';
    }
    fclose(file);
    const zr_data_args args = args_of(in_tempdir("parts.jsonl"));
    reads_as(&args, wanted);
    file = fopen(args.path, "ab");
    if (!file) abort();
    fputs("none\n", file);
    fclose(file);
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_ERR_DATA);
    int lines = 1;
    for (size_t i = 0; i < n; i++) lines += wanted[i] == '\n';
    char says[64];
    snprintf(says, sizeof(says), "parts.jsonl:%d: column", lines);
    assert_non_null(strstr(zr_error_message(), says));
    zr_data_args skips = args; /* the first line left out is also counted from the start of the file */
    skips.skip_bad_lines = true;
    assert_int_equal(zr_data_open_with(&skips, &data), ZR_OK);
    snprintf(says, sizeof(says), "1 bad lines left out; the first is line %d", lines);
    assert_non_null(strstr(zr_data_get_info(data).note, says));
    zr_data_close(&data);
}

/* ---- records that are not lines -------------------------------------------------------------- */

#define ONE "{\"text\": \"first [{\\\"\"}"
#define TWO "{\"text\": \"second\", \"a\": [1, {}]}"
#define BOTH "first [{\"\nsecond\n"

/* Check that the first value of a file decides how it is read, whatever it is called. */
static void records_have_shapes(void **state)
{
    (void)state;
    static const char *const good[] = {
        ONE "\n" TWO "\n",
        "[" ONE "," TWO "]",
        "\xef\xbb\xbf \r\n\t[\n" ONE "\n,\n" TWO "]\n\n",
        "\n{\n\"text\":\n\"first [{\\\"\"}\n" TWO,
        ONE TWO,
        "\xef\xbb\xbf" ONE "\r\n" TWO,
    };
    static const char *const names[] = {"a.json", "a.txt", "a", "a.csv", "a.jsonl", "a.NDJSON"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            const zr_data_args args = args_of(put_file(names[k], good[i], strlen(good[i])));
            zr_data *data = NULL;
            reads_as(&args, BOTH);
            assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
            const bool told = strstr(zr_data_get_info(data).note, "it is read as JSON records") != NULL;
            assert_true(told == (k < 4)); /* a name that does not say so */
            zr_data_close(&data);
        }
}

static void records_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *image, *says;
        bool skips; /* whether a bad record can be left out */
    } wrong[] = {
        {"[" ONE ",\n3," TWO "]", "a.json:2: the record is not a JSON object", true},
        {"[" ONE ",\n{\"a\": 1, \"b\": 2}, " TWO "]",
         "a.json:2: \"text\" is missing; expected a text, as in the first record: this one has \"a\", \"b\"", true},
        {"[" ONE ",\n{\n\"text\": 1},\n" TWO "]", "a.json:2: \"text\" is not a string", true},
        {"[" ONE "\n" TWO "]",
         "a.json:2: a comma is missing between two records of the array; correct the "
         "file, or write each record on a line of its own (.jsonl), or give data.format \"text\" to read",
         false},
        {"[" ONE ",\n" TWO ",]", "a.json:2: there is a comma before the end of the array", false},
        {"[" ONE ",\n" TWO, "a.json:2: the array does not end", false},
        {"[" ONE ",\n{\"text\": \"x", "a.json:2: the record does not end", false},
        {"[" ONE "]\n x", "a.json:2: there is text after the end of the array", false},
        {ONE ",\n" TWO, "a.json:1: there is a comma between records, which only an array [...] has", false},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        zr_data_args args = args_of(put_file("a.json", wrong[i].image, strlen(wrong[i].image)));
        refused(&args, ZR_ERR_DATA, wrong[i].says);
        args.skip_bad_lines = true;
        if (wrong[i].skips)
            reads_as(&args, BOTH);
        else
            refused(&args, ZR_ERR_DATA, wrong[i].says);
    }
}

/* Check that everything else is text, with a remark if its name says otherwise, except for tables. */
static void other_files_are_text(void **state)
{
    (void)state;
    static const char *const images[] = {"[1, 2, 3], some numbers",          "{not: JSON at all}  ",
                                         "[\"a\", {\"text\": \"b\"}]",       "plain text of a .json file",
                                         "{\"text\": \"never ends, in JSON", "[{\"text\": 'a'}, and more]"};
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++)
        for (int k = 0; k < 2; k++) {
            const zr_data_args args = args_of(put_file(k ? "b.txt" : "b.json", images[i], strlen(images[i])));
            zr_data *data = NULL;
            assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
            assert_string_equal(zr_data_get_info(data).format, "text");
            assert_int_equal(zr_data_get_info(data).tokens, strlen(images[i]));
            const char *note = zr_data_get_info(data).note;
            assert_true(k ? note[0] == '\0' : strstr(note, "b.json: it is read as text, although") != NULL);
            zr_data_close(&data);
        }
    static const char *const tables[] = {
        "c.csv", "c.csv:2: the record has \"a\", \"b\", which together are no form", "c.TSV",
        "c.TSV:1: the only column is \"a,b\"; the columns of .tsv must be separated by tabs"};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i += 2) {
        zr_data_args args = args_of(put_file(tables[i], "a,b\nc,d and so on\n", 18));
        refused(&args, ZR_ERR_DATA, tables[i + 1]);
        args.as_text = true;
        zr_data *data = NULL;
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        assert_int_equal(zr_data_get_info(data).tokens, 18);
        zr_data_close(&data);
    }
    static const char *const names[] = {"talks.pt", "c.GZ", "c.parquet"}; /* .pt: also Portuguese */
    for (int i = 0; i < 6; i++) {
        zr_data_args args = args_of(put_file(names[i / 2], "a,b\nc,d and so on\n", 18));
        zr_data *data = NULL;
        args.as_text = i % 2;
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        assert_int_equal(zr_data_get_info(data).tokens, 18);
        const bool told = strstr(zr_data_get_info(data).note, "read as text, although by its name its format is ");
        assert_true(told == !args.as_text);
        zr_data_close(&data);
    }
    zr_data_args args = args_of(put_file("d.jsonl", ONE "\n", sizeof(ONE)));
    args.as_text = true;
    zr_data *data = NULL;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
    assert_int_equal(zr_data_get_info(data).tokens, sizeof(ONE));
    zr_data_close(&data);
}

/* Check that a long array is divided into parts at its records, and that lines are counted through all of them. */
static void a_long_array_is_read_in_parts(void **state)
{
    (void)state;
    static char wanted[ROOM];
    size_t n = 0;
    char says[96];
    FILE *file = fopen(put_file("array.json", "", 0), "wb");
    if (!file) abort();
    for (int i = 0; n + 4096 < sizeof(wanted); i++) {
        const int letters = i % 7 * i % 1500;
        const size_t begin = n;
        n += (size_t)snprintf(wanted + n, 32, "text %d ", i);
        for (int k = 0; k < letters; k++) wanted[n++] = (char)('a' + (i + k) % 26);
        fprintf(file, "%c\n{\n  \"n\": [%d],\n  \"text\": \"%.*s\"\n}", i ? ',' : '[', i, (int)(n - begin),
                wanted + begin);
        wanted[n++] = '\n';
    }
    fputs("\n]\n", file);
    fclose(file);
    const zr_data_args args = args_of(in_tempdir("array.json"));
    reads_as(&args, wanted);
    file = fopen(args.path, "r+b");
    if (!file) abort();
    fseek(file, -3, SEEK_END);
    fputs(",\n{}]", file);
    fclose(file);
    int lines = 0;
    for (size_t i = 0; i < n; i++) lines += 4 * (wanted[i] == '\n');
    snprintf(says, sizeof(says), "array.json:%d: \"text\" is missing", lines + 2);
    refused(&args, ZR_ERR_DATA, says);
}

static void a_record_has_a_longest_length(void **state)
{
    (void)state;
    FILE *file = fopen(put_file("long.json", "", 0), "wb");
    if (!file) abort();
    fputs("[{\"text\": \"", file);
    for (int i = 0; i < 17 << 20; i++) fputc('x', file);
    fputs("\"}]\n", file);
    fclose(file);
    zr_data_args args = args_of(in_tempdir("long.json"));
    args.skip_bad_lines = true;
    refused(&args, ZR_ERR_DATA, "long.json:1: the record is longer than 16777216 bytes");
}

/* The tokens put so far. */
typedef struct collected {
    unsigned char bytes[ROOM];
    int64_t n, width;
} collected;

static zr_status collect(void *arg, const unsigned char *tokens, int64_t n)
{
    collected *c = arg;
    if ((c->n + n) * c->width > ROOM) abort();
    memcpy(c->bytes + c->n * c->width, tokens, (size_t)(n * c->width));
    c->n += n;
    return ZR_OK;
}

/* Check that the parts of a plain text cover it completely, wherever they end. */
static void parts_of_a_text_are_all_of_it(void **state)
{
    (void)state;
    static unsigned char text[ROOM];
    static collected got;
    zr_tokenizer *bytes = NULL;
    zr__file in;
    zr__encoded did;
    assert_int_equal(zr_tokenizer_open("bytes", &bytes), ZR_OK);
    for (int width = 1; width <= 4; width *= 2) {
        const size_t n = ROOM / 4;
        for (size_t i = 0; i < n; i++)
            text[i] = (unsigned char)(i % 5000 == 17 ? '\n' : width == 4 ? 0x80 : 'a' + i % 26);
        assert_int_equal(zr__file_open(put_file("text", text, n), false, &in), ZR_OK);
        got.n = 0;
        got.width = width;
        const zr__encoding x = {.parts = {.file = &in, .most_bytes = 1 << 20},
                                .tokenizer = bytes,
                                .token_bytes = width,
                                .put = collect,
                                .put_arg = &got};
        assert_int_equal(zr__encode(&x, &did), ZR_OK);
        assert_int_equal(did.tokens, n);
        assert_int_equal(did.found.text_bytes, n);
        assert_int_equal(did.found.documents, 1);
        assert_int_equal(got.n, n);
        for (size_t i = 0; i < n * (size_t)width; i++)
            assert_int_equal(got.bytes[i], i % (size_t)width == 0 ? text[i / (size_t)width] : 0);
        zr__file_close(&in);
    }
    zr_tokenizer_close(&bytes);
}

/* Open a byte-level BPE tokenizer with merges within words, across a space and of white space. */
static zr_tokenizer *open_bpe(const char *pre_tokenizer)
{
    zr_tokenizer *bpe = NULL;
    char *json = bpe_json("\"added_tokens\": [{\"id\": 260, \"content\": \"<|endoftext|>\", \"normalized\": false}], ",
                          pre_tokenizer, "\"type\": \"BPE\"",
                          "\"ab\": 256, \"aba\": 257, \"\xc4\xa0"
                          "a\": 258, \"\xc4\xa0\xc4\xa0\": 259",
                          "[\"a b\", \"ab a\", \"\xc4\xa0 a\", \"\xc4\xa0 \xc4\xa0\"]");
    if (zr_tokenizer_open(put_file("tokenizer.json", json, strlen(json)), &bpe) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_free(json);
    return bpe;
}

#define ANY_EXPRESSION                                                                                                 \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a ]+|.\"}, "       \
    "\"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "          \
    "\"use_regex\": false}]}"

/* Check that a text encoded in parts of several sizes, on several numbers of threads, has the tokens that
 * zr_tokenizer_encode gives for the whole. */
static void parts_become(const zr_tokenizer *bpe, const zr__file *in, bool lines, const int32_t *wanted, int64_t n)
{
    static collected got;
    static const int64_t size[] = {0, 64, 1000, 4096, 65536};
    zr__encoded did;
    for (size_t s = 0; s < sizeof(size) / sizeof(size[0]); s++) {
        for (int threads = 1; threads <= 8; threads += threads == 1 ? 2 : 5) {
            const zr__encoding x = {.parts = {.file = in,
                                              .usual_bytes = size[s],
                                              .most_bytes = 1 << 20,
                                              .shape = lines ? ZR__SHAPE_LINES : ZR__SHAPE_TEXT,
                                              .text_key = "text"},
                                    .tokenizer = bpe,
                                    .separator = 260,
                                    .token_bytes = 2,
                                    .threads = threads,
                                    .put = collect,
                                    .put_arg = &got};
            got.n = 0;
            got.width = 2;
            if (zr__encode(&x, &did) != ZR_OK) fail_msg("%s", zr_error_message());
            assert_int_equal(did.tokens, n);
            assert_int_equal(got.n, n);
            for (int64_t i = 0; i < n; i++)
                if (wanted[i] != (got.bytes[2 * i] | got.bytes[2 * i + 1] << 8))
                    fail_msg("parts of %d, %d threads: token %d differs", (int)size[s], threads, (int)i);
        }
    }
}

enum { TEXT = 300000 };

/* Write words of a, b and c, runs of spaces and newlines, occasional added tokens, and characters of several bytes. */
static int64_t write_words(char *text)
{
    uint32_t x = 7;
    int64_t n = 0;
    while (n < TEXT) {
        static const char *const piece[] = {"a",  "b",  "a",  "b", "aba",           " ",        " ",
                                            "  ", "\n", " a", "c", "<|endoftext|>", "\xc3\xa9", "\xe3\x80\x80",
                                            "\t", "1"};
        x = x * 1664525 + 1013904223;
        const char *one = piece[x >> 28];
        memcpy(text + n, one, strlen(one));
        n += (int64_t)strlen(one);
    }
    return n;
}

static void parts_have_the_tokens_of_the_whole(void **state)
{
    (void)state;
    static char words[TEXT + 16];
    static int32_t wanted[TEXT + 16];
    const char *const way[] = {BPE_BYTE_LEVEL, ANY_EXPRESSION};
    zr__file in;
    for (int w = 0; w < 2; w++) {
        zr_tokenizer *bpe = open_bpe(way[w]);
        int64_t bytes = write_words(words), n = 0;
        assert_int_equal(zr__tokenizer_cut(bpe, "a b", 1, 3), w == 0 ? 1 : 0);
        assert_int_equal(zr_tokenizer_encode(bpe, words, bytes, wanted, bytes, &n), ZR_OK);
        assert_int_equal(zr__file_open(put_file("text", words, (size_t)bytes), false, &in), ZR_OK);
        parts_become(bpe, &in, false, wanted, n);
        zr__file_close(&in);
        zr_tokenizer_close(&bpe);
    }
}

/* Check that each line gives the tokens of its text, followed by the separator token. */
static void lines_have_the_tokens_of_their_texts(void **state)
{
    (void)state;
    static char words[TEXT + 16];
    static int32_t wanted[2 * TEXT];
    const char *const way[] = {BPE_BYTE_LEVEL, ANY_EXPRESSION};
    const int64_t bytes = write_words(words);
    zr__file in;
    for (int w = 0; w < 2; w++) {
        zr_tokenizer *bpe = open_bpe(way[w]);
        int64_t all = 0;
        FILE *file = fopen(put_file("text.jsonl", "", 0), "wb");
        if (!file) abort();
        for (int64_t at = 0, length = 1; at < bytes; at += length, length = length * 7 % 9973 + 1) {
            int64_t n = 0, end = at + length < bytes ? at + length : bytes;
            while (end < bytes && (words[end] & 0xc0) == 0x80) end++;
            length = end - at;
            fputs("{\"text\": \"", file);
            for (int64_t i = at; i < end; i++)
                if (words[i] == '\n' || words[i] == '\t')
                    fputs(words[i] == '\n' ? "\\n" : "\\t", file);
                else
                    fputc(words[i], file);
            fputs("\"}\n", file);
            assert_int_equal(zr_tokenizer_encode(bpe, words + at, length, wanted + all, length, &n), ZR_OK);
            all += n;
            wanted[all++] = 260;
        }
        fclose(file);
        assert_int_equal(zr__file_open(in_tempdir("text.jsonl"), false, &in), ZR_OK);
        parts_become(bpe, &in, true, wanted, all);
        zr__file_close(&in);
        zr_tokenizer_close(&bpe);
    }
}

/* Check a long text without a place to cut: it is encoded whole or, where memory is bounded, cut before a character.
 * The text after it is cut as usual, whatever the size of parts. */
static void a_text_without_cuts_is_bounded(void **state)
{
    (void)state;
    enum { LONG = (1 << 20) + 10, MOST = 4096, TAIL = 3 };
    static char text[LONG];
    static collected got[2];
    zr__file in;
    zr__encoded did;
    zr_tokenizer *bpe = open_bpe(BPE_BYTE_LEVEL);
    /* One stretch of 2500 bytes, and others far longer than the limit: a cut within "aba" changes the tokens. */
    for (int i = 0; i < LONG; i++) text[i] = i % 200000 == 2500 ? ' ' : i % 3 == 1 ? 'b' : 'a';
    text[LONG - TAIL] = ' ';
    assert_int_equal(zr__file_open(put_file("text", text, LONG), false, &in), ZR_OK);
    for (int bounded = 0; bounded < 2; bounded++) {
        for (int64_t usual = 512; usual <= LONG; usual = usual * 7 + 3) {
            zr__encoding x = {.parts = {.file = &in, .usual_bytes = usual, .most_bytes = bounded ? MOST : INT64_MAX},
                              .tokenizer = bpe,
                              .token_bytes = 2,
                              .threads = usual == 512 ? 1 : 3,
                              .put = collect,
                              .put_arg = &got[usual > 512]};
            got[usual > 512].n = 0;
            got[usual > 512].width = 2;
            assert_int_equal(zr__encode(&x, &did), ZR_OK);
            assert_int_equal(did.found.text_bytes, LONG);
            assert_int_equal(did.found.documents, 1);
            assert_int_equal(got[usual > 512].n, got[0].n);
            assert_memory_equal(got[1].bytes, got[0].bytes, usual > 512 ? (size_t)got[0].n * 2 : 0);
        }
        int32_t *whole = malloc(LONG * sizeof(*whole));
        int64_t n = 0;
        assert_int_equal(zr_tokenizer_encode(bpe, text, LONG, whole, LONG, &n), ZR_OK);
        assert_true((got[0].n == n) == !bounded);
        for (int64_t i = 0; i < n && !bounded; i++)
            assert_int_equal(whole[i], got[0].bytes[2 * i] | got[0].bytes[2 * i + 1] << 8);
        free(whole);
    }
    zr_tokenizer_close(&bpe);
    zr__file_close(&in);
}

/* Check that, where memory is bounded, a text or a line without a place to cut is cut before a character; each
 * character is one token here. */
static void no_character_is_cut(void **state)
{
    (void)state;
    enum { CHARACTERS = 9000, MOST = 4096 };
    static char line[2 * CHARACTERS + 32];
    static collected got;
    zr__file in;
    zr__encoded did;
    zr_tokenizer *bpe = NULL;
    char *json =
        bpe_json("", BPE_BYTE_LEVEL, "\"type\": \"BPE\"", "\"\xc3\x83\xc2\xa9\": 256", "[\"\xc3\x83 \xc2\xa9\"]");
    if (zr_tokenizer_open(put_file("tokenizer.json", json, strlen(json)), &bpe) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_free(json);
    for (int lines = 0; lines < 2; lines++) {
        const char *begin = lines ? "{\"text\": \"a" : "a", *end = lines ? "\"}\n" : "";
        size_t n = (size_t)snprintf(line, sizeof(line), "%s", begin);
        for (int i = 0; i < CHARACTERS; i++) n += (size_t)snprintf(line + n, sizeof(line) - n, "\xc3\xa9");
        n += (size_t)snprintf(line + n, sizeof(line) - n, "%s", end);
        assert_int_equal(zr__file_open(put_file("text", line, n), false, &in), ZR_OK);
        const zr__encoding x = {.parts = {.file = &in,
                                          .usual_bytes = 512,
                                          .most_bytes = MOST,
                                          .shape = lines ? ZR__SHAPE_LINES : ZR__SHAPE_TEXT,
                                          .text_key = lines ? "text" : NULL},
                                .tokenizer = bpe,
                                .separator = -1,
                                .token_bytes = 2,
                                .put = collect,
                                .put_arg = &got};
        got.n = 0;
        got.width = 2;
        assert_int_equal(zr__encode(&x, &did), ZR_OK);
        assert_int_equal(got.n, 1 + CHARACTERS);
        for (int64_t i = 0; i < got.n; i++)
            assert_int_equal(got.bytes[2 * i] | got.bytes[2 * i + 1] << 8, i == 0 ? 'a' : 256);
        zr__file_close(&in);
    }
    zr_tokenizer_close(&bpe);
}

/* Check that a tokenizer without places to cut accepts only short texts, to bound memory while training. */
static void a_text_that_is_never_cut_must_be_short(void **state)
{
    (void)state;
    enum { LONG = (4 << 20) + 2 };
    char *text = calloc(1, LONG), tokenizer[PATH_MAX];
    zr_data *data = NULL;
    zr_tokenizer *bpe = open_bpe(ANY_EXPRESSION);
    zr_tokenizer_close(&bpe);
    if (!text) abort();
    memset(text, 'c', LONG);
    zr_data_args args = args_of(put_file("text", text, LONG));
    args.path = strcpy(text, args.path);
    args.vocab_size = 261;
    snprintf(tokenizer, sizeof(tokenizer), "%s", in_tempdir("tokenizer.json"));
    args.tokenizer = tokenizer;
    refused(&args, ZR_ERR_UNSUPPORTED, "4194306 bytes; the tokenizer ");
    assert_int_equal(truncate(args.path, LONG - 2), 0);
    if (zr_data_open_with(&args, &data) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_int_equal(zr_data_get_info(data).tokens, LONG - 2);
    zr_data_close(&data);
    free(text);
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* Count the names in the cache that contain `ending`; *one is the last name found. */
static int cached(const char *ending, char one[PATH_MAX])
{
    int n = 0;
    DIR *dir = opendir(in_tempdir("cache/tokens"));
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strstr(e->d_name, ending)) continue;
        snprintf(one, PATH_MAX, "%s/cache/tokens/%s", tempdir, e->d_name);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

static int empty_cache(void **state)
{
    char one[PATH_MAX];
    (void)state;
    while (cached("", one) > 2) {
        DIR *dir = opendir(in_tempdir("cache/tokens"));
        for (struct dirent *e; (e = readdir(dir));)
            if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
        closedir(dir);
    }
    return 0;
}

/* Create a file that takes a while to encode. */
static const char *many_lines(const char *name)
{
    FILE *file = fopen(put_file(name, "", 0), "wb");
    if (!file) abort();
    for (int i = 0; i < 20000; i++) fprintf(file, "{\"text\": \"line %d of a text that takes a while\"}\n", i);
    fclose(file);
    return in_tempdir(name);
}

static const char image[] = "{\"text\": \"a text in the cache\"}\n";
static const char text[] = "a text in the cache\n";

static void tokens_are_made_once(void **state)
{
    (void)state;
    char one[PATH_MAX], other[PATH_MAX];
    struct stat first, again;
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    reads_as(&args, text);
    assert_int_equal(cached(".tokens", one), 1);
    assert_int_equal(stat(one, &first), 0);
    reads_as(&args, text);
    const zr_data_args copy = args_of(put_file("copy.jsonl", image, strlen(image)));
    reads_as(&copy, text); /* found by its contents, not its name */
    assert_int_equal(cached(".tokens", other), 1);
    assert_int_equal(stat(one, &again), 0);
    assert_true(first.st_ino == again.st_ino && first.st_mtim.tv_nsec == again.st_mtim.tv_nsec);
    zr_data_args skips = args;
    skips.skip_bad_lines = true;
    reads_as(&skips, text);
    assert_int_equal(cached(".tokens", other), 2);
    assert_int_equal(cached(".part", other), 0);
}

/* The offset of the tokens in a cache file, after its header. */
enum { FIRST_BYTE = 80 };
/* The bytes that a document has in the index after the tokens. */
enum { DOCUMENT_BYTES = 16 };

static void what_is_damaged_is_made_again(void **state)
{
    (void)state;
    char one[PATH_MAX];
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    reads_as(&args, text);
    assert_int_equal(cached(".tokens", one), 1);
    for (off_t at = 0; at < FIRST_BYTE; at += 3) {
        FILE *file = fopen(one, "r+b");
        if (!file) abort();
        fseeko(file, at, SEEK_SET);
        const int was = fgetc(file);
        fseeko(file, at, SEEK_SET);
        fputc(was ^ 4, file);
        fclose(file);
        zr_data *data = NULL;
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        assert_int_equal(zr_data_get_info(data).skipped_lines, 0);
        assert_true(zr_data_get_info(data).bytes_per_token == 19.0 / 20); /* a newline is not part of the text */
        zr_data_close(&data);
        reads_as(&args, text);
    }
    assert_int_equal(truncate(one, FIRST_BYTE + 6), 0);
    reads_as(&args, text);
    assert_int_equal(truncate(one, 7), 0);
    reads_as(&args, text);
}

/* Replace half of the tokens by other valid tokens. */
static void damage_tokens(const char *path, size_t tokens)
{
    FILE *file = fopen(path, "r+b");
    if (!file) abort();
    fseeko(file, FIRST_BYTE + (off_t)(tokens / 2), SEEK_SET);
    for (size_t i = tokens / 2; i < tokens; i++) fputc('x', file);
    fclose(file);
}

static void tokens_that_are_damaged_are_made_again(void **state)
{
    (void)state;
    char one[PATH_MAX], other[PATH_MAX];
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    reads_as(&args, text);
    assert_int_equal(cached(".tokens", one), 1);
    damage_tokens(one, strlen(text));
    for (int turn = 0; turn < 2; turn++) { /* reported once: the cache is then repaired */
        zr_data *data = NULL;
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        const char *told = zr_data_get_info(data).made_again;
        assert_int_equal(strstr(told, "once.jsonl: its tokens in the cache were damaged, so it is tokenized again: ") !=
                             NULL,
                         turn == 0);
        assert_int_equal(told[0] != '\0', turn == 0);
        zr_data_close(&data);
        reads_as(&args, text);
    }
    assert_int_equal(cached(".tokens", other), 1);
    assert_string_equal(one, other);
    assert_int_equal(cached("", other), 3);
}

/* Check that the read of the whole cache is skipped if the caller declares the cache intact. zr__data_check then reads
 * and hashes the tokens, with the same result. Either way the tokens are read only once. */
static void a_cache_that_is_said_to_be_whole(void **state)
{
    (void)state;
    char one[PATH_MAX];
    uint64_t hash[2] = {0, 1};
    zr_data *data = NULL;
    zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    for (int whole = 0; whole < 2; whole++) {
        args.cache_is_whole = whole;
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        bytes_read = 0;
        assert_int_equal(zr__data_check(data, &hash[whole], NULL, NULL), ZR_OK);
        assert_int_equal(bytes_read, whole ? strlen(text) + DOCUMENT_BYTES : 0);
        zr_data_close(&data);
    }
    assert_true(hash[0] == hash[1]);
    assert_int_equal(cached(".tokens", one), 1);
    damage_tokens(one, strlen(text));
    for (int hashed = 0; hashed < 2; hashed++) {
        assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
        assert_int_equal(zr__data_check(data, hashed ? hash : NULL, NULL, NULL), ZR_ERR_DATA);
        assert_non_null(strstr(zr_error_message(), "once.jsonl: its tokens in the cache are damaged; remove "));
        zr_data_close(&data);
    }
    args.cache_is_whole = false;
    reads_as(&args, text);
}

/* Check that a machine that stops does not leave a file with its final name but without its tokens. */
static void a_file_with_its_name_is_on_the_disk(void **state)
{
    (void)state;
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    linked = linked_unsynced = 0;
    memset(written, 0, sizeof(written));
    reads_as(&args, text);
    assert_int_equal(linked, 1);
    assert_int_equal(linked_unsynced, 0);
}

/* Write to the cache and be killed before the end. */
static void write_and_die(const zr_data_args *args)
{
    zr_data *data = NULL;
    const struct rlimit most = {FIRST_BYTE, FIRST_BYTE};
    setrlimit(RLIMIT_FSIZE, &most); /* file size limit: the header alone; SIGXFSZ follows */
    (void)!zr_data_open_with(args, &data);
    _exit(0);
}

/* Check that the remains of a killed process are removed. */
static void a_rest_is_no_hindrance(void **state)
{
    (void)state;
    char one[PATH_MAX];
    int status = 0;
    const zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    const pid_t child = fork();
    if (child == 0) write_and_die(&args);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    assert_int_equal(cached(".part", one), 1);
    assert_int_equal(cached(".lock", one), 1);
    reads_as(&args, text);
    assert_int_equal(cached(".part", one), 0);
    assert_int_equal(cached(".lock", one), 0);
    assert_int_equal(cached(".tokens", one), 1);
}

/* Check that without working locks, as between hosts, a process keeps the file that another process finished first,
 * because its content is equal. */
static void makers_need_no_lock(void **state)
{
    (void)state;
    enum { PROCESSES = 4 };
    char one[PATH_MAX], other[PATH_MAX];
    pid_t child[PROCESSES];
    no_locks = true;
    const zr_data_args args = args_of(many_lines("unlocked.jsonl"));
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i] != 0) continue;
        struct stat mine, now;
        zr_data *data = NULL;
        zr_status st = zr_data_open_with(&args, &data);
        if (st != ZR_OK || cached(".tokens", one) != 1 || stat(one, &mine) != 0) _exit(98);
        usleep(200000);
        _exit(stat(one, &now) == 0 && mine.st_ino == now.st_ino ? 0 : 99);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    no_locks = false;
    assert_int_equal(cached(".tokens", one), 1);
    assert_int_equal(cached(".part", other), 0);
    assert_int_equal(cached(".lock", other), 0);
}

static void many_at_once_make_one_file(void **state)
{
    (void)state;
    enum { PROCESSES = 8 };
    char one[PATH_MAX];
    pid_t child[PROCESSES];
    const zr_data_args args = args_of(many_lines("many.jsonl"));
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i] != 0) continue;
        zr_data *data = NULL;
        zr_status st = zr_data_open_with(&args, &data);
        if (st == ZR_OK) st = zr_data_get_info(data).tokens > 20000 ? ZR_OK : ZR_ERR_INTERNAL;
        _exit((int)st);
    }
    kill(child[PROCESSES / 2], SIGKILL); /* holding the lock or not */
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        if (i != PROCESSES / 2) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ZR_OK);
    }
    assert_int_equal(cached(".tokens", one), 1);
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    char one[PATH_MAX];
    const zr_data_args args = args_of(put_file("fails.jsonl", "{\"text\": 1}\n", 12));
    refused(&args, ZR_ERR_DATA, "fails.jsonl:1");
    assert_int_equal(cached("", one), 2);
    zr_data_args none = args;
    none.cache_dir = put_file("file", "", 0);
    refused(&none, ZR_ERR_CREATE, "file");
    none.cache_dir = "";
    refused(&none, ZR_ERR_CONFIG, "data.cache_dir is empty");
}

static void told(void *arg, int64_t done, int64_t all)
{
    int64_t *most = arg;
    assert_true(done <= all);
    if (done > *most) *most = done;
}

static void progress_is_told(void **state)
{
    (void)state;
    int64_t most = 0;
    zr_data *data = NULL;
    zr_data_args args = args_of(put_file("once.jsonl", image, strlen(image)));
    args.progress = told;
    args.arg = &most;
    assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
    assert_int_equal(most, strlen(image));
    zr_data_close(&data);
    most = 0; /* the cached tokens are found by a hash, which takes time too */
    assert_int_equal(zr_data_open_with(&args, &data), ZR_OK);
    assert_int_equal(most, strlen(image));
    zr_data_close(&data);
}

static void a_look_makes_nothing(void **state)
{
    (void)state;
    char one[PATH_MAX], note[256];
    bool is_text = false;
    assert_int_equal(zr__data_look(put_file("look.jsonl", image, strlen(image)), false, &is_text, NULL, 0), ZR_OK);
    assert_true(is_text);
    assert_int_equal(cached("", one), 2);
    assert_int_equal(
        zr__data_look(put_file("odd.txt", "not UTF-8: \xff, and more", 22), false, &is_text, note, sizeof(note)),
        ZR_OK);
    assert_non_null(strstr(note, "byte 11 is not UTF-8"));
    assert_int_equal(zr__data_look(put_file("t.bin", "1234", 4), false, &is_text, note, sizeof(note)), ZR_OK);
    assert_true(!is_text && !note[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(texts_stand_behind_each_other, empty_cache),
        cmocka_unit_test_setup(the_member_has_a_name, empty_cache),
        cmocka_unit_test_setup(bad_lines_are_named_or_left_out, empty_cache),
        cmocka_unit_test_setup(a_line_has_a_longest_length, empty_cache),
        cmocka_unit_test_setup(a_long_file_is_read_in_parts, empty_cache),
        cmocka_unit_test_setup(records_have_shapes, empty_cache),
        cmocka_unit_test_setup(records_are_refused, empty_cache),
        cmocka_unit_test_setup(other_files_are_text, empty_cache),
        cmocka_unit_test_setup(a_long_array_is_read_in_parts, empty_cache),
        cmocka_unit_test_setup(a_record_has_a_longest_length, empty_cache),
        cmocka_unit_test_setup(parts_of_a_text_are_all_of_it, empty_cache),
        cmocka_unit_test(parts_have_the_tokens_of_the_whole),
        cmocka_unit_test(lines_have_the_tokens_of_their_texts),
        cmocka_unit_test(a_text_without_cuts_is_bounded),
        cmocka_unit_test(no_character_is_cut),
        cmocka_unit_test(a_text_that_is_never_cut_must_be_short),
        cmocka_unit_test_setup(tokens_are_made_once, empty_cache),
        cmocka_unit_test_setup(what_is_damaged_is_made_again, empty_cache),
        cmocka_unit_test_setup(tokens_that_are_damaged_are_made_again, empty_cache),
        cmocka_unit_test_setup(a_cache_that_is_said_to_be_whole, empty_cache),
        cmocka_unit_test_setup(a_file_with_its_name_is_on_the_disk, empty_cache),
        cmocka_unit_test_setup(a_rest_is_no_hindrance, empty_cache),
        cmocka_unit_test_setup(makers_need_no_lock, empty_cache),
        cmocka_unit_test_setup(many_at_once_make_one_file, empty_cache),
        cmocka_unit_test_setup(a_failure_leaves_nothing, empty_cache),
        cmocka_unit_test_setup(progress_is_told, empty_cache),
        cmocka_unit_test_setup(a_look_makes_nothing, empty_cache),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
