#include "train/family/inputs.h"

#include "base/number/finite.h"
#include "checkpoint/checkpoint.h"

zr_status zr__param_specs(const zr_graph *graph, bool trained, zr_tensor_spec **specs, int64_t *n)
{
    int32_t params = zr_graph_params(graph);
    *specs = zr_alloc(sizeof(**specs) * (size_t)params);
    ZR_CHECK(*specs, ZR_ERR_MEMORY, "no memory for the names of %d parameters", (int)params);
    *n = 0;
    for (int32_t i = 0; i < params; i++) {
        const zr_param_info *info = zr_graph_param(graph, i);
        if (!trained || !info->frozen) (*specs)[(*n)++] = (zr_tensor_spec){info->name, info->whole};
    }
    return ZR_OK;
}

zr_status zr__param_graph(const zr__family_model *model, zr_graph **graph)
{
    zr_model builder = zr__family_builder(model);
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .dtype = ZR_F32, .grad_dtype = ZR_F32};
    ZR_TRY(zr_graph_create(&spec, graph));
    zr_model_build(&builder, *graph);
    zr_status st = zr_graph_finish(*graph);
    if (st != ZR_OK) zr_graph_destroy(graph);
    return st;
}

/* Check that a weights file has all parameters of the model in their shapes. `note` receives the names of tensors that
 * the model does not use. */
static zr_status check_weights_fit(const zr_weights *weights, const zr__family_model *model, char *note, size_t size)
{
    zr_graph *graph = NULL;
    zr_tensor_spec *specs = NULL;
    int64_t n = 0;
    ZR_TRY(zr__param_graph(model, &graph));
    zr_status st = zr__param_specs(graph, false, &specs, &n);
    if (st == ZR_OK) st = zr__weights_check(weights, specs, n, note, size);
    zr_free(specs);
    zr_graph_destroy(&graph);
    return st;
}

zr_status zr__weights_of_dir(const char *dir, zr__family_model *model, zr_weights **weights, char *note, size_t size)
{
    *weights = NULL;
    ZR_TRY(zr__family_read(dir, model));
    ZR_TRY(zr_weights_open(dir, &model->family->names, weights));
    zr_status st = check_weights_fit(*weights, model, note, size);
    if (st != ZR_OK) zr_weights_close(weights);
    return st;
}

zr_status zr__weights_finite(const char *where, const char *tensor, int64_t first, const float *x, int64_t n)
{
    const int64_t bad = zr__first_bad(x, n);
    if (bad < 0) return ZR_OK;
    return ZR_FAIL(ZR_ERR_DATA, "%s%stensor %s: element %lld is %g; weights must be finite", where, *where ? ": " : "",
                   tensor, (long long)(first + bad), (double)x[bad]);
}

zr_status zr__weights_fill(void *arg, const zr_param_info *param, int64_t first, int64_t n, float *out)
{
    ZR_TRY(zr_weights_read(arg, param->name, first, n, out));
    return zr__weights_finite("", param->name, first, out, n);
}

static zr_status open_weights(const zr_config *config, zr__inputs *inputs)
{
    zr__family_model model;
    if (!config->model.init) return ZR_OK;
    ZR_TRY(zr__train_model(config, &model));
    ZR_TRY(zr_weights_open(config->model.init, &model.family->names, &inputs->weights));
    ZR_TRY(check_weights_fit(inputs->weights, &model, inputs->note, sizeof(inputs->note)));
    return ZR_OK;
}

void zr__data_keys(const zr_config *config, zr_data_args *args)
{
    args->tokenizer = config->data.tokenizer;
    args->packing = config->data.packing == ZR_PACKING_ONE         ? ZR_PACK_ONE
                    : config->data.packing == ZR_PACKING_DOCUMENTS ? ZR_PACK_DOCUMENTS
                                                                   : ZR_PACK_AUTO;
    args->chat_template = config->data.chat_template;
    args->text_key = config->data.text_key;
    args->skip_bad_lines = config->data.skip_bad_lines;
    args->cache_dir = config->data.cache_dir;
}

static zr_status open_all(const zr_config *config, bool first, zr_progress_fn progress, void *arg, zr__inputs *inputs)
{
    ZR_CHECK(config->data.train, ZR_ERR_CONFIG, "data.train is missing; give a text or token file to train on");
    zr_data_args args = {.path = config->data.train,
                         .vocab_size = zr_config_sizes(config).vocabulary,
                         .seq_length = config->data.seq_length,
                         .order = config->data.order == ZR_ORDER_SEQUENTIAL ? ZR_SEQUENTIAL : ZR_SHUFFLED,
                         .seed = (uint64_t)config->train.seed,
                         .cache_is_whole = !first,
                         .progress = progress,
                         .arg = arg};
    zr__data_keys(config, &args);
    ZR_TRY(zr_data_open_with(&args, &inputs->train));
    args.path = config->data.val;
    args.order = ZR_SEQUENTIAL;
    if (args.path) ZR_TRY(zr_data_open_with(&args, &inputs->val));
    ZR_TRY(open_weights(config, inputs));
    return ZR_OK;
}

zr_status zr__inputs_open(const zr_config *config, bool first, zr_progress_fn progress, void *arg, zr__inputs *inputs)
{
    zr_status st = open_all(config, first, progress, arg, inputs);
    if (st != ZR_OK) zr__inputs_close(inputs);
    return st;
}

void zr__inputs_close(zr__inputs *inputs)
{
    zr_data_close(&inputs->train);
    zr_data_close(&inputs->val);
    zr_weights_close(&inputs->weights);
}
