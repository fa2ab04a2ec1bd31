/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-read-choice.h"

/* The pass after a change from which on it is measured: in the first whole one, what was read ahead is
 * missing. */
static const guint first_measured[LLM_N_READS] = { 1, 2 };
/* The other way has to be better by so much. */
#define MARGIN 1.05
/* After so many passes the other way is tried again: more of them where it was far behind. */
#define RETRY_PASSES 128
#define RETRY_PASSES_FAR 1024
#define FAR 2.0

static LlmRead
get_other (LlmRead way)
{
  return way == LLM_READ_WHOLE ? LLM_READ_BY_CHANNEL : LLM_READ_WHOLE;
}

static void
measure (LlmReadRecord *record,
         double         us)
{
  double *known = &record->us[record->way];
  gboolean is_second = record->way == LLM_READ_BY_CHANNEL && record->n_passes == 2;

  if (record->n_passes == first_measured[record->way] || is_second)
    *known = us;
  else if (record->n_passes > first_measured[record->way])
    *known = (3 * *known + us) / 4;
}

static void
choose (LlmReadRecord *record,
        double         whole_us)
{
  const double own = record->us[record->way];
  double other = record->us[get_other (record->way)];
  gboolean is_due, is_early;

  if (other <= 0 && record->way == LLM_READ_BY_CHANNEL)
    other = whole_us;
  is_due = record->n_passes > first_measured[record->way]
           && record->n_passes % (other > own * FAR ? RETRY_PASSES_FAR : RETRY_PASSES) == 0;
  /* the first pass by channel waits for what was read ahead before, and knows no costs: it only tells that
   * the other way is far better */
  is_early = record->way == LLM_READ_BY_CHANNEL && record->n_passes == 1 && own < other * FAR;
  if (record->n_passes >= first_measured[record->way] && !is_early
      && ((other > 0 && other * MARGIN < own) || is_due))
    {
      record->way = get_other (record->way);
      record->n_passes = 0;
    }
  record->n_passes++;
}

LlmRead
llm_read_choice_take (LlmReadChoice *self,
                      guint          sparsity,
                      guint          layer,
                      guint          n_layers,
                      double         whole_us,
                      gint64         now_us)
{
  LlmReadRecord *record = &self->records[MIN (sparsity, LLM_MAX_SPARSITY)];

  if (layer == 0 && (self->layer != 0 || self->begun_us == 0))
    {
      choose (record, whole_us);
      self->begun_us = now_us;
    }
  else if (layer == n_layers - 1 && self->layer != layer && self->begun_us > 0)
    {
      measure (record, (double) (now_us - self->begun_us));
      self->begun_us = 0;
    }
  self->layer = layer;
  return record->way;
}

double
llm_read_choice_get_us (const LlmReadChoice *self,
                        guint                sparsity)
{
  const double *us = self->records[MIN (sparsity, LLM_MAX_SPARSITY)].us;
  const double by_channel = us[LLM_READ_BY_CHANNEL], whole = us[LLM_READ_WHOLE];

  return by_channel > 0 && whole > 0 ? MIN (by_channel, whole) : MAX (by_channel, whole);
}
