/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What becomes of reading a mapped page that the file has lost: with a guard over the
 * mapping it reads as zeros and the guard remembers, instead of SIGBUS ending the
 * process. Any thread.
 */

#pragma once

#include <glib.h>

/* The most mappings that can be guarded at a time. */
#define LLM_MAX_MAP_GUARDS 256

typedef struct _LlmMapGuard LlmMapGuard;

/* Called once, before the first mapping that is to be guarded is made. */
void         llm_map_guard_install     (void);
/* Guards @size bytes of a mapping that begins at a page. NULL when there are too many. */
LlmMapGuard *llm_map_guard_enter       (gconstpointer  data,
                                        guint64        size);
/* Before the mapping goes. */
void         llm_map_guard_leave       (LlmMapGuard   *self);

gboolean     llm_map_guard_is_damaged  (LlmMapGuard   *self);
void         llm_map_guard_set_damaged (LlmMapGuard   *self);
