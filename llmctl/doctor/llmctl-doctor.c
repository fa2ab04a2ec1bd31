/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <string.h>

#include "llmctl/output/llmctl-json.h"

const char *const llmctl_doctor_levels[] = { "ok", "note", "warn", "fail" };

void
llmctl_doctor_init (LlmctlDoctor *self)
{
  *self = (LlmctlDoctor) { .root = "" };
  self->findings = g_ptr_array_new_with_free_func ((GDestroyNotify) g_variant_unref);
}

void
llmctl_doctor_clear (LlmctlDoctor *self)
{
  g_clear_pointer (&self->findings, g_ptr_array_unref);
  g_clear_object (&self->bus);
  g_clear_pointer (&self->service, g_variant_unref);
  g_clear_pointer (&self->memory, g_variant_unref);
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_pointer (&self->model, g_variant_unref);
}

void
llmctl_doctor_add (LlmctlDoctor      *self,
                   LlmctlDoctorLevel  level,
                   const char        *hint,
                   const char        *format,
                   ...)
{
  g_autofree char *text = NULL;
  g_autofree char *valid_text = NULL;
  g_autofree char *valid_hint = hint != NULL ? g_utf8_make_valid (hint, -1) : NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  valid_text = g_utf8_make_valid (text, -1);
  g_ptr_array_add (self->findings, g_variant_ref_sink (llmctl_json_object (
      "check:s", self->check, "level:s", llmctl_doctor_levels[level], "text:s", valid_text,
      "hint:s", valid_hint, NULL)));
  self->worst = MAX (self->worst, level);
}

gboolean
llmctl_doctor_bus_lists (GDBusConnection *bus,
                         const char      *method,
                         const char      *name)
{
  g_autofree char *full = g_strconcat (LLMCTL_BUS_NAME ".", method, NULL);
  g_autoptr(GVariant) list =
      llmctl_doctor_call (bus, LLMCTL_BUS_NAME, LLMCTL_BUS_PATH, full, NULL, "as");
  g_autofree const char **names = list != NULL ? g_variant_get_strv (list, NULL) : NULL;

  return names != NULL && g_strv_contains (names, name);
}

char *
llmctl_doctor_read (LlmctlDoctor *self,
                    const char   *path)
{
  g_autofree char *full = g_strconcat (self->root, path, NULL);
  char *text = NULL;

  return g_file_get_contents (full, &text, NULL, NULL) ? g_strchomp (text) : NULL;
}

guint64
llmctl_doctor_read_meminfo (LlmctlDoctor *self,
                            const char   *key)
{
  g_autofree char *text = llmctl_doctor_read (self, "/proc/meminfo");
  const char *line = text != NULL ? strstr (text, key) : NULL;

  return line != NULL ? g_ascii_strtoull (line + strlen (key), NULL, 10) * 1024 : 0;
}

char *
llmctl_doctor_make_path (LlmctlDoctor *self,
                         gboolean      is_cache)
{
  if (self->bus_type == G_BUS_TYPE_SYSTEM)
    return g_strconcat (LLM_LOCALSTATEDIR, is_cache ? "/cache" : "/lib", "/llmsvc", NULL);

  return g_build_filename (is_cache ? g_get_user_cache_dir () : g_get_user_state_dir (), "llmsvc",
                           NULL);
}
