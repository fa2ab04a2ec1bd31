/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A service that answers nonsense: nothing crashes, hangs or grows, and every call says so. */

#include <locale.h>
#include <string.h>

#include "client-rig.h"
#include "fake-service.h"

#define HELLO "{\"t\":\"Hello\"}\n"
#define DONE "{\"done\":{\"finish-reason\":\"stop\",\"revision\":2,\"kept-tokens\":9,\"drafted-tokens\":7,\"accepted-tokens\":5,\"passes\":3,\"sub-model\":40,\"sub-model-quality\":96.5,\"active\":50,\"active-quality\":95.5,\"prompt-level\":64,\"left-out-tokens\":20,\"kv-bits\":3.5,\"prefill\":\"w8a8\",\"shared-quantized\":true}}\n"

typedef struct
{
  FakeService *fake;
  GDBusConnection *connection;
  LlmsvcClient *client;
  LlmsvcContext *context;
} Fixture;

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  g_autoptr(GError) error = NULL;

  fixture->fake = fake_service_new ();
  fixture->connection = fake_service_connect (fixture->fake);
  fixture->client = rig_new_client (fixture->connection, "org.example.Test");
  fixture->context = rig_open (fixture->client, "talk", NULL, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  g_object_unref (fixture->context);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_object_unref (fixture->client);
  g_dbus_connection_close_sync (fixture->connection, NULL, NULL);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_object_unref (fixture->connection);
  fake_service_free (fixture->fake);
}

/* Dispatches what the fake has sent so far. */
static void
settle (Fixture *fixture)
{
  g_autoptr(GError) error = NULL;

  rig_refresh (fixture->client, &error);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

/* --- replies --- */

typedef void (*Caller) (Fixture *fixture,
                        GError **error);

static void
call_create (Fixture *fixture,
             GError **error)
{
  g_assert_null (rig_create (fixture->client, NULL, error));
}

static void
call_open (Fixture *fixture,
           GError **error)
{
  g_assert_null (rig_open (fixture->client, "talk", NULL, error));
}

static void
call_list (Fixture *fixture,
           GError **error)
{
  GAsyncResult *result = NULL;

  llmsvc_client_list_contexts_async (fixture->client, NULL, rig_on_ready, &result);
  g_assert_null (llmsvc_client_list_contexts_finish (fixture->client, rig_wait (&result), error));
}

static void
call_count (Fixture *fixture,
            GError **error)
{
  GAsyncResult *result = NULL;
  guint tokens = 99;

  llmsvc_client_count_tokens_async (fixture->client, NULL, 0, NULL, NULL, rig_on_ready, &result);
  g_assert_false (
    llmsvc_client_count_tokens_finish (fixture->client, rig_wait (&result), &tokens, error));
  g_assert_cmpuint (tokens, ==, 99);
}

static void
call_raw (Fixture *fixture,
          GError **error)
{
  g_autoptr(LlmsvcOptions) raw = g_object_new (LLMSVC_TYPE_OPTIONS, "raw", TRUE, NULL);

  g_assert_null (rig_complete (fixture->client, "x", raw, NULL, error));
}

static void
call_refresh (Fixture *fixture,
              GError **error)
{
  g_assert_false (rig_refresh (fixture->client, error));
}

static void
call_prompt (Fixture *fixture,
             GError **error)
{
  g_assert_null (rig_prompt (fixture->context, "x", NULL, error));
}

static void
call_messages (Fixture *fixture,
               GError **error)
{
  GAsyncResult *result = NULL;

  llmsvc_context_list_messages_async (fixture->context, NULL, rig_on_ready, &result);
  g_assert_null (
    llmsvc_context_list_messages_finish (fixture->context, rig_wait (&result), error));
}

static void
call_memory (Fixture *fixture,
             GError **error)
{
  g_assert_null (rig_get_memory (fixture->context, error));
}

static void
call_append (Fixture *fixture,
             GError **error)
{
  GAsyncResult *result = NULL;

  llmsvc_context_append_async (fixture->context, NULL, 0, NULL, NULL, rig_on_ready, &result);
  g_assert_false (
    llmsvc_context_append_finish (fixture->context, rig_wait (&result), NULL, error));
}

static void
call_rollback (Fixture *fixture,
               GError **error)
{
  GAsyncResult *result = NULL;

  llmsvc_context_rollback_async (fixture->context, 1, NULL, NULL, rig_on_ready, &result);
  g_assert_false (
    llmsvc_context_rollback_finish (fixture->context, rig_wait (&result), error));
}

static void
call_fork (Fixture *fixture,
           GError **error)
{
  GAsyncResult *result = NULL;

  llmsvc_context_fork_async (fixture->context, NULL, NULL, rig_on_ready, &result);
  g_assert_null (llmsvc_context_fork_finish (fixture->context, rig_wait (&result), error));
}

static void
call_close (Fixture *fixture,
            GError **error)
{
  GAsyncResult *result = NULL;

  llmsvc_context_close_async (fixture->context, NULL, rig_on_ready, &result);
  g_assert_false (llmsvc_context_close_finish (fixture->context, rig_wait (&result), error));
}

static const struct
{
  const char *method;
  Caller call;
  const char *body;
} wrong[] = {
  { "CreateContext", call_create, "('/org/llm/Service/contexts/c1',)" },
  { "CreateContext", call_create, "()" },
  { "OpenContext", call_open, "(uint32 1,)" },
  { "ListContexts", call_list, "([('/a', {'Name': <'x'>})],)" },
  { "CountTokens", call_count, "(7,)" },
  { "CountTokens", call_count, "(uint32 7, uint32 8)" },
  { "Complete", call_raw, "('whole',)" },
  { "GetAll", call_refresh, "({'Availability': 'ready'},)" },
  { "GetManagedObjects", call_refresh, "()" },
  { "Generate", call_prompt, "(objectpath '/g', objectpath '/h')" },
  { "GetMessages", call_messages, "([('user', 'x')],)" },
  { "GetMemory", call_memory, "({'bits': 1},)" },
  { "Append", call_append, "()" },
  { "Rollback", call_rollback, "(true,)" },
  { "Fork", call_fork, "('x',)" },
  { "Close", call_close, "('x',)" },
};

static void
test_types (Fixture       *fixture,
            gconstpointer  data)
{
  for (gsize i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr(GError) error = NULL;

      g_test_message ("%s: %s", wrong[i].method, wrong[i].body);
      fake_service_set_reply (fixture->fake, wrong[i].method, wrong[i].body);
      wrong[i].call (fixture, &error);
      rig_assert_error (error, LLMSVC_ERROR_FAILED);
      g_assert_nonnull (strstr (error->message, wrong[i].method));
      fake_service_unset_reply (fixture->fake, wrong[i].method);
    }
}

/* Every error of the bus becomes one of the library's. */
static void
test_errors (Fixture       *fixture,
             gconstpointer  data)
{
  const struct
  {
    const char *name;
    LlmsvcError code;
  } names[] = {
    { "org.llm.Service.Error.ContextFull", LLMSVC_ERROR_CONTEXT_FULL },
    { "org.llm.Service.Error.OfTomorrow", LLMSVC_ERROR_FAILED },
    { "org.example.Weird", LLMSVC_ERROR_FAILED },
    { "org.freedesktop.DBus.Error.AccessDenied", LLMSVC_ERROR_NOT_AUTHORIZED },
    { "org.freedesktop.DBus.Error.UnknownMethod", LLMSVC_ERROR_UNSUPPORTED },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (wrong); j++)
      {
        g_autoptr(GError) error = NULL;

        fake_service_set_error (fixture->fake, wrong[j].method, names[i].name);
        wrong[j].call (fixture, &error);
        rig_assert_error (error, names[i].code);
        g_assert_cmpstr (error->message, ==, "It went wrong");
        fake_service_set_error (fixture->fake, wrong[j].method, NULL);
      }
}

/* A context that the service does not know has ended. */
static void
test_unknown_object (Fixture       *fixture,
                     gconstpointer  data)
{
  g_autoptr(GError) error = NULL;

  fake_service_set_error (fixture->fake, "Append", "org.freedesktop.DBus.Error.UnknownObject");
  call_append (fixture, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_FOUND);
  g_assert_true (llmsvc_context_get_is_closed (fixture->context));
}

/* A service that never answers can be waited for, and left. */
static void
test_silence (Fixture       *fixture,
              gconstpointer  data)
{
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GError) error = NULL;
  GAsyncResult *prompt = NULL, *create = NULL, *complete = NULL, *list = NULL;

  fake_service_set_reply (fixture->fake, "Generate", NULL);
  fake_service_set_reply (fixture->fake, "Get", NULL);
  fake_service_set_reply (fixture->fake, "CreateContext", NULL);
  fake_service_set_reply (fixture->fake, "GetMessages", NULL);
  llmsvc_context_prompt_async (fixture->context, "x", NULL, cancellable, rig_on_ready, &prompt);
  llmsvc_client_create_context_async (fixture->client, NULL, cancellable, rig_on_ready, &create);
  llmsvc_client_complete_async (fixture->client, "x", NULL, cancellable, rig_on_ready, &complete);
  llmsvc_context_list_messages_async (fixture->context, cancellable, rig_on_ready, &list);
  settle (fixture);
  g_cancellable_cancel (cancellable);
  while (prompt == NULL || create == NULL || complete == NULL || list == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (llmsvc_context_prompt_finish (fixture->context, rig_wait (&prompt), &error));
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_null (llmsvc_client_create_context_finish (fixture->client, rig_wait (&create), &error));
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_null (llmsvc_client_complete_finish (fixture->client, rig_wait (&complete), &error));
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_null (llmsvc_context_list_messages_finish (fixture->context, rig_wait (&list), &error));
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
}

/* An answer without one to the question for the revision before it. */
static void
test_no_revision (Fixture       *fixture,
                  gconstpointer  data)
{
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  fake_service_set_reply (fixture->fake, "Get", NULL);
  fake_service_set_pipe (fixture->fake, HELLO DONE, strlen (HELLO DONE));
  answer = rig_ask (fixture->context, "x", NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "Hello");
}

/* --- the pipe --- */

static void
test_pipe (Fixture       *fixture,
           gconstpointer  data)
{
  const struct
  {
    const char *bytes;
    const char *text;  /* NULL for an error */
    LlmsvcError code;
  } pipes[] = {
    { "{\"t\":\"Hello\"}\n" DONE, "Hello", 0 },
    { "{\"t\":\"\"}\n{\"of-tomorrow\":1}\n{\"t\":\"Hello\"}\n" DONE "rubbish", "Hello", 0 },
    { "{\"done\":{\"finish-reason\":5,\"prompt-tokens\":\"x\",\"output-tokens\":-4,"
      "\"ttft-ms\":\"y\",\"revision\":-1,\"ignored\":3,\"slo-met\":\"no\",\"model\":[]}}\n",
      "", 0 },
    { "{\"done\":{\"prompt-tokens\":99999999999,\"revision\":1e300,\"ttft-ms\":-5}}\n", "", 0 },
    { "", NULL, LLMSVC_ERROR_LOST },
    { "{\"t\":\"Hello\"}\n", NULL, LLMSVC_ERROR_LOST },
    { "{\"t\":\"Hello", NULL, LLMSVC_ERROR_LOST },
    { "rubbish\n", NULL, LLMSVC_ERROR_FAILED },
    { "{\"t\":5}\n" DONE, NULL, LLMSVC_ERROR_FAILED },
    { "{\"t\":\"\xff\"}\n" DONE, NULL, LLMSVC_ERROR_FAILED },
    { "{\"done\":\"stop\"}\n", NULL, LLMSVC_ERROR_FAILED },
    { "[]\n" DONE, NULL, LLMSVC_ERROR_FAILED },
    { "\n" DONE, NULL, LLMSVC_ERROR_FAILED },
    { "{\"error\":{\"name\":\"org.llm.Service.Error.Storage\",\"message\":\"m\"}}\n", NULL,
      LLMSVC_ERROR_STORAGE },
    { "{\"error\":{\"name\":\"no name at all\",\"message\":\"m\"}}\n", NULL, LLMSVC_ERROR_FAILED },
    { "{\"error\":{\"name\":\"\",\"message\":\"\"}}\n", NULL, LLMSVC_ERROR_FAILED },
    { "{\"error\":{\"name\":7}}\n", NULL, LLMSVC_ERROR_FAILED },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (pipes); i++)
    {
      g_autoptr(LlmsvcAnswer) answer = NULL;
      g_autoptr(GError) error = NULL;

      g_test_message ("%zu: %s", i, pipes[i].text != NULL ? pipes[i].text : "an error");
      fake_service_set_pipe (fixture->fake, pipes[i].bytes, strlen (pipes[i].bytes));
      answer = rig_ask (fixture->context, "x", NULL, &error);
      if (pipes[i].text == NULL)
        {
          rig_assert_error (error, pipes[i].code);
          continue;
        }
      g_assert_no_error (error);
      g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, pipes[i].text);
      g_assert_cmpuint (llmsvc_answer_get_output_tokens (answer), ==, 0);
      g_assert_cmpuint (llmsvc_answer_get_prompt_tokens (answer), ==, 0);
      g_assert_cmpfloat (llmsvc_answer_get_ttft_ms (answer), ==, 0);
      g_assert_cmpstr (llmsvc_answer_get_model_id (answer), ==, "");
      g_assert_null (llmsvc_answer_get_ignored (answer)[0]);
    }
}

static void
on_progress (LlmsvcGeneration *generation,
             GVariant         *progress,
             gpointer          data)
{
  const char *phase = "?";
  guint64 ahead = 0;

  (void) g_variant_lookup (progress, "phase", "&s", &phase);
  (void) g_variant_lookup (progress, "ahead", "t", &ahead);
  g_string_append_printf (data, "%s %u;", phase, (guint) ahead);
}

static void
on_load_progress (LlmsvcClient *client,
                  guint64       done,
                  guint64       total,
                  gpointer      data)
{
  g_string_append_printf (data, "%u/%u;", (guint) done, (guint) total);
}

/* How far a request is, is told and no part of the text; so is how far loading is, and its end. */
static void
test_progress (Fixture       *fixture,
               gconstpointer  data)
{
  static const char pipe[] =
    "{\"progress\":{\"phase\":\"queued\",\"ahead\":2}}\n{\"progress\":{\"of-tomorrow\":[1]}}\n"
    HELLO DONE;
  static const char *const changes[] = {
    "('org.llm.Service', {'LoadProgress': <(uint64 1, uint64 2)>}, @as [])",
    "('org.llm.Service', {'LoadProgress': <(uint64 0, uint64 0)>}, @as [])",
    "('org.llm.Service', {'LoadProgress': <(uint64 0, uint64 0)>}, @as [])",
    "('org.llm.Service', {'LoadProgress': <'half'>}, @as [])",
  };
  g_autoptr(GString) told = g_string_new (NULL);
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  fake_service_set_pipe (fixture->fake, pipe, strlen (pipe));
  generation = rig_prompt (fixture->context, "x", NULL, &error);
  g_assert_no_error (error);
  g_signal_connect (generation, "progress", G_CALLBACK (on_progress), told);
  answer = rig_finish (generation, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "Hello");
  g_assert_cmpstr (told->str, ==, "queued 2;? 0;");

  g_string_truncate (told, 0);
  g_signal_connect (fixture->client, "load-progress", G_CALLBACK (on_load_progress), told);
  for (gsize i = 0; i < G_N_ELEMENTS (changes); i++)
    fake_service_emit (fixture->fake, "/org/llm/Service", "org.freedesktop.DBus.Properties",
                       "PropertiesChanged", changes[i]);
  settle (fixture);
  g_assert_cmpstr (told->str, ==, "1/2;0/0;");
  g_signal_handlers_disconnect_by_data (fixture->client, told);
}

static void
test_huge_line (Fixture       *fixture,
                gconstpointer  data)
{
  const gsize length = 5 * 1024 * 1024;
  g_autofree char *bytes = g_strnfill (length, 'x');
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  fake_service_set_pipe (fixture->fake, bytes, length);
  answer = rig_ask (fixture->context, "x", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_FAILED);
}

static void
test_no_pipe (Fixture       *fixture,
              gconstpointer  data)
{
  const int handles[] = { 1, -1, G_MAXINT32 };
  g_autoptr(GError) error = NULL;

  call_prompt (fixture, &error);
  rig_assert_error (error, LLMSVC_ERROR_FAILED);
  g_clear_error (&error);

  fake_service_set_pipe (fixture->fake, DONE, strlen (DONE));
  for (gsize i = 0; i < G_N_ELEMENTS (handles); i++)
    {
      g_autofree char *body = g_strdup_printf ("(objectpath '/g', handle %d)", handles[i]);

      fake_service_set_reply (fixture->fake, "Generate", body);
      call_prompt (fixture, &error);
      rig_assert_error (error, LLMSVC_ERROR_FAILED);
      g_clear_error (&error);
    }
}

/* --- where a context is kept --- */

static void
test_memory (Fixture       *fixture,
             gconstpointer  data)
{
  const LlmsvcChunkPlace places[] = {
    LLMSVC_CHUNK_PLACE_MEMORY, LLMSVC_CHUNK_PLACE_STORAGE, LLMSVC_CHUNK_PLACE_BOTH,
    LLMSVC_CHUNK_PLACE_TEXT, LLMSVC_CHUNK_PLACE_UNKNOWN, LLMSVC_CHUNK_PLACE_UNKNOWN,
  };
  const guint bits[] = { 32, 16, 8, 0, 255, 2 };
  g_autoptr(LlmsvcContextMemory) memory = NULL;
  g_autofree char *residency = NULL;
  g_autoptr(GVariant) info = NULL;
  g_autoptr(GError) error = NULL;
  guint64 memory_bytes, storage_bytes;
  guint tokens, chunk_tokens, n_chunks, n_shared;

  fake_service_set_reply (
    fixture->fake, "GetMemory",
    "({'residency': <'storage'>, 'chunk-tokens': <uint32 16>, 'tokens': <uint32 90>, "
    "'bits': <[byte 32, 16, 8, 0, 255, 2]>, 'places': <'msbtx'>, 'shared-chunks': <uint32 3>, "
    "'memory-bytes': <uint64 600>, 'memory-bytes-by-bits': <{uint32 16: uint64 400, 8: 200}>, "
    "'storage-bytes': <uint64 700>, 'storage-bytes-by-bits': <{uint32 8: uint64 500}>},)");
  memory = rig_get_memory (fixture->context, &error);
  g_assert_no_error (error);
  g_object_get (memory, "residency", &residency, "tokens", &tokens, "chunk-tokens", &chunk_tokens,
                "n-chunks", &n_chunks, "n-shared-chunks", &n_shared, "memory-bytes", &memory_bytes,
                "storage-bytes", &storage_bytes, "info", &info, NULL);
  g_assert_cmpstr (residency, ==, "storage");
  g_assert_cmpstr (llmsvc_context_get_residency (fixture->context), ==, "storage");
  g_assert_cmpuint (tokens, ==, 90);
  g_assert_cmpuint (chunk_tokens, ==, 16);
  g_assert_cmpuint (n_chunks, ==, 6);
  g_assert_cmpuint (n_shared, ==, 3);
  g_assert_cmpuint (memory_bytes, ==, 600);
  g_assert_cmpuint (storage_bytes, ==, 700);
  g_assert_true (info == llmsvc_context_memory_get_info (memory));
  for (guint i = 0; i < n_chunks; i++)
    {
      g_assert_cmpuint (llmsvc_context_memory_get_chunk_bits (memory, i), ==, bits[i]);
      g_assert_cmpint (llmsvc_context_memory_get_chunk_place (memory, i), ==, places[i]);
    }
  g_assert_cmpuint (llmsvc_context_memory_get_memory_bytes_at (memory, 16), ==, 400);
  g_assert_cmpuint (llmsvc_context_memory_get_memory_bytes_at (memory, 4), ==, 0);
  g_assert_cmpuint (llmsvc_context_memory_get_storage_bytes_at (memory, 8), ==, 500);
}

/* What has another type is not there. */
static void
test_memory_nonsense (Fixture       *fixture,
                      gconstpointer  data)
{
  const char *const replies[] = {
    "(@a{sv} {},)",
    "({'residency': <7>, 'chunk-tokens': <'many'>, 'tokens': <-1>, 'bits': <'x'>, 'places': <5>, "
    "'shared-chunks': <nan>, 'memory-bytes': <true>, 'memory-bytes-by-bits': <{'a': 1}>, "
    "'storage-bytes': <@a{sv} {}>, 'storage-bytes-by-bits': <[1]>},)",
    "({'bits': <@ay []>, 'places': <'mmmm'>},)",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (replies); i++)
    {
      g_autoptr(LlmsvcContextMemory) memory = NULL;
      g_autoptr(GError) error = NULL;

      fake_service_set_reply (fixture->fake, "GetMemory", replies[i]);
      memory = rig_get_memory (fixture->context, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (llmsvc_context_memory_get_residency (memory), ==, "");
      g_assert_cmpuint (llmsvc_context_memory_get_tokens (memory), ==, 0);
      g_assert_cmpuint (llmsvc_context_memory_get_chunk_tokens (memory), ==, 0);
      g_assert_cmpuint (llmsvc_context_memory_get_n_chunks (memory), ==, 0);
      g_assert_cmpuint (llmsvc_context_memory_get_n_shared_chunks (memory), ==, 0);
      g_assert_cmpuint (llmsvc_context_memory_get_memory_bytes (memory), ==, 0);
      g_assert_cmpuint (llmsvc_context_memory_get_storage_bytes (memory), ==, 0);
      g_assert_cmpuint (llmsvc_context_memory_get_memory_bytes_at (memory, 8), ==, 0);
      g_assert_cmpuint (llmsvc_context_memory_get_storage_bytes_at (memory, 8), ==, 0);
      g_assert_cmpstr (llmsvc_context_get_residency (fixture->context), ==, "memory");
    }
}

/* What the revisions say of an answer that broke off. */
static void
test_revisions (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  fake_service_set_pipe (fixture->fake, "", 0);
  fake_service_set_revision (fixture->fake, 4, 4);
  answer = rig_ask (fixture->context, "x", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_LOST);
  g_clear_error (&error);
  fake_service_set_revision (fixture->fake, 4, 5);
  answer = rig_ask (fixture->context, "x", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_LOST_KEPT);
  g_clear_error (&error);
  fake_service_set_reply (fixture->fake, "Get", "(<'many'>,)");
  answer = rig_ask (fixture->context, "x", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_LOST_UNKNOWN);
}

/* --- signals and properties --- */

static void
test_signals (Fixture       *fixture,
              gconstpointer  data)
{
  const char *const bodies[] = { "()", "(1,)", "('x',)", "('x', {'a': 1}, 2)",
                                 "('org.llm.Service', {'Availability': <7>, 'Features': <'x'>, "
                                 "'ActiveModel': <'x'>, 'ApiVersion': <'2'>}, @as [])",
                                 "(objectpath '/x', @a{sa{sv}} {})", "(objectpath '/x', @as [])" };
  const struct
  {
    const char *path;
    const char *interface;
    const char *signal;
  } signals[] = {
    { "/org/llm/Service", "org.freedesktop.DBus.Properties", "PropertiesChanged" },
    { "/org/llm/Service/models", "org.freedesktop.DBus.ObjectManager", "InterfacesAdded" },
    { "/org/llm/Service/models", "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved" },
    { "/org/llm/Service/contexts/none", "org.llm.Service.Context", "Closed" },
    { "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (signals); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (bodies); j++)
      fake_service_emit (fixture->fake, signals[i].path, signals[i].interface, signals[i].signal,
                         bodies[j]);
  settle (fixture);
  g_assert_cmpint (llmsvc_client_get_availability (fixture->client), ==,
                   LLMSVC_AVAILABILITY_READY);
  g_assert_cmpuint (llmsvc_client_get_api_version (fixture->client), ==, 1);
  g_assert_null (llmsvc_client_get_active_model (fixture->client));
  g_assert_cmpuint (g_list_model_get_n_items (llmsvc_client_get_models (fixture->client)), ==, 0);
  g_assert_false (llmsvc_context_get_is_closed (fixture->context));

  fake_service_set_reply (fixture->fake, "GetAll",
                          "({'Availability': <'of tomorrow'>, 'Tokens': <'x'>},)");
  settle (fixture);
  g_assert_cmpint (llmsvc_client_get_availability (fixture->client), ==,
                   LLMSVC_AVAILABILITY_UNKNOWN);
}

static void
on_items_changed (GListModel *models,
                  guint       position,
                  guint       n_removed,
                  guint       n_added,
                  gpointer    data)
{
  g_string_append_printf (data, "%u-%u+%u ", position, n_removed, n_added);
}

static void
on_notify (GObject    *object,
           GParamSpec *pspec,
           gpointer    data)
{
  g_string_append_printf (data, "%s ", pspec->name);
}

/* Models come, change and go in the same list; the active one is one of them. */
static void
test_models (Fixture       *fixture,
             gconstpointer  data)
{
  const char *const manager = "org.freedesktop.DBus.ObjectManager";
  const char *const root = "/org/llm/Service/models";
  GListModel *models = llmsvc_client_get_models (fixture->client);
  g_autoptr(GString) changes = g_string_new (NULL);
  g_autoptr(GString) notified = g_string_new (NULL);
  g_autoptr(LlmsvcModel) first = NULL;
  g_autoptr(LlmsvcModel) same = NULL;

  g_signal_connect (models, "items-changed", G_CALLBACK (on_items_changed), changes);
  fake_service_emit (fixture->fake, root, manager, "InterfacesAdded",
                     "(objectpath '/org/llm/Service/models/b', {'org.llm.Service.Model': "
                     "{'Id': <'b'>, 'Title': <'B'>, 'Info': <{'context-length': <uint32 512>}>}})");
  fake_service_emit (fixture->fake, root, manager, "InterfacesAdded",
                     "(objectpath '/org/llm/Service/models/a', {'org.llm.Service.Model': "
                     "{'Id': <'a'>, 'Title': <7>, 'Info': <'?'>}})");
  fake_service_emit (fixture->fake, "/org/llm/Service", "org.freedesktop.DBus.Properties",
                     "PropertiesChanged",
                     "('org.llm.Service', {'ActiveModel': <objectpath "
                     "'/org/llm/Service/models/b'>}, @as [])");
  fake_service_set_reply (fixture->fake, "GetManagedObjects",
                          "({objectpath '/org/llm/Service/models/b': {'org.llm.Service.Model': "
                          "{'Id': <'b'>, 'Info': <{'context-length': <uint32 1024>}>}}, "
                          "objectpath '/org/llm/Service/models/c': {'org.llm.Service.Model': "
                          "{'Id': <'c'>}}, objectpath '/org/llm/Service/models/d': "
                          "{'org.example.Other': {'Id': <'d'>}}},)");
  for (guint i = 0; i < 1000 && g_list_model_get_n_items (models) < 2; i++)
    {
      g_usleep (1000);
      while (g_main_context_iteration (NULL, FALSE))
        ;
    }
  g_assert_cmpstr (changes->str, ==, "0-0+1 0-0+1 ");
  first = g_list_model_get_item (models, 1);
  g_assert_cmpstr (llmsvc_model_get_id (first), ==, "b");
  g_assert_cmpstr (llmsvc_model_get_title (first), ==, "B");
  g_assert_cmpuint (llmsvc_model_get_context_length (first), ==, 512);
  g_assert_cmpstr (llmsvc_model_get_license (first), ==, "");

  /* read anew: a goes, b changes and stays the same object, c comes */
  g_signal_connect (first, "notify::context-length", G_CALLBACK (on_notify), notified);
  settle (fixture);
  g_assert_true (llmsvc_client_get_active_model (fixture->client) == first);
  g_assert_cmpuint (g_list_model_get_n_items (models), ==, 2);
  same = g_list_model_get_item (models, 0);
  g_assert_true (same == first);
  g_assert_cmpuint (llmsvc_model_get_context_length (first), ==, 1024);
  g_assert_cmpstr (notified->str, ==, "context-length ");

  g_signal_connect (fixture->client, "notify::active-model", G_CALLBACK (on_notify), notified);
  fake_service_set_reply (fixture->fake, "GetManagedObjects", "(@a{oa{sa{sv}}} {},)");
  settle (fixture);
  g_assert_cmpuint (g_list_model_get_n_items (models), ==, 0);
  g_assert_null (llmsvc_client_get_active_model (fixture->client));
  g_assert_cmpstr (notified->str, ==, "context-length active-model ");
}

/* --- what is sent --- */

static char *
dup_locale_sent (Fixture *fixture)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GVariant) arguments = NULL;
  g_autoptr(GVariant) options = NULL;
  g_autoptr(GError) error = NULL;
  char *locale = NULL;

  context = rig_create (fixture->client, NULL, &error);
  g_assert_no_error (error);
  arguments = fake_service_dup_arguments (fixture->fake, "CreateContext");
  options = g_variant_get_child_value (arguments, 0);
  g_variant_lookup (options, "locale", "s", &locale);
  return locale;
}

static void
test_locale (Fixture       *fixture,
             gconstpointer  data)
{
  g_autofree char *language = NULL;

  g_setenv ("LANGUAGE", "de:en", TRUE);
  g_assert_nonnull (setlocale (LC_ALL, "C"));
  g_assert_null (dup_locale_sent (fixture));
  g_assert_nonnull (setlocale (LC_ALL, "C.UTF-8"));
  language = dup_locale_sent (fixture);
  g_assert_cmpstr (language, ==, "de");
  g_setenv ("LANGUAGE", "", TRUE);
  g_assert_null (dup_locale_sent (fixture));
  g_assert_nonnull (setlocale (LC_ALL, "C"));
}

/* The name of the app and of the request go along; the stream is always one of lines; what
 * is out of range does not go at all. */
static void
test_sent (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(LlmsvcOptions) options =
    g_object_new (LLMSVC_TYPE_OPTIONS, "stream", "text", "max-tokens", 5, NULL);
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GVariant) registered = NULL;
  g_autoptr(GVariant) generated = NULL;
  g_autoptr(GVariant) sent = NULL;
  g_autoptr(LlmsvcOptions) wrong_options =
    g_object_new (LLMSVC_TYPE_OPTIONS, "temperature", 50.0, NULL);
  g_autoptr(GError) error = NULL;
  const char *app_id, *stream, *request_id;
  guint32 max_tokens = 0;

  fake_service_set_pipe (fixture->fake, DONE, strlen (DONE));
  g_assert_null (rig_prompt (fixture->context, "x", wrong_options, &error));
  rig_assert_error (error, LLMSVC_ERROR_INVALID_OPTION);
  g_clear_error (&error);
  g_assert_null (fake_service_dup_arguments (fixture->fake, "Generate"));

  generation = rig_prompt (fixture->context, "x", options, &error);
  g_assert_no_error (error);
  answer = rig_finish (generation, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (llmsvc_answer_get_kept_tokens (answer), ==, 9);
  g_assert_cmpuint (llmsvc_answer_get_drafted_tokens (answer), ==, 7);
  g_assert_cmpuint (llmsvc_answer_get_accepted_tokens (answer), ==, 5);
  g_assert_cmpuint (llmsvc_answer_get_passes (answer), ==, 3);
  g_assert_cmpuint (llmsvc_answer_get_sub_model (answer), ==, 40);
  g_assert_cmpfloat (llmsvc_answer_get_sub_model_quality (answer), ==, 96.5);
  g_assert_cmpuint (llmsvc_answer_get_active (answer), ==, 50);
  g_assert_cmpfloat (llmsvc_answer_get_active_quality (answer), ==, 95.5);
  g_assert_cmpuint (llmsvc_answer_get_prompt_level (answer), ==, 64);
  g_assert_cmpuint (llmsvc_answer_get_left_out_tokens (answer), ==, 20);
  g_assert_cmpfloat (llmsvc_answer_get_kv_bits (answer), ==, 3.5);
  g_assert_cmpstr (llmsvc_answer_get_prefill (answer), ==, "w8a8");
  g_assert_true (llmsvc_answer_get_shared_quantized (answer));
  registered = fake_service_dup_arguments (fixture->fake, "Register");
  g_variant_get_child (registered, 0, "&s", &app_id);
  g_assert_cmpstr (app_id, ==, "org.example.Test");

  generated = fake_service_dup_arguments (fixture->fake, "Generate");
  sent = g_variant_get_child_value (generated, 1);
  g_assert_true (g_variant_lookup (sent, "stream", "&s", &stream));
  g_assert_cmpstr (stream, ==, "jsonl");
  g_assert_true (g_variant_lookup (sent, "request-id", "&s", &request_id));
  g_assert_cmpstr (request_id, ==, llmsvc_generation_get_request_id (generation));
  g_assert_cmpuint (strlen (request_id), ==, 36);
  g_assert_true (g_variant_lookup (sent, "max-tokens", "u", &max_tokens));
  g_assert_cmpuint (max_tokens, ==, 5);
}

static void
test_too_large (Fixture       *fixture,
                gconstpointer  data)
{
  g_autofree char *text = g_strnfill (31 * 1024 * 1024, 'x');
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  answer = rig_ask (fixture->context, text, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_MESSAGE_TOO_LARGE);
  g_clear_error (&error);
  answer = rig_complete (fixture->client, text, NULL, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_MESSAGE_TOO_LARGE);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) \
  g_test_add ("/libllmsvc/nonsense/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("types", test_types);
  ADD ("errors", test_errors);
  ADD ("unknown-object", test_unknown_object);
  ADD ("silence", test_silence);
  ADD ("no-revision", test_no_revision);
  ADD ("pipe", test_pipe);
  ADD ("progress", test_progress);
  ADD ("huge-line", test_huge_line);
  ADD ("no-pipe", test_no_pipe);
  ADD ("revisions", test_revisions);
  ADD ("memory", test_memory);
  ADD ("memory-nonsense", test_memory_nonsense);
  ADD ("signals", test_signals);
  ADD ("models", test_models);
  ADD ("locale", test_locale);
  ADD ("sent", test_sent);
  ADD ("too-large", test_too_large);

  return g_test_run ();
}
