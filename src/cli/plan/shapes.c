/** The list of known model shapes: `zr plan --shapes`. */
#include "base/json/json_write.h"
#include "cli/plan/profile.h"
#include "train/family/family.h"

#include <stdio.h>
#include <string.h>

/** Count the parameters of a shape. For this, build its model, which declares the parameters. */
static zr_status params_of(const zr__family_model *shape, int64_t *params)
{
    /* only encoders use predictions and samples */
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .predictions = 1, .samples = 1};
    ZR_AUTO(zr_graph_destroy) zr_graph *graph = NULL;
    zr_model model = zr__family_builder(shape);
    ZR_TRY(zr_graph_create(&spec, &graph));
    zr_model_build(&model, graph);
    ZR_TRY(zr_graph_finish(graph));
    *params = zr_graph_param_elems(graph);
    return ZR_OK;
}

int64_t cli_kv_heads(const zr_family *family, const void *config)
{
    int64_t heads = 0;
    const zr_field *field = zr_family_meaning(family, "key/value heads");
    if (field) memcpy(&heads, (const char *)config + field->offset, sizeof(heads));
    return heads ? heads : zr_family_sizes(family, config).heads;
}

static const char *key_of(const zr_family *family, const char *means)
{
    return zr_family_meaning(family, means)->key;
}

zr_status cli_shapes_print(FILE *out, bool json)
{
    ZR_AUTO(zr__json_drop) zr__json_out all = {.spaced = true};
    const zr_family *family;
    const zr_preset *preset;
    if (!json)
        fprintf(out, "%-21s%6s%6s%6s%10s%7s%9s %-11s%3s\n", "name", "layers", "width", "heads", "positions", "tokens",
                "params", "type", "kv");
    zr__json_open(&all, NULL, '[');
    for (int i = 0; (preset = zr_family_preset(i, &family)); i++) {
        zr__family_model shape;
        const zr_model_sizes *c = &shape.sizes;
        int64_t params = 0;
        const char *name = preset->name;
        ZR_TRY(zr__family_find_preset(name, &shape));
        ZR_TRY(params_of(&shape, &params));
        if (!json) {
            fprintf(out, "%-22s%5lld%6lld%6lld%10lld%7lld%9s %-11s%3lld\n", name, (long long)c->layers,
                    (long long)c->width, (long long)c->heads, (long long)c->positions, (long long)c->vocabulary,
                    ZR_AMOUNT((double)params), family->name, (long long)cli_kv_heads(family, &shape.config));
            continue;
        }
        zr__json_break(&all, "\n");
        zr__json_open(&all, NULL, '{');
        zr__json_add(&all, "name", name, key_of(family, "layers"), c->layers, key_of(family, "width"), c->width,
                     key_of(family, "heads"), c->heads, key_of(family, "positions"), c->positions);
        zr__json_add(&all, key_of(family, "vocabulary"), c->vocabulary);
        if (zr_family_meaning(family, "key/value heads"))
            zr__json_add(&all, key_of(family, "key/value heads"), cli_kv_heads(family, &shape.config));
        zr__json_add(&all, "type", family->name, "params", params);
        zr__json_close(&all, '}');
    }
    zr__text_add(&all.text, "\n");
    zr__json_close(&all, ']');
    return json ? zr__json_write(&all, out) : ZR_OK;
}
