/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-apps.h"

typedef struct
{
  BenchStormApps *apps;
  guint index;
  GThread *thread;
  guint n_turns;          /* 0: until it is stopped */
  GPtrArray *answers;     /* the thread's until it is joined */
  char *failure;          /* (nullable): likewise */
} App;

struct _BenchStormApps
{
  BenchStormServer *server;
  App apps[BENCH_STORM_APPS];
  gboolean is_stopping;
  guint n_begun;
  guint n_ended;
  guint64 tokens;
};

static gboolean
goes_on (App  *app,
         guint turn)
{
  if (app->n_turns > 0)
    return turn < app->n_turns;
  return !g_atomic_int_get (&app->apps->is_stopping);
}

static gpointer
run (gpointer data)
{
  App *app = data;
  BenchStormApps *self = app->apps;

  for (guint turn = 0; goes_on (app, turn); turn++)
    {
      g_autoptr(GString) answer = g_string_new (NULL);
      g_autoptr(GError) error = NULL;

      if (!bench_storm_server_ask (self->server, app->index, turn, answer, &self->tokens, &error))
        {
          app->failure = g_strdup_printf ("turn %u: %s", turn + 1, error->message);
          break;
        }
      g_ptr_array_add (app->answers, g_strdup (answer->str));
      if (turn == 0)
        g_atomic_int_inc (&self->n_begun);
    }
  g_atomic_int_inc (&self->n_ended);
  return NULL;
}

BenchStormApps *
bench_storm_apps_new (BenchStormServer *server,
                      const guint      *n_turns)
{
  BenchStormApps *self = g_new0 (BenchStormApps, 1);

  self->server = server;
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    {
      App *app = &self->apps[i];

      app->apps = self;
      app->index = i;
      app->n_turns = n_turns != NULL ? n_turns[i] : 0;
      app->answers = g_ptr_array_new_with_free_func (g_free);
      if (n_turns == NULL || n_turns[i] > 0)
        app->thread = g_thread_new ("app", run, app);
      else
        g_atomic_int_inc (&self->n_ended);
    }
  return self;
}

void
bench_storm_apps_stop (BenchStormApps *self)
{
  g_atomic_int_set (&self->is_stopping, TRUE);
}

void
bench_storm_apps_finish (BenchStormApps *self)
{
  bench_storm_apps_stop (self);
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    g_clear_pointer (&self->apps[i].thread, g_thread_join);
}

void
bench_storm_apps_free (BenchStormApps *self)
{
  if (self == NULL)
    return;
  bench_storm_apps_finish (self);
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    {
      g_ptr_array_unref (self->apps[i].answers);
      g_free (self->apps[i].failure);
    }
  g_free (self);
}

guint64
bench_storm_apps_get_tokens (BenchStormApps *self)
{
  return __atomic_load_n (&self->tokens, __ATOMIC_RELAXED);
}

guint
bench_storm_apps_get_n_begun (BenchStormApps *self)
{
  return (guint) g_atomic_int_get (&self->n_begun);
}

guint
bench_storm_apps_get_n_ended (BenchStormApps *self)
{
  return (guint) g_atomic_int_get (&self->n_ended);
}

GPtrArray *
bench_storm_apps_get_answers (BenchStormApps *self,
                              guint           app)
{
  return self->apps[app].answers;
}

const char *
bench_storm_apps_get_failure (BenchStormApps *self,
                              guint           app)
{
  return self->apps[app].failure;
}
