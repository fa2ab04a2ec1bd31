/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-account.h"

#include "base/llm-each.h"

/* Limit of remembered children without calls that were served more than others. */
#define MAX_IDLE 256
/* A child that has so much more than the others, as a part of their mean, does not count as
 * ahead. */
#define TOLERANCE 0.1

static LlmAccount *
new_child (LlmAccount *parent,
           LlmApp     *app,
           guint32     uid)
{
  LlmAccount *self = g_new0 (LlmAccount, 1);

  self->parent = parent;
  self->app = app != NULL ? llm_app_ref (app) : NULL;
  self->uid = uid;
  self->children = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) llm_account_free);
  return self;
}

LlmAccount *
llm_account_new (void)
{
  return new_child (NULL, NULL, 0);
}

void
llm_account_free (LlmAccount *self)
{
  g_hash_table_unref (self->children);
  g_clear_pointer (&self->app, llm_app_unref);
  g_free (self);
}

gboolean
llm_account_is_user (const LlmAccount *self)
{
  return self->parent != NULL && self->parent->parent == NULL;
}

/* Whether calls of class @slo_class count in @level: all calls of a user do; otherwise a user that
 * asks for a better class would get more than its fair part. */
static gboolean
counts (const LlmAccount *self,
        LlmSloClass       slo_class,
        LlmSloClass       level)
{
  return slo_class == level || llm_account_is_user (self);
}

/* --- virtual time --- */

static double
get_burst_us (const LlmAccount *self)
{
  while (self->parent != NULL)
    self = self->parent;
  return self->burst_us;
}

/* Reduces the lead of those that were served more, by a part of the mean, so that they need not
 * wait until it is gone: a child that always asks for a little more than others gets it. */
static void
forgive (LlmAccount *self,
         LlmSloClass slo_class,
         double      least,
         double      us)
{
  LLM_EACH_VALUE (LlmAccount, child, self->children)
    if (child->n_active[slo_class] > 0)
      child->served_us[slo_class] = MAX (child->served_us[slo_class] - us, least);
}

/* Virtual time advances by the mean service of the active children, but not past the one with the
 * least. So a child that ends a call and comes back at once finds the others where they were, and a
 * child gets no credit for time without calls. */
static void
settle (LlmAccount *self,
        LlmSloClass slo_class)
{
  double least = G_MAXDOUBLE;
  double next;
  guint n = 0;

  LLM_EACH_VALUE (const LlmAccount, child, self->children)
    if (child->n_active[slo_class] > 0)
      {
        least = MIN (least, child->served_us[slo_class]);
        n++;
      }
  if (n > 0)
    {
      forgive (self, slo_class, least, TOLERANCE * self->charged_us[slo_class] / n);
      next = MIN (self->virtual_us[slo_class] + self->charged_us[slo_class] / n, least);
      next = MAX (next, least - get_burst_us (self));
      self->virtual_us[slo_class] = MAX (self->virtual_us[slo_class], next);
    }
  self->charged_us[slo_class] = 0;
}

void
llm_account_settle (LlmAccount *self)
{
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    if (self->charged_us[i] > 0)
      settle (self, i);
  LLM_EACH_VALUE (LlmAccount, child, self->children)
    llm_account_settle (child);
}

double
llm_account_get_served (const LlmAccount *self,
                        const LlmAccount *parent,
                        LlmSloClass       slo_class)
{
  double served = self != NULL ? self->served_us[slo_class] : 0;

  /* An account that had no requests gets no credit for the time without. */
  return self != NULL && self->n_active[slo_class] > 0
           ? served
           : MAX (served, parent->virtual_us[slo_class]);
}

/* --- children --- */

/* An idle child is kept while it was served more than the active ones: it must not come back as a
 * newcomer. */
static gboolean
can_forget (gpointer key,
            gpointer value,
            gpointer data)
{
  const LlmAccount *parent = data;
  const LlmAccount *child = value;
  gboolean is_in_debt = FALSE;

  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    is_in_debt = is_in_debt || child->served_us[i] > parent->virtual_us[i];
  return child->n_calls == 0
         && (!is_in_debt || g_hash_table_size (parent->children) > MAX_IDLE);
}

static LlmAccount *
get_child (LlmAccount   *self,
           gconstpointer key,
           LlmApp       *app,
           guint32       uid)
{
  LlmAccount *child = g_hash_table_lookup (self->children, key);

  if (child != NULL)
    return child;
  g_hash_table_foreach_remove (self->children, can_forget, self);
  child = new_child (self, app, uid);
  g_hash_table_insert (self->children, (gpointer) key, child);
  return child;
}

LlmAccount *
llm_account_get_app (LlmAccount *self,
                     LlmApp     *app)
{
  LlmAccount *user = get_child (self, GUINT_TO_POINTER (app->uid), NULL, app->uid);

  return get_child (user, app, app, app->uid);
}

LlmAccount *
llm_account_find_user (LlmAccount *self,
                       guint32     uid)
{
  return g_hash_table_lookup (self->children, GUINT_TO_POINTER (uid));
}

LlmAccount *
llm_account_find_app (LlmAccount   *self,
                      const LlmApp *app)
{
  LlmAccount *user = llm_account_find_user (self, app->uid);

  return user != NULL ? g_hash_table_lookup (user->children, app) : NULL;
}

/* --- calls --- */

void
llm_account_count_call (LlmAccount *self,
                        int         n)
{
  for (; self != NULL; self = self->parent)
    self->n_calls += n;
}

void
llm_account_count_active (LlmAccount *self,
                          LlmSloClass slo_class,
                          int         n)
{
  for (; self->parent != NULL; self = self->parent)
    for (guint level = 0; level < LLM_N_SLO_CLASSES; level++)
      {
        if (!counts (self, slo_class, level))
          continue;
        settle (self->parent, level);
        if (n > 0)
          self->served_us[level] = llm_account_get_served (self, self->parent, level);
        self->n_active[level] += n;
      }
}

void
llm_account_charge (LlmAccount *self,
                    LlmSloClass slo_class,
                    double      us)
{
  for (; self->parent != NULL; self = self->parent)
    for (guint level = 0; level < LLM_N_SLO_CLASSES; level++)
      {
        if (!counts (self, slo_class, level))
          continue;
        self->served_us[level] += us;
        self->parent->charged_us[level] += us;
      }
}

/* --- who is ahead --- */

void
llm_account_reset_least (LlmAccount *self)
{
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    self->least_us[i] = G_MAXDOUBLE;
  LLM_EACH_VALUE (LlmAccount, child, self->children)
    llm_account_reset_least (child);
}

void
llm_account_note_call (LlmAccount *self,
                       LlmSloClass slo_class)
{
  for (; self->parent != NULL; self = self->parent)
    for (guint level = 0; level < LLM_N_SLO_CLASSES; level++)
      if (counts (self, slo_class, level))
        self->parent->least_us[level] = MIN (self->parent->least_us[level],
                                             self->served_us[level]);
}

LlmAccount *
llm_account_find_ahead (LlmAccount *self,
                        LlmSloClass slo_class,
                        double      lead_us)
{
  LlmAccount *found = NULL;

  for (; self->parent != NULL; self = self->parent)
    if (self->served_us[slo_class] - lead_us > self->parent->least_us[slo_class])
      found = self;
  return found;
}

gboolean
llm_account_is_apart (const LlmAccount *self,
                      LlmSloClass       slo_class)
{
  double lead_us = get_burst_us (self) / 2;

  for (; self->parent != NULL; self = self->parent)
    if (self->served_us[slo_class] - lead_us > self->parent->virtual_us[slo_class])
      return TRUE;
  return FALSE;
}
