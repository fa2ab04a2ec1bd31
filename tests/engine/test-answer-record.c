/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the journal is told of answers: figures, and nothing of what was said. The journal is a
 * socket of the test. */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "engine/engine-rig.h"
#include "engine/llm-engine-private.h"

/* Nobody else would write these words. */
#define SECRET      "Zanzibarine"
#define SECRET_NAME "quuxnotes"

static int
open_journal (Fixture *fixture)
{
  g_autofree char *path = g_build_filename (fixture->state, "journal", NULL);
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  int fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  g_assert_cmpuint (strlen (path), <, sizeof address.sun_path);
  strcpy (address.sun_path, path);
  g_assert_cmpint (bind (fd, (struct sockaddr *) &address, sizeof address), ==, 0);
  g_clear_pointer (&fixture->engine->journal, llm_journal_free);
  fixture->engine->journal = llm_journal_new (path);
  return fd;
}

/* (transfer full): the one record that is there, {field: value}. */
static GHashTable *
receive (int fd)
{
  GHashTable *fields = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_auto(GStrv) lines = NULL;
  char buffer[16384];
  gssize n = recv (fd, buffer, sizeof buffer - 1, 0);

  g_assert_cmpint (n, >, 0);
  g_assert_cmpint (recv (fd, buffer + n, 1, 0), ==, -1);
  g_assert_cmpint (errno, ==, EAGAIN);
  buffer[n] = '\0';

  /* whatever was said and however it is called is in none of it */
  g_assert_null (strstr (buffer, SECRET));
  g_assert_null (strstr (buffer, SECRET_NAME));

  lines = g_strsplit (buffer, "\n", -1);
  for (gsize i = 0; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      char *equals = strchr (lines[i], '=');

      g_assert_nonnull (equals);
      g_hash_table_insert (fields, g_strndup (lines[i], (gsize) (equals - lines[i])),
                           g_strdup (equals + 1));
    }
  return fields;
}

#define assert_field(fields, name, value) \
  g_assert_cmpstr (g_hash_table_lookup (fields, name), ==, value)

static guint64
get_number (GHashTable *fields,
            const char *name)
{
  const char *text = g_hash_table_lookup (fields, name);
  guint64 number;

  g_assert_nonnull (text);
  g_assert_true (g_ascii_string_to_unsigned (text, 10, 0, G_MAXUINT32, &number, NULL));
  return number;
}

/* A time, in the decimals of no language. */
static double
get_ms (GHashTable *fields,
        const char *name)
{
  const char *text = g_hash_table_lookup (fields, name);
  char *end;
  double ms;

  g_assert_nonnull (text);
  ms = g_ascii_strtod (text, &end);
  g_assert_cmpstr (end, ==, "");
  g_assert_cmpfloat (ms, >=, 0);
  return ms;
}

static void
test_answer (Fixture      *fixture,
             gconstpointer data)
{
  int fd = open_journal (fixture);
  g_autoptr(LlmContext) context =
      create (fixture, "{'name': <'" SECRET_NAME "'>, 'system': <'You know " SECRET "'>}");
  Answer *answer = begin_ask (fixture, context, "Tell me of " SECRET,
                              "{'temperature': <0.0>, 'max-tokens': <uint32 8>,"
                              " 'slo': <'interactive'>, 'ttft-ms': <uint32 600000>,"
                              " 'tpot-ms': <uint32 60000>}");
  g_autoptr(GHashTable) fields = NULL;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  fields = receive (fd);
  assert_field (fields, "PRIORITY", "6");
  assert_field (fields, "SYSLOG_IDENTIFIER", "llmsvcd");
  assert_field (fields, "LLM_APP", "org.example.App");
  assert_field (fields, "LLM_APP_KIND", "host");
  assert_field (fields, "LLM_UID", "1000");
  assert_field (fields, "LLM_CONTEXT", context->id);
  assert_field (fields, "LLM_MODEL", result_string (answer, "model"));
  assert_field (fields, "LLM_SLO", "interactive");
  assert_field (fields, "LLM_SLO_TTFT_MS", "600000.0");
  assert_field (fields, "LLM_SLO_MET", "yes");
  assert_field (fields, "LLM_END", result_string (answer, "finish-reason"));
  assert_field (fields, "LLM_ERROR", NULL);
  g_assert_cmpuint (get_number (fields, "LLM_PROMPT_TOKENS"), ==,
                    result_uint (answer, "prompt-tokens"));
  g_assert_cmpuint (get_number (fields, "LLM_REUSED_TOKENS"), ==,
                    result_uint (answer, "cached-tokens"));
  g_assert_cmpuint (get_number (fields, "LLM_OUTPUT_TOKENS"), ==,
                    result_uint (answer, "output-tokens"));
  g_assert_cmpfloat (get_ms (fields, "LLM_KV_BITS"), ==, 16);
  g_assert_cmpfloat (get_ms (fields, "LLM_TTFT_MS"), <=, get_ms (fields, "LLM_TOTAL_MS") + 0.1);
  g_assert_cmpfloat (get_ms (fields, "LLM_QUEUE_MS"), <=, get_ms (fields, "LLM_TTFT_MS") + 0.1);
  get_ms (fields, "LLM_TPOT_MS");
  answer_free (answer);
  close (fd);
}

static void
test_cancelled (Fixture      *fixture,
                gconstpointer data)
{
  int fd = open_journal (fixture);
  Answer *answer = begin_complete (fixture, SECRET " and so on",
                                   "{'temperature': <0.0>, 'max-tokens': <uint32 900>}");
  g_autoptr(GHashTable) fields = NULL;

  llm_engine_caller_gone (fixture->engine, fixture->caller->connection);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);
  fields = receive (fd);
  assert_field (fields, "LLM_END", "cancelled");
  assert_field (fields, "LLM_ERROR", "Cancelled");
  assert_field (fields, "LLM_CONTEXT", NULL);
  answer_free (answer);
  close (fd);
}

/* Refused before anything was computed: there are no figures, and none are made up. */
static void
test_refused (Fixture      *fixture,
              gconstpointer data)
{
  int fd = open_journal (fixture);
  g_autoptr(GString) prompt = g_string_new (NULL);
  g_autoptr(GHashTable) fields = NULL;
  Answer *answer;

  for (guint i = 0; i < 2000; i++)
    g_string_append (prompt, SECRET " ");
  answer = begin_complete (fixture, prompt->str, GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
  fields = receive (fd);
  assert_field (fields, "LLM_END", "refused");
  assert_field (fields, "LLM_ERROR", "ContextFull");
  assert_field (fields, "LLM_TTFT_MS", NULL);
  assert_field (fields, "LLM_OUTPUT_TOKENS", NULL);
  assert_field (fields, "LLM_SLO_MET", NULL);
  answer_free (answer);
  close (fd);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) \
  g_test_add ("/engine/answer-record/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("answer", test_answer);
  ADD ("cancelled", test_cancelled);
  ADD ("refused", test_refused);

  return g_test_run ();
}
