/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a template can express, found out by rendering small conversations: nothing is read from its
 * source. */

#include "template/llm-template-private.h"

#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"

/* All of them together; those of published templates take some ten milliseconds. */
#define MAX_PROBES_US (3 * G_USEC_PER_SEC)
#define NAME LLM_TEMPLATE_PROBE_NAME
#define OTHER_NAME LLM_TEMPLATE_PROBE_OTHER_NAME
#define KEY "probe_key"
#define VALUE "probe_value"
#define TOOLS LLM_TEMPLATE_PROBE_TOOLS
#define CALL(id, name)                                                                      \
  "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"" name "\", "     \
  "\"arguments\": {\"" KEY "\": \"" VALUE "\"}}}"
#define CALLS(calls) "{\"tool_calls\": [" calls "]}"

static const LlmMessage question = { (char *) "user", (char *) "probe" };
static const LlmMessage system_text = { (char *) "system", (char *) "probe" };
static const LlmMessage call = { (char *) "assistant", (char *) "",
                                 (char *) CALLS (CALL (LLM_TEMPLATE_CALL_ID, NAME)) };
/* An id as another engine gives it. */
static const LlmMessage foreign_call = {
  (char *) "assistant", (char *) "",
  (char *) CALLS (CALL ("call_abcdefghijklmnop123456", NAME)) };
static const LlmMessage two_calls = {
  (char *) "assistant", (char *) "",
  (char *) CALLS (CALL (LLM_TEMPLATE_CALL_ID, NAME) ", " CALL (LLM_TEMPLATE_NEXT_ID, OTHER_NAME)) };
static const LlmMessage plain_answer = { (char *) "assistant", (char *) "probe" };
static const LlmMessage plain_result = { (char *) "tool", (char *) "probe" };
static const LlmMessage result = { (char *) "tool", (char *) "probe",
                                   (char *) "{\"tool_call_id\": \"" LLM_TEMPLATE_CALL_ID
                                            "\", \"name\": \"" NAME "\"}" };
static const LlmMessage other_result = {
  (char *) "tool", (char *) "probe",
  (char *) "{\"tool_call_id\": \"" LLM_TEMPLATE_NEXT_ID "\", \"name\": \"" OTHER_NAME "\"}" };

/* NULL where it is not. */
static const char *
find (const LlmJinjaOutput *out,
      const char           *text)
{
  return out->text != NULL ? memmem (out->text, out->length, text, strlen (text)) : NULL;
}

static gboolean
has_call (const LlmJinjaOutput *out)
{
  return llm_template_has_origin (out, llm_origin_of_extras (1), NULL) && find (out, NAME) != NULL
         && find (out, KEY) != NULL && find (out, VALUE) != NULL;
}

/* --- how calls are written --- */

static const struct
{
  const char *sign;     /* within the text of a call */
  const char *name;
} names[] = {
  { "<function=" NAME ">", "qwen-xml" },
  { "<|channel|>commentary", "gpt-oss" },
  { "[TOOL_CALLS]", "mistral" },
  { "<tool_call>", "hermes" },
  { "<|tool_call>call:", "gemma" },
  { "<|tool_calls_section_begin|>", "kimi" },
  { "<｜tool▁calls▁begin｜>", "deepseek" },
  { "<｜DSML｜", "deepseek-dsml" },
  { "<|START_ACTION|>", "command-r" },
  { "Action:", "command-r" },
  { "<|tool_call|>", "granite" },
  { "<|tool_call_start|>", "lfm2" },
  { "\"parameters\": {\"" KEY, "llama-3" },
};

static void
name_format (LlmTemplateFeatures  *features,
             const LlmJinjaOutput *out,
             gsize                 from)
{
  static const char *const others[] = { "none", "json", "tags", "other" };
  const LlmJinjaOutput answer = { .text = out->text + from, .length = out->length - from };

  features->format_name = others[features->format];
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (find (&answer, names[i].sign) != NULL)
      {
        features->format_name = names[i].name;
        return;
      }
}

static gboolean
ends_piece (char c)
{
  return c == '>' || c == ']' || c == '\n';
}

static gsize
count_common (const LlmJinjaOutput *a,
              const LlmJinjaOutput *b)
{
  gsize n = 0;

  while (n < MIN (a->length, b->length) && a->text[n] == b->text[n])
    n++;
  return n;
}

/* The texts around name and arguments: what lies between where an answer begins, the call's own
 * texts, and where the answer ends. */
static void
find_texts (LlmTemplate          *self,
            const LlmJinjaOutput *out,
            gsize                 answer)
{
  LlmTemplateFeatures *features = &self->features;
  const LlmJinjaOutput rest = { .text = out->text + answer, .length = out->length - answer };
  const char *end_of_all = out->text + out->length;
  const char *name = find (&rest, NAME);
  const char *key = find (&rest, KEY);
  const char *value = find (&rest, VALUE);
  const char *start, *end, *stop;
  g_autofree char *between = NULL;

  features->format = LLM_TOOL_FORMAT_OTHER;
  if (name == NULL || key == NULL || value == NULL || key > value)
    return;
  between = g_strndup (key + strlen (KEY), (gsize) (value - key) - strlen (KEY));
  if (strchr (between, '>') != NULL)
    features->format = LLM_TOOL_FORMAT_TAGS;
  start = key;
  while (start > rest.text && strchr (" \n\"", start[-1]) != NULL)
    start--;
  end = value + strlen (VALUE);
  while (end < end_of_all && strchr (" \n\"", *end) != NULL)
    end++;
  if (start == rest.text || start[-1] != '{' || start == key || end == end_of_all || *end != '}'
      || strspn (between, "\": ") != strlen (between) || strchr (between, '"') == NULL
      || name + strlen (NAME) > start - 1)
    return;

  start--;
  end++;
  features->format = LLM_TOOL_FORMAT_JSON;
  features->call_begin = g_strndup (rest.text, (gsize) (name - rest.text));
  name += strlen (NAME);
  features->call_middle = g_strndup (name, (gsize) (start - name));
  stop = end_of_all;
  for (guint i = 0; i < self->ends->len; i++)
    {
      const char *text = g_ptr_array_index (self->ends, i);
      const char *at = *text != '\0' ? memmem (end, (gsize) (end_of_all - end), text, strlen (text))
                                     : NULL;

      if (at != NULL && at < stop)
        stop = at;
    }
  features->call_end = g_strndup (end, (gsize) (stop - end));
}

/* What stands between two calls whose arguments are JSON. */
static void
find_next (LlmTemplateFeatures  *features,
           const LlmJinjaOutput *out,
           gsize                 answer)
{
  const LlmJinjaOutput rest = { .text = out->text + answer, .length = out->length - answer };
  const char *value = find (&rest, VALUE);
  const char *name = find (&rest, OTHER_NAME);
  const char *end, *start;
  LlmJinjaOutput second;

  if (features->format != LLM_TOOL_FORMAT_JSON || value == NULL || name == NULL || name < value)
    return;
  end = memchr (value, '}', (gsize) (name - value));
  second = (LlmJinjaOutput) { .text = (char *) name + strlen (OTHER_NAME) };
  second.length = (gsize) (out->text + out->length - second.text);
  start = find (&second, KEY);
  while (start != NULL && start > second.text && *start != '{')
    start--;
  if (end == NULL || start == NULL || *start != '{')
    return;
  features->call_next = g_strndup (end + 1, (gsize) (name - end - 1));
  features->next_middle = g_strndup (second.text, (gsize) (start - second.text));
}

/* Those of calls that are no JSON. */
static void
find_arguments (LlmTemplate          *self,
                const LlmJinjaOutput *out,
                gsize                 answer)
{
  const LlmJinjaOutput rest = { .text = out->text + answer, .length = out->length - answer };
  const char *name = find (&rest, NAME);
  g_autofree char *begin = NULL;

  if (name == NULL)
    return;
  begin = g_strndup (rest.text, (gsize) (name - rest.text));
  llm_template_find_arguments (self, begin);
}

static void
find_calls (LlmTemplate *self)
{
  const LlmMessage *const asked[] = { &question, NULL };
  const LlmMessage *const called[] = { &question, &call, NULL };
  const LlmMessage *const called_by_another[] = { &question, &foreign_call, NULL };
  const LlmMessage *const answered[] = { &question, &call, &result, NULL };
  const LlmMessage *const twice[] = { &question, &two_calls, &result, &other_result, NULL };
  const LlmMessage *const called_twice[] = { &question, &two_calls, NULL };
  const LlmMessage *const uncalled[] = { &question, &plain_answer, &plain_result, NULL };
  LlmTemplateFeatures *features = &self->features;
  g_auto(LlmJinjaOutput) out = { NULL };
  g_auto(LlmJinjaOutput) opened = { NULL };
  gboolean is_called = FALSE;
  gsize answer;

  features->format_name = "none";
  for (guint i = 0; i < 4 && !is_called; i++)
    {
      features->needs_text_arguments = (i & 1) != 0;
      features->needs_null_content = (i & 2) != 0;
      is_called = llm_template_probe (self, called, FALSE, TOOLS, NULL, &out, NULL)
                  && has_call (&out);
    }
  if (!is_called)
    {
      features->needs_text_arguments = features->needs_null_content = FALSE;
      features->has_tool_results = llm_template_probe (self, uncalled, TRUE, NULL, NULL, &out, NULL)
                                   && llm_template_has_origin (&out, llm_origin_of_text (2), NULL);
      return;
    }
  if (!llm_template_probe (self, asked, TRUE, TOOLS, NULL, &opened, NULL))
    return;
  answer = count_common (&opened, &out);
  /* where the prompt goes on differently, as with <think> where there is <tool_call> here, both
   * begin alike by chance */
  while (answer < opened.length && answer > 0 && !ends_piece (out.text[answer - 1]))
    answer--;
  /* and where it says more before the answer, as instructions, both end alike */
  for (gsize n = MIN (opened.length, out.length - answer); n > 0; n--)
    if (memcmp (out.text + answer, opened.text + opened.length - n, n) == 0)
      {
        answer += n;
        break;
      }
  features->needs_short_ids = !llm_template_probe (self, called_by_another, FALSE, TOOLS, NULL, &opened,
                                                   NULL);
  find_texts (self, &out, answer);
  name_format (features, &out, answer);
  features->has_tool_results = llm_template_probe (self, answered, TRUE, TOOLS, NULL, &out, NULL)
                               && llm_template_has_origin (&out, llm_origin_of_text (2), NULL);
  features->has_parallel_calls = llm_template_probe (self, twice, TRUE, TOOLS, NULL, &out, NULL)
                                 && llm_template_has_origin (&out, llm_origin_of_text (3), NULL)
                                 && find (&out, OTHER_NAME) != NULL;
  /* as the last message, like the one call above: some write ids only where results follow */
  if (features->has_parallel_calls
      && llm_template_probe (self, called_twice, FALSE, TOOLS, NULL, &out, NULL))
    find_next (features, &out, answer);
  if (features->format != LLM_TOOL_FORMAT_JSON
      && llm_template_probe (self, called, FALSE, TOOLS, NULL, &out, NULL))
    find_arguments (self, &out, answer);
}

static gboolean
find_features (LlmTemplate *self,
               GError     **error)
{
  const LlmMessage *const asked[] = { &question, NULL };
  const LlmMessage *const with_system[] = { &system_text, &question, NULL };
  LlmTemplateFeatures *features = &self->features;
  g_autoptr(GError) reason = NULL;
  g_auto(LlmJinjaOutput) out = { NULL };

  /* without tools there is None, as in transformers; some templates for tools take that for a
   * list */
  if (!llm_template_probe (self, asked, TRUE, NULL, NULL, &out, &reason)
      && reason->code != LLMSVC_ERROR_INVALID_ARGUMENT)
    {
      g_clear_error (&reason);
      self->omits_tools = TRUE;
    }
  if (reason == NULL && llm_template_probe (self, asked, TRUE, NULL, NULL, &out, &reason))
    {
      if (!llm_template_has_origin (&out, llm_origin_of_text (0), NULL))
        return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                         "it leaves out the text of a user message");
    }
  else if (reason->code != LLMSVC_ERROR_INVALID_ARGUMENT)
    {
      g_propagate_error (error, g_steal_pointer (&reason));
      return FALSE;
    }
  features->has_system = llm_template_probe (self, with_system, TRUE, NULL, NULL, &out, NULL)
                         && llm_template_has_origin (&out, llm_origin_of_text (0), NULL);
  features->has_tools = llm_template_probe (self, asked, TRUE, TOOLS, NULL, &out, NULL)
                        && llm_template_has_origin (&out, LLM_ORIGIN_DATA, NULL);
  find_calls (self);
  llm_template_find_thinking (self);
  return TRUE;
}

gboolean
llm_template_find_features (LlmTemplate *self,
                            GError     **error)
{
  g_autoptr(GError) reason = NULL;
  gboolean is_found, is_late;

  self->probes_end_us = llm_clock_thread_us () + MAX_PROBES_US;
  is_found = find_features (self, &reason);
  is_late = llm_clock_thread_us () > self->probes_end_us;
  self->probes_end_us = 0;
  if (is_late)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "it takes more than %d s of the processor's time for a few short conversations",
                     MAX_PROBES_US / G_USEC_PER_SEC);
  if (!is_found)
    g_propagate_error (error, g_steal_pointer (&reason));
  return is_found;
}

void
llm_template_clear_features (LlmTemplateFeatures *features)
{
  g_clear_pointer (&features->call_begin, g_free);
  g_clear_pointer (&features->call_middle, g_free);
  g_clear_pointer (&features->call_end, g_free);
  g_clear_pointer (&features->call_next, g_free);
  g_clear_pointer (&features->next_middle, g_free);
  g_clear_pointer (&features->think_begin, g_free);
  g_clear_pointer (&features->think_end, g_free);
  g_clear_pointer (&features->arguments, llm_argument_texts_free);
}

char *
llm_template_describe (LlmTemplate *self)
{
  const LlmTemplateFeatures *features = &self->features;
  GString *text = g_string_new (features->has_system ? "system" : "no system");

  if (features->has_tools || features->format != LLM_TOOL_FORMAT_NONE)
    g_string_append_printf (text, ", tools (%s)", features->format_name);
  if (features->has_thinking)
    g_string_append (text, features->has_effort ? ", thinking (low, medium, high)" : ", thinking");
  return g_string_free (text, FALSE);
}
