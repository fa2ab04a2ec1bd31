/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-memory.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)
#define GIB (G_GUINT64_CONSTANT (1) << 30)

/* Bytes a second at which the service gives back: pages unmapped by one thread. */
#define GIVE_RATE (4 * GIB)
/* Stalls that the kernel's trigger tells of. */
#define TRIGGER_US 150000

/* Bytes a second at which the kernel finds file pages for who waits for memory. */
#define RECLAIM_RATE (1 * GIB)

void
llm_test_memory_init (LlmTestMemory *self)
{
  *self = (LlmTestMemory) {
    .total = 16 * GIB,
    .allowed = 12 * GIB,
    .overhead = 32 * MIB,
    .growth = 100 * MIB,
    .now_us = G_USEC_PER_SEC,
  };
  llm_memory_policy_init (&self->policy);
  self->action.budget = self->allowed;
}

static guint64
get_bound (const LlmTestMemory *self)
{
  return self->limit > 0 ? MIN (self->limit, self->total) : self->total;
}

static guint64
get_anonymous (const LlmTestMemory *self)
{
  return self->others + self->overhead + self->anonymous;
}

/* File pages go first; who asks for more than they were waits until the service has given, or the
 * kernel has killed somebody. */
static void
settle (LlmTestMemory *self)
{
  guint64 bound = get_bound (self);
  guint64 anonymous = get_anonymous (self);
  guint64 room = bound > anonymous ? bound - anonymous : 0;

  if (anonymous > bound)
    {
      self->n_killed++;
      self->stalled_us += LLM_TEST_MEMORY_STEP_US;
    }
  if (self->backed > room)
    {
      self->stalled_us += MIN ((self->backed - room) * G_USEC_PER_SEC / RECLAIM_RATE,
                               LLM_TEST_MEMORY_STEP_US);
      self->backed = room;
    }
}

static void
give (LlmTestMemory *self)
{
  guint64 bytes = MIN (self->to_give, GIVE_RATE * LLM_TEST_MEMORY_STEP_US / G_USEC_PER_SEC);

  bytes = MIN (bytes, self->anonymous);
  self->anonymous -= bytes;
  self->to_give -= MIN (self->to_give, bytes);
  self->given += bytes;
  if (self->anonymous == 0)
    self->to_give = 0;
}

static void
grow (LlmTestMemory *self)
{
  guint64 bytes = self->growth * LLM_TEST_MEMORY_STEP_US / G_USEC_PER_SEC;

  if (!self->is_busy)
    return;
  self->backed = self->model;
  bytes = MIN (bytes, self->wanted > self->anonymous ? self->wanted - self->anonymous : 0);
  if (self->anonymous + bytes <= self->action.budget)
    self->anonymous += bytes;
}

static void
look (LlmTestMemory *self)
{
  guint64 anonymous = get_anonymous (self);
  guint64 before = self->policy.anonymous.n_cuts;
  double window_us = (double) MAX (self->now_us - self->looked_us, 1);
  double stall = MIN ((double) (self->stalled_us - self->stalled_then_us) / window_us, 1);
  LlmMemoryHeld held = {
    .anonymous = self->anonymous,
    .backed = self->backed,
    .used = self->is_busy ? self->model : self->backed,
    .allowed = self->allowed,
    .is_busy = self->is_busy,
  };
  LlmMemoryReading reading = {
    .time_us = self->now_us,
    .total = self->total,
    .available = self->total > anonymous ? self->total - anonymous : 0,
    .machine = { .some = MAX (stall, self->machine_stall),
                 .full = MAX (stall, self->machine_stall) / 2 },
  };

  if (self->limit > 0)
    reading.group = (LlmGroupUsage) {
      .limit = self->limit,
      .usage = MIN (anonymous + self->backed, self->limit),
      .cache = self->backed,
    };
  llm_memory_policy_decide (&self->policy, &reading, &held, &self->action);
  self->looked_us = self->now_us;
  self->stalled_then_us = self->stalled_us;
  if (self->policy.anonymous.n_cuts > before && self->has_grown)
    {
      self->n_relapses++;
      self->has_grown = FALSE;
    }
  if (self->policy.anonymous.grown_us == self->now_us)
    self->has_grown = TRUE;
  if (self->is_deaf)
    return;
  self->to_give = self->action.give_anonymous;
  self->backed -= MIN (self->action.give_backed, self->backed);
}

void
llm_test_memory_step (LlmTestMemory *self,
                      guint64        others)
{
  gint64 interval_us = self->action.is_tight ? LLM_MEMORY_TIGHT_MS : LLM_MEMORY_CALM_MS;

  self->now_us += LLM_TEST_MEMORY_STEP_US;
  self->others = others;
  give (self);
  grow (self);
  settle (self);
  if (self->now_us - self->looked_us >= interval_us * 1000
      || self->stalled_us - self->stalled_then_us >= TRIGGER_US)
    look (self);
}
