/** Comparison of the two orders of a training step's micro-batches, for the text of `zr plan`. */
#include "cli/plan/choices.h"

#include "base/text/text.h"

#include <stdio.h>

/** Maximum number of micro-batches with which both orders are planned, since the time to plan the order "layer" grows
 * with their number. With more micro-batches, the orders are compared only if the configuration has the order "layer".
 */
#define MICROS_MOST 16

/** Print the bytes that a rank receives, and the bytes of memory that it needs, in one order. */
static void print_order(FILE *out, const cli_choices *choices, const char *name, bool configured, const cli_trial *made)
{
    fprintf(out, "%c %-8s%12s gathered of %12s a step, total %12s", configured ? '*' : ' ', name,
            ZR_SIZE((double)made->report.traffic.bytes[ZR_TRAFFIC_ALL_GATHER]),
            ZR_SIZE(cli_traffic_bytes(made->report.traffic)), ZR_SIZE((double)made->report.memory.total_bytes));
    if (choices->compute_known && choices->link_known)
        fprintf(out, ", %s", CLI_SECONDS(made->simulation.price.step_sec));
    fputc('\n', out);
}

zr_status cli_order_print(FILE *out, const zr_config *config, const cli_choices *choices)
{
    const cli_choice *configured = &choices->choice[choices->configured];
    const bool layer = config->train.layer_major;
    if (config->accumulation_steps == 1 || configured->stage < 3 || choices->target->ranks == config->parallel.tensor)
        return ZR_OK;
    if (!layer && config->accumulation_steps > MICROS_MOST) return ZR_OK;
    zr_config other = *config;
    cli_trial made;
    other.train.layer_major = !layer;
    const zr_status st = cli_try(choices->target, &other, NULL, &made, NULL);
    if (st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED)
        return ZR_OK; /* if the other order cannot be planned, there is nothing to compare */
    ZR_TRY(st);
    fputs("\norder of micro-batches (train.accumulation_order):\n", out);
    print_order(out, choices, "micro", !layer, layer ? &made : &configured->made);
    print_order(out, choices, "layer", layer, layer ? &configured->made : &made);
    return ZR_OK;
}
