//TEST timeout=20
/* Every field of DeepSpeed's configuration is known: it has its meaning, or a note says that it has none, or it is
 * refused by its name. tests/deepspeed/fields.txt lists them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zr/config.h>

/* Return the type of optimizer or scheduler, or the stage, without which the field has no meaning, as an override. */
static const char *companion(const char *field)
{
    static const char *const schedule[][2] = {{"cycle_", "OneCycle"},      {"decay_", "OneCycle"},
                                              {"total_", "WarmupDecayLR"}, {"warmup_min_ratio", "WarmupCosineLR"},
                                              {"cos_", "WarmupCosineLR"},  {"last_", "WarmupLR"},
                                              {"warmup_", "WarmupLR"}};
    static char text[64];
    const char *param = strstr(field, "scheduler.params.") == field ? field + strlen("scheduler.params.") : NULL;
    for (size_t i = 0; param && i < sizeof(schedule) / sizeof(schedule[0]); i++) {
        if (strncmp(param, schedule[i][0], strlen(schedule[i][0])) != 0) continue;
        snprintf(text, sizeof(text), "scheduler.type=%s", schedule[i][1]);
        return text;
    }
    if (strstr(field, "zeropp_loco_param")) return "zero_optimization.zero_quantized_gradients=true";
    return strstr(field, "offload_param") ? "zero_optimization.stage=3" : "train.steps=10";
}

/* Return whether a note says that the field has no effect in zr: by its path, by that of its section, or by its name in
 * a list of keys of the section. */
static bool is_noted(const zr_config *config, const char *field)
{
    const char *dot = strrchr(field, '.');
    for (int i = 0; i < zr_config_notes(config); i++) {
        const char *note = zr_config_note(config, i);
        const size_t n = strcspn(note, " :"), length = strlen(field), shorter = n < length ? n : length;
        if (strncmp(note, field, shorter) != 0 || !strstr(note, "no effect in zr")) continue;
        if (!strchr(".: ", n < length ? field[n] : note[length])) continue;
        if (note[n] == ' ' || strstr(note, dot ? dot + 1 : field)) return true;
    }
    return false;
}

static void check_field(const char *outcome, const char *field, const char *value)
{
    char override[256];
    zr_config *config = NULL;
    const char *const overrides[] = {companion(field), override};
    snprintf(override, sizeof(override), "%s=%s", field, value);
    zr_status st = zr_config_parse("{}", 2, "ds.json", overrides, 2, &config);
    if (st == ZR_OK) st = zr_config_resolve(config, 2);
    if (strcmp(outcome, "no") == 0) {
        if (st != ZR_ERR_UNSUPPORTED || !strstr(zr_error_message(), field))
            fail_msg("%s is not refused by name: %d, %s", override, (int)st, st == ZR_OK ? "" : zr_error_message());
    } else if (st != ZR_OK) {
        fail_msg("%s: %s", override, zr_error_message());
    } else if (is_noted(config, field) != (strcmp(outcome, "note") == 0)) {
        fail_msg("%s: is %s", override, is_noted(config, field) ? "noted as without effect" : "not noted");
    }
    zr_config_destroy(&config);
}

static void every_field_is_known(void **state)
{
    (void)state;
    const char *source = getenv("ZR_SOURCE");
    char path[4096], line[256], outcome[8], field[128], value[128];
    int n = 0;
    snprintf(path, sizeof(path), "%s/tests/deepspeed/fields.txt", source ? source : ".");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%7s %127s %127[^\n]", outcome, field, value), 3);
        check_field(outcome, field, value);
        n++;
    }
    fclose(file);
    assert_true(n > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_field_is_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
