/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is due when, and whose turn it is. */

#include "sched/llm-scheduler-private.h"

/* What is aimed at, of the targets: the rest is for what the machine does besides. */
#define TTFT_PART 0.9
#define TPOT_PART 0.75
/* Of the target, for a call that can't meet it. */
#define LOST_FACTOR 4
/* Where there is no target. */
#define ANY_TTFT_US 60e6
#define ANY_TPOT_US 1e6

/* Who is ahead of others by so much goes behind them, whatever is due. */
#define LEAD_US 250e3
/* The same on fast machines, in tokens of an answer; and who is over its share. A prompt is read in
 * the time of so many tokens that nobody need notice much of it, as long as more don't follow. */
#define LEAD_TOKENS 12
#define BURST_TOKENS 48

/* Nothing changes faster by itself. */
#define LOOK_US 5000

/* A reader whose time gets so short comes before the answers of a higher class get more than they
 * asked for. */
#define URGENT_US 100000
/* What is owed to a class before it has a turn. */
#define OWED_US 20000

/* What readers get after a step of the writers, where neither is due: as long as that took, within
 * these. */
#define MIN_READING_US 5e3
#define MAX_READING_US 100e3

double
llm_ticket_get_pace_us (const LlmTicket *ticket)
{
  return ticket->slo.tpot_ms > 0 ? ticket->slo.tpot_ms * 1000 * TPOT_PART : ANY_TPOT_US;
}

double
llm_ticket_get_ttft_us (const LlmTicket *ticket)
{
  return ticket->slo.ttft_ms > 0 ? ticket->slo.ttft_ms * 1000 * TTFT_PART : ANY_TTFT_US;
}

double
llm_scheduler_get_burst_us (LlmScheduler *self)
{
  return BURST_TOKENS * llm_cost_model_predict (&self->costs, LLM_COST_WRITE, 1, 0);
}

double
llm_scheduler_get_lead_us (LlmScheduler *self)
{
  return MIN (LEAD_US, llm_scheduler_get_burst_us (self) * LEAD_TOKENS / BURST_TOKENS);
}

/* Nothing is done now of what nobody waits for. */
static gboolean
rests (LlmScheduler *self,
       gint64        now_us)
{
  return self->pace == LLM_PACE_WAIT
         || (self->pace == LLM_PACE_SLOW && now_us < self->rest_until_us);
}

gboolean
llm_scheduler_may_run (LlmScheduler    *self,
                       const LlmTicket *ticket,
                       gint64           now_us)
{
  if (ticket->is_parked)
    return FALSE;
  return ticket->slo.class < LLM_SLO_BACKGROUND || !rests (self, now_us);
}

/* --- what is due when --- */

/* A call that can't have its first token in time any more would be in the way of those that can: it
 * goes behind them, and comes in time after a longer one, if that can be. */
static void
find_reader_due (LlmTicket *ticket,
                 gint64     now_us)
{
  double target_us = llm_ticket_get_ttft_us (ticket);

  ticket->is_lost = ticket->slo.class < LLM_SLO_BACKGROUND
                    && target_us < (double) (now_us - ticket->arrived_us) + ticket->left_us;
  ticket->due_us = ticket->arrived_us
                   + (gint64) (target_us * (ticket->is_lost ? LOST_FACTOR : 1));
}

/* In time after the last token, and sooner when the answer is late on the whole; but not much
 * sooner, or a few late ones would have all the time. */
static gint64
find_writer_due (const LlmTicket *ticket)
{
  double pace_us = llm_ticket_get_pace_us (ticket);
  double last_us = (double) (ticket->n_tokens > 0 ? ticket->last_us : ticket->arrived_us);
  double due_us = last_us + pace_us;

  if (ticket->slo.tpot_ms > 0 && ticket->n_tokens > 0)
    due_us = MIN (due_us, (double) ticket->first_us + ticket->n_tokens * pace_us);
  return (gint64) MAX (due_us, last_us + pace_us / 2);
}

/* The time that an answer stood still by its own fault does not count. */
static void
note_parked (LlmTicket *ticket,
             gint64     now_us)
{
  if (ticket->is_parked && ticket->parked_us == 0)
    ticket->parked_us = now_us;
  if (ticket->is_parked || ticket->parked_us == 0)
    return;
  if (ticket->n_tokens > 0)
    {
      ticket->first_us += now_us - ticket->parked_us;
      ticket->last_us += now_us - ticket->parked_us;
    }
  ticket->parked_us = 0;
}

int
llm_scheduler_compare (gconstpointer a,
                       gconstpointer b,
                       gpointer      scheduler)
{
  const LlmTicket *left = *(LlmTicket *const *) a;
  const LlmTicket *right = *(LlmTicket *const *) b;
  LlmScheduler *self = scheduler;
  LlmSloClass slo_class = left->slo.class;

  if (self->kind == LLM_SCHEDULER_FIFO)
    return left->arrival < right->arrival ? -1 : left->arrival > right->arrival;
  if (left->slo.class != right->slo.class)
    return left->slo.class < right->slo.class ? -1 : 1;
  if (left->ahead != right->ahead)
    return left->ahead < right->ahead ? -1 : 1;
  if (left->is_lost != right->is_lost)
    return left->is_lost ? 1 : -1;
  if (left->due_us != right->due_us)
    return left->due_us < right->due_us ? -1 : 1;
  for (guint i = 0; i < 2; i++)
    {
      const LlmAccount *a_account = i == 0 ? left->app->parent : left->app;
      const LlmAccount *b_account = i == 0 ? right->app->parent : right->app;
      double a_us = a_account->served_us[slo_class], b_us = b_account->served_us[slo_class];

      if (a_us != b_us)
        return a_us < b_us ? -1 : 1;
    }
  if (left->last_turn != right->last_turn)
    return left->last_turn < right->last_turn ? -1 : 1;
  return left->arrival < right->arrival ? -1 : left->arrival > right->arrival;
}

void
llm_scheduler_look_at (LlmScheduler *self,
                       LlmTicket    *ticket,
                       gint64        now_us)
{
  const LlmAccount *ahead = llm_account_find_ahead (ticket->app, ticket->slo.class,
                                                    llm_scheduler_get_lead_us (self));

  ticket->ahead = ahead == NULL                ? LLM_AHEAD_NONE
                  : llm_account_is_user (ahead) ? LLM_AHEAD_USER
                                                : LLM_AHEAD_APP;
  if (ticket->n_prompt == 0)
    {
      ticket->left_us = 0;
      ticket->is_lost = FALSE;
      ticket->due_us = find_writer_due (ticket);
      return;
    }
  ticket->left_us = llm_cost_model_predict_prompt (&self->costs, ticket->n_prompt, ticket->depth,
                                                   self->max_rows)
                    + llm_cost_model_predict_restore (&self->costs, ticket->restore_bytes);
  find_reader_due (ticket, now_us);
}

/* As long as others have less, who is over his share has one row of each step of answers: further
 * ones would make those of the others longer. As of the last look. */
static void
hold_writers (LlmScheduler *self,
              gint64        now_us)
{
  self->writing_class = LLM_N_SLO_CLASSES;
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmAccount *app = ((LlmTicket *) g_ptr_array_index (self->tickets, i))->app;

      app->n_rows = app->parent->n_rows = 0;
    }
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);
      LlmAccount *over;

      ticket->is_held = FALSE;
      if (ticket->n_prompt > 0 || !llm_scheduler_may_run (self, ticket, now_us))
        continue;
      over = llm_account_find_ahead (ticket->app, ticket->slo.class, self->accounts->burst_us);
      if (over == NULL)
        self->writing_class = MIN (self->writing_class, ticket->slo.class);
      else
        ticket->is_held = over->n_rows++ > 0;
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

  for (guint i = 0; i < LLM_N_READERS; i++)
    self->n_readers[i] = 0;
  self->accounts->burst_us = llm_scheduler_get_burst_us (self);
  llm_account_reset_least (self->accounts);
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      note_parked (ticket, now_us);
      if (llm_scheduler_may_run (self, ticket, now_us))
        llm_account_note_call (ticket->app, ticket->slo.class);
    }
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      llm_scheduler_look_at (self, ticket, now_us);
      if (ticket->n_prompt > 0 && llm_scheduler_may_run (self, ticket, now_us))
        self->n_readers[llm_ticket_get_readers (ticket)]++;
    }
  g_ptr_array_sort_with_data (self->tickets, llm_scheduler_compare, self);
  hold_writers (self, now_us);
}

/* --- who reads --- */

LlmLaneKind
llm_scheduler_find_lane (LlmScheduler    *self,
                         const LlmTicket *ticket)
{
  if (ticket->n_running > 0)
    return ticket->lane;
  if (self->kind == LLM_SCHEDULER_FIFO)
    return LLM_LANE_READING;
  if (llm_account_is_apart (ticket->app, ticket->slo.class))
    return LLM_LANE_AHEAD;
  return LLM_LANE_READING + ticket->slo.class;
}

gboolean
llm_scheduler_must_yield (LlmScheduler    *self,
                          const LlmTicket *ticket)
{
  return self->writing_class <= ticket->slo.class
         && llm_account_find_ahead (ticket->app, ticket->slo.class, self->accounts->burst_us)
              != NULL;
}

/* Of those that are not among the @waiting, and of those over their share or the others. */
static gboolean
is_reader (LlmScheduler *self,
           LlmTicket    *ticket,
           gint64        now_us,
           guint         waiting,
           gboolean      yields)
{
  return ticket->n_prompt > 0 && (waiting & (1u << llm_scheduler_find_lane (self, ticket))) == 0
         && llm_scheduler_may_run (self, ticket, now_us)
         && llm_scheduler_must_yield (self, ticket) == yields;
}

/* Of those that others went before for long enough: the first. Who is ahead went before
 * himself. */
static LlmTicket *
find_owed_reader (LlmScheduler *self,
                  gint64        now_us,
                  guint         waiting)
{
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);
      guint readers = llm_ticket_get_readers (ticket);

      if (!is_reader (self, ticket, now_us, waiting, FALSE) || ticket->ahead != LLM_AHEAD_NONE)
        continue;
      self->is_paying[readers] = self->is_paying[readers] || self->owed_us[readers] >= OWED_US;
      if (self->is_paying[readers])
        return ticket;
    }
  return NULL;
}

static LlmTicket *
find_first_reader (LlmScheduler *self,
                   gint64        now_us,
                   guint         waiting,
                   gboolean      yields,
                   gboolean     *is_urgent)
{
  double stretch = 1 / (1 - llm_scheduler_get_writing_share (self));
  double row_us = llm_cost_model_get_row_us (&self->costs) * stretch;
  double before_us = 0;
  double spare_us = G_MAXDOUBLE;
  LlmTicket *first = NULL;

  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);
      double own_us = ticket->left_us * stretch;
      double left_us = (double) (ticket->due_us - now_us) - own_us;

      if (!is_reader (self, ticket, now_us, waiting, yields))
        continue;
      if (first == NULL)
        {
          first = ticket;
          *is_urgent = ticket->slo.class < LLM_SLO_BACKGROUND && !ticket->is_lost
                       && left_us < URGENT_US;
        }
      else if (ticket->slo.class < LLM_SLO_BACKGROUND && ticket->ahead == LLM_AHEAD_NONE
               && !ticket->is_lost && left_us >= 0 && left_us < before_us && own_us <= spare_us)
        {
          *is_urgent = TRUE;
          return ticket;
        }
      if (!ticket->is_lost)
        spare_us = MIN (spare_us, left_us - before_us);
      before_us += ticket->n_prompt * row_us;
    }
  return first;
}

LlmTicket *
llm_scheduler_find_reader (LlmScheduler *self,
                           gint64        now_us,
                           guint         waiting,
                           gboolean     *is_urgent)
{
  LlmTicket *first = find_owed_reader (self, now_us, waiting);

  *is_urgent = FALSE;
  if (first == NULL)
    first = find_first_reader (self, now_us, waiting, FALSE, is_urgent);
  if (first == NULL)
    first = find_first_reader (self, now_us, waiting, TRUE, is_urgent);
  return first;
}

/* --- whose turn it is --- */

static LlmLaneKind
choose_fifo (LlmScheduler *self,
             gint64        now_us,
             guint         waiting)
{
  gboolean writers_wait = (waiting & (1u << LLM_LANE_WRITING)) != 0;
  gboolean readers_wait = (waiting & (1u << LLM_LANE_READING)) != 0;
  gboolean has_readers = FALSE;
  gboolean has_writers = self->steps[LLM_LANE_WRITING].is_active;

  if (has_writers && !writers_wait)
    return LLM_LANE_WRITING;
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      has_readers = has_readers || (ticket->n_prompt > 0 && !ticket->is_parked);
      has_writers = has_writers || (ticket->n_prompt == 0 && !ticket->is_parked);
    }
  has_readers = has_readers && !readers_wait;
  has_writers = has_writers && !writers_wait;
  if (has_readers
      && (!has_writers
          || self->read_us < CLAMP (self->written_us, MIN_READING_US, MAX_READING_US)))
    return LLM_LANE_READING;
  return has_writers ? LLM_LANE_WRITING : LLM_LANE_NONE;
}

/* Between @reader and the writers. */
static gboolean
goes_first (LlmScheduler    *self,
            const LlmTicket *reader,
            gboolean         is_urgent,
            gint64           latest_us,
            LlmSloClass      writing_class,
            gint64           now_us)
{
  LlmSloClass slo_class = reader->slo.class;

  if (llm_scheduler_must_yield (self, reader))
    return FALSE;
  /* However many write, somebody must come to write, too. */
  if (slo_class < LLM_SLO_BACKGROUND && self->read_us < self->written_us / 3)
    return TRUE;
  if (now_us >= latest_us)
    return FALSE;
  if (slo_class < LLM_SLO_BACKGROUND && (slo_class <= writing_class || is_urgent))
    return TRUE;
  return self->read_us < CLAMP (self->written_us, MIN_READING_US, MAX_READING_US);
}

LlmLaneKind
llm_scheduler_choose (LlmScheduler *self,
                      gint64        now_us,
                      guint         waiting)
{
  const LlmSchedulerStep *writing = &self->steps[LLM_LANE_WRITING];
  gboolean writers_wait = (waiting & (1u << LLM_LANE_WRITING)) != 0;
  gboolean has_writers = FALSE;
  LlmSloClass writing_class = LLM_SLO_BACKGROUND;
  gint64 latest_us = G_MAXINT64;
  gboolean is_urgent;
  LlmTicket *reader;

  llm_scheduler_look (self, now_us);
  if (self->kind == LLM_SCHEDULER_FIFO)
    return choose_fifo (self, now_us, waiting);

  self->wake_us = self->pace == LLM_PACE_SLOW && self->rest_until_us > now_us
                    ? self->rest_until_us : 0;
  reader = llm_scheduler_find_reader (self, now_us, waiting, &is_urgent);
  if (!writers_wait)
    has_writers = llm_scheduler_choose_writers (self, now_us, reader != NULL, NULL,
                                                self->max_rows, &latest_us, &writing_class) > 0
                  || (writing->is_active && !(writing->is_background && rests (self, now_us)));
  if (reader == NULL)
    return has_writers ? LLM_LANE_WRITING : LLM_LANE_NONE;
  if (!has_writers)
    return llm_scheduler_find_lane (self, reader);

  /* A step that somebody waits for goes on to its end, it is short. */
  if (writing->is_active && (!writing->is_background || reader->slo.class == LLM_SLO_BACKGROUND))
    return LLM_LANE_WRITING;
  if (writing->is_active)
    latest_us -= (gint64) MAX (writing->expected_us - writing->spent_us, 0);
  return goes_first (self, reader, is_urgent, latest_us, writing_class, now_us)
           ? llm_scheduler_find_lane (self, reader)
           : LLM_LANE_WRITING;
}

gint64
llm_scheduler_get_wake (LlmScheduler *self)
{
  return self->wake_us;
}
