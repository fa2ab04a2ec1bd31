/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tools: how models write calls, by their chat templates; what the grammar of such answers allows;
 * how calls are read; and what is refused. */

#include <json-glib/json-glib.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "constraints/llm-mask.h"
#include "constraints/tools/llm-call-read.h"
#include "constraints/tools/llm-tool-grammar.h"
#include "constraints/tools/llm-tool-messages.h"

#define TOOLS                                                                                     \
  "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"x\", "    \
  "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", "      \
  "\"description\": \"x\"}, \"days\": {\"type\": \"integer\", \"description\": \"x\", "         \
  "\"minimum\": 1, \"maximum\": 9}}, \"required\": [\"city\"]}}}, " \
  "{\"type\": \"function\", \"function\": {\"name\": \"get_time\"}}]"
#define WEATHER "{\"city\": \"Bonn\", \"days\": 3}"
#define QWEN_WEATHER                                                                             \
  "<tool_call>\n<function=get_weather>\n<parameter=city>\nBonn\n</parameter>\n<parameter=days>\n3\n"  \
  "</parameter>\n</function>\n</tool_call>"
#define QWEN_TIME "<tool_call>\n<function=get_time>\n</function>\n</tool_call>"
#define DSML_WEATHER                                                                             \
  "<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Bonn"       \
  "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n"       \
  "</｜DSML｜invoke>\n"
#define DSML_TIME "<｜DSML｜invoke name=\"get_time\">\n</｜DSML｜invoke>\n"
#define DSML_END "</｜DSML｜function_calls><｜end▁of▁sentence｜>"
#define LAGUNA_WEATHER                                                                           \
  "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bonn</arg_value>\n"                \
  "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n"
#define LAGUNA_TIME "<tool_call>get_time\n</tool_call>\n"
#define GEMMA_WEATHER                                                                            \
  "<|tool_call>call:get_weather{city:<|\"|>Bonn<|\"|>,days:3}<tool_call|>"
#define GEMMA_END "<turn|>\n"
#define EXTRAS                                                                                    \
  "{\"tool_calls\": [{\"id\": \"abcdefghi\", \"type\": \"function\", \"function\": {\"name\": "     \
  "\"get_weather\", \"arguments\": " WEATHER "}}%s]}"
#define SECOND                                                                                    \
  ", {\"id\": \"abcdefghj\", \"type\": \"function\", \"function\": {\"name\": \"get_time\", "       \
  "\"arguments\": {}}}"

static LlmTemplate *
open_template (const char   *name,
               LlmTokenizer *tokenizer)
{
  g_autofree char *file = g_strconcat (name, ".jinja", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates", file, NULL);
  g_autofree char *source = NULL;
  g_autoptr(GError) error = NULL;
  LlmTemplate *self;

  g_file_get_contents (path, &source, NULL, &error);
  g_assert_no_error (error);
  self = llm_template_new (source, tokenizer, name, &error);
  g_assert_no_error (error);
  return self;
}

static LlmTools *
read_tools (const char *choice,
            gboolean    is_parallel)
{
  g_autoptr(GError) error = NULL;
  LlmTools *tools = llm_tools_read (TOOLS, choice, is_parallel, FALSE, &error);

  g_assert_no_error (error);
  return tools;
}

/* Whether the grammar allows the @length bytes, and they may end there. @n_ends: (out) (optional):
 * the most bytes with which they may. */
static gboolean
accepts (LlmGrammar *grammar,
         const char *text,
         gsize       length,
         gsize      *n_ends)
{
  g_autoptr(GArray) threads = g_array_new (FALSE, FALSE, sizeof (LlmThread));
  LlmThread start = { grammar->start, LLM_STACK_BOTTOM };
  LlmStacks stacks;
  gboolean can_end;

  llm_stacks_init (&stacks);
  can_end = llm_threads_add (threads, 0, grammar, &stacks, start);
  for (gsize i = 0; i < length; i++)
    {
      guint n = threads->len;

      can_end = FALSE;
      for (guint k = 0; k < n; k++)
        {
          LlmThread thread = g_array_index (threads, LlmThread, k);

          thread.state = llm_grammar_step (grammar, thread.state, (guint8) text[i]);
          if (thread.state != LLM_DEAD)
            can_end |= llm_threads_add (threads, n, grammar, &stacks, thread);
        }
      g_array_remove_range (threads, 0, n);
      if (can_end && n_ends != NULL)
        *n_ends = i + 1;
    }
  llm_stacks_clear (&stacks);
  return can_end;
}

/* Of the format that is tried: compiling one takes long. */
static GHashTable *grammars;

static void
forget_grammars (void)
{
  g_clear_pointer (&grammars, g_hash_table_unref);
}

static LlmGrammar *
get_grammar (const LlmCallFormat *format,
             const char          *choice,
             gboolean             is_parallel)
{
  g_autofree char *key = g_strdup_printf ("%s %d", choice, is_parallel);
  LlmGrammar *grammar;

  if (grammars == NULL)
    grammars = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                      (GDestroyNotify) llm_grammar_unref);
  grammar = g_hash_table_lookup (grammars, key);
  if (grammar == NULL)
    {
      g_autoptr(LlmTools) tools = read_tools (choice, is_parallel);
      g_autoptr(GError) error = NULL;

      grammar = llm_tool_grammar_new (tools, format, &error);
      g_assert_no_error (error);
      g_hash_table_insert (grammars, g_steal_pointer (&key), grammar);
    }
  return grammar;
}

static gboolean
allows (const LlmCallFormat *format,
        const char          *choice,
        gboolean             is_parallel,
        const char          *text)
{
  return accepts (get_grammar (format, choice, is_parallel), text, strlen (text), NULL);
}

/* The calls in @text are the first @n of the two above. */
static void
check_calls (const LlmCallFormat *format,
             const char          *text,
             guint                n)
{
  static const char *const names[] = { "get_weather", "get_time" };
  static const char *const arguments[] = { WEATHER, "{}" };
  gboolean is_cut;
  const LlmGrammar *grammar = get_grammar (format, "required", TRUE);
  g_autofree char *calls = llm_call_format_read (format, grammar, text, strlen (text), &is_cut);
  g_autoptr(JsonNode) root = NULL;

  g_assert_nonnull (calls);
  g_assert_false (is_cut);
  root = json_from_string (calls, NULL);
  g_assert_nonnull (root);
  g_assert_cmpuint (json_array_get_length (json_node_get_array (root)), ==, n);
  for (guint i = 0; i < n; i++)
    {
      JsonObject *call = json_array_get_object_element (json_node_get_array (root), i);
      JsonObject *function = json_object_get_object_member (call, "function");
      g_autoptr(JsonNode) read =
        json_from_string (json_object_get_string_member (function, "arguments"), NULL);
      g_autoptr(JsonNode) wanted = json_from_string (arguments[i], NULL);

      g_assert_cmpstr (json_object_get_string_member (call, "type"), ==, "function");
      g_assert_cmpuint (strlen (json_object_get_string_member (call, "id")), ==, 9);
      g_assert_cmpstr (json_object_get_string_member (function, "name"), ==, names[i]);
      g_assert_true (json_node_equal (read, wanted));
    }
}

static const struct
{
  const char *file;
  const char *one;
  const char *two;
} cases[] = {
  { "chatml", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " WEATHER "}\n</tool_call>",
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " WEATHER "}\n</tool_call>\n<tool_call>\n"
    "{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>" },
  /* without a vocabulary it is not known what ends an answer of some of these */
  /* what a SentencePiece vocabulary makes of it */
  { "phi-3", "<tool_call> {\"name\":\"get_weather\",\"arguments\":" WEATHER "}</tool_call>", NULL },
  { "public/Qwen-Qwen2.5-7B-Instruct",
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " WEATHER "}\n</tool_call>",
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " WEATHER "}\n</tool_call>\n<tool_call>\n"
    "{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>" },
  { "public/meta-llama-Llama-3.1-8B-Instruct",
    "{\"name\": \"get_weather\", \"parameters\": " WEATHER "}", NULL },
  { "public/mistralai-Mistral-Nemo-Instruct-2407",
    "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": " WEATHER ", \"id\": \"abcdefghi\"}]",
    "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": " WEATHER ", \"id\": \"abcdefghi\"}, "
    "{\"name\": \"get_time\", \"arguments\": {}, \"id\": \"abcdefghj\"}]" },
  { "public/Mistral-Small-3.2-24B-Instruct-2506",
    "[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]" WEATHER,
    "[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]" WEATHER
    "[TOOL_CALLS]get_time[CALL_ID]abcdefghj[ARGS]{}" },
  { "public/moonshotai-Kimi-K2",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
    "<|tool_call_argument_begin|>" WEATHER "<|tool_call_end|><|tool_calls_section_end|>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
    "<|tool_call_argument_begin|>" WEATHER "<|tool_call_end|><|tool_call_begin|>functions.get_time:1"
    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>" },
  { "public/deepseek-ai-DeepSeek-V3.1",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" WEATHER
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" WEATHER
    "<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>" },
  { "public/upstage-Solar-Open-100B",
    "<|tool_calls|><|tool_call:begin|>abcdefghi<|tool_call:name|>get_weather<|tool_call:args|>" WEATHER
    "<|tool_call:end|><|calls|>", NULL },
  /* each argument in tags of its own, or as code */
  { "public/Qwen3.5-4B", QWEN_WEATHER, QWEN_WEATHER "\n" QWEN_TIME },
  { "public/StepFun3.5-Flash", QWEN_WEATHER, QWEN_WEATHER QWEN_TIME },
  { "public/deepseek-ai-DeepSeek-V3.2", "<｜DSML｜function_calls>\n" DSML_WEATHER DSML_END,
    "<｜DSML｜function_calls>\n" DSML_WEATHER DSML_TIME DSML_END },
  { "public/poolside-Laguna-XS.2", LAGUNA_WEATHER "</assistant>\n",
    LAGUNA_WEATHER LAGUNA_TIME "</assistant>\n" },
  { "public/google-gemma-4-31B-it-interleaved", GEMMA_WEATHER GEMMA_END,
    GEMMA_WEATHER "<|tool_call>call:get_time{}<tool_call|>" GEMMA_END },
  { "public/LFM2.5-8B-A1B",
    "<|tool_call_start|>[get_weather(city='Bonn', days=3)]<|tool_call_end|>",
    "<|tool_call_start|>[get_weather(city=\"Bonn\", days=3), get_time()]<|tool_call_end|>" },
  /* tags within tags: the general way */
  { "public/MiniMax-M3",
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " WEATHER "}\n</tool_call>", NULL },
};

static void
test_formats (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(LlmTemplate) template = open_template (cases[i].file, NULL);
      g_autoptr(LlmCallFormat) format =
        llm_call_format_new (llm_template_get_features (template), NULL);
      g_autofree char *behind_text = g_strconcat ("Let me see.\n", cases[i].one, NULL);
      g_autoptr(GString) wrong = g_string_new (cases[i].one);

      g_test_message ("%s: %s|%s|%s|%s|%s", cases[i].file, format->begin, format->middle,
                      format->end, format->next, format->next_middle);
      g_assert_true (allows (format, "required", FALSE, cases[i].one));
      g_assert_true (allows (format, "auto", FALSE, cases[i].one));
      g_assert_true (allows (format, "get_weather", TRUE, cases[i].one));
      g_assert_false (allows (format, "get_time", TRUE, cases[i].one));
      g_assert_false (allows (format, "none", TRUE, cases[i].one));
      check_calls (format, cases[i].one, 1);
      if (cases[i].two != NULL)
        {
          g_assert_true (allows (format, "required", TRUE, cases[i].two));
          g_assert_true (allows (format, "auto", TRUE, cases[i].two));
          g_assert_false (allows (format, "auto", FALSE, cases[i].two));
          g_assert_false (allows (format, "get_weather", TRUE, cases[i].two));
          check_calls (format, cases[i].two, 2);
        }

      g_assert_true (allows (format, "auto", FALSE, "Let me see."));
      g_assert_true (allows (format, "none", FALSE, "Let me see."));
      g_assert_cmpint (allows (format, "required", FALSE, "Let me see."), ==, FALSE);
      g_assert_cmpint (allows (format, "auto", FALSE, behind_text), ==, TRUE);
      if (!format->is_at_start)
        check_calls (format, behind_text, 1);

      g_string_replace (wrong, "get_weather", "get_whether", 0);
      g_assert_false (allows (format, "auto", FALSE, wrong->str));
      g_string_assign (wrong, cases[i].one);
      g_string_replace (wrong, "3", "30", 0);
      g_assert_false (allows (format, "auto", FALSE, wrong->str));
      g_string_assign (wrong, cases[i].one);
      g_string_replace (wrong, "days", "hours", 0);
      g_assert_false (allows (format, "required", FALSE, wrong->str));
      forget_grammars ();
    }
}

/* Whatever a template writes of a call whose arguments are JSON is what its model may write. */
static void
test_templates (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates", "public", NULL);
  g_autoptr(GDir) folder = g_dir_open (path, 0, NULL);
  const char *file;
  guint n_known = 0, n_parallel = 0;

  while ((file = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *name = g_strdup_printf ("public/%.*s", (int) strlen (file) - 6, file);
      g_autoptr(LlmTemplate) template = NULL;
      const LlmTemplateFeatures *features;
      g_autoptr(LlmCallFormat) format = NULL;

      if (!g_str_has_suffix (file, ".jinja"))
        continue;
      template = open_template (name, NULL);
      features = llm_template_get_features (template);
      if (!llm_call_format_is_known (features))
        continue;
      n_known++;
      format = llm_call_format_new (features, NULL);
      for (guint n = 1; n <= (format->next != NULL ? 2 : 1); n++)
        {
          g_autofree char *extras = g_strdup_printf (EXTRAS, n == 2 ? SECOND : "");
          const LlmMessage messages[] = { { (char *) "user", (char *) "How is it?" },
                                          { (char *) "assistant", (char *) "", extras } };
          g_autoptr(LlmTools) tools = read_tools ("required", TRUE);
          const LlmTemplateCall call = { .messages = messages, .n_messages = 2,
                                         .tools = tools->text };
          g_autoptr(GError) error = NULL;
          g_autoptr(LlmPrompt) prompt = llm_template_render (template, &call, &error);
          g_autoptr(LlmGrammar) grammar = llm_tool_grammar_new (tools, format, &error);
          g_autoptr(GString) text = g_string_new (NULL);
          const LlmTextPart *parts;
          const char *at;
          guint n_parts;
          gsize n_ends = 0;

          g_assert_no_error (error);
          parts = llm_prompt_get_parts (prompt, &n_parts);
          for (guint i = 0; i < n_parts; i++)
            g_string_append_len (text, parts[i].text, (gssize) parts[i].length);
          /* arguments are on one line */
          g_string_replace (text, "{\n            \"city\": \"Bonn\",\n            \"days\": 3\n        }",
                            WEATHER, 0);
          at = g_strrstr (text->str, "get_weather");
          at = at != NULL ? g_strrstr_len (text->str, at - text->str, format->marker) : NULL;
          g_test_message ("%s (“%s”): %s", name, format->begin, at);
          g_assert_nonnull (at);
          accepts (grammar, at, strlen (at), &n_ends);
          g_assert_cmpuint (n_ends, >, n == 1 ? strlen (WEATHER) : strlen (WEATHER) + 10);
          g_string_truncate (text, (gsize) (at - text->str) + n_ends);
          check_calls (format, at, n);
          n_parallel += n == 2;
        }
      forget_grammars ();
    }
  g_assert_cmpuint (n_known, >=, 14);
  g_assert_cmpuint (n_parallel, >=, 10);
}

#define RICH_TOOLS                                                                               \
  "[{\"type\": \"function\", \"function\": {\"name\": \"note\", \"description\": \"x\", "            \
  "\"parameters\": {\"type\": \"object\", \"properties\": {"                                       \
  "\"a_text\": {\"type\": \"string\", \"description\": \"x\"}, "                                   \
  "\"b_ratio\": {\"type\": \"number\", \"description\": \"x\"}, "                                  \
  "\"c_loud\": {\"type\": \"boolean\", \"description\": \"x\"}, "                                  \
  "\"d_maybe\": {\"type\": [\"string\", \"null\", \"integer\"], \"description\": \"x\"}, "         \
  "\"e_list\": {\"type\": \"array\", \"description\": \"x\", \"items\": {\"type\": \"string\"}}, "   \
  "\"f_more\": {\"type\": \"object\", \"description\": \"x\", \"properties\": {\"x\": {\"type\": "    \
  "\"array\", \"items\": {\"type\": \"integer\"}}, \"y\": {\"type\": \"string\"}}, "               \
  "\"additionalProperties\": false}}, \"additionalProperties\": {\"type\": \"string\"}}}}]"

/* What the template writes of a call with @arguments. */
static char *
render_call (LlmTemplate *template,
             const char  *arguments)
{
  g_autofree char *extras = g_strdup_printf (
    "{\"tool_calls\": [{\"id\": \"abcdefghi\", \"type\": \"function\", \"function\": {\"name\": "
    "\"note\", \"arguments\": %s}}]}", arguments);
  const LlmMessage messages[] = { { (char *) "user", (char *) "How is it?" },
                                  { (char *) "assistant", (char *) "", extras } };
  const LlmTemplateCall call = { .messages = messages, .n_messages = 2, .tools = RICH_TOOLS };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmPrompt) prompt = llm_template_render (template, &call, &error);
  GString *text = g_string_new (NULL);
  const LlmTextPart *parts;
  guint n_parts;

  g_assert_no_error (error);
  parts = llm_prompt_get_parts (prompt, &n_parts);
  for (guint i = 0; i < n_parts; i++)
    g_string_append_len (text, parts[i].text, (gssize) parts[i].length);
  return g_string_free (text, FALSE);
}

/* Values of all types, as the template writes them, are allowed and come back the same; what breaks
 * the schema is not. */
static void
test_arguments (void)
{
  static const struct
  {
    const char *file;
    const char *awkward;    /* (nullable): a string, in JSON, that its way can carry */
  } files[] = {
    { "public/Qwen3.5-4B", "\"It's \\\"<b>\\\"\\n\\n{\\\\n} \xc3\xbc\\n\"" },
    { "public/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "\" a </parameter \\t\"" },
    { "public/StepFun3.5-Flash", "\"\\n\\n\"" },
    { "public/deepseek-ai-DeepSeek-V3.2", "\"It's \\\"<b>\\\"\\n\\\\n\"" },
    { "public/deepseek-ai-DeepSeek-V4-Flash-0731", "\"</parameter>\"" },
    { "public/poolside-Laguna-XS-2.1", "\"It's \\\"<b>\\\"\\n\\\\n\"" },
    { "public/tencent-Hy3", "\"It's \\\"<b>\\\"\\n\\\\n\"" },
    { "public/google-gemma-4-31B-it", "\"It's \\\"<b>\\\"\\n\\\\n: {},\"" },
    { "public/LFM2.5-8B-A1B", "\"\xc3\xbc, (\\\"x\\\")\"" },
  };
  static const char *const good[] = {
    "{}",
    "{\"a_text\": \"\"}",
    "{\"a_text\": \"5\"}",
    "{\"a_text\": \"true\", \"b_ratio\": 0.5, \"c_loud\": true}",
    "{\"b_ratio\": -3, \"c_loud\": false, \"d_maybe\": 7}",
    "{\"d_maybe\": \"seven\"}",
    "{\"e_list\": [\"a\", \"b c\"], \"f_more\": {\"x\": [1, 2], \"y\": \"z\"}}",
    "{\"e_list\": [], \"f_more\": {}}",
    "{\"a_text\": \"x\", \"g_other\": \"a [1]\"}",
    NULL,
  };
  static const char *const bad[] = {
    "{\"b_ratio\": \"much\"}",
    "{\"c_loud\": 1}",
    "{\"d_maybe\": 0.5}",
    "{\"e_list\": [1]}",
    "{\"f_more\": {\"z\": 1}}",
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmTools) tools = llm_tools_read (RICH_TOOLS, "required", TRUE, FALSE, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autoptr(LlmTemplate) template = open_template (files[i].file, NULL);
      g_autoptr(LlmCallFormat) format =
        llm_call_format_new (llm_template_get_features (template), NULL);
      g_autoptr(LlmGrammar) grammar = llm_tool_grammar_new (tools, format, &error);
      g_autofree char *awkward = g_strdup_printf ("{\"a_text\": %s, \"c_loud\": true}",
                                                  files[i].awkward);

      g_assert_no_error (error);
      g_assert_nonnull (format->arguments);
      for (guint k = 0; k < G_N_ELEMENTS (good); k++)
        {
          const char *arguments = good[k] != NULL ? good[k] : awkward;
          g_autofree char *text = render_call (template, arguments);
          const char *at = g_strrstr (text, format->marker);
          g_autoptr(JsonNode) wanted = json_from_string (arguments, NULL);
          g_autoptr(JsonNode) calls = NULL;
          g_autoptr(JsonNode) read = NULL;
          g_autofree char *found = NULL;
          gsize n_ends = 0;
          gboolean is_cut;

          g_test_message ("%s: %s", files[i].file, at);
          accepts (grammar, at, strlen (at), &n_ends);
          g_assert_cmpuint (n_ends, >, 0);
          found = llm_call_format_read (format, grammar, at, n_ends, &is_cut);
          g_assert_nonnull (found);
          g_assert_false (is_cut);
          g_test_message ("%s", found);
          calls = json_from_string (found, NULL);
          read = json_from_string (
            json_object_get_string_member (
              json_object_get_object_member (
                json_array_get_object_element (json_node_get_array (calls), 0), "function"),
              "arguments"), NULL);
          g_assert_true (json_node_equal (read, wanted));
        }
      for (guint k = 0; k < G_N_ELEMENTS (bad); k++)
        {
          g_autofree char *text = render_call (template, bad[k]);
          const char *at = g_strrstr (text, format->marker);
          gsize n_ends = 0;

          g_test_message ("%s: %s", files[i].file, at);
          accepts (grammar, at, strlen (at), &n_ends);
          g_assert_cmpuint (n_ends, ==, 0);
        }
    }
}

/* The beginning of an answer that was cut: only calls that are whole count. */
static void
test_cut (void)
{
  g_autoptr(LlmTemplate) template = open_template ("chatml", NULL);
  g_autoptr(LlmCallFormat) format =
    llm_call_format_new (llm_template_get_features (template), NULL);
  const char *two = cases[0].two;
  gsize whole = (gsize) (strstr (two, WEATHER) - two) + strlen (WEATHER);

  for (gsize n = 0; n < strlen (two); n++)
    {
      gboolean is_cut;
      g_autofree char *calls = llm_call_format_read (format, NULL, two, n, &is_cut);

      g_test_message ("%.*s", (int) n, two);
      g_assert_cmpint (calls != NULL, ==, n >= whole);
      if (n < strlen ("<tool_call>"))
        g_assert_false (is_cut);
    }
}

/* Tokens that are control tokens can be no text: the grammar asks for the token. */
static void
test_control (void)
{
  static const LlmTemplateFeatures features = {
    .format = LLM_TOOL_FORMAT_JSON,
    .call_begin = (char *) "<s>[{\"name\": \"",
    .call_middle = (char *) "\", \"arguments\": ",
    .call_end = (char *) "}]",
  };
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "tokenizer", "llama-spm.gguf", NULL);
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, NULL);
  g_autoptr(LlmTokenizer) tokenizer = llm_tokenizer_new (gguf, NULL);
  g_autoptr(LlmCallFormat) format = llm_call_format_new (&features, tokenizer);
  const char *call = "<s>[{\"name\": \"get_time\", \"arguments\": {}}]";
  g_autofree char *token = g_strconcat ("\xff", call, NULL);
  g_autofree char *behind = g_strconcat ("Hello", token, NULL);

  g_assert_true (llm_tokenizer_is_control (tokenizer, 1));
  g_assert_cmpstr (format->marker, ==, "\xff<s>");
  g_assert_true (allows (format, "required", FALSE, token));
  g_assert_true (allows (format, "auto", FALSE, behind));
  g_assert_false (allows (format, "required", FALSE, call));
  g_assert_true (allows (format, "none", FALSE, call));
  g_assert_false (allows (format, "none", FALSE, token));
  forget_grammars ();
}

static void
test_refused (void)
{
#define FUNCTION(text) "[{\"type\": \"function\", \"function\": {" text "}}]"
  static const struct
  {
    const char *tools;
    const char *choice;
    const char *message;
  } bad[] = {
    { "", "auto", "tools: it is no JSON" },
    { "{}", "auto", "tools: #: it must be an array" },
    { "[]", "auto", "tools: #: it must be an array" },
    { "[1]", "auto", "tools: #/0: it must be an object" },
    { "[{\"type\": \"retrieval\"}]", "auto", "tools: #/0/type: " },
    { "[{\"type\": \"function\"}]", "auto", "tools: #/0: it needs “function”" },
    { FUNCTION (""), "auto", "tools: #/0/function: a name" },
    { FUNCTION ("\"name\": \"a b\""), "auto", "tools: #/0/function/name: a name" },
    { FUNCTION ("\"name\": \"a\", \"description\": 1"), "auto", "tools: #/0/function/description: " },
    { FUNCTION ("\"name\": \"a\", \"parameters\": 1"), "auto", "tools: #/0/function/parameters: " },
    { FUNCTION ("\"name\": \"a\", \"parameters\": {\"type\": \"array\"}"), "auto",
      "tools: #/0/function/parameters/type: " },
    { FUNCTION ("\"name\": \"a\", \"parameters\": {\"properties\": {\"x\": {\"type\": \"strin\"}}}"),
      "auto", "tools: #/0/function/parameters/properties/x/type: " },
    { FUNCTION ("\"name\": \"a\", \"parameters\": {\"properties\": {\"x\": {\"$ref\": \"#/no\"}}}"),
      "none", "tools: #/0/function/parameters/properties/x/$ref: " },
    { "[{\"function\": {\"name\": \"a\"}}, {\"function\": {\"name\": \"a\"}}]", "auto",
      "tools: #/1/function/name: another one" },
    { TOOLS, "get_wether", "tool-choice: it must be" },
    { TOOLS, "", "tool-choice: it must be" },
  };
  g_autoptr(LlmCallFormat) format = llm_call_format_new (NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmTools) tools = llm_tools_read (bad[i].tools, bad[i].choice, TRUE, FALSE, &error);
      g_autoptr(LlmGrammar) grammar =
        tools != NULL ? llm_tool_grammar_new (tools, format, &error) : NULL;

      g_test_message ("%s", bad[i].tools);
      g_assert_null (grammar);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
      g_test_message ("%s", error->message);
      g_assert_true (g_str_has_prefix (error->message, bad[i].message));
    }
}

/* As programs write what is not set; templates are spared it. */
static void
test_nulls (void)
{
  static const char nulls[] =
    FUNCTION ("\"name\": \"a\", \"description\": null, \"parameters\": null, \"strict\": null");
  static const char typeless[] =
    FUNCTION ("\"name\": \"a\", \"parameters\": {\"type\": null, \"additionalProperties\": null}");
  const char *const both[] = { nulls, typeless };
  g_autoptr(LlmCallFormat) format = llm_call_format_new (NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (both); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmTools) tools = llm_tools_read (both[i], "required", TRUE, FALSE, &error);
      g_autoptr(LlmGrammar) grammar =
        tools != NULL ? llm_tool_grammar_new (tools, format, &error) : NULL;

      g_assert_no_error (error);
      g_assert_nonnull (grammar);
      g_test_message ("%s", tools->text);
      g_assert_nonnull (strstr (tools->text, "\"description\":\"\""));
      g_assert_null (strstr (tools->text, "description\":null"));
      g_assert_null (strstr (tools->text, "parameters\":null"));
    }
}

/* Templates that know no tools get them as text. */
static void
test_messages (void)
{
  g_autofree char *extras = g_strdup_printf (EXTRAS, "");
  const LlmMessage messages[] = { { (char *) "system", (char *) "Be kind." },
                                  { (char *) "user", (char *) "How is it?" },
                                  { (char *) "assistant", (char *) "I look.", extras },
                                  { (char *) "tool", (char *) "Rain" },
                                  { (char *) "tool", (char *) "Wind" } };
  const char *call = "I look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
                     "{\"city\":\"Bonn\",\"days\":3}}\n</tool_call>";
  LlmTemplateFeatures features = { .has_system = TRUE };
  g_autoptr(GArray) array = g_array_new (FALSE, FALSE, sizeof (LlmMessage));
  const LlmMessage *written;
  LlmToolMessages *self;

  g_array_append_vals (array, messages, G_N_ELEMENTS (messages));
  self = llm_tool_messages_new (&features, array, 3, 1, TOOLS);
  written = (const LlmMessage *) (void *) self->messages->data;
  g_assert_cmpuint (self->messages->len, ==, 4);
  g_assert_cmpuint (self->n_settled, ==, 3);
  g_assert_true (self->has_tools);
  g_assert_true (g_str_has_prefix (written[0].text, "Be kind.\n\nYou can call these functions:\n{"));
  g_assert_nonnull (strstr (written[0].text, "\"name\":\"get_time\""));
  g_assert_cmpstr (written[2].text, ==, call);
  g_assert_null (written[2].extras);
  g_assert_cmpstr (written[3].role, ==, "user");
  g_assert_cmpstr (written[3].text, ==, "<tool_response>\nRain\n</tool_response>\n<tool_response>\n"
                                        "Wind\n</tool_response>");
  llm_tool_messages_free (self);

  /* a system message comes before those that are settled */
  g_array_remove_index (array, 0);
  self = llm_tool_messages_new (&features, array, 2, 0, TOOLS);
  g_assert_cmpuint (self->messages->len, ==, 4);
  g_assert_cmpuint (self->n_settled, ==, 3);
  g_assert_cmpuint (self->n_system, ==, 1);
  llm_tool_messages_free (self);

  features.has_tools = features.has_tool_results = TRUE;
  features.format = LLM_TOOL_FORMAT_JSON;
  g_assert_null (llm_tool_messages_new (&features, array, 2, 0, TOOLS));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/constraints/tools/formats", test_formats);
  g_test_add_func ("/constraints/tools/templates", test_templates);
  g_test_add_func ("/constraints/tools/arguments", test_arguments);
  g_test_add_func ("/constraints/tools/cut", test_cut);
  g_test_add_func ("/constraints/tools/control", test_control);
  g_test_add_func ("/constraints/tools/refused", test_refused);
  g_test_add_func ("/constraints/tools/nulls", test_nulls);
  g_test_add_func ("/constraints/tools/messages", test_messages);
  return g_test_run ();
}
