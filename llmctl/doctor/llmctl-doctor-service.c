/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: what the service says of itself, its model, and how its use goes. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <glib/gi18n.h>
#include <math.h>
#include <glib/gstdio.h>
#include <string.h>

#include "common/llmsvc-names.h"
#include "llmctl/bus/llmctl-place.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/output/llmctl-words.h"

/* The one that comes with the source, to try things out. */
#define DEMO_PREFIX "llmsvc-demo"

/* Files of a folder that are looked at. */
#define MAX_FILES 1000

/* Of a quota that is used, in percent. */
#define NEARLY_FULL 90

/* What half of the machine's memory holds leaves room for contexts and for other programs. */
#define FITTING_PART 2
/* Of a model file with 4 bits for a weight (Q4_K_M), in bytes for a parameter. */
#define BYTES_PER_PARAMETER 0.6

/* Tokens a second with which one reads along, and the part of memory's speed that weights come with:
 * the rest of a step computes. Measured for a billion parameters on two processors. */
#define READING_SPEED 5
#define SPEED_PART    0.6

/* Of questions or answers, in percent. */
#define MANY 10
#define FEW  10

/* (transfer full): how it gets a first model. */
static char *
make_model_hint (LlmctlDoctor *self)
{
  g_autofree char *install = llmctl_place_make_install (self->bus_type);

  return g_strdup_printf (_("Put a GGUF file where it looks: %s; or install llmsvc-model-demo to "
                            "try"), install);
}

/* --- itself --- */

static void
tell_of_availability (LlmctlDoctor *self)
{
  g_autofree char *model_hint = make_model_hint (self);
  const char *availability = llmctl_dict_get_string (self->service, "Availability");
  const char *reason = llmctl_dict_get_string (self->service, "AvailabilityReason");

  if (g_str_equal (availability, "ready") && *reason != '\0')
    tell_warn (self, _("Named contexts, quotas and the chosen model are not known until then"),
               _("It is ready for questions, but can't use what is stored: %s"), reason);
  else if (g_str_equal (availability, "ready"))
    tell_ok (self, _("It is ready for questions"));
  else if (g_str_equal (availability, "loading"))
    tell_note (self, _("It is loading a model; questions wait"));
  else if (g_str_equal (availability, "no-model"))
    tell_fail (self, model_hint, _("It has no model: %s"), reason);
  else if (g_str_equal (availability, "disabled"))
    tell_fail (self, _("Ask the administrator"), _("The administrator has switched it off: %s"),
               reason);
  else
    tell_fail (self,
               _("More is in the journal: journalctl -u llmsvc -b (with --user for your own)"),
               _("It can't answer questions (%s): %s"), *availability != '\0' ? availability : "?",
               reason);
}

static void
check_service (LlmctlDoctor *self)
{
  g_autoptr(GError) error = NULL;
  const char *version;
  const char *path;
  guint64 api;

  if (self->bus == NULL || !self->is_running)
    return;

  self->service = llmctl_doctor_get_all (self->bus, LLMCTL_SERVICE_NAME, LLMCTL_SERVICE_PATH,
                                         LLMCTL_SERVICE_INTERFACE, &error);
  if (self->service == NULL)
    {
      g_dbus_error_strip_remote_error (error);
      tell_fail (self,
                 _("It hangs, or is not llmsvc. Its journal: journalctl -u llmsvc -b; a new "
                   "start: systemctl restart llmsvc (with --user for your own)"),
                 _("The service does not answer: %s"), error->message);
      return;
    }

  version = llmctl_dict_get_string (self->service, "Version");
  api = llmctl_dict_get_number (self->service, "ApiVersion");
  if (g_str_equal (version, LLM_VERSION) && api == LLMSVC_API_VERSION)
    tell_ok (self, _("The service answers: version %s, as llmctl"), version);
  else
    tell_warn (self,
               _("After an upgrade the service goes on as it was until it is started again: "
                 "systemctl restart llmsvc (with --user for your own)"),
               _("The service is version %s with interface %u, llmctl %s with interface %u"),
               *version != '\0' ? version : "?", (guint) api, LLM_VERSION, LLMSVC_API_VERSION);
  tell_of_availability (self);
  self->memory = llmctl_doctor_get_all (self->bus, LLMCTL_SERVICE_NAME, LLMCTL_SERVICE_PATH,
                                        LLMCTL_MEMORY_INTERFACE, NULL);
  self->statistics = llmctl_doctor_call (self->bus, LLMCTL_SERVICE_NAME, LLMCTL_SERVICE_PATH,
                                         LLMCTL_SERVICE_INTERFACE ".GetStatistics",
                                         g_variant_new ("(a{sv})", NULL), "a{sv}");
  path = llmctl_dict_get_string (self->service, "ActiveModel");
  if (g_variant_is_object_path (path) && !g_str_equal (path, "/"))
    self->model = llmctl_doctor_get_all (self->bus, LLMCTL_SERVICE_NAME, path,
                                         LLMCTL_MODEL_INTERFACE, NULL);
}

static void
tell_of_streaming (LlmctlDoctor *self)
{
  guint64 streaming = llmctl_dict_get_number (self->statistics, "streaming-bytes");
  g_autofree char *streaming_size = llmctl_format_bytes (streaming);

  if (streaming > 0)
    tell_warn (self,
               _("It is as slow as the disk: raise the limit or the budget, close other programs, or "
                 "choose a smaller model"),
               _("Memory has no room for all weights: each token reads %s of them from the disk"),
               streaming_size);
}

static void
check_memory (LlmctlDoctor *self)
{
  const char *pressure;
  g_autofree char *held = NULL;

  if (self->memory == NULL)
    return;
  if (self->statistics != NULL)
    tell_of_streaming (self);

  pressure = llmctl_dict_get_string (self->memory, "Pressure");
  held = llmctl_format_bytes (llmctl_dict_get_number (self->memory, "Resident"));
  if (g_str_equal (pressure, "none"))
    tell_ok (self, _("It holds %s, and memory is not pressed"), held);
  else
    tell_warn (self,
               _("“llmctl top” shows how it goes on; other programs need memory, or the budget is "
                 "small"), _("It holds %s, and gives memory back: pressure is “%s”"), held,
               llmctl_words_say (pressure));
}

/* --- models, and whether the machine has room for the one in use --- */

/* How many files of this kind the folders have. @folders: nullable each. @bytes: (out). */
static guint
count_files (LlmctlDoctor      *self,
             const char *const *folders,
             gsize              n_folders,
             const char        *suffix,
             guint64           *bytes)
{
  guint n = 0;

  *bytes = 0;
  for (gsize at = 0; at < n_folders; at++)
    {
      g_autofree char *folder = g_strconcat (self->root, folders[at], NULL);
      g_autoptr(GDir) dir = folders[at] != NULL ? g_dir_open (folder, 0, NULL) : NULL;
      const char *name;

      for (guint i = 0; dir != NULL && i < MAX_FILES && (name = g_dir_read_name (dir)) != NULL; i++)
        {
          g_autofree char *path = g_build_filename (folder, name, NULL);
          GStatBuf status;

          if (!g_str_has_suffix (name, suffix) || g_stat (path, &status) != 0 ||
              !S_ISREG (status.st_mode))
            continue;
          n++;
          *bytes += (guint64) status.st_size;
        }
    }

  return n;
}

/* Which models to get, and where they go. */
static void
tell_of_fitting (LlmctlDoctor *self)
{
  guint64 total = llmctl_doctor_read_meminfo (self, "MemTotal:");
  guint64 fitting = total / FITTING_PART;
  double memory_speed = llmctl_doctor_get_memory_speed (self);
  double fast = memory_speed * SPEED_PART / READING_SPEED;
  g_autofree char *fitting_size = llmctl_format_bytes (fitting);
  g_autofree char *fast_size = llmctl_format_bytes ((guint64) fast);
  g_autofree char *total_size = llmctl_format_bytes (total);
  g_autofree char *install = llmctl_place_make_install (self->bus_type);
  g_autofree char *hint = NULL;

  if (total == 0)
    return;
  hint = g_strdup_printf (_("Download one, as from huggingface.co, then: %s; llmctl model list; "
                            "%sllmctl model use ID"), install,
                          llmctl_place_get_sudo (self->bus_type));
  if (fast > 0 && fast < (double) fitting)
    llmctl_doctor_add (
      self, LLMCTL_DOCTOR_NOTE, hint,
      _("A model file (GGUF) of up to %s answers here as fast as one reads, with %u tokens a second: "
        "about %.1f billion parameters as Q4_K_M. There is memory for %s, if answers may be slower"),
      fast_size, READING_SPEED, fast / BYTES_PER_PARAMETER / 1e9, fitting_size);
  else
    llmctl_doctor_add (
      self, LLMCTL_DOCTOR_NOTE, hint,
      _("A model file (GGUF) of up to %s fits this machine, which has %s of memory: about %.0f billion "
        "parameters as Q4_K_M"), fitting_size, total_size,
      MAX (floor ((double) fitting / BYTES_PER_PARAMETER / 1e9), 1));
}

/* Without the service the folders tell what it would find. */
static void
tell_of_files (LlmctlDoctor *self)
{
  g_autofree char *user = g_build_filename (g_get_user_data_dir (), "llmsvc", "models", NULL);
  const char *const folders[] = { self->bus_type == G_BUS_TYPE_SYSTEM ? NULL : user,
                                  LLM_LOCALSTATEDIR "/lib/llmsvc/models",
                                  LLM_DATADIR "/llmsvc/models" };
  guint64 bytes;
  guint n = count_files (self, folders, G_N_ELEMENTS (folders), ".gguf", &bytes);
  g_autofree char *hint = make_model_hint (self);

  if (n == 0)
    tell_warn (self, hint, _("There is no model in the usual folders"));
  if (n == 0)
    tell_of_fitting (self);
  else
    tell_ok (self, _("%u files with models are in the usual folders"), n);
}

static void
tell_of_room (LlmctlDoctor *self,
              guint64       bytes)
{
  guint64 total = llmctl_doctor_read_meminfo (self, "MemTotal:");
  guint64 available = llmctl_doctor_read_meminfo (self, "MemAvailable:");
  guint64 held = self->memory != NULL ? llmctl_dict_get_number (self->memory, "Weights") : 0;
  guint64 limit = self->statistics != NULL
                    ? llmctl_dict_get_number (self->statistics, "group-limit-bytes")
                    : 0;
  guint64 used = limit > 0 ? llmctl_dict_get_number (self->statistics, "group-usage-bytes") : 0;
  g_autofree char *limit_size = llmctl_format_bytes (limit);
  g_autofree char *model_size = llmctl_format_bytes (bytes);
  g_autofree char *total_size = llmctl_format_bytes (total);
  g_autofree char *available_size = NULL;
  g_autofree char *small_hint =
    g_strdup_printf (_("Choose a smaller one: llmctl model list, %sllmctl model use ID"),
                     llmctl_place_get_sudo (self->bus_type));

  if (total == 0 || bytes == 0)
    return;
  if (limit > 0)
    available = MIN (available, limit - MIN (used, limit));
  available_size = llmctl_format_bytes (available);
  /* contexts and other programs want the rest */
  if (limit > 0 && bytes > limit)
    tell_warn (self, small_hint, _("The model has %s, the control group of the service %s"),
               model_size, limit_size);
  else if (bytes > total / 4 * 3)
    tell_fail (self, small_hint,
               _("The model has %s, the machine %s of memory"), model_size, total_size);
  else if (bytes > available + held)
    tell_warn (self, _("Close what needs much memory, or choose a smaller model"),
               _("The model has %s, and only %s of memory are available"), model_size,
               available_size);
  else
    tell_ok (self, _("The model has %s; %s of %s of memory are available"), model_size,
             available_size, total_size);
}

/* Copies that the service maps at once, instead of rearranging the weights at each start. */
static void
tell_of_prepared (LlmctlDoctor *self)
{
  g_autofree char *own = g_build_filename (g_get_user_cache_dir (), "llmsvc", "weights", NULL);
  const char *const folders[] = { LLM_LOCALSTATEDIR "/cache/llmsvc/weights",
                                  self->bus_type == G_BUS_TYPE_SYSTEM ? NULL : own };
  guint64 bytes;
  guint n = count_files (self, folders, G_N_ELEMENTS (folders), "", &bytes);
  g_autofree char *size = llmctl_format_bytes (bytes);

  if (n > 0)
    tell_ok (self, _("%u prepared copies lie in the cache, %s in all"), n, size);
  else if (self->memory != NULL && llmctl_dict_get_number (self->memory, "Weights") > 0)
    tell_warn (self, _("The service's journal says why; perhaps the disk of the cache is full"),
               _("There is no prepared copy of the model in the usual caches, so each start "
                 "rearranges its weights in memory"));
  else
    tell_note (self, _("There is no prepared copy of a model yet; the first load makes one"));
}

/* Files in the folders that the service can't use. */
static void
tell_of_unusable (LlmctlDoctor *self)
{
  g_autoptr(GVariant) objects =
    llmctl_doctor_call (self->bus, LLMCTL_SERVICE_NAME, LLMCTL_SERVICE_PATH "/models",
                        "org.freedesktop.DBus.ObjectManager.GetManagedObjects", NULL,
                        "a{oa{sa{sv}}}");
  GVariantIter iter;
  GVariant *interfaces;

  if (objects == NULL)
    return;
  g_variant_iter_init (&iter, objects);
  while (g_variant_iter_loop (&iter, "{&o@a{sa{sv}}}", NULL, &interfaces))
    {
      g_autoptr(GVariant) model =
        g_variant_lookup_value (interfaces, LLMCTL_MODEL_INTERFACE, G_VARIANT_TYPE_VARDICT);
      g_autoptr(GVariant) info =
        model != NULL ? g_variant_lookup_value (model, "Info", G_VARIANT_TYPE_VARDICT) : NULL;
      g_autofree const char **warnings = NULL;
      gboolean is_usable = TRUE;

      if (info != NULL)
        g_variant_lookup (info, "warnings", "^a&s", &warnings);
      for (guint i = 0; warnings != NULL && warnings[i] != NULL; i++)
        tell_note (self, _("%s: %s"), llmctl_dict_get_string (model, "Id"), warnings[i]);
      if (info != NULL && g_variant_lookup (info, "usable", "b", &is_usable) && !is_usable)
        tell_warn (self,
                   _("Copy or download the file again, or take it out of the folder; “llmctl model "
                     "check FILE” looks at one outside of it"), _("%s can't be used: %s"),
                   llmctl_dict_get_string (model, "Id"), llmctl_dict_get_string (info, "reason"));
      if (info != NULL && *llmctl_dict_get_string (info, "draft-reason") != '\0')
        tell_warn (self, _("“draft” of [model] in the configuration names it; llmctl model list"),
                   _("Nothing guesses for %s: %s"), llmctl_dict_get_string (model, "Id"),
                   llmctl_dict_get_string (info, "draft-reason"));
    }
}

static void
check_model (LlmctlDoctor *self)
{
  g_autoptr(GVariant) info = NULL;
  g_autofree const char **features = NULL;
  g_autofree char *install = llmctl_place_make_install (self->bus_type);
  g_autofree char *hint = g_strdup_printf (_("Get a real one, then: %s; %sllmctl model use ID"),
                                           install, llmctl_place_get_sudo (self->bus_type));
  const char *id;

  if (self->service != NULL && self->bus != NULL)
    tell_of_unusable (self);
  if (self->model == NULL)
    {
      /* of one that runs it was said already */
      if (self->service == NULL && self->bus_type != G_BUS_TYPE_NONE)
        tell_of_files (self);
      if (self->service != NULL)
        tell_of_fitting (self);
      return;
    }

  id = llmctl_dict_get_string (self->model, "Id");
  info = g_variant_lookup_value (self->model, "Info", G_VARIANT_TYPE_VARDICT);
  if (g_variant_lookup (self->service, "Features", "^a&s", &features) &&
      g_strv_contains (features, "mock"))
    {
      tell_warn (self, _("It was started with --mock, for tests of programs"),
                 _("Answers come from a script and not from a model"));
      return;
    }
  if (g_str_has_prefix (id, DEMO_PREFIX))
    {
      tell_warn (self, hint, _("The model in use is the demo, whose answers make little sense"));
      tell_of_fitting (self);
    }
  else
    tell_ok (self, _("The model in use is %s"), id);
  if (info != NULL)
    tell_of_room (self, llmctl_dict_get_number (info, "file-bytes"));
  tell_of_prepared (self);
}

/* --- its use --- */

static void
check_quotas (LlmctlDoctor *self)
{
  static const char *const keys[] = { "contexts", "tokens", "disk" };
  g_autoptr(GVariant) apps = NULL;
  guint n_before = self->findings->len;

  if (self->service != NULL)
    apps = llmctl_doctor_call (self->bus, LLMCTL_SERVICE_NAME, LLMCTL_SERVICE_PATH,
                               LLMCTL_ADMIN_INTERFACE ".ListApps", g_variant_new ("(a{sv})", NULL),
                               "aa{sv}");
  if (apps == NULL)
    return;

  for (gsize i = 0; i < g_variant_n_children (apps) * G_N_ELEMENTS (keys); i++)
    {
      g_autoptr(GVariant) app = g_variant_get_child_value (apps, i / G_N_ELEMENTS (keys));
      const char *key = keys[i % G_N_ELEMENTS (keys)];
      g_autofree char *name = g_strconcat ("quota-", key, NULL);
      guint64 used = llmctl_dict_get_number (app, key);
      guint64 quota = llmctl_dict_get_number (app, name);

      if (quota > 0 && (double) used >= (double) quota * NEARLY_FULL / 100)
        tell_warn (self,
                   _("Close what is not needed (“llmctl context list”), or raise it: “llmctl "
                     "quota APP KEY=VALUE”"), _("%s of user %u has %.0f %% of its quota of “%s”"),
                   llmctl_apps_get_title (app), (guint) llmctl_dict_get_number (app, "uid"),
                   (double) used / (double) quota * 100, key);
    }
  if (self->findings->len == n_before)
    tell_ok (self, _("No application is at its quota"));
}

static gboolean
is_many (guint64 part,
         guint64 whole)
{
  return part >= FEW && (double) part > (double) whole * MANY / 100;
}

static void
check_use (LlmctlDoctor *self)
{
  GVariant *statistics = self->statistics;
  guint n_before = self->findings->len;
  guint64 requests, failed, met, missed, refused, faulted;

  if (statistics == NULL)
    return;

  requests = llmctl_dict_get_number (statistics, "requests");
  failed = llmctl_dict_get_number (statistics, "failed");
  met = llmctl_dict_get_number (statistics, "slo-met");
  missed = llmctl_dict_get_number (statistics, "slo-missed");
  refused = llmctl_dict_get_number (statistics, "refused");
  faulted = llmctl_dict_get_number (statistics, "kv-faulted-chunks");
  if (is_many (failed, requests))
    tell_warn (self,
               _("The journal has each one with its error: journalctl -u llmsvc LLM_END=failed "
                 "LLM_END=refused"), _("%u of %u questions have failed since it was started"),
               (guint) failed, (guint) requests);
  if (is_many (missed, met + missed))
    tell_warn (self,
               _("A smaller model, fewer programs at a time, or “slo=background” for what nobody "
                 "waits for"), _("%u of %u answers came later than they were wanted"),
               (guint) missed, (guint) (met + missed));
  if (refused > 0)
    tell_note (self, _("%u questions were refused because answers would have come far too late"),
               (guint) refused);
  if (faulted > 0)
    tell_warn (self,
               _("Nothing is lost by it, but if it goes on, look after the disk: journalctl -k -b"),
               _("%u parts of contexts were missing or damaged on the disk and were computed "
                 "again"), (guint) faulted);
  if (self->findings->len == n_before)
    tell_ok (self, _("%u questions since it was started, %u of them failed"), (guint) requests,
             (guint) failed);
}

const LlmctlCheck llmctl_doctor_service_checks[] = {
  { "service", check_service },
  { "memory", check_memory },
  { "model", check_model },
  { "quota", check_quotas },
  { "use", check_use },
  { NULL },
};
