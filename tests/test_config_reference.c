//TEST timeout=30
/* docs/config.md matches the table of keys. With ZR_WRITE=FILE the program writes the file instead (`make docs`). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zr/config.h>

enum { ROOM = 1 << 18 };

static void test_docs_are_current(void **state)
{
    (void)state;
    static char page[ROOM];
    const char *source = getenv("ZR_SOURCE");
    char path[4096], *wanted = NULL;
    assert_int_equal(zr_config_reference(&wanted), ZR_OK);
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

static int write_docs(const char *path)
{
    char *markdown = NULL;
    FILE *file = fopen(path, "wb");
    if (!file || zr_config_reference(&markdown) != ZR_OK) return 1;
    fputs(markdown, file);
    zr_free(markdown);
    return fclose(file) ? 1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_docs_are_current)};
    const char *path = getenv("ZR_WRITE");
    return path ? write_docs(path) : cmocka_run_group_tests(tests, NULL, NULL);
}
