#include "cli/plan/offload.h"

#include "base/text/text.h"
#include "cli/plan/table.h"
#include "train/setup/setup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DAY_SEC 86400.0
#define LATE_PART 0.01 /* minimum fraction of a step that waits must take, so that the output explains them */

/** Return whether activation checkpoints are on disk. In this case the bytes on disk grow with the tokens. */
static bool has_checkpoints(const zr_report *report)
{
    return report->memory.space[ZR_SPACE_DISK].category_bytes[ZR_CATEGORY_CHECKPOINT] > 0;
}

cli_offload cli_offload_cost(const cli_target *target, const zr_report *report, const zr_price *price,
                             int64_t step_tokens)
{
    cli_offload c = {.read_bytes = cli_read_from_disk(report), .written_bytes = cli_written_to_disk(report)};
    const int host = cli_host_ranks(target) < target->ranks ? cli_host_ranks(target) : target->ranks;
    c.disk_sec = price->disk_sec > 0 ? price->disk_sec : NAN;
    const bool timed = isfinite(c.disk_sec) && price->compute_sec > 0;
    c.outlasts = timed && c.disk_sec > price->compute_sec;
    c.tokens = timed && !has_checkpoints(report) ? (double)step_tokens * c.disk_sec / price->compute_sec : NAN;
    c.day_bytes = timed ? (double)c.written_bytes * host * DAY_SEC / price->step_sec : NAN;
    return c;
}

/** Return advice on how to give zr the disk rates of this target. */
static const char *source_of_rates(const cli_target *target)
{
    if (target->simulated || target->here) return "`zr info --bench --disk DIR` measures a disk";
    return "a file for --profile may have disk_read_bytes_sec and disk_write_bytes_sec";
}

bool cli_offload_untimed(const zr_report *report, const zr_price *price)
{
    return cli_read_from_disk(report) + cli_written_to_disk(report) > 0 && price->disk_sec <= 0;
}

/** Print whether computation or the disk limits the speed, and the number of tokens with which both would take equally
 * long. */
static void print_bound(const cli_offload *c, int64_t step_tokens)
{
    static const char *const name[] = {"computing", "the disk"};
    printf("  %s is the bound", name[c->outlasts]);
    if (!isnan(c->tokens)) {
        const char *tokens = ZR_AMOUNT(round(c->tokens)), *now = ZR_AMOUNT((double)step_tokens);
        printf("; %s would be with %s than %s%stokens a step (now %.*s)", name[!c->outlasts],
               c->outlasts ? "more" : "fewer", tokens, tokens[strlen(tokens) - 1] == ' ' ? "" : " ",
               (int)strlen(now) - (now[strlen(now) - 1] == ' '), now);
    }
    putchar('\n');
}

/** If computation hides little of the transfers of offloaded states, print why their updates begin only after the
 * backward pass. Print nothing if ranks hardly wait for them. */
static void print_late_updates(const zr_config *config, const zr_report *report, const zr_price *price)
{
    const zr_layout l = zr__train_layout(config, 1);
    if (report->home.optim == ZR_SPACE_DEVICE || !(price->exposed_sec > LATE_PART * price->step_sec)) return;
    if (l.accum > 1)
        fputs("  updates begin after the last micro-batch: computing hides little of their copies\n", stdout);
    else if (l.norm_first && !l.two_pass)
        printf("  updates wait for the norm of all gradients (%s): computing hides little\n  of their copies%s\n",
               config->gradient_clipping > 0 ? "gradient_clipping" : "fp16",
               l.states == ZR_STATES_LEAN ? "; memory.norm two_pass hides them, for a second backward pass" : "");
}

void cli_offload_print(const cli_target *target, const zr_config *config, const cli_trial *made, int64_t step_tokens)
{
    const zr_report *report = &made->report;
    const zr_price *price = &made->simulation.price;
    char words[ZR_OFFLOAD_NOTE_BYTES];
    zr__train_offload_words(&report->home, &report->memory, words);
    if (!words[0]) return;
    const cli_offload c = cli_offload_cost(target, report, price, step_tokens);
    const double shard = (double)report->trained / report->ranks;
    printf("offload: %s\n", words);
    if (c.read_bytes + c.written_bytes == 0) {
        if (price->compute_sec > 0 && price->comm_sec > 0)
            printf("  computing waits %s of a step of %s\n", CLI_SECONDS(price->exposed_sec),
                   CLI_SECONDS(price->step_sec));
        print_late_updates(config, report, price);
        return;
    }
    printf("  a rank reads %s and writes %s of disk a step", ZR_SIZE((double)c.read_bytes),
           ZR_SIZE((double)c.written_bytes));
    if (!has_checkpoints(report))
        printf("\n  (%.1f and %.1f bytes a parameter)", (double)c.read_bytes / shard, (double)c.written_bytes / shard);
    if (isnan(c.disk_sec)) {
        printf("\n  how long it takes is not known:\n  %s\n", source_of_rates(target));
        return;
    }
    printf(": %s\n", CLI_SECONDS(c.disk_sec));
    if (price->compute_sec <= 0) return;
    printf("  computing takes %s, and waits %s of a step of %s\n", CLI_SECONDS(price->compute_sec),
           CLI_SECONDS(price->exposed_sec), CLI_SECONDS(price->step_sec));
    print_bound(&c, step_tokens);
    print_late_updates(config, report, price);
    printf("  at this pace a host writes %s a day to its disks, %.3g full drives of 1 TB\n", ZR_SIZE(c.day_bytes),
           c.day_bytes / 1e12);
}

void cli_offload_json(zr__json_out *out, const cli_offload *cost)
{
    if (cost->read_bytes + cost->written_bytes == 0) return;
    zr__json_add(out, "disk_sec", cost->disk_sec, "disk_tokens", cost->tokens, "disk_written_per_day", cost->day_bytes);
}
