/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Over the bus: answers that are gone on with, also behind a crash of the daemon, and the
 * log-probabilities in streams and results. */

#include "bus-rig.h"

#include <json-glib/json-glib.h>
#include <signal.h>
#include <string.h>

#include "common/llmsvc-line.h"

#define QUESTION "Hello, how are you?"
#define PIECE "{'max-tokens': <uint32 4>, 'temperature': <0.0>}"
#define MORE "{'max-tokens': <uint32 4>, 'temperature': <0.0>, 'continue': <true>}"

typedef struct
{
  BusRig *rig;
  GDBusConnection *app;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->rig = bus_rig_new (NULL, NULL);
  fixture->app = bus_rig_connect_app (fixture->rig, "org.example.App");
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  g_object_unref (fixture->app);
  bus_rig_free (fixture->rig);
}

static void
test_pieces (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *straight = bus_open (fixture->app, "straight");
  g_autofree char *path = bus_open (fixture->app, "pieces");
  g_autofree char *expected =
    bus_ask (fixture->app, straight, QUESTION,
             bus_options ("{'max-tokens': <uint32 12>, 'temperature': <0.0>}"), NULL);
  g_autofree char *first = bus_ask (fixture->app, path, QUESTION, bus_options (PIECE), NULL);
  g_autofree char *second = bus_ask (fixture->app, path, "", bus_options (MORE), NULL);
  g_autofree char *third = NULL;
  g_autofree char *joined = NULL;
  g_autofree char *last = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;

  /* what was acknowledged is there behind a crash */
  bus_rig_end_daemon (fixture->rig, SIGKILL);
  g_object_unref (fixture->app);
  fixture->app = bus_rig_connect_app (fixture->rig, "org.example.App");
  g_free (path);
  path = bus_open (fixture->app, "pieces");
  third = bus_ask (fixture->app, path, "", bus_options (MORE), NULL);
  joined = g_strconcat (first, second, third, NULL);
  g_assert_cmpstr (joined, ==, expected);
  g_assert_cmpuint (bus_count_messages (fixture->app, path, &last), ==, 2);
  g_assert_cmpstr (last, ==, expected);
  g_assert_cmpuint (bus_get_number (fixture->app, path, ".Context", "Revision"), ==, 3);

  /* text and the option contradict each other; a new context has nothing to go on with */
  reply = bus_call (fixture->app, path, ".Context", "Ask",
                    g_variant_new ("(s@a{sv})", "And?", bus_options (MORE)), &error);
  g_assert_null (reply);
  bus_assert_error (error, "InvalidOption");
  g_clear_error (&error);
  g_free (path);
  path = bus_create (fixture->app, bus_options ("{}"));
  reply = bus_call (fixture->app, path, ".Context", "Ask",
                    g_variant_new ("(s@a{sv})", "", bus_options (MORE)), &error);
  g_assert_null (reply);
  bus_assert_error (error, "InvalidArgument");
}

/* A stream has them in lines of their own, an answer as a whole among its results. */
static void
test_logprobs (Fixture      *fixture,
               gconstpointer data)
{
  static const char options[] =
    "{'max-tokens': <uint32 6>, 'temperature': <0.0>, 'logprobs': <uint32 3>}";
  g_autofree char *path = bus_open (fixture->app, "asked");
  g_autofree char *streamed = bus_open (fixture->app, "streamed");
  g_autoptr(GVariant) results = NULL;
  g_autofree char *text = bus_ask (fixture->app, path, QUESTION, bus_options (options), &results);
  g_autofree char *logprobs = bus_lookup_s (results, "logprobs");
  g_autoptr(GString) lines = NULL;
  g_autoptr(GString) items = g_string_new (NULL);
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  g_autofree char *generation = NULL;
  g_autofree char *array = NULL;
  g_autoptr(JsonNode) asked = NULL;
  g_autoptr(JsonNode) told = NULL;
  g_autoptr(GError) error = NULL;
  LlmsvcLine line;
  guint n_lines = 0;
  int fd;

  generation =
    bus_generate (fixture->app, streamed, QUESTION, bus_options (options), &fd, &error);
  g_assert_no_error (error);
  lines = bus_read_all (fd);
  g_assert_true (llmsvc_line_reader_push (reader, lines->str, lines->len, &error));
  while (llmsvc_line_reader_next (reader, &line, &error))
    {
      if (line.kind == LLMSVC_LINE_LOGPROBS)
        {
          g_string_append_printf (items, "%s%s", n_lines++ > 0 ? "," : "", line.text);
        }
      if (line.kind == LLMSVC_LINE_DONE)
        g_assert_false (g_variant_lookup (line.results, "logprobs", "s", NULL));
      llmsvc_line_clear (&line);
    }
  g_assert_no_error (error);
  g_assert_cmpuint (n_lines, >, 1);
  array = g_strdup_printf ("[%s]", items->str);
  asked = json_from_string (logprobs, &error);
  g_assert_no_error (error);
  told = json_from_string (array, &error);
  g_assert_no_error (error);
  g_assert_true (json_node_equal (asked, told));
  g_assert_cmpuint (json_array_get_length (json_node_get_array (told)), ==,
                    bus_lookup_u (results, "output-tokens"));

  g_assert_null (bus_generate (
    fixture->app, streamed, QUESTION,
    bus_options ("{'logprobs': <uint32 1>, 'stream': <'text'>}"), &fd, &error));
  bus_assert_error (error, "InvalidOption");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/bus/continue/pieces", Fixture, NULL, set_up, test_pieces, tear_down);
  g_test_add ("/bus/continue/logprobs", Fixture, NULL, set_up, test_logprobs, tear_down);
  return g_test_run ();
}
