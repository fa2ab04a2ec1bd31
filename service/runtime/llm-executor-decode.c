/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Decode: from logits to the text of the answer. */

#define G_LOG_DOMAIN "llm-engine"

#include "decoding/llm-logprobs.h"
#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"

#include "constraints/llm-token-trie.h"

/* Decode steps after which their cost counts as measured. */
#define N_MEASURED 3

/* The number of rows up to which the cost of steps is known, and one more point of the curve: so
 * the cost of that point gets known, by steps that are only a little longer. */
static guint
find_measured_rows (const LlmCostCurve *curve)
{
  guint i = 0;

  while (i + 1 < LLM_COST_POINTS && curve->n_seen[i] > 0)
    i++;
  return llm_cost_rows[LLM_COST_DECODE][i];
}

/* Forecasts the cost of the next decode step with 1, 2, … rows of @request; the decode rows of
 * other requests are included. FALSE while the costs are not known. */
static gboolean
find_costs (LlmRequest    *request,
            LlmDraftCosts *costs)
{
  const LlmCostModel *model = &request->runner->scheduler->costs;
  guint n_max = find_measured_rows (&model->curves[LLM_COST_DECODE]);
  double depth = 0;
  guint n_others = 0;

  if (model->curves[LLM_COST_DECODE].n_steps < N_MEASURED)
    return FALSE;
  LLM_EACH (const LlmRequest, other, request->executor->requests)
    if (other != request && other->runner == request->runner && other->decoder != NULL
        && other->room.is_resident && !other->entry.is_suspended && other->entry.n_prompt == 0)
      {
        depth += other->entry.depth;
        n_others++;
      }
  llm_runner_take_reads (request->runner);
  *costs = (LlmDraftCosts) {
    .read_us = request->runner->scheduler->reads.whole_us,
    .n_others = n_others,
  };
  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs->verify_us[n] =
      n == 1 || n_others + n <= n_max
        ? llm_cost_model_predict (model, LLM_COST_DECODE, n_others + n,
                                  depth + (double) n * request->entry.depth)
        : G_MAXDOUBLE;
  return TRUE;
}

static void
draft (LlmRequest *request)
{
  LlmDecoder *decoder = request->decoder;
  LlmDraftCosts costs;

  if (!find_costs (request, &costs))
    return;
  decoder->class->draft (decoder, &costs);
  llm_sched_entry_set_n_decode (&request->entry, decoder->n_rows);
}

/* Takes what arrived and has the disk go on. Returns whether it had come to rest; always where it
 * is not weights that come. */
static gboolean
has_rested (LlmWeights *weights,
            guint64     n_rests)
{
  LlmStreamFigures figures;

  llm_weights_poll (weights);
  llm_weights_get_stream_figures (weights, &figures);
  return figures.pass_bytes == 0 || figures.n_rests > n_rests;
}

/* Serves them in turn where the step has several. A step that goes on behind it was not held up
 * while the disk read: what it reads would not have come sooner. */
static gboolean
draft_ahead (LlmRunner *runner)
{
  LlmQueueStep *step = &runner->steps[LLM_QUEUE_DECODE];
  LlmWeights *weights = runner->instance->weights;
  gint64 begin_us = llm_clock_now_us ();
  LlmStreamFigures figures;

  step->ahead_us = 0;
  llm_weights_get_stream_figures (weights, &figures);
  for (guint i = 0; step->is_active && i < step->n_budgets; i++)
    {
      guint at = (step->n_ahead + i) % step->n_budgets;
      LlmRequest *request = llm_request_of (step->budgets[at].entry);
      LlmDecoder *decoder = request->decoder;

      if (request->rows.n == 0 || decoder->class->draft_ahead == NULL
          || !decoder->class->draft_ahead (decoder, step->late_us))
        continue;
      step->n_ahead++;
      if (has_rested (weights, figures.n_rests))
        step->ahead_us = (double) (llm_clock_now_us () - begin_us);
      return TRUE;
    }
  return FALSE;
}

gboolean
llm_executor_draft_ahead (LlmExecutor *self)
{
  LLM_EACH (LlmRunner, runner, self->runners)
    if (draft_ahead (runner))
      return TRUE;
  return FALSE;
}

void
llm_request_await_next (LlmRequest *request)
{
  LlmDecoder *decoder = request->decoder;
  gint64 delay_us = decoder != NULL && decoder->class->get_delay != NULL
                      ? decoder->class->get_delay (decoder)
                      : 0;

  if (decoder != NULL && decoder->class->draft != NULL && request->result.tokens->len > 0)
    draft (request);
  if (delay_us == 0)
    return;
  request->times.due_us = delay_us == G_MAXINT64 ? delay_us : llm_clock_now_us () + delay_us;
  /* a loaded model would be in prefill at this point */
  __atomic_store_n (&request->progress.has_started, TRUE, __ATOMIC_RELEASE);
}

/* Whether @n more tokens have positions; if not, the window slides, where it may. */
static gboolean
has_room (LlmRequest *request)
{
  LlmSession *session = request->session;

  if (session->seq->length < request->window.n_ctx)
    return TRUE;
  if (!request->window.slides)
    return FALSE;
  llm_session_slide (session, request->prompt, request->states, llm_request_get_n_sinks (request),
                     llm_request_get_n_slid (request, session->tokens->len + 1));
  return TRUE;
}

static void
note_token (LlmRequest *request,
            gint32      token)
{
  g_array_append_val (request->result.tokens, token);
  request->times.last_us = llm_clock_now_us ();
  llm_sched_entry_note_token (&request->entry, request->times.last_us);
  llm_figure_board_count_token (&request->executor->news.board);
  if (request->times.first_us > 0)
    return;
  request->times.first_us = request->times.last_us;
  __atomic_store_n (&request->progress.has_first, TRUE, __ATOMIC_RELEASE);
}

/* Adds a token of the reasoning, or of the answer's beginning. Returns whether a stop string is
 * complete. */
static gboolean
take_reasoning (LlmRequest *request,
                gint32      token)
{
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GString) bytes = g_string_new (NULL);
  gboolean has_stop;

  llm_reasoning_push (request->answer.reasoning, token, request->output.thoughts, tokens, bytes);
  has_stop = llm_text_stream_push_bytes (request->stream, bytes->str, bytes->len,
                                         request->output.text);
  for (guint i = 0; i < tokens->len; i++)
    has_stop |= llm_text_stream_push (request->stream, g_array_index (tokens, gint32, i),
                                      request->output.text);
  return has_stop;
}

static gboolean
is_inside (const LlmRequest *request)
{
  return request->answer.reasoning != NULL
         && llm_reasoning_get_thought (request->answer.reasoning) == LLM_THOUGHT_INSIDE;
}

/* Takes the token that follows a row. Returns what ends the request, or RUNNING. */
static LlmFinish
take_token (LlmRequest *request,
            gint32      token)
{
  LlmDecoder *decoder = request->decoder;
  gboolean has_stop;

  note_token (request, token);
  /* the mark that ends reasoning may have such a token */
  if (llm_tokenizer_ends_answer (llm_model_get_tokenizer (request->runner->instance->model), token)
      && !is_inside (request))
    {
      request->result.is_closed = TRUE;
      return LLM_FINISH_STOP;
    }

  if (request->answer.reasoning != NULL && !llm_reasoning_is_over (request->answer.reasoning))
    {
      has_stop = take_reasoning (request, token);
    }
  else
    {
      has_stop = llm_text_stream_push (request->stream, token, request->output.text);
      if (request->sink.on_bytes != NULL)
        llm_token_trie_decode (llm_model_get_tokenizer (request->runner->instance->model), token,
                               request->output.bytes);
    }
  if (decoder->class->holds_text == NULL || !decoder->class->holds_text (decoder))
    llm_executor_post_text (request->executor, request);
  if (has_stop)
    return LLM_FINISH_STOP_STRING;
  if (request->result.tokens->len >= request->max_tokens)
    return LLM_FINISH_LENGTH;
  return request->answer.repeats != NULL
             && llm_repeats_push (request->answer.repeats,
                                  (const gint32 *) request->result.tokens->data,
                                  request->result.tokens->len)
           ? LLM_FINISH_REPEATS
           : LLM_FINISH_RUNNING;
}

/* Keeps the decode rows in @path, of those from @first on in the step: the root, and each a child
 * of the one before. */
static void
keep_rows (LlmRequest  *request,
           LlmForward  *forward,
           guint        first,
           const guint *path,
           guint        n_path)
{
  guint n_back = request->rows.n - n_path;

  for (guint i = 1; i < n_path; i++)
    llm_forward_accept (forward, request->session->seq, first + path[i]);
  llm_session_commit (request->session, request->length_before, path, n_path);
  llm_sched_entry_take_back (&request->entry, n_back);
  request->result.n_drafted += request->rows.n - 1;
  request->result.n_accepted += n_path - 1;
  request->result.n_kept += request->decoder->n_kept;
  request->result.n_passes++;
  request->rows.n = 0;
}

/* The last row of a prompt yields the first token. Decode rows are walked from the root of their
 * tree: each yields a token, and is followed by the child that proposed this token, if any. */
void
llm_request_take_logits (LlmRequest *request,
                         LlmForward *forward,
                         guint       first)
{
  LlmDecoder *decoder = request->decoder;
  g_autoptr(GError) error = NULL;
  LlmFinish finish = LLM_FINISH_RUNNING;
  guint path[LLM_DRAFT_MAX_NODES];
  guint n_path = 0;
  guint node = 0;

  while (finish == LLM_FINISH_RUNNING && node != LLM_DRAFT_NONE)
    {
      const float *logits = llm_forward_get_logits (forward, first + node);
      gint32 token = decoder->class->consume (decoder, logits, &error);

      if (token >= 0 && request->answer.n_logprobs >= 0)
        llm_logprobs_append (request->output.logprobs,
                             llm_model_get_tokenizer (request->runner->instance->model), logits,
                             token, (guint) request->answer.n_logprobs);
      finish = token < 0 ? LLM_FINISH_FAILED : take_token (request, token);
      path[n_path++] = node;
      node = llm_draft_tree_find_child (&request->rows, node, token);
    }

  if (request->rows.n > 0)
    keep_rows (request, forward, first, path, n_path);
  if (finish == LLM_FINISH_RUNNING && !has_room (request))
    finish = LLM_FINISH_CONTEXT_FULL;
  if (finish == LLM_FINISH_RUNNING)
    llm_request_await_next (request);
  else
    llm_request_end (request, finish, error);
}
