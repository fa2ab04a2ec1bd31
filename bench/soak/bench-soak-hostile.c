/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-hostile.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include <glib-unix.h>

#include "bench-endless.h"
#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"

#define PROMPT "I want a restaurant in San Jose."
#define TOKENS 32
#define ROUNDS 5
#define WINDOW_S 6
#define THINK_US 20000
#define SETTLE_US 500000
/* How much slower the caller beside may become. */
#define MAX_RATIO 1.10

typedef struct
{
  const char *name;
  gboolean is_judged;   /* others only share what they may have */
} Kind;

static const Kind all_kinds[] = {
  { "calls", TRUE },   { "properties", TRUE },  { "contexts", TRUE }, { "cancels", TRUE },
  { "garbage", TRUE }, { "connections", TRUE }, { "pipes", FALSE },   { "huge", TRUE },
  { "answers", FALSE },
};

/* What the steady caller saw in one window of time. */
typedef struct
{
  BenchFigure *ttft;     /* ms */
  BenchFigure *speed;    /* tokens/s */
  BenchProbed reads;
} Seen;

typedef struct
{
  BenchSoak *soak;
  GDBusConnection *connection;
  char *context;
  GVariant *bias;        /* (owned): no answer ends early */
  int probes;            /* the pipe they come from */
} Victim;

static void
seen_clear (Seen *seen)
{
  g_clear_pointer (&seen->ttft, bench_figure_free);
  g_clear_pointer (&seen->speed, bench_figure_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Seen, seen_clear)

/* --- the steady caller --- */

static void
roll_back (Victim *self)
{
  g_autoptr(GVariant) reply =
    bench_talk_call (self->connection, self->context, LLMSVC_CONTEXT_INTERFACE, "Rollback",
                     g_variant_new ("(u@a{sv})", 1, bench_talk_no_options ()), "()", NULL);
}

/* One answer; the caller keeps within its quotas, so that one must come. */
static void
ask_once (Victim *self,
          Seen   *seen)
{
  gint64 begin_us = g_get_monotonic_time ();
  g_autoptr(GError) error = NULL;
  g_autoptr(BenchStream) stream = NULL;
  GVariantDict options;
  guint64 n = 0;   /* numbers of a line are of one type */
  gint64 end_us;

  g_variant_dict_init (&options, NULL);
  g_variant_dict_insert (&options, "max-tokens", "u", TOKENS);
  /* the same answers in each window */
  g_variant_dict_insert (&options, "temperature", "d", 0.0);
  g_variant_dict_insert_value (&options, "logit-bias", self->bias);
  g_variant_dict_insert (&options, "slo", "s", "interactive");
  stream = bench_stream_new (self->connection, self->context, PROMPT, g_variant_dict_end (&options),
                             FALSE, &error);
  if (stream == NULL || !bench_stream_read (stream, G_MAXINT64, &error))
    g_error ("The steady caller got no answer: %s", error->message);
  end_us = g_get_monotonic_time ();
  if (stream->results == NULL)
    g_error ("The steady caller's answer failed: %s",
             stream->failure != NULL ? stream->failure : "no last line");
  g_variant_lookup (stream->results, "output-tokens", "t", &n);
  bench_figure_add (seen->ttft, (double) (stream->first_us - begin_us) / 1000);
  if (n > 1 && end_us > stream->first_us)
    bench_figure_add (seen->speed,
                      (double) (n - 1) * G_USEC_PER_SEC / (double) (end_us - stream->first_us));
  roll_back (self);
}

/* @kind: what goes on beside it; NULL for nothing. */
static void
look (Victim     *self,
      const char *kind,
      double      seconds,
      guint64     seed,
      Seen       *seen)
{
  GPid flood =
    kind != NULL ? bench_soak_spawn ("--flood-at", self->soak->address, seed, kind, -1) : 0;
  gint64 begin_us, end_us;

  g_usleep (SETTLE_US);
  begin_us = g_get_monotonic_time ();
  end_us = begin_us + (gint64) (seconds * G_USEC_PER_SEC);
  seen->ttft = bench_figure_new ("ttft", "ms");
  seen->speed = bench_figure_new ("speed", "tokens/s");
  do
    {
      ask_once (self, seen);
      bench_soak_read_probes (self->soak, self->probes);
      g_usleep (THINK_US);
    }
  while (g_get_monotonic_time () < end_us);
  bench_soak_kill (flood);
  bench_soak_read_probes (self->soak, self->probes);
  bench_probe_sum_up ((const BenchProbe *) self->soak->probes->data,
                      self->soak->probes->len / sizeof (BenchProbe), begin_us, end_us,
                      self->soak->pauses, FALSE, &seen->reads);
}

/* --- the figures --- */

/* What is not finite comes from a window too short for a single answer of some length. */
static void
add (GPtrArray  *figures,
     const char *kind,
     const char *what,
     const char *unit,
     double      value)
{
  g_autofree char *name = g_strdup_printf ("%s: %s", kind, what);

  if (isfinite (value))
    bench_figures_add (figures, name, unit, value);
}

/* @kind beside nothing, beside a flood of the bus that the service has no part in, and beside the
 * harm, one after the other. */
static void
run_round (Victim     *self,
           GPtrArray  *figures,
           const char *kind,
           double      seconds,
           guint64     seed)
{
  static const char *const names[] = { "alone", "bus flooded", "beside it" };
  const char *const beside[] = { NULL, "bus", kind };
  g_auto(Seen) alone = { NULL };
  g_auto(Seen) bus = { NULL };
  g_auto(Seen) harm = { NULL };
  Seen *const seen[] = { &alone, &bus, &harm };

  for (guint i = 0; i < G_N_ELEMENTS (seen); i++)
    {
      g_autofree char *ttft = g_strdup_printf ("first token, %s", names[i]);
      g_autofree char *speed = g_strdup_printf ("speed, %s", names[i]);
      g_autofree char *reads = g_strdup_printf ("property read p99, %s", names[i]);

      look (self, beside[i], seconds, seed, seen[i]);
      add (figures, kind, ttft, "ms", bench_figure_median (seen[i]->ttft));
      add (figures, kind, speed, "tokens/s", bench_figure_median (seen[i]->speed));
      add (figures, kind, reads, "ms", seen[i]->reads.p99);
    }
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *ttft = g_strdup_printf ("first token, beside it / %s", names[i]);
      g_autofree char *speed = g_strdup_printf ("time of a token, beside it / %s", names[i]);

      add (figures, kind, ttft, "×",
           bench_figure_median (harm.ttft) / bench_figure_median (seen[i]->ttft));
      add (figures, kind, speed, "×",
           bench_figure_median (seen[i]->speed) / bench_figure_median (harm.speed));
    }
}

static gboolean
is_within (GPtrArray  *figures,
           const char *kind)
{
  static const char *const whats[] = { "first token, beside it / bus flooded",
                                       "time of a token, beside it / bus flooded" };

  for (guint i = 0; i < G_N_ELEMENTS (whats); i++)
    {
      g_autofree char *name = g_strdup_printf ("%s: %s", kind, whats[i]);

      if (bench_figure_median (bench_figure_find (figures, name, "×")) > MAX_RATIO)
        return FALSE;
    }
  return TRUE;
}

static gboolean
is_wanted (const char *const *kinds,
           const char        *name)
{
  return g_strv_contains (kinds, "all") || g_strv_contains (kinds, name);
}

static gboolean
check_kinds (const char *const *kinds)
{
  for (guint i = 0; kinds[i] != NULL; i++)
    {
      gboolean is_known = strcmp (kinds[i], "all") == 0;

      for (guint k = 0; k < G_N_ELEMENTS (all_kinds); k++)
        is_known = is_known || strcmp (kinds[i], all_kinds[k].name) == 0;
      if (!is_known)
        {
          g_printerr ("llmsvc-bench: no harm is called “%s”; all, or calls, properties, contexts, "
                      "cancels, garbage, connections, pipes, huge, answers\n", kinds[i]);
          return FALSE;
        }
    }
  return TRUE;
}

static void
open_victim (Victim     *self,
             const char *model)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = NULL;

  self->connection = bench_talk_connect (self->soak->address, "org.example.Steady", &error);
  if (self->connection != NULL)
    reply = bench_talk_call (self->connection, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
                             g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(o)", &error);
  if (reply == NULL)
    g_error ("The steady caller can't begin: %s", error->message);
  g_variant_get (reply, "(o)", &self->context);
  self->bias = bench_endless_make_bias (model, &error);
  if (self->bias == NULL)
    g_error ("The model can't be read: %s", error->message);
}

gboolean
bench_hostile_measure (BenchSoak         *soak,
                       const char        *model,
                       const char *const *kinds,
                       gboolean           is_quick,
                       gboolean           as_json,
                       const char        *json_file)
{
  g_autoptr(GPtrArray) figures =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_figure_free);
  Victim victim = { .soak = soak };
  gboolean is_good = TRUE;
  GPid probe;

  if (!check_kinds (kinds))
    return FALSE;
  open_victim (&victim, model);
  probe = bench_soak_start_probe (soak, &victim.probes);
  for (guint round = 0; round < (is_quick ? 1 : ROUNDS); round++)
    for (guint i = 0; i < G_N_ELEMENTS (all_kinds); i++)
      if (is_wanted (kinds, all_kinds[i].name))
        run_round (&victim, figures, all_kinds[i].name, is_quick ? 1 : WINDOW_S, round + 1);
  bench_soak_kill (probe);
  close (victim.probes);
  g_dbus_connection_close_sync (victim.connection, NULL, NULL);
  g_object_unref (victim.connection);
  g_free (victim.context);
  g_variant_unref (victim.bias);

  bench_print (figures, as_json);
  for (guint i = 0; i < G_N_ELEMENTS (all_kinds); i++)
    if (is_wanted (kinds, all_kinds[i].name) && all_kinds[i].is_judged &&
        !is_within (figures, all_kinds[i].name))
      {
        g_printerr ("%s: the caller beside is more than %.0f %% slower\n", all_kinds[i].name,
                    100 * (MAX_RATIO - 1));
        is_good = FALSE;
      }
  if (json_file != NULL && !bench_soak_write_figures (figures, json_file))
    return FALSE;
  return is_good;
}
