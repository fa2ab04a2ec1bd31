/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Guards reads of a mapping whose file may lose pages: a lost page reads as zeros and the guard
 * records it, instead of SIGBUS ending the process. Any thread.
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
/* Called before the mapping is removed. */
void         llm_map_guard_leave       (LlmMapGuard   *self);

gboolean     llm_map_guard_is_damaged  (LlmMapGuard   *self);
void         llm_map_guard_set_damaged (LlmMapGuard   *self);
