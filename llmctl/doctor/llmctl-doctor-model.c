/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: models, and whether the machine has room for the one in use. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <string.h>

#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

#define CHECK "model"

/* The one that comes with the source, to try things out. */
#define DEMO_PREFIX "llmsvc-demo"

/* Files of a folder that are looked at. */
#define MAX_FILES 1000

typedef struct
{
  guint n;
  guint n_demo;
  guint64 bytes;
} Files;

static void
count_files (const char *folder,
             const char *suffix,
             Files      *files)
{
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  for (guint i = 0; dir != NULL && i < MAX_FILES && (name = g_dir_read_name (dir)) != NULL; i++)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      GStatBuf status;

      if (!g_str_has_suffix (name, suffix) || g_stat (path, &status) != 0 ||
          !S_ISREG (status.st_mode))
        continue;
      files->n++;
      files->n_demo += g_str_has_prefix (name, DEMO_PREFIX);
      files->bytes += (guint64) status.st_size;
    }
}

/* Of /proc/meminfo, in bytes; 0 when it is not there. */
static guint64
read_meminfo (LlmctlDoctor *self,
              const char   *key)
{
  g_autofree char *text = llmctl_doctor_read (self, "/proc/meminfo", 16384);
  const char *line = text != NULL ? strstr (text, key) : NULL;

  return line != NULL ? g_ascii_strtoull (line + strlen (key), NULL, 10) * 1024 : 0;
}

/* Without the service the folders tell what it would find. */
static void
tell_of_files (LlmctlDoctor *self)
{
  g_autofree char *user = g_build_filename (g_get_user_data_dir (), "llmsvc", "models", NULL);
  const char *const folders[] = { self->bus_type == G_BUS_TYPE_SYSTEM ? NULL : user,
                                  LLM_LOCALSTATEDIR "/lib/llmsvc/models",
                                  LLM_DATADIR "/llmsvc/models" };
  Files files = { 0 };

  for (gsize i = 0; i < G_N_ELEMENTS (folders); i++)
    if (folders[i] != NULL)
      {
        g_autofree char *folder = g_strconcat (self->root, folders[i], NULL);

        count_files (folder, ".gguf", &files);
      }
  if (files.n == 0)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_WARN,
                       _("Put a GGUF file into one of the folders that llmsvc.conf(5) names, or "
                         "install llmsvc-model-demo to try"),
                       _("There is no model in the usual folders"));
  else
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_OK, NULL,
                       _("%u files with models are in the usual folders"), files.n);
}

static void
tell_of_room (LlmctlDoctor *self,
              guint64       bytes)
{
  guint64 total = read_meminfo (self, "MemTotal:");
  guint64 available = read_meminfo (self, "MemAvailable:");
  guint64 held = self->memory != NULL ? llmctl_dict_get_number (self->memory, "Weights") : 0;
  g_autofree char *model_size = llmctl_format_bytes (bytes);
  g_autofree char *total_size = llmctl_format_bytes (total);
  g_autofree char *available_size = llmctl_format_bytes (available);

  if (total == 0 || bytes == 0)
    return;
  /* contexts and other programs want the rest */
  if (bytes > total / 4 * 3)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_FAIL,
                       _("Choose a smaller one: llmctl model list, llmctl model use ID"),
                       _("The model has %s, the machine %s of memory"), model_size, total_size);
  else if (bytes > available + held)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_WARN,
                       _("Close what needs much memory, or choose a smaller model"),
                       _("The model has %s, and only %s of memory are available"), model_size,
                       available_size);
  else
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_OK, NULL,
                       _("The model has %s; %s of %s of memory are available"), model_size,
                       available_size, total_size);
}

/* Copies that the service maps at once, instead of rearranging the weights at each start. */
static void
tell_of_prepared (LlmctlDoctor *self)
{
  g_autofree char *own = g_build_filename (g_get_user_cache_dir (), "llmsvc", "weights", NULL);
  const char *const folders[] = { LLM_LOCALSTATEDIR "/cache/llmsvc/weights",
                                  self->bus_type == G_BUS_TYPE_SYSTEM ? NULL : own };
  Files files = { 0 };
  g_autofree char *size = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (folders); i++)
    if (folders[i] != NULL)
      {
        g_autofree char *folder = g_strconcat (self->root, folders[i], NULL);

        count_files (folder, "", &files);
      }
  size = llmctl_format_bytes (files.bytes);
  if (files.n > 0)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_OK, NULL,
                       _("%u prepared copies lie in the cache, %s in all"), files.n, size);
  else if (self->memory != NULL && llmctl_dict_get_number (self->memory, "Weights") > 0)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_WARN,
                       _("The service's journal says why; perhaps the disk of the cache is full"),
                       _("There is no prepared copy of the model in the usual caches, so each "
                         "start rearranges its weights in memory"));
  else
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_NOTE, NULL,
                       _("There is no prepared copy of a model yet; the first load makes one"));
}

static gboolean
is_mock (LlmctlDoctor *self)
{
  g_autoptr(GVariant) features = g_variant_lookup_value (self->service, "Features",
                                                         G_VARIANT_TYPE_STRING_ARRAY);
  g_autofree const char **names = features != NULL ? g_variant_get_strv (features, NULL) : NULL;

  return names != NULL && g_strv_contains (names, "mock");
}

void
llmctl_doctor_check_models (LlmctlDoctor *self)
{
  g_autoptr(GVariant) info = NULL;
  const char *id;

  if (self->model == NULL)
    {
      /* of one that runs it was said already */
      if (self->service == NULL && self->bus_type != G_BUS_TYPE_NONE)
        tell_of_files (self);
      return;
    }

  id = llmctl_dict_get_string (self->model, "Id");
  info = g_variant_lookup_value (self->model, "Info", G_VARIANT_TYPE_VARDICT);
  if (is_mock (self))
    {
      llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_WARN,
                         _("It was started with --mock, for tests of programs"),
                         _("Answers come from a script and not from a model"));
      return;
    }
  if (g_str_has_prefix (id, DEMO_PREFIX))
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_WARN,
                       _("Get a real one: llmsvc.conf(5) names the folders, “llmctl model use ID” "
                         "chooses it"),
                       _("The model in use is the demo, whose answers make little sense"));
  else
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_OK, NULL, _("The model in use is %s"), id);
  if (info != NULL)
    tell_of_room (self, llmctl_dict_get_number (info, "file-bytes"));
  tell_of_prepared (self);
}
