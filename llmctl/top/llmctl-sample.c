/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-sample.h"

#include <string.h>

#include "llmctl/bus/llmctl-service.h"

#define CONTEXTS_PATH        LLMCTL_SERVICE_PATH "/contexts"
#define GENERATIONS_PATH     LLMCTL_SERVICE_PATH "/generations"
#define GENERATION_INTERFACE "org.llm.Service.Generation"
#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

/* A service that answers later than this is shown as one that does not. */
#define CALL_LIMIT_MS 4000

/* More would not be shown, and each is a call. */
#define MAX_MEMORIES 16
#define MAX_STATES   32

/* Contexts, applications and calls are asked for when a counter has moved, and so many looks
 * later at the latest. */
#define FRESH_LOOKS 10

struct _LlmctlSampler
{
  GDBusConnection *bus;
  GCancellable *cancellable;
  LlmctlSampled sampled;
  gpointer data;

  gboolean is_running;
  LlmctlSample *next;         /* (nullable) (owned): being taken */
  guint n_calls;              /* of it under way */
  void (*go_on) (LlmctlSampler *self);  /* once they are all answered */
  GVariant *introspected;     /* (nullable): where calls under way are listed */
  guint n_looks;              /* since contexts and applications were asked for */

  /* of the look before: used again while nothing has changed */
  GVariant *statistics;       /* (nullable) */
  GVariant *model;            /* (nullable) */
  char *model_path;           /* (nullable) */
  GVariant *apps;             /* (nullable) */
  GVariant *contexts;         /* (nullable) */
  GHashTable *memories;       /* (nullable) */
  GPtrArray *states;          /* (nullable) */
};

/* A call and where in the sample its answer goes. */
typedef struct
{
  LlmctlSampler *sampler;
  GVariant **place;           /* (nullable) */
  char *key;                  /* (nullable): then into memories, or a state */
} Call;

static void
call_free (Call *call)
{
  g_free (call->key);
  g_free (call);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Call, call_free)

static GHashTable *
memories_new (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_variant_unref);
}

void
llmctl_sample_free (LlmctlSample *self)
{
  if (self == NULL)
    return;

  g_clear_pointer (&self->service, g_variant_unref);
  g_clear_pointer (&self->memory, g_variant_unref);
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_pointer (&self->model, g_variant_unref);
  g_clear_pointer (&self->apps, g_variant_unref);
  g_clear_pointer (&self->contexts, g_variant_unref);
  g_clear_pointer (&self->memories, g_hash_table_unref);
  g_clear_pointer (&self->states, g_ptr_array_unref);
  g_free (self);
}

guint64
llmctl_sample_count (const LlmctlSample *self,
                     const char         *key)
{
  return self->statistics != NULL ? llmctl_dict_get_number (self->statistics, key) : 0;
}

gboolean
llmctl_sample_has (const LlmctlSample *self,
                   const char         *key)
{
  return self->statistics != NULL && g_variant_lookup (self->statistics, key, "t", NULL);
}

/* --- calls --- */

static void
end_call (LlmctlSampler *self)
{
  if (--self->n_calls == 0)
    self->go_on (self);
}

/* What @reply is worth: FALSE when there is none, and @self is gone when it was cancelled. */
static gboolean
take_reply (Call         *call,
            GAsyncResult *result,
            GObject      *source,
            GVariant    **reply,
            gboolean     *is_cancelled)
{
  g_autoptr(GError) error = NULL;

  *reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  *is_cancelled = g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  if (!*is_cancelled && g_error_matches (error, G_IO_ERROR, G_IO_ERROR_TIMED_OUT))
    call->sampler->next->is_silent = TRUE;
  return *reply != NULL;
}

static void
on_reply (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(Call) call = data;
  g_autoptr(GVariant) reply = NULL;
  gboolean is_cancelled;

  if (take_reply (call, result, source, &reply, &is_cancelled))
    *call->place = g_variant_get_child_value (reply, 0);
  if (!is_cancelled)
    end_call (call->sampler);
}

static void
on_memory (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(Call) call = data;
  g_autoptr(GVariant) reply = NULL;
  gboolean is_cancelled;

  if (take_reply (call, result, source, &reply, &is_cancelled))
    g_hash_table_replace (call->sampler->next->memories, g_steal_pointer (&call->key),
                          g_variant_get_child_value (reply, 0));
  if (!is_cancelled)
    end_call (call->sampler);
}

static void
on_state (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(Call) call = data;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) value = NULL;
  gboolean is_cancelled;

  if (take_reply (call, result, source, &reply, &is_cancelled))
    {
      g_variant_get (reply, "(v)", &value);
      if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
        g_ptr_array_add (call->sampler->next->states, g_variant_dup_string (value, NULL));
    }
  if (!is_cancelled)
    end_call (call->sampler);
}

static void
begin_call (LlmctlSampler      *self,
            const char         *path,
            const char         *interface,
            const char         *method,
            GVariant           *arguments,
            const char         *reply_type,
            GAsyncReadyCallback callback,
            GVariant          **place,
            const char         *key)
{
  Call *call = g_new0 (Call, 1);

  call->sampler = self;
  call->place = place;
  call->key = g_strdup (key);
  self->n_calls++;
  g_dbus_connection_call (self->bus, LLMCTL_SERVICE_NAME, path, interface, method, arguments,
                          G_VARIANT_TYPE (reply_type), G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          CALL_LIMIT_MS, self->cancellable, callback, call);
}

static void
begin_get_all (LlmctlSampler *self,
               const char    *path,
               const char    *interface,
               GVariant     **place)
{
  begin_call (self, path, PROPERTIES_INTERFACE, "GetAll", g_variant_new ("(s)", interface),
              "(a{sv})", on_reply, place, NULL);
}

/* --- the end of a look --- */

static void
replace (GVariant **place,
         GVariant  *value)
{
  g_clear_pointer (place, g_variant_unref);
  if (value != NULL)
    *place = g_variant_ref (value);
}

static void
finish (LlmctlSampler *self)
{
  LlmctlSample *sample = g_steal_pointer (&self->next);

  /* The service may have gone or come meanwhile: then this is of neither. */
  if (!sample->is_running || !self->is_running)
    {
      llmctl_sample_free (sample);
      sample = g_new0 (LlmctlSample, 1);
      sample->is_running = self->is_running;
    }
  sample->time_us = g_get_monotonic_time ();
  if (sample->memories == NULL)
    sample->memories = memories_new ();
  if (sample->states == NULL)
    sample->states = g_ptr_array_new_with_free_func (g_free);

  replace (&self->statistics, sample->statistics);
  replace (&self->model, sample->model);
  replace (&self->apps, sample->apps);
  replace (&self->contexts, sample->contexts);
  g_clear_pointer (&self->memories, g_hash_table_unref);
  self->memories = g_hash_table_ref (sample->memories);
  g_clear_pointer (&self->states, g_ptr_array_unref);
  self->states = g_ptr_array_ref (sample->states);
  self->sampled (sample, self->data);
}

/* --- the third step: of single objects --- */

/* (transfer full): the names of the children in what an object says of itself. */
static GPtrArray *
list_children (const char *xml)
{
  g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml (xml, NULL);
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);

  for (gsize i = 0; node != NULL && node->nodes != NULL && node->nodes[i] != NULL; i++)
    if (node->nodes[i]->path != NULL && strchr (node->nodes[i]->path, '/') == NULL)
      g_ptr_array_add (names, g_strdup (node->nodes[i]->path));

  return names;
}

static void
begin_states (LlmctlSampler *self)
{
  g_autoptr(GPtrArray) names = list_children (g_variant_get_string (self->introspected, NULL));

  for (guint i = 0; i < MIN (names->len, MAX_STATES); i++)
    {
      g_autofree char *path =
          g_strconcat (GENERATIONS_PATH "/", g_ptr_array_index (names, i), NULL);

      if (g_variant_is_object_path (path))
        begin_call (self, path, PROPERTIES_INTERFACE, "Get",
                    g_variant_new ("(ss)", GENERATION_INTERFACE, "State"), "(v)", on_state, NULL,
                    NULL);
    }
}

static void
begin_memories (LlmctlSampler *self)
{
  GVariantIter iter;
  const char *path;
  guint n = 0;

  g_variant_iter_init (&iter, self->next->contexts);
  while (n < MAX_MEMORIES && g_variant_iter_next (&iter, "(&o@a{sv})", &path, NULL))
    if (g_str_has_prefix (path, CONTEXTS_PATH "/"))
      {
        begin_call (self, path, LLMCTL_CONTEXT_INTERFACE, "GetMemory",
                    g_variant_new ("(a{sv})", NULL), "(a{sv})", on_memory, NULL, path);
        n++;
      }
}

static void
look_at_objects (LlmctlSampler *self)
{
  self->go_on = finish;
  self->n_calls++;
  if (self->next->contexts != NULL)
    begin_memories (self);
  if (self->introspected != NULL)
    begin_states (self);
  g_clear_pointer (&self->introspected, g_variant_unref);
  end_call (self);
}

/* --- the second step: lists, when there is something new --- */

/* Whether anything was done since the look before. */
static gboolean
has_moved (LlmctlSampler *self)
{
  static const char *const keys[] = { "requests", "failed", "cancelled", "contexts", "calls",
                                      "steps", "rows", "trims", "kv-evicted-chunks",
                                      "kv-packed-chunks", "kv-storage-bytes" };

  if (self->statistics == NULL || self->next->statistics == NULL)
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    if (llmctl_dict_get_number (self->statistics, keys[i]) !=
        llmctl_dict_get_number (self->next->statistics, keys[i]))
      return TRUE;

  return FALSE;
}

static void
use_again (LlmctlSampler *self)
{
  LlmctlSample *next = self->next;

  replace (&next->apps, self->apps);
  replace (&next->contexts, self->contexts);
  next->memories = self->memories != NULL ? g_hash_table_ref (self->memories) : NULL;
  next->states = self->states != NULL ? g_ptr_array_ref (self->states) : NULL;
}

static void
begin_model (LlmctlSampler *self)
{
  const char *path = llmctl_dict_get_string (self->next->service, "ActiveModel");

  if (!g_variant_is_object_path (path) || g_str_equal (path, "/"))
    return;
  if (self->model != NULL && g_strcmp0 (path, self->model_path) == 0)
    {
      self->next->model = g_variant_ref (self->model);
      return;
    }
  g_free (self->model_path);
  self->model_path = g_strdup (path);
  begin_get_all (self, path, LLMCTL_MODEL_INTERFACE, &self->next->model);
}

static void
look_at_lists (LlmctlSampler *self)
{
  LlmctlSample *next = self->next;

  if (next->service == NULL)
    {
      finish (self);
      return;
    }

  self->n_calls++;
  begin_model (self);
  if (has_moved (self) || ++self->n_looks >= FRESH_LOOKS)
    {
      self->n_looks = 0;
      self->go_on = look_at_objects;
      next->memories = memories_new ();
      next->states = g_ptr_array_new_with_free_func (g_free);
      begin_call (self, LLMCTL_SERVICE_PATH, LLMCTL_ADMIN_INTERFACE, "ListApps",
                  g_variant_new ("(a{sv})", NULL), "(aa{sv})", on_reply, &next->apps, NULL);
      begin_call (self, LLMCTL_SERVICE_PATH, LLMCTL_SERVICE_INTERFACE, "ListContexts",
                  g_variant_new ("(a{sv})", NULL), "(a(oa{sv}))", on_reply, &next->contexts, NULL);
      begin_call (self, GENERATIONS_PATH, "org.freedesktop.DBus.Introspectable", "Introspect", NULL,
                  "(s)", on_reply, &self->introspected, NULL);
    }
  else
    {
      self->go_on = finish;
      use_again (self);
    }
  end_call (self);
}

/* --- the first step --- */

void
llmctl_sampler_look (LlmctlSampler *self)
{
  LlmctlSample *next;

  if (self->next != NULL)
    return;

  next = self->next = g_new0 (LlmctlSample, 1);
  next->is_running = self->is_running;
  if (!self->is_running)
    {
      finish (self);
      return;
    }
  self->go_on = look_at_lists;
  begin_get_all (self, LLMCTL_SERVICE_PATH, LLMCTL_SERVICE_INTERFACE, &next->service);
  begin_get_all (self, LLMCTL_SERVICE_PATH, LLMCTL_MEMORY_INTERFACE, &next->memory);
  begin_call (self, LLMCTL_SERVICE_PATH, LLMCTL_SERVICE_INTERFACE, "GetStatistics",
              g_variant_new ("(a{sv})", NULL), "(a{sv})", on_reply, &next->statistics, NULL);
}

void
llmctl_sampler_forget (LlmctlSampler *self,
                       gboolean       is_running)
{
  self->is_running = is_running;
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_pointer (&self->model, g_variant_unref);
  g_clear_pointer (&self->apps, g_variant_unref);
  g_clear_pointer (&self->contexts, g_variant_unref);
  g_clear_pointer (&self->memories, g_hash_table_unref);
  g_clear_pointer (&self->states, g_ptr_array_unref);
  /* one that is being taken is of the other service, or of none */
  if (self->next != NULL)
    self->next->is_running = FALSE;
}

LlmctlSampler *
llmctl_sampler_new (GDBusConnection *bus,
                    LlmctlSampled    sampled,
                    gpointer         data)
{
  LlmctlSampler *self = g_new0 (LlmctlSampler, 1);

  self->bus = g_object_ref (bus);
  self->cancellable = g_cancellable_new ();
  self->sampled = sampled;
  self->data = data;
  return self;
}

void
llmctl_sampler_free (LlmctlSampler *self)
{
  if (self == NULL)
    return;

  /* the answers still come, and find that they are not wanted */
  g_cancellable_cancel (self->cancellable);
  llmctl_sampler_forget (self, FALSE);
  llmctl_sample_free (self->next);
  g_clear_pointer (&self->introspected, g_variant_unref);
  g_object_unref (self->cancellable);
  g_object_unref (self->bus);
  g_free (self->model_path);
  g_free (self);
}
