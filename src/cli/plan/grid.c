#include "cli/plan/grid.h"

#include "cli/plan/table.h"
#include "cli/shell/many.h"
#include "config/config.h"

#include <string.h>

#define LEAST_DOUBLES 2 /* halves of the configured micro-batch that are tried */

static const zr_recompute policies[] = {ZR_RECOMPUTE_NONE, ZR_RECOMPUTE_KEEP, ZR_RECOMPUTE_SELECTIVE,
                                        ZR_RECOMPUTE_UNIT};
enum { POLICIES = sizeof(policies) / sizeof(*policies), STAGES = 4 };

/** Set the ways of the cells. */
static void fill_ways(cli_grid *grid)
{
    const zr_config *c = grid->config;
    const int64_t data = grid->target->ranks / (c->parallel.tensor * c->parallel.pipeline);
    const bool fixed = zr__config_given(c, "train_batch_size");
    int64_t first = c->micro_batch_size;
    for (int i = 0; i < LEAST_DOUBLES && first % 2 == 0; i++) first /= 2;
    grid->rows = zr_config_sizes(c).layers > CLI_GRID_LAYERS ? 0 : STAGES * POLICIES;
    grid->batches = CLI_GRID_BATCHES;
    for (int row = 0; row < grid->rows; row++)
        for (int k = 0; k < grid->batches; k++) {
            cli_cell *cell = &grid->cell[row][k];
            zr__way way = zr__way_of(c);
            const zr_recompute policy = policies[row % POLICIES];
            way.stage = row / POLICIES;
            if (policy != way.policy) way.every = 1;
            way.policy = policy;
            way.rows = first << k;
            if (fixed)
                way.accum = c->train_batch_size % (way.rows * data) ? 0 : c->train_batch_size / (way.rows * data);
            *cell = (cli_cell){.way = way};
        }
}

static zr_status plan_cell(void *arg, int64_t index)
{
    cli_grid *grid = arg;
    cli_cell *cell = &grid->cell[index / grid->batches][index % grid->batches];
    const bool keeps = grid->target->profile.facts.own_memory;
    if (cell->way.accum == 0 || (cell->way.policy == ZR_RECOMPUTE_KEEP && !keeps)) return ZR_OK;
    zr_config config = *grid->config;
    zr__way_set(&cell->way, grid->target->ranks, &config);
    const zr_status st = cli_try(grid->target, &config, &cell->made, NULL);
    cell->planned = st == ZR_OK;
    return zr__refused(st) ? ZR_OK : st;
}

/** Leave out rows without a plan, and number the cells. */
static void pack(cli_grid *grid)
{
    int rows = 0, number = 0;
    for (int row = 0; row < grid->rows; row++) {
        bool any = false;
        for (int k = 0; k < grid->batches; k++) any |= grid->cell[row][k].planned;
        if (!any) continue;
        memmove(grid->cell[rows], grid->cell[row], sizeof(grid->cell[row]));
        for (int k = 0; k < grid->batches; k++)
            grid->cell[rows][k].number = grid->cell[rows][k].planned ? number++ : -1;
        rows++;
    }
    grid->rows = rows;
}

zr_status cli_grid_make(const zr_config *config, const cli_target *target, const char *what, cli_grid **grid)
{
    ZR_AUTO(cli_grid_free) cli_grid *made = zr_alloc(sizeof(*made));
    ZR_CHECK(made, ZR_ERR_MEMORY, "no memory for what-ifs");
    *made = (cli_grid){.config = config, .target = target, .timed = target->simulated};
    fill_ways(made);
    ZR_TRY(cli_many((int64_t)made->rows * made->batches, plan_cell, made, what));
    pack(made);
    *grid = ZR_TAKE(made);
    return ZR_OK;
}

void cli_grid_free(cli_grid **grid)
{
    zr_free(*grid);
    *grid = NULL;
}

double cli_cell_tokens(const cli_cell *cell)
{
    return cell->made.simulation.tokens_sec;
}

bool cli_cell_is_own(const cli_grid *grid, const cli_cell *cell)
{
    const zr__way own = zr__way_of(grid->config);
    return zr__way_alike(&own, &cell->way, ZR__ALIKE_ALL);
}

void cli_grid_json(zr__json_out *out, const cli_grid *grid)
{
    zr__json_open(out, "grid", '[');
    for (int row = 0; row < grid->rows; row++)
        for (int k = 0; k < grid->batches; k++) {
            const cli_cell *cell = &grid->cell[row][k];
            char policy[32];
            if (!cell->planned) continue;
            zr__json_open(out, NULL, '{');
            zr__json_add(out, "stage", cell->way.stage, "recompute",
                         cli_recompute_name(cell->way.policy, cell->way.every, policy));
            zr__json_add(out, "batch", cell->way.rows, "accumulation", cell->way.accum);
            zr__json_add(out, "needs", cell->made.needs_bytes);
            if (grid->target->limit_bytes > 0) zr__json_add_bool(out, "fits", cell->made.fits);
            if (grid->timed)
                zr__json_add(out, "step_sec", cell->made.simulation.price.step_sec, "tokens_per_sec",
                             cli_cell_tokens(cell));
            zr__json_close(out, '}');
        }
    zr__json_close(out, ']');
}
