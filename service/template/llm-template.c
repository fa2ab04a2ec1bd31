/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "template/llm-template.h"

#include <string.h>

#include "base/llm-fail.h"
#include "template/llm-template-private.h"
#include "tokenizer/llm-utf8.h"

static const char *const roles[] = { "system", "user", "assistant", "tool" };

/* A conversation as the template gets it. */
typedef struct
{
  LlmTemplateCall call;
  GArray *messages;       /* (element-type LlmMessage) */
  GPtrArray *texts;       /* of merged ones */
} Conversation;

static void
conversation_clear (Conversation *self)
{
  g_clear_pointer (&self->messages, g_array_unref);
  g_clear_pointer (&self->texts, g_ptr_array_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Conversation, conversation_clear)

void
llm_prompt_free (LlmPrompt *self)
{
  g_array_unref (self->parts);
  g_free (self->text);
  g_free (self);
}

static char *
dup_token_text (LlmTokenizer *tokenizer,
                gint32        id)
{
  GString *text = g_string_new (NULL);

  if (id >= 0)
    llm_tokenizer_decode_token (tokenizer, id, TRUE, text);
  return g_string_free (text, FALSE);
}

static void
take_tokens (LlmTemplate  *self,
             LlmTokenizer *tokenizer)
{
  static const char *const common[] = { "</s>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>",
                                        "<|end|>", "<|endoftext|>" };

  self->ends = g_ptr_array_new_with_free_func (g_free);
  if (tokenizer == NULL)
    {
      self->bos = g_strdup ("<s>");
      self->eos = g_strdup ("</s>");
      self->skips_bos = TRUE;
      for (guint i = 0; i < G_N_ELEMENTS (common); i++)
        g_ptr_array_add (self->ends, g_strdup (common[i]));
      return;
    }
  /* a token that the vocabulary lacks is no text */
  self->bos = dup_token_text (tokenizer, tokenizer->bos);
  self->eos = dup_token_text (tokenizer, tokenizer->eos);
  self->skips_bos = tokenizer->adds_bos;
  self->swallows_spaces = tokenizer->swallows_spaces;
  for (gint32 id = 0; id < (gint32) tokenizer->n_tokens; id++)
    if (llm_tokenizer_ends_answer (tokenizer, id))
      g_ptr_array_add (self->ends, dup_token_text (tokenizer, id));
}

LlmTemplate *
llm_template_new (const char   *source,
                  LlmTokenizer *tokenizer,
                  const char   *name_for_errors,
                  GError      **error)
{
  g_autoptr(LlmTemplate) self = g_new0 (LlmTemplate, 1);
  g_autoptr(GError) reason = NULL;

  if (source == NULL)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s: tokenizer.chat_template is missing. Prompts without a template "
                          "(raw) can be used with this model", name_for_errors);
  self->name = g_strdup (name_for_errors);
  take_tokens (self, tokenizer);
  self->program = llm_jinja_template_new (source, &reason);
  if (self->program == NULL || !llm_template_find_features (self, &reason))
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s: tokenizer.chat_template can't be used: %s. Prompts without a "
                          "template (raw) can be used with this model", name_for_errors,
                          reason->message);
  return g_steal_pointer (&self);
}

void
llm_template_free (LlmTemplate *self)
{
  if (self == NULL)
    return;
  llm_template_clear_features (&self->features);
  g_clear_pointer (&self->program, llm_jinja_template_free);
  g_clear_pointer (&self->ends, g_ptr_array_unref);
  g_free (self->name);
  g_free (self->bos);
  g_free (self->eos);
  g_free (self);
}

const LlmTemplateFeatures *
llm_template_get_features (LlmTemplate *self)
{
  return &self->features;
}

/* --- the conversation --- */

static gboolean
check_roles (const LlmTemplateCall *call,
             GError               **error)
{
  for (guint i = 0; i < call->n_messages; i++)
    {
      const char *role = call->messages[i].role != NULL ? call->messages[i].role : "";
      g_autofree char *shown = NULL;
      guint known = 0;

      while (known < G_N_ELEMENTS (roles) && !g_str_equal (role, roles[known]))
        known++;
      if (known < G_N_ELEMENTS (roles))
        continue;
      shown = llm_utf8_shorten (role);
      return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "Message %u has the role “%s”, which is unknown; roles are system, user, "
                       "assistant and tool", i, shown);
    }
  return TRUE;
}

/* Where the template has no system messages, their text goes before the next user's. */
static gboolean
merge_systems (Conversation *self,
               GError      **error)
{
  const LlmTemplateCall *call = &self->call;
  g_autoptr(GString) waiting = g_string_new (NULL);
  guint n_settled = 0;

  self->messages = g_array_new (FALSE, FALSE, sizeof (LlmMessage));
  self->texts = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < call->n_messages; i++)
    {
      LlmMessage message = call->messages[i];

      if (g_str_equal (message.role, "system"))
        {
          g_string_append_printf (waiting, "%s%s", waiting->len > 0 ? "\n\n" : "",
                                  message.text != NULL ? message.text : "");
          continue;
        }
      if (g_str_equal (message.role, "user") && waiting->len > 0)
        {
          message.text = g_strdup_printf ("%s\n\n%s", waiting->str,
                                          message.text != NULL ? message.text : "");
          g_ptr_array_add (self->texts, message.text);
          g_string_truncate (waiting, 0);
        }
      g_array_append_val (self->messages, message);
      if (i < call->n_settled)
        n_settled = self->messages->len;
    }
  if (call->n_settled > 0 && n_settled == 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The conversation can't go on from system messages alone");
  if (waiting->len > 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The last message has the role “system”, but the chat template of this model "
                     "makes its text part of a user message, which must follow it");
  self->call.messages = (const LlmMessage *) (void *) self->messages->data;
  self->call.n_messages = self->messages->len;
  self->call.n_settled = n_settled;
  return TRUE;
}

static gboolean
has_text (const LlmMessage *message)
{
  return message->text != NULL && message->text[strspn (message->text, " \t\r\n")] != '\0';
}

/* Nothing new that an app wrote may be missing without a word. */
static gboolean
check_whole (const LlmTemplateCall *call,
             const LlmJinjaOutput  *out,
             GError               **error)
{
  g_autofree guint8 *is_there = g_malloc0 (G_MAXUINT16 + 1);

  for (guint i = 0; i < out->n_runs; i++)
    is_there[out->runs[i].origin] = TRUE;
  for (guint i = call->n_settled; i < call->n_messages; i++)
    {
      const LlmMessage *message = &call->messages[i];

      if (g_str_equal (message->role, "assistant") || !has_text (message)
          || is_there[llm_origin_of_text (i)])
        continue;
      if (g_str_equal (message->role, "tool"))
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "Message %u has the role “tool”, which the chat template of this model "
                         "leaves out here; give the result as the text of a user message", i);
      return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "Message %u with the role “%s” is left out by the chat template of this "
                       "model, which can't express it there", i, message->role);
    }
  return TRUE;
}

/* --- what follows --- */

static gboolean
run (LlmTemplate           *self,
     const LlmTemplateCall *call,
     LlmJinjaOutput        *out,
     GError               **error)
{
  g_autoptr(GError) reason = NULL;

  llm_jinja_output_clear (out);
  if (llm_template_run (self, call, out, &reason))
    return TRUE;
  if (reason->code == LLMSVC_ERROR_INVALID_ARGUMENT)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The chat template of this model refuses these messages: %s", reason->message);
  return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                   "The chat template of this model can't be used with these messages: %s: %s. "
                   "Prompts without a template (raw) can be used", self->name, reason->message);
}

/* The end of the first text that ends an answer, in the template's own text from @from on; 0 if
 * there is none. @start: (out): where it begins. */
static gsize
find_end (LlmTemplate          *self,
          const LlmJinjaOutput *out,
          gsize                 from,
          gsize                *start)
{
  for (gsize at = from; at < out->length && llm_template_is_markup (out, at); at++)
    for (guint i = 0; i < self->ends->len; i++)
      {
        const char *end = g_ptr_array_index (self->ends, i);
        gsize n = strlen (end);

        if (n > 0 && n <= out->length - at && memcmp (out->text + at, end, n) == 0)
          {
            *start = at;
            return at + n;
          }
      }
  return 0;
}

/* Renders, and finds where the last settled answer ends in it. An answer that left nothing in the
 * text (an empty one, or one of which the template shows nothing) gets a letter to be found by. */
static gboolean
find_settled (LlmTemplate           *self,
              const LlmTemplateCall *call,
              LlmJinjaOutput        *out,
              gsize                 *at,
              GError               **error)
{
  guint last = call->n_settled - 1;
  gsize of_text = 0, of_extras = 0;
  gboolean has_extras;

  has_extras = call->messages[last].extras != NULL
               && llm_template_has_origin (out, llm_origin_of_extras (last), &of_extras);
  if (!llm_template_has_origin (out, llm_origin_of_text (last), &of_text) && !has_extras)
    {
      LlmTemplateCall marked = *call;
      g_autofree LlmMessage *messages = g_memdup2 (call->messages,
                                                   call->n_messages * sizeof *messages);

      messages[last].text = (char *) "x";
      marked.messages = messages;
      if (!run (self, &marked, out, error))
        return FALSE;
      if (!llm_template_has_origin (out, llm_origin_of_text (last), &of_text))
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "The chat template of this model leaves out message %u, an answer: the "
                         "conversation can't go on from it", last);
    }
  *at = MAX (of_text, of_extras);
  if (call->point == LLM_POINT_CLOSED_ANSWER || of_extras > of_text)
    {
      gsize start;
      gsize end = find_end (self, out, *at, &start);

      if (end > 0 && call->point == LLM_POINT_CLOSED_ANSWER)
        *at = end;
      else if (end > 0)
        *at = start;
    }
  /* tokens swallow spaces behind them, here the one that the context ends with */
  while (self->swallows_spaces && call->point == LLM_POINT_CLOSED_ANSWER && *at < out->length
         && llm_template_is_markup (out, *at) && g_ascii_isspace (out->text[*at]))
    (*at)++;
  return TRUE;
}

/* Finds where the text of the last message, an answer, ends; @rest: (out): the spaces at its end
 * that the template has left out. */
static gboolean
find_open_end (const LlmTemplateCall *call,
               const LlmJinjaOutput  *out,
               gsize                 *end,
               const char           **rest,
               GError               **error)
{
  guint16 origin = llm_origin_of_text (call->n_messages - 1);
  const char *text = call->messages[call->n_messages - 1].text;
  gsize length = strlen (text);
  gsize n_spaces = 0, n_shown = 0;

  if (!llm_template_has_origin (out, origin, end))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The chat template of this model leaves out the last answer: it can't be gone "
                     "on with");
  while (n_spaces < length && g_ascii_isspace (text[length - 1 - n_spaces]))
    n_spaces++;
  while (n_shown < n_spaces && n_shown < *end
         && llm_jinja_output_get_run (out, *end - 1 - n_shown)->origin == origin
         && g_ascii_isspace (out->text[*end - 1 - n_shown]))
    n_shown++;
  *rest = text + length - (n_spaces - n_shown);
  return TRUE;
}

/* @tail: (nullable): what is behind it, markup or plain text. */
static LlmPrompt *
new_prompt (const LlmJinjaOutput *out,
            gsize                 start,
            gsize                 end,
            const char           *tail,
            gboolean              is_tail_markup)
{
  LlmPrompt *prompt = g_new0 (LlmPrompt, 1);
  LlmTextPart last = { NULL, tail != NULL ? strlen (tail) : 0, is_tail_markup };

  prompt->parts = g_array_new (FALSE, FALSE, sizeof (LlmTextPart));
  prompt->text = g_malloc (end - start + last.length + 1);
  memcpy (prompt->text, out->text + start, end - start);
  for (gsize at = start; at < end;)
    {
      LlmTextPart part = { prompt->text + (at - start), 0, llm_template_is_markup (out, at) };
      gsize next = at;

      while (next < end && llm_template_is_markup (out, next) == part.is_markup)
        next = MIN (end, llm_jinja_output_get_run (out, next)->end);
      part.length = next - at;
      at = next;
      g_array_append_val (prompt->parts, part);
    }
  if (last.length > 0)
    {
      last.text = memcpy (prompt->text + (end - start), tail, last.length);
      g_array_append_val (prompt->parts, last);
    }
  return prompt;
}

LlmPrompt *
llm_template_render (LlmTemplate           *self,
                     const LlmTemplateCall *call,
                     GError               **error)
{
  g_auto(Conversation) conversation = { .call = *call };
  g_auto(LlmJinjaOutput) out = { NULL };
  g_autofree char *tail = NULL;
  LlmThought thought = LLM_THOUGHT_OVER;
  gsize start = 0, end, n_bos;
  LlmPrompt *prompt;
  const char *rest = "";

  g_return_val_if_fail ((call->point == LLM_POINT_START) == (call->n_settled == 0), NULL);

  if (call->thinking > LLM_THINKING_ON && self->features.has_thinking && !self->features.has_effort)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "thinking: the chat template of this model knows no levels of effort; "
                          "take on, off, or a number of tokens");
  if (call->thinking >= LLM_THINKING_ON && !self->features.has_thinking)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "thinking: the chat template of this model knows no way to think; leave "
                          "the option out, or use a model that reasons before it answers");
  if (call->continues)
    {
      const char *text = call->messages[call->n_messages - 1].text;
      gboolean is_empty = text == NULL || *text == '\0';

      conversation.call.n_messages -= is_empty ? 1 : 0;
      conversation.call.open_answer = is_empty;
      conversation.call.continues = !is_empty;
    }
  if (!check_roles (call, error)
      || (!self->features.has_system && !merge_systems (&conversation, error))
      || !run (self, &conversation.call, &out, error)
      || !check_whole (&conversation.call, &out, error)
      || (call->point != LLM_POINT_START
          && !find_settled (self, &conversation.call, &out, &start, error)))
    return NULL;

  n_bos = strlen (self->bos);
  if (call->point == LLM_POINT_START && self->skips_bos && n_bos > 0 && out.length >= n_bos
      && llm_template_is_markup (&out, 0) && memcmp (out.text, self->bos, n_bos) == 0)
    start = n_bos;
  if (conversation.call.open_answer && self->features.has_thinking)
    tail = llm_template_complete_thought (self, &out, call->thinking, &thought);
  end = out.length;
  if (conversation.call.continues
      && !find_open_end (&conversation.call, &out, &end, &rest, error))
    return NULL;
  while (!conversation.call.continues && !conversation.call.open_answer && end > start
         && llm_template_is_markup (&out, end - 1) && g_ascii_isspace (out.text[end - 1]))
    end--;
  prompt = conversation.call.continues ? new_prompt (&out, start, end, rest, FALSE)
                                       : new_prompt (&out, start, end, tail, TRUE);
  prompt->thought = thought;
  return prompt;
}
