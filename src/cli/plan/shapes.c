/** The list of known shapes: `zr plan --shapes`. */
#include "base/json/json_write.h"
#include "cli/shell/cli.h"
#include "train/family/family.h"

/** Count the parameters that the model itself declares. */
static zr_status params_of(const zr__family_model *shape, int64_t *params)
{
    zr_graph_spec spec = {.mode = ZR_MODE_EVAL, .batch = 1, .seq = 1, .dtype = ZR_F32, .grad_dtype = ZR_F32};
    zr_graph *graph = NULL;
    zr_model model = zr__family_builder(shape);
    ZR_TRY(zr_graph_create(&spec, &graph));
    model.build(graph, model.config);
    zr_status st = zr_graph_finish(graph);
    if (st == ZR_OK) *params = zr_graph_param_elems(graph);
    zr_graph_destroy(&graph);
    return st;
}

static void add_shape(zr__json_out *out, const char *name, const zr_config_sizes *c, int64_t params)
{
    zr__json_break(out, "\n");
    zr__json_open(out, NULL, '{');
    zr__json_add(out, "name", name);
    zr__json_add(out, "n_layer", c->n_layer);
    zr__json_add(out, "n_embd", c->n_embd);
    zr__json_add(out, "n_head", c->n_head);
    zr__json_add(out, "n_positions", c->n_positions);
    zr__json_add(out, "vocab_size", c->vocab_size);
    zr__json_add(out, "params", params);
    zr__json_close(out, '}');
}

static zr_status list_shapes(FILE *out, zr__json_out *json)
{
    const char *name;
    if (!json)
        fprintf(out, "%-24s%7s%7s%7s%11s%11s  %9s\n", "name", "layers", "width", "heads", "positions", "tokens",
                "params");
    for (int i = 0; (name = zr__family_preset_name(i)); i++) {
        zr__family_model shape;
        const zr_config_sizes *c = &shape.sizes;
        int64_t params = 0;
        ZR_TRY(zr__family_find_preset(name, &shape));
        ZR_TRY(params_of(&shape, &params));
        if (json)
            add_shape(json, name, c, params);
        else
            fprintf(out, "%-24s%7lld%7lld%7lld%11lld%11lld  %9s\n", name, (long long)c->n_layer, (long long)c->n_embd,
                    (long long)c->n_head, (long long)c->n_positions, (long long)c->vocab_size,
                    ZR_AMOUNT((double)params));
    }
    return ZR_OK;
}

zr_status cli_shapes_print(FILE *out, bool json)
{
    zr__json_out document = {.spaced = true};
    char *text = NULL;
    if (!json) return list_shapes(out, NULL);
    zr__json_open(&document, NULL, '[');
    zr_status st = list_shapes(out, &document);
    zr__text_add(&document.text, "\n");
    zr__json_close(&document, ']');
    if (st == ZR_OK) st = zr__text_take(&document.text, &text);
    if (st == ZR_OK) fprintf(out, "%s\n", text);
    zr__text_clear(&document.text);
    zr_free(text);
    return st;
}
