/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-history.h"

#include "llmctl/bus/llmctl-service.h"

#define SPAN_US (60 * G_USEC_PER_SEC)

/* Looks more often than this are not all kept. */
#define MIN_DISTANCE_US (G_USEC_PER_SEC / 4)

typedef struct
{
  gint64 time_us;
  GVariant *statistics;
} Entry;

struct _LlmctlHistory
{
  GQueue entries;       /* (element-type Entry) (owned): the oldest first; without the last one */
  Entry *last;          /* (nullable) (owned) */
  Entry *before;        /* (nullable) (owned): the one that rates are compared with */
};

static Entry *
entry_new (gint64    time_us,
           GVariant *statistics)
{
  Entry *self = g_new (Entry, 1);

  self->time_us = time_us;
  self->statistics = g_variant_ref (statistics);
  return self;
}

static void
entry_free (Entry *self)
{
  if (self == NULL)
    return;

  g_variant_unref (self->statistics);
  g_free (self);
}

LlmctlHistory *
llmctl_history_new (void)
{
  LlmctlHistory *self = g_new0 (LlmctlHistory, 1);

  g_queue_init (&self->entries);
  return self;
}

void
llmctl_history_clear (LlmctlHistory *self)
{
  g_queue_clear_full (&self->entries, (GDestroyNotify) entry_free);
  g_clear_pointer (&self->last, entry_free);
  g_clear_pointer (&self->before, entry_free);
}

void
llmctl_history_free (LlmctlHistory *self)
{
  if (self == NULL)
    return;

  llmctl_history_clear (self);
  g_free (self);
}

void
llmctl_history_add (LlmctlHistory *self,
                    gint64         time_us,
                    GVariant      *statistics)
{
  Entry *newest = g_queue_peek_tail (&self->entries);
  Entry *second;

  if (newest == NULL || time_us - newest->time_us >= MIN_DISTANCE_US)
    g_queue_push_tail (&self->entries, entry_new (time_us, statistics));
  entry_free (self->before);
  self->before = self->last;
  self->last = entry_new (time_us, statistics);

  /* the oldest one is as old as the span or older, so that there is something to compare with */
  while ((second = g_queue_peek_nth (&self->entries, 1)) != NULL &&
         time_us - second->time_us >= SPAN_US)
    entry_free (g_queue_pop_head (&self->entries));
}

gboolean
llmctl_history_has_rates (LlmctlHistory *self)
{
  return self->before != NULL && self->last->time_us > self->before->time_us;
}

static guint64
get_growth (const Entry *from,
            const Entry *to,
            const char  *key)
{
  guint64 before = llmctl_dict_get_number (from->statistics, key);
  guint64 after = llmctl_dict_get_number (to->statistics, key);

  return after > before ? after - before : 0;
}

double
llmctl_history_get_rate (LlmctlHistory *self,
                         const char    *key)
{
  if (!llmctl_history_has_rates (self))
    return 0;

  return (double) get_growth (self->before, self->last, key) /
         ((double) (self->last->time_us - self->before->time_us) / G_USEC_PER_SEC);
}

guint64
llmctl_history_get_recent (LlmctlHistory *self,
                           const char    *key)
{
  const Entry *oldest = g_queue_peek_head (&self->entries);

  return oldest != NULL && self->last != NULL ? get_growth (oldest, self->last, key) : 0;
}
