/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a template has its model reason before it answers: found out by rendering small
 * conversations, as in llm-template-features.c. Where it writes the reasoning of earlier answers,
 * what stands around that shows the marks; else those that are usual are looked for. */

#include "template/llm-template-private.h"

#include <string.h>

#define REASONING "probe_reasoning"
#define ANSWER "probe_answer"
#define TOOLS                                                                                     \
  "[{\"type\": \"function\", \"function\": {\"name\": \"probe_tool\", \"description\": \"probe\", "   \
  "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}]"
#define CALLS                                                                                     \
  ", \"tool_calls\": [{\"id\": \"" LLM_TEMPLATE_CALL_ID "\", \"type\": \"function\", \"function\": " \
  "{\"name\": \"probe_tool\", \"arguments\": {}}}]"
#define SPACES " \t\r\n"

/* Members of an answer that hold its reasoning. */
static const char *const keys[] = { "reasoning_content", "reasoning", "thinking" };

/* Usual marks, for templates that write no reasoning. */
static const struct
{
  const char *begin;
  const char *end;
} marks[] = {
  { "<think>", "</think>" },
  { "<thinking>", "</thinking>" },
  { "<reasoning>", "</reasoning>" },
  { "<thought>", "</thought>" },
  { "<seed:think>", "</seed:think>" },
  { "[THINK]", "[/THINK]" },
  { "<|START_THINKING|>", "<|END_THINKING|>" },
  { "<|channel>thought", "<channel|>" },
  { "<|channel|>analysis<|message|>",
    "<|end|><|start|>assistant<|channel|>final<|message|>" },
};

static const LlmMessage question = { (char *) "user", (char *) "probe" };

static const char *
find (const LlmJinjaOutput *out,
      const char           *text)
{
  return out->text != NULL ? memmem (out->text, out->length, text, strlen (text)) : NULL;
}

static gboolean
is_same (const LlmJinjaOutput *a,
         const LlmJinjaOutput *b)
{
  return a->length == b->length && memcmp (a->text, b->text, a->length) == 0;
}

/* Bytes of @out without the spaces at its end. */
static gsize
get_trimmed (const LlmJinjaOutput *out)
{
  gsize n = out->length;

  while (n > 0 && strchr (SPACES, out->text[n - 1]) != NULL)
    n--;
  return n;
}

/* Whether @out ends with @mark, which may have spaces around it, in the template's own text. */
static gboolean
ends_with (const LlmJinjaOutput *out,
           const char           *mark)
{
  g_autofree char *core = g_strstrip (g_strdup (mark));
  gsize n = get_trimmed (out);
  gsize length = strlen (core);

  return n >= length && llm_template_is_markup (out, n - 1)
         && memcmp (out->text + n - length, core, length) == 0;
}

/* --- marks around reasoning that the template writes --- */

/* Where the mark before @reasoning begins: at a tag that begins what the prompt lacks, or, where
 * the prompt ends with the mark, at the last tag. */
static const char *
find_begin (const LlmJinjaOutput *prompt,
            const LlmJinjaOutput *out,
            const char           *reasoning)
{
  gsize max = MIN (prompt->length, (gsize) (reasoning - out->text));
  gsize n = 0;
  const char *at;

  while (n < max && prompt->text[n] == out->text[n])
    n++;
  /* where a prompt goes on otherwise, both begin alike by chance */
  while (n < prompt->length && n > 0 && strchr (">]\n", out->text[n - 1]) == NULL)
    n--;
  at = out->text + n;
  while (at < reasoning && strchr (SPACES, *at) != NULL)
    at++;
  if (at < reasoning && strchr ("<[", *at) != NULL)
    return at;
  for (at = reasoning; at > out->text && strchr ("<[", *at) == NULL;)
    at--;
  return at;
}

/* (transfer full): the mark from @begin on, up to @reasoning. Where the prompt goes on behind it, as
 * with “Here are my reasoning steps:”, all of that. @end: the mark behind reasoning. */
static char *
dup_begin (const LlmJinjaOutput *prompt,
           const char           *begin,
           const char           *reasoning,
           const char           *end)
{
  g_autofree char *core = g_strstrip (g_strndup (begin, (gsize) (reasoning - begin)));
  gsize n = strlen (core);
  gsize at = prompt->length;

  while (at > 0 && (at + n > prompt->length || memcmp (prompt->text + at, core, n) != 0))
    at--;
  if (at > 0 && get_trimmed (prompt) > at + n
      && memmem (prompt->text + at, prompt->length - at, end, strlen (end)) == NULL)
    return g_strndup (prompt->text + at, prompt->length - at);
  return g_strndup (begin, (gsize) (reasoning - begin));
}

/* Takes the marks from @out, where the answer to @prompt has reasoning. */
static void
take_marks (LlmTemplateFeatures  *features,
            const LlmJinjaOutput *prompt,
            const LlmJinjaOutput *out)
{
  const char *reasoning = find (out, REASONING);
  const char *answer = find (out, ANSWER);
  const char *begin, *end;
  g_autofree char *begin_core = NULL;
  g_autofree char *end_core = NULL;

  if (reasoning == NULL || answer == NULL || answer < reasoning)
    return;
  begin = find_begin (prompt, out, reasoning);
  end = reasoning + strlen (REASONING);
  begin_core = g_strstrip (g_strndup (begin, (gsize) (reasoning - begin)));
  end_core = g_strstrip (g_strndup (end, (gsize) (answer - end)));
  if (*begin_core == '\0' || strchr ("<[", *begin_core) == NULL || *end_core == '\0')
    return;
  features->think_begin = dup_begin (prompt, begin, reasoning, end_core);
  features->think_end = g_strndup (end, (gsize) (answer - end));
}

static void
find_reasoning (LlmTemplate *self)
{
  LlmTemplateFeatures *features = &self->features;
  const LlmMessage *const asked[] = { &question, NULL };
  g_auto(LlmJinjaOutput) prompt = { NULL };
  g_auto(LlmJinjaOutput) out = { NULL };

  if (!llm_template_probe (self, asked, TRUE, NULL, LLM_TEMPLATE_THINKS, &prompt, NULL))
    return;
  for (guint i = 0; i < 2 * G_N_ELEMENTS (keys) && features->reasoning_key == NULL; i++)
    {
      gboolean has_call = i >= G_N_ELEMENTS (keys);
      const char *key = keys[i % G_N_ELEMENTS (keys)];
      g_autofree char *extras = g_strdup_printf ("{\"%s\": \"" REASONING "\"%s}", key,
                                                 has_call ? CALLS : "");
      const LlmMessage thought = { (char *) "assistant", (char *) (has_call ? "" : ANSWER),
                                   extras };
      const LlmMessage result = { (char *) "tool", (char *) "probe",
                                  (char *) "{\"tool_call_id\": \"" LLM_TEMPLATE_CALL_ID
                                           "\", \"name\": \"probe_tool\"}" };
      const LlmMessage *const answered[] = { &question, &thought, has_call ? &result : NULL, NULL };
      const LlmMessage *const before[] = { &question, &thought, has_call ? &result : &question,
                                           has_call ? &question : NULL, NULL };

      if (!llm_template_probe (self, answered, FALSE, has_call ? TOOLS : NULL, LLM_TEMPLATE_THINKS, &out, NULL)
          || find (&out, REASONING) == NULL)
        continue;
      features->reasoning_key = key;
      take_marks (features, &prompt, &out);
      features->keeps_reasoning =
        llm_template_probe (self, before, TRUE, has_call ? TOOLS : NULL, NULL, &out, NULL)
        && find (&out, REASONING) != NULL;
    }
}

/* --- usual marks --- */

/* Whether the template takes reasoning between these marks out of an earlier answer. */
static gboolean
takes_out (LlmTemplate *self,
           const char  *begin,
           const char  *end)
{
  g_autofree char *text = g_strdup_printf ("%s\n" REASONING "\n%s\n\n" ANSWER, begin, end);
  const LlmMessage answer = { (char *) "assistant", text };
  const LlmMessage *const before[] = { &question, &answer, &question, NULL };
  g_auto(LlmJinjaOutput) out = { NULL };

  return llm_template_probe (self, before, TRUE, NULL, NULL, &out, NULL)
         && find (&out, ANSWER) != NULL && find (&out, REASONING) == NULL;
}

static void
find_usual_marks (LlmTemplate          *self,
                  const LlmJinjaOutput *on,
                  const LlmJinjaOutput *off)
{
  LlmTemplateFeatures *features = &self->features;

  for (guint i = 0; i < G_N_ELEMENTS (marks) && features->think_end == NULL; i++)
    {
      gboolean is_open = ends_with (on, marks[i].begin);
      const char *space = is_open && get_trimmed (on) == on->length ? "" : "\n";

      if (!is_open && !ends_with (off, marks[i].end)
          && !takes_out (self, marks[i].begin, marks[i].end))
        continue;
      features->think_begin = g_strconcat (marks[i].begin, space, NULL);
      features->think_end = g_strconcat (space, marks[i].end, space, space, NULL);
    }
}

static gboolean
has_effort (LlmTemplate             *self,
            const LlmMessage *const *asked)
{
  g_auto(LlmJinjaOutput) low = { NULL };
  g_auto(LlmJinjaOutput) high = { NULL };

  return llm_template_probe (self, asked, TRUE, NULL, LLM_TEMPLATE_THINKS_AT ("low"), &low, NULL)
         && llm_template_probe (self, asked, TRUE, NULL, LLM_TEMPLATE_THINKS_AT ("high"), &high, NULL)
         && !is_same (&low, &high);
}

void
llm_template_find_thinking (LlmTemplate *self)
{
  LlmTemplateFeatures *features = &self->features;
  const LlmMessage *const asked[] = { &question, NULL };
  g_auto(LlmJinjaOutput) on = { NULL };
  g_auto(LlmJinjaOutput) off = { NULL };

  if (!llm_template_probe (self, asked, TRUE, NULL, LLM_TEMPLATE_THINKS, &on, NULL)
      || !llm_template_probe (self, asked, TRUE, NULL, LLM_TEMPLATE_THINKS_NOT, &off, NULL))
    return;
  features->has_switch = !is_same (&on, &off);
  find_reasoning (self);
  if (features->think_end == NULL)
    find_usual_marks (self, &on, &off);
  features->has_thinking = features->think_end != NULL;
  features->has_effort = features->has_thinking && has_effort (self, asked);
  features->switches_all = llm_template_probe (self, asked, FALSE, NULL, LLM_TEMPLATE_THINKS, &on, NULL)
                           && llm_template_probe (self, asked, FALSE, NULL, LLM_TEMPLATE_THINKS_NOT, &off, NULL)
                           && !is_same (&on, &off);
}

/* --- prompts --- */

/* Where @mark begins at the end of the @n first bytes of @out, and spaces before it; else @n. */
static gsize
cut (const LlmJinjaOutput *out,
     gsize                 n,
     const char           *mark)
{
  LlmJinjaOutput head = *out;
  g_autofree char *core = g_strstrip (g_strdup (mark));
  gsize trimmed;

  head.length = n;
  if (!ends_with (&head, mark))
    return n;
  trimmed = get_trimmed (&head) - strlen (core);
  while (trimmed > 0 && strchr (SPACES, out->text[trimmed - 1]) != NULL)
    trimmed--;
  return trimmed;
}

char *
llm_template_complete_thought (LlmTemplate    *self,
                               LlmJinjaOutput *out,
                               LlmThinking     thinking,
                               LlmThought     *thought)
{
  const LlmTemplateFeatures *features = &self->features;
  LlmThought found = LLM_THOUGHT_BEGIN;
  gsize before_end;

  if (ends_with (out, features->think_begin))
    found = LLM_THOUGHT_INSIDE;
  else if (ends_with (out, features->think_end))
    found = LLM_THOUGHT_OVER;
  *thought = found;
  if (thinking == LLM_THINKING_AUTO)
    return NULL;
  *thought = thinking >= LLM_THINKING_ON ? LLM_THOUGHT_INSIDE : LLM_THOUGHT_OVER;
  if (*thought == found)
    return NULL;
  if (thinking >= LLM_THINKING_ON)
    {
      /* one that only another variable would open */
      before_end = cut (out, out->length, features->think_end);
      if (before_end < out->length)
        out->length = cut (out, before_end, features->think_begin);
      return g_strdup (features->think_begin);
    }
  if (found == LLM_THOUGHT_INSIDE)
    return g_strdup (features->think_end);
  if (!features->has_switch)
    return g_strconcat (features->think_begin, features->think_end, NULL);
  /* the template says that in another way, and the model may think all the same */
  *thought = found;
  return NULL;
}
