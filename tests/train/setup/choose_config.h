/* Configurations of two ranks that leave settings open for the available memory to decide, and the choice. */
#ifndef ZR_TESTS_CHOOSE_CONFIG_H
#define ZR_TESTS_CHOOSE_CONFIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/config.h"
#include "train/host/limits.h"
#include "train/choose/choose.h"
#include "zr/config.h"
#include "zr/plan.h"
#include "zr/run.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 2, ROWS = 16 };

static const zr_profile slow_link = {
    .facts = {.threads = 1}, .machine = {.flops_f32 = 1e12, .memory_bytes_sec = 1e12, .link = {{.bytes_sec = 1e6}}}};
static const zr_profile balanced = {
    .facts = {.threads = 1}, .machine = {.flops_f32 = 1e12, .memory_bytes_sec = 1e11, .link = {{.bytes_sec = 3e10}}}};
static const zr_profile unknown = {.facts = {.threads = 1}};

static inline zr_config *config_of(const char *keys, int64_t limit_bytes)
{
    char text[1024];
    zr_config *config = NULL;
    snprintf(text, sizeof(text),
             "{\"model\": {\"n_layer\": 4, \"n_head\": 4, \"n_embd\": 64, \"n_positions\": 64, \"vocab_size\": 256}, "
             "\"zero_optimization\": {\"stage\": 3}, \"memory\": {\"limit\": %lld}, %s}",
             (long long)limit_bytes, keys);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK ||
        zr_train_prepare(config, RANKS, 0) != ZR_OK)
        fail_msg("%s", zr_error_message());
    return config;
}

static inline zr__train_kept kept_of(int64_t accum)
{
    return (zr__train_kept){.rows = accum ? ROWS / accum : 0, .accum = accum};
}

static inline bool noted(const zr_config *config, const char *text)
{
    for (int i = 0; i < zr_config_notes(config); i++)
        if (strcmp(zr_config_note(config, i), text) == 0) return true;
    return false;
}

static inline void choose(zr_config *config, const zr_profile *profile, char note[ZR_TRAIN_NOTE_BYTES])
{
    if (zr__train_choose(config, &(zr__train_target){.ranks = RANKS, .profile = profile}, kept_of(0), NULL, note) !=
        ZR_OK)
        fail_msg("%s", zr_error_message());
}

#endif
