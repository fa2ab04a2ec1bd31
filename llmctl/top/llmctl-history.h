/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The counters of the last minute, for what they came to in it. Plain data; one thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Begins as all zero. */
typedef struct
{
  GQueue looks;   /* (owned): the oldest first */
} LlmctlHistory;

/* The service was started anew: its counters begin with 0. */
void     llmctl_history_clear      (LlmctlHistory *self);
/* @statistics: `a{sv}` of GetStatistics, as of @time_us, which does not go back. */
void     llmctl_history_add        (LlmctlHistory *self,
                                    gint64         time_us,
                                    GVariant      *statistics);

/* Whether there are two looks to compare. */
gboolean llmctl_history_has_rates  (LlmctlHistory *self);
/* How much the counter @key grew a second between the last two looks; 0 when nobody knows. */
double   llmctl_history_get_rate   (LlmctlHistory *self,
                                    const char    *key);
/* How much it grew in the last minute, or since there was the first look. */
guint64  llmctl_history_get_recent (LlmctlHistory *self,
                                    const char    *key);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlHistory, llmctl_history_clear)

G_END_DECLS
