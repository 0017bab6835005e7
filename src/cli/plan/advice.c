#include "cli/plan/choices.h"

#include "base/text/text.h"

#include <stdarg.h>
#include <string.h>

#define LINE_COLUMNS 78
#define TEXT_BYTES 2048

/* Paragraph under construction. */
typedef struct paragraph {
    char text[TEXT_BYTES];
    size_t length;
} paragraph;

static void say(paragraph *p, const char *format, ...) ZR_PRINTF(2, 3);

static void say(paragraph *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(p->text + p->length, sizeof(p->text) - p->length, format, list);
    va_end(list);
    if (n > 0) p->length += (size_t)n;
    if (p->length >= sizeof(p->text)) p->length = sizeof(p->text) - 1;
}

static void print_wrapped(FILE *out, const char *text)
{
    while (*text) {
        size_t length = strlen(text);
        if (length > LINE_COLUMNS) {
            for (length = LINE_COLUMNS; length > 1 && text[length] != ' '; length--) continue;
        }
        fprintf(out, "%.*s\n", (int)length, text);
        text += length;
        while (*text == ' ') text++;
    }
}

/** Return the model FLOPs of a rank for each byte that it moves; 0: nothing moves. */
static double intensity(const cli_choice *c)
{
    double traffic = cli_traffic_bytes(&c->made.report);
    return traffic > 0 ? c->made.report.flops_model / c->made.report.ranks / traffic : 0;
}

static void say_why(paragraph *p, const cli_choices *choices, const cli_choice *c)
{
    char sec[32], left[32];
    bool timed = choices->compute_known && choices->link_known;
    say(p, "the %s of %s", timed ? "fastest" : "least work and traffic",
        choices->target->limit_bytes ? "what fits" : "all (ties go to the least memory)");
    if (choices->compute_known) {
        say(p, ", %s a step%s", cli_seconds(c->made.simulation.price.step_sec, sec),
            timed ? "" : " without communication");
    }
    if (choices->target->limit_bytes) {
        say(p, ", and leaves %s a rank", cli_bytes((double)(choices->target->limit_bytes - c->made.needs_bytes), left));
    }
    say(p, ".");
}

static void say_traffic(paragraph *p, const cli_choices *choices, const cli_choice *c)
{
    char traffic[32], flops[32], exposed[32];
    if (choices->target->ranks == 1) {
        say(p, " One rank moves nothing; where stages differ, it is in what they keep.");
        return;
    }
    say(p, " A rank moves %s a step: %sFLOP of the model for each byte (arithmetic intensity).",
        cli_bytes(cli_traffic_bytes(&c->made.report), traffic), cli_amount(intensity(c), flops));
    if (!choices->link_known || !choices->compute_known) return;
    double share = c->made.simulation.price.step_sec > 0
                       ? 100 * c->made.simulation.price.exposed_sec / c->made.simulation.price.step_sec
                       : 0;
    say(p, " %s of communication is exposed (%.1f %% of the step)",
        cli_seconds(c->made.simulation.price.exposed_sec, exposed), share);
    if (share >= 5)
        say(p, "; a larger micro-batch makes the share smaller.");
    else
        say(p, c->made.simulation.price.exposed_sec < 0.999 * c->made.simulation.price.comm_sec
                   ? "; the rest is hidden."
                   : ".");
}

static void say_advised(paragraph *p, const cli_choices *choices)
{
    char name[CLI_CHOICE_BYTES], kept[CLI_KEPT_BYTES], light[128];
    const cli_choice *c = &choices->choice[choices->advised];
    say(p, "Advice: stage %d with recompute %s%s%s: ", c->stage, cli_choice_name(choices, c, name),
        cli_kept_words(choices, c, kept), cli_light_words(choices, c->light, light));
    say_why(p, choices, c);
    say_traffic(p, choices, c);
}

static const cli_choice *smallest(const cli_choices *choices)
{
    const cli_choice *least = &choices->choice[0];
    for (int i = 1; i < choices->n; i++) {
        if (choices->choice[i].made.needs_bytes < least->made.needs_bytes) least = &choices->choice[i];
    }
    return least;
}

static void say_ranks(paragraph *p, const cli_choices *choices)
{
    const cli_more_ranks *more = &choices->more;
    char bytes[32];
    if (more->ranks == 0) return;
    cli_bytes((double)more->needs_bytes, bytes);
    if (more->fits) {
        say(p, " With %d ranks stage 3 with recompute unit and as little overlap fits: %s a rank.", more->ranks, bytes);
    } else if (more->all) {
        say(p, " The %d devices of %s are too few: take a larger cluster.", choices->most_ranks,
            choices->target->cluster.name);
    } else {
        say(p, " More ranks do not help: with %d of them it is %s, nearly all of it not shared.", more->ranks, bytes);
    }
}

/** Say whether a smaller batch or shorter sequences would help. */
static zr_status say_batch(paragraph *p, const cli_choices *choices, const zr_config *config)
{
    int64_t batch = config->micro_batch_size, seq = config->data.seq_length, needs = 0;
    if (batch > 1) ZR_TRY(cli_choices_least(choices, config, choices->target->ranks, 1, seq, &needs));
    if (batch > 1 && needs <= choices->target->limit_bytes) {
        say(p,
            " With these ranks a smaller train_micro_batch_size_per_gpu fits there (now %lld); --max batch finds it.",
            (long long)batch);
        return ZR_OK;
    }
    ZR_TRY(cli_choices_least(choices, config, choices->target->ranks, 1, 1, &needs));
    if (needs <= choices->target->limit_bytes) {
        say(p, " With these ranks a smaller data.seq_length helps (now %lld).", (long long)seq);
    } else {
        say(p, " On these ranks not even a batch of 1 fits.");
    }
    return ZR_OK;
}

static zr_status say_help(paragraph *p, const cli_choices *choices, const zr_config *config)
{
    char limit[32], bytes[32], host[32], has[32], name[CLI_CHOICE_BYTES], kept[CLI_KEPT_BYTES], light[128];
    const cli_choice *least = smallest(choices);
    say(p, "Advice: nothing fits %s. The least is stage %d with recompute %s%s%s: %s a rank.",
        cli_bytes((double)choices->target->limit_bytes, limit), least->stage, cli_choice_name(choices, least, name),
        cli_kept_words(choices, least, kept), cli_light_words(choices, least->light, light),
        cli_bytes((double)least->made.needs_bytes, bytes));
    if (least->made.needs_bytes <= choices->target->limit_bytes) { /* the device has room, the host has not */
        say(p,
            " Its hosts lack memory: %s of %s are taken there. Keep fewer checkpoints on the host, or a smaller batch.",
            cli_bytes((double)least->made.host_bytes, host),
            cli_bytes((double)choices->target->cluster.host_memory_bytes, has));
        return ZR_OK;
    }
    say_ranks(p, choices);
    ZR_TRY(say_batch(p, choices, config));
    return ZR_OK;
}

static const char *unknown_rates(const cli_choices *choices, char room[192])
{
    const cli_target *target = choices->target;
    if (target->simulated) {
        snprintf(room, 192, "Times are simulated on %s; `zr simulate` says how they come about.", target->cluster.name);
        return room;
    }
    if (!choices->compute_known) {
        return "Times are not known: nobody has measured the rates of this machine. Run `zr info --bench` once, or "
               "take those of others with --profile or --cluster.";
    }
    /* Where memory bandwidth was measured, so was the link within this host. */
    if (!choices->link_known && target->profile.machine.memory_bytes_sec > 0) {
        return "Times are without communication: the rate of the link between hosts is not known. --cluster NAME "
               "has one.";
    }
    if (!choices->link_known) {
        return "Times are without communication: the rate of this machine's link is not known. Run `zr info --bench` "
               "once, or take those of others with --profile or --cluster.";
    }
    if (target->profile.machine.memory_bytes_sec <= 0) {
        return "Times are of products alone: the rate of this machine's memory is not known. Run `zr info --bench` "
               "once, or take those of others with --profile or --cluster.";
    }
    if (target->efficiency > 0 && target->efficiency < 1) {
        snprintf(room, 192,
                 "Times take %g %% of the profile's FLOP/s (--efficiency), its other rates in full, no latency.",
                 100 * target->efficiency);
        return room;
    }
    if (target->profile.machine.n_products > 0) {
        return "Times are by measured rates, without latency: those of matrix products by their sizes, for all else "
               "peak rates. Most runs are slower.";
    }
    return "Times are the profile's peak rates, without latency: no run is faster, and most are slower. --efficiency "
           "0.4 takes 40 % of the peak FLOP/s.";
}

zr_status cli_advice_print(FILE *out, const cli_choices *choices, const zr_config *config)
{
    paragraph p = {.length = 0};
    char room[192];
    if (choices->advised >= 0) {
        say_advised(&p, choices);
    } else {
        ZR_TRY(say_help(&p, choices, config));
    }
    print_wrapped(out, p.text);
    print_wrapped(out, unknown_rates(choices, room));
    if (choices->target->here && choices->compute_known)
        print_wrapped(out, choices->target->profile.facts.apart
                               ? "They are those of this machine; --cluster NAME, as dgx-h100x8, takes another."
                               : "They are those of this machine's processor; --cluster NAME, as dgx-h100x8, takes "
                                 "GPUs.");
    if (choices->many_layers)
        fprintf(out, "Of more than %d layers only what is configured is planned.\n", CLI_MANY_LAYERS);
    return ZR_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *known(bool is_known, double x, char text[ZR_NUMBER_BYTES])
{
    return is_known ? cli_json_number(x, text) : "null";
}

/** Print bytes that have a meaning only with a limit. */
static void print_limited(FILE *out, const cli_choices *choices, int64_t bytes)
{
    if (choices->target->limit_bytes) {
        fprintf(out, "%lld", (long long)bytes);
    } else {
        fputs("null", out);
    }
}

static void print_time(FILE *out, const cli_choices *choices, const cli_choice *c)
{
    char step[ZR_NUMBER_BYTES], compute[ZR_NUMBER_BYTES], comm[ZR_NUMBER_BYTES], exposed[ZR_NUMBER_BYTES];
    bool compute_known = choices->compute_known, all = compute_known && choices->link_known;
    fprintf(out, "{\"step_sec\": %s, \"compute_sec\": %s, \"comm_sec\": %s, \"exposed_sec\": %s",
            known(all, c->made.simulation.price.step_sec, step),
            known(compute_known, c->made.simulation.price.compute_sec, compute),
            known(choices->link_known, c->made.simulation.price.comm_sec, comm),
            known(all, c->made.simulation.price.exposed_sec, exposed));
    cli_speed_json(out, choices, c);
    fputc('}', out);
}

/** Print how checkpoints are kept, with tensor parallelism only. */
static void print_kept(FILE *out, const cli_choices *choices, const cli_choice *c)
{
    if (!choices->shares_layers) return;
    fprintf(out, ", \"partition_activations\": %s, \"cpu_checkpointing\": %s", c->kept.pieces ? "true" : "false",
            c->kept.host ? "true" : "false");
}

/** Print the keys that make a choice lighter than the configuration. */
static void print_light(FILE *out, const cli_choices *choices, cli_light light)
{
    fprintf(out, ", \"keys\": {");
    if (light >= CLI_LIGHT_PREFETCH) fprintf(out, "\"zero_optimization.stage3_prefetch_bucket_size\": 0");
    if (light >= CLI_LIGHT_OVERLAP) fprintf(out, ", \"zero_optimization.overlap_comm\": false");
    if (light >= CLI_LIGHT_BUCKETS)
        fprintf(out,
                ", \"zero_optimization.reduce_bucket_size\": %lld, \"zero_optimization.allgather_bucket_size\": %lld",
                (long long)choices->light_elems, (long long)choices->light_elems);
    fputc('}', out);
}

static const char *fits_text(const cli_choices *choices, const cli_choice *c)
{
    return choices->target->limit_bytes == 0 ? "null" : c->made.fits ? "true" : "false";
}

static void print_choice(FILE *out, const cli_choices *choices, const cli_choice *c)
{
    char policy[32];
    fprintf(out,
            "{\"stage\": %d, \"policy\": \"%s\", \"every\": %lld, \"total\": %lld, \"needs\": %lld, \"fits\": %s, ",
            c->stage, cli_recompute_name(c->recompute, 1, policy), (long long)c->every,
            (long long)c->made.report.memory.total_bytes, (long long)c->made.needs_bytes, fits_text(choices, c));
    fprintf(out, "\"time\": ");
    print_time(out, choices, c);
    print_kept(out, choices, c);
    print_light(out, choices, c->light);
    fputc('}', out);
}

static void print_more(FILE *out, const cli_more_ranks *more)
{
    if (more->ranks == 0) return;
    fprintf(out, ", \"more_ranks\": {\"ranks\": %d, \"needs\": %lld, \"fits\": %s}", more->ranks,
            (long long)more->needs_bytes, more->fits ? "true" : "false");
}

void cli_advice_json(FILE *out, const cli_choices *choices)
{
    char flops[ZR_NUMBER_BYTES];
    fprintf(out, ", \"profile\": ");
    cli_json_print(out, choices->target->profile.facts.name, (int64_t)strlen(choices->target->profile.facts.name));
    fprintf(out, ", \"limit\": ");
    print_limited(out, choices, choices->target->limit_bytes);
    const cli_choice *configured = &choices->choice[choices->configured];
    fprintf(out, ", \"time\": ");
    print_time(out, choices, configured);
    fprintf(out, ", \"needs\": %lld, \"fits\": %s", (long long)configured->made.needs_bytes,
            fits_text(choices, configured));
    fprintf(out, ", \"choices\": [");
    for (int i = 0; i < choices->n; i++) {
        if (i) fprintf(out, ", ");
        print_choice(out, choices, &choices->choice[i]);
    }
    fprintf(out, "], \"advice\": ");
    if (choices->advised < 0) {
        fprintf(out, "null");
        print_more(out, &choices->more);
        return;
    }
    const cli_choice *c = &choices->choice[choices->advised];
    char policy[32];
    fprintf(out, "{\"stage\": %d, \"policy\": \"%s\", \"every\": %lld, \"flops_per_byte\": %s, \"left\": ", c->stage,
            cli_recompute_name(c->recompute, 1, policy), (long long)c->every,
            known(choices->target->ranks > 1, intensity(c), flops));
    print_limited(out, choices, choices->target->limit_bytes - c->made.needs_bytes);
    print_kept(out, choices, c);
    print_light(out, choices, c->light);
    fputc('}', out);
}
