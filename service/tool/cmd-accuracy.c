/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tasks with a known answer: lines of JSON with “prompt” and “answer”, and how a model's answer is
 * scored. */

#include "tool.h"

#include <glib/gi18n.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include "decoding/llm-sampler.h"
#include "decoding/llm-text-stream.h"
#include "tool-model.h"

#define CALL_BEGIN "<tool_call>"
#define CALL_END "</tool_call>"

static char *split;
static int n_tasks = 100, max_tokens = 128;

static const GOptionEntry entries[] = {
  TOOL_MODEL_ENTRIES,
  { "tasks", 'n', 0, G_OPTION_ARG_INT, &n_tasks, N_("The first tasks of the file, 0 for all (100)"),
    "N" },
  { "max-tokens", 0, 0, G_OPTION_ARG_INT, &max_tokens, N_("The longest answer (128)"), "N" },
  { "split", 0, 0, G_OPTION_ARG_STRING, &split,
    N_("A call begins with each of these in the prompt (<|im_start|>user)"), N_("TEXT") },
  TOOL_MODEL_SUB_MODEL_ENTRY,
  TOOL_MODEL_EXACT_ENTRY,
  TOOL_MODEL_KV_ENTRIES,
  G_OPTION_ENTRY_NULL
};

/* Sums over the tasks done. */
typedef struct
{
  guint n;
  guint n_calls;         /* answers that are a tool call where one was wanted */
  guint n_valid;         /* of them with valid JSON */
  guint n_names;         /* of them with the right function */
  guint n_arguments;     /* of them with exactly the right arguments */
  guint n_slots;         /* arguments wanted where the function is right */
  guint n_right_slots;
  guint n_wrong_calls;   /* tool calls where text was wanted */
  guint n_exact;         /* answers equal to the wanted text */
} Score;

/* A member of an object that is a string, NULL when it is not. */
static const char *
get_string (JsonNode   *object,
            const char *member)
{
  JsonNode *node = json_object_get_member (json_node_get_object (object), member);

  return node != NULL && json_node_get_value_type (node) == G_TYPE_STRING
           ? json_node_get_string (node)
           : NULL;
}

/* (transfer full) (nullable): NULL when @text is no JSON object. */
static JsonNode *
parse_object (const char *text)
{
  g_autoptr(JsonNode) node = json_from_string (text, NULL);

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? g_steal_pointer (&node) : NULL;
}

/* (element-type JsonNode): the first n_tasks of @text, all with 0. NULL with @error where a line is
 * none. */
static GPtrArray *
read_tasks (const char *text,
            GError    **error)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr(GPtrArray) tasks = g_ptr_array_new_with_free_func ((GDestroyNotify) json_node_unref);

  for (guint i = 0; lines[i] != NULL && (n_tasks == 0 || tasks->len < (guint) n_tasks); i++)
    {
      g_autoptr(JsonNode) task = *lines[i] != '\0' ? parse_object (lines[i]) : NULL;

      if (*lines[i] == '\0')
        continue;
      if (task == NULL || get_string (task, "prompt") == NULL
          || get_string (task, "answer") == NULL)
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       _("Line %u is no task: each is a JSON object with the texts “prompt” "
                         "and “answer”"), i + 1);
          return NULL;
        }
      g_ptr_array_add (tasks, g_steal_pointer (&task));
    }
  if (tasks->len == 0)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, _("The file holds no tasks"));
      return NULL;
    }

  return g_steal_pointer (&tasks);
}

/* The object of a tool call, NULL when it is none. */
static JsonNode *
parse_call (const char *answer)
{
  const char *begin = strstr (answer, CALL_BEGIN);
  const char *end = begin != NULL ? strstr (begin, CALL_END) : NULL;
  g_autofree char *json = NULL;

  if (begin == NULL)
    return NULL;

  begin += strlen (CALL_BEGIN);
  json = end != NULL ? g_strndup (begin, (gsize) (end - begin)) : g_strdup (begin);
  return parse_object (json);
}

static JsonObject *
get_arguments (JsonNode *call)
{
  JsonNode *node = json_object_get_member (json_node_get_object (call), "arguments");

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

static void
score_arguments (Score      *score,
                 JsonObject *wanted,
                 JsonObject *found)
{
  g_autoptr(GList) members = json_object_get_members (wanted);
  guint n_right = 0, n = 0;

  for (GList *l = members; l != NULL; l = l->next, n++)
    {
      JsonNode *node = json_object_get_member (found, l->data);

      if (node != NULL && json_node_equal (node, json_object_get_member (wanted, l->data)))
        n_right++;
    }
  score->n_slots += n;
  score->n_right_slots += n_right;
  score->n_arguments += n_right == n && json_object_get_size (found) == n;
}

static void
add_score (Score      *score,
           const char *wanted,
           const char *found)
{
  g_autoptr(JsonNode) call = parse_call (wanted);
  g_autoptr(JsonNode) answer = parse_call (found);
  g_autofree char *text = g_strstrip (g_strdup (found));
  JsonObject *arguments;

  score->n++;
  score->n_exact += g_str_equal (text, wanted);
  if (call == NULL)
    {
      score->n_wrong_calls += strstr (found, CALL_BEGIN) != NULL;
      return;
    }

  score->n_calls += strstr (found, CALL_BEGIN) != NULL;
  score->n_valid += answer != NULL;
  if (answer == NULL || g_strcmp0 (get_string (call, "name"), get_string (answer, "name")) != 0)
    return;

  score->n_names++;
  arguments = get_arguments (answer);
  if (get_arguments (call) != NULL && arguments != NULL)
    score_arguments (score, get_arguments (call), arguments);
}

typedef struct
{
  LlmSampler *sampler;
  gint32 token;
} Choice;

static void
choose (guint        slot,
        const float *logits,
        gpointer     data)
{
  Choice *choice = data;

  choice->token = llm_sampler_sample (choice->sampler, logits);
}

/* Where the calls before the last one end, in tokens: a call begins with each @split in the
 * prompt. */
static GArray *
find_calls (ToolModel    *model,
            const char   *prompt,
            const GArray *tokens)
{
  GArray *ends = g_array_new (FALSE, FALSE, sizeof (guint));

  for (const char *at = strstr (prompt, split); at != NULL;
       at = strstr (at + strlen (split), split))
    {
      g_autofree char *before = g_strndup (prompt, (gsize) (at - prompt));
      g_autoptr(GArray) piece = tool_model_encode (model, before, TRUE);
      guint end = 0;

      while (end < MIN (piece->len, tokens->len)
             && g_array_index (piece, gint32, end) == g_array_index (tokens, gint32, end))
        end++;
      if (end > 0 && end < tokens->len)
        g_array_append_val (ends, end);
    }

  return ends;
}

/* Computes the rest of the prompt and answers in one call. @tokens gets the answer, too. */
static gboolean
answer (ToolModel *model,
        LlmKvSeq  *seq,
        GArray    *tokens,
        GString   *text,
        GError   **error)
{
  const LlmSamplerConfig greedy = { .top_p = 1, .repeat_penalty = 1 };
  g_autoptr(LlmSampler) sampler = llm_sampler_new (&greedy, model->hparams->n_vocab);
  g_autoptr(LlmTextStream) stream = llm_text_stream_new (model->tokenizer, NULL, TRUE);
  Choice choice = { sampler, -1 };
  gboolean is_generated = FALSE;
  gboolean is_done = TRUE;
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (seq, tokens->len - seq->length + (guint) max_tokens,
                              &plan, error))
    return FALSE;

  for (int n = 0; n < max_tokens; n++)
    {
      is_done = llm_measure_rows (model->forward, seq, tool_model_tokens (tokens), tokens->len,
                                  is_generated, tokens->len - 1, choose, &choice, error);
      if (!is_done || choice.token < 0 ||
          llm_tokenizer_ends_answer (model->tokenizer, choice.token))
        break;

      llm_text_stream_push (stream, choice.token, text);
      g_array_append_val (tokens, choice.token);
      is_generated = TRUE;
    }
  llm_text_stream_finish (stream, text);
  llm_measure_end (model->store, seq, tool_model_tokens (tokens));
  return is_done;
}

static gboolean
run_task (ToolModel   *model,
          JsonNode    *task,
          Score       *score,
          GError     **error)
{
  const char *prompt = get_string (task, "prompt");
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (model->store, NULL, NULL);
  g_autoptr(GArray) tokens = tool_model_encode (model, prompt, TRUE);
  g_autoptr(GArray) calls = find_calls (model, prompt, tokens);
  g_autoptr(GString) text = g_string_new (NULL);

  for (guint i = 0; i < calls->len; i++)
    {
      guint end = g_array_index (calls, guint, i);

      if (end > seq->length
          && !llm_measure_call (model->forward, model->store, seq, tool_model_tokens (tokens), end,
                                FALSE, 0, NULL, NULL, error))
        return FALSE;
    }
  if (!answer (model, seq, tokens, text, error))
    return FALSE;

  add_score (score, get_string (task, "answer"), text->str);
  return TRUE;
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(GPtrArray) tasks = NULL;
  g_autofree char *text = NULL;
  Score score = { 0 };
  const char *fault =
    n_tasks < 0 || max_tokens < 1 ? _("--tasks is 0 or more, --max-tokens 1 or more")
                                  : tool_model_options_check ();

  if (fault != NULL)
    return tool_fail_usage (fault);
  if (split == NULL || *split == '\0')
    split = g_strdup ("<|im_start|>user");

  text = tool_read (arguments[0], &error);
  tasks = text != NULL ? read_tasks (text, &error) : NULL;
  model = tasks != NULL ? tool_model_open (&error) : NULL;
  if (model == NULL)
    return tool_fail (error);

  for (guint i = 0; i < tasks->len; i++)
    {
      if (!run_task (model, g_ptr_array_index (tasks, i), &score, &error))
        return tool_fail (error);
      tool_progress ("%u ", i + 1);
    }

  tool_progress (NULL);
  printf ("tasks: %u\ncalls: %u\nvalid calls: %u\nright functions: %u\nexact arguments: %u\n"
          "right arguments: %u of %u\nwrong calls: %u\nexact answers: %u\n",
          score.n, score.n_calls, score.n_valid, score.n_names, score.n_arguments,
          score.n_right_slots, score.n_slots, score.n_wrong_calls, score.n_exact);
  return TOOL_OK;
}

const ToolCommand tool_accuracy = {
  "accuracy", N_("Measure how well a model solves tasks"), N_("TASKS"),
  N_("Scores a model's likeliest answers to the tasks of a file: lines of JSON "
     "with “prompt” and “answer”."), 1, entries, run,
};
