/** Numbers that a plan predicts and that a run measures: bytes of memory, bytes of traffic, and FLOPs. run.json stores
 * them as JSON. */
#ifndef ZR_TRAIN_DIR_REPORT_H
#define ZR_TRAIN_DIR_REPORT_H

#include "zr/run.h"

/** Return the planned numbers of a run, over all roles. */
zr_report zr__report_planned(const zr_plans *plans);

/** Return the part of a report's traffic that does not cross `border`. For ZR_BORDER_GROUP, return the traffic within
 * groups of neighbouring ranks, without tensor-parallel traffic. For ZR_BORDER_TENSOR, return all traffic but
 * tensor-parallel traffic. */
zr_traffic zr__report_within(const zr_report *report, zr_border border);

/** Fill a report with the memory and the traffic per step that the engine measured. Copy the FLOPs that are planned,
 * because the engine executes all schedule steps of the plan and does not count FLOPs. Fail with ZR_ERR_INTERNAL if the
 * measured traffic is not a multiple of the number of training steps. */
ZR_NODISCARD zr_status zr__report_measured(const zr_report *planned, const zr_measured *measured, zr_report *report);

/** Return a report as one JSON object; zr_free it. */
ZR_NODISCARD zr_status zr__report_json(const zr_report *report, char **json);

/** Return the results of a run as `zr train --json` prints them; zr_free them. Pass NULL as `timings` if they were not
 * measured. */
ZR_NODISCARD zr_status zr__result_json(const zr_config *config, const zr_train_result *result,
                                       const zr_timings *timings, char **json);

#endif
