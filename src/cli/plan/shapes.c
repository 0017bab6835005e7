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

static void print_text(FILE *out, const char *name, const zr_config_sizes *c, int64_t params)
{
    char amount[32];
    fprintf(out, "%-24s%7lld%7lld%7lld%11lld%11lld  %9s\n", name, (long long)c->n_layer, (long long)c->n_embd,
            (long long)c->n_head, (long long)c->n_positions, (long long)c->vocab_size,
            cli_amount((double)params, amount));
}

static void print_json(FILE *out, bool first, const char *name, const zr_config_sizes *c, int64_t params)
{
    fprintf(out,
            "%s\n{\"name\": \"%s\", \"n_layer\": %lld, \"n_embd\": %lld, \"n_head\": %lld, \"n_positions\": %lld, "
            "\"vocab_size\": %lld, \"params\": %lld}",
            first ? "" : ",", name, (long long)c->n_layer, (long long)c->n_embd, (long long)c->n_head,
            (long long)c->n_positions, (long long)c->vocab_size, (long long)params);
}

zr_status cli_shapes_print(FILE *out, bool json)
{
    const char *name;
    if (json) {
        fputc('[', out);
    } else {
        fprintf(out, "%-24s%7s%7s%7s%11s%11s  %9s\n", "name", "layers", "width", "heads", "positions", "tokens",
                "params");
    }
    for (int i = 0; (name = zr__family_preset_name(i)); i++) {
        zr__family_model shape;
        int64_t params = 0;
        ZR_TRY(zr__family_find_preset(name, &shape));
        ZR_TRY(params_of(&shape, &params));
        if (json) {
            print_json(out, i == 0, name, &shape.sizes, params);
        } else {
            print_text(out, name, &shape.sizes, params);
        }
    }
    if (json) fputs("\n]\n", out);
    return ZR_OK;
}
