#include "config/config.h"
//TEST timeout=30
/* docs/config.md matches the table of keys, and the example of `zr init` is a configuration. With ZR_WRITE=FILE the
 * program writes the file instead (`make docs`). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zr/config.h>
#include <zr/models.h>

#include "support/config_reference.h"

enum { ROOM = 1 << 18 };

static void test_docs_are_current(void **state)
{
    (void)state;
    static char page[ROOM];
    const char *source = getenv("ZR_SOURCE");
    char path[4096], *wanted = NULL;
    assert_int_equal(config_reference(&wanted), ZR_OK);
    snprintf(path, sizeof(path), "%s/docs/config.md", source ? source : ".");
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no %s; `make docs` writes it", path);
    page[fread(page, 1, ROOM - 1, file)] = '\0';
    fclose(file);
    size_t line = 1, at = 0;
    for (; page[at] && page[at] == wanted[at]; at++) line += page[at] == '\n';
    if (page[at] != wanted[at])
        fail_msg("%s:%zu is not what src/config/table.c says; `make docs` writes it anew", path, line);
    zr_free(wanted);
}

/* Check that the example of each family and of some presets reads back as what it shows. */
static void test_examples_are_read(void **state)
{
    (void)state;
    static const char *const presets[] = {"gpt2-124m", "llama3.2-1b", "bert-base"};
    const zr_family *family = NULL;
    for (int i = 0; i < 3 || zr_family_at(i - 3); i++) {
        char *text = NULL;
        zr_config *config = NULL;
        family = i < 3 ? NULL : zr_family_at(i - 3);
        if (zr__config_example(family ? family->name : NULL, i < 3 ? presets[i] : NULL, &text) != ZR_OK ||
            zr_config_parse(text, strlen(text), "example", NULL, 0, &config) != ZR_OK)
            fail_msg("%s", zr_error_message());
        if (family) assert_ptr_equal(config->model.family, family);
        if (i < 3) assert_string_equal(config->model.preset, presets[i]);
        static const char *const shown[] = {
            "\"model\": {",     "\"optimizer\": {",           "\"type\": \"AdamW\"", "\"betas\": [0.9, 0.95]",
            "\"scheduler\": {", "\"gradient_clipping\": 1.0", "\"data\": {",         "\"train\": {"};
        for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++)
            if (!strstr(text, shown[k])) fail_msg("%s is not in the example: %s", shown[k], text);
        assert_true(config->optimizer.betas[1] == 0.95 && config->gradient_clipping == 1 &&
                    config->optimizer.weight_decay == 0.1);
        zr_config_destroy(&config);
        zr_free(text);
    }
    char *none = NULL;
    assert_int_equal(zr__config_example("bloom", NULL, &none), ZR_ERR_NOT_FOUND);
    assert_non_null(strstr(zr_error_message(), "there is no model.type \"bloom\""));
}

static int write_docs(const char *path)
{
    char *markdown = NULL;
    FILE *file = fopen(path, "wb");
    if (!file || config_reference(&markdown) != ZR_OK) return 1;
    fputs(markdown, file);
    zr_free(markdown);
    return fclose(file) ? 1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_docs_are_current),
                                       cmocka_unit_test(test_examples_are_read)};
    const char *path = getenv("ZR_WRITE");
    return path ? write_docs(path) : cmocka_run_group_tests(tests, NULL, NULL);
}
