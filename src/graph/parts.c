/* Parts of a model's parameters: the pieces of tensor-parallel ranks, the tiles of tables, and separate units for
 * tiles, frozen parameters and, on request, vectors, or all parameters except hidden matrices.
 *
 * ZeRO gathers parameters, reduces gradients, shards states and forms buckets by whole units. A tile of a table is a
 * unit, so that a table needs no buffer of its size. Frozen parameters form separate units, so that either all
 * parameters of a unit train or no parameter does. Vectors apart from matrices let a policy treat matrices alone. */
#include "graph/internal.h"
#include "base/core/scope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- pieces and tiles -------------------------------------------------------------------------- */

zr_status zr__cut_shape(const zr_graph *graph, zr_param_info *info)
{
    const int64_t M = graph->spec.tensor, parts = info->cut.parts;
    info->shape = info->whole;
    if (M <= 1 || parts == 0) {
        info->cut = (zr_cut){0};
        return ZR_OK;
    }
    ZR_CHECK(info->cut.dim >= 0 && info->cut.dim < info->whole.ndim && parts > 0, ZR_ERR_ARG,
             "parameter %s: a cut of dimension %d in %d parts; it has %d dimensions", info->name, info->cut.dim,
             info->cut.parts, info->whole.ndim);
    const int64_t size = info->whole.dim[info->cut.dim];
    ZR_CHECK(size % parts == 0 && (size / parts % M == 0 || (info->cut.dim == 0 && parts == 1)), ZR_ERR_CONFIG,
             "parameter %s: its %" PRId64 " %s cannot be shared by %" PRId64 " tensor-parallel ranks "
             "(parallel.tensor); wanted a degree that divides %" PRId64,
             info->name, size, info->cut.dim == 0 ? "rows" : "columns", M, size / parts);
    info->shape.dim[info->cut.dim] = (size / parts + M - 1) / M * parts;
    return ZR_OK;
}

zr_status zr__tile_rows(const zr_graph *graph, const zr_param_info *info, int64_t *rows)
{
    const int64_t all = info->shape.dim[0], cols = info->shape.dim[1], elems = graph->spec.tile_elems;
    *rows = all;
    if (elems == 0 || zr_shape_elems(&info->shape) <= elems) return ZR_OK;
    ZR_CHECK(elems >= cols, ZR_ERR_CONFIG,
             "memory.tile_elems is %" PRId64 "; a row of %s has %" PRId64
             " elements, and a tile needs at least one row",
             elems, info->name, cols);
    const int64_t most = elems / cols, tiles = (all + most - 1) / most;
    ZR_CHECK(tiles <= ZR_TILES_MOST, ZR_ERR_CONFIG,
             "memory.tile_elems is %" PRId64 ", which divides %s into %" PRId64
             " tiles; wanted at most %d tiles, so %" PRId64 " or more",
             elems, info->name, tiles, ZR_TILES_MOST, (all + ZR_TILES_MOST - 1) / ZR_TILES_MOST * cols);
    *rows = (all + tiles - 1) / tiles;
    return ZR_OK;
}

int32_t zr__tiles(const zr_graph *graph, zr_value param)
{
    const zr_value_info *info = zr_graph_value(graph, param);
    return info && info->kind == ZR_VALUE_PARAM ? graph->param[info->param].tile.count : 1;
}

void zr__table_rows(const zr_graph *graph, zr_value tile, int64_t i[3])
{
    const zr_param_info *info = zr_graph_param(graph, zr_graph_value(graph, tile)->param);
    const int64_t M = info->cut.parts > 0 ? graph->spec.tensor : 1;
    i[0] = info->whole.dim[0];
    i[1] = (i[0] + M - 1) / M;
    i[2] = info->tile.first;
}

int64_t zr_param_place(const zr_graph *graph, int32_t param, int64_t place, int64_t first, int64_t n, int64_t *run)
{
    const zr_param_info *info = &graph->param[param];
    *run = n;
    if (info->tile.count > 1) first += info->tile.first * info->whole.dim[1];
    if (info->cut.parts == 0) return first;
    /* The rank's piece has the shape [outer, part, here, inner], and the whole parameter has [outer, part, there,
     * inner]: only the third dimension is cut. */
    int64_t inner = 1, parts = info->cut.parts;
    for (int d = info->cut.dim + 1; d < info->whole.ndim; d++) inner *= info->whole.dim[d];
    const int64_t there = info->whole.dim[info->cut.dim] / parts, M = graph->spec.tensor;
    const int64_t here = (there + M - 1) / M;
    const int64_t block = first / (here * inner), past = first % (here * inner), own = there - place * here;
    /* number of elements of the block that are not padding */
    const int64_t valid = own < 0 ? 0 : own < here ? own * inner : here * inner;
    const int64_t end = past < valid ? valid : here * inner;
    if (end - past < n) *run = end - past;
    return past < valid ? (block * there + place * here) * inner + past : -1;
}

/* ---- units ------------------------------------------------------------------------------------- */

/* Store `param` as the parameter with index `place`, at the end of the unit `unit`. */
static void place_param(zr_graph *graph, int32_t place, zr_param_info param, int32_t unit)
{
    zr_unit_info *its = &graph->unit[unit];
    if (its->n_params++ == 0) its->first_param = place;
    param.unit = unit;
    param.unit_offset = zr__param_begin(graph, its, &param);
    its->elems = param.unit_offset + zr_shape_elems(&param.shape);
    graph->value[param.value].info.param = place;
    graph->param[place] = param;
}

static bool is_tile(const zr_param_info *param)
{
    return param->tile.count > 1;
}

/* Kinds of parameters. Parameters of the kind STAYS keep their unit. The other kinds move to new units, in this order.
 */
typedef enum param_kind { STAYS, VECTOR, TILE, FROZEN, FROZEN_VECTOR, FROZEN_TILE, KINDS } param_kind;

/* Return whether a trained parameter has a unit of its own because other parameters of its unit are hidden matrices. */
static bool is_beside_hidden(const zr_graph *graph, const zr_param_info *param)
{
    const zr_unit_info *unit = &graph->unit[param->unit];
    const zr_param_info *of_unit = graph->param + unit->first_param;
    for (int32_t p = 0; p < unit->n_params && !param->hidden; p++)
        if (of_unit[p].hidden) return true;
    return false;
}

/* Return whether a vector has a unit of its own, because matrices of its unit are trained, or frozen, as it is. */
static bool is_apart(const zr_graph *graph, const zr_param_info *param)
{
    const zr_unit_info *unit = &graph->unit[param->unit];
    const zr_param_info *of_unit = graph->param + unit->first_param;
    if (!param->frozen && is_beside_hidden(graph, param)) return true;
    if (!graph->spec.vectors_apart || param->shape.ndim > 1) return false;
    for (int32_t p = 0; p < unit->n_params; p++)
        if (of_unit[p].frozen == param->frozen && !is_tile(&of_unit[p]) && of_unit[p].shape.ndim > 1) return true;
    return false;
}

static param_kind kind_of(const zr_graph *graph, const zr_param_info *param)
{
    if (is_tile(param)) return param->frozen ? FROZEN_TILE : TILE;
    if (is_apart(graph, param)) return param->frozen ? FROZEN_VECTOR : VECTOR;
    return param->frozen ? FROZEN : STAYS;
}

/* Add a new unit for the parameters of one kind that were declared in the same unit as `param`. */
static zr_status add_unit(zr_graph *graph, const zr_param_info *param, param_kind kind)
{
    zr_unit_info unit = {.declared = param->unit,
                         .frozen = param->frozen,
                         .tile = is_tile(param),
                         .vectors = kind == VECTOR || kind == FROZEN_VECTOR};
    char tile[32] = "";
    if (unit.tile) snprintf(tile, sizeof(tile), ", tile %d", param->tile.index);
    snprintf(unit.name, sizeof(unit.name), "%.60s%s%s", graph->unit[param->unit].name,
             !unit.vectors                                ? tile
             : graph->spec.hidden_apart && !param->frozen ? ", rest"
                                                          : ", vectors",
             param->frozen ? ", frozen" : "");
    return zr__graph_unit_add(graph, &unit);
}

/* Place the parameters of one kind: STAYS in the units in which they were declared, other kinds in new units. */
static zr_status place_kind(zr_graph *graph, const zr_param_info *was, const param_kind *of, int32_t n, param_kind kind,
                            int32_t *place)
{
    int32_t from = -1;
    for (int32_t i = 0; i < n; i++) {
        if (of[i] != kind) continue;
        if (kind != STAYS && (is_tile(&was[i]) || was[i].unit != from)) ZR_TRY(add_unit(graph, &was[i], kind));
        from = was[i].unit;
        place_param(graph, (*place)++, was[i], kind == STAYS ? from : graph->n_units - 1);
    }
    return ZR_OK;
}

static zr_status place_params(zr_graph *graph, const zr_param_info *was, const param_kind *of, int32_t n)
{
    int32_t place = 0;
    for (int32_t u = 0; u < graph->n_units; u++) {
        graph->unit[u].first_param = graph->unit[u].n_params = 0;
        graph->unit[u].elems = 0;
    }
    for (int k = STAYS; k < KINDS; k++) ZR_TRY(place_kind(graph, was, of, n, (param_kind)k, &place));
    return ZR_OK;
}

/* Move each op that reads a tile to the tile's unit. Stage 3 then gathers one tile at a time. */
static void move_ops(zr_graph *graph)
{
    for (int32_t i = 0; i < graph->n_ops; i++) {
        zr_op *op = &graph->op[i];
        for (int k = 0; k < op->n_in; k++)
            if (zr__tiles(graph, op->in[k]) > 1) op->unit = graph->param[graph->value[op->in[k]].info.param].unit;
        for (int k = 0; k < op->n_out; k++) graph->value[op->out[k]].info.unit = op->unit;
    }
}

zr_status zr__part_units(zr_graph *graph)
{
    const int32_t n = graph->n_params;
    ZR_AUTO_FREE param_kind *of = zr_alloc(sizeof *of * ((size_t)n + 1));
    ZR_CHECK(of, ZR_ERR_MEMORY, "graph: no memory for %d parameters", (int)n);
    bool moves = false;
    for (int32_t p = 0; p < n; p++) {
        of[p] = kind_of(graph, &graph->param[p]);
        moves |= of[p] != STAYS;
    }
    if (!moves) return ZR_OK;
    ZR_AUTO_FREE zr_param_info *was = zr_alloc(sizeof *was * (size_t)n);
    ZR_CHECK(was, ZR_ERR_MEMORY, "graph: no memory for %d parameters", (int)n);
    memcpy(was, graph->param, sizeof *was * (size_t)n);
    zr_status st = place_params(graph, was, of, n);
    move_ops(graph);
    return st;
}
