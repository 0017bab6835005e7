/* The version of the library, which the Makefile defines. */
#include "zr/base.h"

const char *zr_version(void)
{
    return ZR_VERSION;
}
