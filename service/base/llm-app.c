/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-app.h"

#include <string.h>

static GMutex lock;
static GHashTable *apps;  /* (element-type LlmApp), guarded by lock */

static guint
app_hash (gconstpointer data)
{
  const LlmApp *app = data;

  return g_str_hash (app->id) ^ app->uid;
}

static gboolean
app_equal (gconstpointer a,
           gconstpointer b)
{
  const LlmApp *left = a, *right = b;

  return left->uid == right->uid && g_str_equal (left->id, right->id);
}

LlmApp *
llm_app_intern (guint32     uid,
                const char *id)
{
  gsize size = strlen (id) + 1;
  LlmApp *app = g_malloc (sizeof *app + size);
  LlmApp *known;

  app->ref_count = 1;
  app->uid = uid;
  memcpy (app->id, id, size);

  g_mutex_lock (&lock);
  if (apps == NULL)
    apps = g_hash_table_new (app_hash, app_equal);
  known = g_hash_table_lookup (apps, app);
  if (known != NULL)
    known->ref_count++;
  else
    g_hash_table_add (apps, app);
  g_mutex_unlock (&lock);

  if (known == NULL)
    return app;
  g_free (app);
  return known;
}

LlmApp *
llm_app_ref (LlmApp *self)
{
  g_mutex_lock (&lock);
  self->ref_count++;
  g_mutex_unlock (&lock);
  return self;
}

void
llm_app_unref (LlmApp *self)
{
  gboolean is_last;

  g_mutex_lock (&lock);
  is_last = --self->ref_count == 0;
  if (is_last)
    g_hash_table_remove (apps, self);
  if (g_hash_table_size (apps) == 0)
    g_clear_pointer (&apps, g_hash_table_unref);
  g_mutex_unlock (&lock);

  if (is_last)
    g_free (self);
}
