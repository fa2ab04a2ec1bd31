/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A budget that the weights don't fit into: answers are those that they are with all memory, and one
 * that is too small is refused with the smallest that is not; the same where no prepared copy can be
 * kept, and behind a crash. */

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>

#include "bus-rig.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)
/* What the figures may be late by. */
#define SLACK MIB
#define PROMPT "Find a film for tonight, please."
#define ANSWER "{'max-tokens': <uint32 40>, 'temperature': <0.0>, 'raw': <true>}"
/* No copy of any model has room there. */
#define NO_COPY "[model]\ncache-limit=4096\n"

static char *folder, *model_path;
static char *expected;   /* the answer with all memory */
static guint64 least, file_bytes;

static guint64
get_statistic (GDBusConnection *app,
               const char      *key)
{
  g_autoptr(GVariant) reply =
    bus_call_ok (app, NULL, "", "GetStatistics", g_variant_new ("(@a{sv})", bus_options ("{}")));
  g_autoptr(GVariant) statistics = g_variant_get_child_value (reply, 0);
  guint64 value = 0;

  g_assert_true (g_variant_lookup (statistics, key, "t", &value));
  return value;
}

static char *
try_to_complete (GDBusConnection  *app,
                 GError          **error)
{
  g_autoptr(GVariant) reply = bus_call (app, NULL, "", "Complete",
                                        g_variant_new ("(s@a{sv})", PROMPT, bus_options (ANSWER)),
                                        error);
  char *text = NULL;

  if (reply != NULL)
    g_variant_get (reply, "(s@a{sv})", &text, NULL);
  return text;
}

static void
assert_completes (GDBusConnection *app)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *text = try_to_complete (app, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (text, ==, expected);
}

static void
assert_refused (GDBusConnection *app,
                const char      *figure)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *text = try_to_complete (app, &error);

  g_assert_null (text);
  bus_assert_error (error, "NoMemory");
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, figure));
}

static void
set_budget (GDBusConnection *app,
            guint64          bytes)
{
  g_autoptr(GVariant) reply =
    bus_call_ok (app, NULL, ".Memory", "SetBudget",
                 g_variant_new ("(@a{sv})", bus_options ("{'bytes': <%t>}", bytes)));
}

static guint64
get_least (GDBusConnection *app)
{
  g_autoptr(GVariant) path = bus_get (app, NULL, "", "ActiveModel");
  g_autoptr(GVariant) info =
    bus_get (app, g_variant_get_string (path, NULL), "org.llm.Service.Model", "Info");
  guint64 value = 0;

  g_assert_true (g_variant_lookup (info, "least-budget", "t", &value));
  return value;
}

static guint64
get_small_budget (void)
{
  g_assert_cmpuint (least, <, file_bytes - 2 * MIB);
  return (least + file_bytes) / 2;
}

typedef struct
{
  GDBusConnection *app;
  guint64 bytes;
} Wait;

static gboolean
holds_at_most (gpointer data)
{
  const Wait *wait = data;

  return get_statistic (wait->app, "held-anonymous-bytes")
           + get_statistic (wait->app, "held-backed-bytes") <= wait->bytes + SLACK;
}

/* The kernel keeps pages of a copy until they are written, and is asked once a second. */
static void
wait_until_holds_at_most (GDBusConnection *app,
                          guint64          bytes)
{
  bus_wait_until (holds_at_most, &(Wait) { app, bytes });
}

/* In the file, before the first call. */
static void
test_configured (void)
{
  g_autofree char *config = g_strdup_printf ("[service]\nbudget=%ju\n", get_small_budget ());
  g_autoptr(BusRig) rig = bus_rig_new (model_path, config);
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);

  assert_completes (app);
  g_assert_cmpuint (get_statistic (app, "streaming-bytes"), >, 0);
  g_assert_cmpuint (get_statistic (app, "streamed-bytes"), >, 0);
  wait_until_holds_at_most (app, get_small_budget ());
  assert_completes (app);
  g_assert_cmpuint (get_statistic (app, "failed"), ==, 0);
}

static gboolean
is_all_kept (gpointer data)
{
  return get_statistic (data, "streaming-bytes") == 0;
}

/* It becomes smaller, and larger again, while answers are given. */
static void
test_in_an_answer (void)
{
  const guint64 budgets[] = { get_small_budget (), 0, least, 0 };
  g_autoptr(BusRig) rig = bus_rig_new (model_path, NULL);
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autofree char *context = bus_open (app, "notes");
  g_autoptr(GString) first = NULL;

  for (guint i = 0; i <= G_N_ELEMENTS (budgets); i++)
    {
      g_autofree char *own = bus_create (app, bus_options ("{}"));
      g_autofree char *generation = NULL;
      g_autoptr(GString) text = NULL;
      g_autoptr(GError) error = NULL;
      int fd;

      generation = bus_generate (app, own, PROMPT,
                                 bus_options ("{'max-tokens': <uint32 60>, 'temperature': <0.0>, "
                                              "'stream': <'text'>}"), &fd, &error);
      g_assert_no_error (error);
      bus_read_one (fd);
      if (i > 0)
        set_budget (app, budgets[i - 1]);
      text = bus_read_all (fd);
      if (i == 0)
        first = g_string_new_len (text->str, (gssize) text->len);
      g_assert_cmpstr (text->str, ==, first->str);
      assert_completes (app);
      if (i > 0 && budgets[i - 1] > 0)
        {
          g_assert_cmpuint (get_statistic (app, "streaming-bytes"), >, 0);
          wait_until_holds_at_most (app, budgets[i - 1]);
        }
    }
  bus_wait_until (is_all_kept, app);
  g_assert_cmpuint (get_statistic (app, "failed"), ==, 0);
}

/* With less than the least nothing is answered, and nothing is lost. */
static void
test_too_small (void)
{
  g_autofree char *figure = g_strdup_printf ("%ju", least);
  g_autoptr(BusRig) rig = bus_rig_new (model_path, NULL);
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autofree char *context = bus_open (app, "notes");

  g_free (bus_ask (app, context, "Hello", bus_options ("{'max-tokens': <uint32 4>}"), NULL));
  set_budget (app, least - 1);
  assert_refused (app, figure);
  set_budget (app, least);
  assert_completes (app);
  g_assert_cmpuint (bus_count_messages (app, context, NULL), ==, 2);
  g_free (bus_ask (app, context, "Hello", bus_options ("{'max-tokens': <uint32 4>}"), NULL));
}

static BusRig *
new_without_copy (const char *config)
{
  g_autofree char *environment = g_strdup_printf ("XDG_CACHE_HOME=%s/other", folder);

  return bus_rig_new_with_environment (model_path, config, environment);
}

/* Without a copy the weights can't stream: the model has room as a whole, or is refused. */
static void
test_no_copy (void)
{
  g_autofree char *config =
    g_strdup_printf (NO_COPY "[service]\nbudget=%ju\n", get_small_budget ());
  g_autoptr(BusRig) rig = new_without_copy (config);
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  int pid;

  assert_refused (app, "4096");
  pid = bus_rig_get_pid (rig);
  set_budget (app, 0);
  assert_completes (app);
  g_assert_cmpint (bus_rig_get_pid (rig), ==, pid);
  set_budget (app, get_small_budget ());
  assert_refused (app, "no prepared copy");
  set_budget (app, 0);
  assert_completes (app);
}

/* Killed with a whole model in memory, as by the kernel where that has none left: the next process
 * tries that only with much more room; a name keeps its context. */
static void
test_crash (void)
{
  g_autoptr(BusRig) rig = new_without_copy (NO_COPY);
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autofree char *mark = g_build_filename (bus_rig_get_folder (rig), "state", "loading", NULL);
  g_autofree char *context = bus_open (app, "notes");
  g_autofree char *again = NULL;

  g_free (bus_ask (app, context, "Hello", bus_options ("{'max-tokens': <uint32 4>}"), NULL));
  g_assert_true (g_file_test (mark, G_FILE_TEST_EXISTS));
  bus_rig_end_daemon (rig, SIGKILL);

  /* twice its bytes are enough for others */
  set_budget (app, 2 * file_bytes);
  assert_refused (app, "crashed");
  again = bus_open (app, "notes");
  g_assert_cmpuint (bus_count_messages (app, again, NULL), ==, 2);
  bus_rig_end_daemon (rig, SIGTERM);
  set_budget (app, 2 * file_bytes);
  assert_refused (app, "crashed");
  set_budget (app, 0);
  assert_completes (app);
  bus_rig_end_daemon (rig, SIGTERM);
  g_assert_false (g_file_test (mark, G_FILE_TEST_EXISTS));
  set_budget (app, 2 * file_bytes);
  assert_completes (app);
}

static void
set_up (void)
{
  const LlmTestModel shape = { .n_layers = 24, .n_embd = 256, .n_kv_heads = 2, .n_ff = 1024,
                               .n_ctx = 512, .type = LLK_Q8_0, .seed = 5 };
  g_autoptr(BusRig) rig = NULL;
  g_autoptr(GDBusConnection) app = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *cache = NULL;
  GStatBuf status;

  folder = llm_test_folder_new_on_disk ();
  cache = g_build_filename (folder, "cache", NULL);
  g_setenv ("XDG_CACHE_HOME", cache, TRUE);
  model_path = g_build_filename (folder, "large.gguf", NULL);
  llm_test_model_write (&shape, model_path);
  g_assert_cmpint (g_stat (model_path, &status), ==, 0);
  file_bytes = (guint64) status.st_size;
  rig = bus_rig_new (model_path, NULL);
  app = bus_rig_connect (rig);
  expected = try_to_complete (app, &error);
  g_assert_no_error (error);
  least = get_least (app);
  g_test_message ("%ju bytes of weights, least budget %ju", file_bytes, least);
  g_assert_cmpuint (get_statistic (app, "streaming-bytes"), ==, 0);
}

int
main (int    argc,
      char **argv)
{
  int status;

  g_test_init (&argc, &argv, NULL);
  set_up ();
  g_test_add_func ("/bus/budget/configured", test_configured);
  g_test_add_func ("/bus/budget/in-an-answer", test_in_an_answer);
  g_test_add_func ("/bus/budget/too-small", test_too_small);
  g_test_add_func ("/bus/budget/no-copy", test_no_copy);
  g_test_add_func ("/bus/budget/crash", test_crash);
  status = g_test_run ();
  llm_test_folder_remove (folder);
  g_free (folder);
  g_free (model_path);
  g_free (expected);
  return status;
}
