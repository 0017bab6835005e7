/* Configurations of a test, read from a text and prepared for a run of one rank. */
#ifndef PREPARED_H
#define PREPARED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "zr/config.h"
#include "zr/run.h"

static inline zr_config *load(const char *format, ...)
{
    char text[8192];
    va_list list;
    zr_config *config = NULL;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (zr_config_parse(text, strlen(text), "c.json", NULL, 0, &config) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

static inline zr_config *prepared(const char *format, ...)
{
    char text[8192];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    zr_config *config = load("%s", text);
    if (zr_train_prepare(config, 1, 0) != ZR_OK) fail_msg("%s", zr_error_message());
    return config;
}

#endif
