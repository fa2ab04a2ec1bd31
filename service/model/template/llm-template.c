/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/template/llm-template.h"

#include <string.h>

#include "base/llm-fail.h"
#include "model/template/llm-template-private.h"
#include "model/tokenizer/llm-utf8.h"

struct _LlmTemplate
{
  LlmTemplateShape shape;
  char *bos;    /* texts for its places */
  char *eos;
};

typedef enum
{
  ROLE_SYSTEM,
  ROLE_USER,
  ROLE_ANSWER,
  ROLE_TOOL,
  N_ROLES
} Role;

static const char *const role_names[N_ROLES] = { "system", "user", "assistant", "tool" };

typedef struct
{
  const LlmTemplate *self;
  LlmPrompt *prompt;    /* (unowned) */
  LlmPoint point;       /* where what was written ended */
  GString *merged;      /* system texts that await a user message; empty: none */
  gboolean wants_user;  /* whose turn it is, where they alternate */
} Renderer;

void
llm_prompt_free (LlmPrompt *self)
{
  g_array_unref (self->parts);
  g_string_chunk_free (self->texts);
  g_free (self);
}

/* @text is copied; nothing is added if it is empty. @is_markup: a template wrote it. */
static void
add_part (LlmPrompt  *prompt,
          const char *text,
          gboolean    is_markup)
{
  LlmTextPart part = { NULL, strlen (text), is_markup };

  if (part.length == 0)
    return;
  part.text = g_string_chunk_insert_len (prompt->texts, text, (gssize) part.length);
  g_array_append_val (prompt->parts, part);
}

static char *
dup_token_text (LlmTokenizer *tokenizer,
                gint32        id,
                const char   *fallback)
{
  GString *text = g_string_new (NULL);

  if (id < 0)
    g_string_assign (text, fallback);
  else
    llm_tokenizer_decode_token (tokenizer, id, TRUE, text);
  return g_string_free (text, FALSE);
}

LlmTemplate *
llm_template_new (const char   *source,
                  LlmTokenizer *tokenizer,
                  const char   *name_for_errors,
                  GError      **error)
{
  g_autoptr(LlmTemplate) self = g_new0 (LlmTemplate, 1);
  g_autofree char *known = NULL;

  if (source != NULL && llm_template_recognise (source, &self->shape))
    {
      self->bos = dup_token_text (tokenizer, tokenizer != NULL ? tokenizer->bos : -1, "<s>");
      self->eos = dup_token_text (tokenizer, tokenizer != NULL ? tokenizer->eos : -1, "</s>");
      /* Between messages they would be lost, but for those that begin a new text. */
      if (tokenizer != NULL && tokenizer->swallows_spaces)
        self->shape.behind_answer = self->shape.behind_message = "";
      return g_steal_pointer (&self);
    }

  known = llm_template_list_names ();
  if (source != NULL)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s: tokenizer.chat_template is none of the known ones; known are %s. "
                          "Prompts without a template (raw) can be used with this model",
                          name_for_errors, known);
  return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                        "%s: tokenizer.chat_template is missing; known are %s. Prompts without a "
                        "template (raw) can be used with this model", name_for_errors, known);
}

void
llm_template_free (LlmTemplate *self)
{
  if (self == NULL)
    return;
  g_free (self->shape.default_system);
  g_free (self->bos);
  g_free (self->eos);
  g_free (self);
}

const char *
llm_template_get_name (LlmTemplate *self)
{
  return self->shape.name;
}

static gboolean
is_trimmed (gunichar c)
{
  return g_unichar_isspace (c) || c == '\v' || c == 0x85 || (c >= 0x1c && c <= 0x1f);
}

/* Without the spaces at its end and, where @at_start, at its start. */
static char *
trim (const char *text,
      gboolean    at_start)
{
  const char *end = text + strlen (text);

  while (at_start && *text != '\0' && is_trimmed (g_utf8_get_char (text)))
    text = g_utf8_next_char (text);
  while (end > text && is_trimmed (g_utf8_get_char (g_utf8_find_prev_char (text, end))))
    end = g_utf8_find_prev_char (text, end);
  return g_strndup (text, (gsize) (end - text));
}

static void
add_markup (Renderer   *renderer,
            const char *text)
{
  g_autoptr(GString) markup = g_string_new (NULL);

  for (; *text != '\0'; text++)
    {
      if (*text == *LLM_TEMPLATE_BOS)
        g_string_append (markup, renderer->self->bos);
      else if (*text == *LLM_TEMPLATE_EOS)
        g_string_append (markup, renderer->self->eos);
      else
        g_string_append_c (markup, *text);
    }
  add_part (renderer->prompt, markup->str, TRUE);
}

static void
add_separator (Renderer *renderer)
{
  const LlmTemplateShape *shape = &renderer->self->shape;

  if (renderer->point == LLM_POINT_CLOSED_ANSWER)
    add_markup (renderer, shape->behind_answer);
  else if (renderer->point == LLM_POINT_CLOSED_MESSAGE)
    add_markup (renderer, shape->behind_message);
}

/* A user's message begins with what awaits it. */
static void
add_message (Renderer              *renderer,
             const LlmTemplateRole *role,
             const char            *text,
             gboolean               trims)
{
  const LlmTemplateShape *shape = &renderer->self->shape;
  gboolean is_merged = role == &shape->user && renderer->merged->len > 0;
  g_autofree char *trimmed = trims ? trim (text, !(is_merged && shape->trims_merged)) : NULL;

  add_separator (renderer);
  add_markup (renderer, role->before);
  if (is_merged)
    {
      add_markup (renderer, shape->before_merged);
      add_part (renderer->prompt, renderer->merged->str, FALSE);
      add_markup (renderer, shape->after_merged);
      g_string_truncate (renderer->merged, 0);
    }
  add_part (renderer->prompt, trims ? trimmed : text, FALSE);
  add_markup (renderer, role->after);
  renderer->point = role == &shape->answer ? LLM_POINT_CLOSED_ANSWER : LLM_POINT_CLOSED_MESSAGE;
}

static void
add_system (Renderer   *renderer,
            const char *text)
{
  const LlmTemplateShape *shape = &renderer->self->shape;
  gboolean is_first = renderer->point == LLM_POINT_START && shape->first_system.before != NULL;

  if (shape->system.before != NULL)
    add_message (renderer, is_first ? &shape->first_system : &shape->system, text,
                 shape->trims_all);
  else
    g_string_append_printf (renderer->merged, "%s%s", renderer->merged->len > 0 ? "\n\n" : "",
                            text);
}

static void
add_tool (Renderer   *renderer,
          const char *text,
          gboolean    is_behind_tool,
          gboolean    is_before_tool)
{
  const LlmTemplateShape *shape = &renderer->self->shape;

  if (is_behind_tool && shape->between_tools != NULL)
    add_markup (renderer, shape->between_tools);
  else
    {
      add_separator (renderer);
      add_markup (renderer, shape->tool.before);
    }
  add_part (renderer->prompt, text, FALSE);
  if (!is_before_tool || shape->between_tools == NULL)
    add_markup (renderer, shape->tool.after);
  renderer->point = LLM_POINT_CLOSED_MESSAGE;
}

/* Sets an error unless the role may stand there. */
static gboolean
check_turn (Renderer  *renderer,
            guint      index,
            Role       role,
            GError   **error)
{
  const LlmTemplateShape *shape = &renderer->self->shape;

  if (role == ROLE_TOOL && shape->tool.before == NULL)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Message %u has the role “tool”, which the template “%s” of this model can't "
                     "express; give the result as the text of a user message", index, shape->name);
  if (!shape->alternates)
    return TRUE;

  if ((role == ROLE_ANSWER) == renderer->wants_user)
    return renderer->wants_user
             ? llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "Message %u has the role “%s”, but the template “%s” of this model lets "
                         "user and assistant take turns, and here it is the user's turn",
                         index, role_names[role], shape->name)
             : llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "Message %u has the role “%s”, but the template “%s” of this model lets "
                         "user and assistant take turns, and here it is the assistant's turn",
                         index, role_names[role], shape->name);
  if (role == ROLE_USER || role == ROLE_ANSWER)
    renderer->wants_user = role == ROLE_ANSWER;
  return TRUE;
}

/* Sets an error unless the end may be here. */
static gboolean
check_end (Renderer  *renderer,
           gboolean   open_answer,
           GError   **error)
{
  const LlmTemplateShape *shape = &renderer->self->shape;

  if (renderer->merged->len > 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The last message has the role “system”, but the template “%s” of this model "
                     "makes its text part of a user message, which must follow it", shape->name);
  if (open_answer && shape->alternates && renderer->wants_user)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "An answer can't begin here: with the template “%s” of this model, a message "
                     "with the role “user” must come before it", shape->name);
  return TRUE;
}

/* N_ROLES for a role that there is not. */
static Role
find_role (const char *name)
{
  guint role = 0;

  while (role < N_ROLES && g_strcmp0 (name, role_names[role]) != 0)
    role++;
  return role;
}

static void
begin (Renderer   *renderer,
       LlmPoint    point,
       const char *first_role)
{
  const LlmTemplateShape *shape = &renderer->self->shape;

  renderer->wants_user = point != LLM_POINT_CLOSED_MESSAGE;
  renderer->point = point;
  if (point == LLM_POINT_OPEN_ANSWER)
    {
      add_markup (renderer, shape->answer.after);
      renderer->point = LLM_POINT_CLOSED_ANSWER;
    }
  if (point == LLM_POINT_START && shape->has_default_system
      && g_strcmp0 (first_role, "system") != 0)
    add_system (renderer, shape->default_system != NULL ? shape->default_system : "");
}

static gboolean
is_tool (const LlmMessage *messages,
         guint             n_messages,
         guint             index)
{
  return index < n_messages && g_strcmp0 (messages[index].role, "tool") == 0;
}

LlmPrompt *
llm_template_render (LlmTemplate      *self,
                     LlmPoint          point,
                     const LlmMessage *messages,
                     guint             n_messages,
                     gboolean          open_answer,
                     GError          **error)
{
  g_autoptr(LlmPrompt) prompt = g_new0 (LlmPrompt, 1);
  g_autoptr(GString) merged = g_string_new (NULL);
  Renderer renderer = { .self = self, .prompt = prompt, .merged = merged };

  prompt->parts = g_array_new (FALSE, FALSE, sizeof (LlmTextPart));
  prompt->texts = g_string_chunk_new (4096);
  begin (&renderer, point, n_messages > 0 ? messages[0].role : NULL);
  for (guint i = 0; i < n_messages; i++)
    {
      const char *text = messages[i].text != NULL ? messages[i].text : "";
      Role role = find_role (messages[i].role);

      if (role == N_ROLES)
        {
          g_autofree char *shown = llm_utf8_shorten (messages[i].role ? messages[i].role : "");

          llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                    "Message %u has the role “%s”, which neither the template “%s” of this "
                    "model nor any other knows; roles are system, user, assistant and tool",
                    i, shown, self->shape.name);
          return NULL;
        }
      if (!check_turn (&renderer, i, role, error))
        return NULL;

      if (role == ROLE_SYSTEM)
        add_system (&renderer, text);
      else if (role == ROLE_USER)
        add_message (&renderer, &self->shape.user, text, self->shape.trims_all);
      else if (role == ROLE_ANSWER)
        add_message (&renderer, &self->shape.answer, text,
                     self->shape.trims_all || self->shape.trims_answers);
      else
        add_tool (&renderer, text, i > 0 && is_tool (messages, n_messages, i - 1),
                  is_tool (messages, n_messages, i + 1));
    }

  if (!check_end (&renderer, open_answer, error))
    return NULL;
  if (open_answer)
    {
      add_separator (&renderer);
      add_markup (&renderer, self->shape.opener);
    }
  return g_steal_pointer (&prompt);
}
