/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-governor"

#include "memory/llm-keeper.h"

#include <malloc.h>

#include "base/llm-clock.h"

/* A trigger for tasks that waited 150 ms in two seconds: without privileges the window is a
 * multiple of two seconds. */
#define STALL_US 150000
#define STALL_WINDOW_US 2000000
/* How long holders may take to write what they give before they drop it. */
/* Where nothing moves for so long while nothing runs, there is no need to look often: what comes
 * suddenly, the kernel tells. */
#define STILL_US (10 * G_USEC_PER_SEC)
#define STILL_PARTS 64
#define CRITICAL_PATIENCE_US 50000
#define PATIENCE_US 300000

struct _LlmKeeper
{
  gatomicrefcount ref_count;   /* the user's, and those of trims under way */
  LlmGovernor *governor;       /* (owned) */
  LlmLedger *ledger;           /* (owned) */
  gboolean reacts;
  guint64 reserve;
  gboolean is_test;            /* the kernel files are not this machine's */
  LlmKeeperUser user;
  gboolean is_over;            /* the user is gone */

  LlmMemoryReader *reader;
  LlmMemoryPolicy policy;
  GPtrArray *sources;          /* (element-type LlmPressureSource) (owned) */
  GCancellable *cancellable;
  guint64 set_allowed;         /* as set; 0: a share */
  gboolean is_trimming;
  guint64 backed_next;         /* bytes to give of files when the trim under way has ended */
  guint64 still_room;          /* bytes that there was room for */
  gint64 moved_us;             /* when that last changed by much */
  LlmKeeperState state;
};

static void look (LlmKeeper *self);
static void trim (LlmKeeper   *self,
                  LlmTrimScope scope,
                  LlmPressure  depth,
                  guint64      target);

static void
unref (LlmKeeper *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  llm_memory_reader_free (self->reader);
  g_ptr_array_unref (self->sources);
  g_object_unref (self->cancellable);
  g_object_unref (self->governor);
  llm_ledger_unref (self->ledger);
  g_free (self);
}

static LlmKeeper *
ref (LlmKeeper *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

/* --- giving --- */

static void
on_trimmed (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  LlmKeeper *self = data;
  g_autoptr(LlmTrimResult) trimmed = llm_governor_trim_finish (LLM_GOVERNOR (source), result, NULL);

  self->is_trimming = FALSE;
  if (trimmed->freed > 0)
    malloc_trim (0);
  /* Then what is no use to those who need memory that is not a file's. */
  if (!self->is_over && self->backed_next > 0)
    {
      trim (self, LLM_TRIM_BACKED, LLM_PRESSURE_CRITICAL, self->backed_next);
      self->backed_next = 0;
    }
  /* What it did shows at once, and there may be more to do. */
  if (!self->is_over && trimmed->freed > 0)
    look (self);
  unref (self);
}

static void
trim (LlmKeeper   *self,
      LlmTrimScope scope,
      LlmPressure  depth,
      guint64      target)
{
  LlmTrimRequest request = {
    .scope = scope,
    .level = depth,
    .target = target,
    .patience_us = depth == LLM_PRESSURE_CRITICAL ? CRITICAL_PATIENCE_US : PATIENCE_US,
  };

  if (self->is_trimming)
    return;
  self->is_trimming = TRUE;
  self->state.n_trims++;
  llm_governor_trim_async (self->governor, &request, on_trimmed, ref (self));
}

/* The budget counts file pages too; they alone are never why something is given. */
static void
trim_to_allowed (LlmKeeper *self)
{
  guint64 held = llm_ledger_get_total (self->ledger);

  if (self->state.allowed > 0 && held > self->state.allowed)
    trim (self, LLM_TRIM_ALL, LLM_PRESSURE_MEDIUM, held - self->state.allowed);
}

static void
act (LlmKeeper           *self,
     const LlmMemoryHeld *held,
     LlmPressure          earlier)
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
      trim (self, LLM_TRIM_ANONYMOUS, action->depth, action->give_anonymous);
    }
  else if (action->give_backed > 0)
    trim (self, LLM_TRIM_BACKED, LLM_PRESSURE_CRITICAL, action->give_backed);
  if (action->level == LLM_PRESSURE_LOW && earlier == LLM_PRESSURE_NONE && !held->is_busy)
    trim (self, LLM_TRIM_ALL, LLM_PRESSURE_LOW, 0);
  if (action->grow_backed > 0)
    llm_governor_grow (self->governor, action->grow_backed);
}

/* --- looking --- */

static void
find_allowed (LlmKeeper *self)
{
  self->state.allowed = self->set_allowed;
  if (self->set_allowed == 0)
    self->state.allowed = self->state.reading.total / 4 * 3;
  llm_ledger_set_budget (self->ledger, self->state.allowed);
}

static gboolean
is_still (LlmKeeper *self)
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

static void
tell_sources (LlmKeeper *self,
              gboolean   is_tight)
{
  for (guint i = 0; i < self->sources->len; i++)
    llm_pressure_source_set_tight (g_ptr_array_index (self->sources, i), is_tight);
}

static void
look (LlmKeeper *self)
{
  LlmPressure earlier = self->state.action.level;
  guint64 budget = self->state.action.budget;
  guint64 anonymous = llm_ledger_get_anonymous (self->ledger);
  guint64 text = llm_ledger_get (self->ledger, LLM_HOLDER_TEXT);
  /* Text stays in any case. */
  LlmMemoryHeld held = {
    .anonymous = anonymous > text ? anonymous - text : 0,
    .backed = llm_ledger_get_backed (self->ledger),
    .used = llm_ledger_get_used_backed (self->ledger),
    .reserve = self->reserve,
    .is_busy = self->user.is_busy (self->user.data),
    .is_trimmed = self->user.is_trimmed (self->user.data),
  };

  llm_memory_reader_read (self->reader, &self->state.reading);
  find_allowed (self);
  held.allowed = self->state.allowed > 0 ? self->state.allowed : G_MAXUINT64;
  llm_memory_policy_decide (&self->policy, &self->state.reading, &held, &self->state.action);
  if (self->reacts)
    {
      self->state.n_cuts = self->policy.anonymous.n_cuts;
      self->state.cut_us = self->policy.anonymous.cut_us;
      if (self->policy.anonymous.grown_us == self->state.reading.time_us &&
          self->state.action.budget > budget)
        self->state.regrown += self->state.action.budget - budget;
      act (self, &held, earlier);
      /* With nothing to give there is nothing to be quick for. */
      tell_sources (self, self->state.action.is_tight
                              && (held.is_busy || ((held.anonymous > 0 || held.backed > 0)
                                                   && !is_still (self))));
    }
  else
    self->state.action.budget = held.allowed;
  trim_to_allowed (self);
  self->user.looked (self->user.data);
}

void
llm_keeper_look (LlmKeeper *self)
{
  look (self);
}

static void
on_stirred (LlmPressureSource *source,
            guint              hint,
            gpointer           data)
{
  LlmKeeper *self = data;

  if (hint != LLM_PRESSURE_NONE)
    llm_memory_reader_set_hint (self->reader, hint);
  look (self);
}

/* --- sources --- */

/* Takes @source (nullable). */
static void
add_source (LlmKeeper         *self,
            LlmPressureSource *source)
{
  if (source == NULL)
    return;
  g_signal_connect (source, "stirred", G_CALLBACK (on_stirred), self);
  g_ptr_array_add (self->sources, source);
}

/* Sources but for the timer are not to be had everywhere, and can be done without. */
static void
add_found (LlmKeeper         *self,
           LlmPressureSource *source,
           GError            *error)
{
  if (error != NULL)
    g_debug ("A source of pressure is not there: %s", error->message);
  g_clear_error (&error);
  add_source (self, source);
}

static void
add_stalls (LlmKeeper  *self,
            const char *path)
{
  GError *error = NULL;
  LlmPressureSource *source = llm_psi_source_new (path, STALL_US, STALL_WINDOW_US, &error);

  add_found (self, source, error);
}

static void
add_usage (LlmKeeper  *self,
           const char *folder,
           guint64     bytes)
{
  GError *error = NULL;
  LlmPressureSource *source = llm_usage_source_new (folder, bytes, &error);

  add_found (self, source, error);
}

static void
add_group_sources (LlmKeeper *self)
{
  LlmMemoryGroups *groups = llm_memory_reader_get_groups (self->reader);
  const char *own = llm_memory_groups_get_v2 (groups);
  const char *tightest;
  gboolean is_v1;
  LlmGroupUsage usage;

  if (own != NULL)
    {
      g_autofree char *stalls = g_build_filename (own, "memory.pressure", NULL);
      g_autofree char *events = g_build_filename (own, "memory.events", NULL);
      GError *error = NULL;
      LlmPressureSource *source = llm_events_source_new (events, &error);

      add_stalls (self, stalls);
      add_found (self, source, error);
    }
  llm_memory_groups_read (groups, &usage);
  tightest = llm_memory_groups_get_tightest (groups, &is_v1);
  if (tightest != NULL && is_v1)
    {
      guint64 reserve = self->reserve > 0
                          ? MIN (self->reserve, usage.limit / 2)
                          : llm_memory_policy_get_reserve (usage.limit, FALSE, FALSE);

      /* When it becomes tight, when it is, and when the kernel begins to look for pages. */
      add_usage (self, tightest, usage.limit - MIN (3 * reserve, usage.limit / 2));
      add_usage (self, tightest, usage.limit - reserve);
      add_usage (self, tightest, 0);
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
  LlmKeeper *self = data;
  g_autoptr(GMemoryMonitor) monitor = g_task_propagate_pointer (G_TASK (result), NULL);

  if (monitor != NULL && !self->is_over)
    add_source (self, llm_monitor_source_new (monitor));
  unref (self);
}

void
llm_keeper_find_sources (LlmKeeper *self)
{
  const char *watch = g_getenv ("MEMORY_PRESSURE_WATCH");
  g_autoptr(GTask) task = NULL;

  add_source (self, llm_poll_source_new ());
  if (!self->reacts || self->is_test)
    return;

  add_stalls (self, "/proc/pressure/memory");
  add_group_sources (self);
  if (watch != NULL)
    {
      GError *error = NULL;
      LlmPressureSource *source =
          llm_watch_source_new (watch, g_getenv ("MEMORY_PRESSURE_WRITE"), &error);

      add_found (self, source, error);
    }

  /* Finding the desktop's monitor connects to the bus, and waits for that. */
  task = g_task_new (NULL, self->cancellable, on_monitor, ref (self));
  g_task_run_in_thread (task, make_monitor);
}

/* --- the object --- */

LlmKeeper *
llm_keeper_new (LlmGovernor           *governor,
                LlmLedger             *ledger,
                const LlmKeeperConfig *config,
                const LlmKeeperUser   *user)
{
  LlmKeeper *self = g_new0 (LlmKeeper, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->governor = g_object_ref (governor);
  self->ledger = llm_ledger_ref (ledger);
  self->reacts = config->reacts;
  self->reserve = config->reserve;
  self->is_test = config->root != NULL;
  self->user = *user;
  self->reader = llm_memory_reader_new (config->root);
  self->sources = g_ptr_array_new_with_free_func (g_object_unref);
  self->cancellable = g_cancellable_new ();
  llm_memory_policy_init (&self->policy);
  llm_memory_reader_read (self->reader, &self->state.reading);
  find_allowed (self);
  self->state.action.budget = self->state.allowed;
  return self;
}

void
llm_keeper_stop (LlmKeeper *self)
{
  g_cancellable_cancel (self->cancellable);
  for (guint i = 0; i < self->sources->len; i++)
    g_signal_handlers_disconnect_by_data (g_ptr_array_index (self->sources, i), self);
  g_ptr_array_set_size (self->sources, 0);
  self->is_over = TRUE;
  /* Holders answer as long as there are any. */
  while (self->is_trimming)
    g_main_context_iteration (NULL, TRUE);
}

void
llm_keeper_free (LlmKeeper *self)
{
  llm_keeper_stop (self);
  unref (self);
}

void
llm_keeper_set_allowed (LlmKeeper *self,
                        guint64    bytes)
{
  self->set_allowed = bytes;
  find_allowed (self);
}

const LlmKeeperState *
llm_keeper_get_state (LlmKeeper *self)
{
  return &self->state;
}
