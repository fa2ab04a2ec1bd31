/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Many applications for a long time, with all that goes wrong in practice: what the service holds
 * must stay the same after a while, no acknowledged turn may be lost, and properties must be
 * readable at any moment. bench-soak-load.c has the applications, bench-soak-watch.c the readings,
 * bench-soak-report.c what is said at the end, bench-soak-hostile.c callers that mean harm.
 */

#include "soak/bench-soak.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib-unix.h>
#include <glib/gstdio.h>

#include "bench-bus.h"
#include "soak/bench-soak-hostile.h"
#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"
#include "support/llm-test-folder.h"

#define N_KILLED 2
#define CRASH_LOAD_US (3 * G_USEC_PER_SEC)
#define STEP_US 20000
#define QUIET_MAX_US (20 * G_USEC_PER_SEC)

static char *opt_daemon;
static char *opt_model;
static double opt_minutes = 30;
static int opt_apps = 50;
static int opt_contexts = 200;
static int opt_think_ms = 1000;
static int opt_tokens = 40000;
static int opt_answer = 24;
static int opt_seed = 1;
static int opt_interval_s = 10;
static int opt_rest_s = 30;
static char *opt_budget;
static gboolean opt_quick;
static gboolean opt_json;
static char *opt_json_file;
static char *opt_plots;
static char **opt_hostile;
static char *opt_probe;
static char *opt_caller;
static char *opt_flood;

static const GOptionEntry entries[] = {
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to measure", "FILE" },
  { "model", 0, 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file to answer with", "FILE" },
  { "minutes", 0, 0, G_OPTION_ARG_DOUBLE, &opt_minutes, "How long (30)", "N" },
  { "apps", 0, 0, G_OPTION_ARG_INT, &opt_apps, "Applications (50)", "N" },
  { "contexts", 0, 0, G_OPTION_ARG_INT, &opt_contexts, "Contexts of all together (200)", "N" },
  { "think", 0, 0, G_OPTION_ARG_INT, &opt_think_ms,
    "Milliseconds between two calls of an application, on average (1000)", "N" },
  { "tokens", 0, 0, G_OPTION_ARG_INT, &opt_tokens, "Tokens held by all contexts (40000)", "N" },
  { "answer", 0, 0, G_OPTION_ARG_INT, &opt_answer, "Tokens of the longest usual answer (24)", "N" },
  { "budget", 0, 0, G_OPTION_ARG_STRING, &opt_budget,
    "Memory the service may hold, as in its configuration (160M; with --hostile what it likes)",
    "BYTES" },
  { "seed", 0, 0, G_OPTION_ARG_INT, &opt_seed, "Of all that is random (1)", "N" },
  { "quick", 0, 0, G_OPTION_ARG_NONE, &opt_quick, "A small load for half a minute", NULL },
  { "hostile", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_hostile,
    "Instead: a steady caller beside one that means harm; a kind, or all (repeatable)", "KIND" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object instead of tables", NULL },
  { "json-file", 0, 0, G_OPTION_ARG_FILENAME, &opt_json_file, "Write the JSON there as well",
    "FILE" },
  { "plots", 0, 0, G_OPTION_ARG_FILENAME, &opt_plots, "Write plots into this folder", "FOLDER" },
  /* what it starts itself under */
  { "probe-at", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &opt_probe, NULL, NULL },
  { "call-at", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &opt_caller, NULL, NULL },
  { "flood-at", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &opt_flood, NULL, NULL },
  G_OPTION_ENTRY_NULL
};

/* --- children --- */

static void
set_up_child (gpointer data)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
}

GPid
bench_soak_spawn (const char *option,
                  const char *address,
                  guint64     seed,
                  const char *kind,
                  int         out)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, seed % G_MAXINT);
  const char *arguments[] = { "/proc/self/exe", "soak", option, address, "--seed", text,
                              kind != NULL ? "--hostile" : NULL, kind, NULL };
  g_autoptr(GError) error = NULL;
  GPid pid = 0;

  if (!g_spawn_async_with_fds (NULL, (char **) arguments, NULL, G_SPAWN_DO_NOT_REAP_CHILD,
                               set_up_child, NULL, &pid, -1, out, -1, &error))
    g_error ("%s", error->message);
  return pid;
}

void
bench_soak_kill (GPid pid)
{
  if (pid == 0)
    return;
  kill (pid, SIGKILL);
  while (waitpid (pid, NULL, 0) < 0 && errno == EINTR)
    ;
}

/* --- the run --- */

typedef struct
{
  BenchSoak *soak;
  GPid killed[N_KILLED];
  gint64 kill_us[N_KILLED];   /* when each is to be killed */
  BenchRandom random;
} Callers;

/* Kills those whose time has come, and starts others. */
static void
turn_over (Callers *self,
           gboolean starts)
{
  gint64 now_us = g_get_monotonic_time ();

  for (guint i = 0; i < N_KILLED; i++)
    {
      if (self->killed[i] != 0 && (!starts || now_us >= self->kill_us[i]))
        {
          bench_soak_kill (self->killed[i]);
          self->killed[i] = 0;
          self->soak->n_killed++;
        }
      if (self->killed[i] == 0 && starts)
        {
          self->killed[i] = bench_soak_spawn ("--call-at", self->soak->address,
                                              bench_random_next (&self->random), NULL, -1);
          self->kill_us[i] =
            now_us + (gint64) bench_random_range (&self->random, 300, 5000) * 1000;
        }
    }
}

static void
take_sample (BenchSoak *self,
             GArray    *samples)
{
  g_autoptr(GError) error = NULL;
  BenchSample sample = { 0 };

  if (!bench_sample_take (&sample, self->bus->connection, self->bus->daemon_pid, self->state,
                          self->begin_us, &error))
    g_error ("The service can't be asked: %s", error->message);
  g_array_append_val (samples, sample);
}

/* Work that goes on after the last reply: what was packed and written ahead. */
static guint64
read_background (BenchSoak *self)
{
  g_autoptr(GVariant) reply =
    bench_bus_call (self->bus, LLMSVC_PATH, LLMSVC_INTERFACE, "GetStatistics",
                    g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(a{sv})");
  g_autoptr(GVariant) statistics = g_variant_get_child_value (reply, 0);
  static const char *const keys[] = { "steps", "kv-packed-chunks", "kv-written-chunks",
                                      "kv-evicted-chunks", "calls" };
  guint64 sum = 0;

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      guint64 value = 0;

      g_variant_lookup (statistics, keys[i], "t", &value);
      sum += value;
    }
  return sum;
}

static void
await_quiet (BenchSoak *self)
{
  gint64 end_us = g_get_monotonic_time () + QUIET_MAX_US;
  guint64 before = read_background (self), now;
  guint n_same = 0;

  while (n_same < 5 && g_get_monotonic_time () < end_us)
    {
      g_usleep (2 * STEP_US);
      now = read_background (self);
      n_same = now == before ? n_same + 1 : 0;
      before = now;
    }
}

/* Everybody waits, and only what the contexts need is left. */
static void
sample_at_rest (BenchSoak *self,
                Callers   *callers)
{
  gint64 from_us = g_get_monotonic_time (), to_us;

  turn_over (callers, FALSE);
  bench_load_pause (self->load);
  await_quiet (self);
  take_sample (self, self->at_rest);
  g_array_index (self->at_rest, BenchSample, self->at_rest->len - 1).seconds =
    (double) (from_us - self->begin_us) / G_USEC_PER_SEC;
  bench_load_go_on (self->load);
  to_us = g_get_monotonic_time ();
  g_array_append_val (self->pauses, from_us);
  g_array_append_val (self->pauses, to_us);
}

void
bench_soak_read_probes (BenchSoak *self,
                        int        fd)
{
  char buffer[4096];
  ssize_t n;

  while ((n = read (fd, buffer, sizeof buffer)) > 0)
    g_byte_array_append (self->probes, (const guint8 *) buffer, (guint) n);
}

GPid
bench_soak_start_probe (BenchSoak *self,
                        int       *fd)
{
  int fds[2];
  GPid pid;

  if (pipe2 (fds, O_CLOEXEC) != 0 || !g_unix_set_fd_nonblocking (fds[0], TRUE, NULL))
    g_error ("No pipe: %s", g_strerror (errno));
  pid = bench_soak_spawn ("--probe-at", self->address, 0, NULL, fds[1]);
  close (fds[1]);
  *fd = fds[0];
  return pid;
}

/* The load for all its time. */
static void
run_load (BenchSoak *self)
{
  Callers callers = { .soak = self, .random = bench_random_derive ((guint64) opt_seed, 0xdead) };
  gint64 end_us, sample_us, rest_us;
  int fd;
  GPid probe = bench_soak_start_probe (self, &fd);

  self->begin_us = g_get_monotonic_time ();
  end_us = self->begin_us + (gint64) (opt_minutes * 60 * G_USEC_PER_SEC);
  sample_us = self->begin_us + opt_interval_s * (gint64) G_USEC_PER_SEC;
  rest_us = self->begin_us + opt_rest_s * (gint64) G_USEC_PER_SEC;
  while (g_get_monotonic_time () < end_us)
    {
      turn_over (&callers, TRUE);
      bench_soak_read_probes (self, fd);
      g_usleep (STEP_US);
      if (g_get_monotonic_time () >= sample_us)
        {
          take_sample (self, self->under_load);
          sample_us += opt_interval_s * (gint64) G_USEC_PER_SEC;
        }
      if (g_get_monotonic_time () >= rest_us)
        {
          sample_at_rest (self, &callers);
          rest_us += opt_rest_s * (gint64) G_USEC_PER_SEC;
        }
    }
  self->end_us = g_get_monotonic_time ();
  turn_over (&callers, FALSE);
  bench_soak_kill (probe);
  bench_soak_read_probes (self, fd);
  close (fd);
}

/* What goes on, for whoever waits half an hour. */
static void
tell (BenchSoak  *self,
      const char *what)
{
  g_printerr ("%6.1f s: %s\n", (double) (g_get_monotonic_time () - self->begin_us) / G_USEC_PER_SEC,
              what);
}

/* @number: SIGKILL in the middle of the load, or SIGTERM at rest. */
static guint
restart_service (BenchSoak *self,
                 int        number)
{
  guint n, pid = self->bus->daemon_pid;

  if (number == SIGKILL)
    g_usleep (CRASH_LOAD_US);
  else
    bench_load_pause (self->load);
  bench_load_expect_loss (self->load);
  kill ((pid_t) pid, number);
  if (number == SIGTERM)
    bench_stop_service (pid);
  while (bench_bus_find_pid (self->bus, LLMSVC_BUS_NAME) == pid)
    g_usleep (STEP_US);
  n = bench_load_reopen (self->load);
  self->bus->daemon_pid = bench_bus_find_pid (self->bus, LLMSVC_BUS_NAME);
  return n;
}

static void
run_soak (BenchSoak *self)
{
  BenchLoadSetup setup = {
    .address = self->address,
    .seed = (guint64) opt_seed,
    .n_apps = (guint) opt_apps,
    .n_contexts = (guint) (opt_contexts / opt_apps),
    .think_ms = (guint) opt_think_ms,
    .target_tokens = (guint) opt_tokens,
    .max_tokens = (guint) opt_answer,
  };

  self->setup = setup;
  self->load = bench_load_new (&setup);
  run_load (self);
  tell (self, "all contexts are compared");
  bench_load_pause (self->load);
  self->n_compared_at_end = bench_load_compare (self->load);
  bench_load_go_on (self->load);
  tell (self, "the service is killed in the middle of the load");
  self->n_compared_after_kill = restart_service (self, SIGKILL);
  tell (self, "the service is ended");
  self->n_compared_after_end = restart_service (self, SIGTERM);
  bench_load_pause (self->load);
  tell (self, "the end");
}

/* --- the command --- */

static void
write_config (const char *folder)
{
  g_autofree char *path = g_build_filename (folder, "llmsvc.conf", NULL);
  const char *usual = opt_hostile != NULL ? "0" : "160M";
  g_autofree char *text = g_strdup_printf ("[service]\nbudget=%s\n",
                                           opt_budget != NULL ? opt_budget : usual);
  g_autoptr(GError) error = NULL;

  if (!g_file_set_contents (path, text, -1, &error))
    g_error ("%s", error->message);
  /* the bus hands its environment to those it starts */
  g_setenv ("LLMSVC_CONFIG", path, TRUE);
}

static void
soak_init (BenchSoak *self)
{
  self->folder = llm_test_folder_new ();
  write_config (self->folder);
  self->bus = bench_bus_new (opt_daemon, opt_model, NULL);
  self->address = g_strdup (g_test_dbus_get_bus_address (self->bus->dbus));
  self->state = g_build_filename (self->bus->folder, "state", NULL);
  self->under_load = g_array_new (FALSE, FALSE, sizeof (BenchSample));
  self->at_rest = g_array_new (FALSE, FALSE, sizeof (BenchSample));
  self->pauses = g_array_new (FALSE, FALSE, sizeof (gint64));
  self->probes = g_byte_array_new ();
  /* the model is there before anything is counted */
  bench_bus_time_first_byte (self->bus, "Hello", 4);
}

static void
soak_clear (BenchSoak *self)
{
  g_clear_pointer (&self->load, bench_load_free);
  bench_bus_free (self->bus);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self->address);
  g_free (self->state);
  g_array_unref (self->under_load);
  g_array_unref (self->at_rest);
  g_array_unref (self->pauses);
  g_byte_array_unref (self->probes);
}

static gboolean
check_options (void)
{
  if (opt_quick)
    {
      opt_minutes = 0.35;
      opt_apps = 8;
      opt_contexts = 32;
      opt_think_ms = 200;
      opt_tokens = 4000;
      opt_interval_s = 1;
      opt_rest_s = 3;
    }
  return opt_daemon != NULL && opt_model != NULL && opt_minutes > 0 && opt_minutes < 100000 &&
         opt_apps > 0 && opt_apps <= 200 && opt_contexts >= opt_apps &&
         opt_contexts <= 60 * opt_apps && opt_think_ms >= 0 && opt_think_ms < 1000000 &&
         opt_tokens > 0 && opt_answer >= 2 && opt_answer <= 500 && opt_seed >= 0;
}

int
bench_soak (int    argc,
            char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  BenchSoak soak = { 0 };
  gboolean is_good;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 2;
    }
  if (opt_probe != NULL)
    return bench_probe_run (opt_probe);
  if (opt_caller != NULL)
    return bench_caller_run (opt_caller, (guint64) opt_seed);
  if (opt_flood != NULL)
    return bench_hostile_run (opt_flood, opt_hostile != NULL ? opt_hostile[0] : "",
                              (guint64) opt_seed);
  if (!check_options ())
    {
      g_printerr ("llmsvc-bench: --daemon FILE and --model FILE are needed, "
                  "and numbers within reason\n");
      return 2;
    }
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  soak_init (&soak);
  if (opt_hostile != NULL)
    {
      is_good = bench_hostile_measure (&soak, opt_model, (const char *const *) opt_hostile,
                                       opt_quick, opt_json, opt_json_file);
    }
  else
    {
      run_soak (&soak);
      is_good = bench_soak_report (&soak, opt_json, opt_json_file, opt_plots);
    }
  soak_clear (&soak);
  return is_good ? 0 : 1;
}
