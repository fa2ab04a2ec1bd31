/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* States that no text tells apart become one: by refinement of groups (Moore, "Gedanken-experiments
 * on Sequential Machines", 1956). */

#include <string.h>

#include "constraints/llm-automaton-private.h"
#include "constraints/llm-compile-work.h"

/* Looks at next states; what needs more stays as it is. */
#define MAX_STEPS 5000000u

typedef struct
{
  LlmAutomaton *automaton;
  guint32 *groups;       /* [n_states]: of the last round */
  guint32 *next_groups;  /* likewise: of this one */
  guint32 *slots;        /* [n_slots]: a state of each group + 1 */
  guint n_slots;         /* a power of two */
} Refiner;

static guint32
get_group (const Refiner *self,
           guint32        state)
{
  return state != LLM_DEAD ? self->groups[state] : LLM_DEAD;
}

static guint32
hash_state (const Refiner *self,
            guint          state)
{
  const guint32 *row = self->automaton->next + (gsize) state * self->automaton->n_classes;
  guint64 hash = self->groups[state];

  for (guint class = 0; class < self->automaton->n_classes; class++)
    hash = (hash ^ get_group (self, row[class])) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  return (guint32) (hash >> 32);
}

static gboolean
are_alike (const Refiner *self,
           guint          a,
           guint          b)
{
  const guint32 *in_a = self->automaton->next + (gsize) a * self->automaton->n_classes;
  const guint32 *in_b = self->automaton->next + (gsize) b * self->automaton->n_classes;
  gboolean is_alike = self->groups[a] == self->groups[b];

  for (guint class = 0; class < self->automaton->n_classes && is_alike; class++)
    is_alike = get_group (self, in_a[class]) == get_group (self, in_b[class]);
  return is_alike;
}

/* Tells the states of each group apart by the groups that they lead to. Returns how many groups
 * there are, in the order of their first states. */
static guint
refine (Refiner *self)
{
  guint n_groups = 0;

  memset (self->slots, 0, self->n_slots * sizeof *self->slots);
  for (guint state = 0; state < self->automaton->n_states; state++)
    {
      guint slot = hash_state (self, state) & (self->n_slots - 1);

      while (self->slots[slot] != 0 && !are_alike (self, self->slots[slot] - 1, state))
        slot = (slot + 1) & (self->n_slots - 1);
      if (self->slots[slot] == 0)
        {
          self->slots[slot] = state + 1;
          self->next_groups[state] = n_groups++;
        }
      else
        {
          self->next_groups[state] = self->next_groups[self->slots[slot] - 1];
        }
    }
  memcpy (self->groups, self->next_groups, self->automaton->n_states * sizeof *self->groups);
  return n_groups;
}

/* A state for each of @n groups: never behind the first of its states. */
static void
merge (const Refiner *self,
       guint          n)
{
  LlmAutomaton *automaton = self->automaton;
  guint n_done = 0;

  for (guint state = 0; state < automaton->n_states; state++)
    {
      const guint32 *row = automaton->next + (gsize) state * automaton->n_classes;

      if (self->groups[state] != n_done)
        continue;
      for (guint class = 0; class < automaton->n_classes; class++)
        automaton->next[(gsize) n_done * automaton->n_classes + class] = get_group (self, row[class]);
      automaton->is_final[n_done++] = automaton->is_final[state];
    }
  automaton->n_states = n;
}

void
llm_automaton_minimize (LlmAutomaton *self)
{
  const guint64 n_steps = (guint64) self->n_states * self->n_classes;
  g_autofree guint32 *groups = g_new (guint32, self->n_states + 1);
  g_autofree guint32 *next_groups = g_new (guint32, self->n_states + 1);
  g_autofree guint32 *slots = NULL;
  Refiner refiner = { self, groups, next_groups, NULL, 1 };
  guint before = 0, n = 1;

  g_return_if_fail (self->calls->len == 0);

  while (refiner.n_slots < 2 * self->n_states)
    refiner.n_slots *= 2;
  refiner.slots = slots = g_new (guint32, refiner.n_slots);
  for (guint state = 0; state < self->n_states; state++)
    groups[state] = self->is_final[state];
  for (guint64 steps = 0; n != before; steps += n_steps)
    {
      if (steps > MAX_STEPS || !llm_compile_work_count (n_steps / 4, 0))
        return;
      before = n;
      n = refine (&refiner);
    }
  if (n < self->n_states)
    merge (&refiner, n);
}
