/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers of a context: begun, or waited for as a whole. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-context-private.h"

#include <glib-unix.h>
#include <glib/gi18n-lib.h>
#include <unistd.h>

#include "context/llmsvc-generation-private.h"
#include "llmsvc-error.h"
#include "values/llmsvc-message-private.h"
#include "values/llmsvc-options-private.h"

#define KEY_REQUEST_ID "request-id"
#define KEY_STREAM "stream"

typedef struct
{
  char *request_id;
  gboolean is_standalone;
} Beginning;

static void
beginning_free (gpointer data)
{
  Beginning *beginning = data;

  g_free (beginning->request_id);
  g_free (beginning);
}

/* --- beginning --- */

/* The pipe of the reply, -1 with @error set when there is none. */
static int
take_pipe (LlmsvcReply  *reply,
           int           handle,
           GError      **error)
{
  int fd;

  if (reply->fds == NULL || handle < 0 || handle >= g_unix_fd_list_get_length (reply->fds))
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                           _("The service has sent no pipe with its answer"));
      return -1;
    }

  fd = g_unix_fd_list_get (reply->fds, handle, error);
  if (fd >= 0 && !g_unix_set_fd_nonblocking (fd, TRUE, error))
    {
      close (fd);
      return -1;
    }
  return fd;
}

static void
on_generating (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GTask) task = data;
  Beginning *beginning = g_task_get_task_data (task);
  g_autoptr(LlmsvcReply) reply = NULL;
  LlmsvcReaderSetup setup = { .request_id = beginning->request_id,
                              .is_standalone = beginning->is_standalone };
  GError *error = NULL;
  gint32 handle;
  int fd;

  reply = llmsvc_turn_call_finish (result, &setup.before, &error);
  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  g_variant_get (reply->body, "(&oh)", &setup.path, &handle);
  fd = take_pipe (reply, handle, &error);
  if (fd < 0)
    llmsvc_task_fail (task, error);
  else
    g_task_return_pointer (task,
                           llmsvc_reader_new (g_task_get_source_object (task), fd, &setup),
                           g_object_unref);
}

void
llmsvc_context_begin_async (LlmsvcContext       *self,
                            GVariant            *messages,
                            GVariantDict        *options,
                            gboolean             is_standalone,
                            GCancellable        *cancellable,
                            GAsyncReadyCallback  callback,
                            gpointer             user_data)
{
  GTask *task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_begin_async);
  Beginning *beginning = g_new0 (Beginning, 1);

  if (!g_variant_dict_lookup (options, KEY_REQUEST_ID, "s", &beginning->request_id))
    {
      beginning->request_id = g_uuid_string_random ();
      g_variant_dict_insert (options, KEY_REQUEST_ID, "s", beginning->request_id);
    }
  /* the reader reads lines, whatever the app thinks of */
  g_variant_dict_insert (options, KEY_STREAM, "s", "jsonl");

  beginning->is_standalone = is_standalone;
  g_task_set_task_data (task, beginning, beginning_free);
  llmsvc_turn_call_async (self, "Generate", "(oh)",
                          g_variant_new ("(@a(ssa{sv})@a{sv})", messages,
                                         g_variant_dict_end (options)),
                          cancellable, on_generating, task);
}

LlmsvcReader *
llmsvc_context_begin_finish (GAsyncResult  *result,
                             GError       **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

static void
on_begun (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReader) reader = NULL;
  GError *error = NULL;

  reader = llmsvc_context_begin_finish (result, &error);
  if (reader == NULL)
    g_task_return_error (task, error);
  else
    g_task_return_pointer (task, llmsvc_generation_new (reader), g_object_unref);
}

static void
on_asked (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReader) reader = NULL;
  GError *error = NULL;

  reader = llmsvc_context_begin_finish (result, &error);
  if (reader == NULL)
    g_task_return_error (task, error);
  else
    llmsvc_reader_drain (reader, task);
}

/* @on_ready: makes what @callback is for of the reader. */
static void
begin (LlmsvcContext        *self,
       LlmsvcMessage       **messages,
       gsize                 n_messages,
       LlmsvcOptions        *options,
       GAsyncReadyCallback   on_ready,
       GCancellable         *cancellable,
       GAsyncReadyCallback   callback,
       gpointer              user_data)
{
  g_autoptr(GTask) task = llmsvc_task_new (self, cancellable, callback, user_data, begin);
  g_autoptr(GVariantDict) dict = NULL;
  GVariant *variant;
  GError *error = NULL;

  dict = llmsvc_options_begin (options, &error);
  variant = dict != NULL ? llmsvc_messages_to_variant (messages, n_messages, &error) : NULL;
  if (variant == NULL)
    g_task_return_error (task, error);
  else
    llmsvc_context_begin_async (self, variant, dict, FALSE, cancellable, on_ready,
                                g_object_ref (task));
}

/**
 * llmsvc_context_generate_async:
 * @self: a context
 * @messages: (array length=n_messages): what to add before answering
 * @n_messages: how many there are
 * @options: (nullable): options
 * @cancellable: (nullable): to stop the answer before it has begun
 * @callback: (scope async): called when the service has taken the call or refused it
 * @user_data: for @callback
 *
 * Begins an answer to @messages, which may be none when the context's last message waits for
 * one. The service loads the model first if it has to.
 *
 * Since: 0.1
 */
void
llmsvc_context_generate_async (LlmsvcContext        *self,
                               LlmsvcMessage       **messages,
                               gsize                 n_messages,
                               LlmsvcOptions        *options,
                               GCancellable         *cancellable,
                               GAsyncReadyCallback   callback,
                               gpointer              user_data)
{
  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);
  g_return_if_fail (messages != NULL || n_messages == 0);

  begin (self, messages, n_messages, options, on_begun, cancellable, callback, user_data);
}

/**
 * llmsvc_context_generate_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, such as %LLMSVC_ERROR_CONTEXT_BUSY,
 *   %LLMSVC_ERROR_CONTEXT_FULL, %LLMSVC_ERROR_CONFLICT, %LLMSVC_ERROR_OVERLOADED,
 *   %LLMSVC_ERROR_NO_MODEL or %LLMSVC_ERROR_LOST
 *
 * Ends llmsvc_context_generate_async().
 *
 * Returns: (transfer full): the answer under way
 *
 * Since: 0.1
 */
LlmsvcGeneration *
llmsvc_context_generate_finish (LlmsvcContext  *self,
                                GAsyncResult   *result,
                                GError        **error)
{
  return llmsvc_task_finish (self, result, error);
}

/**
 * llmsvc_context_prompt_async:
 * @self: a context
 * @prompt: what the user says
 * @options: (nullable): options
 * @cancellable: (nullable): to stop the answer before it has begun
 * @callback: (scope async): called when the service has taken the call or refused it
 * @user_data: for @callback
 *
 * Begins an answer to one message of the user, as llmsvc_context_generate_async() does.
 *
 * Since: 0.1
 */
void
llmsvc_context_prompt_async (LlmsvcContext       *self,
                             const char          *prompt,
                             LlmsvcOptions       *options,
                             GCancellable        *cancellable,
                             GAsyncReadyCallback  callback,
                             gpointer             user_data)
{
  g_autoptr(LlmsvcMessage) message = NULL;

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);
  g_return_if_fail (prompt != NULL);

  message = llmsvc_message_new (LLMSVC_ROLE_USER, prompt);
  begin (self, &message, 1, options, on_begun, cancellable, callback, user_data);
}

/**
 * llmsvc_context_prompt_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, as of llmsvc_context_generate_finish()
 *
 * Ends llmsvc_context_prompt_async().
 *
 * Returns: (transfer full): the answer under way
 *
 * Since: 0.1
 */
LlmsvcGeneration *
llmsvc_context_prompt_finish (LlmsvcContext  *self,
                              GAsyncResult   *result,
                              GError        **error)
{
  return llmsvc_context_generate_finish (self, result, error);
}

/* --- the whole answer --- */

/**
 * llmsvc_context_ask_async:
 * @self: a context
 * @prompt: what the user says
 * @options: (nullable): options
 * @cancellable: (nullable): to stop the answer
 * @callback: (scope async): called when the answer is whole or has failed
 * @user_data: for @callback
 *
 * Asks, and waits for the whole answer, however long it takes. Cancelling stops it at the
 * service.
 *
 * Since: 0.1
 */
void
llmsvc_context_ask_async (LlmsvcContext       *self,
                          const char          *prompt,
                          LlmsvcOptions       *options,
                          GCancellable        *cancellable,
                          GAsyncReadyCallback  callback,
                          gpointer             user_data)
{
  g_autoptr(LlmsvcMessage) message = NULL;

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);
  g_return_if_fail (prompt != NULL);

  message = llmsvc_message_new (LLMSVC_ROLE_USER, prompt);
  begin (self, &message, 1, options, on_asked, cancellable, callback, user_data);
}

/**
 * llmsvc_context_ask_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, as of
 *   llmsvc_context_generate_finish() and llmsvc_generation_next_finish()
 *
 * Ends llmsvc_context_ask_async().
 *
 * Returns: (transfer full): the answer
 *
 * Since: 0.1
 */
LlmsvcAnswer *
llmsvc_context_ask_finish (LlmsvcContext  *self,
                           GAsyncResult   *result,
                           GError        **error)
{
  return llmsvc_task_finish (self, result, error);
}
