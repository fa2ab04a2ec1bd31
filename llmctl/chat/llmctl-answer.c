/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-answer.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/output/llmctl-output.h"

void
llmctl_answer_clear (LlmctlAnswer *self)
{
  if (self->written != NULL)
    g_string_free (g_steal_pointer (&self->written), TRUE);
}

static gboolean
write_json (const char *key,
            GVariant   *value)
{
  GVariantBuilder line;

  g_variant_builder_init (&line, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&line, "{sv}", key, value);

  return llmctl_output_json_line (g_variant_builder_end (&line)) && llmctl_output_flush ();
}

/* The part of @piece that was not written by the first attempt. */
static const char *
skip_repeated (LlmctlAnswer *self,
               const char   *piece)
{
  gsize n = MIN (strlen (piece), self->written->len - self->n_repeated);

  self->n_repeated += n;
  return piece + n;
}

gboolean
llmctl_answer_write (LlmctlAnswer *self,
                     const char   *piece)
{
  if (self->written == NULL)
    self->written = g_string_new (NULL);
  piece = skip_repeated (self, piece);
  if (*piece == '\0')
    return TRUE;

  g_string_append (self->written, piece);
  self->n_repeated = self->written->len;
  if (self->is_json)
    return write_json ("t", g_variant_new_string (piece));

  return llmctl_output_data (piece) && llmctl_output_flush ();
}

void
llmctl_answer_repeat (LlmctlAnswer *self)
{
  self->n_repeated = 0;
}

gboolean
llmctl_answer_matches (LlmctlAnswer *self,
                       const char   *piece)
{
  gsize n;

  if (self->written == NULL)
    return TRUE;
  n = MIN (strlen (piece), self->written->len - self->n_repeated);

  return memcmp (self->written->str + self->n_repeated, piece, n) == 0;
}

void
llmctl_answer_end_line (LlmctlAnswer *self)
{
  if (self->is_json || self->written == NULL || self->written->len == 0 ||
      self->written->str[self->written->len - 1] == '\n')
    return;

  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  llmctl_output_flush ();
}

gboolean
llmctl_answer_finish (LlmctlAnswer *self,
                      LlmsvcAnswer *answer)
{
  const char *const *ignored = llmsvc_answer_get_ignored (answer);

  llmctl_answer_end_line (self);
  if (self->is_json && !write_json ("done", llmsvc_answer_get_results (answer)))
    return FALSE;

  for (gsize i = 0; ignored != NULL && ignored[i] != NULL; i++)
    llmctl_complain (_("The service does not know the option “%s” here and went on without it"),
                     ignored[i]);
  return TRUE;
}

const char *
llmctl_answer_describe_end (LlmsvcAnswer *answer)
{
  const char *reason = "";

  switch (llmsvc_answer_get_finish_reason (answer))
    {
    case LLMSVC_FINISH_REASON_STOP:
      return _("complete");
    case LLMSVC_FINISH_REASON_LENGTH:
      return _("cut off at max-tokens");
    case LLMSVC_FINISH_REASON_CONTEXT_FULL:
      return _("cut off because the context is full");
    case LLMSVC_FINISH_REASON_CANCELLED:
      return _("stopped");
    case LLMSVC_FINISH_REASON_STALLED:
      return _("stopped because nobody read it");
    case LLMSVC_FINISH_REASON_OTHER:
    default:
      (void) g_variant_lookup (llmsvc_answer_get_results (answer), "finish-reason", "&s", &reason);
      return reason;
    }
}

char *
llmctl_answer_summarize (LlmsvcAnswer *answer)
{
  guint n_kept = llmsvc_answer_get_kept_tokens (answer);

  if (n_kept > 0)
    /* Translators: as the next one; the third number is what is left of both when the context
     * is longer than the model can see */
    return g_strdup_printf (_("read %u (%u known), wrote %u tokens, of which the model still sees "
                              "%u; first after %.0f ms, then %.1f ms each; %s"),
                            llmsvc_answer_get_prompt_tokens (answer),
                            llmsvc_answer_get_reused_tokens (answer),
                            llmsvc_answer_get_output_tokens (answer), n_kept,
                            llmsvc_answer_get_ttft_ms (answer),
                            llmsvc_answer_get_tpot_ms (answer),
                            llmctl_answer_describe_end (answer));

  /* Translators: tokens of the prompt, part of them known from before, tokens of the
   * answer, milliseconds to the first one and for each further one, why it ended */
  return g_strdup_printf (_("read %u (%u known), wrote %u tokens; first after %.0f ms, then "
                            "%.1f ms each; %s"),
                          llmsvc_answer_get_prompt_tokens (answer),
                          llmsvc_answer_get_reused_tokens (answer),
                          llmsvc_answer_get_output_tokens (answer),
                          llmsvc_answer_get_ttft_ms (answer),
                          llmsvc_answer_get_tpot_ms (answer), llmctl_answer_describe_end (answer));
}
