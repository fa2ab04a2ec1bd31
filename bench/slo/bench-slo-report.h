/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What llmsvc-bench slo says when all has been played. One thread.
 */

#pragma once

#include "slo/bench-slo-play.h"

G_BEGIN_DECLS

/* The two policies of the service beside each other, and how it was measured. */
void     bench_slo_report_print (BenchSlo    *self);
/* All of it: to @path, or printed when that is NULL. */
gboolean bench_slo_report_json  (BenchSlo    *self,
                                 const char  *path,
                                 GError     **error) G_GNUC_WARN_UNUSED_RESULT;
/* One SVG file for each class, in a folder that is made. */
gboolean bench_slo_report_plots (BenchSlo    *self,
                                 const char  *folder,
                                 GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
