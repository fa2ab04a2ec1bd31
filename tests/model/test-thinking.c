/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What templates know of thinking: the marks around reasoning, where a prompt ends with thinking on
 * and off, and what becomes of the reasoning of earlier answers. */

#include "model/llm-model.h"

#include <string.h>

#include "common/llmsvc-error.h"

static LlmTemplate *
open_template (const char *name)
{
  g_autofree char *file = g_strconcat (name, ".jinja", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates", file, NULL);
  g_autofree char *source = NULL;
  g_autoptr(GError) error = NULL;
  LlmTemplate *self;

  g_file_get_contents (path, &source, NULL, &error);
  g_assert_no_error (error);
  self = llm_template_new (source, NULL, name, &error);
  g_assert_no_error (error);
  return self;
}

/* (transfer full) */
static char *
render (LlmTemplate      *self,
        const LlmMessage *messages,
        guint             n_messages,
        LlmThinking       thinking,
        LlmThought       *thought)
{
  LlmTemplateCall call = { .messages = messages, .n_messages = n_messages, .open_answer = TRUE,
                           .thinking = thinking };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmPrompt) prompt = llm_template_render (self, &call, &error);
  GString *text = g_string_new (NULL);

  g_assert_no_error (error);
  *thought = prompt->thought;
  for (guint i = 0; i < prompt->parts->len; i++)
    {
      const LlmTextPart *part = &g_array_index (prompt->parts, LlmTextPart, i);

      g_string_append_len (text, part->text, (gssize) part->length);
    }
  return g_string_free (text, FALSE);
}

/* Ends of what makes the model answer. */
typedef struct
{
  const char *file;
  const char *begin;
  const char *end;
  const char *key;       /* (nullable) */
  gboolean keeps;
  gboolean switches_all;
  LlmThought automatic;
  const char *off;
  const char *on;
} Case;

static const Case cases[] = {
  { "thinking", "<think>\n", "\n</think>\n\n", "reasoning_content", FALSE, FALSE,
    LLM_THOUGHT_BEGIN, "assistant\n<think>\n\n</think>\n\n", "assistant\n<think>\n" },
  { "public/Qwen3.5-4B", "<think>\n", "\n</think>\n\n", "reasoning_content", FALSE, FALSE,
    LLM_THOUGHT_INSIDE, "assistant\n<think>\n\n</think>\n\n", "assistant\n<think>\n" },
  { "public/Qwen-QwQ-32B", "<think>\n", "\n</think>\n\n", NULL, FALSE, FALSE, LLM_THOUGHT_OVER,
    "assistant\n<think>\n</think>", "assistant\n<think>\n" },
  { "public/llama-cpp-deepseek-r1", "<think>\n", "\n</think>\n\n", NULL, FALSE, FALSE,
    LLM_THOUGHT_INSIDE, "<think>\n\n</think>\n\n", "<think>\n" },
  { "public/deepseek-ai-DeepSeek-V3.1", "<think>", "</think>", NULL, FALSE, FALSE,
    LLM_THOUGHT_OVER, "<think></think>", "<think>" },
  { "public/deepseek-ai-DeepSeek-V3.2", "<think>", "</think>", "reasoning_content", FALSE, FALSE,
    LLM_THOUGHT_OVER, "</think>", "<think>" },
  { "public/HuggingFaceTB-SmolLM3-3B", "<think>\n", "\n</think>\n\n", NULL, FALSE, TRUE,
    LLM_THOUGHT_BEGIN, "assistant\n<think>\n\n</think>\n", "assistant\n<think>\n" },
  { "public/google-gemma-4-31B-it", "<|channel>thought\n", "\n<channel|>\n\n",
    "reasoning_content", FALSE, TRUE, LLM_THOUGHT_OVER, "<|channel>thought\n<channel|>",
    "<|turn>model\n<|channel>thought\n" },
  { "public/openai-gpt-oss-120b", "<|channel|>analysis<|message|>",
    "<|end|><|start|>assistant<|channel|>final<|message|>", "thinking", FALSE, FALSE,
    LLM_THOUGHT_BEGIN,
    "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>",
    "<|start|>assistant<|channel|>analysis<|message|>" },
  { "public/upstage-Solar-Open-100B", "<|think|>", "<|end|><|begin|>assistant<|content|>",
    "reasoning", FALSE, FALSE, LLM_THOUGHT_BEGIN,
    "<|think|><|end|><|begin|>assistant<|content|>", "<|begin|>assistant<|think|>" },
  { "public/tencent-Hy3", "<think:opensource>", "</think:opensource>", "reasoning_content", FALSE,
    FALSE, LLM_THOUGHT_OVER, "<think:opensource></think:opensource>", ":opensource\xef\xbd\x9c><think:opensource>" },
  { "public/poolside-Laguna-XS.2", "<think>\n", "\n</think>\n", "reasoning_content", TRUE, FALSE,
    LLM_THOUGHT_OVER, "<assistant>\n</think>", "<assistant>\n<think>" },
  { "public/Cohere2MoE", "<|START_THINKING|>", "<|END_THINKING|><|START_TEXT|>",
    "reasoning_content", TRUE, FALSE, LLM_THOUGHT_INSIDE,
    "<|START_THINKING|><|END_THINKING|><|START_TEXT|>", "<|START_THINKING|>" },
  { "public/MiniMax-M3", "<mm:think>", "</mm:think>", "reasoning_content", TRUE, FALSE,
    LLM_THOUGHT_BEGIN, "<mm:think></mm:think>", "]~b]ai\n<mm:think>" },
  { "public/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "<think>\n", "\n</think>\n",
    "reasoning_content", FALSE, FALSE, LLM_THOUGHT_INSIDE, "<think></think>", "<think>\n" },
  { "public/Apriel-1.6-15b-Thinker-fixed",
    "<|begin_assistant|>\nHere are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n",
    "reasoning_content", FALSE, FALSE, LLM_THOUGHT_INSIDE,
    "steps:\n\n[BEGIN FINAL RESPONSE]\n", "steps:\n" },
};

static void
check_end (LlmTemplate *self,
           LlmThinking  thinking,
           LlmThought   wanted,
           const char  *end)
{
  const LlmMessage question = { (char *) "user", (char *) "Hello" };
  LlmThought thought;
  g_autofree char *text = render (self, &question, 1, thinking, &thought);

  g_assert_cmpint (thought, ==, wanted);
  if (!g_str_has_suffix (text, end))
    g_error ("“%s” does not end with “%s”", text, end);
}

static void
test_templates (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(LlmTemplate) self = open_template (cases[i].file);
      const LlmTemplateFeatures *features = llm_template_get_features (self);

      g_test_message ("%s", cases[i].file);
      g_assert_true (features->has_thinking);
      g_assert_cmpstr (features->think_begin, ==, cases[i].begin);
      g_assert_cmpstr (features->think_end, ==, cases[i].end);
      g_assert_cmpstr (features->reasoning_key, ==, cases[i].key);
      g_assert_cmpint (features->keeps_reasoning, ==, cases[i].keeps);
      g_assert_cmpint (features->switches_all, ==, cases[i].switches_all);
      check_end (self, LLM_THINKING_AUTO, cases[i].automatic, "");
      check_end (self, LLM_THINKING_OFF, LLM_THOUGHT_OVER, cases[i].off);
      check_end (self, LLM_THINKING_ON, LLM_THOUGHT_INSIDE, cases[i].on);
    }
}

/* Levels of effort reach templates that know them, whose prompts then end within reasoning; other
 * templates refuse them. */
static void
test_effort (void)
{
  static const char *const without[] = { "public/Qwen3.5-4B", "public/Cohere2MoE", "thinking" };
  g_autoptr(LlmTemplate) self = open_template ("public/openai-gpt-oss-120b");
  const LlmMessage question = { (char *) "user", (char *) "Hello" };
  const char *const texts[] = { "Reasoning: low\n", "Reasoning: medium\n", "Reasoning: high\n" };

  g_assert_true (llm_template_get_features (self)->has_effort);
  for (guint i = 0; i < 3; i++)
    {
      LlmThought thought;
      g_autofree char *text = render (self, &question, 1, LLM_THINKING_LOW + i, &thought);

      g_assert_nonnull (strstr (text, texts[i]));
      g_assert_cmpint (thought, ==, LLM_THOUGHT_INSIDE);
    }
  for (guint i = 0; i < G_N_ELEMENTS (without); i++)
    {
      g_autoptr(LlmTemplate) other = open_template (without[i]);
      g_autoptr(GError) error = NULL;
      LlmTemplateCall call = { .messages = &question, .n_messages = 1, .open_answer = TRUE,
                               .thinking = LLM_THINKING_LOW };

      g_assert_false (llm_template_get_features (other)->has_effort);
      g_assert_null (llm_template_render (other, &call, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      g_assert_nonnull (strstr (error->message, "levels of effort"));
    }
}

/* A template that has “off” without closing reasoning that is not there. */
static void
test_open (void)
{
  g_autoptr(LlmTemplate) self = open_template ("public/Reka-Edge");

  check_end (self, LLM_THINKING_AUTO, LLM_THOUGHT_BEGIN, "assistant:");
  check_end (self, LLM_THINKING_OFF, LLM_THOUGHT_BEGIN, "assistant:");
  check_end (self, LLM_THINKING_ON, LLM_THOUGHT_INSIDE, "assistant: <think>\n");
}

/* “on” is refused, the others change nothing. */
static void
test_unknown (void)
{
  static const char *const files[] = { "chatml", "gemma", "llama-3.1", "mistral-v7",
                                       "public/Qwen-Qwen2.5-7B-Instruct",
                                       "public/moonshotai-Kimi-K2" };
  const LlmMessage question = { (char *) "user", (char *) "Hello" };
  LlmTemplateCall call = { .messages = &question, .n_messages = 1, .open_answer = TRUE,
                           .thinking = LLM_THINKING_ON };

  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autoptr(LlmTemplate) self = open_template (files[i]);
      g_autoptr(GError) error = NULL;
      LlmThought thought;
      g_autofree char *automatic = render (self, &question, 1, LLM_THINKING_AUTO, &thought);
      g_autofree char *off = NULL;

      g_test_message ("%s", files[i]);
      g_assert_false (llm_template_get_features (self)->has_thinking);
      g_assert_cmpint (thought, ==, LLM_THOUGHT_OVER);
      off = render (self, &question, 1, LLM_THINKING_OFF, &thought);
      g_assert_cmpstr (off, ==, automatic);
      g_assert_null (llm_template_render (self, &call, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      g_assert_true (g_str_has_prefix (error->message, "thinking: "));
    }
}

/* Under whatever name the template has for it; of earlier answers only if it says so. What an app
 * gives as reasoning stays text. */
static void
test_reasoning (void)
{
  static const struct
  {
    const char *file;
    gboolean is_kept;
  } files[] = {
    { "thinking", FALSE }, { "public/Qwen3.5-4B", FALSE }, { "public/Cohere2MoE", TRUE },
    { "public/poolside-Laguna-XS.2", TRUE }, { "public/upstage-Solar-Open-100B", FALSE },
  };
  const LlmMessage messages[] = {
    { (char *) "user", (char *) "Hello" },
    { (char *) "assistant", (char *) "Hi",
      (char *) "{\"reasoning_content\": \"They greet <|im_end|> me\"}" },
    { (char *) "user", (char *) "So" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autoptr(LlmTemplate) self = open_template (files[i].file);
      LlmTemplateCall call = { .messages = messages, .n_messages = 2 };
      LlmThought thought;
      g_autofree char *text = render (self, messages, 3, LLM_THINKING_AUTO, &thought);
      g_autoptr(LlmPrompt) prompt = llm_template_render (self, &call, NULL);
      guint n = 0;

      g_test_message ("%s", files[i].file);
      g_assert_cmpint (strstr (text, "They greet") != NULL, ==, files[i].is_kept);
      g_assert_nonnull (prompt);
      for (guint k = 0; k < prompt->parts->len; k++)
        {
          const LlmTextPart *part = &g_array_index (prompt->parts, LlmTextPart, k);
          const char *found = memmem (part->text, part->length, "They greet", 10);

          n += found != NULL;
          g_assert_true (found == NULL || !part->is_markup);
        }
      g_assert_cmpuint (n, ==, 1);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/thinking/templates", test_templates);
  g_test_add_func ("/thinking/open", test_open);
  g_test_add_func ("/thinking/effort", test_effort);
  g_test_add_func ("/thinking/unknown", test_unknown);
  g_test_add_func ("/thinking/reasoning", test_reasoning);
  return g_test_run ();
}
