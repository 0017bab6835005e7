/* Replaces src/base/core/library.c: the libraries that it would load are linked into the program. The library that
 * ZR_STAND_IN_LACKS names is missing. */
#include "base/core/library.h"

#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>

#include "cuda_runtime.h"

namespace
{

std::map<std::string, void (*)(void)> &known()
{
    static std::map<std::string, void (*)(void)> functions;
    return functions;
}

} // namespace

extern "C" void zr_stand_in_function(const char *name, void (*function)(void))
{
    known()[name] = function;
}

extern "C" zr_status zr__library_open(const zr__library *library, void *table)
{
    const char *lacks = getenv("ZR_STAND_IN_LACKS");
    const bool missing = lacks && strcmp(lacks, library->name) == 0;
    ZR_CHECK(!missing && zr_stand_in_failure("zr__library_open") == cudaSuccess, ZR_ERR_UNSUPPORTED,
             "%s, which GPUs need for %s, cannot be loaded: no such file", library->name, library->purpose);
    for (size_t i = 0; library->function[i]; i++) {
        const auto found = known().find(library->function[i]);
        ZR_CHECK(found != known().end(), ZR_ERR_UNSUPPORTED, "%s has no %s", library->name, library->function[i]);
        memcpy((char *)table + i * sizeof found->second, &found->second, sizeof found->second);
    }
    return ZR_OK;
}
