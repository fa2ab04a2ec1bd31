/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/calls/llm-prepare.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "constraints/tools/llm-tool-messages.h"
#include "constraints/tools/llm-tools.h"
#include "engine/calls/llm-shorten.h"

/* A prompt is made shorter so often at most. */
#define MAX_SHORTENED 3
/* Threads that compile constraints, and their niceness. */
#define MAX_COMPILERS 2
#define NICENESS 10

static void
message_clear (LlmMessage *message)
{
  g_free (message->role);
  g_free (message->text);
  g_free (message->extras);
}

LlmPrepareInput *
llm_prepare_input_new (void)
{
  LlmPrepareInput *input = g_new0 (LlmPrepareInput, 1);

  input->settled = g_array_new (FALSE, FALSE, sizeof (gint32));
  input->messages = g_array_new (FALSE, FALSE, sizeof (LlmMessage));
  g_array_set_clear_func (input->messages, (GDestroyNotify) message_clear);
  return input;
}

void
llm_prepare_input_free (LlmPrepareInput *input)
{
  g_array_unref (input->settled);
  g_array_unref (input->messages);
  g_free (input->tools);
  g_free (input->variables);
  g_free (input->raw);
  g_free (input->suffix);
  g_clear_pointer (&input->model, llm_model_unref);
  g_clear_pointer (&input->constraints, llm_constraint_cache_unref);
  g_clear_pointer (&input->masks, llm_mask_table_unref);
  g_clear_pointer (&input->tokens, g_array_unref);
  g_clear_object (&input->cancellable);
  g_free (input->constraint);
  g_free (input->app);
  g_free (input);
}

void
llm_prepare_input_add_message (LlmPrepareInput *input,
                               const char      *role,
                               const char      *text,
                               const char      *extras)
{
  LlmMessage message = { g_strdup (role), g_strdup (text), g_strdup (extras) };

  g_array_append_val (input->messages, message);
}

/* Appends the tokens of what @call renders. @thought: (out) (optional): whether it ends in
 * reasoning. */
static gboolean
encode_messages (LlmModel              *model,
                 LlmTemplate           *template,
                 const LlmTemplateCall *call,
                 GArray                *tokens,
                 LlmThought            *thought,
                 GError               **error)
{
  g_autoptr(LlmPrompt) prompt = NULL;
  const LlmTextPart *parts;
  guint n_parts;

  if (template == NULL)
    template = llm_model_get_template (model, error);
  if (template == NULL)
    return FALSE;
  prompt = llm_template_render (template, call, error);
  if (prompt == NULL)
    return FALSE;
  parts = llm_prompt_get_parts (prompt, &n_parts);
  llm_tokenizer_encode (llm_model_get_tokenizer (model), parts, n_parts,
                        call->point == LLM_POINT_START, tokens);
  if (thought != NULL)
    *thought = prompt->thought;
  return TRUE;
}

/* Length of the common prefix of @tokens and the prompt of the system messages with an empty
 * question. Some templates need a question, because they make one message of both. */
static gboolean
count_system (LlmModel              *model,
              const LlmPrepareInput *input,
              const GArray          *tokens,
              guint                 *n_system,
              GError               **error)
{
  g_autofree LlmMessage *messages = g_new0 (LlmMessage, input->n_system + 1);
  g_autoptr(GArray) alone = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTemplateCall call = { .messages = messages, .n_messages = input->n_system + 1,
                           .tools = input->tools, .variables = input->variables,
                           .thinking = input->thinking };
  guint n = 0;

  for (guint i = 0; i < input->n_system; i++)
    messages[i] = g_array_index (input->messages, LlmMessage, i);
  messages[input->n_system] = (LlmMessage) { (char *) "user", (char *) "" };
  if (!encode_messages (model, input->template, &call, alone, NULL, error))
    return FALSE;

  while (n < MIN (alone->len, tokens->len)
         && g_array_index (alone, gint32, n) == g_array_index (tokens, gint32, n))
    n++;
  *n_system = n;
  return TRUE;
}

/* Tools for the template: it gets @shown; @written (out) (nullable) is a message that holds the
 * tools, for a template that does not know them. */
static gboolean
show_tools (LlmPrepareInput  *shown,
            LlmTools        **tools,
            LlmToolMessages **written,
            GError          **error)
{
  if (shown->tools != NULL)
    {
      *tools = llm_tools_read (shown->tools, "auto", TRUE, FALSE, error);
      if (*tools == NULL)
        return FALSE;
      shown->tools = (*tools)->text;
    }
  if (shown->template == NULL || shown->raw != NULL)
    return TRUE;
  *written = llm_tool_messages_new (llm_template_get_features (shown->template), shown->messages,
                                    shown->n_settled, shown->n_system, shown->tools);
  if (*written == NULL)
    return TRUE;
  shown->messages = (*written)->messages;
  shown->n_settled = (*written)->n_settled;
  shown->n_system = (*written)->n_system;
  if ((*written)->has_tools)
    shown->tools = NULL;
  return TRUE;
}

static GArray *
prepare_whole (LlmModel         *model,
               LlmPrepareInput  *asked,
               guint            *n_system,
               GError          **error)
{
  g_autoptr(LlmToolMessages) written = NULL;
  g_autoptr(LlmTools) tools = NULL;
  LlmPrepareInput shown = *asked;
  const LlmPrepareInput *input = &shown;
  g_autoptr(GArray) tokens = g_array_copy (asked->settled);
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (model);
  LlmTemplateCall call;
  /* the tokens of the continued answer are among the settled ones */
  gboolean is_there = asked->continues && asked->n_settled == asked->messages->len;
  guint n = 0;

  if (shown.template == NULL)
    shown.template = llm_model_get_template (model, NULL);
  if (!show_tools (&shown, &tools, &written, error))
    return NULL;
  call = (LlmTemplateCall) {
    .messages = (const LlmMessage *) (void *) input->messages->data,
    .n_messages = input->messages->len,
    .point = input->point,
    .n_settled = input->n_settled,
    .open_answer = input->opens_answer && !input->continues,
    .continues = input->continues,
    .tools = input->tools,
    .variables = input->variables,
    .thinking = input->thinking,
  };
  if (input->raw != NULL && input->thinking >= LLM_THINKING_ON)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "thinking: a raw prompt goes without the chat template, which knows how "
                          "the model reasons; leave out raw or thinking");
  if (input->suffix != NULL)
    {
      if (!llm_tokenizer_can_infill (tokenizer))
        return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                              "suffix: this model was not trained to fill in: its file has no "
                              "tokens for prefix, suffix and middle");
      llm_tokenizer_encode_infill (tokenizer, input->raw, input->suffix, tokens);
      return g_steal_pointer (&tokens);
    }
  if (input->raw != NULL)
    {
      /* Control tokens in a raw prompt are taken as such. */
      LlmTextPart part = { input->raw, strlen (input->raw), TRUE };

      llm_tokenizer_encode (tokenizer, &part, 1, TRUE, tokens);
    }
  else if ((!is_there
            && !encode_messages (model, input->template, &call, tokens, &asked->thought, error))
           || (input->counts_system && !count_system (model, input, tokens, &n, error)))
    return NULL;

  if (is_there
      && llm_tokenizer_ends_answer (tokenizer, g_array_index (tokens, gint32, tokens->len - 1)))
    g_array_set_size (tokens, tokens->len - 1);
  /* Some files ask for an EOS after every text. After a prompt it would mean that the conversation
   * is over. */
  if (tokenizer->adds_eos && input->point == LLM_POINT_START && tokens->len > 0 &&
      g_array_index (tokens, gint32, tokens->len - 1) == tokenizer->eos)
    g_array_set_size (tokens, tokens->len - 1);

  if (n_system != NULL)
    *n_system = n;
  return g_steal_pointer (&tokens);
}

/* Leaves words out until @n_wanted of the @n_new tokens are gone, or no more can go. A text has not
 * quite as many tokens as its words, so what is lacking is asked for again. */
static GArray *
prepare_shorter (LlmModel         *model,
                 LlmPrepareInput  *asked,
                 GArray           *whole,
                 guint             n_wanted,
                 guint            *n_system,
                 GError          **error)
{
  guint n_whole = whole->len, n_lacking = n_wanted;
  g_autoptr(GArray) tokens = whole;
  gboolean has_more = TRUE;

  for (guint i = 0; i < MAX_SHORTENED && n_lacking > 0 && has_more; i++)
    {
      has_more = llm_shorten (llm_model_get_tokenizer (model), asked->messages, asked->n_settled,
                              n_lacking) >= n_lacking;
      g_clear_pointer (&tokens, g_array_unref);
      tokens = prepare_whole (model, asked, n_system, error);
      if (tokens == NULL)
        return NULL;
      asked->n_left_out = n_whole - MIN (n_whole, tokens->len);
      n_lacking = n_wanted - MIN (n_wanted, asked->n_left_out);
    }
  return g_steal_pointer (&tokens);
}

GArray *
llm_prepare (LlmModel              *model,
             LlmPrepareInput       *input,
             guint                 *n_system,
             GError               **error)
{
  GArray *tokens;
  guint n_new;

  if (input->level > 0 && input->level < 100 && input->raw != NULL)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "prompt-level: what of a raw prompt may be left out can't be known; give "
                          "messages, or leave out prompt-level");
  tokens = prepare_whole (model, input, n_system, error);
  /* an answer that is gone on with comes without a new message */
  if (tokens == NULL || input->level == 0 || input->level >= 100 || input->continues)
    return tokens;
  n_new = tokens->len - MIN (tokens->len, input->settled->len);
  return prepare_shorter (model, input, tokens,
                          (guint) ((guint64) n_new * (100 - input->level) / 100), n_system, error);
}

/* --- what the answer is held to --- */

/* Applications with a task that runs or waits for a thread, by name: GQueue of their further
 * ones. */
static GMutex lock;
static GHashTable *apps;
static GThreadPool *pool;

static void
compile (gpointer data,
         gpointer unused)
{
  g_autoptr(GTask) task = data;
  LlmPrepareInput *input = g_task_get_task_data (task);
  g_autofree char *app = g_strdup (input->app);
  GError *error = NULL;
  GTask *next;

  /* threads of this pool are not used for other work */
  (void) !setpriority (PRIO_PROCESS, (id_t) gettid (), NICENESS);
  input->masks = llm_constraint_cache_get (input->constraints, input->model, input->kind,
                                           input->constraint, input->cancellable, &error);
  if (input->masks != NULL)
    g_task_return_pointer (task, g_steal_pointer (&input->tokens), (GDestroyNotify) g_array_unref);
  else
    g_task_return_error (task, error);

  g_mutex_lock (&lock);
  next = g_queue_pop_head (g_hash_table_lookup (apps, app));
  if (next != NULL)
    g_thread_pool_push (pool, next, NULL);
  else
    g_hash_table_remove (apps, app);
  g_mutex_unlock (&lock);
}

/* Takes @task. */
static void
compile_later (GTask *task)
{
  LlmPrepareInput *input = g_task_get_task_data (task);
  GQueue *others;

  g_mutex_lock (&lock);
  if (pool == NULL)
    {
      pool = g_thread_pool_new (compile, NULL, MAX_COMPILERS, TRUE, NULL);
      apps = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_queue_free);
    }
  others = g_hash_table_lookup (apps, input->app);
  if (others != NULL)
    {
      g_queue_push_tail (others, task);
    }
  else
    {
      g_hash_table_insert (apps, g_strdup (input->app), g_queue_new ());
      g_thread_pool_push (pool, task, NULL);
    }
  g_mutex_unlock (&lock);
}

static void
run_prepare (GTask        *task,
             gpointer      source,
             gpointer      data,
             GCancellable *cancellable)
{
  LlmPrepareInput *input = data;
  GError *error = NULL;
  GArray *tokens = llm_prepare (input->model, input, &input->n_counted, &error);

  if (tokens != NULL)
    g_task_return_pointer (task, tokens, (GDestroyNotify) g_array_unref);
  else
    g_task_return_error (task, error);
}

static void
on_tokenized (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmPrepareInput *input = g_task_get_task_data (task);
  GError *error = NULL;

  input->tokens = g_task_propagate_pointer (G_TASK (result), &error);
  if (input->tokens == NULL)
    {
      g_task_return_error (task, error);
      return;
    }
  if (input->constraints != NULL)
    input->masks = llm_constraint_cache_find (input->constraints, input->model, input->kind,
                                              input->constraint);
  if (input->constraints != NULL && input->masks == NULL)
    compile_later (g_steal_pointer (&task));
  else
    g_task_return_pointer (task, g_steal_pointer (&input->tokens), (GDestroyNotify) g_array_unref);
}

void
llm_prepare_async (LlmModel           *model,
                   LlmPrepareInput    *input,
                   GAsyncReadyCallback callback,
                   gpointer            data)
{
  g_autoptr(GTask) task = g_task_new (NULL, NULL, callback, data);
  g_autoptr(GTask) tokenizing = g_task_new (NULL, NULL, on_tokenized, g_object_ref (task));

  input->model = llm_model_ref (model);
  g_task_set_task_data (task, input, (GDestroyNotify) llm_prepare_input_free);
  g_task_set_task_data (tokenizing, input, NULL);
  g_task_run_in_thread (tokenizing, run_prepare);
}

LlmThought
llm_prepare_get_thought (GAsyncResult *result)
{
  const LlmPrepareInput *input = g_task_get_task_data (G_TASK (result));

  return input->thought;
}

guint
llm_prepare_get_left_out (GAsyncResult *result)
{
  const LlmPrepareInput *input = g_task_get_task_data (G_TASK (result));

  return input->n_left_out;
}

GArray *
llm_prepare_finish (GAsyncResult  *result,
                    guint         *n_system,
                    LlmMaskTable **masks,
                    GError       **error)
{
  LlmPrepareInput *input = g_task_get_task_data (G_TASK (result));

  if (n_system != NULL)
    *n_system = input->n_counted;
  if (masks != NULL)
    *masks = g_steal_pointer (&input->masks);
  return g_task_propagate_pointer (G_TASK (result), error);
}
