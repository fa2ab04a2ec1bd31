/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reasoning over the bus: in results, in both kinds of streams, in messages, refused. */

#include "bus-rig.h"

#include <string.h>

#include "common/llmsvc-line.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-template.h"

#define PROMPT "Write a long text about Rome."
#define THINK "{'temperature': <0.0>, 'max-tokens': <60>, 'thinking': <20>"

typedef struct
{
  char *folder;
  BusRig *rig;
  GDBusConnection *connection;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  g_autofree char *model = NULL;

  fixture->folder = llm_test_folder_new ();
  model = g_build_filename (fixture->folder, "thinking.gguf", NULL);
  llm_test_template_write_shipped ("thinking", NULL, NULL, model);
  fixture->rig = bus_rig_new (data == NULL ? model : NULL, NULL);
  fixture->connection = bus_rig_connect (fixture->rig);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  g_clear_object (&fixture->connection);
  bus_rig_free (fixture->rig);
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
}

static GVariant *
complete (Fixture    *fixture,
          const char *options,
          GError    **error)
{
  return bus_call (fixture->connection, NULL, "", "Complete",
                   g_variant_new ("(s@a{sv})", PROMPT, bus_options (options)), error);
}

static void
test_results (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = complete (fixture, THINK "}", &error);
  g_autoptr(GVariant) results = NULL;
  g_autofree char *reasoning = NULL;
  const char *text;

  g_assert_no_error (error);
  g_variant_get (reply, "(&s@a{sv})", &text, &results);
  reasoning = bus_lookup_s (results, "reasoning");
  g_assert_cmpstr (reasoning, !=, "");
  g_assert_cmpstr (text, !=, "");
  g_assert_null (strstr (text, "think>"));
  g_assert_cmpuint (bus_lookup_u (results, "reasoning-tokens"), >, 20);
  g_assert_cmpuint (bus_lookup_u (results, "reasoning-tokens"), <,
                    bus_lookup_u (results, "output-tokens"));
}

/* Reasoning in lines of its own, all before the text; a stream of text has the text alone. */
static void
test_streams (Fixture      *fixture,
              gconstpointer data)
{
  g_autofree char *context = bus_create (fixture->connection, bus_options ("{}"));
  g_autofree char *other = bus_create (fixture->connection, bus_options ("{}"));
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GString) reasoning = g_string_new (NULL);
  g_autoptr(GString) bytes = NULL;
  g_autoptr(GString) plain = NULL;
  g_autofree char *generation = NULL;
  g_autofree char *second = NULL;
  g_autofree char *told = NULL;
  LlmsvcLine line;
  int fd;

  generation = bus_generate (fixture->connection, context, PROMPT, bus_options (THINK "}"), &fd,
                             &error);
  g_assert_no_error (error);
  bytes = bus_read_all (fd);
  g_assert_true (llmsvc_line_reader_push (reader, bytes->str, bytes->len, &error));
  while (llmsvc_line_reader_next (reader, &line, &error))
    {
      if (line.kind == LLMSVC_LINE_REASONING)
        g_assert_cmpuint (text->len, ==, 0);
      if (line.kind == LLMSVC_LINE_REASONING || line.kind == LLMSVC_LINE_TEXT)
        g_string_append (line.kind == LLMSVC_LINE_TEXT ? text : reasoning, line.text);
      if (line.kind == LLMSVC_LINE_DONE)
        told = bus_lookup_s (line.results, "reasoning");
      llmsvc_line_clear (&line);
    }
  g_assert_no_error (error);
  g_assert_cmpuint (reasoning->len, >, 0);
  g_assert_cmpuint (text->len, >, 0);
  g_assert_cmpstr (told, ==, reasoning->str);

  second = bus_generate (fixture->connection, other, PROMPT,
                         bus_options (THINK ", 'stream': <'text'>}"), &fd, &error);
  g_assert_no_error (error);
  plain = bus_read_all (fd);
  g_assert_cmpstr (plain->str, ==, text->str);
}

static void
test_messages (Fixture      *fixture,
               gconstpointer data)
{
  g_autofree char *context = bus_create (fixture->connection, bus_options ("{}"));
  g_autoptr(GVariant) results = NULL;
  g_autofree char *text = bus_ask (fixture->connection, context, PROMPT, bus_options (THINK "}"),
                                   &results);
  g_autofree char *reasoning = bus_lookup_s (results, "reasoning");
  g_autoptr(GVariant) reply =
    bus_call_ok (fixture->connection, context, "org.llm.Service.Context", "GetMessages",
                 g_variant_new ("(uu@a{sv})", 0, 10, bus_options ("{}")));
  g_autoptr(GVariant) messages = g_variant_get_child_value (reply, 0);
  g_autoptr(GVariant) extras = NULL;
  g_autofree char *kept = NULL;
  const char *role, *said;

  g_assert_cmpuint (g_variant_n_children (messages), ==, 2);
  g_variant_get_child (messages, 1, "(&s&s@a{sv})", &role, &said, &extras);
  g_assert_cmpstr (said, ==, text);
  kept = bus_lookup_s (extras, "reasoning");
  g_assert_cmpstr (kept, ==, reasoning);
}

static void
test_bad_input (Fixture      *fixture,
                gconstpointer data)
{
  static const char *const options[] = { "{'thinking': <'much'>}", "{'thinking': <-1>}",
                                         "{'thinking': <1.5>}", "{'thinking': <true>}",
                                         "{'thinking': <'99999999999'>}", "{'thinking': <''>}" };

  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autofree char *name = NULL;

      g_assert_null (complete (fixture, options[i], &error));
      name = g_dbus_error_get_remote_error (error);
      g_assert_cmpstr (name, ==, LLMSVC_ERROR_PREFIX "InvalidOption");
      g_assert_nonnull (strstr (error->message, "thinking"));
    }
}

/* The shipped model's template knows no thinking. */
static void
test_unsupported (Fixture      *fixture,
                  gconstpointer data)
{
  static const char *const options[] = { "{'thinking': <'on'>}", "{'thinking': <100>}" };

  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autofree char *name = NULL;

      g_assert_null (complete (fixture, options[i], &error));
      name = g_dbus_error_get_remote_error (error);
      g_assert_cmpstr (name, ==, LLMSVC_ERROR_PREFIX "Unsupported");
      g_assert_nonnull (strstr (error->message, "thinking: the chat template"));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, test) \
  g_test_add ("/bus/thinking/" name, Fixture, NULL, set_up, test, tear_down)
  ADD ("results", test_results);
  ADD ("streams", test_streams);
  ADD ("messages", test_messages);
  ADD ("bad-input", test_bad_input);
  g_test_add ("/bus/thinking/unsupported", Fixture, "shipped", set_up, test_unsupported, tear_down);
  return g_test_run ();
}
