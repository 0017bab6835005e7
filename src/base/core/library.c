#include "base/core/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512, PATH = 4096 };

/* Load a library's file from the packages of one Python. `bin`, a path of `length` bytes, is the directory of that
 * Python's programs, such as /usr/bin. NVIDIA's packages have their libraries in nvidia/PACKAGE/lib, where the loader
 * does not look. Return NULL if no such file can be loaded. */
static void *load_from_wheels(const char *bin, size_t length, const char *file)
{
    static const char *const folders[] = {"site-packages", "dist-packages"}; /* the second is Debian's */
    void *loaded = NULL;
    for (int f = 0; f < 2 && !loaded && length > 0; f++) {
        char pattern[PATH];
        glob_t found = {0};
        const int n = snprintf(pattern, sizeof(pattern), "%.*s/../lib/python3*/%s/nvidia/*/lib/%s", (int)length, bin,
                               folders[f], file);
        if (n >= (int)sizeof(pattern) || glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t i = 0; i < found.gl_pathc && !loaded; i++)
            loaded = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return loaded;
}

/* Load the file from the first Python that has it. Try the active virtual environment first, then the user's own
 * packages (~/.local), then the Pythons in the directories of PATH. */
static void *load_from_pythons(const char *file)
{
    static const char *const homes[][2] = {{"VIRTUAL_ENV", "bin"}, {"HOME", ".local/bin"}};
    void *loaded = NULL;
    for (int h = 0; h < 2 && !loaded; h++) {
        char bin[PATH];
        const char *home = getenv(homes[h][0]);
        const int n = snprintf(bin, sizeof(bin), "%s/%s", home ? home : "", homes[h][1]);
        if (home && home[0] && n < (int)sizeof(bin)) loaded = load_from_wheels(bin, (size_t)n, file);
    }
    for (const char *at = getenv("PATH"); at && !loaded;) {
        const size_t length = strcspn(at, ":");
        loaded = load_from_wheels(at, length, file);
        at = at[length] ? at + length + 1 : NULL;
    }
    return loaded;
}

/* Load the library from its first candidate file that can be loaded. Try all files where the loader looks, then all
 * files in packages of Python. If every file fails, return NULL and write the loader's message for each file to
 * `why`. */
static void *load_first(const zr__library *library, char *why)
{
    size_t used = 0;
    why[0] = '\0';
    for (const char *const *file = library->file; *file; file++) {
        void *loaded = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
        if (loaded) return loaded;
        const char *said = dlerror();
        const int n = snprintf(why + used, TEXT - used, "%s%s", used ? "; " : "", said ? said : *file);
        used = n > 0 && used + (size_t)n < TEXT ? used + (size_t)n : TEXT - 1;
    }
    for (const char *const *file = library->file; *file; file++) {
        void *loaded = load_from_pythons(*file);
        if (loaded) return loaded;
    }
    return NULL;
}

zr_status zr__library_open(const zr__library *library, void *table)
{
    char why[TEXT];
    void *loaded = load_first(library, why);
    ZR_CHECK(loaded, ZR_ERR_UNSUPPORTED,
             "cannot load %s, which GPUs need for %s: %s; install it (from PyPI, say), or add its folder to "
             "LD_LIBRARY_PATH",
             library->name, library->purpose, why);
    for (size_t i = 0; library->function[i]; i++) {
        void *address = dlsym(loaded, library->function[i]);
        ZR_CHECK(address, ZR_ERR_UNSUPPORTED, "the version of %s does not fit: it has no function %s", library->name,
                 library->function[i]);
        memcpy((char *)table + i * sizeof address, &address, sizeof address);
    }
    return ZR_OK;
}
