/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-settings.h"

#include "config.h"

#include <errno.h>

#include "common/llmsvc-error.h"
#include "kernels/llk.h"
#include "kv/llm-kv.h"
#include "sched/llm-scheduler.h"

/* Percent: with fewer, too, all chunks have 2 bits. */
#define MIN_RATIO 10u

LlmSettings *
llm_settings_new (void)
{
  LlmSettings *self = g_new0 (LlmSettings, 1);

  self->model_folders = g_new0 (char *, 1);
  self->max_message = 1024 * 1024;
  self->background_niceness = 10;
  self->scheduler = g_strdup ("deadline");
  self->overload_factor = 4;
  self->pace_on_battery = LLM_PACE_SLOW;
  self->pace_on_power_saver = LLM_PACE_SLOW;
  self->short_wait_s = 2 * 60;
  self->longest_wait_s = 15 * 60;
  self->stall_timeout_s = 600;
  self->reacts_to_pressure = TRUE;
  self->context_ratio = 50;
  self->chunk_tokens = LLM_KV_CHUNK_SLOTS;
  self->disk = g_strdup ("auto");
  self->max_contexts = 64;
  self->max_calls = 16;
  self->max_tokens = 1024 * 1024;
  self->max_rate = 500;
  self->max_named = 512;
  self->max_apps = 64;
  self->max_queue = 256;
  return self;
}

void
llm_settings_free (LlmSettings *self)
{
  g_free (self->model_file);
  g_free (self->kernels);
  g_free (self->scheduler);
  g_free (self->disk);
  g_free (self->root);
  g_free (self->metrics);
  g_strfreev (self->model_folders);
  g_free (self->state_folder);
  g_free (self->cache_folder);
  g_free (self->system_cache_folder);
  llm_script_free (self->script);
  g_free (self);
}

/* --- one value --- */

/* "64", "1M": bytes with K, M or G for powers of 1024; empty is 0. */
static gboolean
parse_bytes (const char *text,
             guint64    *bytes)
{
  guint64 number;
  guint shift = 0;
  char *end;

  if (*text == '\0')
    {
      *bytes = 0;
      return TRUE;
    }
  if (!g_ascii_isdigit (*text))
    return FALSE;
  errno = 0;
  number = g_ascii_strtoull (text, &end, 10);
  if (errno != 0)
    return FALSE;
  if (*end == 'K')
    shift = 10;
  else if (*end == 'M')
    shift = 20;
  else if (*end == 'G')
    shift = 30;
  if (shift > 0)
    end++;
  if (*end != '\0' || number > (G_MAXUINT64 >> shift))
    return FALSE;
  *bytes = number << shift;
  return TRUE;
}

typedef enum
{
  KEY_PATH,
  KEY_FOLDERS,
  KEY_UINT,
  KEY_UINT64,
  KEY_BYTES,
  KEY_KERNELS,
  KEY_RATIO,
  KEY_CHUNK,
  KEY_DISK,
  KEY_SCHEDULER,
  KEY_METRICS,
  KEY_SWITCH,
  KEY_PACE,
} KeyKind;

/* Every key there is: data/llmsvc.conf lists the same with their defaults. */
static const struct
{
  const char *group;
  const char *key;
  KeyKind kind;
  gsize offset;
  guint64 max;
} keys[] = {
  { "model", "file", KEY_PATH, G_STRUCT_OFFSET (LlmSettings, model_file), 0 },
  { "model", "folders", KEY_FOLDERS, G_STRUCT_OFFSET (LlmSettings, model_folders), 0 },
  { "model", "cache-limit", KEY_BYTES, G_STRUCT_OFFSET (LlmSettings, cache_limit), G_MAXUINT64 },
  { "service", "threads", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, n_threads), 256 },
  { "service", "background-threads", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, n_background_threads),
    256 },
  { "service", "background-nice", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, background_niceness),
    19 },
  { "service", "scheduler", KEY_SCHEDULER, G_STRUCT_OFFSET (LlmSettings, scheduler), 0 },
  { "service", "overload-factor", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, overload_factor), 1000 },
  { "service", "kernels", KEY_KERNELS, G_STRUCT_OFFSET (LlmSettings, kernels), 0 },
  { "service", "budget", KEY_BYTES, G_STRUCT_OFFSET (LlmSettings, budget), G_MAXUINT64 },
  { "service", "max-message", KEY_BYTES, G_STRUCT_OFFSET (LlmSettings, max_message),
    16 * 1024 * 1024 },
  { "service", "stall-timeout", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, stall_timeout_s), 86400 },
  { "service", "idle-unload", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, idle_unload_s), 31536000 },
  { "service", "metrics", KEY_METRICS, G_STRUCT_OFFSET (LlmSettings, metrics), 0 },
  { "memory", "pressure", KEY_SWITCH, G_STRUCT_OFFSET (LlmSettings, reacts_to_pressure), 0 },
  { "memory", "reserve", KEY_BYTES, G_STRUCT_OFFSET (LlmSettings, reserve), G_MAXUINT64 },
  { "memory", "longest-wait", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, short_wait_s), 604800 },
  { "power", "background-on-battery", KEY_PACE, G_STRUCT_OFFSET (LlmSettings, pace_on_battery), 0 },
  { "power", "background-on-power-saver", KEY_PACE,
    G_STRUCT_OFFSET (LlmSettings, pace_on_power_saver), 0 },
  { "power", "longest-wait", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, longest_wait_s), 604800 },
  { "contexts", "ratio", KEY_RATIO, G_STRUCT_OFFSET (LlmSettings, context_ratio), 100 },
  { "contexts", "chunk-tokens", KEY_CHUNK, G_STRUCT_OFFSET (LlmSettings, chunk_tokens), 64 },
  { "contexts", "disk", KEY_DISK, G_STRUCT_OFFSET (LlmSettings, disk), 0 },
  { "contexts", "storage-limit", KEY_BYTES, G_STRUCT_OFFSET (LlmSettings, storage_limit),
    G_MAXUINT64 },
  { "contexts", "storage-limit-per-app", KEY_BYTES,
    G_STRUCT_OFFSET (LlmSettings, app_storage_limit), G_MAXUINT64 },
  { "quota", "contexts", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, max_contexts), 1000000 },
  { "quota", "calls", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, max_calls), 1000000 },
  { "quota", "tokens", KEY_UINT64, G_STRUCT_OFFSET (LlmSettings, max_tokens), G_MAXINT64 },
  { "quota", "disk", KEY_BYTES, G_STRUCT_OFFSET (LlmSettings, max_disk), G_MAXINT64 },
  { "quota", "share", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, max_share), 100 },
  { "quota", "rate", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, max_rate), 1000000 },
  { "quota", "named", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, max_named), 1000000 },
  { "quota", "apps", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, max_apps), 1000000 },
  { "quota", "queue", KEY_UINT, G_STRUCT_OFFSET (LlmSettings, max_queue), 1000000 },
};

static const char *const schedulers[] = { "deadline", "fifo", NULL };
/* In the order of LlmPace. */
static const char *const paces[] = { "run", "slow", "wait" };
static const char *const disks[] = { "auto", "uring", "threads", "off", NULL };

static gboolean
set_key (LlmSettings *self,
         guint        index,
         const char  *path,
         const char  *text,
         GError     **error)
{
  gpointer field = (guint8 *) self + keys[index].offset;
  guint64 number = 0;

  switch (keys[index].kind)
    {
    case KEY_PATH:
      g_free (*(char **) field);
      *(char **) field = *text != '\0' ? g_strdup (text) : NULL;
      return TRUE;
    case KEY_FOLDERS:
      g_strfreev (*(GStrv *) field);
      *(GStrv *) field = g_strsplit (text, ";", -1);
      return TRUE;
    case KEY_KERNELS:
      if (*text == '\0' || llk_ops_find (text) != NULL)
        {
          g_free (*(char **) field);
          *(char **) field = *text != '\0' ? g_strdup (text) : NULL;
          return TRUE;
        }
      break;
    case KEY_RATIO:
      if (g_str_equal (text, "off"))
        {
          *(guint *) field = 0;
          return TRUE;
        }
      if (g_ascii_string_to_unsigned (text, 10, MIN_RATIO, keys[index].max, &number, NULL))
        {
          *(guint *) field = (guint) number;
          return TRUE;
        }
      break;
    case KEY_CHUNK:
      if (g_ascii_string_to_unsigned (text, 10, 16, keys[index].max, &number, NULL)
          && number % 16 == 0)
        {
          *(guint *) field = (guint) number;
          return TRUE;
        }
      break;
    case KEY_SCHEDULER:
      if (g_strv_contains (schedulers, text))
        {
          g_free (*(char **) field);
          *(char **) field = g_strdup (text);
          return TRUE;
        }
      break;
    case KEY_DISK:
      if (g_strv_contains (disks, text))
        {
          g_free (*(char **) field);
          *(char **) field = g_strdup (text);
          return TRUE;
        }
      break;
    case KEY_METRICS:
      if (*text == '/' || g_str_equal (text, "on") || g_str_equal (text, "off"))
        {
          g_free (*(char **) field);
          *(char **) field = g_str_equal (text, "off") ? NULL : g_strdup (text);
          return TRUE;
        }
      break;
    case KEY_SWITCH:
      if (g_str_equal (text, "on") || g_str_equal (text, "off"))
        {
          *(gboolean *) field = g_str_equal (text, "on");
          return TRUE;
        }
      break;
    case KEY_PACE:
      for (guint i = 0; i < G_N_ELEMENTS (paces); i++)
        if (g_str_equal (text, paces[i]))
          {
            *(guint *) field = i;
            return TRUE;
          }
      break;
    case KEY_BYTES:
      if (parse_bytes (text, &number) && number <= keys[index].max)
        {
          *(guint64 *) field = number;
          return TRUE;
        }
      break;
    case KEY_UINT:
    case KEY_UINT64:
    default:
      if (g_ascii_string_to_unsigned (text, 10, 0, keys[index].max, &number, NULL))
        {
          if (keys[index].kind == KEY_UINT)
            *(guint *) field = number;
          else
            *(guint64 *) field = number;
          return TRUE;
        }
      break;
    }
  if (keys[index].kind == KEY_KERNELS)
    {
      g_autofree char *known = g_strjoinv (", ", (char **) llk_ops_list ());

      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   "%s: [%s] %s = “%s” is no set of kernels that this processor can run; it can "
                   "run %s",
                   path, keys[index].group, keys[index].key, text, known);
    }
  else if (keys[index].kind == KEY_RATIO)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is neither a number of percent from %u to %ju nor “off”", path,
                 keys[index].group, keys[index].key, text, MIN_RATIO, keys[index].max);
  else if (keys[index].kind == KEY_CHUNK)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is none of 16, 32, 48 and 64", path, keys[index].group,
                 keys[index].key, text);
  else if (keys[index].kind == KEY_SCHEDULER)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is neither deadline nor fifo", path, keys[index].group,
                 keys[index].key, text);
  else if (keys[index].kind == KEY_DISK)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is none of auto, uring, threads and off", path,
                 keys[index].group, keys[index].key, text);
  else if (keys[index].kind == KEY_METRICS)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is neither “on”, “off” nor the full path of a socket", path,
                 keys[index].group, keys[index].key, text);
  else if (keys[index].kind == KEY_SWITCH)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is neither “on” nor “off”", path, keys[index].group,
                 keys[index].key, text);
  else if (keys[index].kind == KEY_PACE)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is none of run, slow and wait", path, keys[index].group,
                 keys[index].key, text);
  else if (keys[index].kind == KEY_BYTES)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is not a number from 0 to %ju, perhaps with K, M or G", path,
                 keys[index].group, keys[index].key, text, keys[index].max);
  else
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 "%s: [%s] %s = “%s” is not a number from 0 to %ju", path, keys[index].group,
                 keys[index].key, text, keys[index].max);
  return FALSE;
}

/* --- a file --- */

static gboolean
read_group (LlmSettings *self,
            GKeyFile    *file,
            const char  *path,
            const char  *group,
            GError     **error)
{
  g_auto(GStrv) names = g_key_file_get_keys (file, group, NULL, error);

  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    {
      g_autofree char *text = g_key_file_get_string (file, group, names[i], error);
      guint index = 0;

      if (text == NULL)
        return FALSE;
      while (index < G_N_ELEMENTS (keys) && !(g_str_equal (keys[index].group, group) &&
                                              g_str_equal (keys[index].key, names[i])))
        index++;
      if (index == G_N_ELEMENTS (keys))
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "%s: there is no key “%s” in group [%s]; the keys are in "
                       "docs/configuration.md",
                       path, names[i], group);
          return FALSE;
        }
      if (!set_key (self, index, path, g_strstrip (text), error))
        return FALSE;
    }
  return names != NULL;
}

static gboolean
has_group (const char *group)
{
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (g_str_equal (keys[i].group, group))
      return TRUE;
  return FALSE;
}

/* @must_exist: whether a missing file is an error. */
static gboolean
read_file (LlmSettings *self,
           const char  *path,
           gboolean     must_exist,
           GError     **error)
{
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autoptr(GError) local = NULL;
  g_auto(GStrv) groups = NULL;

  if (!g_key_file_load_from_file (file, path, G_KEY_FILE_NONE, &local))
    {
      if (!must_exist && g_error_matches (local, G_FILE_ERROR, G_FILE_ERROR_NOENT))
        return TRUE;
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   "The configuration %s can't be read: %s", path, local->message);
      return FALSE;
    }
  groups = g_key_file_get_groups (file, NULL);
  for (guint i = 0; groups[i] != NULL; i++)
    {
      if (!has_group (groups[i]))
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "%s: there is no group [%s]; the groups are model, service, memory, power, "
                       "contexts and quota", path, groups[i]);
          return FALSE;
        }
      if (!read_group (self, file, path, groups[i], error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_files (LlmSettings *self,
            gboolean     is_system,
            const char  *file,
            GError     **error)
{
  const char *from_environment = g_getenv ("LLMSVC_CONFIG");
  g_autofree char *user_file =
    g_build_filename (g_get_user_config_dir (), "llmsvc", "llmsvc.conf", NULL);

  if (file != NULL)
    return read_file (self, file, TRUE, error);
  if (from_environment != NULL && *from_environment != '\0')
    return read_file (self, from_environment, TRUE, error);
  return read_file (self, LLM_SYSCONFDIR "/llmsvc/llmsvc.conf", FALSE, error) &&
         (is_system || read_file (self, user_file, FALSE, error));
}

/* Configured folders first, then what the environment adds, then the usual ones:
 * the user's own before the machine's before the packaged ones. */
static void
add_usual_folders (LlmSettings *self,
                   gboolean     is_system)
{
  g_autoptr(GStrvBuilder) folders = g_strv_builder_new ();
  const char *from_environment = g_getenv ("LLMSVC_MODEL_PATH");

  for (guint i = 0; self->model_folders[i] != NULL; i++)
    if (*self->model_folders[i] != '\0')
      g_strv_builder_add (folders, self->model_folders[i]);
  if (from_environment != NULL)
    {
      g_auto(GStrv) paths = g_strsplit (from_environment, G_SEARCHPATH_SEPARATOR_S, -1);

      for (guint i = 0; paths[i] != NULL; i++)
        if (*paths[i] != '\0')
          g_strv_builder_add (folders, paths[i]);
    }
  if (!is_system)
    {
      g_autofree char *own = g_build_filename (g_get_user_data_dir (), "llmsvc", "models", NULL);

      g_strv_builder_add (folders, own);
    }
  g_strv_builder_add (folders, LLM_LOCALSTATEDIR "/lib/llmsvc/models");
  g_strv_builder_add (folders, LLM_DATADIR "/llmsvc/models");

  g_strfreev (self->model_folders);
  self->model_folders = g_strv_builder_end (folders);
}

/* The system's service fills the folder that everybody else only reads. */
void
llm_settings_set_cache (LlmSettings *self,
                        gboolean     is_system)
{
  const char *from_environment = g_getenv ("CACHE_DIRECTORY");

  g_free (self->cache_folder);
  g_free (self->system_cache_folder);
  self->system_cache_folder = g_strdup (LLM_LOCALSTATEDIR "/cache/llmsvc");
  self->shares_cache = is_system;
  if (from_environment != NULL && *from_environment != '\0')
    self->cache_folder = g_strdup (from_environment);
  else if (is_system)
    self->cache_folder = g_strdup (self->system_cache_folder);
  else
    self->cache_folder = g_build_filename (g_get_user_cache_dir (), "llmsvc", NULL);
}

LlmSettings *
llm_settings_load (gboolean    is_system,
                   const char *file,
                   GError    **error)
{
  g_autoptr(LlmSettings) self = llm_settings_new ();
  const char *state = g_getenv ("STATE_DIRECTORY");

  if (!read_files (self, is_system, file, error))
    return NULL;
  add_usual_folders (self, is_system);
  if (state != NULL && *state != '\0')
    self->state_folder = g_strdup (state);
  else if (is_system)
    self->state_folder = g_strdup (LLM_LOCALSTATEDIR "/lib/llmsvc");
  else
    self->state_folder = g_build_filename (g_get_user_state_dir (), "llmsvc", NULL);
  llm_settings_set_cache (self, is_system);
  return g_steal_pointer (&self);
}
