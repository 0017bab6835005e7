/** zr: ZeRO training in C. This header includes everything that users of the library call. */
#ifndef ZR_H
#define ZR_H

#include "zr/base.h"
#include "zr/config.h"
#include "zr/tensor.h"
#include "zr/graph.h"
#include "zr/ops.h"
#include "zr/layers.h"
#include "zr/models.h"
#include "zr/plan.h"
#include "zr/device.h"
#include "zr/comm.h"
#include "zr/engine.h"
#include "zr/data.h"
#include "zr/checkpoint.h"
#include "zr/simulate.h"
#include "zr/run.h"

#endif
