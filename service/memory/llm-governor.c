/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-governor"

#include "memory/llm-governor.h"

#include "memory/llm-pressure-source.h"

/* A trigger for tasks that stalled 150 ms in two seconds: without privileges the window is a
 * multiple of two seconds. */
#define STALL_US 150000
#define STALL_WINDOW_US 2000000
/* When nothing has moved for so long and no request runs, it looks less often: the kernel reports
 * sudden changes. */
#define STILL_US (10 * G_USEC_PER_SEC)
#define STILL_PARTS 64
/* How long holders may write chunks that they release before they drop them. */
#define CRITICAL_PATIENCE_US 50000
#define PATIENCE_US 300000

struct _LlmGovernor
{
  LlmLedger *ledger;
  LlmReclaimQueue *queue;
  gboolean reacts;
  guint64 reserve;
  gboolean is_test;            /* the kernel files are replaced (tests) */
  void (*wake) (gpointer data);
  gpointer wake_data;
  gboolean is_stopped;

  LlmMemoryReader *reader;
  LlmMemoryPolicy policy;
  GPtrArray *sources;          /* (element-type LlmPressureSource) (owned) */
  guint timer;                 /* source */
  gboolean is_tight;           /* the timer is quick */
  GCancellable *cancellable;
  guint64 set_allowed;         /* as set; 0: a fraction of the machine */
  guint64 work;                /* bytes */
  gboolean is_reclaiming;
  guint64 backed_next;         /* bytes of files to reclaim after the reclaim under way */
  guint64 still_room;          /* free bytes at the last look */
  gint64 moved_us;             /* when they last changed by much */
  LlmGovernorState state;
};

/* --- acting --- */

static void
on_reclaimed (const LlmReclaimResult *result,
              gpointer                data);

static void
reclaim (LlmGovernor    *self,
         LlmReclaimScope scope,
         LlmPressure     depth,
         guint64         target)
{
  LlmReclaimRequest request = {
    .scope = scope,
    .level = depth,
    .target = target,
    .patience_us = depth == LLM_PRESSURE_CRITICAL ? CRITICAL_PATIENCE_US : PATIENCE_US,
  };

  if (self->is_reclaiming)
    return;
  self->is_reclaiming = TRUE;
  self->state.n_reclaims++;
  llm_reclaim_queue_push (self->queue, &request, on_reclaimed, self);
}

static void
on_reclaimed (const LlmReclaimResult *result,
              gpointer                data)
{
  LlmGovernor *self = data;

  self->is_reclaiming = FALSE;
  if (self->is_stopped)
    return;
  /* File pages are reclaimed next: they do not help those who need anonymous memory. */
  if (self->backed_next > 0)
    {
      reclaim (self, LLM_RECLAIM_BACKED, LLM_PRESSURE_CRITICAL, self->backed_next);
      self->backed_next = 0;
    }
  /* The effect shows at once, and more may be needed. */
  if (result->freed > 0)
    self->wake (self->wake_data);
}

static void
grow (LlmGovernor *self,
      guint64      bytes)
{
  GPtrArray *reclaimers = llm_ledger_get_reclaimers (self->ledger);

  for (guint i = 0; i < reclaimers->len; i++)
    {
      LlmReclaimer *reclaimer = g_ptr_array_index (reclaimers, i);

      if (reclaimer->grow != NULL)
        reclaimer->grow (reclaimer->holder, bytes);
    }
}

static void
act (LlmGovernor *self,
     gboolean     is_busy,
     LlmPressure  earlier)
{
  const LlmMemoryAction *action = &self->state.action;
  guint64 text = llm_ledger_get (self->ledger, LLM_HOLDER_TEXT);
  LlmCeiling ceiling = {
    .now = action->budget + text,
    .urgent = action->urgent_budget + text,
    .most = self->state.allowed,
  };

  if (self->state.reading.group.limit > 0)
    ceiling.most = MIN (ceiling.most, self->state.reading.group.limit);
  llm_ledger_set_ceiling (self->ledger, &ceiling);

  if (action->give_anonymous > 0)
    {
      self->backed_next = action->give_backed;
      reclaim (self, LLM_RECLAIM_ANONYMOUS, action->depth, action->give_anonymous);
    }
  else if (action->give_backed > 0)
    reclaim (self, LLM_RECLAIM_BACKED, LLM_PRESSURE_CRITICAL, action->give_backed);
  if (action->level == LLM_PRESSURE_LOW && earlier == LLM_PRESSURE_NONE && !is_busy)
    reclaim (self, LLM_RECLAIM_ALL, LLM_PRESSURE_LOW, 0);
  if (action->grow_backed > 0)
    grow (self, action->grow_backed);
}

/* --- looking --- */

static void
find_allowed (LlmGovernor *self)
{
  self->state.allowed = self->set_allowed;
  if (self->set_allowed == 0)
    self->state.allowed = self->state.reading.total / 4 * 3;
  llm_ledger_set_budget (self->ledger, self->state.allowed);
}

static gboolean
is_still (LlmGovernor *self)
{
  const LlmMemoryReading *reading = &self->state.reading;
  guint64 room = MIN (reading->available, llm_group_usage_get_room (&reading->group));
  guint64 change = room > self->still_room ? room - self->still_room : self->still_room - room;

  if (change > self->still_room / STILL_PARTS)
    {
      self->still_room = room;
      self->moved_us = reading->time_us;
    }
  return reading->time_us - self->moved_us >= STILL_US;
}

static gboolean
on_time (gpointer data)
{
  LlmGovernor *self = data;

  self->wake (self->wake_data);
  return G_SOURCE_CONTINUE;
}

/* Without pressure the timer expires together with those of the rest of the process. */
static void
set_timer (LlmGovernor *self,
           gboolean     is_tight)
{
  if (self->timer != 0)
    g_source_remove (self->timer);
  self->is_tight = is_tight;
  self->timer = is_tight ? g_timeout_add (LLM_MEMORY_TIGHT_MS, on_time, self)
                         : g_timeout_add_seconds (LLM_MEMORY_CALM_MS / 1000, on_time, self);
}

static void
react (LlmGovernor         *self,
       const LlmMemoryHeld *held,
       LlmPressure          earlier,
       guint64              budget)
{
  LlmGovernorState *state = &self->state;
  gboolean is_tight;

  state->n_cuts = self->policy.anonymous.n_cuts;
  state->cut_us = self->policy.anonymous.cut_us;
  if (self->policy.anonymous.grown_us == state->reading.time_us && state->action.budget > budget)
    state->regrown += state->action.budget - budget;
  act (self, held->is_busy, earlier);
  /* with nothing to reclaim, a quick timer is useless */
  is_tight = state->action.is_tight
             && (held->is_busy
                 || ((held->anonymous > 0 || held->backed > 0) && !is_still (self)));
  if (self->timer != 0 && is_tight != self->is_tight)
    set_timer (self, is_tight);
}

void
llm_governor_look (LlmGovernor *self,
                   gboolean     is_busy,
                   gboolean     is_held)
{
  LlmGovernorState *state = &self->state;
  LlmPressure earlier = state->action.level;
  guint64 budget = state->action.budget;
  guint64 anonymous = llm_ledger_get_anonymous (self->ledger);
  guint64 text = llm_ledger_get (self->ledger, LLM_HOLDER_TEXT);
  guint64 excess;
  /* Text stays in any case. */
  LlmMemoryHeld held = {
    .anonymous = anonymous > text ? anonymous - text : 0,
    .idle = llm_ledger_get_reclaimable (self->ledger, LLM_RECLAIM_CHEAP),
    .work = self->work,
    .is_deaf = !self->reacts,
    .backed = llm_ledger_get (self->ledger, LLM_LEDGER_BACKED),
    .used = llm_ledger_get_used_backed (self->ledger),
    .reserve = self->reserve,
    .is_busy = is_busy,
    .is_trimmed = is_held,
  };

  llm_memory_reader_read (self->reader, &state->reading);
  find_allowed (self);
  held.allowed = state->allowed > 0 ? state->allowed : G_MAXUINT64;
  llm_memory_policy_decide (&self->policy, &state->reading, &held, &state->action);
  if (self->reacts)
    react (self, &held, earlier, budget);
  else
    state->action.budget = held.allowed;
  /* The budget counts file pages too: idle memory is released before them. */
  excess = llm_governor_get_excess (self, is_busy);
  if (excess == 0)
    return;
  if (!is_busy && excess > held.idle)
    self->backed_next = excess - held.idle;
  reclaim (self, LLM_RECLAIM_ALL, LLM_PRESSURE_MEDIUM, excess);
}

guint64
llm_governor_get_excess (LlmGovernor *self,
                         gboolean     is_busy)
{
  const LlmGovernorState *state = &self->state;
  guint64 total = llm_ledger_get_total (self->ledger);
  /* what is not in memory is in neither */
  guint64 here = MIN (llm_ledger_get_used_backed (self->ledger),
                      llm_ledger_get (self->ledger, LLM_LEDGER_BACKED));

  if (is_busy)
    total -= MIN (total, here - MIN (here, state->action.keep_backed));
  return state->allowed > 0 && total > state->allowed ? total - state->allowed : 0;
}

/* --- sources --- */

static void
on_pressure (LlmPressure hint,
             gpointer    data)
{
  LlmGovernor *self = data;

  if (hint != LLM_PRESSURE_NONE)
    llm_memory_reader_set_hint (self->reader, hint);
  self->wake (self->wake_data);
}

/* Takes @source (nullable) and clears *@error: not every machine has all sources, and none is
 * required. */
static void
add_source (LlmGovernor       *self,
            LlmPressureSource *source,
            GError           **error)
{
  if (*error != NULL)
    g_debug ("A source of pressure is not there: %s", (*error)->message);
  g_clear_error (error);
  if (source == NULL)
    return;
  llm_pressure_source_set_func (source, on_pressure, self);
  g_ptr_array_add (self->sources, source);
}

static void
add_stalls (LlmGovernor *self,
            const char  *path)
{
  GError *error = NULL;

  add_source (self, llm_psi_source_new (path, STALL_US, STALL_WINDOW_US, &error), &error);
}

static void
add_group_sources (LlmGovernor *self)
{
  LlmMemoryGroups *groups = llm_memory_reader_get_groups (self->reader);
  const char *own = llm_memory_groups_get_v2 (groups);
  const char *tightest;
  GError *error = NULL;
  gboolean is_v1;
  LlmGroupUsage usage;

  if (own != NULL)
    {
      g_autofree char *stalls = g_build_filename (own, "memory.pressure", NULL);
      g_autofree char *events = g_build_filename (own, "memory.events", NULL);

      add_stalls (self, stalls);
      add_source (self, llm_events_source_new (events, &error), &error);
    }
  llm_memory_groups_read (groups, &usage);
  tightest = llm_memory_groups_get_tightest (groups, &is_v1);
  if (tightest != NULL && is_v1)
    {
      guint64 reserve = self->reserve > 0
                          ? MIN (self->reserve, usage.limit / 2)
                          : llm_memory_policy_get_reserve (usage.limit, FALSE, FALSE);
      /* When it becomes tight, when it is, and when the kernel begins to look for pages. */
      const guint64 marks[] = { usage.limit - MIN (3 * reserve, usage.limit / 2),
                                usage.limit - reserve, 0 };

      for (guint i = 0; i < G_N_ELEMENTS (marks); i++)
        add_source (self, llm_usage_source_new (tightest, marks[i], &error), &error);
    }
}

static void
make_monitor (GTask        *task,
              gpointer      source,
              gpointer      data,
              GCancellable *cancellable)
{
  g_task_return_pointer (task, g_memory_monitor_dup_default (), g_object_unref);
}

static void
on_monitor (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GMemoryMonitor) monitor = g_task_propagate_pointer (G_TASK (result), &error);

  /* NULL without an error if the machine has none; with an error the governor was stopped, or
   * freed. */
  if (error == NULL && monitor != NULL)
    add_source (data, llm_monitor_source_new (monitor), &error);
}

void
llm_governor_start (LlmGovernor *self)
{
  const char *watch = g_getenv ("MEMORY_PRESSURE_WATCH");
  g_autoptr(GTask) task = NULL;
  GError *error = NULL;

  set_timer (self, FALSE);
  /* the first load needs to know how much is free */
  self->wake (self->wake_data);
  if (!self->reacts || self->is_test)
    return;

  add_stalls (self, "/proc/pressure/memory");
  add_group_sources (self);
  if (watch != NULL)
    add_source (self, llm_watch_source_new (watch, g_getenv ("MEMORY_PRESSURE_WRITE"), &error),
                &error);

  /* Finding the desktop's monitor connects to the bus, and waits for that. */
  task = g_task_new (NULL, self->cancellable, on_monitor, self);
  g_task_run_in_thread (task, make_monitor);
}

/* --- the object --- */

LlmGovernor *
llm_governor_new (LlmLedger               *ledger,
                  const LlmGovernorConfig *config,
                  void                   (*wake) (gpointer data),
                  gpointer                 data)
{
  LlmGovernor *self = g_new0 (LlmGovernor, 1);

  self->ledger = llm_ledger_ref (ledger);
  self->queue = llm_reclaim_queue_new (ledger);
  self->reacts = config->reacts;
  self->reserve = config->reserve;
  self->is_test = config->root != NULL;
  self->wake = wake;
  self->wake_data = data;
  self->reader = llm_memory_reader_new (config->root);
  self->sources = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_pressure_source_free);
  self->cancellable = g_cancellable_new ();
  llm_memory_policy_init (&self->policy);
  llm_memory_reader_read (self->reader, &self->state.reading);
  find_allowed (self);
  self->state.action.budget = self->state.allowed;
  return self;
}

void
llm_governor_stop (LlmGovernor *self)
{
  g_cancellable_cancel (self->cancellable);
  g_clear_handle_id (&self->timer, g_source_remove);
  g_ptr_array_set_size (self->sources, 0);
  self->is_stopped = TRUE;
  /* Runs callbacks of holders until the last reclaim has ended. */
  while (self->is_reclaiming)
    g_main_context_iteration (NULL, TRUE);
}

void
llm_governor_free (LlmGovernor *self)
{
  llm_governor_stop (self);
  llm_reclaim_queue_free (self->queue);
  llm_memory_reader_free (self->reader);
  g_ptr_array_unref (self->sources);
  g_object_unref (self->cancellable);
  llm_ledger_unref (self->ledger);
  g_free (self);
}

void
llm_governor_set_allowed (LlmGovernor *self,
                          guint64      bytes)
{
  self->set_allowed = bytes;
  find_allowed (self);
}

void
llm_governor_set_work (LlmGovernor *self,
                       guint64      bytes)
{
  self->work = bytes;
}

void
llm_governor_reclaim (LlmGovernor             *self,
                      const LlmReclaimRequest *request,
                      LlmReclaimFunc           func,
                      gpointer                 data)
{
  llm_reclaim_queue_push (self->queue, request, func, data);
}

const LlmGovernorState *
llm_governor_get_state (LlmGovernor *self)
{
  return &self->state;
}
