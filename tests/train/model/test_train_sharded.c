//TEST timeout=60
/* Weights in several files with an index equal those in one file: for evaluation, generation, training and conversion.
 * Tensors that are missing, unknown or of another shape are reported as for one file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/hf_make.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/run.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const zr_gpt2_config hf = {2, 2, 8, 8, 256, 0, 0, 0, 1e-5, 0.02};

static int set_up(void **state)
{
    char text[400];
    if (tempdir_make(state)) return -1;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    put_file("text", text, sizeof text);
    hf_make("one", &hf, NULL, 0);
    hf_randomize("one", 7, 0.3);
    hf_split("one", &hf, "three", 3);
    hf_split("one", &hf, "each", 28); /* a tensor in each file */
    return 0;
}

static double loss_of(const char *dir)
{
    const zr_eval_args args = {.data = in_tempdir("text"), .threads = 1};
    zr_eval_result result = {0};
    if (zr_eval_dir(in_tempdir(dir), &args, &result) != ZR_OK) fail_msg("%s: %s", dir, zr_error_message());
    return result.loss;
}

static zr_status keep(void *arg, const char *text, int64_t bytes)
{
    zr__text_add(arg, "%.*s", (int)bytes, text);
    return ZR_OK;
}

static char *text_of(const char *dir)
{
    const zr_generate_args args = {.prompt = "abc", .prompt_bytes = 3, .tokens = 20, .temperature = 1, .threads = 1};
    zr__text text = {0};
    char *out = NULL;
    assert_int_equal(zr_generate(in_tempdir(dir), &args, keep, &text), ZR_OK);
    assert_int_equal(zr__text_take(&text, &out), ZR_OK);
    return out;
}

static void losses_and_texts_are_those_of_one_file(void **state)
{
    (void)state;
    const char *const several[] = {"three", "each"};
    char *wanted = text_of("one");
    for (int i = 0; i < 2; i++) {
        char *got = text_of(several[i]);
        assert_true(loss_of(several[i]) == loss_of("one"));
        assert_string_equal(got, wanted);
        zr_free(got);
    }
    zr_free(wanted);
}

/* ---- converted and trained from ----------------------------------------------------------------- */

static bool same_files(const char *a, const char *b)
{
    static char left[1 << 16], right[1 << 16];
    FILE *x = fopen(in_tempdir(a), "rb"), *y = fopen(in_tempdir(b), "rb");
    if (!x || !y) fail_msg("%s or %s is not there", a, b);
    size_t n = fread(left, 1, sizeof left, x), m = fread(right, 1, sizeof right, y);
    fclose(x);
    fclose(y);
    assert_in_range(n, 1, sizeof left - 1);
    return n == m && memcmp(left, right, n) == 0;
}

static void converted(const char *from, const char *to, zr__convert_to kind, int64_t file_bytes)
{
    char source[PATH_MAX], made[PATH_MAX];
    snprintf(source, sizeof source, "%s", in_tempdir(from));
    snprintf(made, sizeof made, "%s", in_tempdir(to));
    const zr__convert_args args = {.from = source, .to = made, .kind = kind, .dtype = ZR_F32, .file_bytes = file_bytes};
    zr__converted did;
    if (zr__convert_dir(&args, &did) != ZR_OK) fail_msg("%s: %s", from, zr_error_message());
    assert_int_equal(did.tensors, 28);
}

static void conversion_is_that_of_one_file(void **state)
{
    (void)state;
    converted("one", "run-one", ZR_CONVERT_RUN, 0);
    converted("three", "run-three", ZR_CONVERT_RUN, 0);
    assert_true(same_files("run-three/step-00000000/model.safetensors", "run-one/step-00000000/model.safetensors"));
}

/* ---- in little memory --------------------------------------------------------------------------- */

/* Return the peak memory, in bytes, of a process while it converts; NULL: while it does nothing. */
static int64_t highest_while(const zr__convert_args *args)
{
    struct rusage usage;
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        zr__converted did;
        _exit(args && zr__convert_dir(args, &did) != ZR_OK);
    }
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    assert_int_equal(status, 0);
    return (int64_t)usage.ru_maxrss * 1024;
}

static void conversion_takes_little_memory(void **state)
{
    (void)state;
    static const zr_gpt2_config wide = {4, 4, 640, 8, 256, 0, 0, 0, 1e-5, 0.02};
    static const char to[] = "converted", from[] = "wide";
    const int64_t weights = 4 * 12 * 640 * 640 * (int64_t)sizeof(float), most = (int64_t)32 << 20;
    assert_true(weights > 2 * most);
    hf_make(from, &wide, NULL, 0);
    char source[PATH_MAX], made[PATH_MAX];
    snprintf(source, sizeof source, "%s", in_tempdir(from));
    snprintf(made, sizeof made, "%s", in_tempdir(to));
    const zr__convert_args ways[] = {
        {.from = source, .to = made, .kind = ZR_CONVERT_HF, .dtype = ZR_F32},
        {.from = source, .to = made, .kind = ZR_CONVERT_HF, .dtype = ZR_BF16, .file_bytes = 10000000},
        {.from = source, .to = made, .kind = ZR_CONVERT_RUN, .dtype = ZR_F32},
    };
    for (int i = 0; i < 3; i++) {
        int64_t taken = highest_while(&ways[i]) - highest_while(NULL);
        if (taken > most) fail_msg("way %d takes %lld bytes", i, (long long)taken);
        nftw(made, tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    }
}

static zr_status train(zr_comm *comm, void *config)
{
    zr_train_result result = {0};
    const zr_observer observer = {0};
    return zr_train_run(config, comm, &observer, &result);
}

static void trained_from(const char *dir, int ranks, const char *run)
{
    char text[2048];
    zr_config *config = NULL;
    snprintf(text, sizeof text,
             "{\"model\": {\"init\": \"%s/%s\"}, \"data\": {\"train\": \"%s/text\", \"tokenizer\": \"bytes\"},"
             " \"train_batch_size\": 2, \"zero_optimization\": {\"stage\": 3}, \"train\": {\"steps\": 2,"
             " \"eval_interval\": 0, \"threads\": 1, \"output_dir\": \"%s/%s\"}}",
             tempdir, dir, tempdir, tempdir, run);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
        zr_train_prepare(config, ranks, 0) != ZR_OK || zr_comm_threads_run(ranks, train, config) != ZR_OK)
        fail_msg("%s", zr_error_message());
    zr_config_destroy(&config);
}

static void training_begins_with_the_same_weights(void **state)
{
    (void)state;
    trained_from("one", 2, "from-one");
    trained_from("three", 2, "from-three");
    converted("from-three/model", "joined", ZR_CONVERT_HF, 1 << 20);
    assert_true(same_files("joined/model.safetensors", "from-one/model/model.safetensors"));
}

/* ---- wrong files -------------------------------------------------------------------------------- */

/* Check a model that lacks tensors in the files, and one with other shapes. */
static void misfits_are_told_together(void **state)
{
    (void)state;
    zr_gpt2_config other = hf;
    char note[512] = "";
    other.n_layer = 3;
    other.vocab_size = 300;
    hf_split("one", &other, "bad", 3);
    assert_int_equal(zr__hf_check(in_tempdir("bad"), note, sizeof note), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "13 of 40 tensors do not fit the model"));
    assert_non_null(strstr(zr_error_message(), "transformer.wte.weight: shape (256, 8); expected (300, 8)"));
    assert_non_null(strstr(zr_error_message(), "transformer.h.2.ln_1.weight: missing; expected shape (8)"));
    other = hf;
    other.n_layer = 1;
    hf_split("one", &other, "more", 3);
    assert_int_equal(zr__hf_check(in_tempdir("more"), note, sizeof note), ZR_OK);
    assert_non_null(strstr(note, "tensors that the model does not have (12): "));
    assert_non_null(strstr(note, "transformer.h.1."));
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    hf_split("one", &hf, "torn", 3);
    assert_int_equal(remove(in_tempdir("torn/model-00002-of-00003.safetensors")), 0);
    assert_int_equal(zr__hf_check(in_tempdir("torn"), NULL, 0), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "torn: model-00002-of-00003.safetensors is missing"));
    assert_int_equal(truncate(in_tempdir("torn/model-00001-of-00003.safetensors"), 700), 0);
    assert_int_equal(zr__hf_check(in_tempdir("torn"), NULL, 0), ZR_ERR_DATA);
    assert_non_null(strstr(zr_error_message(), "torn/model-00001-of-00003.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_texts_are_those_of_one_file),
        cmocka_unit_test(conversion_is_that_of_one_file),
        cmocka_unit_test(conversion_takes_little_memory),
        cmocka_unit_test(training_begins_with_the_same_weights),
        cmocka_unit_test(misfits_are_told_together),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tempdir_remove);
}
