/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/draft/llm-draft-growth.h"

#include <math.h>

/* Drafting must promise so much more tokens per time than a step of one row: costs and confidences
 * are estimates. */
#define LEAST_GAIN 1.04
/* The credit that each token brings, so that guesses are tried now and then where they did not pay,
 * and the most that is saved up. */
#define ALLOWANCE  0.01
#define MAX_CREDIT 4.0

void
llm_draft_growth_init (LlmDraftGrowth        *self,
                       const LlmGrowthConfig *config)
{
  *self = (LlmDraftGrowth) { .config = *config, .alpha = config->alpha, .credit = LLM_GROWTH_CREDIT };
  if (config->n_nodes == 0 || config->n_nodes >= LLM_DRAFT_MAX_NODES)
    self->config.n_nodes = LLM_DRAFT_MAX_NODES - 1;
}

void
llm_draft_growth_begin (LlmDraftGrowth      *self,
                        const LlmDraftCosts *costs)
{
  self->costs = *costs;
  self->nodes[0] = (LlmGrowthNode) { .confidence = 1, .cumulative = 1 };
  self->n = 1;
  self->n_steps = 0;
  self->late_us = 0;
  self->is_ahead = FALSE;
}

/* --- what it costs, and brings --- */

/* µs of a step with @n rows, and of what was drafted for it. */
static double
get_time (const LlmDraftGrowth *self,
          guint                 n)
{
  return self->n_steps * self->costs.draft_us + self->late_us
         + MAX (self->costs.read_us, self->costs.verify_us[n]);
}

/* Tokens that single rows would bring in the time that a step with @n takes longer, and @us of
 * drafting more: lost if no guess is right. */
static double
get_risk (const LlmDraftGrowth *self,
          guint                 n,
          double                us)
{
  double plain_us = MAX (self->costs.read_us, self->costs.verify_us[1]);

  return plain_us > 0 ? (1 + self->costs.n_others) * ((get_time (self, n) + us) / plain_us - 1) : 0;
}

/* Guesses that may be rows. */
static guint
get_n_rows_max (const LlmDraftGrowth *self)
{
  return MIN (self->n - 1, self->config.n_nodes) + 1;
}

/* Of the numbers of rows that the credit lets be risked, that with the most tokens per time, and
 * how many that are; as guesses are ordered by what each brings, no other choice of as many rows
 * brings more. */
static guint
find_best_rows (const LlmDraftGrowth *self,
                double               *rate)
{
  double tokens = 1 + self->costs.n_others;
  guint best = 1;

  *rate = tokens / get_time (self, 1);
  for (guint n = 2; n <= get_n_rows_max (self) && get_risk (self, n, 0) <= self->credit; n++)
    {
      tokens += self->nodes[self->order[n - 2]].cumulative;
      if (tokens / get_time (self, n) > *rate)
        {
          *rate = tokens / get_time (self, n);
          best = n;
        }
    }
  return best;
}

guint
llm_draft_growth_count_rows (const LlmDraftGrowth *self)
{
  double plain = (1 + self->costs.n_others) / get_time (self, 1);
  double rate;
  guint best;

  if (!self->config.by_cost)
    return get_n_rows_max (self);
  best = find_best_rows (self, &rate);
  return rate >= LEAST_GAIN * plain ? best : 1;
}

double
llm_draft_growth_expect (const LlmDraftGrowth *self,
                         guint                 n)
{
  double tokens = 1;

  for (guint i = 0; i + 1 < MIN (n, self->n); i++)
    tokens += self->nodes[self->order[i]].cumulative;
  return tokens;
}

/* --- which node next --- */

/* Whether another draft step, for @node, raises tokens per time: its continuations bring at most
 * what it is worth itself, Δtokens / Δtime against the rate so far. */
static gboolean
pays (const LlmDraftGrowth *self,
      guint                 node)
{
  double rate, more_us;
  guint n_rows = find_best_rows (self, &rate);

  if (n_rows > self->config.n_nodes
      || get_risk (self, n_rows + 1, self->costs.draft_us) > self->credit)
    return FALSE;
  more_us = self->costs.draft_us + get_time (self, n_rows + 1) - get_time (self, n_rows);
  return self->nodes[node].cumulative > rate * more_us;
}

/* A branch is a path to a node without children. With M the length of all branches together and C
 * the sum of their cumulative confidences, a branch is due M · c / C tokens (the branch pacer: C3,
 * equations 1 and 2); the weights say how much that counts, and how much the tokens it has. */
static guint
choose (const LlmDraftGrowth *self)
{
  const LlmGrowthConfig *config = &self->config;
  double sum = 0, n_tokens = 0, best_confidence = 0, most = -INFINITY;
  guint best = LLM_DRAFT_NONE;

  for (guint i = 0; i < self->n; i++)
    if (self->nodes[i].n_children == 0)
      {
        sum += self->nodes[i].cumulative;
        n_tokens += self->nodes[i].depth;
        best_confidence = MAX (best_confidence, self->nodes[i].cumulative);
      }
  /* the fallback (C6): T_c, the most likely branch's, is below α */
  if (best_confidence < self->alpha)
    return LLM_DRAFT_NONE;

  for (guint i = 0; i < self->n; i++)
    {
      const LlmGrowthNode *node = &self->nodes[i];
      double due = sum > 0 ? MAX (n_tokens, 1) * node->cumulative / sum : 0;
      double lacks = config->due * due - config->depth * node->depth;

      if (node->is_asked || (config->n_depths > 0 && node->depth >= config->n_depths))
        continue;
      if (lacks > most || (lacks == most && node->cumulative > self->nodes[best].cumulative))
        {
          most = lacks;
          best = i;
        }
    }
  return best;
}

guint
llm_draft_growth_next (LlmDraftGrowth *self)
{
  guint node = choose (self);

  if (node != LLM_DRAFT_NONE
      && !(self->config.by_cost ? pays (self, node) : self->n <= self->config.n_nodes))
    node = LLM_DRAFT_NONE;
  self->is_ahead = FALSE;
  if (node != LLM_DRAFT_NONE)
    self->nodes[node].is_asked = TRUE;
  return node;
}

/* As many are asked as a draft's own tree may have rows. */
guint
llm_draft_growth_next_ahead (LlmDraftGrowth *self,
                             guint           max_depth)
{
  guint node = LLM_DRAFT_NONE, n_asked = 0;

  if (!self->config.goes_ahead || !self->nodes[0].is_asked || self->n == LLM_GROWTH_MAX_NODES)
    return LLM_DRAFT_NONE;
  for (guint i = self->n - 1; i-- > 0;)
    if (self->nodes[self->order[i]].is_asked)
      n_asked++;
    else if (self->nodes[self->order[i]].depth < max_depth)
      node = self->order[i];
  if (node == LLM_DRAFT_NONE || n_asked >= LLM_DRAFT_MAX_NODES)
    return LLM_DRAFT_NONE;

  self->is_ahead = TRUE;
  self->nodes[node].is_asked = TRUE;
  return node;
}

/* --- what follows it --- */

/* Whether the @i-th likeliest continuation of @node is a node. */
static gboolean
takes (const LlmDraftGrowth *self,
       guint                 node,
       guint                 i,
       float                 confidence)
{
  const LlmGrowthConfig *config = &self->config;

  if (config->n_widths > 0
      && i >= config->widths[MIN (self->nodes[node].depth, config->n_widths - 1)])
    return FALSE;
  return i == 0 || confidence >= config->threshold;
}

static void
add_node (LlmDraftGrowth    *self,
          guint              parent,
          LlmDraftCandidate  candidate)
{
  double confidence = CLAMP (candidate.confidence, 0, 1);
  LlmGrowthNode node = {
    .token = candidate.token,
    .parent = parent,
    .depth = self->nodes[parent].depth + 1,
    .confidence = (float) confidence,
    .cumulative = self->nodes[parent].cumulative * confidence,
    .is_ahead = self->is_ahead,
  };
  guint place = self->n - 1;

  for (; place > 0 && self->nodes[self->order[place - 1]].cumulative < node.cumulative; place--)
    self->order[place] = self->order[place - 1];
  self->order[place] = self->n;
  self->nodes[parent].n_children++;
  self->nodes[self->n++] = node;
}

void
llm_draft_growth_expand (LlmDraftGrowth          *self,
                         guint                    node,
                         const LlmDraftCandidate *candidates,
                         guint                    n)
{
  /* by cost, and ahead, more are known than become rows: a likelier one may come later */
  guint n_max = self->config.by_cost || self->is_ahead ? LLM_GROWTH_MAX_NODES
                                                       : self->config.n_nodes + 1;

  g_assert (node < self->n && self->nodes[node].is_asked);
  self->n_steps += !self->is_ahead;
  for (guint i = 0; i < n && self->n < n_max; i++)
    if (takes (self, node, i, candidates[i].confidence))
      add_node (self, node, candidates[i]);
}

guint
llm_draft_growth_get_path (const LlmDraftGrowth *self,
                           guint                 node,
                           gint32               *tokens)
{
  guint depth = self->nodes[node].depth;

  for (guint i = depth; i > 0; i--)
    {
      tokens[i - 1] = self->nodes[node].token;
      node = self->nodes[node].parent;
    }
  return depth;
}

/* --- the tree --- */

guint
llm_draft_growth_fill (const LlmDraftGrowth *self,
                       LlmDraftTree         *tree)
{
  guint rows[LLM_GROWTH_MAX_NODES];
  guint n = llm_draft_growth_count_rows (self);
  guint n_ahead = 0;

  for (guint i = 0; i < self->n; i++)
    rows[i] = i == 0 ? 0 : LLM_DRAFT_NONE;
  for (guint i = 0; i + 1 < n; i++)
    {
      const LlmGrowthNode *node = &self->nodes[self->order[i]];

      rows[self->order[i]] = llm_draft_tree_add (tree, rows[node->parent], node->token,
                                                 node->confidence);
      n_ahead += node->is_ahead && rows[self->order[i]] != LLM_DRAFT_NONE;
    }
  return n_ahead;
}

/* --- the next tree --- */

guint
llm_draft_growth_find_child (const LlmDraftGrowth *self,
                             guint                 node,
                             gint32                token)
{
  for (guint i = node + 1; i < self->n; i++)
    if (self->nodes[i].parent == node && self->nodes[i].token == token)
      return i;
  return LLM_DRAFT_NONE;
}

void
llm_draft_growth_number (const LlmDraftGrowth *self,
                         guint                 node,
                         guint                *numbers)
{
  guint n = 0;

  for (guint i = 0; i < self->n; i++)
    numbers[i] = i == node || (i > node && numbers[self->nodes[i].parent] != LLM_DRAFT_NONE)
                   ? n++
                   : LLM_DRAFT_NONE;
}

void
llm_draft_growth_keep (LlmDraftGrowth      *self,
                       const LlmDraftCosts *costs,
                       guint                node)
{
  gboolean is_asked = self->nodes[node].is_asked;
  guint numbers[LLM_GROWTH_MAX_NODES];
  guint n = self->n;

  g_assert (node > 0 && node < n);
  llm_draft_growth_number (self, node, numbers);
  llm_draft_growth_begin (self, costs);
  self->nodes[0].is_asked = is_asked;
  /* numbers are below those from before: none is overwritten before it was read */
  for (guint i = node + 1; i < n; i++)
    {
      LlmGrowthNode old = self->nodes[i];

      if (numbers[i] == LLM_DRAFT_NONE)
        continue;
      add_node (self, numbers[old.parent], (LlmDraftCandidate) { old.token, old.confidence });
      self->nodes[numbers[i]].is_asked = old.is_asked;
      self->nodes[numbers[i]].is_ahead = old.is_ahead;
    }
}

/* The end of the branch that goes on from @node with the likeliest child each time. */
static guint
find_end (const LlmDraftTree *tree,
          guint               node)
{
  for (guint i = node + 1; i < tree->n; i++)
    if (tree->parents[i] == node)
      node = i;
  return node;
}

/* T_c: the largest cumulative confidence of a branch. */
static double
find_confidence (const LlmDraftTree *tree)
{
  guint64 inner = 0;
  double most = 0;

  for (guint i = tree->n - 1; i > 0; i--)
    {
      if ((inner >> i & 1) == 0)
        most = MAX (most, (double) tree->cumulative[i]);
      inner |= G_GUINT64_CONSTANT (1) << tree->parents[i];
    }
  return most;
}

/* What trees promise may be wrong, and what was spent for those that came to nothing is gone: they
 * spend what those before have won. As none risks more than there is, an answer loses at most what
 * it began with, and the allowance. */
static void
judge (LlmDraftGrowth     *self,
       const LlmDraftTree *tree,
       guint               node)
{
  guint n_right = tree->depths[node];

  self->surplus = n_right - get_risk (self, tree->n, 0);
  self->credit = MIN (self->credit + self->surplus + ALLOWANCE * (1 + n_right), MAX_CREDIT);
}

/* Equation 3, as derived in docs/drafts.md. */
static void
set_alpha (LlmDraftGrowth     *self,
           const LlmDraftTree *tree,
           guint               node)
{
  guint n_correct = tree->depths[node];
  guint n_all = tree->depths[find_end (tree, node)];

  if (n_all == 0)
    return;
  if (n_correct == n_all)
    self->alpha *= 0.5;
  else
    self->alpha /= pow (find_confidence (tree), (double) (n_all - n_correct) / n_all);
  self->alpha = CLAMP (self->alpha, LLM_GROWTH_MIN_ALPHA, LLM_GROWTH_MAX_ALPHA);
}

void
llm_draft_growth_learn (LlmDraftGrowth     *self,
                        const LlmDraftTree *tree,
                        guint               node)
{
  if (self->config.by_cost)
    judge (self, tree, node);
  if (self->config.alpha > 0)
    set_alpha (self, tree, node);
}
