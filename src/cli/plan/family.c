/** Search for the largest model that fits a memory limit and has the proportions of GPT families. */
#include "cli/plan/max.h"
#include "config/config.h"

#include <math.h>

/** Layers, width and heads of models. The first shapes are small models for CPUs. GPT-2 (Radford et al. 2019) has the
 * shapes from 12 x 768 to 48 x 1600. Megatron-LM (Narayanan et al. 2021, table 1) has the shapes from 24 x 2304 to 128
 * x 25600. */
static const cli_shape shapes[] = {
    {2, 128, 2},    {4, 256, 4},     {6, 384, 6},     {8, 512, 8},      {12, 768, 12},     {24, 1024, 16},
    {36, 1280, 20}, {48, 1600, 25},  {24, 2304, 24},  {30, 3072, 32},   {36, 4096, 32},    {40, 6144, 48},
    {48, 8192, 64}, {60, 10240, 80}, {80, 12288, 96}, {96, 16384, 128}, {105, 20480, 128}, {128, 25600, 160},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]), SPREAD = 2 };

/** Set the configuration to the width and heads of a shape. The number of layers is varied separately. Other sizes
 * follow from the settings before the search, so that they do not depend on the shapes tried before. */
static void set_shape(cli_max *max, const cli_shape *shape)
{
    zr_config *config = max->config;
    config->model.config = max->start;
    zr_model_sizes sizes = zr_config_sizes(config);
    sizes.width = shape->width;
    sizes.heads = shape->heads;
    zr__config_resize(config, &sizes);
}

/** Find the largest number of layers that fits at a shape's width, between half and twice the shape's layers. Set
 * fits->n to 0 if not even half the layers fit. Set fails->n to 0 if twice the layers fit. */
static zr_status layers_at(cli_max *max, const cli_shape *shape, cli_point *fits, cli_point *fails)
{
    fits->n = (shape->layers + SPREAD - 1) / SPREAD;
    if (fits->n < max->fewest) fits->n = max->fewest;
    fails->n = SPREAD * shape->layers;
    set_shape(max, shape);
    ZR_TRY(cli_max_needs(max, fits->n, &fits->needs));
    if (fits->needs > max->target->limit_bytes) fits->n = 0;
    if (fits->n == 0) return ZR_OK;
    ZR_TRY(cli_max_needs(max, fails->n, &fails->needs));
    if (fails->needs <= max->target->limit_bytes) {
        *fits = *fails;
        *fails = (cli_point){0};
        return ZR_OK;
    }
    return cli_largest(cli_max_needs, max, max->target->limit_bytes, 0, fits, fails);
}

/** Return whether memory.tile_elems is too small for a table of the vocabulary at a width: less than a row, or so small
 * that the table would have too many tiles. */
static bool stops_at(const zr_config *config, int64_t width)
{
    const int64_t ranks = config->parallel.tensor, elems = config->memory.tile_elems;
    const int64_t rows = (zr_config_sizes(config).vocabulary + ranks - 1) / ranks;
    if (elems == 0) return false;
    return elems < width || (rows - 1) / (elems / width) >= ZR_TILES_MOST;
}

/** Choose the width at which the largest number of layers that fits is nearest to the shape's own number. A width is a
 * candidate if between half and twice the shape's layers fit. If no width is a candidate, take the largest width at
 * which twice the shape's layers fit. A width for which memory.tile_elems is too small does not fit. */
zr_status cli_family_find(cli_max *max, cli_point *fits, cli_point *fails)
{
    double nearest = INFINITY;
    max->start = max->config->model.config;
    max->shape = shapes[0];
    *fits = (cli_point){.n = 0};
    for (int i = 0; i < SHAPES; i++) {
        cli_point in, out;
        if (SPREAD * shapes[i].layers <= max->fewest) continue;
        max->tile_stops = stops_at(max->config, shapes[i].width);
        if (max->tile_stops && i > 0) break;
        ZR_TRY(layers_at(max, &shapes[i], &in, &out));
        if (in.n == 0) break;
        double away = out.n == 0 ? INFINITY : fabs(log((double)in.n / (double)shapes[i].layers));
        if (away < nearest || !isfinite(nearest)) {
            max->shape = shapes[i];
            *fits = in;
            *fails = out;
            nearest = away;
        }
    }
    set_shape(max, &max->shape);
    return ZR_OK;
}
