/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The conversation of a chat: its context, begun anew when the service lost it, and its turns. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-chat.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-contexts.h"
#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/chat/llmctl-answer.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/output/llmctl-progress.h"

void
llmctl_chat_clear (LlmctlChat *self)
{
  g_clear_object (&self->context);
  g_clear_object (&self->client);
  g_clear_object (&self->options);
  g_clear_object (&self->made);
  g_clear_object (&self->last_options);
  g_clear_object (&self->input);
  g_clear_pointer (&self->name, g_free);
  g_clear_pointer (&self->system, g_free);
  g_clear_pointer (&self->said, g_ptr_array_unref);
  g_clear_pointer (&self->last_prompt, g_free);
}

void
llmctl_chat_note (LlmctlChat *self,
                  const char *format,
                  ...)
{
  g_autofree char *text = NULL;
  g_autofree char *fitted = NULL;
  va_list arguments;

  if (!self->is_interactive)
    return;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  fitted = llmctl_output_fit_lines (text, STDOUT_FILENO);
  llmctl_output_printf (LLMCTL_STYLE_DIM, "%s\n", fitted);
}

/* --- the context --- */

/* What came of the last turn, and its question if @has_prompt. */
static void
forget_last (LlmctlChat *self,
             gboolean    has_prompt)
{
  if (has_prompt)
    g_clear_pointer (&self->last_prompt, g_free);
  self->may_be_kept = FALSE;
  self->is_last_kept = FALSE;
}

gboolean
llmctl_chat_open (LlmctlChat  *self,
                  const char  *name,
                  GError     **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GError) local_error = NULL;

  if (name != NULL)
    context = llmctl_contexts_open_as (self->client, name, self->made, &local_error);
  if (context != NULL)
    {
      llmctl_chat_note (self, _("“%s” goes on: %u tokens so far"), name,
                        llmsvc_context_get_tokens (context));
      if (self->system != NULL)
        llmctl_complain (_("“%s” is there already with its own system text; yours is left out"),
                         name);
    }
  else if (local_error != NULL &&
           !g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
    g_propagate_error (error, g_steal_pointer (&local_error));
  else
    context = llmctl_contexts_create (self->client, name, self->system, NULL, self->made, error);
  if (context == NULL)
    return FALSE;

  g_set_object (&self->context, context);
  g_free (self->name);
  self->name = g_strdup (name);
  g_ptr_array_set_size (self->said, 0);
  forget_last (self, TRUE);
  return TRUE;
}

gboolean
llmctl_chat_ensure (LlmctlChat  *self,
                    GError     **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GVariant) said =
      g_variant_ref_sink (g_variant_new_array (G_VARIANT_TYPE ("(ssa{sv})"),
                                               (GVariant *const *) self->said->pdata,
                                               self->said->len));

  if (self->context != NULL && !llmsvc_context_get_is_closed (self->context))
    return TRUE;

  context = self->name != NULL
                ? llmctl_contexts_open_or_create (self->client, self->name, NULL, self->made, error)
                : llmctl_contexts_create (self->client, NULL, self->system,
                                          self->said->len > 0 ? said : NULL, self->made, error);
  if (context == NULL)
    return FALSE;
  if (self->name != NULL)
    llmctl_chat_note (self, _("“%s” was closed elsewhere and begins anew"), self->name);
  else
    llmctl_chat_note (self, _("The service was restarted; the conversation goes on from what "
                              "was said here"));

  g_set_object (&self->context, context);
  return TRUE;
}

GPtrArray *
llmctl_chat_read (LlmctlChat  *self,
                  GError     **error)
{
  return llmctl_chat_ensure (self, error) ? llmctl_contexts_read (self->context, error) : NULL;
}

gboolean
llmctl_chat_undo (LlmctlChat  *self,
                  guint        n_turns,
                  GError     **error)
{
  if (!llmctl_chat_ensure (self, error) ||
      !llmsvc_context_rollback_sync (self->context, n_turns, NULL, llmctl_wait_get_cancellable (),
                                     error))
    return FALSE;

  g_ptr_array_set_size (self->said, (int) (self->said->len - MIN (self->said->len, 2 * n_turns)));
  forget_last (self, n_turns > 1 || !self->is_last_kept);
  return TRUE;
}

/* --- turns --- */

static void
say (LlmctlChat *self,
     const char *role,
     const char *text)
{
  g_ptr_array_add (self->said,
                   g_variant_ref_sink (g_variant_new ("(ssa{sv})", role, text, NULL)));
}

/* What to do about a conversation that the context has no more room for: once, then in short. */
static void
tell_full (LlmctlChat *self)
{
  llmctl_chat_note (self, "%s", self->has_told_full
                                  ? _("The conversation is full: /undo, /new or “/set on-overflow=slide”")
                                  : _("The conversation is as long as the model can see: /undo forgets the\n"
                                      "last turn, /new begins anew, “/set on-overflow=slide” lets the oldest go."));
  self->has_told_full = TRUE;
}

static void
end_well (LlmctlChat   *self,
          LlmctlAnswer *output,
          LlmsvcAnswer *answer)
{
  self->is_last_kept = TRUE;
  if (answer == NULL)
    {
      llmctl_answer_end_line (output);
      return;
    }

  self->is_over |= !llmctl_answer_finish (output, answer);
  if (self->name == NULL)
    {
      say (self, LLMSVC_ROLE_USER, self->last_prompt);
      say (self, LLMSVC_ROLE_ASSISTANT, llmsvc_answer_get_text (answer));
    }
  if (llmsvc_answer_get_finish_reason (answer) == LLMSVC_FINISH_REASON_CANCELLED)
    llmctl_chat_note (self, _("(stopped; what was written is kept)"));
  else if (llmsvc_answer_get_finish_reason (answer) != LLMSVC_FINISH_REASON_STOP)
    llmctl_chat_note (self, "(%s)", llmctl_answer_describe_end (answer));
  if (llmsvc_answer_get_finish_reason (answer) == LLMSVC_FINISH_REASON_CONTEXT_FULL)
    tell_full (self);
}

/* @why: what stopped it, if anything did. */
static void
end_badly (LlmctlChat   *self,
           LlmctlAnswer *output,
           LlmctlExit    why,
           GError       *error)
{
  const char *name = error->domain == LLMSVC_ERROR
                         ? llmsvc_error_get_name ((LlmsvcError) error->code)
                         : NULL;

  llmctl_answer_end_line (output);
  self->is_last_kept = g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_KEPT);
  self->may_be_kept = g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_UNKNOWN);

  if (llmctl_globals.is_json)
    {
      llmctl_output_json_line (
          g_variant_new_parsed ("{'error': <{'name': <%s>, 'message': <%s>}>}",
                                name != NULL ? name : "Failed", error->message));
      llmctl_output_flush ();
    }
  self->status = why;
  if (why == LLMCTL_EXIT_OK)
    {
      self->status = llmctl_fail (error);
      if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL))
        {
          tell_full (self);
          return;
        }
      llmctl_chat_note (self, "%s", self->is_last_kept ? _("/messages shows the whole answer")
                                                       : _("/retry asks again"));
    }
  else if (why == LLMCTL_EXIT_TIME_LIMIT)
    llmctl_complain (_("The time limit has passed; this turn is not kept"));
  else
    {
      llmctl_chat_note (self, _("(stopped; this turn is not kept)"));
      self->is_over |= !self->is_interactive;
    }
}

/* The last prompt, with the request-id of a turn that was asked for before, so that it isn't done
 * twice. */
static void
run_turn (LlmctlChat *self)
{
  g_auto(LlmctlAnswer) output = { .is_json = llmctl_globals.is_json };
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(GError) error = NULL;
  LlmctlExit why = LLMCTL_EXIT_OK;

  llmctl_wait_begin (TRUE);
  llmctl_progress_await_model (self->client);
  if (llmctl_chat_ensure (self, &error))
    generation = llmsvc_context_prompt_sync (self->context, self->last_prompt, self->last_options,
                                             llmctl_wait_get_cancellable (), &error);
  if (generation == NULL)
    end_badly (self, &output, llmctl_wait_get_end (), error);
  else if (llmctl_answer_copy (&output, generation, &why, &error))
    end_well (self, &output, llmsvc_generation_get_answer (generation));
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
  g_clear_object (&self->last_options);
  self->last_options = llmsvc_options_copy (self->options);
  (void) llmsvc_options_set_value (self->last_options, "request-id",
                                   g_variant_new_string (request_id), NULL);
  run_turn (self);
}

void
llmctl_chat_retry (LlmctlChat *self)
{
  g_autofree char *prompt = g_strdup (self->last_prompt);
  g_autoptr(GError) error = NULL;

  if (prompt == NULL)
    llmctl_complain (_("There is no question to ask again"));
  else if (!self->is_last_kept && self->may_be_kept)
    run_turn (self);
  else if (self->is_last_kept && !llmctl_chat_undo (self, 1, &error))
    self->status = llmctl_fail (error);
  else
    llmctl_chat_ask (self, prompt);
}
