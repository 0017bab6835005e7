/* libFuzzer target for the reader of configurations. Input: JSON text, and after a NUL byte one override. */
#include "zr/config.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Check that an accepted configuration survives printing and reading its resolved text, byte for byte. */
static void check_round_trip(const zr_config *config)
{
    char *once = NULL, *twice = NULL;
    zr_config *again = NULL;
    if (zr_config_to_json(config, &once) != ZR_OK) __builtin_trap();
    if (zr_config_parse(once, strlen(once), "resolved", NULL, 0, &again) != ZR_OK) __builtin_trap();
    if (zr_config_resolve(again, 2) != ZR_OK || zr_config_to_json(again, &twice) != ZR_OK) __builtin_trap();
    if (strcmp(once, twice) != 0) __builtin_trap();
    zr_config_destroy(&again);
    zr_free(once);
    zr_free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t text = size ? strnlen((const char *)data, size) : 0;
    char override[256] = "";
    if (text < size) {
        size_t rest = size - text - 1 < sizeof(override) - 1 ? size - text - 1 : sizeof(override) - 1;
        memcpy(override, data + text + 1, rest);
    }
    const char *overrides[] = {override};
    zr_config *config;
    zr_status st = zr_config_parse((const char *)data, text, "fuzz", overrides, *override ? 1 : 0, &config);
    if (st == ZR_OK && zr_config_resolve(config, 2) == ZR_OK) check_round_trip(config);
    if (st != ZR_OK && (config || !*zr_error_message())) __builtin_trap();
    zr_config_destroy(&config);
    return 0;
}
