/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-memory-policy.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)
#define GIB (G_GUINT64_CONSTANT (1) << 30)

/* Calm period before anything grows; doubled after each growth that ended in a cut, and back to
 * this after so long without one. A browser takes about ten seconds to start. */
#define CALM_US (10 * G_USEC_PER_SEC)
#define MAX_CALM_US (300 * G_USEC_PER_SEC)
#define FORGET_US (600 * G_USEC_PER_SEC)
/* The same for file pages that requests use: those that don't stay are read again for each step. */
#define KEEP_CALM_US (1 * G_USEC_PER_SEC)
#define MAX_KEEP_CALM_US (30 * G_USEC_PER_SEC)
/* Released memory reduces stalls only after this time. */
#define CUT_INTERVAL_US (1 * G_USEC_PER_SEC)
#define CRITICAL_CUT_INTERVAL_US (G_USEC_PER_SEC / 2)
/* Additive growth, multiplicative cuts: so programs that share a machine converge to equal
 * parts. */
#define GROW_INTERVAL_US G_USEC_PER_SEC
#define GROW_PARTS 16
#define MIN_GROWTH (64 * MIB)
/* May grow back before the calm period has passed, so that a request can go on. */
#define LEAST_WORK (128 * MIB)
/* A cut by a fraction of what is held is skipped below this. */
#define LEAST_CUT (16 * MIB)

static guint64
subtract (guint64 a,
          guint64 b)
{
  return a > b ? a - b : 0;
}

static guint64
add (guint64 a,
     guint64 b)
{
  return a > G_MAXUINT64 - b ? G_MAXUINT64 : a + b;
}

/* A program in a group of its own that allocates as fast as the kernel clears pages takes about a
 * tenth of a small group's limit, or some 200 MiB of a large one's, until the next look and
 * release. A machine needs free memory for its caches, too, and has time while it swaps. */
guint64
llm_memory_policy_get_reserve (guint64  limit,
                               gboolean is_machine,
                               gboolean has_swap)
{
  if (is_machine)
    return CLAMP (limit / (has_swap ? 32 : 16), MIN (128 * MIB, limit / 4), 2 * GIB);
  return CLAMP (limit / 10, MIN (24 * MIB, limit / 4), GIB);
}

void
llm_memory_policy_init (LlmMemoryPolicy *self)
{
  *self = (LlmMemoryPolicy) {
    .cut = G_MAXUINT64,
    .anonymous = { .period_us = CALM_US },
    .pages = { .period_us = CALM_US },
    .kept = { .period_us = KEEP_CALM_US },
    .calls = { .period_us = CALM_US },
    .keep = G_MAXUINT64,
    .least_fit = G_MAXUINT64,
  };
}

/* --- how it is --- */

/* One limit: the machine's or a group's. */
typedef struct
{
  guint64 limit;
  guint64 room;         /* bytes that may be had besides */
  guint64 unused;       /* of these, those that need no file page to go */
  guint64 reserve;
} Bound;

static LlmPressure
judge_room (const Bound *bound)
{
  if (bound->limit == 0)
    return LLM_PRESSURE_NONE;
  if (bound->room < bound->reserve / 2)
    return LLM_PRESSURE_CRITICAL;
  if (bound->room < bound->reserve)
    return LLM_PRESSURE_MEDIUM;
  return bound->room < 2 * bound->reserve ? LLM_PRESSURE_LOW : LLM_PRESSURE_NONE;
}

/* Others may stall under a limit of their own, where released memory does not help. With half of
 * the memory free that is the reason, and with a quarter it is likely. */
static LlmPressure
judge_stalls (const LlmStallShare *share,
              guint64              room,
              guint64              limit)
{
  LlmPressure level = llm_pressure_judge (share->some, share->full);

  if (limit == 0 || room > limit / 2)
    return LLM_PRESSURE_NONE;
  return room > limit / 4 ? MIN (level, LLM_PRESSURE_LOW) : level;
}

static LlmPressure
judge_all_stalls (const LlmMemoryReading *reading,
                  const Bound            *machine,
                  const Bound            *group)
{
  LlmPressure level = judge_stalls (&reading->machine, machine->room, machine->limit);

  level = MAX (level, judge_stalls (&reading->own, MIN (group->unused, machine->room),
                                    group->limit > 0 ? group->limit : machine->limit));
  /* Version 1 does not report stalls by group: when ours is full, they may be ours. */
  if (group->limit > 0 && group->unused < group->reserve)
    level = MAX (level, MIN (llm_pressure_judge (reading->machine.some, reading->machine.full),
                             LLM_PRESSURE_LOW));
  return level;
}

/* --- what to hold --- */

static guint64
get_ceiling (const Bound *bound,
             guint64      anonymous,
             guint64      reserve)
{
  if (bound->limit == 0)
    return G_MAXUINT64;
  return subtract (add (bound->room, anonymous), reserve);
}

static void
note_cut (LlmMemoryCalm *self,
          gint64         least_us,
          gint64         most_us,
          gint64         now)
{
  if (self->cut_us == 0 || now - self->cut_us > FORGET_US)
    self->period_us = least_us;
  else if (self->grown_us > self->cut_us)
    self->period_us = MIN (2 * self->period_us, most_us);
  self->cut_us = now;
  self->n_cuts++;
}

/* Whether it was calm for so long, without a cut. */
static gboolean
is_calm (const LlmMemoryCalm *self,
         gint64               since_us,
         gint64               now)
{
  return self->cut_us == 0 || now - MAX (since_us, self->cut_us) >= self->period_us;
}

/* Stalls don't say how much is enough: a fraction of what is held is released, until they end. */
static void
cut_share (LlmMemoryPolicy     *self,
           const LlmMemoryHeld *held,
           LlmPressure          level,
           gint64               now)
{
  gboolean is_critical = level == LLM_PRESSURE_CRITICAL;
  gint64 interval_us = is_critical ? CRITICAL_CUT_INTERVAL_US : CUT_INTERVAL_US;
  guint64 share = is_critical ? held->anonymous / 2 : held->anonymous / 4 * 3;

  if (held->anonymous <= LEAST_CUT)
    share = is_critical ? 0 : held->anonymous;
  if (level < LLM_PRESSURE_MEDIUM || share >= self->cut
      || (self->anonymous.cut_us > 0 && now - self->anonymous.cut_us < interval_us))
    return;
  self->cut = share;
  note_cut (&self->anonymous, CALM_US, MAX_CALM_US, now);
}

/* When so little is held, requests keep it, because they could not go on with a fraction of it.
 * Idle memory is released, which costs little: it is written before, and read back at once. While
 * requests run, only when a trim asks for it: their stalls are their own. */
static guint64
get_little (LlmMemoryPolicy     *self,
            const LlmMemoryHeld *held,
            LlmPressure          level,
            gint64               now)
{
  if (level < LLM_PRESSURE_MEDIUM || held->anonymous > LEAST_CUT
      || (self->swept_us > 0 && now - self->swept_us < CUT_INTERVAL_US))
    return 0;
  self->swept_us = now;
  return held->anonymous;
}

/* Bytes that do not fit: they are released at once. */
static void
cut_to_ceiling (LlmMemoryPolicy     *self,
                const LlmMemoryHeld *held,
                guint64              ceiling,
                gint64               now)
{
  if (held->anonymous <= ceiling || self->cut <= ceiling)
    return;
  self->cut = ceiling;
  note_cut (&self->anonymous, CALM_US, MAX_CALM_US, now);
}

static void
grow (LlmMemoryPolicy     *self,
      const LlmMemoryHeld *held,
      guint64              ceiling,
      LlmPressure          pressure,
      LlmMemoryAction     *action,
      gint64               now)
{
  guint64 most = MIN (ceiling, held->allowed);

  if (pressure != LLM_PRESSURE_NONE)
    {
      self->calm_since_us = 0;
      return;
    }
  if (self->calm_since_us == 0)
    self->calm_since_us = now;
  /* Repeated storms make the calm period long; meanwhile a request may get what it needs when four
   * times as much is free. */
  if (!held->is_trimmed && now - self->calm_since_us >= GROW_INTERVAL_US)
    self->cut = MAX (self->cut, MIN (most / 4, LEAST_WORK));
  if (!is_calm (&self->anonymous, self->calm_since_us, now))
    return;
  action->may_grow = !held->is_trimmed;
  if (held->is_trimmed || self->cut == G_MAXUINT64
      || now - self->anonymous.grown_us < GROW_INTERVAL_US)
    return;

  if (self->cut < most)
    {
      self->cut = MIN (add (self->cut, MAX (held->allowed / GROW_PARTS, MIN_GROWTH)), most);
      self->anonymous.grown_us = now;
    }
  /* a cut that limits nothing any more has ended */
  if (self->cut >= most)
    self->cut = G_MAXUINT64;
}

/* File pages to release when they do not fit, or when the group has no unused memory and a process
 * stalls: otherwise the kernel would look for them page by page, while others wait. */
static guint64
get_backed_to_give (const LlmMemoryHeld *held,
                    const Bound         *group,
                    LlmPressure          level,
                    guint64              ceiling)
{
  guint64 bytes = subtract (add (held->anonymous, held->backed), ceiling);

  if (held->is_busy)
    return 0;
  if (level >= LLM_PRESSURE_CRITICAL)
    return held->backed;
  if (level >= LLM_PRESSURE_LOW && group->limit > 0)
    bytes = MAX (bytes, subtract (group->reserve, group->unused));
  return MIN (bytes, held->backed);
}

static guint64
get_fit (const Bound *bound)
{
  return bound->limit == 0 ? G_MAXUINT64 : subtract (bound->room, bound->reserve);
}

/* Read-ahead must not cause other pages to be reclaimed: twice the reserve stays, beside what is in
 * memory. In a group only unused memory counts, because its other file pages are in use. */
static guint64
get_room_ahead (const LlmMemoryHeld *held,
                const Bound         *machine,
                const Bound         *group)
{
  guint64 bytes = MIN (subtract (get_fit (machine), machine->reserve),
                       subtract (get_fit (group), group->reserve));

  bytes = MIN (subtract (bytes, held->backed),
               subtract (held->allowed, add (held->anonymous, held->backed)));
  return group->limit == 0 ? bytes
                           : MIN (bytes, subtract (group->unused, 2 * group->reserve));
}

/* Released file pages come back by the general rule: after a calm period, longer each time that
 * they had to go again. */
static void
decide_pages (LlmMemoryPolicy     *self,
              const LlmMemoryHeld *held,
              const Bound         *machine,
              const Bound         *group,
              LlmMemoryAction     *action,
              gint64               now)
{
  /* such a rise is more than a few pages */
  if (held->backed > self->backed && held->backed - self->backed > held->used / GROW_PARTS)
    self->pages.grown_us = now;
  self->backed = held->backed;
  if (action->give_backed > 0)
    note_cut (&self->pages, CALM_US, MAX_CALM_US, now);
  if (action->may_grow && is_calm (&self->pages, self->calm_since_us, now))
    action->grow_backed = get_room_ahead (held, machine, group);
}

/* The part of the allowed bytes for weights, beside the memory of requests, now or later: memory
 * that requests don't hold goes first. */
static guint64
get_allowed_fit (const LlmMemoryHeld *held)
{
  guint64 in_use = subtract (held->anonymous, held->idle);

  return held->allowed == G_MAXUINT64 ? held->allowed
                                      : subtract (held->allowed, MAX (in_use, held->work));
}

/* Each step reads all weights in the same order. When they do not all fit, the kernel would evict
 * the least recently used pages, which are needed next, and all would be read again for each step;
 * meanwhile other processes in the group wait for free pages. So the beginning stays and the rest
 * is released after its use: that much of the reserve is always free. */
static void
decide_keep (LlmMemoryPolicy     *self,
             const LlmMemoryHeld *held,
             const Bound         *machine,
             const Bound         *group,
             gint64               now)
{
  guint64 room = held->is_deaf ? G_MAXUINT64 : MIN (get_fit (machine), get_fit (group));
  guint64 fit = MIN (get_allowed_fit (held), room);
  guint64 before = self->keep;
  gboolean is_lowered = held->allowed < self->allowed;

  /* who raises the budget knows that there is room: nothing is waited for */
  if (held->allowed > self->allowed && self->allowed > 0)
    {
      self->keep = MAX (self->keep, MIN (fit, add (self->keep, held->allowed - self->allowed)));
      self->least_fit = fit;
      self->fit_us = now;
    }
  self->allowed = held->allowed;
  self->least_fit = MIN (self->least_fit, fit);
  if (now - self->fit_us >= self->kept.period_us)
    {
      self->keep = MAX (self->keep, self->least_fit);
      self->least_fit = fit;
      self->fit_us = now;
      if (self->keep > before && before < held->used)
        self->kept.grown_us = now;
    }
  /* a budget that is lowered is no relapse */
  if (fit < self->keep && fit < held->used && !is_lowered)
    note_cut (&self->kept, KEEP_CALM_US, MAX_KEEP_CALM_US, now);
  self->keep = MIN (self->keep, fit);
}

/* A smaller model answers worse: so other releases get time to take effect first, unless the
 * pressure is critical. Then class follows class; they get the whole model back one by one. */
static void
decide_lowered (LlmMemoryPolicy     *self,
                const LlmMemoryHeld *held,
                LlmPressure          level,
                gint64               now)
{
  gboolean is_critical = level == LLM_PRESSURE_CRITICAL;
  gint64 interval_us = is_critical ? CRITICAL_CUT_INTERVAL_US : CUT_INTERVAL_US;

  if (level < LLM_PRESSURE_MEDIUM)
    self->pressed_us = 0;
  else if (self->pressed_us == 0)
    self->pressed_us = now;

  if (level >= LLM_PRESSURE_MEDIUM && self->lowered < LLM_LOWERED_RESPONSIVE
      && ((is_critical && self->lowered == LLM_LOWERED_NONE)
          || now - MAX (self->pressed_us, self->calls.cut_us) >= interval_us))
    {
      self->lowered++;
      note_cut (&self->calls, CALM_US, MAX_CALM_US, now);
    }
  else if (self->lowered > LLM_LOWERED_NONE && self->calm_since_us > 0 && !held->is_trimmed
           && is_calm (&self->calls, self->calm_since_us, now)
           && now - self->calls.grown_us >= GROW_INTERVAL_US)
    {
      self->lowered--;
      self->calls.grown_us = now;
    }
}

void
llm_memory_policy_decide (LlmMemoryPolicy        *self,
                          const LlmMemoryReading *reading,
                          const LlmMemoryHeld    *held,
                          LlmMemoryAction        *action)
{
  gint64 now = reading->time_us;
  const LlmGroupUsage *usage = &reading->group;
  Bound machine = {
    .limit = reading->total,
    .room = reading->available,
    .unused = reading->available,
    .reserve = llm_memory_policy_get_reserve (reading->total, TRUE, reading->swap_free > 0),
  };
  Bound group = {
    .limit = usage->limit,
    .room = llm_group_usage_get_room (usage),
    .unused = usage->limit > 0 ? subtract (usage->limit, usage->usage) : G_MAXUINT64,
    .reserve = llm_memory_policy_get_reserve (usage->limit, FALSE, FALSE),
  };
  guint64 ceiling, urgent, little;
  LlmPressure room, stalls;

  if (held->reserve > 0)
    {
      machine.reserve = MIN (held->reserve, machine.limit / 2);
      group.reserve = MIN (held->reserve, group.limit / 2);
    }
  ceiling = MIN (get_ceiling (&machine, held->anonymous, machine.reserve),
                 get_ceiling (&group, held->anonymous, group.reserve));
  urgent = MIN (get_ceiling (&machine, held->anonymous, machine.reserve / 4),
                get_ceiling (&group, held->anonymous, group.reserve / 4));

  room = MAX (reading->hint, MAX (judge_room (&machine), judge_room (&group)));
  stalls = judge_all_stalls (reading, &machine, &group);
  *action = (LlmMemoryAction) { .level = MAX (room, stalls) };
  cut_to_ceiling (self, held, ceiling, now);
  cut_share (self, held, MAX (reading->hint, stalls), now);
  /* Short stalls while requests run are their own: they wait for weights that do not fit into this
   * group. */
  grow (self, held, ceiling,
        held->is_busy && stalls == LLM_PRESSURE_LOW ? room : action->level, action, now);

  action->budget = MIN (held->allowed, MIN (self->cut, llm_memory_policy_leave_for_weights (
                                                         ceiling, held->used)));
  action->urgent_budget = MIN (held->allowed, urgent);
  little = get_little (self, held, held->is_busy ? reading->hint : MAX (reading->hint, stalls),
                       now);
  action->give_anonymous =
    MAX (subtract (held->anonymous, MIN (held->allowed, MIN (self->cut, ceiling))), little);
  action->give_backed = get_backed_to_give (held, &group, action->level, ceiling);
  decide_pages (self, held, &machine, &group, action, now);
  decide_keep (self, held, &machine, &group, now);
  action->keep_backed = self->keep;
  decide_lowered (self, held, action->level, now);
  action->lowered = self->lowered;
  action->depth = MAX (action->level, LLM_PRESSURE_MEDIUM);
  action->was_cut = self->anonymous.cut_us == now && self->anonymous.cut_us > 0;
  action->is_tight = action->level != LLM_PRESSURE_NONE
                     || (held->is_busy && add (held->anonymous, held->used) > held->allowed)
                     || machine.room < 3 * machine.reserve || group.room < 3 * group.reserve;
  self->budget = action->budget;
}
