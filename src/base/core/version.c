#include "zr/base.h"

const char *zr_version(void)
{
    return ZR_VERSION;
}
