/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: what is well, what is not, and what to do about it. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>

#include "llmctl/doctor/llmctl-doctor.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

#define LEVEL_COLUMNS 6
#define CHECK_COLUMNS 14

static gboolean shall_start;

static const GOptionEntry options[] = {
  { "start", 0, 0, G_OPTION_ARG_NONE, &shall_start,
    N_("Start the service when it does not run, to see whether that works"), NULL },
  G_OPTION_ENTRY_NULL
};

/* --- output --- */

/* By LlmctlDoctorLevel: on a terminal, and when it is the worst. */
static const struct
{
  LlmctlStyle style;
  const char *sum;
} levels[] = {
  [LLMCTL_DOCTOR_OK] = { LLMCTL_STYLE_GOOD, N_("All is well.") },
  [LLMCTL_DOCTOR_NOTE] = { LLMCTL_STYLE_DIM, N_("All is well.") },
  [LLMCTL_DOCTOR_WARN] = { LLMCTL_STYLE_WARNING, N_("It works, but see the warnings.") },
  [LLMCTL_DOCTOR_FAIL] = { LLMCTL_STYLE_BAD, N_("Something does not work.") },
};

static void
print_indented (const char *before,
                const char *text)
{
  g_autofree char *line = g_strconcat (before, text, NULL);
  g_autofree char *wrapped = llmctl_wrap (line, LEVEL_COLUMNS + CHECK_COLUMNS);

  /* the first line goes on where the columns before it have ended */
  llmctl_output_text (LLMCTL_STYLE_PLAIN, g_strchug (wrapped));
}

/* What to do about it all: the hints again, worst first, where they are seen last. */
static void
print_next (LlmctlDoctor *doctor)
{
  guint n = 0;

  if (doctor->worst < LLMCTL_DOCTOR_WARN)
    {
      llmctl_output_text (LLMCTL_STYLE_PLAIN,
                          _("Next: llmctl ask \"PROMPT\", or llmctl chat\n"));
      return;
    }
  llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s\n", _("What to do:"));
  for (guint level = LLMCTL_DOCTOR_FAIL; level >= LLMCTL_DOCTOR_WARN; level--)
    for (guint i = 0; i < doctor->findings->len; i++)
      {
        GVariant *finding = g_ptr_array_index (doctor->findings, i);
        const char *hint = llmctl_dict_get_string (finding, "hint");
        g_autofree char *line = NULL;
        g_autofree char *wrapped = NULL;

        if (*hint == '\0'
            || !g_str_equal (llmctl_dict_get_string (finding, "level"), llmctl_doctor_levels[level]))
          continue;
        line = g_strdup_printf ("%u. %s: %s", ++n, llmctl_dict_get_string (finding, "check"), hint);
        wrapped = llmctl_wrap (line, 2);
        llmctl_output_text (LLMCTL_STYLE_PLAIN, wrapped);
      }
}

static void
print_for_people (LlmctlDoctor *doctor)
{
  LlmctlDoctorLevel worst = doctor->worst == LLMCTL_DOCTOR_NOTE ? LLMCTL_DOCTOR_OK : doctor->worst;

  for (guint i = 0; i < doctor->findings->len; i++)
    {
      GVariant *finding = g_ptr_array_index (doctor->findings, i);
      const char *level = llmctl_dict_get_string (finding, "level");
      const char *hint = llmctl_dict_get_string (finding, "hint");
      guint j = 0;

      while (!g_str_equal (llmctl_doctor_levels[j], level))
        j++;
      llmctl_output_column (levels[j].style, LEVEL_COLUMNS, level);
      llmctl_output_column (LLMCTL_STYLE_BOLD, CHECK_COLUMNS,
                            llmctl_dict_get_string (finding, "check"));
      print_indented ("", llmctl_dict_get_string (finding, "text"));
      if (*hint == '\0')
        continue;
      llmctl_output_column (LLMCTL_STYLE_PLAIN, LEVEL_COLUMNS + CHECK_COLUMNS, "");
      print_indented (g_get_charset (NULL) ? "→ " : "-> ", hint);
    }
  llmctl_output_printf (levels[worst].style, "%s\n", _(levels[worst].sum));
  print_next (doctor);
}

/* --- the command --- */

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_auto(LlmctlDoctor) doctor = { NULL };
  static const LlmctlCheck *const tables[] = {
    llmctl_doctor_bus_checks, llmctl_doctor_service_checks, llmctl_doctor_machine_checks,
    llmctl_doctor_http_checks,
  };

  llmctl_wait_begin (TRUE);
  llmctl_doctor_init (&doctor);
  doctor.shall_start = shall_start;
  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    for (const LlmctlCheck *check = tables[i]; check->name != NULL; check++)
      {
        doctor.check = check->name;
        check->run (&doctor);
        /* what came in meanwhile: Ctrl-C, the time limit */
        while (g_main_context_iteration (NULL, FALSE))
          ;
        if (llmctl_wait_get_end () != LLMCTL_EXIT_OK)
          return llmctl_wait_get_end ();
      }

  if (llmctl_globals.is_json)
    llmctl_output_json (llmctl_json_object (
        "worst:s", llmctl_doctor_levels[doctor.worst], "findings:*",
        g_variant_new_array (G_VARIANT_TYPE_VARDICT, (GVariant *const *) doctor.findings->pdata,
                             doctor.findings->len), NULL));
  else
    print_for_people (&doctor);
  return doctor.worst == LLMCTL_DOCTOR_FAIL ? LLMCTL_EXIT_FAILED : LLMCTL_EXIT_OK;
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
  .is_long = TRUE,
  .run = run,
};
