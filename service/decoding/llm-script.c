/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-mock"

#include "decoding/llm-script.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "decoding/llm-mock-model.h"
#include "decoding/llm-script-private.h"

#define MODEL_ID "mock"
#define MAX_BYTES (4 * 1024 * 1024)
#define STARTS_FILE "mock-starts"
#define PROMPT_MARK "{prompt}"

/* --- the object --- */

static void
clear_phase (gpointer data)
{
  g_free (((LlmScriptPhase *) data)->reason);
}

void
llm_script_rule_free (LlmScriptRule *rule)
{
  g_free (rule->prompt);
  g_free (rule->contains);
  g_clear_pointer (&rule->pattern, g_regex_unref);
  g_free (rule->system);
  g_strfreev (rule->pieces);
  g_clear_error (&rule->error);
  g_free (rule);
}

/* A pipe is as good as a file, so the size is known when all was read. */
static GString *
read_file (const char  *path,
           GError     **error)
{
  g_autoptr(GString) text = g_string_new (NULL);
  FILE *file;
  char buffer[4096];
  gsize n;

  errno = 0;
  file = g_fopen (path, "re");
  while (file != NULL && text->len <= MAX_BYTES &&
         (n = fread (buffer, 1, sizeof buffer, file)) > 0)
    g_string_append_len (text, buffer, (gssize) n);
  if (file == NULL || ferror (file))
    llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT, "The mock script %s can't be read: %s", path,
              g_strerror (errno));
  else if (text->len > MAX_BYTES)
    llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
              "%s: a mock script has up to %d bytes, this file has more", path, MAX_BYTES);
  else
    {
      fclose (file);
      return g_steal_pointer (&text);
    }
  if (file != NULL)
    fclose (file);
  return NULL;
}

LlmScript *
llm_script_load (const char  *path,
                 GError     **error)
{
  g_autoptr(LlmScript) self = g_new0 (LlmScript, 1);
  g_autoptr(GString) text = NULL;

  self->path = g_strdup (path);
  self->start = 1;
  self->phases = g_array_new (FALSE, TRUE, sizeof (LlmScriptPhase));
  g_array_set_clear_func (self->phases, clear_phase);
  self->rules = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_script_rule_free);

  text = read_file (path, error);
  if (text == NULL || !llm_script_read (self, text->str, text->len, error))
    return NULL;
  return g_steal_pointer (&self);
}

void
llm_script_free (LlmScript *self)
{
  if (self == NULL)
    return;
  g_free (self->path);
  g_array_unref (self->phases);
  g_ptr_array_unref (self->rules);
  g_free (self);
}

const char *
llm_script_get_path (LlmScript *self)
{
  return self->path;
}

const LlmScriptPhase *
llm_script_get_phase (LlmScript *self,
                      guint      index)
{
  return index < self->phases->len ? &g_array_index (self->phases, LlmScriptPhase, index) : NULL;
}

LlmModelInfo *
llm_script_make_model (LlmScript *self)
{
  g_autoptr(GBytes) content = llm_mock_model_new (self->n_ctx);
  g_autofree char *base = g_path_get_basename (self->path);
  g_autofree char *name = g_filename_display_name (base);
  g_autofree char *title = g_strdup_printf ("Mock model (%s)", name);

  return llm_model_info_new_for_bytes (content, MODEL_ID, title);
}

/* --- starts --- */

/* The number in the file, 0 for none and for what is no number. */
static guint64
read_starts (const char *path)
{
  g_autofree char *text = NULL;
  guint64 n = 0;

  if (g_file_get_contents (path, &text, NULL, NULL))
    g_ascii_string_to_unsigned (g_strchomp (text), 10, 0, G_MAXUINT - 1, &n, NULL);
  return n;
}

gboolean
llm_script_count_start (LlmScript   *self,
                        const char  *state_folder,
                        GError     **error)
{
  g_autofree char *path = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GError) local = NULL;

  if (state_folder == NULL)
    return TRUE;
  path = g_build_filename (state_folder, STARTS_FILE, NULL);
  self->start = (guint) read_starts (path) + 1;
  text = g_strdup_printf ("%u\n", self->start);
  if (g_mkdir_with_parents (state_folder, 0700) != 0)
    llm_fail (error, LLMSVC_ERROR_STORAGE, "The folder %s can't be made: %s", state_folder,
              g_strerror (errno));
  else if (!g_file_set_contents (path, text, -1, &local))
    llm_fail (error, LLMSVC_ERROR_STORAGE, "The number of starts can't be kept: %s",
              local->message);
  else
    return TRUE;
  return FALSE;
}

/* --- answers --- */

/* FALSE with @error set when the pattern has no end on this prompt. */
static gboolean
match_pattern (const LlmScriptRule *rule,
               const char          *prompt,
               gboolean            *applies,
               GError             **error)
{
  g_autoptr(GError) local = NULL;

  *applies = g_regex_match_full (rule->pattern, prompt, -1, 0, 0, NULL, &local);
  if (local == NULL)
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_FAILED,
                   "A pattern of the mock script takes too long on this prompt; make it simpler");
}

static gboolean
apply_rule (LlmScript               *self,
            const LlmScriptRule     *rule,
            const LlmScriptQuestion *question,
            gboolean                *applies,
            GError                 **error)
{
  *applies = (rule->times == 0 || rule->n_used < rule->times) &&
             (rule->start == 0 || rule->start == self->start) &&
             (rule->turn == 0 || rule->turn == question->turn) &&
             (rule->prompt == NULL || g_str_equal (rule->prompt, question->prompt)) &&
             (rule->contains == NULL || strstr (question->prompt, rule->contains) != NULL) &&
             (rule->system == NULL || strstr (question->system, rule->system) != NULL);
  if (*applies && rule->pattern != NULL)
    return match_pattern (rule, question->prompt, applies, error);
  return TRUE;
}

/* (transfer full): with the prompt put in, but for what lies behind @n_max bytes: no
 * context is that long, and a prompt may stand in a text very often. */
static GStrv
fill_in_prompt (GStrv       pieces,
                const char *prompt,
                gsize       n_max)
{
  g_autoptr(GPtrArray) filled = g_ptr_array_new ();
  gsize n_bytes = 0;

  for (guint i = 0; pieces[i] != NULL; i++)
    {
      GString *piece = g_string_new (NULL);
      const char *rest = pieces[i];
      const char *mark;

      while (n_bytes + piece->len <= n_max && (mark = strstr (rest, PROMPT_MARK)) != NULL)
        {
          g_string_append_len (piece, rest, mark - rest);
          g_string_append (piece, prompt);
          rest = mark + strlen (PROMPT_MARK);
        }
      g_string_append (piece, rest);
      n_bytes += piece->len;
      g_ptr_array_add (filled, g_string_free (piece, FALSE));
    }
  g_ptr_array_add (filled, NULL);
  return (GStrv) g_ptr_array_steal (filled, NULL);
}

LlmReply *
llm_script_answer (LlmScript               *self,
                   LlmTokenizer            *tokenizer,
                   const LlmScriptQuestion *question,
                   GError                 **error)
{
  for (guint i = 0; i < self->rules->len; i++)
    {
      LlmScriptRule *rule = g_ptr_array_index (self->rules, i);
      g_auto(GStrv) pieces = NULL;
      gboolean applies;

      if (!apply_rule (self, rule, question, &applies, error))
        return NULL;
      if (!applies)
        continue;
      rule->n_used++;
      if (rule->pieces == NULL)
        {
          g_propagate_error (error, g_error_copy (rule->error));
          return NULL;
        }
      pieces = fill_in_prompt (rule->pieces, question->prompt, self->n_ctx);
      return llm_reply_new (tokenizer, (const char *const *) pieces, rule->delay_ms,
                            rule->piece_delay_ms, rule->end, rule->error, rule->exit);
    }
  return llm_fail_null (error, LLMSVC_ERROR_FAILED,
                        "No rule of the mock script applies to this call; a last rule without "
                        "“when” would answer all the others");
}
