//TEST timeout=60
/* The fuzzer's corpus of manifests: what each entry gives, and the entries with damage, replayed through the fuzz
 * target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fuzz/manifest.c"
#include "support/corpus_replay.h"

/* For each entry with a valid checksum appended: the beginning of the refusal's message, which follows the manifest's
 * name, or what was read: for each file its name and bytes, and for each of its chunks offset+bytes. */
static const struct {
    const char *entry, *wanted;
} corpus[] = {
    {"array", "2:1: end of file expected"},
    {"bytes", "1:1: unable to decode byte 0xff"},
    {"chunks", "a 8388613: 0+1 1+4194302 4194303+1 4194304+1 4194305+4194303 8388608+5;"},
    {"deep_run", "1:425: run.a.a."},
    {"empty_file", "a 0:;"},
    {"ends_down", " a: an end at 3: ends ascend, are no multiples of 4194304, and below 9"},
    {"ends_multiple", " a: an end at 4194304: ends ascend, are no multiples of 4194304, and below 9000000"},
    {"ends_past", " a: an end at 9: ends ascend, are no multiples of 4194304, and below 9"},
    {"escape", "a 1: 0+1;"},
    {"few_hashes", " a: 16 bytes of hashes, its 2 chunks have 33"},
    {"hash_inside", "2:1: end of file expected"},
    {"huge_bytes", " a: 16 bytes of hashes, its 67108864 chunks have 1140850687"},
    {"huge_format", "1:12: format: too big integer"},
    {"negative_step", " \"step\": wanted an integer 0 .. 9007199254740992, got -5"},
    {"newer", " \"build\": wanted a text, got missing"},
    {"no_files", " it lists 0 files, wanted 1 to 1024"},
    {"nothing", " it does not end with its checksum, so it is cut off, damaged or not a manifest"},
    {"order", "a 1: 0+1;"},
    {"past_bytes", " a: \"bytes\": wanted an integer 0 .. 281474976710656, got 999999999999999999"},
    {"run_array", " \"run\": wanted an object, got []"},
    {"run_duplicate", "1:56: run.a: duplicate object key"},
    {"run_open", "1:60: run.a[0]: ']' expected"},
    {"self", " \"manifest.json\" is not the name of a file of a checkpoint"},
    {"slash", " \"../a\" is not the name of a file of a checkpoint"},
    {"slices", "a 24: 0+8 8+2 10+2 12+2 13+2 16+8;"},
    {"slices_huge", " a: 16 bytes of hashes, its 67108864 chunks have 1140850687"},
    {"slices_of_nothing", " a: slices of 0 bytes, of rows of 4 in bytes 8 .. 16: wanted whole rows of several "
                          "slices each, in ascending order"},
    {"slices_overlap", " a: slices of 2 bytes, of rows of 4 in bytes 12 .. 20: wanted whole rows of several "
                       "slices each, in ascending order"},
    {"slices_past_ends",
     " a: \"ends\" and \"slices\" do not fit each other: a chunk in bytes 8 .. 24 and slices in 8 .. 16"},
    {"slices_rows", "a 4194305: 0+1 1+2097152 2097153+2097151 4194304+1;"},
    {"twice", " the file a is listed twice"},
    {"unknown", " it has members that are not known"},
    {"upper_hash", " a: \"xxh3\": hash 0 is not 16 hex digits and a space"},
    {"whole", "config.json 120: 0+120; model.safetensors 9000: 0+4096 4096+904 5000+4000;"},
};
enum { ENTRIES = sizeof(corpus) / sizeof(*corpus) };

/* Write what was read to `text`. */
static void describe(const zr__manifest *m, char text[512])
{
    size_t at = 0;
    for (int f = 0; f < m->n_files; f++) {
        const zr__manifest_file *file = &m->file[f];
        at += (size_t)snprintf(text + at, 512 - at, "%s%s %lld:", f ? " " : "", file->name, (long long)file->bytes);
        for (int64_t i = 0; i < file->n_chunks; i++)
            at += (size_t)snprintf(text + at, 512 - at, " %lld+%lld", (long long)file->chunk[i].offset,
                                   (long long)file->chunk[i].bytes);
        at += (size_t)snprintf(text + at, 512 - at, ";");
        assert_true(at < 512);
    }
}

static void entries_give_what_is_right(void **state)
{
    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        char text[CORPUS_ROOM + ZR_MANIFEST_TAIL_BYTES + 1], got[512] = "";
        zr__manifest *m = NULL;
        const size_t n = corpus_read(corpus_folder("manifest").path, corpus[i].entry, (uint8_t *)text);
        /* Without its checksum at its end, no entry is a manifest. */
        assert_int_equal(zr__manifest_parse("entry", text, n, &m), ZR_ERR_DATA);
        assert_non_null(strstr(zr_error_message(), "checksum"));
        snprintf(text + n, ZR_MANIFEST_TAIL_BYTES + 1, "\"xxh3\": \"%016" PRIx64 "\"}\n",
                 zr__chunk_hash((uint8_t *)text, (int64_t)n));
        const zr_status st = zr__manifest_parse("entry", text, n + ZR_MANIFEST_TAIL_BYTES, &m);
        if (st == ZR_OK)
            describe(m, got);
        else
            snprintf(got, sizeof(got), "%s", zr_error_message() + strlen("entry:"));
        const bool accepted = strchr(corpus[i].wanted, ';') != NULL;
        if (st != (accepted ? ZR_OK : ZR_ERR_DATA) || strncmp(got, corpus[i].wanted, strlen(corpus[i].wanted)) != 0)
            fail_msg("%s: %s\nwanted: %s", corpus[i].entry, got, corpus[i].wanted);
        zr__manifest_free(&m);
    }
}

/* Replay the corpus, which must have no entry that the table lacks. */
static void damage_is_survived(void **state)
{
    (void)state;
    assert_int_equal(corpus_replay("manifest", ENTRIES, 4), ENTRIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries_give_what_is_right),
                                       cmocka_unit_test(damage_is_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
