//TEST timeout=120 long=more
/* A small checkpoint damaged in every byte, truncated, mixed with another, or linked is refused with the name of the
 * file, or proven harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "checkpoint_make.h"
#include "support/long.h"
#include "support/tempdir.h"

enum { ROOM = 1 << 14, BITS = 3, FILES = MADE_FILES + 1 };
static const char *const names[FILES] = {"config.json", "model.safetensors", "exp_avg.safetensors", "manifest.json"};
static char run[128], dir[256], report[1 << 14];
static bool in_columns;

/* Create a run's directory with one complete checkpoint, of step 5. */
static int fresh(void **state)
{
    static int n;
    (void)state;
    snprintf(run, sizeof run, "%s/run%d", tempdir, n++);
    snprintf(dir, sizeof dir, "%s/step-00000005", run);
    in_columns = made_in_columns;
    return mkdir(run, 0777) || made_checkpoint(run, 5) != ZR_OK;
}

/* Create the same checkpoint, but written by tensor-parallel ranks. */
static int fresh_in_columns(void **state)
{
    made_in_columns = true;
    int made = fresh(state);
    made_in_columns = false;
    return made;
}

static size_t take(const char *name, char *bytes)
{
    FILE *file = fopen(made_path(dir, name), "rb");
    size_t n = file ? fread(bytes, 1, ROOM, file) : 0;
    if (file) fclose(file);
    return n;
}

/* Overwrite a file in place: truncating it first would make some file systems write it out at once. */
static void put(const char *name, const char *bytes, size_t n)
{
    int fd = open(made_path(dir, name), O_WRONLY | O_CREAT, 0666);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || ftruncate(fd, (off_t)n) || close(fd)) abort();
}

/* Check that the full verification refuses the checkpoint and names the file in its report, and that loading refuses it
 * too. */
static void refused(const char *name, zr_status wanted, const char *fragment)
{
    zr_status st = zr_checkpoint_verify(dir, NULL, NULL, report, sizeof report);
    if (st != wanted || !strstr(zr_error_message(), name) || !strstr(report, name) || !strstr(report, fragment))
        fail_msg("verify: %d: %s; report \"%s\"; wanted %d, %s, %s", st, zr_error_message(), report, wanted, name,
                 fragment);
    st = made_check(dir, 5);
    if (st != wanted || !strstr(zr_error_message(), name))
        fail_msg("load: %d: %s; wanted %d, %s", st, zr_error_message(), wanted, name);
}

static void whole(void)
{
    if (zr_checkpoint_verify(dir, NULL, NULL, report, sizeof report) != ZR_OK) fail_msg("%s", report);
    assert_int_equal(made_check(dir, 5), ZR_OK);
}

static void put_byte(FILE *file, long at, int byte)
{
    if (fseek(file, at, SEEK_SET) || fputc(byte, file) == EOF || fflush(file)) abort();
}

/* Check that a flipped bit is detected in every byte: one of three bits in turn, all three in the long run. A short run
 * checks every fifth byte of the checkpoint in columns, whose files are read by the same code. */
static void every_byte_changed(void **state)
{
    (void)state;
    const size_t distance = in_columns && !is_long_run() ? 5 : 1;
    char bytes[ROOM];
    whole();
    assert_string_equal(report, "");
    for (int f = 0; f < FILES; f++) {
        size_t n = take(names[f], bytes);
        FILE *file = fopen(made_path(dir, names[f]), "r+b");
        assert_true(file && n > 0 && n < ROOM);
        for (size_t i = 0; i < n; i += distance) {
            for (int bit = 0; bit < BITS; bit++) {
                static const unsigned char flip[BITS] = {1, 0x20, 0x80};
                if (!is_long_run() && bit != (int)(i % BITS)) continue;
                put_byte(file, (long)i, (unsigned char)bytes[i] ^ flip[bit]);
                refused(names[f], ZR_ERR_DATA, "damaged");
            }
            put_byte(file, (long)i, bytes[i]);
        }
        fclose(file);
        whole();
    }
}

static void every_length(void **state)
{
    (void)state;
    char bytes[ROOM];
    for (int f = 0; f < FILES; f++) {
        size_t n = take(names[f], bytes);
        const char *fragment = f == FILES - 1 ? "checksum" : "according to the manifest";
        for (size_t cut = 0; cut < n; cut += cut < 64 || n - cut < 200 ? 1 : 97) {
            put(names[f], bytes, cut);
            refused(names[f], ZR_ERR_DATA, fragment);
        }
        bytes[n] = '\n';
        put(names[f], bytes, n + 1);
        refused(names[f], ZR_ERR_DATA, fragment);
        put(names[f], bytes, n);
    }
    whole();
}

static void missing_files(void **state)
{
    (void)state;
    char bytes[ROOM];
    for (int f = 0; f < FILES; f++) {
        size_t n = take(names[f], bytes);
        unlink(made_path(dir, names[f]));
        refused(names[f], f == FILES - 1 ? ZR_ERR_NOT_FOUND : ZR_ERR_DATA, "No such file");
        mkdir(made_path(dir, names[f]), 0777);
        refused(names[f], ZR_ERR_DATA, "a directory");
        rmdir(made_path(dir, names[f]));
        mkfifo(made_path(dir, names[f]), 0666);
        refused(names[f], ZR_ERR_DATA, "a special file");
        unlink(made_path(dir, names[f]));
        put(names[f], bytes, n);
    }
    zr__manifest *m = NULL;
    assert_int_equal(zr__manifest_read(in_tempdir("nowhere"), &m), ZR_ERR_NOT_FOUND);
    assert_int_equal(zr_checkpoint_verify(in_tempdir("nowhere"), NULL, NULL, NULL, 0), ZR_ERR_NOT_FOUND);
    whole();
}

/* Check that verification reports all damage, one line per damaged range, with neighbouring chunks joined. */
static void all_damage_is_named(void **state)
{
    (void)state;
    char bytes[ROOM];
    size_t n = take("model.safetensors", bytes);
    bytes[100] ^= 1;
    bytes[4096 + 4] ^= 1;
    bytes[n - 1] ^= 1;
    put("model.safetensors", bytes, n);
    unlink(made_path(dir, "exp_avg.safetensors"));
    put("stranger\n", "x", 1);
    assert_int_equal(zr_checkpoint_verify(dir, NULL, NULL, report, sizeof report), ZR_ERR_DATA);
    char *line = strtok(report, "\n");
    assert_non_null(strstr(line, "model.safetensors: bytes 0 .. 4695 are damaged")); /* header, 3/4 of wte */
    line = strtok(NULL, "\n");
    assert_non_null(strstr(line, "model.safetensors: bytes 4916 .. 4927 are damaged"));
    line = strtok(NULL, "\n");
    assert_non_null(strstr(line, "exp_avg.safetensors: cannot open"));
    line = strtok(NULL, "\n");
    assert_non_null(strstr(line, "stranger\\x0a: the manifest does not list this file"));
    assert_null(strtok(NULL, "\n"));
    bytes[100] ^= 1; /* while the header is intact, tensors are named */
    put("model.safetensors", bytes, n);
    assert_int_equal(zr_checkpoint_verify(dir, NULL, NULL, report, sizeof report), ZR_ERR_DATA);
    assert_non_null(strstr(report, "bytes 4096 .. 4695 are damaged (tensor wte)"));
    assert_non_null(strstr(report, "damaged (tensors bias .. last)"));
    assert_int_equal(zr_checkpoint_verify(dir, NULL, NULL, report, 8), ZR_ERR_DATA); /* cut to its buffer */
    assert_int_equal(strlen(report), 7);
}

/* Check that all slices of a damaged region of interleaved slices are reported, because a single slice cannot be used
 * alone. */
static void damaged_slices_are_named(void **state)
{
    (void)state;
    char bytes[ROOM];
    size_t n = take("model.safetensors", bytes);
    bytes[4096 + 4 * 7] ^= 1;
    bytes[4096 + 20 * 30 + 4] ^= 1;
    put("model.safetensors", bytes, n);
    assert_int_equal(zr_checkpoint_verify(dir, NULL, NULL, report, sizeof report), ZR_ERR_DATA);
    char *line = strtok(report, "\n");
    assert_non_null(strstr(line, "model.safetensors: bytes 4096 .. 4695 are damaged (tensor wte)"));
    line = strtok(NULL, "\n");
    assert_non_null(strstr(line, "model.safetensors: bytes 4700 .. 4703 are damaged (tensor wte)"));
    assert_null(strtok(NULL, "\n"));
}

static void foreign_files_are_named_and_harmless(void **state)
{
    (void)state;
    put("notes.txt", "words", 5);
    put("exp_avg_sq.safetensors", "not even one", 12);
    assert_int_equal(symlink("/nowhere", made_path(dir, "link")), 0);
    whole();
    assert_non_null(strstr(report, "notes.txt: the manifest does not list this file"));
    assert_non_null(strstr(report, "exp_avg_sq.safetensors: the manifest does not list this file"));
    assert_non_null(strstr(report, "link: the manifest does not list this file"));
}

static void files_of_two_steps(void **state)
{
    (void)state;
    char bytes[ROOM];
    assert_int_equal(made_checkpoint(run, 6), ZR_OK);
    for (int f = 1; f < FILES; f++) {
        char own[ROOM], other[512];
        size_t n = take(names[f], own);
        snprintf(other, sizeof other, "%s/step-00000006/%s", run, names[f]);
        FILE *file = fopen(other, "rb");
        size_t m = fread(bytes, 1, ROOM, file);
        fclose(file);
        put(names[f], bytes, m);
        refused(names[f], ZR_ERR_DATA,
                f == FILES - 1 ? "it is of step 6, but its directory is of step 5's" : "damaged");
        put(names[f], own, n);
    }
    /* The whole checkpoint under another step's name is refused. */
    char moved[300];
    zr__manifest *m = NULL;
    snprintf(moved, sizeof moved, "%s/step-00000007/", run);
    assert_int_equal(rename(dir, moved), 0);
    assert_int_equal(zr__manifest_read(moved, &m), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "it is of step 5, but its directory is of step 7's"));
    /* A name that is not a step's is accepted: people copy checkpoints. */
    assert_int_equal(rename(moved, made_path(run, "best")), 0);
    assert_int_equal(made_check(made_path(run, "best"), 5), ZR_OK);
}

static void links_are_not_followed(void **state)
{
    (void)state;
    char kept[300], linked[300];
    for (int f = 0; f < FILES; f++) {
        snprintf(kept, sizeof kept, "%s/kept", run);
        assert_int_equal(rename(made_path(dir, names[f]), kept), 0);
        assert_int_equal(symlink(kept, made_path(dir, names[f])), 0);
        refused(names[f], ZR_ERR_DATA, "a symbolic link");
        assert_int_equal(rename(kept, made_path(dir, names[f])), 0);
    }
    whole();
    assert_int_equal(rename(dir, made_path(run, "elsewhere")), 0);
    assert_int_equal(symlink(made_path(run, "elsewhere"), dir), 0);
    refused("step-00000005", ZR_ERR_DATA, "a symbolic link");
    zr__manifest *m = NULL;
    snprintf(linked, sizeof linked, "%s//", dir);
    assert_int_equal(zr__manifest_read(linked, &m), ZR_ERR_DATA);
    /* The list includes the link, so that a resumed run can say why it was passed over. */
    int64_t *step = NULL, n = 0;
    assert_int_equal(zr_checkpoint_list(run, &step, &n), ZR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(step[0], 5);
    zr_free(step);
}

/* Check that the content of `latest`, which is only a hint for users, never changes which checkpoints are found. */
static void latest_is_a_hint(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "step-00000009\n", "../../etc/passwd\n", "\xff\xff", "step-00000005"};
    char text[64];
    FILE *file = fopen(made_path(run, "latest"), "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), 14);
    assert_memory_equal(text, "step-00000005\n", 14);
    fclose(file);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t *step = NULL, n = 0;
        file = fopen(made_path(run, "latest"), "w");
        fputs(wrong[i], file);
        fclose(file);
        assert_int_equal(zr_checkpoint_list(run, &step, &n), ZR_OK);
        assert_int_equal(n, 1);
        assert_int_equal(step[0], 5);
        zr_free(step);
        whole();
    }
}

typedef struct seen {
    int64_t done, all;
    int calls;
} seen;

static void progress(void *arg, int64_t done, int64_t all)
{
    seen *s = arg;
    assert_true(done > s->done && done <= all);
    *s = (seen){done, all, s->calls + 1};
}

static void progress_is_told(void **state)
{
    (void)state;
    seen s = {0};
    assert_int_equal(zr_checkpoint_verify(dir, progress, &s, report, sizeof report), ZR_OK);
    assert_true(s.calls > 4 && s.done == s.all && s.all > 8192);
}

int main(void)
{
#define CHECKED(test) cmocka_unit_test_setup(test, fresh)
#define IN_COLUMNS(test) cmocka_unit_test_setup(test, fresh_in_columns)
    const struct CMUnitTest tests[] = {CHECKED(every_byte_changed),    CHECKED(every_length),
                                       IN_COLUMNS(every_byte_changed), IN_COLUMNS(damaged_slices_are_named),
                                       IN_COLUMNS(progress_is_told),   CHECKED(missing_files),
                                       CHECKED(all_damage_is_named),   CHECKED(foreign_files_are_named_and_harmless),
                                       CHECKED(files_of_two_steps),    CHECKED(links_are_not_followed),
                                       CHECKED(latest_is_a_hint),      CHECKED(progress_is_told)};
    return cmocka_run_group_tests(tests, tempdir_make, tempdir_remove);
}
