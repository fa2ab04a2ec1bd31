/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Battery, power saver and suspend: their effect on requests. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-engine-private.h"

/* --- the pace of background work --- */

static const char *const paces[] = { "run", "slow", "wait" };
G_STATIC_ASSERT (G_N_ELEMENTS (paces) == LLM_PACE_WAIT + 1);

static void
set_pace (LlmEngine *self,
          LlmPace    pace)
{
  if (pace == self->power.pace)
    return;
  self->power.pace = pace;
  g_info ("Calls that nobody waits for: %s", paces[pace]);
  llm_executor_set_pace (self->executor, pace);
}

/* Background requests do not wait without limit: a machine may run on its battery for days. */
static gboolean
on_waited (gpointer data)
{
  LlmEngine *self = data;

  self->power.timer = 0;
  self->power.has_waited = TRUE;
  set_pace (self, LLM_PACE_SLOW);
  return G_SOURCE_REMOVE;
}

/* The slowest of the paces that the settings give for the current states. */
void
llm_engine_set_power (LlmEngine *self,
                      gboolean   is_on_battery,
                      gboolean   saves)
{
  LlmPace pace = LLM_PACE_RUN;

  self->power.is_on_battery = is_on_battery;
  self->power.saves = saves;
  if (self->power.is_on_battery)
    pace = MAX (pace, (LlmPace) self->settings->pace_on_battery);
  if (self->power.saves)
    pace = MAX (pace, (LlmPace) self->settings->pace_on_power_saver);

  if (pace != LLM_PACE_WAIT)
    {
      g_clear_handle_id (&self->power.timer, g_source_remove);
      self->power.has_waited = FALSE;
    }
  else if (self->power.has_waited)
    {
      pace = LLM_PACE_SLOW;
    }
  else if (self->power.timer == 0)
    {
      self->power.timer = g_timeout_add_seconds (self->settings->longest_wait_s, on_waited, self);
    }
  set_pace (self, pace);
}

/* --- suspend --- */

/* Earlier turns are then on the disk: the database's thread runs one transaction after the
 * other. */
static gboolean
write_nothing (sqlite3 *db,
               gpointer data,
               GError **error)
{
  return TRUE;
}

static void
on_held (gpointer data)
{
  g_autoptr(GTask) task = data;
  LlmEngine *self = g_task_get_source_object (task);

  if (self->store.db == NULL)
    g_task_return_boolean (task, TRUE);
  else
    llm_db_run_async (self->store.db, write_nothing, NULL, NULL, llm_engine_return_stored,
                      g_steal_pointer (&task));
}

void
llm_engine_suspend_async (LlmEngine          *self,
                          GAsyncReadyCallback callback,
                          gpointer            data)
{
  g_info ("The machine is about to sleep: calls stand still");
  self->power.suspends++;
  llm_executor_suspend (self->executor, on_held, g_task_new (self, NULL, callback, data));
}

void
llm_engine_resume (LlmEngine *self)
{
  g_info ("The machine is awake: calls go on");
  llm_executor_resume (self->executor);
}
