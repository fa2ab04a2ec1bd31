/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How llmctl shows where contexts are kept: a service that says what a test wants, nonsense too. */

#define G_LOG_DOMAIN "test-context-memory"

#include <gio/gio.h>
#include <string.h>

#include "../libllmsvc/fake-service.h"

#define LIST_OF_ONE \
  "([(objectpath '/org/llm/Service/contexts/c1', {'Name': <'notes'>, 'Tokens': <uint32 5>, " \
  "'Revision': <uint64 1>, 'Residency': <'memory'>})],)"

/* Every width in every place. */
#define SAMPLE \
  "({'residency': <'storage'>, 'chunk-tokens': <uint32 16>, 'tokens': <uint32 170>, " \
  "'bits': <[byte 8, 4, 2, 8, 4, 2, 0, 8, 16, 16, 32]>, 'places': <'bbbssstmmsm'>, " \
  "'shared-chunks': <uint32 2>, 'memory-bytes': <uint64 4096>, " \
  "'memory-bytes-by-bits': <{uint32 8: uint64 2048, 4: 1024, 2: 1024}>, " \
  "'storage-bytes': <uint64 8192>, 'storage-bytes-by-bits': <{uint32 8: uint64 3072}>, " \
  "'of-tomorrow': <7>},)"

static const char *llmctl;

typedef struct
{
  FakeService *service;
} Fixture;

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->service = fake_service_new ();
  fake_service_set_reply (fixture->service, "ListContexts", LIST_OF_ONE);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  fake_service_free (fixture->service);
}

/* (transfer full): what `llmctl context @command …` writes, with plain spaces; it must end
 * well. */
static char *
run (const char *locale,
     const char *command,
     const char *argument,
     const char *flag)
{
  g_autoptr(GSubprocessLauncher) launcher =
    g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE);
  const char *const arguments[] = { llmctl, "context", command,
                                    argument != NULL ? argument : flag,
                                    argument != NULL ? flag : NULL, NULL };
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *output = NULL;
  g_auto(GStrv) parts = NULL;

  g_subprocess_launcher_setenv (launcher, "LC_ALL", locale, TRUE);
  process = g_subprocess_launcher_spawnv (launcher, arguments, &error);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, &output, NULL, &error));
  g_assert_no_error (error);
  g_test_message ("%s", output);
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 0);
  g_assert_true (g_str_equal (locale, "C.UTF-8") || g_str_is_ascii (output));
  parts = g_strsplit (output, "\302\240", -1);
  return g_strjoinv (" ", parts);
}

static void
test_map (Fixture       *fixture,
          gconstpointer  data)
{
  g_autofree char *text = NULL;
  g_autofree char *ascii = NULL;

  fake_service_set_reply (fixture->service, "GetMemory", SAMPLE);
  text = run ("C.UTF-8", "show", "notes", NULL);
  g_assert_cmpstr (text, ==,
                   "notes: 0 messages, 5 tokens (storage)\n"
                   "        In memory  On storage\n"
                   "8 bits  2.0 KiB    3.0 KiB\n"
                   "4 bits  1.0 KiB    0 bytes\n"
                   "2 bits  1.0 KiB    0 bytes\n"
                   "in all  4.0 KiB    8.0 KiB\n"
                   "11 chunks of 16 tokens\n"
                   "      0 ▓▒░▅▃▁·▓█▇█\n"
                   "        █  32 bits, in memory: 1\n"
                   "        ▇  16 bits, on storage: 1\n"
                   "        █  16 bits, in memory: 1\n"
                   "        ▓  8 bits, in memory and on storage: 1\n"
                   "        ▅  8 bits, on storage: 1\n"
                   "        ▓  8 bits, in memory: 1\n"
                   "        ▒  4 bits, in memory and on storage: 1\n"
                   "        ▃  4 bits, on storage: 1\n"
                   "        ░  2 bits, in memory and on storage: 1\n"
                   "        ▁  2 bits, on storage: 1\n"
                   "        ·  only as text: 1\n"
                   "2 of them are shared with other contexts\n"
                   "\n");

  ascii = run ("C", "show", "notes", NULL);
  g_assert_nonnull (strstr (ascii, "\n      0 842eqt.8FfF\n        F  32 bits, in memory: 1\n"));
}

/* Lines end where the terminal does, at 80 without one. */
static void
test_long (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(GString) bits = g_string_new (NULL);
  g_autofree char *places = g_strnfill (150, 'm');
  g_autofree char *reply = NULL;
  g_autofree char *text = NULL;

  for (guint i = 0; i < 150; i++)
    g_string_append_printf (bits, "%s%u", i > 0 ? "," : "byte ", i < 72 ? 8 : i < 144 ? 4 : 2);
  reply = g_strdup_printf ("({'bits': <[%s]>, 'places': <'%s'>, 'chunk-tokens': <uint32 32>},)",
                           bits->str, places);
  fake_service_set_reply (fixture->service, "GetMemory", reply);
  text = run ("C", "show", "notes", NULL);
  g_assert_nonnull (strstr (text, "\n      0 8888"));
  g_assert_nonnull (strstr (text, "8\n   2304 4444"));
  g_assert_nonnull (strstr (text, "4\n   4608 222222\n"));
}

static void
test_json (Fixture       *fixture,
           gconstpointer  data)
{
  g_autofree char *shown = NULL;
  g_autofree char *listed = NULL;

  fake_service_set_reply (fixture->service, "GetMemory", SAMPLE);
  shown = run ("C.UTF-8", "show", "notes", "--json");
  g_assert_nonnull (strstr (shown, "\"residency\":\"storage\""));
  g_assert_nonnull (strstr (shown, "\"bits\":[8,4,2,8,4,2,0,8,16,16,32],\"places\":\"bbbssstmmsm\","
                                   "\"shared-chunks\":2,\"memory-bytes\":4096,"
                                   "\"memory-bytes-by-bits\":{\"8\":2048,\"4\":1024,\"2\":1024}"));
  g_assert_nonnull (strstr (shown, "\"of-tomorrow\":7"));
  listed = run ("C.UTF-8", "list", NULL, "--json");
  g_assert_nonnull (strstr (listed, "\"memory\":{\"residency\":\"storage\""));
}

static void
test_list (Fixture       *fixture,
           gconstpointer  data)
{
  g_autofree char *text = NULL;
  g_autofree char *old = NULL;

  fake_service_set_reply (fixture->service, "GetMemory", SAMPLE);
  text = run ("C.UTF-8", "list", NULL, NULL);
  g_assert_cmpstr (text, ==, "Name   Revision  Tokens  Where    In memory  On storage\n"
                             "notes  1         5       storage  4.0 KiB    8.0 KiB\n");

  /* a service of an earlier version */
  fake_service_set_error (fixture->service, "GetMemory",
                          "org.freedesktop.DBus.Error.UnknownMethod");
  old = run ("C.UTF-8", "list", NULL, NULL);
  g_assert_nonnull (strstr (old, "notes  1         5       memory  ?          ?\n"));
}

/* What no service should say is shown as far as it goes. */
static void
test_nonsense (Fixture       *fixture,
               gconstpointer  data)
{
  const struct
  {
    const char *reply;
    const char *said;
  } cases[] = {
    { "(@a{sv} {},)", "in all  0 bytes" },
    { "({'bits': <'x'>, 'places': <7>, 'memory-bytes': <'many'>},)", "in all  0 bytes" },
    { "({'bits': <[byte 8, 8, 5, 255]>, 'places': <'mzm'>},)", "\n      0 8???\n" },
    { "({'bits': <[byte 8, 4]>, 'chunk-tokens': <uint32 4294967295>},)", "\n      0 ??\n" },
    { "({'bits': <[byte 0, 8]>, 'places': <'ttttt'>, 'residency': <'\\033[2J'>},)",
      "\n      0 ..\n" },
    { "({'memory-bytes-by-bits': <{'a': 1}>, 'storage-bytes': <uint64 18446744073709551615>},)",
      "16.0 EiB" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = NULL;

      fake_service_set_reply (fixture->service, "GetMemory", cases[i].reply);
      text = run ("C", "show", "notes", NULL);
      g_assert_nonnull (strstr (text, cases[i].said));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  if (argc < 2)
    g_error ("The path of llmctl is missing");
  llmctl = argv[1];
  g_setenv ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", TRUE);

#define ADD(path, function) \
  g_test_add ("/llmctl/context-memory/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("map", test_map);
  ADD ("long", test_long);
  ADD ("json", test_json);
  ADD ("list", test_list);
  ADD ("nonsense", test_nonsense);

  return g_test_run ();
}
