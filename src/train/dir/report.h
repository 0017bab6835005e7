/**
 * Numbers that a plan promises and a run measures: bytes of memory, traffic, FLOPs; as JSON in run.json.
 */
#ifndef ZR_TRAIN_DIR_REPORT_H
#define ZR_TRAIN_DIR_REPORT_H

#include "zr/engine.h"
#include "zr/plan.h"
#include "zr/run.h"

zr_report zr__report_planned(const zr_plan *plan);

/** Return the part of a report's traffic that does not cross a border: the traffic within a group of neighbouring ranks
 *  (ZR_BORDER_GROUP), or ZeRO's own (ZR_BORDER_TENSOR). */
zr_traffic zr__report_within(const zr_report *report, zr_border border);

/** Report the engine's counters. FLOPs are the plan's: the engine ran each of its steps, and does not count FLOPs.
 *  ZR_ERR_INTERNAL when the traffic is not a whole multiple of the steps. */
ZR_NODISCARD zr_status zr__report_measured(const zr_plan *plan, const zr_measured *measured, zr_report *report);

/** Write a report as one JSON object; zr_free it. */
ZR_NODISCARD zr_status zr__report_json(const zr_report *report, char **json);

#endif
