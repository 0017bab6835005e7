/** Numbers of a simulation with their names, for CSV, JSON and plots. */
#include "cli/simulate/simulate.h"

#include "base/json/json.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

double cli_simulated_days(const cli_trial *made, double tokens)
{
    const zr_simulation *s = &made->simulation;
    return cli_days(tokens, round(s->tokens_sec * s->price.step_sec), s->price.step_sec);
}

enum { STEP_SEC, SAMPLES, TOKENS, TFLOPS, MFU, EXPOSED, MEMORY, VALUES };

static const struct {
    const char *name, *words;
} values[VALUES] = {[STEP_SEC] = {"step_sec", "seconds a step"},
                    [SAMPLES] = {"samples_per_sec", "samples a second"},
                    [TOKENS] = {"tokens_per_sec", "tokens a second"},
                    [TFLOPS] = {"tflops", "TFLOP/s a device"},
                    [MFU] = {"mfu", "MFU"},
                    [EXPOSED] = {"exposed_sec", "seconds a step that computing waits"},
                    [MEMORY] = {"memory_bytes", "bytes of a device's memory"}};

const char *cli_value_name(int i)
{
    return i < VALUES ? values[i].name : NULL;
}

const char *cli_value_words(int i)
{
    return i < VALUES ? values[i].words : NULL;
}

double cli_value_of(int i, const cli_trial *made)
{
    const zr_simulation *s = &made->simulation;
    const double value[VALUES] = {[STEP_SEC] = s->price.step_sec,
                                  [SAMPLES] = s->samples_sec,
                                  [TOKENS] = s->tokens_sec,
                                  [TFLOPS] = s->flops_sec / 1e12,
                                  [MFU] = s->mfu,
                                  [EXPOSED] = s->price.exposed_sec,
                                  [MEMORY] = (double)made->report.memory.total_bytes};
    return value[i];
}

void cli_simulated_json(json_t *object, const cli_trial *made, double tokens)
{
    for (int i = 0; i < VALUES; i++) {
        json_t *number = i == MEMORY ? json_integer(made->report.memory.total_bytes) : json_real(cli_value_of(i, made));
        cli_json_set(object, values[i].name, number);
    }
    cli_json_set_all(object,
                     json_pack("{s:b, s:s, s:I, s:I, s:I, s:I}", "fits", made->fits, "bound_by",
                               made->simulation.bound_by, "needs", (json_int_t)made->needs_bytes, "host_rank_bytes",
                               (json_int_t)made->report.memory.space[ZR_SPACE_HOST].total_bytes, "host_bytes",
                               (json_int_t)made->host_bytes, "disk_bytes", (json_int_t)made->disk_bytes));
    if (tokens > 0) cli_json_set(object, "days", json_real(cli_simulated_days(made, tokens)));
}

/** Return "all" if a number is for all ranks together, "host" if it is for a host, or else "rank". */
static const char *whose(const char *name)
{
    static const char *const all[] = {"step_sec", "samples_per_sec", "tokens_per_sec", "pflops_all", "days"};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (strcmp(name, all[i]) == 0) return "all";
    return strcmp(name, "host_bytes") == 0 ? "host" : "rank";
}

void cli_simulated_of(json_t *object)
{
    json_t *of = json_object(), *value;
    const char *name;
    json_object_foreach(object, name, value) if (json_is_number(value) || json_is_object(value))
        cli_json_set(of, name, json_string(whose(name)));
    cli_json_set(object, "of", of);
}

bool cli_simulate_typed(const cli_args *typed, const cli_brief *brief, const char *key)
{
    const struct {
        const char *key;
        bool given;
    } briefs[] = {{"train_micro_batch_size_per_gpu", brief->batch > 0},
                  {"zero_optimization.stage", brief->stage >= 0},
                  {"parallel.tensor", brief->tensor > 0},
                  {"data.seq_length", brief->seq > 0},
                  {"memory.limit", brief->memory != NULL},
                  {"model.preset", brief->preset != NULL}};
    for (size_t i = 0; i < sizeof(briefs) / sizeof(briefs[0]); i++)
        if (briefs[i].given && strcmp(briefs[i].key, key) == 0) return true;
    for (int i = 0; i < typed->n_overrides; i++) {
        const char *name = typed->override[i] + (strncmp(typed->override[i], "--", 2) == 0 ? 2 : 0);
        const size_t length = strcspn(name, "=");
        if (strncmp(name, key, length) == 0 && (key[length] == '\0' || key[length] == '.')) return true;
    }
    return false;
}

void cli_json_set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

void cli_json_set_all(json_t *object, json_t *members)
{
    (void)json_object_update(object, members);
    json_decref(members);
}

zr_status cli_json_put(FILE *out, const json_t *document)
{
    ZR_AUTO_FREE char *text = NULL;
    ZR_TRY(zr__json_print(document, &text));
    fprintf(out, "%s\n", text);
    return ZR_OK;
}
