/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-load-private.h"

#include <math.h>

#include "soak/bench-soak-talk.h"

#define MAX_COMPLAINTS 20
/* What takes longer was forgotten by somebody, however busy the machine. */
#define MAX_CALL_US (90 * G_USEC_PER_SEC)

void
bench_app_complain (BenchApp   *self,
                    const char *format,
                    ...)
{
  BenchLoad *load = self->load;
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_mutex_lock (&load->lock);
  load->n_complaints++;
  if (load->complaints->len < MAX_COMPLAINTS)
    g_ptr_array_add (load->complaints, g_strdup_printf ("%s, call %" G_GUINT64_FORMAT ": %s",
                                                        self->id, self->n_calls, text));
  g_mutex_unlock (&load->lock);
}

/* Whether an error is what callers see of a service that has died. */
static gboolean
is_loss (const GError *error)
{
  return g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY) ||
         g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN) ||
         g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NAME_HAS_NO_OWNER) ||
         g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_CHILD_EXITED) ||
         g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_CHILD_SIGNALED) ||
         /* the next one does not know contexts without a name, nor who this is */
         g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_UNKNOWN_OBJECT) ||
         g_error_matches (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT);
}

gboolean
bench_app_is_lost (BenchApp     *self,
                   const GError *error)
{
  gboolean expects_loss;

  g_mutex_lock (&self->load->lock);
  expects_loss = self->load->expects_loss;
  g_mutex_unlock (&self->load->lock);
  return expects_loss && is_loss (error);
}

/* --- threads --- */

/* Waits for its turn; FALSE at the end. @epoch: of which service it is. */
static gboolean
begin_call (BenchApp *self,
            guint    *epoch)
{
  BenchLoad *load = self->load;
  gboolean may_begin;

  g_mutex_lock (&load->lock);
  while (load->is_paused && !load->is_ending)
    g_cond_wait (&load->changed, &load->lock);
  may_begin = !load->is_ending;
  *epoch = load->epoch;
  if (may_begin)
    load->n_active++;
  g_mutex_unlock (&load->lock);
  return may_begin;
}

static void
end_call (BenchApp *self)
{
  BenchLoad *load = self->load;

  g_mutex_lock (&load->lock);
  load->n_active--;
  g_cond_broadcast (&load->changed);
  g_mutex_unlock (&load->lock);
}

static void
think (BenchApp *self)
{
  double share = -log (1 - bench_random_get (&self->random));
  gint64 end_us = g_get_monotonic_time () +
                  (gint64) (MIN (share, 5) * self->load->setup.think_ms * 1000);

  g_mutex_lock (&self->load->lock);
  while (!self->load->is_ending &&
         g_cond_wait_until (&self->load->changed, &self->load->lock, end_us))
    ;
  g_mutex_unlock (&self->load->lock);
}

/* The service of @epoch is gone: waits until another one is expected. */
static void
await_service (BenchApp *self,
               guint     epoch)
{
  BenchLoad *load = self->load;

  g_mutex_lock (&load->lock);
  while (load->epoch == epoch && !load->is_ending)
    g_cond_wait (&load->changed, &load->lock);
  g_mutex_unlock (&load->lock);
}

static void
compare_named (BenchApp *self)
{
  guint n = 0;

  for (guint i = 0; i < self->load->setup.n_contexts; i++)
    {
      g_autoptr(GError) error = NULL;

      if (self->slots[i].name == NULL)
        continue;
      if (!bench_app_compare (self, &self->slots[i], &error))
        bench_app_complain (self, "after a restart: %s", error->message);
      n++;
    }
  g_mutex_lock (&self->load->lock);
  self->load->n_compared += n;
  g_mutex_unlock (&self->load->lock);
}

static void
open_again (BenchApp *self)
{
  g_autoptr(GError) error = NULL;

  if (bench_app_open (self, &error))
    compare_named (self);
  else
    bench_app_complain (self, "can't open its contexts after a restart: %s", error->message);
  g_mutex_lock (&self->load->lock);
  self->load->n_reopened++;
  g_cond_broadcast (&self->load->changed);
  g_mutex_unlock (&self->load->lock);
}

static gpointer
run_app (gpointer data)
{
  BenchApp *self = data;
  g_autoptr(GError) error = NULL;
  guint epoch = 0, epoch_now;

  if (!bench_app_open (self, &error))
    bench_app_complain (self, "can't begin: %s", error->message);
  while (begin_call (self, &epoch_now))
    {
      g_autoptr(GError) failure = NULL;
      gboolean is_done, is_lost;
      gint64 begin_us;

      if (epoch != epoch_now)
        open_again (self);
      epoch = epoch_now;
      self->n_calls++;
      begin_us = g_get_monotonic_time ();
      is_done = bench_app_act (self, &failure);
      if (g_get_monotonic_time () - begin_us > MAX_CALL_US)
        bench_app_complain (self, "took %.0f s",
                            (double) (g_get_monotonic_time () - begin_us) / G_USEC_PER_SEC);
      is_lost = !is_done && bench_app_is_lost (self, failure);
      end_call (self);
      if (is_lost)
        {
          await_service (self, epoch);
          continue;
        }
      if (!is_done)
        bench_app_complain (self, "%s", failure->message);
      think (self);
    }
  return NULL;
}

/* --- for the main thread --- */

static void
set_up_app (BenchLoad *self,
            guint      index)
{
  BenchApp *app = &self->apps[index];

  app->load = self;
  app->id = g_strdup_printf ("org.example.Soak%02u", index);
  app->random = bench_random_derive (self->setup.seed, index + 1);
  app->slots = g_new0 (BenchSlot, self->setup.n_contexts);
  for (guint i = 0; i < self->setup.n_contexts; i++)
    {
      app->slots[i].book = bench_book_new ();
      app->slots[i].name = i % 2 == 0 ? g_strdup_printf ("notes %u", i) : NULL;
    }
}

BenchLoad *
bench_load_new (const BenchLoadSetup *setup)
{
  BenchLoad *self = g_new0 (BenchLoad, 1);

  self->setup = *setup;
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->complaints = g_ptr_array_new_with_free_func (g_free);
  self->threads = g_ptr_array_new ();
  self->apps = g_new0 (BenchApp, setup->n_apps);
  for (guint i = 0; i < setup->n_apps; i++)
    {
      set_up_app (self, i);
      g_ptr_array_add (self->threads, g_thread_new ("soak", run_app, &self->apps[i]));
    }
  return self;
}

void
bench_load_free (BenchLoad *self)
{
  g_mutex_lock (&self->lock);
  self->is_ending = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < self->threads->len; i++)
    g_thread_join (g_ptr_array_index (self->threads, i));
  for (guint i = 0; i < self->setup.n_apps; i++)
    {
      BenchApp *app = &self->apps[i];

      for (guint k = 0; k < self->setup.n_contexts; k++)
        {
          bench_book_free (app->slots[k].book);
          g_free (app->slots[k].path);
          g_free (app->slots[k].name);
        }
      g_free (app->slots);
      g_free (app->id);
      if (app->connection != NULL)
        g_dbus_connection_close_sync (app->connection, NULL, NULL);
      g_clear_object (&app->connection);
    }
  g_free (self->apps);
  g_ptr_array_unref (self->threads);
  g_ptr_array_unref (self->complaints);
  g_cond_clear (&self->changed);
  g_mutex_clear (&self->lock);
  g_free (self);
}

void
bench_load_pause (BenchLoad *self)
{
  g_mutex_lock (&self->lock);
  self->is_paused = TRUE;
  while (self->n_active > 0)
    g_cond_wait (&self->changed, &self->lock);
  g_mutex_unlock (&self->lock);
}

void
bench_load_go_on (BenchLoad *self)
{
  g_mutex_lock (&self->lock);
  self->is_paused = FALSE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

void
bench_load_expect_loss (BenchLoad *self)
{
  g_mutex_lock (&self->lock);
  self->expects_loss = TRUE;
  g_mutex_unlock (&self->lock);
}

guint
bench_load_reopen (BenchLoad *self)
{
  guint n;

  /* who thinks, or waits to begin, has not noticed; all others have */
  bench_load_pause (self);
  g_mutex_lock (&self->lock);
  self->n_compared = 0;
  self->n_reopened = 0;
  self->epoch++;
  self->expects_loss = FALSE;
  self->is_paused = FALSE;
  g_cond_broadcast (&self->changed);
  while (self->n_reopened < self->setup.n_apps)
    g_cond_wait (&self->changed, &self->lock);
  n = self->n_compared;
  g_mutex_unlock (&self->lock);
  return n;
}

guint
bench_load_compare (BenchLoad *self)
{
  guint n = 0;

  for (guint i = 0; i < self->setup.n_apps; i++)
    for (guint k = 0; k < self->setup.n_contexts; k++)
      {
        BenchApp *app = &self->apps[i];
        g_autoptr(GError) error = NULL;

        if (app->slots[k].path == NULL)
          continue;
        if (!bench_app_compare (app, &app->slots[k], &error))
          bench_app_complain (app, "at the end: %s", error->message);
        n++;
      }
  return n;
}

guint64
bench_load_count (BenchLoad *self,
                  BenchOp    op)
{
  return (guint) g_atomic_int_get (&self->counts[op]);
}

guint
bench_load_count_refused (BenchLoad *self)
{
  return (guint) g_atomic_int_get (&self->n_refused);
}

guint64
bench_load_count_turns (BenchLoad *self)
{
  return (guint) g_atomic_int_get (&self->n_turns);
}

GPtrArray *
bench_load_get_complaints (BenchLoad *self,
                           guint     *n_all)
{
  GPtrArray *copy = g_ptr_array_new_with_free_func (g_free);

  g_mutex_lock (&self->lock);
  for (guint i = 0; i < self->complaints->len; i++)
    g_ptr_array_add (copy, g_strdup (g_ptr_array_index (self->complaints, i)));
  *n_all = self->n_complaints;
  g_mutex_unlock (&self->lock);
  return copy;
}

const char *
bench_load_get_op_name (BenchOp op)
{
  static const char *const names[BENCH_N_OPS] = {
    [BENCH_OP_GENERATE] = "Generate, read to the end",
    [BENCH_OP_TEXT] = "Generate as plain text",
    [BENCH_OP_CANCEL] = "Generate, cancelled",
    [BENCH_OP_KEEP] = "Generate, cancelled and kept",
    [BENCH_OP_HANG_UP] = "Generate, pipe closed",
    [BENCH_OP_STALL] = "Generate, not read for a while",
    [BENCH_OP_ASK] = "Ask",
    [BENCH_OP_RETRY] = "Ask, the same request twice",
    [BENCH_OP_COMPLETE] = "Complete",
    [BENCH_OP_COUNT] = "CountTokens",
    [BENCH_OP_APPEND] = "Append",
    [BENCH_OP_FORK] = "Fork, Ask, Close",
    [BENCH_OP_ROLLBACK] = "Rollback",
    [BENCH_OP_RENEW] = "Close, CreateContext",
    [BENCH_OP_COMPARE] = "GetMessages, compared",
    [BENCH_OP_LOOK] = "GetMemory, lists, properties",
    [BENCH_OP_CONFLICT] = "wrong revision",
    [BENCH_OP_VANISH] = "connection dropped",
  };

  return names[op];
}
