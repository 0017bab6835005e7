#include "base/core/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 512 };

/* Load the library from the first of its candidate files that can be loaded. If every file fails, return NULL and write
 * the loader's message for each file to `why`. */
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
    return NULL;
}

zr_status zr__library_open(const zr__library *library, void *table)
{
    char why[TEXT];
    void *loaded = load_first(library, why);
    ZR_CHECK(loaded, ZR_ERR_UNSUPPORTED,
             "cannot load %s, which GPUs need for %s: %s; install it, or add its folder to LD_LIBRARY_PATH",
             library->name, library->purpose, why);
    for (size_t i = 0; library->function[i]; i++) {
        void *address = dlsym(loaded, library->function[i]);
        ZR_CHECK(address, ZR_ERR_UNSUPPORTED, "the version of %s does not fit: it has no function %s", library->name,
                 library->function[i]);
        memcpy((char *)table + i * sizeof address, &address, sizeof address);
    }
    return ZR_OK;
}
