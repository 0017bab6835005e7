/** The grid of a plan: stages and recompute policies with several micro-batch sizes. */
#ifndef ZR_CLI_GRID_H
#define ZR_CLI_GRID_H

#include "base/json/json_write.h"
#include "cli/plan/target.h"

#define CLI_GRID_BATCHES 6
#define CLI_GRID_ROWS 16    /* stages with policies */
#define CLI_GRID_LAYERS 512 /* plans of deeper models take too long, and their grid is empty */

/** A combination, or one that cannot be planned. */
typedef struct cli_cell {
    zr__way way;
    cli_trial made;
    bool planned;
    int number; /* in the JSON output, or -1 if it is not planned */
} cli_cell;

typedef struct cli_grid {
    cli_cell cell[CLI_GRID_ROWS][CLI_GRID_BATCHES];
    int rows, batches;
    bool timed; /* whether times of steps are known */
    const zr_config *config;
    const cli_target *target;
} cli_grid;

/** Plan the grid around a resolved configuration: the stages and policies that the system has, and its micro-batch with
 * halves and doubles of it. With train_batch_size, a step has fewer micro-batches if they are larger. Rows without a
 * plan are left out. `what` is for cli_many. Free the grid with cli_grid_free. */
ZR_NODISCARD zr_status cli_grid_make(const zr_config *config, const cli_target *target, const char *what,
                                     cli_grid **grid);
void cli_grid_free(cli_grid **grid);
/** Return the tokens per second of all ranks in a cell. */
double cli_cell_tokens(const cli_cell *cell);
/** Return whether a cell is the configuration itself. */
bool cli_cell_is_own(const cli_grid *grid, const cli_cell *cell);
/** Add the member "grid" to the open object: a list of the cells that can be planned. */
void cli_grid_json(zr__json_out *out, const cli_grid *grid);

#endif
