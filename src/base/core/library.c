#include "base/core/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512, PATH = 4096 };

/* Load `file` from NVIDIA's wheels in one installation of Python. The wheels put libraries into nvidia/PACKAGE/lib in
 * the folder of Python's packages, where the loader does not search. The installation's folder is `length` bytes of
 * `prefix`, followed by `below`. Return NULL if no matching file can be loaded. */
static void *load_from_wheels(const char *prefix, size_t length, const char *below, const char *file)
{
    static const char *const folders[] = {"site-packages", "dist-packages"}; /* the second is Debian's */
    void *loaded = NULL;
    for (int f = 0; f < 2 && !loaded && length > 0; f++) {
        char pattern[PATH];
        glob_t found = {0};
        const int n = snprintf(pattern, sizeof(pattern), "%.*s%s/lib/python3*/%s/nvidia/*/lib/%s", (int)length, prefix,
                               below, folders[f], file);
        if (n >= (int)sizeof(pattern)) continue;
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc && !loaded; i++)
                loaded = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        globfree(&found);
    }
    return loaded;
}

/* Load the file from the first installation of Python that has it: the active virtual environment, then the user's own
 * packages (~/.local), then the parent of each folder in PATH. */
static void *load_from_pythons(const char *file)
{
    const char *environment = getenv("VIRTUAL_ENV"), *home = getenv("HOME");
    void *loaded = environment ? load_from_wheels(environment, strlen(environment), "", file) : NULL;
    if (!loaded && home) loaded = load_from_wheels(home, strlen(home), "/.local", file);
    for (const char *at = getenv("PATH"); at && !loaded;) {
        const size_t length = strcspn(at, ":");
        loaded = load_from_wheels(at, length, "/..", file);
        at = at[length] ? at + length + 1 : NULL;
    }
    return loaded;
}

/* Load the library from its first candidate file that can be loaded. Try each file in the folders that the loader
 * searches, then each file in packages of Python. If every file fails, return NULL and write the loader's message for
 * each file to `why`. */
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
             "cannot load %s, which GPUs need for %s: %s; install it (NVIDIA's wheels nvidia-cublas "
             "and nvidia-nccl-cu13 will do), or add its folder to LD_LIBRARY_PATH",
             library->name, library->purpose, why);
    for (size_t i = 0; library->function[i]; i++) {
        void *address = dlsym(loaded, library->function[i]);
        ZR_CHECK(address, ZR_ERR_UNSUPPORTED, "the version of %s does not fit: it has no function %s", library->name,
                 library->function[i]);
        memcpy((char *)table + i * sizeof address, &address, sizeof address);
    }
    return ZR_OK;
}
