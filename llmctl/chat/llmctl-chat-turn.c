/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One turn of a chat. Ctrl-C and the time limit stop it at the service and wait until
 * it is settled there; Ctrl-C once more does not wait. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-chat.h"

#include <glib/gi18n.h>

#include "llmctl/chat/llmctl-answer.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-wait.h"

/* Stops the answer that @slot waits for the next piece of. Returns why. */
static LlmctlExit
stop_answer (LlmsvcGeneration  *generation,
             GCancellable      *drop,
             GAsyncResult     **slot)
{
  LlmctlExit why = llmctl_wait_get_end ();
  g_autoptr(GAsyncResult) cancelled = NULL;

  llmctl_wait_begin (FALSE);
  llmsvc_generation_cancel_async (generation, drop, llmctl_wait_take, &cancelled);
  if (!llmctl_wait_or_end (slot))
    g_cancellable_cancel (drop);
  llmctl_wait (slot);

  if (!llmctl_wait_or_end (&cancelled))
    g_cancellable_cancel (drop);
  /* Whether it could be stopped is seen from how the answer ends. */
  (void) llmsvc_generation_cancel_finish (generation, llmctl_wait (&cancelled), NULL);
  return why;
}

/* @why: (out): LLMCTL_EXIT_OK or what stopped it. */
static gboolean
copy_pieces (LlmsvcGeneration  *generation,
             LlmctlAnswer      *output,
             LlmctlExit        *why,
             GError           **error)
{
  g_autoptr(GCancellable) drop = g_cancellable_new ();

  for (;;)
    {
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(GError) local_error = NULL;
      g_autofree char *piece = NULL;

      llmsvc_generation_next_async (generation, drop, llmctl_wait_take, &result);
      if (*why == LLMCTL_EXIT_OK && !llmctl_wait_or_end (&result))
        *why = stop_answer (generation, drop, &result);
      piece = llmsvc_generation_next_finish (generation, llmctl_wait (&result), &local_error);
      if (local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (piece == NULL)
        return TRUE;

      if (!llmctl_answer_write (output, piece))
        {
          g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                               _("The answer can't be written to the standard output"));
          return FALSE;
        }
    }
}

static void
write_json_error (const GError *error)
{
  const char *name = error->domain == LLMSVC_ERROR
                         ? llmsvc_error_get_name ((LlmsvcError) error->code)
                         : NULL;

  llmctl_output_json_line (g_variant_new_parsed ("{'error': <{'name': <%s>, 'message': <%s>}>}",
                                                 name != NULL ? name : "Failed", error->message));
  llmctl_output_flush ();
}

static void
keep_said (LlmctlChat   *self,
           LlmsvcAnswer *answer)
{
  if (self->name != NULL)
    return;

  g_ptr_array_add (self->said, llmsvc_message_new (LLMSVC_ROLE_USER, self->last_prompt));
  g_ptr_array_add (self->said, llmsvc_message_new (LLMSVC_ROLE_ASSISTANT,
                                                   llmsvc_answer_get_text (answer)));
}

static void
end_well (LlmctlChat       *self,
          LlmctlAnswer     *output,
          LlmsvcGeneration *generation)
{
  LlmsvcAnswer *answer = llmsvc_generation_get_answer (generation);
  LlmsvcFinishReason reason = answer != NULL ? llmsvc_answer_get_finish_reason (answer)
                                             : LLMSVC_FINISH_REASON_OTHER;

  self->is_last_kept = TRUE;
  if (answer == NULL)
    {
      llmctl_answer_end_line (output);
      return;
    }

  if (!llmctl_answer_finish (output, answer))
    self->is_over = TRUE;
  keep_said (self, answer);
  if (reason == LLMSVC_FINISH_REASON_CANCELLED)
    llmctl_chat_note (self, _("(stopped; what was written is kept)"));
  else if (reason != LLMSVC_FINISH_REASON_STOP)
    llmctl_chat_note (self, "(%s)", llmctl_answer_describe_end (answer));
}

static void
end_badly (LlmctlChat   *self,
           LlmctlAnswer *output,
           LlmctlExit    why,
           GError       *error)
{
  llmctl_answer_end_line (output);
  self->is_last_kept = g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_KEPT);
  if (!g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_UNKNOWN))
    g_clear_pointer (&self->last_request_id, g_free);

  if (llmctl_globals.is_json)
    write_json_error (error);
  if (why == LLMCTL_EXIT_INTERRUPTED)
    {
      llmctl_chat_note (self, _("(stopped; this turn is not kept)"));
      self->status = why;
      self->is_over |= !self->is_interactive;
      return;
    }
  if (why == LLMCTL_EXIT_TIME_LIMIT)
    {
      llmctl_complain (_("The time limit has passed; this turn is not kept"));
      self->status = why;
      return;
    }

  llmctl_chat_fail (self, error);
  if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_KEPT))
    llmctl_chat_note (self, _("/messages shows the whole answer"));
  else
    llmctl_chat_note (self, _("/retry asks again"));
}

/* @request_id: of a turn that was asked for before, so that it isn't done twice. */
static void
run_turn (LlmctlChat *self,
          const char *request_id)
{
  g_autoptr(LlmsvcOptions) options = llmsvc_options_copy (self->last_options);
  g_auto(LlmctlAnswer) output = { .is_json = llmctl_globals.is_json };
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  LlmctlExit why = LLMCTL_EXIT_OK;

  llmctl_wait_begin (TRUE);
  if (!llmctl_chat_ensure (self, &error) ||
      !llmsvc_options_set_value (options, "request-id", g_variant_new_string (request_id), &error))
    {
      end_badly (self, &output, llmctl_wait_get_end (), error);
      return;
    }

  llmsvc_context_prompt_async (self->context, self->last_prompt, options,
                               llmctl_wait_get_cancellable (), llmctl_wait_take, &result);
  generation = llmsvc_context_prompt_finish (self->context, llmctl_wait (&result), &error);
  if (generation == NULL)
    end_badly (self, &output, llmctl_wait_get_end (), error);
  else if (copy_pieces (generation, &output, &why, &error))
    end_well (self, &output, generation);
  else
    end_badly (self, &output, why, error);

  /* Only what is waited for with Ctrl-C is stopped by it; SIGTERM ends all. */
  if (llmctl_wait_is_terminated ())
    self->is_over = TRUE;
}

void
llmctl_chat_ask (LlmctlChat *self,
                 const char *prompt)
{
  g_autofree char *request_id = g_uuid_string_random ();

  g_free (self->last_prompt);
  self->last_prompt = g_strdup (prompt);
  g_free (self->last_request_id);
  self->last_request_id = g_strdup (request_id);
  g_clear_object (&self->last_options);
  self->last_options = llmsvc_options_copy (self->options);
  run_turn (self, request_id);
}

void
llmctl_chat_retry (LlmctlChat *self)
{
  g_autofree char *prompt = g_strdup (self->last_prompt);
  g_autofree char *request_id = NULL;
  g_autoptr(GError) error = NULL;

  if (prompt == NULL)
    {
      llmctl_complain (_("There is no question to ask again"));
      return;
    }
  if (!self->is_last_kept && self->last_request_id != NULL)
    {
      request_id = g_strdup (self->last_request_id);
      run_turn (self, request_id);
      return;
    }

  if (self->is_last_kept)
    {
      llmctl_wait_begin (TRUE);
      if (!llmctl_chat_undo (self, 1, &error))
        {
          llmctl_chat_fail (self, error);
          return;
        }
    }
  llmctl_chat_ask (self, prompt);
}
