/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-answer.h"

#include <glib/gi18n.h>
#include <string.h>
#include <unistd.h>

#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/output/llmctl-progress.h"

void
llmctl_answer_clear (LlmctlAnswer *self)
{
  (void) llmctl_flow_end (&self->flow);
  if (self->written != NULL)
    g_string_free (g_steal_pointer (&self->written), TRUE);
}

gboolean
llmctl_answer_write (LlmctlAnswer  *self,
                     const char    *piece,
                     GError       **error)
{
  gboolean is_there;
  gsize n;

  if (self->written == NULL)
    self->written = g_string_new (NULL);
  n = MIN (strlen (piece), self->written->len - self->n_repeated);
  if (memcmp (self->written->str + self->n_repeated, piece, n) != 0)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST,
                           _("The answer broke off when the service was restarted, and its "
                             "second attempt begins otherwise; what is above is not whole"));
      return FALSE;
    }

  g_string_append (self->written, piece + n);
  self->n_repeated += strlen (piece);
  if (piece[n] == '\0')
    return TRUE;
  llmctl_progress_clear ();
  if (self->has_reasoned)
    llmctl_output_data ("\n\n");
  self->has_reasoned = FALSE;
  is_there = self->is_json
                 ? llmctl_output_json_line (llmctl_json_object ("t:s", piece + n, NULL))
                 : llmctl_flow_write (&self->flow, piece + n);
  is_there = is_there && llmctl_output_flush ();
  if (!is_there)
    g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                         _("The answer can't be written to the standard output"));
  return is_there;
}

/* What the model thinks is not its answer: dim on a terminal, and elsewhere only if it is wanted. */
static void
on_reasoning (LlmsvcGeneration *generation,
              const char       *text,
              LlmctlAnswer     *self)
{
  llmctl_progress_clear ();
  if (self->is_json)
    {
      (void) llmctl_output_json_line (llmctl_json_object ("reasoning:s", text, NULL));
    }
  else if (isatty (STDOUT_FILENO))
    {
      self->has_reasoned = llmctl_output_text (LLMCTL_STYLE_DIM, text);
    }
  else if (self->shows_reasoning)
    {
      self->has_reasoned = llmctl_output_data (text);
    }
  /* what is wrong with stdout is told with the text */
  (void) llmctl_output_flush ();
}

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

static gboolean
copy (LlmctlAnswer      *self,
      LlmsvcGeneration  *generation,
      LlmctlExit        *why,
      GError           **error)
{
  g_autoptr(GCancellable) drop = g_cancellable_new ();

  for (;;)
    {
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(GError) local_error = NULL;
      g_autofree char *piece = NULL;

      llmsvc_generation_next_async (generation,
                                    why != NULL ? drop : llmctl_wait_get_cancellable (),
                                    llmctl_wait_take, &result);
      if (why != NULL && *why == LLMCTL_EXIT_OK && !llmctl_wait_or_end (&result))
        *why = stop_answer (generation, drop, &result);
      piece = llmsvc_generation_next_finish (generation, llmctl_wait (&result), &local_error);
      if (local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (piece == NULL)
        return TRUE;
      if (!llmctl_answer_write (self, piece, error))
        return FALSE;
    }
}

gboolean
llmctl_answer_copy (LlmctlAnswer      *self,
                    LlmsvcGeneration  *generation,
                    LlmctlExit        *why,
                    GError           **error)
{
  gulong handler = g_signal_connect (generation, "reasoning", G_CALLBACK (on_reasoning), self);
  gboolean is_whole;

  llmctl_progress_follow (generation);
  is_whole = copy (self, generation, why, error);
  llmctl_progress_clear ();
  /* what is wrong with stdout is told when the process ends */
  (void) llmctl_flow_end (&self->flow);
  g_signal_handler_disconnect (generation, handler);
  return is_whole;
}

void
llmctl_answer_end_line (LlmctlAnswer *self)
{
  (void) llmctl_flow_end (&self->flow);
  if (self->is_json || self->written == NULL || self->written->len == 0 ||
      self->written->str[self->written->len - 1] == '\n')
    return;

  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  llmctl_output_flush ();
}

/* What is misspelt is the likeliest. */
static void
complain_ignored (const char *key)
{
  const char *suggestion = llmctl_options_suggest (key);

  if (suggestion != NULL && !g_str_equal (suggestion, key))
    llmctl_complain (_("The service does not know the option “%s” here and went on without it; did "
                       "you mean “%s”?"), key, suggestion);
  else
    llmctl_complain (_("The service does not know the option “%s” here and went on without it"),
                     key);
}

gboolean
llmctl_answer_finish (LlmctlAnswer *self,
                      LlmsvcAnswer *answer)
{
  const char *const *ignored = llmsvc_answer_get_ignored (answer);
  const char *const *unheld = llmsvc_answer_get_unheld (answer);

  llmctl_answer_end_line (self);
  if (self->is_json &&
      !(llmctl_output_json_line (
            llmctl_json_object ("done:*", llmsvc_answer_get_results (answer), NULL)) &&
        llmctl_output_flush ()))
    return FALSE;

  for (gsize i = 0; ignored != NULL && ignored[i] != NULL; i++)
    complain_ignored (ignored[i]);
  for (gsize i = 0; unheld != NULL && unheld[i] != NULL; i++)
    llmctl_complain (_("The answer was not held to a part of the schema: %s"), unheld[i]);
  return TRUE;
}

const char *
llmctl_answer_describe_end (LlmsvcAnswer *answer)
{
  static const char *const ends[] = {
    [LLMSVC_FINISH_REASON_STOP] = N_("complete"),
    [LLMSVC_FINISH_REASON_LENGTH] = N_("cut off at max-tokens"),
    [LLMSVC_FINISH_REASON_CONTEXT_FULL] = N_("cut off because the context is full"),
    [LLMSVC_FINISH_REASON_CANCELLED] = N_("stopped"),
    [LLMSVC_FINISH_REASON_STALLED] = N_("stopped because nobody read it"),
    [LLMSVC_FINISH_REASON_REPEATS] = N_("ended because it said the same again and again"),
  };
  guint end = llmsvc_answer_get_finish_reason (answer);
  const char *reason = "";

  if (end < G_N_ELEMENTS (ends) && ends[end] != NULL)
    return _(ends[end]);
  (void) g_variant_lookup (llmsvc_answer_get_results (answer), "finish-reason", "&s", &reason);
  return reason;
}

char *
llmctl_answer_summarize (LlmsvcAnswer *answer)
{
  guint n_read = llmsvc_answer_get_prompt_tokens (answer);
  guint n_known = llmsvc_answer_get_cached_tokens (answer);
  guint n_written = llmsvc_answer_get_output_tokens (answer);
  guint n_kept = llmsvc_answer_get_kept_tokens (answer);
  double first_ms = llmsvc_answer_get_ttft_ms (answer);
  double each_ms = llmsvc_answer_get_tpot_ms (answer);
  const char *end = llmctl_answer_describe_end (answer);

  if (n_kept > 0)
    /* Translators: as the next one; the third number is what is left of both when the context
     * is longer than the model can see */
    return g_strdup_printf (_("prompt %u tokens (%u cached), generated %u, of which the model still "
                              "sees %u; first token after %.0f ms, then %.1f ms each; %s"),
                            n_read, n_known, n_written, n_kept, first_ms, each_ms, end);

  /* Translators: tokens of the prompt, part of them known from before, tokens of the
   * answer, milliseconds to the first one and for each further one, why it ended */
  return g_strdup_printf (_("prompt %u tokens (%u cached), generated %u; first token after %.0f ms, "
                            "then %.1f ms each; %s"),
                          n_read, n_known, n_written, first_ms, each_ms, end);
}
