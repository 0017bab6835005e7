#include "zr/device.h"

void zr_device_destroy(zr_device **device)
{
    if (!*device) return;
    (*device)->ops->destroy(*device);
    *device = NULL;
}
