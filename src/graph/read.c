/* Functions that read a graph's ops, values, parameters, units and inputs. */
#include "graph/internal.h"

const zr_graph_spec *zr_graph_get_spec(const zr_graph *graph)
{
    return &graph->spec;
}

int32_t zr_graph_ops(const zr_graph *graph)
{
    return graph->n_ops;
}

const zr_op *zr_graph_get_op(const zr_graph *graph, int32_t op)
{
    return op >= 0 && op < graph->n_ops ? &graph->op[op] : NULL;
}

int32_t zr_graph_values(const zr_graph *graph)
{
    return graph->n_values;
}

const zr_value_info *zr_graph_value(const zr_graph *graph, zr_value value)
{
    return zr__graph_has(graph, value) ? &graph->value[value].info : NULL;
}

int32_t zr_graph_params(const zr_graph *graph)
{
    return graph->n_params;
}

const zr_param_info *zr_graph_param(const zr_graph *graph, int32_t param)
{
    return param >= 0 && param < graph->n_params ? &graph->param[param] : NULL;
}

int32_t zr_graph_units(const zr_graph *graph)
{
    return graph->n_units;
}

const zr_unit_info *zr_graph_unit_info(const zr_graph *graph, int32_t unit)
{
    return unit >= 0 && unit < graph->n_units ? &graph->unit[unit] : NULL;
}

int32_t zr_graph_inputs(const zr_graph *graph)
{
    return graph->n_inputs;
}

zr_value zr_graph_input(const zr_graph *graph, int32_t input)
{
    return input >= 0 && input < graph->n_inputs ? graph->input[input] : ZR_NONE;
}

int zr_graph_loss_terms(const zr_graph *graph)
{
    return graph->n_terms;
}

zr_value zr_graph_get_loss_term(const zr_graph *graph, int term)
{
    return term >= 0 && term < graph->n_terms ? graph->term[term].losses : ZR_NONE;
}

const char *zr_graph_loss_name(const zr_graph *graph, int term)
{
    return term >= 0 && term < graph->n_terms ? graph->term[term].name : NULL;
}

zr_value zr_graph_get_output(const zr_graph *graph)
{
    return graph->output;
}

zr_value zr_graph_get_documents(const zr_graph *graph)
{
    return graph->documents;
}

int64_t zr_graph_param_elems(const zr_graph *graph)
{
    return graph->param_elems;
}
