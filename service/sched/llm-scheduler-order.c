/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Deadlines, and the order of requests and queues. */

#include "sched/llm-scheduler-private.h"

/* Part of a target that is aimed at: the rest is a reserve for other work of the machine. */
#define TTFT_PART 0.9
#define TPOT_PART 0.75
/* Factor on the target of a call that can't meet it. */
#define LOST_FACTOR 4
/* Used where the call has no target. */
#define ANY_TTFT_US 60e6
#define ANY_TPOT_US 1e6

/* An account that is ahead of others by so much goes behind them, whatever is due. */
#define LEAD_US 250e3
/* The same on fast machines, in generated tokens, and for accounts over their share. A prefill that
 * takes the time of so many tokens is hardly noticed, as long as more don't follow. */
#define LEAD_TOKENS 12
#define BURST_TOKENS 48

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Without events nothing changes faster than this. */
#define LOOK_US 5000

/* A prefill with less time left than this comes before answers of a higher class that run faster
 * than their target. */
#define URGENT_US 100000
/* Time that is owed to a class before it gets a turn. */
#define OWED_US 20000

/* Time of prefills after a decode step, where neither is due: as long as the step took, within
 * these bounds. */
#define MIN_PREFILL_US 5e3
#define MAX_PREFILL_US 100e3

/* Guaranteed parts of the time for prefills that others overtake. */
const double llm_scheduler_guaranteed[LLM_N_PREFILL_GROUPS] = {
  [LLM_PREFILL_IN_TIME + LLM_SLO_INTERACTIVE] = 0,
  [LLM_PREFILL_IN_TIME + LLM_SLO_RESPONSIVE] = 0.15,
  [LLM_PREFILL_IN_TIME + LLM_SLO_BACKGROUND] = 0.05,
  [LLM_PREFILL_LOST + LLM_SLO_INTERACTIVE] = 0.15,
  [LLM_PREFILL_LOST + LLM_SLO_RESPONSIVE] = 0.1,
  [LLM_PREFILL_LOST + LLM_SLO_BACKGROUND] = 0,
};

guint
llm_sched_entry_get_group (const LlmSchedEntry *entry)
{
  return (entry->is_lost ? LLM_PREFILL_LOST : LLM_PREFILL_IN_TIME) + entry->slo.class;
}

double
llm_sched_entry_get_pace_us (const LlmSchedEntry *entry)
{
  return entry->slo.tpot_ms > 0 ? entry->slo.tpot_ms * 1000 * TPOT_PART : ANY_TPOT_US;
}

double
llm_sched_entry_get_ttft_us (const LlmSchedEntry *entry)
{
  return entry->slo.ttft_ms > 0 ? entry->slo.ttft_ms * 1000 * TTFT_PART : ANY_TTFT_US;
}

double
llm_scheduler_get_burst_us (LlmScheduler *self)
{
  return BURST_TOKENS * llm_cost_model_predict (&self->costs, LLM_COST_DECODE, 1, 0);
}

double
llm_scheduler_get_lead_us (LlmScheduler *self)
{
  return MIN (LEAD_US, llm_scheduler_get_burst_us (self) * LEAD_TOKENS / BURST_TOKENS);
}

/* Whether background requests pause now. */
static gboolean
rests (LlmScheduler *self,
       gint64        now_us)
{
  return self->pace == LLM_PACE_WAIT
         || (self->pace == LLM_PACE_SLOW && now_us < self->rest_until_us);
}

gboolean
llm_scheduler_may_run (LlmScheduler        *self,
                       const LlmSchedEntry *entry,
                       gint64               now_us)
{
  if (entry->is_suspended)
    return FALSE;
  return entry->slo.class < LLM_SLO_BACKGROUND || !rests (self, now_us);
}

/* --- deadlines --- */

/* A call that can't have its first token in time any more would delay those that can: it goes
 * behind them, and gets a later deadline. */
static void
find_prefill_due (LlmSchedEntry *entry,
                  gint64         now_us)
{
  double target_us = llm_sched_entry_get_ttft_us (entry);

  entry->is_lost = entry->slo.class < LLM_SLO_BACKGROUND
                   && target_us < (double) (now_us - entry->arrived_us) + entry->left_us;
  entry->due_us = entry->arrived_us
                  + (gint64) (target_us * (entry->is_lost ? LOST_FACTOR : 1));
}

/* One TPOT after the last token, and sooner when the answer is late on the whole; but not much
 * sooner, or a few late answers would take all the time. */
static gint64
find_decode_due (const LlmSchedEntry *entry)
{
  double pace_us = llm_sched_entry_get_pace_us (entry);
  double last_us = (double) (entry->n_tokens > 0 ? entry->last_us : entry->arrived_us);
  double due_us = last_us + pace_us;

  if (entry->slo.tpot_ms > 0 && entry->n_tokens > 0)
    due_us = MIN (due_us, (double) entry->first_us + entry->n_tokens * pace_us);
  return (gint64) MAX (due_us, last_us + pace_us / 2);
}

/* The time that a request was suspended does not count. */
static void
note_suspended (LlmSchedEntry *entry,
                gint64         now_us)
{
  if (entry->is_suspended && entry->suspended_us == 0)
    entry->suspended_us = now_us;
  if (entry->is_suspended || entry->suspended_us == 0)
    return;
  if (entry->n_tokens > 0)
    {
      entry->first_us += now_us - entry->suspended_us;
      entry->last_us += now_us - entry->suspended_us;
    }
  entry->suspended_us = 0;
}

int
llm_scheduler_compare (gconstpointer a,
                       gconstpointer b,
                       gpointer      scheduler)
{
  const LlmSchedEntry *left = *(LlmSchedEntry *const *) a;
  const LlmSchedEntry *right = *(LlmSchedEntry *const *) b;
  const LlmScheduler *self = scheduler;
  LlmSloClass slo_class = left->slo.class;
  gboolean are_ahead = left->ahead == LLM_AHEAD_USER && right->ahead == LLM_AHEAD_USER;
  const int orders[] = {
    /* between users, service decides, not the class */
    ORDER (left->ahead == LLM_AHEAD_USER, right->ahead == LLM_AHEAD_USER),
    are_ahead ? ORDER (left->account->parent->served_us[slo_class],
                       right->account->parent->served_us[slo_class])
              : 0,
    ORDER (left->slo.class, right->slo.class),
    ORDER (left->ahead, right->ahead),
    ORDER (left->is_lost, right->is_lost),
    ORDER (left->due_us, right->due_us),
    ORDER (left->account->parent->served_us[slo_class],
           right->account->parent->served_us[slo_class]),
    ORDER (left->account->served_us[slo_class], right->account->served_us[slo_class]),
    ORDER (left->last_turn, right->last_turn),
  };

  for (guint i = 0; i < G_N_ELEMENTS (orders) && self->kind == LLM_SCHEDULER_DEADLINE; i++)
    if (orders[i] != 0)
      return orders[i];
  return ORDER (left->arrival, right->arrival);
}

static LlmAhead
find_ahead (const LlmSchedEntry *entry,
            double               lead_us)
{
  const LlmAccount *ahead = llm_account_find_ahead (entry->account, entry->slo.class, lead_us);

  if (ahead == NULL)
    return LLM_AHEAD_NONE;
  return llm_account_is_user (ahead) ? LLM_AHEAD_USER : LLM_AHEAD_APP;
}

void
llm_scheduler_look_at (LlmScheduler  *self,
                       LlmSchedEntry *entry,
                       gint64         now_us)
{
  entry->ahead = find_ahead (entry, llm_scheduler_get_lead_us (self));
  entry->over = find_ahead (entry, self->accounts->burst_us);
  if (entry->n_prompt == 0)
    {
      entry->left_us = 0;
      entry->is_lost = FALSE;
      entry->due_us = find_decode_due (entry);
      return;
    }
  entry->left_us = llm_level_costs_get_ratio (&self->levels, LLM_COST_PREFILL, entry->lacking)
                       * llm_cost_model_predict_prompt (&self->costs, entry->n_prompt, entry->depth,
                                                        self->max_rows)
                   + llm_cost_model_predict_restore (&self->costs, entry->restore_bytes);
  find_prefill_due (entry, now_us);
}

/* While others have had less, an account over its fair part has one row in each decode step: more
 * rows would make the steps of the others longer. As of the last look. */
static void
hold_decodes (LlmScheduler *self,
              gint64        now_us)
{
  self->decode_class = LLM_N_SLO_CLASSES;
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    entry->account->n_rows = entry->account->parent->n_rows = 0;
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      LlmAccount *over = entry->over == LLM_AHEAD_USER ? entry->account->parent : entry->account;

      entry->is_held = FALSE;
      if (entry->n_prompt > 0 || !llm_scheduler_may_run (self, entry, now_us))
        continue;
      if (entry->over == LLM_AHEAD_NONE)
        self->decode_class = MIN (self->decode_class, entry->slo.class);
      else
        entry->is_held = over->n_rows++ > 0;
    }
}

void
llm_scheduler_look (LlmScheduler *self,
                    gint64        now_us)
{
  if (!self->is_dirty && now_us < self->looked_us + LOOK_US && now_us >= self->looked_us)
    return;
  self->is_dirty = FALSE;
  self->looked_us = now_us;

  for (guint i = 0; i < LLM_N_PREFILL_GROUPS; i++)
    self->n_prefills[i] = 0;
  self->accounts->burst_us = llm_scheduler_get_burst_us (self);
  llm_account_reset_least (self->accounts);
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      note_suspended (entry, now_us);
      if (llm_scheduler_may_run (self, entry, now_us))
        llm_account_note_call (entry->account, entry->slo.class);
    }
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      llm_scheduler_look_at (self, entry, now_us);
      if (entry->n_prompt > 0 && llm_scheduler_may_run (self, entry, now_us))
        self->n_prefills[llm_sched_entry_get_group (entry)]++;
    }
  g_ptr_array_sort_with_data (self->entries, llm_scheduler_compare, self);
  hold_decodes (self, now_us);
}

guint
llm_scheduler_count_ahead (LlmScheduler        *self,
                           const LlmSchedEntry *entry)
{
  guint n = 0;

  /* in the order of the last look */
  for (guint i = 0; i < self->entries->len; i++)
    {
      const LlmSchedEntry *other = g_ptr_array_index (self->entries, i);

      if (other == entry)
        break;
      n += other->n_prompt > 0 && !other->is_suspended;
    }
  return n;
}

/* --- prefills --- */

LlmQueueKind
llm_scheduler_find_queue (LlmScheduler        *self,
                          const LlmSchedEntry *entry)
{
  if (entry->n_running > 0)
    return entry->queue;
  if (self->kind == LLM_SCHEDULER_FIFO)
    return LLM_QUEUE_PREFILL;
  if (llm_account_is_apart (entry->account, entry->slo.class))
    return LLM_QUEUE_AHEAD;
  return LLM_QUEUE_PREFILL + entry->slo.class;
}

gboolean
llm_scheduler_must_yield (LlmScheduler        *self,
                          const LlmSchedEntry *entry)
{
  if (entry->over == LLM_AHEAD_USER)
    return self->decode_class < LLM_N_SLO_CLASSES;
  return entry->over == LLM_AHEAD_APP && self->decode_class <= entry->slo.class;
}

/* Whether the queue is not among the @waiting ones, and the entry is over its share, or is not, as
 * asked. */
static gboolean
is_prefilling (LlmScheduler  *self,
               LlmSchedEntry *entry,
               gint64         now_us,
               guint          waiting,
               gboolean       yields)
{
  return entry->n_prompt > 0 && (waiting & (1u << llm_scheduler_find_queue (self, entry))) == 0
         && llm_scheduler_may_run (self, entry, now_us)
         && llm_scheduler_must_yield (self, entry) == yields;
}

/* The first of the prefills that were overtaken for long enough. Accounts that are ahead had their
 * turn before; but when it is that user's turn, no class of its own waits for ever. */
static LlmSchedEntry *
find_owed_prefill (LlmScheduler *self,
                   gint64        now_us,
                   guint         waiting,
                   gboolean      yields)
{
  const LlmAccount *user = NULL;

  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      guint prefills = llm_sched_entry_get_group (entry);

      if (!is_prefilling (self, entry, now_us, waiting, yields))
        continue;
      user = user != NULL ? user : entry->account->parent;
      if (entry->ahead == LLM_AHEAD_APP
          || (entry->ahead == LLM_AHEAD_USER && entry->account->parent != user))
        continue;
      self->is_paying[prefills] = self->is_paying[prefills] || self->owed_us[prefills] >= OWED_US;
      if (self->is_paying[prefills])
        return entry;
    }
  return NULL;
}

static LlmSchedEntry *
find_first_prefill (LlmScheduler *self,
                    gint64        now_us,
                    guint         waiting,
                    gboolean      yields,
                    gboolean     *is_urgent)
{
  double stretch = 1 / (1 - llm_scheduler_get_decode_share (self));
  double row_us = llm_cost_model_get_row_us (&self->costs) * stretch;
  double before_us = 0;
  double spare_us = G_MAXDOUBLE;
  LlmSchedEntry *first = NULL;

  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      double own_us = entry->left_us * stretch;
      double left_us = (double) (entry->due_us - now_us) - own_us;

      if (!is_prefilling (self, entry, now_us, waiting, yields))
        continue;
      if (first == NULL)
        {
          first = entry;
          *is_urgent = entry->slo.class < LLM_SLO_BACKGROUND && !entry->is_lost
                       && left_us < URGENT_US;
        }
      else if (entry->slo.class < LLM_SLO_BACKGROUND && entry->ahead == LLM_AHEAD_NONE
               && !entry->is_lost && left_us >= 0 && left_us < before_us && own_us <= spare_us)
        {
          *is_urgent = TRUE;
          return entry;
        }
      if (!entry->is_lost)
        spare_us = MIN (spare_us, left_us - before_us);
      before_us += entry->n_prompt * row_us;
    }
  return first;
}

LlmSchedEntry *
llm_scheduler_find_prefill (LlmScheduler *self,
                            gint64        now_us,
                            guint         waiting,
                            gboolean     *is_urgent)
{
  LlmSchedEntry *first = NULL;

  *is_urgent = FALSE;
  for (guint yields = FALSE; yields <= TRUE && first == NULL; yields++)
    {
      first = find_owed_prefill (self, now_us, waiting, yields);
      if (first == NULL)
        first = find_first_prefill (self, now_us, waiting, yields, is_urgent);
    }
  return first;
}

/* --- the queue that runs next --- */

static LlmQueueKind
choose_fifo (LlmScheduler *self,
             gint64        now_us,
             guint         waiting)
{
  gboolean decodes_wait = (waiting & (1u << LLM_QUEUE_DECODE)) != 0;
  gboolean prefills_wait = (waiting & (1u << LLM_QUEUE_PREFILL)) != 0;
  gboolean has_prefills = FALSE;
  gboolean has_decodes = self->steps[LLM_QUEUE_DECODE].is_active;

  if (has_decodes && !decodes_wait)
    return LLM_QUEUE_DECODE;
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      has_prefills = has_prefills || (entry->n_prompt > 0 && !entry->is_suspended);
      has_decodes = has_decodes || (entry->n_prompt == 0 && !entry->is_suspended);
    }
  has_prefills = has_prefills && !prefills_wait;
  has_decodes = has_decodes && !decodes_wait;
  if (has_prefills
      && (!has_decodes
          || self->prefilled_us < CLAMP (self->decoded_us, MIN_PREFILL_US, MAX_PREFILL_US)))
    return LLM_QUEUE_PREFILL;
  return has_decodes ? LLM_QUEUE_DECODE : LLM_QUEUE_NONE;
}

/* Whether @prefill goes before the decodes. */
static gboolean
goes_first (LlmScheduler        *self,
            const LlmSchedEntry *prefill,
            gboolean             is_urgent,
            gint64               latest_us,
            LlmSloClass          decode_class,
            gint64               now_us)
{
  LlmSloClass slo_class = prefill->slo.class;

  if (llm_scheduler_must_yield (self, prefill))
    return FALSE;
  /* Prefills must reach that point, too, however many requests decode. */
  if (slo_class < LLM_SLO_BACKGROUND && self->prefilled_us < self->decoded_us / 3)
    return TRUE;
  if (now_us >= latest_us)
    return FALSE;
  if (slo_class < LLM_SLO_BACKGROUND && (slo_class <= decode_class || is_urgent))
    return TRUE;
  return self->prefilled_us < CLAMP (self->decoded_us, MIN_PREFILL_US, MAX_PREFILL_US);
}

LlmQueueKind
llm_scheduler_choose (LlmScheduler *self,
                      gint64        now_us,
                      guint         waiting)
{
  const LlmSchedulerStep *writing = &self->steps[LLM_QUEUE_DECODE];
  gboolean decodes_wait = (waiting & (1u << LLM_QUEUE_DECODE)) != 0;
  gboolean has_decodes = FALSE;
  LlmSloClass decode_class = LLM_SLO_BACKGROUND;
  gint64 latest_us = G_MAXINT64;
  gboolean is_urgent;
  LlmSchedEntry *prefill;

  llm_scheduler_look (self, now_us);
  if (self->kind == LLM_SCHEDULER_FIFO)
    return choose_fifo (self, now_us, waiting);

  self->wake_us = self->pace == LLM_PACE_SLOW && self->rest_until_us > now_us
                    ? self->rest_until_us : 0;
  prefill = llm_scheduler_find_prefill (self, now_us, waiting, &is_urgent);
  if (!decodes_wait)
    has_decodes = llm_scheduler_choose_decodes (self, now_us, prefill != NULL, NULL,
                                                self->max_rows, &latest_us, &decode_class) > 0
                  || (writing->is_active && !(writing->is_background && rests (self, now_us)));
  if (prefill == NULL)
    return has_decodes ? LLM_QUEUE_DECODE : LLM_QUEUE_NONE;
  if (!has_decodes)
    return llm_scheduler_find_queue (self, prefill);

  /* A decode step above class BACKGROUND runs to its end, because it is short. */
  if (writing->is_active && (!writing->is_background || prefill->slo.class == LLM_SLO_BACKGROUND))
    return LLM_QUEUE_DECODE;
  if (writing->is_active)
    latest_us -= (gint64) MAX (writing->expected_us - writing->spent_us, 0);
  return goes_first (self, prefill, is_urgent, latest_us, decode_class, now_us)
           ? llm_scheduler_find_queue (self, prefill)
           : LLM_QUEUE_DECODE;
}
