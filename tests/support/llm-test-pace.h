/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A device of known speed: tests wrap the calls that read and write, and wait in them for as long as
 * it would take. Any thread.
 */

#pragma once

#include <glib.h>

/* From here on transfers begin @latency_us after they were asked for and then go on at
 * @bytes_per_second (0: there is no such device), one after the other. */
void llm_test_pace_set  (guint   latency_us,
                         guint64 bytes_per_second);
/* Waits as long as the device takes for @length bytes. */
void llm_test_pace_wait (gsize   length);
