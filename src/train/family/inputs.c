#include "train/family/inputs.h"

#include "base/number/finite.h"
#include "train/family/adapter.h"

#include <string.h>

const zr_param_info *zr__param_named(const zr_graph *graph, const char *name)
{
    for (int32_t p = 0; p < zr_graph_params(graph); p++)
        if (strcmp(zr_graph_param(graph, p)->name, name) == 0) return zr_graph_param(graph, p);
    return NULL;
}

bool zr__param_in(const zr_param_info *param, zr__params set, bool adapters)
{
    const bool in[] = {[ZR_PARAMS_ALL] = true,
                       [ZR_PARAMS_BASE] = !param->adapter,
                       [ZR_PARAMS_STORED] = param->adapter || !adapters,
                       [ZR_PARAMS_TRAINED] = !param->frozen,
                       [ZR_PARAMS_HIDDEN] = param->hidden,
                       [ZR_PARAMS_REST] = !param->frozen && !param->hidden};
    return in[set];
}

zr_status zr__param_specs(const zr_graph *graph, zr__params set, zr__tensor_spec **specs, int64_t *n)
{
    const bool adapters = zr__has_adapters(graph);
    int32_t params = zr_graph_params(graph);
    *specs = zr_alloc(sizeof(**specs) * (size_t)params);
    ZR_CHECK(*specs, ZR_ERR_MEMORY, "no memory for the names of %d parameters", (int)params);
    *n = 0;
    for (int32_t i = 0; i < params; i++) {
        const zr_param_info *info = zr_graph_param(graph, i);
        if (info->tile.index == 0 && zr__param_in(info, set, adapters))
            (*specs)[(*n)++] = (zr__tensor_spec){info->name, info->whole};
    }
    return ZR_OK;
}

zr_status zr__param_graph(const zr__family_model *model, zr_graph **graph)
{
    zr_model builder = zr__family_builder(model);
    /* an encoder needs predictions and samples in the spec; decoders ignore them */
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .predictions = 1, .samples = 1};
    ZR_TRY(zr_graph_create(&spec, graph));
    zr_model_build(&builder, *graph);
    return zr_graph_finish(*graph);
}

zr_status zr__weights_of_dir(const char *dir, zr__family_model *model, zr_weights **weights, char *note, size_t size)
{
    char base[PATH_MAX] = "";
    *weights = NULL;
    if (zr__adapter_is_in(dir)) return zr__adapter_open(dir, base, model, weights, note, size);
    ZR_TRY(zr__family_read(dir, model));
    ZR_TRY(zr_weights_open(dir, &model->family->names, weights));
    return zr__adapter_fits(*weights, model, NULL, note, size);
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
    return zr__weights_finite(zr__weights_file_of(arg, param->name), param->name, first, out, n);
}

/* Add the weights of the adapter model.lora.init, and check that they fit. */
static zr_status add_adapter(const zr_config *config, const zr__family_model *model, zr__inputs *inputs)
{
    ZR_AUTO(zr__adapter_clear) zr__adapter adapter = {0};
    const char *dir = config->model.lora_init;
    zr_status st = zr__adapter_read(dir, &adapter);
    if (st == ZR_OK) st = zr__weights_adapt(inputs->weights, dir, &adapter);
    ZR_CHECK(st == ZR_OK, st, "model.lora.init: %s", zr_error_message());
    st = zr__adapter_fits(inputs->weights, model, &adapter, inputs->note, sizeof(inputs->note));
    ZR_CHECK(st == ZR_OK, st, "model.lora.init: the adapter does not fit model.init: %s", zr_error_message());
    return ZR_OK;
}

/* Check weights that may lack the model's head. */
static zr_status check_weights(const zr_config *config, const zr__family_model *model, zr__inputs *inputs)
{
    bool has = false;
    ZR_TRY(zr__hf_has_head(config->model.init, model->family, &model->config, &has));
    if (has) return zr__adapter_fits(inputs->weights, model, NULL, inputs->note, sizeof(inputs->note));
    return zr__body_fits(inputs->weights, model, inputs->note, inputs->fresh, sizeof(inputs->note));
}

bool zr__inputs_lack(const zr__inputs *inputs, const char *param)
{
    return inputs->fresh[0] && !zr__weights_share(inputs->weights, param);
}

static zr_status open_weights(const zr_config *config, zr__inputs *inputs)
{
    zr__family_model model;
    ZR_CHECK(config->model.init || config->model.lora.rank == 0, ZR_ERR_CONFIG,
             "model.lora.rank is %lld, but model.init is missing; give the directory of the model to adapt",
             (long long)config->model.lora.rank);
    if (!config->model.init) return ZR_OK;
    ZR_TRY(zr__train_model(config, &model));
    ZR_TRY(zr_weights_open(config->model.init, &model.family->names, &inputs->weights));
    if (config->model.lora_init) return add_adapter(config, &model, inputs);
    return check_weights(config, &model, inputs);
}

void zr__data_keys(const zr_config *config, zr_data_args *args)
{
    args->as_text = config->data.as_text;
    args->token_bytes = (int)config->data.token_bytes;
    args->loss_on = config->data.loss_on;
    args->tokenizer = config->data.tokenizer;
    args->packing = config->data.packing;
    args->documents = config->data.packing == ZR_PACK_WHOLE;
    args->chat_template = config->data.chat_template;
    args->chat_date = config->data.chat_date;
    args->chat_template_kwargs = config->data.chat_template_kwargs;
    args->columns = config->data.columns;
    args->text_key = config->data.text_key;
    args->skip_bad_lines = config->data.skip_bad_lines;
    args->cache_dir = config->data.cache_dir;
}

zr_status zr__inputs_open(const zr_config *config, bool first, zr_progress_fn progress, void *arg, zr__inputs *inputs)
{
    ZR_CHECK(config->data.train || config->data.source, ZR_ERR_CONFIG,
             "data.train is missing; give a text or token file to train on (--data FILE)");
    ZR_TRY(config->data.source ? zr__samples_take_source(config, config->data.source, &inputs->train)
                               : zr__samples_open(config, false, first, progress, arg, &inputs->train));
    if (config->data.val_source)
        ZR_TRY(zr__samples_take_source(config, config->data.val_source, &inputs->val));
    else if (config->data.val)
        ZR_TRY(zr__samples_open(config, true, first, progress, arg, &inputs->val));
    return open_weights(config, inputs);
}

void zr__inputs_close(zr__inputs *inputs)
{
    zr__samples_close(&inputs->train);
    zr__samples_close(&inputs->val);
    zr_weights_close(&inputs->weights);
}
