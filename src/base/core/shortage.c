#include "base/core/shortage.h"

static _Thread_local bool noted;

void zr__shortage_note(void)
{
    noted = true;
}

zr_status zr__shortage_check(void)
{
    ZR_CHECK(!noted, ZR_ERR_MEMORY,
             "no memory is left for a library that zr uses; give the process more memory, or do less at a time");
    return ZR_OK;
}
