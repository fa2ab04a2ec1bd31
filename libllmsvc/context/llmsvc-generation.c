/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-generation-private.h"

#include "common/llmsvc-names.h"
#include "context/llmsvc-context-private.h"
#include "context/llmsvc-text-stream.h"
#include "llmsvc-error.h"

/**
 * LlmsvcGeneration:
 *
 * One answer under way.
 *
 * It is read in pieces with [method@Llmsvc.Generation.next_async], as a stream of bytes with
 * [method@Llmsvc.Generation.get_input_stream], or to its end with
 * [method@Llmsvc.Generation.finish_async]. Nothing is read ahead: while nobody reads, the
 * service waits, and after a time limit of its own (ten minutes unless configured otherwise) ends
 * the answer as if it had been cancelled.
 *
 * An answer that fails does so with an error of [error@Llmsvc.Error]; every later read gives
 * the same error again. [class@Llmsvc.Context] tells what becomes of an answer when the service
 * goes away.
 *
 * ## Cancelling
 *
 * [method@Llmsvc.Generation.cancel_async] stops the answer and waits until that is settled, so
 * that the context can be used for something else at once. Dropping the last reference before
 * the end of the answer, and closing the stream, stop it without waiting. The turn is then
 * taken out of the context as if it had not been, unless the option `on-cancel` says otherwise.
 *
 * Cancelling the [class@Gio.Cancellable] of a call that waits for the whole answer
 * ([method@Llmsvc.Generation.finish_async], [method@Llmsvc.Context.ask_async],
 * [method@Llmsvc.Client.complete_async]) or for its beginning
 * ([method@Llmsvc.Context.generate_async], [method@Llmsvc.Context.prompt_async]) stops the
 * answer at the service, too. That of [method@Llmsvc.Generation.next_async], or of a read of
 * the stream, stops this one read: nothing is lost, and the next read goes on.
 *
 * Used in the thread of its [class@Llmsvc.Context]; its stream may be read in another one.
 *
 * Since: 0.1
 */
G_DEFINE_FINAL_TYPE (LlmsvcGeneration, llmsvc_generation, G_TYPE_OBJECT)

#include "llmsvc-generation-properties.h"

static void
llmsvc_generation_finalize (GObject *object)
{
  LlmsvcGeneration *self = LLMSVC_GENERATION (object);

  g_clear_object (&self->stream);
  g_clear_object (&self->reader);

  G_OBJECT_CLASS (llmsvc_generation_parent_class)->finalize (object);
}

static void
llmsvc_generation_class_init (LlmsvcGenerationClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llmsvc_generation_finalize;
  install_properties (G_OBJECT_CLASS (klass));

  /**
   * LlmsvcGeneration::reasoning:
   * @self: a generation
   * @text: the next piece of the reasoning, UTF-8
   *
   * The model thinks before it answers, see the option `thinking`. Comes while the answer is
   * being read, before its text, of which it is no part; all of it is in
   * [property@Llmsvc.Answer:reasoning].
   *
   * Since: 0.1
   */
  g_signal_new ("reasoning", LLMSVC_TYPE_GENERATION, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                G_TYPE_NONE, 1, G_TYPE_STRING);
  /**
   * LlmsvcGeneration::tool-call:
   * @self: the generation
   * @call: a JSON object: `id`, and `function` with `name` and `arguments`, a string that holds JSON
   *
   * The answer calls a function, and this call is complete, while others may follow: emitted while
   * the answer is read. [property@Llmsvc.Answer:tool-calls] has all of them in the end. A handler
   * can start the function at once; what it returns goes to the model with the next call.
   *
   * Since: 0.1
   */
  g_signal_new ("tool-call", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                G_TYPE_NONE, 1, G_TYPE_STRING);
  /**
   * LlmsvcGeneration::progress:
   * @self: a generation
   * @progress: an `a{sv}`
   *
   * The first token is awaited: emitted while the answer is read, some times a second, and not at
   * all for an answer that begins at once. `phase` (s) is `queued`, with `waits-for` (s), one
   * of `memory`, `storage` and `turn`, and `ahead` (t), the requests whose prompts are computed
   * before; `restoring`, with `total` (t), the bytes of the context that are read from storage; or
   * `prefill`, with `done` and `total` (t), tokens of the prompt.
   * `forecast-ms` (t) is the time until the first token, where the service can tell. Later versions
   * add phases and keys.
   *
   * Since: 0.1
   */
  g_signal_new ("progress", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                G_TYPE_NONE, 1, G_TYPE_VARIANT);
}


static void
llmsvc_generation_init (LlmsvcGeneration *self)
{
}

LlmsvcGeneration *
llmsvc_generation_new (LlmsvcReader *reader)
{
  LlmsvcGeneration *self = g_object_new (LLMSVC_TYPE_GENERATION, NULL);

  self->reader = g_object_ref (reader);
  g_weak_ref_set (&reader->observer, self);
  return self;
}

/* --- reading --- */

/**
 * llmsvc_generation_next_async:
 * @self: a generation
 * @cancellable: (nullable): to stop this read; the next one goes on where it stopped
 * @callback: (scope async): called with the next piece, at the end, or on failure
 * @user_data: for @callback
 *
 * Reads the next piece of text as soon as there is one. One read at a time, and not together
 * with the stream.
 *
 * Since: 0.1
 */
void
llmsvc_generation_next_async (LlmsvcGeneration    *self,
                              GCancellable        *cancellable,
                              GAsyncReadyCallback  callback,
                              gpointer             user_data)
{
  g_return_if_fail (LLMSVC_IS_GENERATION (self));
  g_return_if_fail (self->reader != NULL);

  llmsvc_reader_next_async (self->reader, self, cancellable, callback, user_data);
}

/**
 * llmsvc_generation_next_finish:
 * @self: a generation
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR: the one with which the answer failed,
 *   %LLMSVC_ERROR_CANCELLED for a cancelled read or answer, %LLMSVC_ERROR_LOST,
 *   %LLMSVC_ERROR_LOST_KEPT or %LLMSVC_ERROR_LOST_UNKNOWN when the service went away
 *
 * Ends llmsvc_generation_next_async().
 *
 * Returns: (transfer full) (nullable): the next piece of text, UTF-8, at least one character
 *   and never part of one; %NULL without @error at the end of the answer
 *
 * Since: 0.1
 */
char *
llmsvc_generation_next_finish (LlmsvcGeneration  *self,
                               GAsyncResult      *result,
                               GError           **error)
{
  return llmsvc_task_finish (self, result, error);
}

/**
 * llmsvc_generation_get_input_stream:
 * @self: a generation
 *
 * Gets the rest of the answer as a stream of bytes: plain text, UTF-8, of which one read may
 * give part of a character. The end of the stream is the end of the answer; an answer that
 * fails gives an error of %LLMSVC_ERROR when it is read. Closing the stream before the end
 * stops the answer. The stream can be kept without the generation, and read in another thread.
 *
 * Returns: (transfer none): the stream, the same one each time
 *
 * Since: 0.1
 */
GInputStream *
llmsvc_generation_get_input_stream (LlmsvcGeneration *self)
{
  g_return_val_if_fail (LLMSVC_IS_GENERATION (self), NULL);
  g_return_val_if_fail (self->reader != NULL, NULL);

  if (self->stream == NULL)
    self->stream = llmsvc_text_stream_new (self->reader);
  return self->stream;
}

/**
 * llmsvc_generation_finish_async:
 * @self: a generation
 * @cancellable: (nullable): to stop the answer
 * @callback: (scope async): called when the answer is whole or has failed
 * @user_data: for @callback
 *
 * Reads to the end. Cancelling stops the answer at the service; it does not wait until that
 * is settled, as llmsvc_generation_cancel_async() does.
 *
 * Since: 0.1
 */
void
llmsvc_generation_finish_async (LlmsvcGeneration    *self,
                                GCancellable        *cancellable,
                                GAsyncReadyCallback  callback,
                                gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;

  g_return_if_fail (LLMSVC_IS_GENERATION (self));
  g_return_if_fail (self->reader != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_generation_finish_async);
  llmsvc_reader_drain (self->reader, task);
}

/**
 * llmsvc_generation_finish_finish:
 * @self: a generation
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, as of
 *   llmsvc_generation_next_finish()
 *
 * Ends llmsvc_generation_finish_async().
 *
 * Returns: (transfer full): the whole answer, with the pieces that were read before
 *
 * Since: 0.1
 */
LlmsvcAnswer *
llmsvc_generation_finish_finish (LlmsvcGeneration  *self,
                                 GAsyncResult      *result,
                                 GError           **error)
{
  return llmsvc_task_finish (self, result, error);
}

/* --- cancelling --- */

/* Without its object the answer has ended long since, and without the service it has, too. */
static void
on_cancelled (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReply) reply = NULL;
  GError *error = NULL;
  gboolean is_gone;

  reply = llmsvc_call_finish (result, &is_gone, &error);
  if (reply != NULL || is_gone || error->code == LLMSVC_ERROR_LOST ||
      error->code == LLMSVC_ERROR_NOT_AVAILABLE)
    {
      g_clear_error (&error);
      g_task_return_boolean (task, TRUE);
      return;
    }
  g_task_return_error (task, error);
}

/**
 * llmsvc_generation_cancel_async:
 * @self: a generation
 * @cancellable: (nullable): to stop waiting; the answer is stopped all the same
 * @callback: (scope async): called when it has stopped
 * @user_data: for @callback
 *
 * Stops the answer, and waits until the turn is settled: whether it stays in the context is
 * what the option `on-cancel` said. Cancelling an answer that has ended changes nothing and is
 * no error. Afterwards what was written can still be read; then reading fails with
 * %LLMSVC_ERROR_CANCELLED, or ends with %LLMSVC_FINISH_REASON_CANCELLED when the turn stays.
 *
 * Since: 0.1
 */
void
llmsvc_generation_cancel_async (LlmsvcGeneration    *self,
                                GCancellable        *cancellable,
                                GAsyncReadyCallback  callback,
                                gpointer             user_data)
{
  GTask *task;
  LlmsvcCallInfo info = {
    .interface = LLMSVC_GENERATION_INTERFACE,
    .method = "Cancel",
    .reply_type = "()",
    .flags = LLMSVC_CALL_NO_START,
  };

  g_return_if_fail (LLMSVC_IS_GENERATION (self));
  g_return_if_fail (self->reader != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_generation_cancel_async);
  if (llmsvc_reader_get_answer (self->reader) != NULL)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
      return;
    }

  info.path = self->reader->path;
  llmsvc_call_async (llmsvc_context_get_peer (self->reader->context), NULL, &info,
                     g_variant_new ("(a{sv})", NULL), cancellable, on_cancelled, task);
}

/**
 * llmsvc_generation_cancel_finish:
 * @self: a generation
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Ends llmsvc_generation_cancel_async().
 *
 * Returns: whether the answer has stopped or had ended; %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_generation_cancel_finish (LlmsvcGeneration  *self,
                                 GAsyncResult      *result,
                                 GError           **error)
{
  g_return_val_if_fail (LLMSVC_IS_GENERATION (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}
