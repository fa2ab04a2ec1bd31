/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How much of the memory for contexts one application's may keep while nobody uses them. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "runtime/llm-executor-private.h"

/* What an application's contexts hold. */
typedef struct
{
  const char *app;    /* of a session */
  guint64 bytes;
  guint64 idle;       /* of these, of contexts that no job uses */
  double share;       /* its quota; 0 for an equal part */
  guint64 allowed;
  gboolean is_done;   /* nothing more comes of it now */
} Part;

/* Takes what it needs of a command's data. */
typedef struct
{
  LlmExecutor *executor;
  double default_share;
  GHashTable *shares;  /* (owned) */
} Setting;

static void
setting_free (Setting *setting)
{
  g_clear_pointer (&setting->shares, g_hash_table_unref);
  g_free (setting);
}

static void
take_setting (gpointer data)
{
  Setting *setting = data;
  LlmExecutor *self = setting->executor;

  g_clear_pointer (&self->shares_by_app, g_hash_table_unref);
  self->shares_by_app = g_steal_pointer (&setting->shares);
  self->default_share = setting->default_share;
  self->shared_us = 0;
}

void
llm_executor_set_shares (LlmExecutor *self,
                         double       default_share,
                         GHashTable  *shares)
{
  Setting *setting = g_new0 (Setting, 1);

  *setting = (Setting) { self, default_share, shares };
  llm_mailbox_post (self->inbox, take_setting, setting, (GDestroyNotify) setting_free);
}

/* --- the executor's thread --- */

static double
get_share (LlmExecutor *self,
           const char  *app)
{
  const double *share =
      self->shares_by_app != NULL ? g_hash_table_lookup (self->shares_by_app, app) : NULL;

  return share != NULL ? *share : self->default_share;
}

/* What contexts may fill: the budget without what is something else's. */
static guint64
get_capacity (LlmExecutor *self)
{
  guint64 kv = llm_kv_store_get_bytes (self->store);
  guint64 budget = llm_ledger_get_budget (self->ledger);
  guint64 others = llm_ledger_get_counted (self->ledger);

  others -= MIN (others, kv);
  if (budget == 0)
    return kv;
  return budget > others ? budget - others : 0;
}

/* (element-type Part) (transfer full): of all applications that hold something. */
static GArray *
list_parts (LlmExecutor *self)
{
  GArray *parts = g_array_new (FALSE, TRUE, sizeof (Part));
  g_autoptr(GHashTable) places = g_hash_table_new (g_str_hash, g_str_equal);
  guint64 capacity = get_capacity (self);
  guint64 held = llm_kv_store_get_bytes (self->store);
  GHashTableIter iter;
  LlmSession *session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    {
      guint64 bytes = session->seq != NULL ? llm_kv_seq_get_own_bytes (session->seq) : 0;
      guint place = GPOINTER_TO_UINT (g_hash_table_lookup (places, session->app));
      Part *part;

      if (bytes == 0)
        continue;
      if (place == 0)
        {
          g_array_set_size (parts, parts->len + 1);
          place = parts->len;
          g_hash_table_insert (places, session->app, GUINT_TO_POINTER (place));
          g_array_index (parts, Part, place - 1).app = session->app;
        }
      part = &g_array_index (parts, Part, place - 1);
      part->bytes += bytes;
      part->idle += session->is_busy ? 0 : bytes;
    }

  for (guint i = 0; i < parts->len; i++)
    {
      Part *part = &g_array_index (parts, Part, i);

      part->share = get_share (self, part->app);
      part->allowed =
          part->share > 0 ? (guint64) (part->share * (double) capacity) : held / parts->len;
    }
  return parts;
}

/* Of what is idle, bytes beyond the share: what runs is never in the way of its own share. */
static guint64
get_excess (const Part *part)
{
  return part->bytes > part->allowed ? MIN (part->bytes - part->allowed, part->idle) : 0;
}

static LlmSession *
find_oldest_of (LlmExecutor *self,
                const char  *app,
                gint64       after_us)
{
  GHashTableIter iter;
  LlmSession *session;
  LlmSession *oldest = NULL;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    if (!session->is_busy && session->seq != NULL && session->used_us > after_us
        && g_str_equal (session->app, app) && llm_kv_seq_get_own_bytes (session->seq) > 0
        && (oldest == NULL || session->used_us < oldest->used_us))
      oldest = session;
  return oldest;
}

/* Takes @bytes from the contexts of @app, those that were not used for longest first. */
static guint64
take_from_app (LlmExecutor *self,
               const char  *app,
               guint64      bytes,
               gboolean     in_haste)
{
  guint64 freed = 0;
  gint64 after_us = G_MININT64;
  LlmSession *session;

  while (freed < bytes && (session = find_oldest_of (self, app, after_us)) != NULL)
    {
      after_us = session->used_us;
      freed += llm_kv_seq_evict (session->seq, bytes - freed, in_haste);
    }
  return freed;
}

static Part *
find_most_over (GArray *parts)
{
  Part *most = NULL;

  for (guint i = 0; i < parts->len; i++)
    {
      Part *part = &g_array_index (parts, Part, i);

      if (!part->is_done && get_excess (part) > 0
          && (most == NULL || get_excess (part) > get_excess (most)))
        most = part;
    }
  return most;
}

guint64
llm_executor_evict_shares (LlmExecutor *self,
                           guint64      bytes,
                           gboolean     in_haste)
{
  g_autoptr(GArray) parts = NULL;
  guint64 freed = 0;
  Part *part;

  if (self->store == NULL)
    return 0;
  parts = list_parts (self);
  while (freed < bytes && (part = find_most_over (parts)) != NULL)
    {
      freed += take_from_app (self, part->app, MIN (get_excess (part), bytes - freed), in_haste);
      part->is_done = TRUE;
    }
  return freed;
}

void
llm_executor_keep_shares (LlmExecutor *self)
{
  g_autoptr(GArray) parts = NULL;

  if (self->store == NULL || self->shared_us > self->ran_us
      || llm_ledger_get_budget (self->ledger) == 0)
    return;
  self->shared_us = llm_clock_now_us ();
  parts = list_parts (self);
  for (guint i = 0; i < parts->len; i++)
    {
      const Part *part = &g_array_index (parts, Part, i);
      guint64 excess = get_excess (part);

      if (part->share > 0 && excess > 0
          && take_from_app (self, part->app, excess, FALSE) > 0)
        self->is_told = FALSE;
    }
}
