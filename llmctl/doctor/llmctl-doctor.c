/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include "llmctl/bus/llmctl-service.h"

/* A service that is well answers such calls within milliseconds, whatever it computes. */
#define CALL_LIMIT_MS 3000

static void
finding_free (LlmctlFinding *self)
{
  g_free (self->text);
  g_free (self->hint);
  g_free (self);
}

void
llmctl_doctor_init (LlmctlDoctor *self)
{
  *self = (LlmctlDoctor) { .root = "" };
  self->findings = g_ptr_array_new_with_free_func ((GDestroyNotify) finding_free);
}

void
llmctl_doctor_clear (LlmctlDoctor *self)
{
  g_clear_pointer (&self->findings, g_ptr_array_unref);
  g_clear_object (&self->bus);
  g_clear_pointer (&self->service, g_variant_unref);
  g_clear_pointer (&self->memory, g_variant_unref);
  g_clear_pointer (&self->model, g_variant_unref);
}

void
llmctl_doctor_add (LlmctlDoctor      *self,
                   LlmctlDoctorLevel  level,
                   const char        *hint,
                   const char        *format,
                   ...)
{
  LlmctlFinding *finding = g_new0 (LlmctlFinding, 1);
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  finding->check = self->check;
  finding->level = level;
  finding->text = g_utf8_make_valid (text, -1);
  finding->hint = hint != NULL ? g_utf8_make_valid (hint, -1) : NULL;
  g_ptr_array_add (self->findings, finding);
  self->worst = MAX (self->worst, level);
}

GVariant *
llmctl_doctor_call (GDBusConnection *bus,
                    const char      *name,
                    const char      *path,
                    const char      *method,
                    GVariant        *arguments,
                    const char      *type)
{
  return llmctl_service_ask (bus, name, path, method, arguments, type, CALL_LIMIT_MS, NULL, NULL);
}

GVariant *
llmctl_doctor_get_all (GDBusConnection  *bus,
                       const char       *name,
                       const char       *path,
                       const char       *interface,
                       GError          **error)
{
  return llmctl_service_ask (bus, name, path, "org.freedesktop.DBus.Properties.GetAll",
                             g_variant_new ("(s)", interface), "a{sv}", CALL_LIMIT_MS, NULL, error);
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
