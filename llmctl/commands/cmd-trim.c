/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl trim: makes the service give memory back. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>

#include "llmctl/llmctl-options.h"
#include "llmctl/bus/llmctl-service.h"

static char *target_bytes;

static const GOptionEntry options[] = {
  { "target-bytes", 'b', 0, G_OPTION_ARG_STRING, &target_bytes,
    N_("Stop when so much was given back, such as 64M"), N_("N") },
  G_OPTION_ENTRY_NULL
};

static const struct
{
  const char *name;
  const char *help;
} levels[] = {
  { "low", N_("what costs nothing") },
  { "medium", N_("and what is cheap to bring back") },
  { "critical", N_("everything that can be given back") },
};

static void
print_for_people (GVariant *results)
{
  g_autofree char *freed = llmctl_format_bytes (llmctl_dict_get_number (results, "freed"));
  g_autofree const char **steps = NULL;
  double duration_ms = 0;

  (void) g_variant_lookup (results, "duration-ms", "d", &duration_ms);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, _("Given back: %s in %.0f ms\n"), freed, duration_ms);
  if (g_variant_lookup (results, "steps", "^a&s", &steps))
    for (gsize i = 0; steps[i] != NULL; i++)
      llmctl_output_printf (LLMCTL_STYLE_DIM, "  %s\n", steps[i]);
}

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_auto(GVariantDict) call_options = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) results = NULL;
  guint64 bytes;

  if (target_bytes != NULL)
    {
      if (!llmctl_parse_bytes (target_bytes, &bytes))
        return llmctl_complain_usage (_("“%s” is no number of bytes, such as 1048576 or 64M"),
                                      target_bytes);
      g_variant_dict_insert (&call_options, "target-bytes", "t", bytes);
    }

  results = llmctl_call (NULL, LLMCTL_MEMORY_INTERFACE, "Trim",
                         g_variant_new ("(s@a{sv})", argv[1], g_variant_dict_end (&call_options)),
                         "a{sv}", error);
  if (results != NULL && llmctl_globals.is_json)
    llmctl_output_json (results);
  else if (results != NULL)
    print_for_people (results);
  return LLMCTL_EXIT_OK;
}

static void
complete (LlmctlCompletion  *completion,
          int                argc,
          char             **argv)
{
  if (argc == 1)
    for (gsize i = 0; i < G_N_ELEMENTS (levels); i++)
      llmctl_completion_offer (completion, levels[i].name, _(levels[i].help));
}

const LlmctlCommand llmctl_trim_command = {
  .name = "trim",
  .parameters = N_("LEVEL"),
  .summary = N_("Make the service give memory back"),
  .description = N_("Acts once as if memory were pressed that hard: low, medium or critical. Does "
                    "not start the service.\n"
                    "--json: one object: freed (bytes), duration-ms, steps."),
  .options = options,
  .missing = N_("Missing argument LEVEL: low, medium or critical"),
  .n_most = 1,
  .must_not_start = TRUE,
  .is_admin = TRUE,
  .run = run,
  .complete = complete,
};
