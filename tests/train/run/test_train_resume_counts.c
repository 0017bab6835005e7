//TEST timeout=60
//LINK -Wl,--wrap=zr_engine_resume,--wrap=fsync,--wrap=rename
/* A resumed run continues the counts of the run before as well as its state, and leaves other files in its directory
 * alone; a checkpoint gets its name after all its files are on the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "support/known_rates.h"
#include "support/tempdir.h"
#include "told_run.h"
#include "zr/checkpoint.h"
#include "train/weights/weights.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/engine.h"
#include "zr/run.h"

#include <errno.h>
#include <sys/stat.h>

enum { DATA_BYTES = 400 };

static int64_t updates; /* number of updates at the resume */

zr_status __real_zr_engine_resume(zr_engine *engine, int64_t its_updates);
zr_status __wrap_zr_engine_resume(zr_engine *engine, int64_t its_updates);
zr_status __wrap_zr_engine_resume(zr_engine *engine, int64_t its_updates)
{
    updates = its_updates;
    return __real_zr_engine_resume(engine, its_updates);
}

/* ---- the disk --------------------------------------------------------------------------------- */

static bool metrics_synced; /* whether metrics were synced after the last checkpoint got its name */
/* number of checkpoints that got their names; number of these whose metrics were not synced before */
static int named, named_unsynced;
static bool folder_fails, just_named;
/* the last path synced; the last path synced before a rename */
static char last_synced[PATH_MAX], synced_before[PATH_MAX];

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (ends_with(path, "/metrics.jsonl")) metrics_synced = true;
    snprintf(last_synced, sizeof last_synced, "%s", path);
    if (!folder_fails || !just_named || !ends_with(path, "/run")) return 0; /* no real sync, to save time */
    just_named = false;
    errno = EIO;
    return -1;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    const char *name = strrchr(to, '/');
    snprintf(synced_before, sizeof synced_before, "%s", last_synced);
    just_named = name && strncmp(name, "/step-", 6) == 0 && !strchr(name, '.');
    if (just_named) {
        named++;
        named_unsynced += !metrics_synced;
        metrics_synced = false;
    }
    return __real_rename(from, to);
}

/* ---- runs ------------------------------------------------------------------------------------- */

static const char base[] =
    "{\"model\": {\"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 8, \"vocab_size\": 256}, \"data\": "
    "{\"train\": \"%s/text\"}, \"train_batch_size\": 4, \"optimizer\": {\"params\": {\"lr\": 0.01}}, \"train\": "
    "{\"steps\": 6, \"eval_interval\": 0, \"threads\": 1, \"save_interval\": 3, \"keep_last\": 40, \"output_dir\": "
    "\"%s/%s\"}}";

/* Train in tempdir/`dir`; `keys` are overrides separated by spaces. */
static told train(const char *dir, bool resume, const char *keys)
{
    char text[1400], copy[600], *override[KEYS];
    int n = 0;
    static told t; /* too large for the stack */
    job j = {.told = &t, .resume = resume};
    memset(&t, 0, sizeof t);
    snprintf(copy, sizeof copy, "%s", keys);
    for (char *key = strtok(copy, " "); key && n < KEYS; key = strtok(NULL, " ")) override[n++] = key;
    snprintf(text, sizeof text, base, tempdir, tempdir, dir);
    if (zr_config_parse(text, strlen(text), "c.json", (const char *const *) override, n, &j.config) != ZR_OK ||
        zr_train_prepare(j.config, 1, 0) != ZR_OK)
        fail_msg("%s: %s", keys, zr_error_message());
    t.status = zr_comm_threads_run(1, train_rank, &j);
    zr_config_destroy(&j.config);
    return t;
}

static void expect_ok(const told *t)
{
    if (t->status != ZR_OK) fail_msg("status %d: %s\n%s", t->status, t->message, t->notes);
}

static void clear(const char *dir)
{
    nftw(in_tempdir(dir), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* Make a run that was killed after the checkpoint `step` of `from` was written. */
static void copy_run(const char *from, const char *to, int step)
{
    static const char *const files[] = {"config.json",         "manifest.json",          "model.safetensors",
                                        "exp_avg.safetensors", "exp_avg_sq.safetensors", "momentum_buffer.safetensors"};
    char a[200], b[200];
    clear(to);
    snprintf(b, sizeof b, "%s/step-%08d", to, step);
    assert_int_equal(mkdir(in_tempdir(to), 0700), 0);
    assert_int_equal(mkdir(in_tempdir(b), 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(a, sizeof a, "%s/step-%08d/%s", from, step, files[i]);
        snprintf(b, sizeof b, "%s/step-%08d/%s", to, step, files[i]);
        if (access(in_tempdir(a), F_OK) == 0) assert_int_equal(link(in_tempdir(a), in_tempdir(b)), 0);
    }
}

static bool is_there(const char *name)
{
    return access(in_tempdir(name), F_OK) == 0;
}

static bool is_noted(const told *t, const char *text)
{
    return strstr(t->notes, text) != NULL;
}

/* ---- counts ----------------------------------------------------------------------------------- */

/* Check a resume after each step: also when the hysteresis is partly used, and between an overflow and the end of its
 * window. */
static void a_loss_scale_goes_on_where_it_was(void **state)
{
    (void)state;
    static const char keys[] = "fp16.enabled=true fp16.initial_scale_power=26 fp16.hysteresis=2 "
                               "fp16.loss_scale_window=3 train.steps=16 train.save_interval=1";
    static told whole;
    int partly = 0, grown = 0;
    whole = train("whole", false, keys);
    expect_ok(&whole);
    assert_int_equal(whole.steps, 16);
    for (int k = 1; k < 16; k++) {
        const zr_train_step *at = &whole.step[k];
        partly += at->skipped > at[-1].skipped && at->loss_scale == at[-1].loss_scale;
        grown += at->loss_scale > at[-1].loss_scale;
    }
    assert_true(partly > 0 && grown > 0);
    for (int k = 1; k < 16; k++) {
        copy_run("whole", "run", k);
        const told t = train("run", true, keys);
        expect_ok(&t);
        assert_int_equal(t.steps, 16 - k);
        for (int i = 0; i < t.steps; i++) {
            const zr_train_step *a = &whole.step[k + i], *b = &t.step[i];
            if (a->loss_scale != b->loss_scale || a->skipped != b->skipped || a->loss != b->loss)
                fail_msg("from step %d on: step %d: scale %g, %d skipped; wanted %g, %d", k, (int)b->step,
                         b->loss_scale, (int)b->skipped, a->loss_scale, (int)a->skipped);
        }
    }
}

/* Check that with a static scale every step is skipped, until too many in a row are skipped, counted over the
 * resume. */
static void skipped_steps_are_counted_on(void **state)
{
    (void)state;
    static const char keys[] = "fp16.enabled=true fp16.loss_scale=1e15 train.steps=39 train.save_interval=0";
    clear("run");
    stop_after = 7;
    told t = train("run", false, keys);
    stop_after = 0;
    assert_int_equal(t.status, ZR_ERR_STOPPED);
    t = train("run", true, keys);
    assert_int_equal(t.status, ZR_ERR_DIVERGED);
    assert_int_equal(t.step[t.steps - 1].step, ZR_TRAIN_MAX_SKIPPED);
}

/* Check that an optimizer whose states start from zero also starts its count of updates, used for bias correction, from
 * zero. */
static void updates_are_counted_as_states_are(void **state)
{
    (void)state;
    clear("whole");
    told t = train("whole", false, "optimizer.type=SGD optimizer.params.momentum=0.9");
    expect_ok(&t);
    copy_run("whole", "run", 3);
    t = train("run", true, "optimizer.type=SGD optimizer.params.momentum=0.9");
    expect_ok(&t);
    assert_int_equal(updates, 3);
    copy_run("whole", "run", 3);
    t = train("run", true, "optimizer.type=AdamW");
    expect_ok(&t);
    assert_int_equal(updates, 0);
}

/* Check that AdamW does not take over a first moment without a second one. With a rate of 0, Lion and SGD leave the
 * same weights, but only Lion leaves a momentum. */
static void a_part_of_the_states_is_not_taken(void **state)
{
    (void)state;
    static const char *const first[] = {"optimizer.type=Lion optimizer.params.lr=0",
                                        "optimizer.type=SGD optimizer.params.lr=0"};
    told t[2];
    for (int i = 0; i < 2; i++) {
        clear("whole");
        t[i] = train("whole", false, first[i]);
        expect_ok(&t[i]);
        copy_run("whole", "run", 3);
        t[i] = train("run", true, "optimizer.type=AdamW optimizer.params.lr=0.01");
        expect_ok(&t[i]);
        assert_int_equal(updates, 0);
        assert_non_null(strstr(t[i].notes, "no states of the optimizer adamw, so they start at zero"));
    }
    for (int i = 0; i < 3; i++) assert_true(t[0].step[i].loss == t[1].step[i].loss);
    /* Lion goes on with AdamW's first moment */
    copy_run("run", "whole", 6);
    t[0] = train("whole", true, "optimizer.type=Lion optimizer.params.lr=0 train.steps=7");
    expect_ok(&t[0]);
    assert_null(strstr(t[0].notes, "start at zero"));
}

/* ---- the directory ---------------------------------------------------------------------------- */

/* Check that an unfinished folder beside a complete checkpoint of the same step, and a folder without a manifest, are
 * passed over. */
static void folders_that_are_no_checkpoints(void **state)
{
    (void)state;
    clear("whole");
    told t = train("whole", false, "");
    expect_ok(&t);
    copy_run("whole", "run", 3);
    assert_int_equal(mkdir(in_tempdir("run/step-00000003.tmp"), 0700), 0);
    assert_int_equal(mkdir(in_tempdir("run/step-00000005"), 0700), 0);
    t = train("run", true, "");
    expect_ok(&t);
    assert_true(is_noted(&t, "step-00000005 is skipped: "));
    assert_true(is_noted(&t, "goes on after step 3 of 6"));
    assert_true(is_there("run/step-00000003/manifest.json"));
}

/* Check that a damaged checkpoint that was passed over does not count among the kept ones, even with a whole
 * manifest. */
static void one_that_was_passed_over_is_not_kept_for_another(void **state)
{
    (void)state;
    clear("run");
    told t = train("run", false, "train.save_interval=2");
    expect_ok(&t);
    clear("run/model");
    FILE *file = fopen(in_tempdir("run/step-00000006/exp_avg_sq.safetensors"), "r+b");
    assert_non_null(file);
    fseek(file, 3000, SEEK_SET);
    const int was = getc(file);
    fseek(file, 3000, SEEK_SET);
    putc(was ^ 4, file);
    fclose(file);
    t = train("run", true, "train.save_interval=8 train.steps=8 train.keep_last=2");
    expect_ok(&t);
    assert_true(is_noted(&t, "step-00000006 is skipped: "));
    assert_true(is_there("run/step-00000008"));
    assert_true(is_there("run/step-00000004"));
    assert_false(is_there("run/step-00000002"));
}

/* Check that a change of tokenizer is noticed by its name if the data files hold tokens, which do not contain the
 * tokenizer. */
static void another_tokenizer_of_the_same_tokens(void **state)
{
    (void)state;
    uint16_t tokens[DATA_BYTES];
    char keys[200];
    for (int i = 0; i < DATA_BYTES; i++) tokens[i] = (uint16_t)('a' + i % 23);
    snprintf(keys, sizeof keys, "data.train=%s", put_file("tokens.bin", tokens, sizeof tokens));
    clear("run");
    told t = train("run", false, keys);
    expect_ok(&t);
    strcat(keys, " train.steps=8");
    char other[300];
    snprintf(other, sizeof other, "%s data.tokenizer=bytes", keys);
    t = train("run", true, other);
    assert_int_equal(t.status, ZR_ERR_DATA);
    assert_non_null(strstr(t.message, "data.tokenizer is \"bytes\", but was \"\" when step-00000006 was written"));
    t = train("run", true, keys);
    expect_ok(&t);
}

/* ---- the disk --------------------------------------------------------------------------------- */

/* Check that metrics.jsonl contains all steps up to a checkpoint, also after a power failure. */
static void metrics_are_on_the_disk_before_a_checkpoint_has_its_name(void **state)
{
    (void)state;
    clear("run");
    named = named_unsynced = 0;
    metrics_synced = false;
    const told t = train("run", false, "");
    expect_ok(&t);
    assert_int_equal(named, 2);
    assert_int_equal(named_unsynced, 0);
}

/* Check that a checkpoint with its name is kept if its folder cannot be synced: it may be complete, but might not
 * survive a power failure. */
static void a_folder_that_cannot_be_synced_keeps_its_checkpoint(void **state)
{
    (void)state;
    clear("run");
    folder_fails = true;
    const told t = train("run", false, "train.steps=4");
    folder_fails = false;
    assert_int_equal(t.status, ZR_ERR_IO);
    assert_true(is_there("run/step-00000003/manifest.json"));
}

/* Check that a checkpoint can be used without the file `latest`. */
static void a_name_that_cannot_be_told_is_noted(void **state)
{
    (void)state;
    clear("whole");
    told t = train("whole", false, "");
    expect_ok(&t);
    copy_run("whole", "run", 3);
    assert_int_equal(mkdir(in_tempdir("run/latest"), 0700), 0);
    t = train("run", true, "");
    expect_ok(&t);
    assert_true(is_noted(&t, "the checkpoint of step 6 is written, but latest could not be"));
    assert_true(is_there("run/step-00000006/manifest.json"));
}

/* Check that a converted directory gets its name after its files are synced. */
static void a_directory_is_synced_before_it_has_its_name(void **state)
{
    (void)state;
    clear("run");
    const told t = train("run", false, "");
    expect_ok(&t);
    zr__converted did;
    const zr__convert_args args = {.from = in_tempdir("run"), .to = in_tempdir("hf"), .dtype = ZR_F32};
    if (zr__convert_dir(&args, &did) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_true(ends_with(synced_before, "/hf.tmp"));
    assert_string_equal(last_synced, tempdir); /* the name is synced afterwards */
}

/* ---- whole checkpoints that do not fit --------------------------------------------------------- */

/* Replace a word by another of the same length in a file of a checkpoint, and rewrite the manifest to match the
 * file. */
static void rewrite(const char *dir, const char *name, const char *word, const char *by)
{
    static char text[1 << 20];
    char path[300];
    zr__manifest *was = NULL;
    zr__manifest_file file[8];
    zr__chunk *chunk = NULL;
    snprintf(path, sizeof path, "%s/%s", in_tempdir(dir), name);
    FILE *in = fopen(path, "r+b");
    assert_non_null(in);
    const size_t n = fread(text, 1, sizeof text, in);
    char *at = memmem(text, n, word, strlen(word));
    assert_non_null(at);
    memcpy(at, by, strlen(by));
    rewind(in);
    assert_int_equal(fwrite(text, 1, n, in), n);
    fclose(in);
    if (zr__manifest_read(in_tempdir(dir), &was) != ZR_OK) fail_msg("%s", zr_error_message());
    assert_in_range(was->n_files, 1, 8);
    for (int i = 0; i < was->n_files; i++) {
        file[i] = was->file[i];
        if (strcmp(file[i].name, name) != 0) continue;
        assert_int_equal(zr__chunks_of_file(path, 0, -1, &chunk, &file[i].n_chunks), ZR_OK);
        file[i].chunk = chunk;
    }
    zr__manifest is = *was;
    is.file = file;
    snprintf(path, sizeof path, "%s/manifest.json", in_tempdir(dir));
    assert_int_equal(unlink(path), 0);
    if (zr__manifest_write(in_tempdir(dir), &is) != ZR_OK) fail_msg("%s", zr_error_message());
    zr__manifest_free(&was);
    zr_free(chunk);
}

static void tensors_that_are_not_the_models_are_not_converted(void **state)
{
    (void)state;
    static const struct {
        const char *name, *word, *by, *says;
    } others[] = {{"model.safetensors", "\"F32\"", "\"U32\"", "has type U32; expected F32"},
                  {"config.json", "\"n_positions\": 8", "\"n_positions\": 4", "is missing, or not of the shape"}};
    clear("whole");
    const told t = train("whole", false, "");
    expect_ok(&t);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        zr__converted did;
        copy_run("whole", "run", 3);
        char from[300], to[300];
        snprintf(from, sizeof from, "%s", in_tempdir("run/step-00000003"));
        snprintf(to, sizeof to, "%s", in_tempdir("other"));
        rewrite("run/step-00000003", others[i].name, others[i].word, others[i].by);
        const zr__convert_args args = {.from = from, .to = to, .dtype = ZR_F32};
        assert_int_equal(zr__convert_dir(&args, &did), ZR_ERR_DATA);
        if (!strstr(zr_error_message(), others[i].says)) fail_msg("%s", zr_error_message());
        rewrite("run/step-00000003", others[i].name, others[i].by, others[i].word); /* no other fault */
        if (zr__convert_dir(&args, &did) != ZR_OK) fail_msg("%s", zr_error_message());
        clear("other");
    }
}

static int make_all(void **state)
{
    char data[DATA_BYTES];
    if (tempdir_make(state) || set_rates(in_tempdir("cache"))) return -1;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)('a' + i * i % 23);
    put_file("text", data, sizeof data);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_scale_goes_on_where_it_was),
        cmocka_unit_test(skipped_steps_are_counted_on),
        cmocka_unit_test(updates_are_counted_as_states_are),
        cmocka_unit_test(a_part_of_the_states_is_not_taken),
        cmocka_unit_test(folders_that_are_no_checkpoints),
        cmocka_unit_test(one_that_was_passed_over_is_not_kept_for_another),
        cmocka_unit_test(another_tokenizer_of_the_same_tokens),
        cmocka_unit_test(metrics_are_on_the_disk_before_a_checkpoint_has_its_name),
        cmocka_unit_test(a_folder_that_cannot_be_synced_keeps_its_checkpoint),
        cmocka_unit_test(a_name_that_cannot_be_told_is_noted),
        cmocka_unit_test(a_directory_is_synced_before_it_has_its_name),
        cmocka_unit_test(tensors_that_are_not_the_models_are_not_converted),
    };
    return cmocka_run_group_tests(tests, make_all, tempdir_remove);
}
