/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: what is well, what is not, and what to do about it. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/doctor/llmctl-doctor.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

/* What the bus gives a service to start. */
#define START_LIMIT_MS 30000

#define LEVEL_COLUMNS 6
#define CHECK_COLUMNS 14

static gboolean shall_start;

static const GOptionEntry options[] = {
  { "start", 0, 0, G_OPTION_ARG_NONE, &shall_start,
    N_("Start the service when it does not run, to see whether that works"), NULL },
  G_OPTION_ENTRY_NULL
};

/* --- starting --- */

static void
start (LlmctlDoctor *doctor)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) owner = NULL;
  g_autoptr(GError) error = NULL;

  if (!shall_start || doctor->bus == NULL || doctor->is_running)
    return;

  reply = g_dbus_connection_call_sync (doctor->bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                       "org.freedesktop.DBus", "StartServiceByName",
                                       g_variant_new ("(su)", LLMCTL_SERVICE_NAME, 0),
                                       G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE,
                                       START_LIMIT_MS, NULL, &error);
  if (reply == NULL)
    {
      g_dbus_error_strip_remote_error (error);
      llmctl_doctor_add (doctor, "start", LLMCTL_DOCTOR_FAIL,
                         _("Why: journalctl -u llmsvc -b (with --user for your own)"),
                         _("The bus can't start it: %s"), error->message);
      return;
    }

  llmctl_doctor_add (doctor, "start", LLMCTL_DOCTOR_OK, NULL, _("The bus has started it"));
  doctor->is_running = TRUE;
  owner = llmctl_doctor_call (doctor->bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                              "org.freedesktop.DBus", "GetConnectionUnixProcessID",
                              g_variant_new ("(s)", LLMCTL_SERVICE_NAME), "(u)", NULL);
  if (owner != NULL)
    g_variant_get (owner, "(u)", &doctor->pid);
}

/* --- output --- */

static LlmctlStyle
get_style (LlmctlDoctorLevel level)
{
  static const LlmctlStyle styles[] = {
    [LLMCTL_DOCTOR_OK] = LLMCTL_STYLE_GOOD,
    [LLMCTL_DOCTOR_NOTE] = LLMCTL_STYLE_DIM,
    [LLMCTL_DOCTOR_WARN] = LLMCTL_STYLE_WARNING,
    [LLMCTL_DOCTOR_FAIL] = LLMCTL_STYLE_BAD,
  };

  return styles[level];
}

static void
print_indented (const char *text,
                const char *before)
{
  g_autofree char *line = g_strconcat (before, text, NULL);
  g_autofree char *wrapped = llmctl_wrap (line, LEVEL_COLUMNS + CHECK_COLUMNS);

  /* the first line goes on where the columns before it have ended */
  llmctl_output_text (LLMCTL_STYLE_PLAIN, wrapped + strspn (wrapped, " "));
}

static void
print_spaces (guint n)
{
  for (guint i = 0; i < n; i++)
    llmctl_output_text (LLMCTL_STYLE_PLAIN, " ");
}

static void
print_for_people (LlmctlDoctor *doctor)
{
  for (guint i = 0; i < doctor->findings->len; i++)
    {
      const LlmctlFinding *finding = g_ptr_array_index (doctor->findings, i);
      const char *level = llmctl_doctor_level_to_string (finding->level);

      llmctl_output_text (get_style (finding->level), level);
      print_spaces (LEVEL_COLUMNS - strlen (level));
      llmctl_output_text (LLMCTL_STYLE_BOLD, finding->check);
      print_spaces (CHECK_COLUMNS - MIN (strlen (finding->check), CHECK_COLUMNS - 1));
      print_indented (finding->text, "");
      if (finding->hint == NULL)
        continue;
      print_spaces (LEVEL_COLUMNS + CHECK_COLUMNS);
      print_indented (finding->hint, g_get_charset (NULL) ? "→ " : "-> ");
    }

  switch (llmctl_doctor_get_worst (doctor))
    {
    case LLMCTL_DOCTOR_FAIL:
      llmctl_output_printf (LLMCTL_STYLE_BAD, "%s\n", _("Something does not work."));
      break;
    case LLMCTL_DOCTOR_WARN:
      llmctl_output_printf (LLMCTL_STYLE_WARNING, "%s\n", _("It works, but see the warnings."));
      break;
    case LLMCTL_DOCTOR_OK:
    case LLMCTL_DOCTOR_NOTE:
    default:
      llmctl_output_printf (LLMCTL_STYLE_GOOD, "%s\n", _("All is well."));
      break;
    }
}

static void
print_json (LlmctlDoctor *doctor)
{
  GVariantBuilder findings;
  GVariantBuilder builder;

  g_variant_builder_init (&findings, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < doctor->findings->len; i++)
    {
      const LlmctlFinding *finding = g_ptr_array_index (doctor->findings, i);

      g_variant_builder_open (&findings, G_VARIANT_TYPE_VARDICT);
      llmctl_json_add_string (&findings, "check", finding->check);
      llmctl_json_add_string (&findings, "level", llmctl_doctor_level_to_string (finding->level));
      llmctl_json_add_string (&findings, "text", finding->text);
      llmctl_json_add_string (&findings, "hint", finding->hint);
      g_variant_builder_close (&findings);
    }

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llmctl_json_add_string (&builder, "worst",
                          llmctl_doctor_level_to_string (llmctl_doctor_get_worst (doctor)));
  llmctl_json_add (&builder, "findings", g_variant_builder_end (&findings));
  llmctl_output_json (g_variant_builder_end (&builder));
}

/* --- the command --- */

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(LlmctlDoctor) doctor = llmctl_doctor_new ();
  static void (*const checks[]) (LlmctlDoctor *) = {
    llmctl_doctor_check_buses, start,
    llmctl_doctor_check_unit,  llmctl_doctor_check_service,
    llmctl_doctor_check_models, llmctl_doctor_check_use,
    llmctl_doctor_check_kernel, llmctl_doctor_check_disk,
    llmctl_doctor_check_user,
  };

  if (status != LLMCTL_EXIT_OK)
    return status;

  llmctl_wait_begin (TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS (checks); i++)
    {
      checks[i](doctor);
      /* what came in meanwhile: Ctrl-C, the time limit */
      while (g_main_context_iteration (NULL, FALSE))
        ;
      if (llmctl_wait_get_end () != LLMCTL_EXIT_OK)
        return llmctl_wait_get_end ();
    }

  if (llmctl_globals.is_json)
    print_json (doctor);
  else
    print_for_people (doctor);
  return llmctl_doctor_get_worst (doctor) == LLMCTL_DOCTOR_FAIL ? LLMCTL_EXIT_FAILED
                                                                : LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_doctor_command = {
  .name = "doctor",
  .summary = N_("Look for what is wrong, and say what to do"),
  .description = N_("Looks at the buses, the unit, the service and its model, memory, the kernel, "
                    "the disk, and who asks: ok, note, warn or fail, and what to do. Works when "
                    "the service does not, waits for it for seconds only, and changes nothing. "
                    "Ends with 1 when something does not work.\n"
                    "--json: one object: worst, and findings, an array of objects with check, "
                    "level (ok, note, warn, fail), text and, where there is something to do, "
                    "hint."),
  .options = options,
  .run = run,
};
