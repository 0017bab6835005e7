/** The processor's peak. */
#ifndef ZR_DEVICE_CPU_PEAK_H
#define ZR_DEVICE_CPU_PEAK_H

#include "zr/tensor.h"

/** FLOP/s that matrix products of `dtype` reach with so many threads, 0 when they cannot run. Takes some 20 ms,
 *  and less than 1 MB while it runs. */
double zr__cpu_peak_flops(int threads, zr_dtype dtype);

#endif
