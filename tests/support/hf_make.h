/* Creates Hugging Face directories of small GPT-2 models, in one file or in several. */
#ifndef HF_MAKE_H
#define HF_MAKE_H

#include "hf_gpt2.h"
#include "tempdir.h"
#include "base/text/text.h"
#include "zr/checkpoint.h"
#include "zr/models.h"
#include "checkpoint/checkpoint.h"
#include "zr/graph.h"

#include <sys/stat.h>

enum { HF_TENSORS_MOST = 64 };

/* The values of a whole tensor. */
typedef struct hf_tensor {
    const char *name;
    const float *value;
} hf_tensor;

static inline void hf_new_folder(const char *name)
{
    nftw(in_tempdir(name), tempdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(mkdir(in_tempdir(name), 0777), 0);
}

/* Write name/model.safetensors and name/config.json; tensors that are not in `known` are zeros. */
static inline void hf_make(const char *name, const zr_gpt2_config *hf, const hf_tensor *known, int n)
{
    const zr_model model = zr_gpt2(hf);
    const zr_graph_spec spec = {
        .mode = ZR_MODE_EVAL, .batch = 1, .seq = hf->n_positions, .dtype = ZR_F32, .grad_dtype = ZR_F32, .tensor = 1};
    zr__tensor_spec tensor[HF_TENSORS_MOST];
    zr_graph *g = NULL;
    zr_safetensors *file = NULL;
    char path[PATH_MAX];
    hf_new_folder(name);
    assert_int_equal(hf_gpt2_write(in_tempdir(name), hf), ZR_OK);
    assert_int_equal(zr_graph_create(&spec, &g), ZR_OK);
    model.build(g, model.config);
    assert_true(zr_graph_params(g) <= HF_TENSORS_MOST);
    for (int32_t p = 0; p < zr_graph_params(g); p++)
        tensor[p] = (zr__tensor_spec){zr_graph_param(g, p)->name, zr_graph_param(g, p)->shape};
    snprintf(path, sizeof path, "%s/model.safetensors", in_tempdir(name));
    assert_int_equal(zr__safetensors_create(path, NULL, tensor, zr_graph_params(g)), ZR_OK);
    assert_int_equal(zr__safetensors_attach(path, &file), ZR_OK);
    for (int i = 0; i < n; i++) {
        const zr_safetensors_tensor *to = zr_safetensors_find(file, known[i].name);
        assert_int_equal(zr__safetensors_write(file, to, 0, to->elems, known[i].value), ZR_OK);
    }
    zr_safetensors_close(&file);
    zr_graph_destroy(&g);
}

/* Set every weight of name/model.safetensors to a number between -scale and scale. */
static inline void hf_randomize(const char *name, uint64_t seed, double scale)
{
    const zr_rng rng = {.seed = seed};
    zr_safetensors *file = NULL;
    char path[PATH_MAX];
    uint64_t at = 0;
    snprintf(path, sizeof path, "%s/model.safetensors", in_tempdir(name));
    assert_int_equal(zr__safetensors_attach(path, &file), ZR_OK);
    for (int64_t i = 0; i < zr_safetensors_count(file); i++) {
        const zr_safetensors_tensor *to = zr_safetensors_get(file, i);
        for (int64_t e = 0; e < to->elems; e++) {
            float value = (float)((2 * zr_rng_uniform(&rng, at++) - 1) * scale);
            assert_int_equal(zr__safetensors_write(file, to, e, 1, &value), ZR_OK);
        }
    }
    zr_safetensors_close(&file);
}

/* Write the tensors from[first], from[first + every], ... to a separate file. */
static inline void hf_part(const zr_safetensors *from, int64_t first, int64_t every, const char *path, zr__text *map)
{
    zr__tensor_spec spec[HF_TENSORS_MOST];
    zr_safetensors *to = NULL;
    int64_t n = 0;
    for (int64_t i = first; i < zr_safetensors_count(from); i += every, n++) {
        const zr_safetensors_tensor *t = zr_safetensors_get(from, i);
        spec[n] = (zr__tensor_spec){.name = t->name, .shape = {.ndim = t->ndim}};
        for (int d = 0; d < t->ndim; d++) spec[n].shape.dim[d] = t->dim[d];
        zr__text_add(map, "%s\"%s\": \"%s\"", map->length ? ", " : "", t->name, strrchr(path, '/') + 1);
    }
    assert_int_equal(zr__safetensors_create(path, NULL, spec, n), ZR_OK);
    assert_int_equal(zr__safetensors_attach(path, &to), ZR_OK);
    for (int64_t i = 0; i < n; i++) {
        const zr_safetensors_tensor *t = zr_safetensors_find(from, spec[i].name);
        float *value = zr_alloc((size_t)t->elems * sizeof(float));
        assert_int_equal(zr_safetensors_read_f32(from, t, 0, t->elems, value), ZR_OK);
        assert_int_equal(zr__safetensors_write(to, zr_safetensors_find(to, t->name), 0, t->elems, value), ZR_OK);
        zr_free(value);
    }
    zr_safetensors_close(&to);
}

/* Write the model `name` again as transformers writes a model that exceeds its file size limit: the tensors are
 * distributed over `files` files. */
static inline void hf_split(const char *name, const zr_gpt2_config *hf, const char *as, int files)
{
    zr_safetensors *from = NULL;
    zr__text map = {0};
    char path[PATH_MAX], index_name[128], index[1 << 14];
    hf_new_folder(as);
    assert_int_equal(hf_gpt2_write(in_tempdir(as), hf), ZR_OK);
    snprintf(path, sizeof path, "%s/model.safetensors", in_tempdir(name));
    assert_int_equal(zr_safetensors_open(path, &from), ZR_OK);
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/model-%05d-of-%05d.safetensors", in_tempdir(as), i + 1, files);
        hf_part(from, i, files, path, &map);
    }
    zr_safetensors_close(&from);
    snprintf(index_name, sizeof index_name, "%s/model.safetensors.index.json", as);
    snprintf(index, sizeof index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {%s}}", map.data);
    put_file(index_name, index, strlen(index));
    zr__text_clear(&map);
}

#endif
