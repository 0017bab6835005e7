/** Speed of the choices: tokens per second, MFU (model FLOPs as a share of the peak) and days of training; the two
 * orders of a training step's micro-batches; and quantised exchanges beside exact ones. */
#include "cli/plan/choices.h"
#include "cli/plan/offload.h"

#include "base/text/text.h"
#include "config/config.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

static bool is_timed(const cli_choices *choices, const cli_choice *c)
{
    return choices->compute_known && choices->link_known && c->made.simulation.price.step_sec > 0;
}

static double tokens_per_sec(const cli_choices *choices, const cli_choice *c)
{
    return (double)cli_choice_tokens(choices, c) / c->made.simulation.price.step_sec;
}

/** Return whether products are priced at the peak, so that the MFU is only an upper bound. */
static bool is_peak(const cli_choices *choices)
{
    const cli_target *t = &choices->target;
    return !t->simulated && t->profile.machine.n_products == 0 && (t->efficiency <= 0 || t->efficiency >= 1);
}

/** Return the MFU. It is NAN if the peak is unknown, or if only matrix products, priced at the peak, have a time
 * because the memory bandwidth is unknown. As in the papers, recomputed FLOPs do not count. */
static double mfu_of(const cli_choices *choices, const cli_choice *c)
{
    if (choices->peak_flops <= 0) return NAN;
    if (is_peak(choices) && choices->target.profile.machine.memory_bytes_sec <= 0) return NAN;
    return c->made.report.flops_model / c->made.report.ranks / c->made.simulation.price.step_sec / choices->peak_flops;
}

static double steps_for(const cli_choices *choices, const cli_choice *c)
{
    return ceil(choices->o->tokens / (double)cli_choice_tokens(choices, c));
}

static double days_for(const cli_choices *choices, const cli_choice *c)
{
    return cli_days(choices->o->tokens, (double)cli_choice_tokens(choices, c), c->made.simulation.price.step_sec);
}

static void print_speed(const cli_choices *choices, char mark, const char *name, const cli_choice *c)
{
    char mfu[32] = "?";
    if (!c->made.fits) {
        printf("%c %-12s does not fit\n", mark, name);
        return;
    }
    double share = mfu_of(choices, c);
    if (isfinite(share)) snprintf(mfu, sizeof(mfu), "%s%.1f %%", is_peak(choices) ? "<= " : "", 100 * share);
    printf("%c %-12s%12s%10s", mark, name, ZR_AMOUNT(tokens_per_sec(choices, c)), mfu);
    if (choices->o->tokens > 0) {
        const double days = days_for(choices, c);
        printf("%14.*f%16.0f", days < 10 ? 2 : days < 1000 ? 1 : 0, days, steps_for(choices, c));
    }
    putchar('\n');
}

void cli_speed_print(const cli_choices *choices)
{
    const cli_choice *configured = choices->own, *advised = choices->advised ? choices->told : NULL;
    if (!is_timed(choices, configured)) {
        if (choices->o->tokens > 0) printf("--tokens: times are not known, so days are not\n\n");
        return;
    }
    printf("%-14s%12s%10s", "", "tokens/s", "MFU");
    if (choices->o->tokens > 0) printf("%14s%16s", "days", "steps");
    putchar('\n');
    print_speed(choices, '*', choices->origin, configured);
    if (advised && advised != configured) print_speed(choices, '>', "advised", advised);
    if (!configured->made.fits && !advised) {
        putchar('\n');
        return;
    }
    if (choices->o->tokens > 0) {
        const char *tokens = ZR_AMOUNT(choices->o->tokens);
        printf("  for %s%stokens of all ranks\n", tokens, tokens[strlen(tokens) - 1] == ' ' ? "" : " ");
    }
    if (choices->peak_flops > 0 && isfinite(mfu_of(choices, configured)))
        printf("  MFU: FLOPs of the model over %sFLOP/s a rank%s\n", ZR_AMOUNT(choices->peak_flops),
               is_peak(choices) ? ";\n  at most, because the rates of products by their sizes were not measured" : "");
    else if (choices->peak_flops > 0)
        fputs("  MFU: not known, because only the peak rate of products was measured\n", stdout);
    if (cli_offload_untimed(&configured->made.report, &configured->made.simulation.price))
        fputs("  without the time of the disk, whose rates are not known\n", stdout);
    putchar('\n');
}

void cli_speed_json(zr__json_out *out, const cli_choices *choices, const cli_choice *c)
{
    const bool timed = is_timed(choices, c);
    zr__json_add(out, "tokens_per_sec", timed ? tokens_per_sec(choices, c) : NAN, "mfu",
                 timed ? mfu_of(choices, c) : NAN);
    if (choices->o->tokens <= 0) return;
    zr__json_add(out, "steps", steps_for(choices, c));
    zr__json_add(out, "days", timed ? days_for(choices, c) : NAN);
}

/* ---- order of micro-batches -------------------------------------------------------------------- */

/** Maximum number of micro-batches with which both values of train.accumulation_order, "micro" and "layer", are planned
 * to be compared, since the time to plan "layer" grows with their number. With more micro-batches, they are compared
 * only if the configuration has "layer". */
#define MICROS_MOST 16

/** Print the bytes that a rank receives, and the bytes of memory that it needs, in one order. */
static void print_order(const cli_choices *choices, const char *name, bool configured, const cli_trial *made)
{
    printf("%c %-8s%12s gathered of %12s a step, total %12s", configured ? '*' : ' ', name,
           ZR_SIZE((double)made->report.traffic.bytes[ZR_TRAFFIC_ALL_GATHER]),
           ZR_SIZE(cli_traffic_bytes(made->report.traffic)), ZR_SIZE((double)made->report.memory.total_bytes));
    if (choices->compute_known && choices->link_known) printf(", %s", CLI_SECONDS(made->simulation.price.step_sec));
    putchar('\n');
}

zr_status cli_order_print(const cli_choices *choices)
{
    const zr_config *config = choices->config;
    const cli_choice *configured = choices->own;
    const bool layer = config->train.layer_major;
    if (config->accumulation_steps == 1 || configured->way.stage < 3 ||
        choices->target.ranks == config->parallel.tensor || config->parallel.pipeline > 1)
        return ZR_OK;
    if (!layer && config->accumulation_steps > MICROS_MOST) return ZR_OK;
    zr_config other = *config;
    cli_trial made;
    other.train.layer_major = !layer;
    const zr_status st = cli_try(&choices->target, &other, &made, NULL);
    if (st == ZR_ERR_CONFIG || st == ZR_ERR_UNSUPPORTED)
        return ZR_OK; /* if the other order cannot be planned, there is nothing to compare */
    ZR_TRY(st);
    fputs("\norder of micro-batches (train.accumulation_order):\n", stdout);
    print_order(choices, "micro", !layer, layer ? &made : &configured->made);
    print_order(choices, "layer", layer, layer ? &configured->made : &made);
    return ZR_OK;
}

/* ---- quantised exchanges ----------------------------------------------------------------------- */

/** Print the bytes that a rank receives, in all and across hosts or groups, with quantised or exact exchanges. */
static void print_exchanges(const cli_choices *choices, const char *name, bool configured, const cli_trial *made)
{
    static const struct {
        zr_border border;
        const char *name;
    } borders[] = {{ZR_BORDER_HOST, "hosts"}, {ZR_BORDER_GROUP, "groups"}};
    printf("%c %-10s%12s a step", configured ? '*' : ' ', name, ZR_SIZE(cli_traffic_bytes(made->report.traffic)));
    for (int i = 0; i < 2; i++) {
        const double across = cli_traffic_bytes(made->report.across[borders[i].border]);
        if (across > 0) printf(", across %s %s", borders[i].name, ZR_SIZE(across));
    }
    if (choices->compute_known && choices->link_known) printf(", %s", CLI_SECONDS(made->simulation.price.step_sec));
    putchar('\n');
}

/** Kinds of values that may be quantised. */
enum { WEIGHTS, FROZEN, GRADIENTS, KINDS };

/** Add up the elements of quantised units, and set which kinds there are. Return the number of units. */
static int count_quantised(const zr_plans *plans, double *elems, bool is_any[KINDS])
{
    int units = 0;
    for (int32_t r = 0; r < plans->n; r++)
        for (int32_t u = 0; u < plans->role[r]->n_units; u++) {
            const zr_plan_unit *unit = &plans->role[r]->unit[u];
            const bool weights = zr_dtype_is_record(unit->weight_records),
                       gradients = zr_dtype_is_record(unit->grad_records) && plans->role[r]->layout.ranks > 1;
            if (!weights && !gradients) continue;
            is_any[WEIGHTS] |= weights && unit->trains;
            is_any[FROZEN] |= weights && !unit->trains;
            is_any[GRADIENTS] |= gradients;
            *elems += (double)unit->elems;
            units++;
        }
    return units;
}

/** Return the bytes of errors of gradients (zr_plan_unit.error) on a rank of the role that has the most. */
static int64_t most_error_bytes(const zr_plans *plans)
{
    int64_t most = 0;
    for (int32_t r = 0; r < plans->n; r++) {
        const zr_plan *plan = plans->role[r];
        int64_t bytes = 0;
        for (int32_t u = 0; u < plan->n_units; u++)
            for (int level = 0; level < ZR_ERROR_LEVELS; level++) {
                const zr_state *error = &plan->unit[u].error[level];
                if (error->buffer != ZR_NONE) bytes += plan->persistent[error->buffer].bytes;
            }
        if (bytes > most) most = bytes;
    }
    return most;
}

zr_status cli_records_print(const cli_choices *choices, const zr_plans *plans)
{
    const zr_layout *l = &plans->role[0]->layout;
    const zr_config *config = choices->config;
    const int32_t host = cli_host_ranks(&choices->target);
    const bool passes = l->ranks > 1 && l->stage > 0; /* stage 0 gathers sums of gradients instead */
    const char *const what[] = {l->weight_differences ? passes ? "differences of trained parameters pass as"
                                                               : "differences of trained parameters are rounded to"
                                : passes              ? "trained parameters pass as"
                                                      : "trained parameters are rounded to",
                                l->ranks > 1 ? "frozen parameters are kept, and pass, as"
                                             : "frozen parameters are kept as",
                                "gradients pass as"};
    const zr_dtype type[] = {l->weight_records, l->frozen_records, l->grad_records};
    bool any = false, is_any[KINDS] = {false};
    double elems = 0;
    for (int i = 0; i < KINDS; i++) any |= zr_dtype_is_record(type[i]) && (i < GRADIENTS || l->ranks > 1);
    if (!any) return ZR_OK;
    const int units = count_quantised(plans, &elems, is_any);
    if (units == 0) {
        fputs("\nquantised exchanges: none, because no unit of blocks has such matrices\n", stdout);
        return ZR_OK;
    }
    zr_config other = *config;
    cli_trial made;
    other.zero.quantized_weights = other.zero.quantized_gradients = ZR_SWITCH_OFF;
    other.zero.quantized_frozen = false;
    if (!zr__config_given(&other, "gradient_reduction")) other.reduce_once = false; /* quantised gradients set it */
    ZR_TRY(cli_try(&choices->target, &other, &made, NULL));
    printf("\nquantised exchanges: %.0f %% of the parameters, the matrices of %d unit%s of blocks\n",
           100 * elems * l->tensor / (double)plans->role[0]->params, units, units == 1 ? "" : "s");
    for (int i = 0; i < KINDS; i++) {
        if (!is_any[i]) continue;
        printf("  %s %s in blocks of %lld", what[i],
               zr__record_codes_names[i == GRADIENTS ? config->quantization.gradients : config->quantization.weights],
               (long long)config->quantization.block_elems);
        if (i != WEIGHTS || passes)
            printf(": %.3f bytes each, with their scales", (double)zr_dtype_span(type[i], 256) / 256);
        putchar('\n');
    }
    const int64_t errors = most_error_bytes(plans);
    if (errors > 0)
        printf("  each rank keeps the errors of its gradients (zeropp_loco_param): %s\n", ZR_SIZE((double)errors));
    if (is_any[GRADIENTS] && !plans->role[0]->two_levels && host > l->tensor && host < choices->target.ranks)
        fputs("  gradients are reduced in one level, over all ranks (collectives.hierarchical)\n", stdout);
    print_exchanges(choices, "quantised", true, &choices->own->made);
    print_exchanges(choices, "exact", false, &made);
    const double now = choices->own->made.simulation.price.step_sec, exact = made.simulation.price.step_sec;
    if (choices->compute_known && choices->link_known && exact < 0.99 * now)
        fputs("  exact exchanges are faster here: leave zero_quantized_... out\n", stdout);
    return ZR_OK;
}
