/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "client-rig.h"

#define WAIT_MAX_US (60 * G_USEC_PER_SEC)
#define WAIT_STEP_US 1000

/* The result that was waited for last. */
static GAsyncResult *last;

static void
let_go (void)
{
  g_clear_object (&last);
}

void
rig_on_ready (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  GAsyncResult **place = data;

  g_assert_null (*place);
  *place = g_object_ref (result);
}

GAsyncResult *
rig_wait (GAsyncResult **result)
{
  let_go ();
  while (*result == NULL)
    g_main_context_iteration (NULL, TRUE);
  last = g_steal_pointer (result);
  return last;
}

void
rig_wait_until (RigCondition is_so,
                gpointer     data)
{
  gint64 end_us = g_get_monotonic_time () + WAIT_MAX_US;

  let_go ();
  while (!is_so (data))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, end_us);
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_usleep (WAIT_STEP_US);
    }
}

static void
on_pong (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(GVariant) reply = NULL;

  reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);
  *(gboolean *) data = TRUE;
}

void
rig_settle (ClientRig *self)
{
  gboolean is_answered = FALSE;

  let_go ();
  g_dbus_connection_call (self->connection, "org.llm.Service", "/org/llm/Service",
                          "org.freedesktop.DBus.Peer", "Ping", NULL, NULL,
                          G_DBUS_CALL_FLAGS_NO_AUTO_START, -1, NULL, on_pong, &is_answered);
  while (!is_answered)
    g_main_context_iteration (NULL, TRUE);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

ClientRig *
rig_new (const LlmTestDaemonSetup *setup)
{
  ClientRig *self = g_new0 (ClientRig, 1);

  self->daemon = llm_test_daemon_new (setup);
  self->connection = llm_test_daemon_connect (self->daemon);
  self->client = rig_new_client (self->connection, "org.example.Test");
  return self;
}

static gboolean
is_null (gpointer data)
{
  return *(gpointer *) data == NULL;
}

/* Nothing may hold the client but calls under way, and those come to an end. */
void
rig_free (ClientRig *self)
{
  gpointer client = self->client;

  let_go ();
  g_object_add_weak_pointer (G_OBJECT (self->client), &client);
  g_object_unref (self->client);
  rig_wait_until (is_null, &client);
  g_dbus_connection_close_sync (self->connection, NULL, NULL);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_object_unref (self->connection);
  llm_test_daemon_free (self->daemon);
  g_free (self);
}

LlmsvcClient *
rig_new_client (GDBusConnection *connection,
                const char      *app_id)
{
  GAsyncResult *result = NULL;
  g_autoptr(GError) error = NULL;
  LlmsvcClient *client;

  llmsvc_client_new_for_connection_async (connection, app_id, NULL, rig_on_ready, &result);
  client = llmsvc_client_new_for_connection_finish (rig_wait (&result), &error);
  g_assert_no_error (error);
  let_go ();
  return client;
}

LlmsvcContext *
rig_create (LlmsvcClient   *client,
            LlmsvcOptions  *options,
            GError        **error)
{
  GAsyncResult *result = NULL;
  LlmsvcContext *context;

  llmsvc_client_create_context_async (client, options, NULL, rig_on_ready, &result);
  context = llmsvc_client_create_context_finish (client, rig_wait (&result), error);
  let_go ();
  return context;
}

LlmsvcContext *
rig_open (LlmsvcClient   *client,
          const char     *name,
          LlmsvcOptions  *options,
          GError        **error)
{
  GAsyncResult *result = NULL;
  LlmsvcContext *context;

  llmsvc_client_open_context_async (client, name, options, NULL, rig_on_ready, &result);
  context = llmsvc_client_open_context_finish (client, rig_wait (&result), error);
  let_go ();
  return context;
}

LlmsvcContext *
rig_open_new (LlmsvcClient *client,
              const char   *name)
{
  g_autoptr(LlmsvcOptions) options = g_object_new (LLMSVC_TYPE_OPTIONS, "create", TRUE, NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcContext *context = rig_open (client, name, options, &error);

  g_assert_no_error (error);
  return context;
}

LlmsvcGeneration *
rig_prompt (LlmsvcContext  *context,
            const char     *prompt,
            LlmsvcOptions  *options,
            GError        **error)
{
  GAsyncResult *result = NULL;
  LlmsvcGeneration *generation;

  llmsvc_context_prompt_async (context, prompt, options, NULL, rig_on_ready, &result);
  generation = llmsvc_context_prompt_finish (context, rig_wait (&result), error);
  let_go ();
  return generation;
}

LlmsvcAnswer *
rig_ask (LlmsvcContext  *context,
         const char     *prompt,
         LlmsvcOptions  *options,
         GError        **error)
{
  GAsyncResult *result = NULL;
  LlmsvcAnswer *answer;

  llmsvc_context_ask_async (context, prompt, options, NULL, rig_on_ready, &result);
  answer = llmsvc_context_ask_finish (context, rig_wait (&result), error);
  let_go ();
  return answer;
}

LlmsvcAnswer *
rig_complete (LlmsvcClient   *client,
              const char     *prompt,
              LlmsvcOptions  *options,
              GCancellable   *cancellable,
              GError        **error)
{
  GAsyncResult *result = NULL;
  LlmsvcAnswer *answer;

  llmsvc_client_complete_async (client, prompt, options, cancellable, rig_on_ready, &result);
  answer = llmsvc_client_complete_finish (client, rig_wait (&result), error);
  let_go ();
  return answer;
}

char *
rig_next (LlmsvcGeneration  *generation,
          GCancellable      *cancellable,
          GError           **error)
{
  GAsyncResult *result = NULL;
  char *piece;

  llmsvc_generation_next_async (generation, cancellable, rig_on_ready, &result);
  piece = llmsvc_generation_next_finish (generation, rig_wait (&result), error);
  let_go ();
  return piece;
}

LlmsvcAnswer *
rig_finish (LlmsvcGeneration  *generation,
            GError           **error)
{
  GAsyncResult *result = NULL;
  LlmsvcAnswer *answer;

  llmsvc_generation_finish_async (generation, NULL, rig_on_ready, &result);
  answer = llmsvc_generation_finish_finish (generation, rig_wait (&result), error);
  let_go ();
  return answer;
}

GPtrArray *
rig_list_messages (LlmsvcContext *context)
{
  GAsyncResult *result = NULL;
  g_autoptr(GError) error = NULL;
  GPtrArray *messages;

  llmsvc_context_list_messages_async (context, NULL, rig_on_ready, &result);
  messages = llmsvc_context_list_messages_finish (context, rig_wait (&result), &error);
  g_assert_no_error (error);
  let_go ();
  return messages;
}

gboolean
rig_refresh (LlmsvcClient  *client,
             GError       **error)
{
  GAsyncResult *result = NULL;
  gboolean is_done;

  llmsvc_client_refresh_async (client, NULL, rig_on_ready, &result);
  is_done = llmsvc_client_refresh_finish (client, rig_wait (&result), error);
  let_go ();
  return is_done;
}

void
rig_refresh_context (LlmsvcContext *context)
{
  GAsyncResult *result = NULL;
  g_autoptr(GError) error = NULL;

  llmsvc_context_refresh_async (context, NULL, rig_on_ready, &result);
  llmsvc_context_refresh_finish (context, rig_wait (&result), &error);
  g_assert_no_error (error);
  let_go ();
}

LlmsvcContextMemory *
rig_get_memory (LlmsvcContext  *context,
                GError        **error)
{
  GAsyncResult *result = NULL;
  LlmsvcContextMemory *memory;

  llmsvc_context_get_memory_async (context, NULL, rig_on_ready, &result);
  memory = llmsvc_context_get_memory_finish (context, rig_wait (&result), error);
  let_go ();
  return memory;
}

void
rig_close (LlmsvcContext *context)
{
  GAsyncResult *result = NULL;
  g_autoptr(GError) error = NULL;

  llmsvc_context_close_async (context, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_context_close_finish (context, rig_wait (&result), &error));
  g_assert_no_error (error);
  let_go ();
}

guint
rig_count_contexts (ClientRig *self)
{
  GAsyncResult *result = NULL;
  g_autoptr(GPtrArray) contexts = NULL;
  g_autoptr(GError) error = NULL;
  guint n;

  llmsvc_client_list_contexts_async (self->client, NULL, rig_on_ready, &result);
  contexts = llmsvc_client_list_contexts_finish (self->client, rig_wait (&result), &error);
  g_assert_no_error (error);
  n = contexts->len;
  let_go ();
  return n;
}

typedef struct
{
  ClientRig *rig;
  guint n;
} Count;

static gboolean
has_n_contexts (gpointer data)
{
  Count *count = data;

  return rig_count_contexts (count->rig) == count->n;
}

void
rig_wait_n_contexts (ClientRig *self,
                     guint      n)
{
  Count count = { self, n };

  rig_wait_until (has_n_contexts, &count);
}
