/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-history.h"

#include "llmctl/bus/llmctl-service.h"

#define SPAN_US (60 * G_USEC_PER_SEC)

typedef struct
{
  gint64 time_us;
  GVariant *statistics;
} Entry;

static void
entry_free (gpointer data)
{
  Entry *self = data;

  g_variant_unref (self->statistics);
  g_free (self);
}

void
llmctl_history_clear (LlmctlHistory *self)
{
  g_queue_clear_full (&self->looks, entry_free);
}

void
llmctl_history_add (LlmctlHistory *self,
                    gint64         time_us,
                    GVariant      *statistics)
{
  Entry *added = g_new (Entry, 1);
  Entry *second;

  added->time_us = time_us;
  added->statistics = g_variant_ref (statistics);
  g_queue_push_tail (&self->looks, added);
  /* the oldest one is as old as the span or older, so that there is something to compare with */
  while ((second = g_queue_peek_nth (&self->looks, 1)) != NULL &&
         time_us - second->time_us >= SPAN_US)
    entry_free (g_queue_pop_head (&self->looks));
}

/* From the look @from (nullable) to the last one. */
static guint64
get_growth (LlmctlHistory *self,
            const Entry   *from,
            const char    *key)
{
  const Entry *last = g_queue_peek_tail (&self->looks);
  guint64 before = from != NULL ? llmctl_dict_get_number (from->statistics, key) : 0;
  guint64 after = from != NULL ? llmctl_dict_get_number (last->statistics, key) : 0;

  return after > before ? after - before : 0;
}

/* Microseconds between the last two looks; 0 when nobody knows. */
static gint64
get_distance (LlmctlHistory *self)
{
  GList *last = self->looks.tail;

  return last != NULL && last->prev != NULL
             ? ((Entry *) last->data)->time_us - ((Entry *) last->prev->data)->time_us
             : 0;
}

gboolean
llmctl_history_has_rates (LlmctlHistory *self)
{
  return get_distance (self) > 0;
}

double
llmctl_history_get_rate (LlmctlHistory *self,
                         const char    *key)
{
  gint64 distance_us = get_distance (self);

  return distance_us > 0 ? (double) get_growth (self, self->looks.tail->prev->data, key) *
                               G_USEC_PER_SEC / (double) distance_us
                         : 0;
}

guint64
llmctl_history_get_recent (LlmctlHistory *self,
                           const char    *key)
{
  return get_growth (self, g_queue_peek_head (&self->looks), key);
}
