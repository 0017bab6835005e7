//TEST timeout=120 needs=/proc/self
//LINK -Wl,--wrap=pread
/* Weights of a Hugging Face directory keep their form: names, types, shapes and files of all tensors and the keys of
 * config.json come back after a conversion, a conversion to a run and back, and after training. All ranks together read
 * each byte of the files once, whatever the number of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "support/golden.h"
#include "support/tempdir.h"
#include "train/weights/weights.h"
#include "zr/checkpoint.h"
#include "zr/comm.h"
#include "zr/config.h"
#include "zr/run.h"

#include <stdatomic.h>
#include <sys/stat.h>

enum { TENSORS_MOST = 64, ELEMS_MOST = 1 << 14 };

/* ---- a counter of bytes ------------------------------------------------------------------------- */

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at);
static atomic_llong bytes_read;

/* Count bytes behind the header that are read from files of the folder `counted`. */
static char counted[PATH_MAX];

ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at)
{
    char link[64], path[PATH_MAX] = "";
    const ssize_t got = __real_pread(fd, to, bytes, at);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const bool counts = counted[0] && got > 0 && at >= 4096 && readlink(link, path, sizeof path - 1) > 0;
    if (counts && strstr(path, counted)) atomic_fetch_add(&bytes_read, got);
    return got;
}

/* ---- a directory ------------------------------------------------------------------------------------ */

/* A form of source: types of the tensors, used in turn, and the number of files. */
typedef struct form {
    const char *name, *golden;
    zr_dtype type[3];
    int files;
} form;

static const form forms[] = {
    {"llama-f32", "llama-scaled", {ZR_F32, ZR_F32, ZR_F32}, 1},
    {"llama-bf16", "llama-scaled", {ZR_BF16, ZR_BF16, ZR_BF16}, 3},
    {"qwen3-f16", "qwen3-heads", {ZR_F16, ZR_F16, ZR_F16}, 2},
    {"qwen2-mixed", "qwen2-window", {ZR_BF16, ZR_F32, ZR_F16}, 4},
    {"mistral-bf16", "mistral-window", {ZR_BF16, ZR_BF16, ZR_BF16}, 1},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void copy_text(const char *from, const char *name)
{
    static char text[1 << 16];
    FILE *file = fopen(from, "rb");
    if (!file) fail_msg("%s cannot be opened", from);
    const size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_in_range(n, 1, sizeof text - 1);
    put_file(name, text, n);
}

static zr_shape shape_of(const zr_safetensors_tensor *t)
{
    zr_shape shape = {.ndim = t->ndim};
    for (int d = 0; d < t->ndim; d++) shape.dim[d] = t->dim[d];
    return shape;
}

/* Write one file of a source: every files-th tensor from number `i` on. */
static void put_part(const form *f, const zr_safetensors *from, int i, zr__text *map)
{
    static float value[ELEMS_MOST];
    zr__tensor_spec spec[TENSORS_MOST];
    zr_dtype type[TENSORS_MOST];
    zr_safetensors *to = NULL;
    char path[PATH_MAX], name[64];
    int n = 0;
    snprintf(name, sizeof name, f->files == 1 ? "model.safetensors" : "part-%c.safetensors", 'c' - i);
    snprintf(path, sizeof path, "%s/%s", in_tempdir(f->name), name);
    for (int64_t t = i; t < zr_safetensors_count(from); t += f->files) {
        const zr_safetensors_tensor *tensor = zr_safetensors_get(from, t);
        spec[n] = (zr__tensor_spec){tensor->name, shape_of(tensor)};
        type[n++] = f->type[t % 3];
        zr__text_add(map, "%s\"%s\": \"%s\"", map->length ? ", " : "", tensor->name, name);
    }
    assert_int_equal(zr__safetensors_create(path, type, spec, n), ZR_OK);
    assert_int_equal(zr__safetensors_attach(path, &to), ZR_OK);
    for (int k = 0; k < n; k++) {
        const zr_safetensors_tensor *tensor = zr_safetensors_find(from, spec[k].name);
        assert_int_equal(zr_safetensors_read_f32(from, tensor, 0, tensor->elems, value), ZR_OK);
        assert_int_equal(zr__safetensors_write(to, zr_safetensors_find(to, spec[k].name), 0, tensor->elems, value),
                         ZR_OK);
    }
    zr_safetensors_close(&to);
}

/* Write a source from a trace of transformers, with generation_config.json. */
static void put_source(const form *f)
{
    char golden[GOLDEN_DIR_BYTES], path[GOLDEN_DIR_BYTES + 64], name[128], index[1 << 14];
    zr_safetensors *from = NULL;
    zr__text map = {0};
    golden_own_dir(f->golden, golden);
    assert_int_equal(mkdir(in_tempdir(f->name), 0700), 0);
    snprintf(path, sizeof path, "%s/model/config.json", golden);
    snprintf(name, sizeof name, "%s/config.json", f->name);
    copy_text(path, name);
    snprintf(name, sizeof name, "%s/generation_config.json", f->name);
    put_file(name, "{\"temperature\": 0.7}\n", 21);
    snprintf(path, sizeof path, "%s/model/model.safetensors", golden);
    assert_int_equal(zr_safetensors_open(path, &from), ZR_OK);
    for (int i = 0; i < f->files; i++) put_part(f, from, i, &map);
    zr_safetensors_close(&from);
    snprintf(name, sizeof name, "%s/model.safetensors.index.json", f->name);
    snprintf(index, sizeof index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {%s}}", map.data);
    if (f->files > 1) put_file(name, index, strlen(index));
    zr__text_clear(&map);
    snprintf(path, sizeof path, "%s/tokens.bin", golden);
    snprintf(name, sizeof name, "%s.bin", f->name);
    copy_text(path, name);
}

static int set_up(void **state)
{
    if (tempdir_make(state)) return -1;
    for (int i = 0; i < FORMS; i++) put_source(&forms[i]);
    return 0;
}

/* ---- comparison --------------------------------------------------------------------------------------- */

static const zr_hf_names no_names = {.prefix = ""};

static zr_weights *opened(const char *name)
{
    zr_weights *w = NULL;
    if (zr_weights_open(in_tempdir(name), &no_names, &w) != ZR_OK) fail_msg("%s", zr_error_message());
    return w;
}

static const char *file_name(const zr_safetensors *file)
{
    return strrchr(zr__safetensors_path(file), '/') + 1;
}

static void assert_same_bytes(const zr_safetensors *a, const zr_safetensors_tensor *x, const zr_safetensors *b,
                              const zr_safetensors_tensor *y)
{
    static char left[4 * ELEMS_MOST], right[4 * ELEMS_MOST];
    FILE *f = fopen(zr__safetensors_path(a), "rb"), *g = fopen(zr__safetensors_path(b), "rb");
    assert_true(x->bytes <= (int64_t)sizeof left && x->bytes == y->bytes);
    assert_int_equal(fseek(f, (long)x->offset, SEEK_SET) | fseek(g, (long)y->offset, SEEK_SET), 0);
    assert_int_equal(fread(left, 1, (size_t)x->bytes, f), x->bytes);
    assert_int_equal(fread(right, 1, (size_t)y->bytes, g), y->bytes);
    fclose(f);
    fclose(g);
    if (memcmp(left, right, (size_t)x->bytes) != 0) fail_msg("%s of %s differs", x->name, zr__safetensors_path(b));
}

static void assert_same_values(const zr_safetensors *a, const zr_safetensors_tensor *x, const zr_safetensors *b,
                               const zr_safetensors_tensor *y)
{
    static float left[ELEMS_MOST], right[ELEMS_MOST];
    const zr_shape shape = shape_of(x);
    const int64_t n = zr_shape_elems(&shape);
    assert_int_equal(zr_safetensors_read_f32(a, x, 0, n, left), ZR_OK);
    assert_int_equal(zr_safetensors_read_f32(b, y, 0, n, right), ZR_OK);
    if (memcmp(left, right, (size_t)n * sizeof *left) != 0) fail_msg("%s of %s differs", x->name, file_name(b));
}

/* Check that two directories have the same files with the same tensors, in the type `dtype` if it is not NULL. If
 * `same` is set, check their values, and their bytes too if `dtype` is NULL. */
static void assert_form(const char *name, const char *other, const char *dtype, bool same)
{
    zr_weights *a = opened(name), *b = opened(other);
    assert_int_equal(zr__weights_files(a), zr__weights_files(b));
    for (int64_t i = 0; i < zr__weights_files(a); i++) {
        const zr_safetensors *x = zr__weights_file(a, i), *y = NULL;
        for (int64_t j = 0; j < zr__weights_files(b); j++)
            if (strcmp(file_name(zr__weights_file(b, j)), file_name(x)) == 0) y = zr__weights_file(b, j);
        if (!y) fail_msg("%s has no %s", other, file_name(x));
        assert_int_equal(zr_safetensors_count(x), zr_safetensors_count(y));
        for (int64_t t = 0; t < zr_safetensors_count(x); t++) {
            const zr_safetensors_tensor *p = zr_safetensors_get(x, t), *q = zr_safetensors_find(y, p->name);
            if (!q) fail_msg("%s has no %s in %s", other, p->name, file_name(x));
            assert_string_equal(dtype ? dtype : p->dtype, q->dtype);
            const zr_shape shape = shape_of(p);
            assert_true(zr__safetensors_has_shape(q, &shape));
            if (same) (dtype ? assert_same_values : assert_same_bytes)(x, p, y, q);
        }
    }
    zr_weights_close(&a);
    zr_weights_close(&b);
}

static void assert_same_form(const char *name, const char *other, bool bytes)
{
    assert_form(name, other, NULL, bytes);
}

static json_t *json_of(const char *name, const char *file)
{
    char path[PATH_MAX];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", in_tempdir(name), file);
    json_t *root = json_load_file(path, 0, &error);
    if (!root) fail_msg("%s: %s", path, error.text);
    return root;
}

/* Check that config.json of `other` has all keys of `name`, with equal values or with the meaning that zr writes, and
 * gives the same model. */
static void assert_same_config(const char *name, const char *other)
{
    json_t *a = json_of(name, "config.json"), *b = json_of(other, "config.json"), *value;
    const char *key;
    const zr_family *family[2];
    zr_model_config config[2];
    json_object_foreach(a, key, value)
    {
        /* transformers derives layer_types, and zr writes rope_parameters beside rope_theta and rope_scaling */
        const bool derived = strcmp(key, "layer_types") == 0 || strcmp(key, "rope_parameters") == 0;
        const json_t *its = json_object_get(b, key);
        if (!derived && !json_is_null(value) && strcmp(key, "dtype") != 0 && !json_equal(its, value))
            fail_msg("%s of %s differs", key, other);
    }
    assert_null(json_object_get(b, ZR_HF_FILES_KEY));
    assert_int_equal(zr_hf_read(in_tempdir(name), &family[0], &config[0]), ZR_OK);
    assert_int_equal(zr_hf_read(in_tempdir(other), &family[1], &config[1]), ZR_OK);
    assert_ptr_equal(family[0], family[1]);
    for (const zr_field *f = family[0]->field; f->key; f++) {
        const bool read = f->type != ZR_FIELD_FIXED && f->type != ZR_FIELD_LAYERS;
        if (read && memcmp(config[0].bytes + f->offset, config[1].bytes + f->offset, zr_field_bytes(f->type)) != 0)
            fail_msg("%s of %s differs", f->key, other);
    }
    json_decref(a);
    json_decref(b);
}

/* Check the type in both of its spellings, and the sum of the sizes in the index. */
static void assert_told(const form *f, const char *name, bool wide)
{
    static const char *const types[] = {[ZR_F32] = "float32", [ZR_BF16] = "bfloat16", [ZR_F16] = "float16"};
    json_t *config = json_of(name, "config.json");
    const char *type = json_string_value(json_object_get(config, "dtype"));
    assert_string_equal(type, json_string_value(json_object_get(config, "torch_dtype")));
    if (wide || f->type[0] == f->type[1]) assert_string_equal(type, types[wide ? ZR_F32 : f->type[0]]);
    json_decref(config);
    if (f->files == 1) return;
    json_t *index = json_of(name, "model.safetensors.index.json");
    zr_weights *w = opened(name);
    int64_t bytes = 0;
    for (int64_t i = 0; i < zr__weights_files(w); i++)
        for (int64_t t = 0; t < zr_safetensors_count(zr__weights_file(w, i)); t++)
            bytes += zr_safetensors_get(zr__weights_file(w, i), t)->bytes;
    assert_int_equal(json_integer_value(json_object_get(json_object_get(index, "metadata"), "total_size")), bytes);
    zr_weights_close(&w);
    json_decref(index);
}

/* ---- conversions -------------------------------------------------------------------------------------- */

static void convert(const char *from, const char *to, zr__convert_to kind)
{
    char source[PATH_MAX], made[PATH_MAX];
    snprintf(source, sizeof source, "%s", in_tempdir(from));
    snprintf(made, sizeof made, "%s", in_tempdir(to));
    const zr__convert_args args = {.from = source, .to = made, .kind = kind, .same_types = true};
    zr__converted did;
    if (zr__convert_dir(&args, &did) != ZR_OK) fail_msg("%s: %s", from, zr_error_message());
}

static void conversions_keep_the_form(void **state)
{
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        char copy[64], run[64], back[64];
        snprintf(copy, sizeof copy, "%s-copy", f->name);
        snprintf(run, sizeof run, "%s-run", f->name);
        snprintf(back, sizeof back, "%s-back", f->name);
        convert(f->name, copy, ZR_CONVERT_HF);
        assert_same_form(f->name, copy, true);
        json_t *a = json_of(f->name, "config.json"), *b = json_of(copy, "config.json");
        assert_true(json_equal(a, b));
        json_decref(a);
        json_decref(b);
        convert(f->name, run, ZR_CONVERT_RUN);
        convert(run, back, ZR_CONVERT_OTHER);
        assert_same_form(f->name, back, true);
        assert_same_config(f->name, back);
        assert_told(f, back, false);
        json_decref(json_of(back, "generation_config.json"));
    }
}

/* ---- training ----------------------------------------------------------------------------------------- */

static bool resumes;

static zr_status train(zr_comm *comm, void *config)
{
    zr_train_result result = {0};
    const zr_observer observer = {0};
    return resumes ? zr_train_resume(config, comm, &observer, &result) : zr_train_run(config, comm, &observer, &result);
}

/* Train `steps` steps from a source, or continue a run. */
static void trained(const form *f, const char *run, int ranks, int stage, int tensor, int steps, double lr)
{
    char text[2048];
    zr_config *config = NULL;
    snprintf(text, sizeof text,
             "{\"model\": {\"init\": \"%s/%s\"}, \"data\": {\"train\": \"%s/%s.bin\", \"seq_length\": 16},"
             " \"train_batch_size\": 4, \"zero_optimization\": {\"stage\": %d}, \"parallel\": {\"tensor\": %d},"
             " \"optimizer\": {\"params\": {\"lr\": %g, \"weight_decay\": 0}},"
             " \"train\": {\"steps\": %d, \"eval_interval\": 0, \"save_interval\": 1, \"threads\": 1,"
             " \"output_dir\": \"%s/%s\"}}",
             tempdir, f->name, tempdir, f->name, stage, tensor, lr, steps, tempdir, run);
    resumes = steps > 1;
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
        zr_train_prepare(config, ranks, 0) != ZR_OK || zr_comm_threads_run(ranks, train, config) != ZR_OK)
        fail_msg("%s: %s", f->name, zr_error_message());
    zr_config_destroy(&config);
}

static void training_keeps_the_form(void **state)
{
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        char run[64], model[80], untrained[80], exported[64];
        snprintf(run, sizeof run, "%s-trained", f->name);
        snprintf(model, sizeof model, "%s/model", run);
        snprintf(exported, sizeof exported, "%s-exported", f->name);
        snprintf(untrained, sizeof untrained, "%s-untrained", f->name);
        trained(f, run, 2, 3, 1 + i % 2, 1, 0);
        assert_form(f->name, model, "F32", true); /* masters are not rounded */
        assert_same_config(f->name, model);
        assert_told(f, model, true);
        json_decref(json_of(model, "generation_config.json"));
        convert(run, untrained, ZR_CONVERT_HF);
        assert_same_form(f->name, untrained, true);
        trained(f, run, 1 + i % 2, 1, 1, 2, 1e-3); /* a resumed run knows the form from its checkpoint */
        assert_form(f->name, model, "F32", false);
        assert_same_config(f->name, model);
        convert(run, exported, ZR_CONVERT_HF);
        assert_same_form(f->name, exported, false);
        assert_same_config(f->name, exported);
    }
}

static void rename_in(const char *run, const char *from, const char *to)
{
    char a[PATH_MAX], b[PATH_MAX];
    snprintf(a, sizeof a, "%s/%s", in_tempdir(run), from);
    snprintf(b, sizeof b, "%s/%s", in_tempdir(run), to);
    assert_int_equal(rename(a, b), 0);
}

/* Check that a run is continued that was killed while it wrote several files: complete files get their names, and
 * incomplete files, which the index's temporary name indicates, are written again. */
static void interrupted_exports_of_several_files(void **state)
{
    (void)state;
    const form *f = &forms[1];
    static const char index[] = "model.tmp/model.safetensors.index.json";
    trained(f, "cut", 1, 1, 1, 1, 0);
    rename_in("cut", "model", "model.tmp");
    trained(f, "cut", 1, 1, 1, 2, 0);
    assert_form(f->name, "cut/model", "F32", true);
    rename_in("cut", "model", "model.tmp");
    rename_in("cut", index, "model.tmp/model.safetensors.index.json.tmp");
    trained(f, "cut", 2, 3, 1, 3, 0);
    assert_form(f->name, "cut/model", "F32", true);
    assert_int_not_equal(access(in_tempdir("cut/model.tmp"), F_OK), 0);
    assert_int_not_equal(access(in_tempdir("cut/model.old"), F_OK), 0);
}

/* Check that a run that ends with a weight that its source's type cannot hold leaves fp32 weights. */
static void weights_that_are_too_large_become_f32(void **state)
{
    (void)state;
    const form *f = &forms[2];
    trained(f, "large", 1, 0, 1, 1, 1e5);
    zr_weights *w = opened("large/model");
    assert_int_equal(zr__weights_files(w), f->files);
    assert_string_equal(zr_safetensors_get(zr__weights_file(w, 0), 0)->dtype, "F32");
    zr_weights_close(&w);
    json_t *config = json_of("large/model", "config.json");
    assert_string_equal(json_string_value(json_object_get(config, "dtype")), "float32");
    json_decref(config);
}

/* ---- bytes -------------------------------------------------------------------------------------------- */

/* Check that ranks divide the reading of weights: from stage 1 on each rank reads its shard, so that all together read
 * each byte once. At stage 0 each rank holds all states, and reads all bytes. */
static void ranks_read_their_own_ranges(void **state)
{
    (void)state;
    const form *f = &forms[1];
    int64_t data = 0;
    zr_weights *w = opened(f->name);
    for (int64_t i = 0; i < zr__weights_files(w); i++)
        for (int64_t t = 0; t < zr_safetensors_count(zr__weights_file(w, i)); t++)
            data += zr_safetensors_get(zr__weights_file(w, i), t)->bytes;
    zr_weights_close(&w);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int stage = 0; stage <= 3; stage++) {
            char run[64];
            snprintf(run, sizeof run, "read-by-%d-at-%d", ranks, stage);
            snprintf(counted, sizeof counted, "/%s/", f->name);
            atomic_store(&bytes_read, 0);
            trained(f, run, ranks, stage, 1, 1, 0);
            counted[0] = '\0';
            assert_int_equal(atomic_load(&bytes_read), stage == 0 ? ranks * data : data);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversions_keep_the_form),
        cmocka_unit_test(training_keeps_the_form),
        cmocka_unit_test(interrupted_exports_of_several_files),
        cmocka_unit_test(weights_that_are_too_large_become_f32),
        cmocka_unit_test(ranks_read_their_own_ranges),
    };
    return cmocka_run_group_tests(tests, set_up, tempdir_remove);
}
