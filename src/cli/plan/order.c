/** Comparison of the two orders of a training step's micro-batches, for the text of `zr plan`. */
#include "cli/plan/choices.h"

#include "base/text/text.h"

#include <stdio.h>

/** In the order "layer" the time to plan grows with the number of micro-batches. With more than this number, only a
 * configuration that has this order is compared with the other one. */
#define MICROS_MOST 16

/** Print what a rank receives and needs in one order. */
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
        return ZR_OK; /* without a plan of the other order there is nothing to compare */
    ZR_TRY(st);
    fputs("\norder of micro-batches (train.accumulation_order):\n", out);
    print_order(out, choices, "micro", !layer, layer ? &made : &configured->made);
    print_order(out, choices, "layer", layer, layer ? &configured->made : &made);
    return ZR_OK;
}
