//TEST timeout=60
/* Manifests: a written manifest is read back, and a manifest that no writer produces is refused even if its checksums
 * match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "checkpoint/manifest.h"
#include "checkpoint_make.h"
#include "slices_naive.h"
#include "support/tempdir.h"
#include "base/core/core.h"
#include "checkpoint/checkpoint.h"

enum { ROOM = 1 << 16 };

/* Parse `body` with a valid checksum appended. */
static zr_status parse_signed(const char *body, zr__manifest **m)
{
    static char text[ROOM];
    size_t n = strlen(body);
    int more = snprintf(text + n, ROOM - n, "\"xxh3\": \"%016" PRIx64 "\"}\n", (uint64_t)XXH3_64bits(body, n));
    memcpy(text, body, n);
    return zr__manifest_parse("x/manifest.json", text, n + (size_t)more, m);
}

#define HEAD "{\"format\": 1, \"build\": \"0\", \"step\": 5, \"run\": {}, \"files\": ["
#define HEAD2 "{\"format\": 2, \"build\": \"0\", \"step\": 5, \"run\": {}, \"files\": ["
/* A file of 24 bytes: 8 ordinary bytes, rows of 4 in two slices, 8 ordinary bytes. */
#define SLICED(ends, slices, hashes)                                                                                   \
    HEAD2 "{\"name\": \"a\", \"bytes\": 24, \"ends\": [" ends "], \"slices\": [" slices "], \"xxh3\": \"" hashes       \
          "\"}], "
#define H2 HASH " " HASH
#define H4 H2 " " H2
#define ONE "{\"name\": \"a\", \"bytes\": 1, \"ends\": [], \"xxh3\": \"0123456789abcdef\"}"
#define HASH "0123456789abcdef"

static void what_is_written_is_read(void **state)
{
    (void)state;
    const int64_t C = ZR_CHUNK_BYTES;
    const zr__chunk large[] = {{2 * C, 3, 1},     {0, 5, 2},         {5, C - 5, UINT64_MAX}, {C, 1, 4},
                               {C + 1, C - 2, 5}, {2 * C - 1, 1, 6}, {2 * C + 3, 7, 0}};
    const zr__chunk exact[] = {{0, C, 7}, {C, C, 8}}, small[] = {{0, 1, 9}};
    const zr__manifest_file file[] = {{"large.safetensors", 2 * C + 10, large, 7, NULL, 0},
                                      {"exact", 2 * C, exact, 2, NULL, 0},
                                      {"empty", 0, NULL, 0, NULL, 0},
                                      {"A-b_c.0", 1, small, 1, NULL, 0}};
    const char *run = "{\n  \"a\": [1, {\n    \"}\": \"\\\"]\"\n  }],\n  \"\xc3\xa9\": 0.001\n}\n";
    const zr__manifest m = {.step = (int64_t)1 << 53, .build = "0.1.0 (x)", .run = run, .file = file, .n_files = 4};
    zr__manifest *read = NULL;
    mkdir(in_tempdir("round"), 0777);
    assert_int_equal(zr__manifest_write(in_tempdir("round"), &m), ZR_OK);
    assert_int_equal(zr__manifest_write(in_tempdir("round"), &m), ZR_ERR_CREATE);
    assert_int_equal(zr__manifest_load(in_tempdir("round"), &read), ZR_OK);
    assert_int_equal(read->step, m.step);
    assert_string_equal(read->build, m.build);
    assert_string_equal(read->run, run);
    assert_int_equal(read->n_files, 4);
    for (int f = 0; f < 4; f++) {
        const zr__manifest_file *got = zr__manifest_find(read, file[f].name);
        assert_ptr_equal(got, &read->file[f]);
        assert_int_equal(got->bytes, file[f].bytes);
        assert_int_equal(got->n_chunks, file[f].n_chunks);
        for (int64_t i = 0, at = 0; i < got->n_chunks; at += got->chunk[i++].bytes) {
            int64_t k = 0;
            while (file[f].chunk[k].offset != at) k++;
            assert_memory_equal(&got->chunk[i], &file[f].chunk[k], sizeof(zr__chunk));
        }
    }
    assert_null(zr__manifest_find(read, "none"));
    zr__manifest_free(&read);
    zr__manifest_free(&read);
    /* The listed files do not exist. */
    assert_int_equal(zr__manifest_read(in_tempdir("round"), &read), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "round/large.safetensors"));
    assert_null(read);
}

/* Check that slices can be read that begin and end anywhere relative to chunks. Ranks list them in any order, and each
 * rank may list its neighbours' slices too. */
static void slices_are_read(void **state)
{
    (void)state;
    const int64_t C = ZR_CHUNK_BYTES, rows = 7000;
    const zr__slices s[] = {{100, 100 + 1000 * rows, 1000, 250},
                            {100 + 1000 * rows, 100 + 1300 * rows, 300, 100},
                            {3 * C - 7, 3 * C + 7, 14, 1},
                            {3 * C + 8, 5 * C + 8, 2 * C, C}};
    const zr__slices given[] = {s[3], s[1], s[0], s[1], s[2], s[0]};
    const int64_t ends[] = {100, s[0].end, s[1].end, s[2].begin, s[2].end, s[3].begin, s[3].end, 5 * C + 9};
    zr__chunk chunk[128], mixed[128];
    const int64_t n = naive_chunks(s, 4, ends, 8, NULL, chunk);
    assert_true(n < 128);
    for (int64_t i = 0; i < n; i++) {
        chunk[i].hash = (uint64_t)i * 11400714819323198485u;
        mixed[i * 7 % n] = chunk[i];
    }
    assert_true(n % 7);
    const zr__chunk one[] = {{0, 1, 9}};
    const zr__manifest_file file[] = {{"a", ends[7], mixed, n, given, 6}, {"b", 1, one, 1, NULL, 0}};
    const zr__manifest m = {.step = 7, .build = "b", .run = "{}", .file = file, .n_files = 2};
    zr__manifest *read = NULL;
    mkdir(in_tempdir("sliced"), 0777);
    assert_int_equal(zr__manifest_write(in_tempdir("sliced"), &m), ZR_OK);
    assert_int_equal(zr__manifest_load(in_tempdir("sliced"), &read), ZR_OK);
    assert_int_equal(read->file[0].n_chunks, n);
    assert_memory_equal(read->file[0].chunk, chunk, (size_t)n * sizeof *chunk);
    assert_int_equal(read->file[0].n_slices, 4);
    assert_memory_equal(read->file[0].slices, s, sizeof s);
    assert_int_equal(read->file[1].n_slices, 0);
    zr__manifest_free(&read);
}

/* Check that chunks that do not tile a file with its slices are not written, and neither are invalid slices. */
static void bad_slices_are_not_written(void **state)
{
    (void)state;
    const zr__slices good = {8, 16, 4, 2}, bad[] = {{8, 16, 4, 4}, {8, 16, 4, 3},  {8, 16, 4, 0},  {8, 16, 0, 2},
                                                    {8, 15, 4, 2}, {8, 8, 4, 2},   {16, 8, 4, 2},  {-4, 4, 4, 2},
                                                    {8, 32, 4, 2}, {8, 16, 4, -2}, {8, 16, -4, 2}, {7, 15, 4, 2}};
    const zr__chunk whole[] = {{0, 8, 1}, {8, 4, 2}, {10, 4, 3}, {16, 8, 4}};
    zr__chunk chunk[6];
    zr__slices slices[2] = {good, good};
    zr__manifest_file file = {"a", 24, chunk, 4, slices, 2};
    zr__manifest m = {.step = 1, .build = "b", .run = "{}", .file = &file, .n_files = 1};
    const char *dir = in_tempdir("unsliced");
    mkdir(dir, 0777);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(chunk, whole, sizeof whole);
        slices[0] = bad[i];
        if (zr__manifest_write(dir, &m) != ZR_ERR_INTERNAL) fail_msg("slices %zu were written", i);
        file.n_slices = 1;
        if (zr__manifest_write(dir, &m) != ZR_ERR_INTERNAL) fail_msg("slices %zu were written alone", i);
        file.n_slices = 2;
    }
    slices[0] = good;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            memcpy(chunk, whole, sizeof whole);
            if (j == 0) memmove(chunk + i, chunk + i + 1, (size_t)(3 - i) * sizeof *chunk); /* a gap */
            if (j == 1) chunk[4] = whole[i];                                                /* a duplicate */
            if (j == 2) chunk[i].bytes--;
            if (j == 3) chunk[i].offset++;
            file.n_chunks = j == 0 ? 3 : j == 1 ? 5 : 4;
            if (zr__manifest_write(dir, &m) != ZR_ERR_INTERNAL) fail_msg("chunk %d, fault %d was written", i, j);
        }
    memcpy(chunk, whole, sizeof whole);
    file.n_chunks = 4;
    chunk[0].bytes = 10; /* overlaps the slices */
    chunk[1] = (zr__chunk){10, 4, 2};
    chunk[2] = (zr__chunk){12, 4, 3};
    assert_int_equal(zr__manifest_write(dir, &m), ZR_ERR_INTERNAL);
    file.n_slices = -1;
    assert_int_equal(zr__manifest_write(dir, &m), ZR_ERR_INTERNAL);
    file.n_slices = 2;
    memcpy(chunk, whole, sizeof whole);
    assert_int_equal(zr__manifest_write(dir, &m), ZR_OK);
}

static void bad_manifests_are_not_written(void **state)
{
    (void)state;
    const int64_t C = ZR_CHUNK_BYTES;
    const zr__chunk one[] = {{0, 10, 1}}, gap[] = {{0, 4, 1}, {5, 5, 1}}, twice[] = {{0, 5, 1}, {0, 5, 1}, {5, 5, 1}},
                    across[] = {{0, C + 1, 1}}, none[] = {{0, 5, 1}, {5, 0, 1}, {5, 5, 1}}, late[] = {{1, 9, 1}},
                    shifted[] = {{0, 5, 1}, {6, 5, 1}};
    const zr__manifest_file good = {"a", 10, one, 1, NULL, 0};
    const zr__manifest_file bad[] = {{"a", 9, one, 1, NULL, 0},        {"a", 11, one, 1, NULL, 0},
                                     {"a", 10, gap, 2, NULL, 0},       {"a", 10, twice, 3, NULL, 0},
                                     {"a", C + 1, across, 1, NULL, 0}, {"a", 10, none, 3, NULL, 0},
                                     {"a", 10, late, 1, NULL, 0},      {"a", 9, late, 1, NULL, 0},
                                     {"a", 10, shifted, 2, NULL, 0},   {"", 10, one, 1, NULL, 0},
                                     {"a/b", 10, one, 1, NULL, 0},     {"..", 10, one, 1, NULL, 0},
                                     {".a", 10, one, 1, NULL, 0},      {"a\"", 10, one, 1, NULL, 0},
                                     {"a\n", 10, one, 1, NULL, 0},     {"manifest.json", 10, one, 1, NULL, 0},
                                     {"a", -1, NULL, 0, NULL, 0},      {"a", 10, one, -1, NULL, 0},
                                     {"a", 10, NULL, 0, NULL, 0}};
    zr__manifest m = {.step = 1, .build = "b", .run = "{}", .n_files = 1};
    mkdir(in_tempdir("unwritten"), 0777);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        m.file = &bad[i];
        if (zr__manifest_write(in_tempdir("unwritten"), &m) != ZR_ERR_INTERNAL) fail_msg("%zu was written", i);
    }
    const zr__manifest_file same[] = {good, good};
    static const char *const runs[] = {
        "", "[]", "1", "{", "{}{}", "{\"a\": 1, \"a\": 2}", "{\"a\": nan}", "{\"\xff\": 1}"};
    static const char *const builds[] = {"\"", "\\", "\n", "\xc3\xa9"};
    m.file = same;
    m.n_files = 2;
    assert_int_equal(zr__manifest_write(in_tempdir("unwritten"), &m), ZR_ERR_INTERNAL);
    m.n_files = 0;
    assert_int_equal(zr__manifest_write(in_tempdir("unwritten"), &m), ZR_ERR_INTERNAL);
    m.n_files = 1;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        m.run = runs[i];
        if (zr__manifest_write(in_tempdir("unwritten"), &m) != ZR_ERR_INTERNAL) fail_msg("run %zu was written", i);
    }
    m.run = "{}";
    for (size_t i = 0; i < sizeof builds / sizeof builds[0]; i++) {
        m.build = builds[i];
        if (zr__manifest_write(in_tempdir("unwritten"), &m) != ZR_ERR_INTERNAL) fail_msg("build %zu was written", i);
    }
    m.build = "b";
    m.step = -1;
    assert_int_equal(zr__manifest_write(in_tempdir("unwritten"), &m), ZR_ERR_INTERNAL);
    assert_int_equal(access(in_tempdir("unwritten/manifest.json"), F_OK), -1);
    m.step = 0;
    assert_int_equal(zr__manifest_write(in_tempdir("unwritten"), &m), ZR_OK);
    assert_int_equal(zr__manifest_write(in_tempdir("nowhere"), &m), ZR_ERR_CREATE);
}

static void forged_manifests_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *fragment;
    } bad[] = {
        {HEAD ONE "], ", NULL},
        {HEAD "{\"name\": \"a\", \"bytes\": 0, \"ends\": [], \"xxh3\": \"\"}], ", NULL},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [3, 8], \"xxh3\": \"" HASH " " HASH " " HASH "\"}], ", NULL},
        {"{\"format\": 3, \"anything\": true, ",
         "format 3, this zr (0.1.0) reads formats 1 to 2; it was written by a newer zr"},
        {"{\"format\": 0, \"build\": \"0\", ", "format 0, this zr (0.1.0) reads formats 1 to 2"},
        {"{\"format\": -1, ", "\"format\": wanted an integer"},
        {"{\"format\": 1e0, ", "\"format\": wanted an integer"},
        {"{\"format\": 99999999999999999999, ", "format: too big integer"},
        {"{\"step\": 1, ", "\"format\": wanted an integer 0 .. 2147483647, got missing"},
        {"[", "1:8: [0]: ']' expected"},
        {"{\"format\": 1, \"format\": 1, ", "format: duplicate object key"},
        {"{\"format\": 1, \"build\": 7, ", "\"build\": wanted a text, got 7"},
        {"{\"format\": 1, \"build\": \"a\\n\", ", "printable ASCII"},
        {"{\"format\": 1, \"build\": \"0\", \"step\": -5, ", "\"step\": wanted"},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 05, ", "1:37: step: invalid token"},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 9007199254740993, ", "\"step\": wanted"},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 5, \"run\": [], \"files\": [" ONE "], ",
         "\"run\": wanted an object, got []"},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 5, \"run\": 3, \"files\": [" ONE "], ",
         "\"run\": wanted an object, got 3"},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 5, \"run\": {\"a\": 1, \"a\": 1}, ", "duplicate"},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 5, \"run\": {\"a\": ", "1:59: run.a: "},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 5, \"run\": {\"a\" 1}, ", "1:52: run.a: "},
        {"{\"format\": 1, \"build\": \"0\", \"step\": 5, \"run\": [{\"a\": ", "1:60: run[0].a: "},
        {HEAD "], ", "it lists 0 files"},
        {HEAD ONE ", " ONE "], ", "is listed twice"},
        {HEAD ONE ",], ", "remove the comma"},
        {HEAD ONE "} , ", "files[0]: ']' expected"},
        {HEAD ONE "], \"more\": 1, ", "not known"},
        {HEAD ONE "]", "a comma is missing"},
        {HEAD ONE "], \"xxh3\": \"0123456789abcdef\", ", "xxh3: duplicate object key"},
        {HEAD "{\"name\": \"../a\", \"bytes\": 1}], ", "is not the name of a file of a checkpoint"},
        {HEAD "{\"name\": \"a/b\", \"bytes\": 1}], ", "is not the name of a file of a checkpoint"},
        {HEAD "{\"name\": \"\", \"bytes\": 1}], ", "is not the name of a file of a checkpoint"},
        {HEAD "{\"name\": \"manifest.json\", \"bytes\": 1}], ", "is not the name of a file of a checkpoint"},
        {HEAD "{\"name\": \".\", \"bytes\": 1}], ", "is not the name of a file of a checkpoint"},
        {HEAD "{\"name\": \"a\\u002f\", \"bytes\": 1}], ", "is not the name of a file of a checkpoint"},
        {HEAD "{\"bytes\": 1}], ", "\"name\": wanted a text, got missing"},
        {HEAD "{\"name\": \"a\", \"bytes\": -1}], ", "\"bytes\": wanted"},
        {HEAD "{\"name\": \"a\", \"bytes\": 281474976710657}], ", "\"bytes\": wanted"},
        {HEAD "{\"name\": \"a\", \"bytes\": 1.0}], ", "\"bytes\": wanted"},
        {HEAD "{\"name\": \"a\", \"bytes\": \"1\"}], ", "\"bytes\": wanted"},
        {HEAD "{\"name\": \"a\", \"bytes\": 281474976710656, \"ends\": [], \"xxh3\": \"" HASH "\"}], ",
         "67108864 chunks"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [3, 3]}], ", "an end at 3"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [5, 3]}], ", "an end at 3"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [0]}], ", "an end at 0"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [9]}], ", "an end at 9"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [10]}], ", "\"ends\": wanted"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [-1]}], ", "\"ends\": wanted"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [3,]}], ", "files[0].ends[0]: remove the comma"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [3 4]}], ", "files[0].ends[0]: a comma is missing"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": 3}], ", "\"ends\": wanted a list, got 3"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9000000, \"ends\": [4194304]}], ", "an end at 4194304"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [3], \"xxh3\": \"" HASH "\"}], ", "its 2 chunks have 33"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [], \"xxh3\": \"" HASH " " HASH "\"}], ",
         "its 1 chunks have 16"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [3], \"xxh3\": \"" HASH "," HASH "\"}], ", "hash 0 is not"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [], \"xxh3\": \"0123456789ABCDEF\"}], ", "hash 0 is not"},
        {HEAD "{\"name\": \"a\", \"bytes\": 9, \"ends\": [], \"xxh3\": \"0123456789abcde\"}], ", "15 bytes of hashes"},
        {SLICED("8, 16", "[8, 16, 4, 2]", H4), NULL},
        {SLICED("8, 12, 16", "[8, 12, 4, 2], [12, 16, 2, 1]", H4 " " H2), NULL},
        {SLICED("4", "[0, 4, 4, 1], [4, 24, 20, 10]", H4 " " H2), NULL},
        {SLICED("8", "", H2), NULL},
        {HEAD "{\"name\": \"a\", \"bytes\": 2, \"ends\": [], \"slices\": [[0, 2, 2, 1]], \"xxh3\": \"" H2 "\"}], ",
         "its 1 chunks have 16"},
        {HEAD "{\"name\": \"a\", \"bytes\": 1, \"ends\": [], \"slices\": [], \"xxh3\": \"" HASH "\"}], ",
         "a: it has members that are not known"},
        {HEAD "{\"name\": \"a\", \"bytes\": 1, \"ends\": []}], ", "a: \"xxh3\": wanted a text, got missing"},
        {HEAD2 ONE "], ", "\"slices\": wanted a list, got missing"},
        {SLICED("8, 16", "[8, 16, 4, 2]", H2 " " HASH), "its 4 chunks have 67"},
        {SLICED("8, 16", "[8, 16, 4, 1]", H4), "its 6 chunks have 101"},
        {SLICED("8, 16", "[8, 16, 4, 2]", HASH " " HASH "," H2), "hash 1 is not"},
        {SLICED("8, 16", "[8, 16, 4, 2],", H4), "remove the comma"},
        {SLICED("8, 16", "[8, 16, 4, 2] [", H4), "a comma is missing"},
        {SLICED("8, 16", "[8, 16, 4]", H4), "wanted four integers, got [8, 16, 4]"},
        {SLICED("8, 16", "[8, 16, 4, 2, 1]", H4), "wanted four integers"},
        {SLICED("8, 16", "8, 16, 4, 2", H4), "wanted four integers, got 8"},
        {SLICED("8, 16", "[8, 16, 4, -2]", H4), "\"slices\": wanted an integer"},
        {SLICED("8, 16", "[8, 16, 4, \"2\"]", H4), "\"slices\": wanted an integer"},
        {SLICED("8, 16", "[8, 25, 4, 2]", H4), "\"slices\": wanted an integer 0 .. 24"},
        {SLICED("8, 16", "[8, 16, 4, 0]", H4), "wanted whole rows"},
        {SLICED("8, 16", "[8, 16, 4, 4]", H4), "wanted whole rows"},
        {SLICED("8, 16", "[8, 16, 4, 3]", H4), "wanted whole rows"},
        {SLICED("8, 16", "[8, 16, 0, 2]", H4), "wanted whole rows"},
        {SLICED("8, 16", "[8, 14, 4, 2]", H4), "wanted whole rows"},
        {SLICED("8, 16", "[8, 8, 4, 2]", H4), "wanted whole rows"},
        {SLICED("8, 16", "[16, 8, 4, 2]", H4), "wanted whole rows"},
        {SLICED("8, 16", "[8, 16, 4, 2], [8, 16, 4, 2]", H4 " " H2), "in ascending order"},
        {SLICED("8, 16, 20", "[16, 20, 4, 2], [8, 16, 4, 2]", H4 " " H2), "in ascending order"},
        {SLICED("8, 16, 20", "[8, 16, 4, 2], [12, 20, 4, 2]", H4 " " H2 " " HASH), "in ascending order"},
        {SLICED("8", "[8, 16, 4, 2]", H2 " " HASH), "do not fit each other"},
        {SLICED("16", "[8, 16, 4, 2]", H2 " " HASH), "do not fit each other"},
        {SLICED("8, 12, 16", "[8, 16, 4, 2]", H4 " " HASH), "do not fit each other"},
        {SLICED("8, 17", "[8, 16, 4, 2]", H4), "do not fit each other"},
        {SLICED("7, 16", "[8, 16, 4, 2]", H4), "do not fit each other"},
        {SLICED("", "[8, 16, 4, 2]", H2), "do not fit each other"},
        {HEAD2 "{\"name\": \"a\", \"bytes\": 281474976710656, \"ends\": [], \"slices\": [[0, 281474976710656, "
               "281474976710656, 1]], \"xxh3\": \"" HASH "\"}], ",
         "16 bytes of hashes"},
        {HEAD2 "{\"name\": \"a\", \"bytes\": 4194304, \"ends\": [], \"slices\": [[0, 4194304, 4194304, 1]], \"xxh3\": "
               "\"" HASH "\"}], ",
         "16 bytes of hashes"},
        {"", "or not a manifest"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        zr__manifest *m = NULL;
        zr_status st = parse_signed(bad[i].body, &m);
        zr__manifest_free(&m);
        if (st == (bad[i].fragment ? ZR_ERR_DATA : ZR_OK) &&
            (!bad[i].fragment ||
             (strstr(zr_error_message(), bad[i].fragment) && strstr(zr_error_message(), "x/manifest.json"))))
            continue;
        fail_msg("%s: %d: %s; wanted \"%s\"", bad[i].body, st, zr_error_message(), bad[i].fragment);
    }
}

/* Check that reading a manifest never takes more memory than a few times its size, whatever its content. */
static void memory_follows_the_text(void **state)
{
    (void)state;
    static char body[ROOM];
    size_t n = (size_t)snprintf(body, ROOM, "%s", HEAD "{\"name\": \"a\", \"bytes\": 281474976710656, \"ends\": [");
    for (int i = 1; n < ROOM - 200; i++) n += (size_t)snprintf(body + n, ROOM - n, "%s%d", i > 1 ? "," : "", i);
    snprintf(body + n, ROOM - n, "], \"xxh3\": \"" HASH "\"}], ");
    zr__manifest *m = NULL;
    int64_t before = zr__alloc_taken();
    assert_int_equal(parse_signed(body, &m), ZR_ERR_DATA);
    assert_true(zr__alloc_taken() - before < 4096);

    n = (size_t)snprintf(body, ROOM, "%s%s", HEAD, "{\"name\": \"a\", \"bytes\": 3000, \"ends\": [");
    for (int i = 1; i < 3000; i++) n += (size_t)snprintf(body + n, ROOM - n, "%s%d", i > 1 ? "," : "", i);
    n += (size_t)snprintf(body + n, ROOM - n, "], \"xxh3\": \"");
    for (int i = 0; i < 3000 && n < ROOM - 100; i++) n += (size_t)snprintf(body + n, ROOM - n, "%s" HASH, i ? " " : "");
    snprintf(body + n, ROOM - n, "\"}], ");
    before = zr__alloc_taken();
    assert_int_equal(parse_signed(body, &m), ZR_OK);
    assert_int_equal(m->file[0].n_chunks, 3000);
    assert_true(zr__alloc_taken() - before < 2 * (int64_t)strlen(body));
    zr__manifest_free(&m);
}

static void names_of_steps(void **state)
{
    (void)state;
    static const struct {
        int64_t step;
        const char *name;
    } good[] = {{0, "step-00000000"},
                {1000, "step-00001000"},
                {99999999, "step-99999999"},
                {123456789012, "step-123456789012"},
                {(int64_t)1 << 53, "step-9007199254740992"}};
    static const char *const bad[] = {"step-",
                                      "step-1",
                                      "step-0000100",
                                      "step-000001000",
                                      "step-00001000.tmp",
                                      "step-00001000 ",
                                      "step--0001000",
                                      "step-+0001000",
                                      "Step-00001000",
                                      "latest",
                                      "",
                                      "step-9007199254740993",
                                      "step-99999999999999999999",
                                      "step-0x001000"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char name[ZR_CHECKPOINT_NAME_BYTES];
        zr_checkpoint_name(good[i].step, name);
        assert_string_equal(name, good[i].name);
        assert_int_equal(zr__checkpoint_step(name), good[i].step);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_int_equal(zr__checkpoint_step(bad[i]), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(slices_are_read),
        cmocka_unit_test(bad_slices_are_not_written),
        cmocka_unit_test(bad_manifests_are_not_written),
        cmocka_unit_test(forged_manifests_are_refused),
        cmocka_unit_test(memory_follows_the_text),
        cmocka_unit_test(names_of_steps),
    };
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
