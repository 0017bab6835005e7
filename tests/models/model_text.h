/* A model as text: its parameters and its ops, each on a line, as a configuration's section "model" declares it. */
#ifndef MODEL_TEXT_H
#define MODEL_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "zr/config.h"
#include "zr/models.h"

/* Read the settings of a model from the members of the section "model", and complete them. */
static inline zr_config *model_config(const char *members)
{
    char text[1024];
    zr_config *config = NULL;
    snprintf(text, sizeof text, "{\"model\": {%s}}", members);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    if (zr_config_resolve(config, 1) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

/* Build the graph of a model. `status` is what building it comes to. */
static inline zr_graph *model_build(const char *members, const zr_graph_spec *spec, zr_status status)
{
    zr_config *config = model_config(members);
    const zr_model model = zr_family_model(config->model.family, &config->model.config);
    zr_graph *graph = NULL;
    assert_int_equal(zr_graph_create(spec, &graph), ZR_OK);
    model.build(graph, model.config);
    const zr_status built = zr_graph_finish(graph);
    if (built != status) fail_msg("%s", zr_error_message());
    zr_config_destroy(&config);
    return graph;
}

/* Add a value: a parameter's name, in which "~" stands for all up to the name of the op's unit, "in0" for the first
 * input, "%3" for what op 3 writes, "-" for none. */
static inline void add_value(zr__text *text, const zr_graph *graph, const char *unit, zr_value value)
{
    if (value == ZR_NONE) {
        zr__text_add(text, "-");
        return;
    }
    const zr_value_info *info = zr_graph_value(graph, value);
    if (info->kind == ZR_VALUE_PARAM) {
        const char *name = zr_graph_param(graph, info->param)->name, *own = strstr(name, unit);
        const bool is_own = own && own[strlen(unit)] == '.';
        zr__text_add(text, "%s%s", is_own ? "~" : "", is_own ? own + strlen(unit) : name);
    }
    if (info->kind == ZR_VALUE_ACT) zr__text_add(text, "%%%d", (int)info->producer);
    if (info->kind == ZR_VALUE_CACHE) zr__text_add(text, "cache");
    for (int32_t i = 0; i < zr_graph_inputs(graph); i++)
        if (zr_graph_input(graph, i) == value) zr__text_add(text, "in%d", (int)i);
}

/* List the ops of the forward pass from number `from` on: number, unit, name, operands, and attributes up to the last
 * that is not 0. */
static inline char *model_ops(const zr_graph *graph, int32_t from)
{
    zr__text text = {0};
    char *list = NULL;
    for (int32_t n = from; n < zr_graph_ops(graph); n++) {
        const zr_op *op = zr_graph_get_op(graph, n);
        const char *unit = zr_graph_unit_info(graph, op->unit)->name;
        int last = 8;
        if (op->backward) break;
        zr__text_add(&text, "%%%d %s: %s(", (int)n, unit, op->def->name);
        for (int i = 0; i < op->n_in; i++) {
            if (i) zr__text_add(&text, ", ");
            add_value(&text, graph, unit, op->in[i]);
        }
        zr__text_add(&text, ")");
        while (last > 0 && op->attr.i[last - 1] == 0) last--;
        for (int i = 0; i < last; i++) zr__text_add(&text, " %lld", (long long)op->attr.i[i]);
        for (last = 8; last > 0 && op->attr.f[last - 1] == 0;) last--;
        for (int i = 0; i < last; i++) zr__text_add(&text, i ? " %g" : " ; %g", op->attr.f[i]);
        zr__text_add(&text, "\n");
    }
    assert_int_equal(zr__text_take(&text, &list), ZR_OK);
    return list;
}

/* List the inputs' shapes. */
static inline char *model_inputs(const zr_graph *graph)
{
    zr__text text = {0};
    char *list = NULL;
    for (int32_t i = 0; i < zr_graph_inputs(graph); i++) {
        const zr_type *type = &zr_graph_value(graph, zr_graph_input(graph, i))->type;
        assert_int_equal(type->dtype, ZR_I32);
        zr__text_add(&text, "in%d:", (int)i);
        for (int d = 0; d < type->shape.ndim; d++) zr__text_add(&text, " %lld", (long long)type->shape.dim[d]);
        zr__text_add(&text, "\n");
    }
    assert_int_equal(zr__text_take(&text, &list), ZR_OK);
    return list;
}

/* List the parameters from number `from` on: unit, name, shape in the whole model, cut, and how it begins. */
static inline char *model_params(const zr_graph *graph, int32_t from)
{
    zr__text text = {0};
    char *list = NULL;
    for (int32_t p = from; p < zr_graph_params(graph); p++) {
        const zr_param_info *param = zr_graph_param(graph, p);
        const char *const begin[] = {"zeros", "ones", "normal", "uniform"};
        zr__text_add(&text, "%s: %s (", zr_graph_unit_info(graph, param->unit)->name, param->name);
        for (int d = 0; d < param->whole.ndim; d++)
            zr__text_add(&text, "%s%lld", d ? ", " : "", (long long)param->whole.dim[d]);
        zr__text_add(&text, ") %s", begin[param->init.kind]);
        if (param->init.std != 0) zr__text_add(&text, " %g", param->init.std);
        if (param->cut.parts) zr__text_add(&text, ", cut %d/%d", (int)param->cut.dim, (int)param->cut.parts);
        zr__text_add(&text, "\n");
    }
    assert_int_equal(zr__text_take(&text, &list), ZR_OK);
    return list;
}

/* List the fields that are numbers: key, default in zr and in transformers, range. The defaults of dropout are left to
 * the tests of configurations. */
static inline char *model_fields(const char *name)
{
    zr__text text = {0};
    char *list = NULL;
    for (const zr_field *f = zr_family_find(name)->field; f->key; f++) {
        if (f->type != ZR_FIELD_INT && f->type != ZR_FIELD_REAL) continue;
        zr__text_add(&text, "%s:", f->key);
        if (f->role != ZR_FIELD_DROPOUT) zr__text_add(&text, " %s", f->standard);
        if (f->role != ZR_FIELD_DROPOUT && f->fallback) zr__text_add(&text, " | %s", f->fallback);
        zr__text_add(&text, ", %.12g to %.12g\n", f->min, f->max);
    }
    assert_int_equal(zr__text_take(&text, &list), ZR_OK);
    return list;
}

/* Check that a list is what is expected, line by line, and free it. */
static inline void expect_lines(char *list, const char *const *line, int n)
{
    const char *at = list;
    for (int i = 0; i < n; i++) {
        const size_t bytes = strcspn(at, "\n");
        if (strlen(line[i]) != bytes || strncmp(at, line[i], bytes) != 0)
            fail_msg("line %d is\n%.*s\nand not\n%s", i, (int)bytes, at, line[i]);
        at += bytes + 1;
    }
    assert_string_equal(at, "");
    zr_free(list);
}
#define EXPECT_LINES(list, ...)                                                                                        \
    expect_lines(list, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#endif
