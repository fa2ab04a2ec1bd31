/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl model: the models there are, the one in use, and files that could become one. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

#define TOOL "llmsvc-tool"

/* (transfer full): with its models read. */
static LlmsvcClient *
get_client (GError **error)
{
  g_autoptr(LlmsvcClient) client = llmctl_wait_client (error);
  g_autoptr(GAsyncResult) result = NULL;

  if (client == NULL)
    return NULL;

  llmsvc_client_refresh_async (client, llmctl_wait_get_cancellable (), llmctl_wait_take, &result);
  if (!llmsvc_client_refresh_finish (client, llmctl_wait (&result), error))
    return NULL;
  return g_steal_pointer (&client);
}

static gboolean
is_active (LlmsvcClient *client,
           LlmsvcModel  *model)
{
  LlmsvcModel *active = llmsvc_client_get_active_model (client);

  return active != NULL &&
         g_str_equal (llmsvc_model_get_id (active), llmsvc_model_get_id (model));
}

/* (transfer floating): what JSON has of one model. */
static GVariant *
describe (LlmsvcClient *client,
          LlmsvcModel  *model)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "id",
                         g_variant_new_string (llmsvc_model_get_id (model)));
  g_variant_builder_add (&builder, "{sv}", "title",
                         g_variant_new_string (llmsvc_model_get_title (model)));
  g_variant_builder_add (&builder, "{sv}", "active",
                         g_variant_new_boolean (is_active (client, model)));
  g_variant_builder_add (&builder, "{sv}", "info", llmsvc_model_get_info (model));

  return g_variant_builder_end (&builder);
}

/* The service says where it has looked. */
static const char *
describe_absence (LlmsvcClient *client)
{
  const char *reason = llmsvc_client_get_availability_reason (client);

  return *reason != '\0' ? reason : _("There is no model installed");
}

/* "8.1 M": a rough number is what people compare. */
static char *
format_count (guint64 n)
{
  static const char *const units[] = { "", " k", " M", " G", " T" };
  double scaled = (double) n;
  guint unit = 0;

  while (scaled >= 1000 && unit < G_N_ELEMENTS (units) - 1)
    {
      scaled /= 1000;
      unit++;
    }

  return g_strdup_printf (unit > 0 ? "%.1f%s" : "%.0f%s", scaled, units[unit]);
}

/* --- list --- */

static void
print_list (LlmsvcClient *client,
            GListModel   *models)
{
  LlmctlTable *table = llmctl_table_new ((const char *const[]) {
    "", _("Id"), _("Title"), _("Architecture"), _("Weights"), _("Parameters"), _("Size"),
    _("Context"), NULL });
  guint n = g_list_model_get_n_items (models);

  if (n == 0)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", describe_absence (client));
  for (guint i = 0; i < n; i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);
      g_autofree char *parameters = format_count (llmsvc_model_get_n_parameters (model));
      g_autofree char *size = llmctl_format_bytes (llmsvc_model_get_file_bytes (model));
      g_autofree char *context = g_strdup_printf ("%u", llmsvc_model_get_context_length (model));

      llmctl_table_add (table, (const char *const[]) {
        is_active (client, model) ? "*" : "", llmsvc_model_get_id (model),
        llmsvc_model_get_title (model), llmsvc_model_get_architecture (model),
        llmsvc_model_get_quantization (model), parameters, size, context, NULL });
    }
  llmctl_table_print (table);
}

static void
print_list_json (LlmsvcClient *client,
                 GListModel   *models)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);

      g_variant_builder_add_value (&builder, describe (client, model));
    }
  llmctl_output_json_member ("models", g_variant_builder_end (&builder));
}

static LlmctlExit
run_list (int    argc,
          char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  client = get_client (&error);
  if (client == NULL)
    return llmctl_wait_fail (error);

  if (llmctl_globals.is_json)
    print_list_json (client, llmsvc_client_get_models (client));
  else
    print_list (client, llmsvc_client_get_models (client));
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand list_command = {
  .name = "list",
  .summary = N_("List the installed models"),
  .description = N_("The one with a star is in use.\n"
                    "--json: one object: models, an array of objects: id, title, active, info."),
  .run = run_list,
};

/* --- show --- */

/* (transfer full) (nullable): the model called @id, or the one in use for NULL. */
static LlmsvcModel *
find_model (LlmsvcClient  *client,
            const char    *id,
            GError       **error)
{
  GListModel *models = llmsvc_client_get_models (client);
  LlmsvcModel *active = llmsvc_client_get_active_model (client);

  if (id == NULL && active != NULL)
    return g_object_ref (active);
  for (guint i = 0; id != NULL && i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);

      if (g_str_equal (llmsvc_model_get_id (model), id))
        return g_steal_pointer (&model);
    }

  if (id != NULL)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                 _("There is no model “%s”; “llmctl model list” shows those there are"), id);
  else
    g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL, describe_absence (client));
  return NULL;
}

static void
print_model (LlmsvcClient *client,
             LlmsvcModel  *model)
{
  g_autofree char *parameters = format_count (llmsvc_model_get_n_parameters (model));
  g_autofree char *size = llmctl_format_bytes (llmsvc_model_get_file_bytes (model));
  g_autofree char *context = g_strdup_printf (_("%u tokens"),
                                              llmsvc_model_get_context_length (model));
  const char *license = llmsvc_model_get_license (model);
  const struct
  {
    const char *label;
    const char *text;
  } lines[] = {
    { _("Id"), llmsvc_model_get_id (model) },
    { _("In use"), is_active (client, model) ? _("yes") : _("no") },
    { _("Architecture"), llmsvc_model_get_architecture (model) },
    { _("Weights"), llmsvc_model_get_quantization (model) },
    { _("Parameters"), parameters },
    { _("Size"), size },
    { _("Context"), context },
    { _("License"), *license != '\0' ? license : _("the file does not say") },
  };

  llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s\n", llmsvc_model_get_title (model));
  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      llmctl_output_printf (LLMCTL_STYLE_DIM, "  %s", lines[i].label);
      for (guint column = llmctl_output_get_width (lines[i].label); column < 14; column++)
        llmctl_output_text (LLMCTL_STYLE_PLAIN, " ");
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", lines[i].text);
    }
}

static LlmctlExit
run_show (int    argc,
          char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 1);
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(LlmsvcModel) model = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  client = get_client (&error);
  if (client != NULL)
    model = find_model (client, argc > 1 ? argv[1] : NULL, &error);
  if (model == NULL)
    return llmctl_wait_fail (error);

  if (llmctl_globals.is_json)
    llmctl_output_json (describe (client, model));
  else
    print_model (client, model);
  return LLMCTL_EXIT_OK;
}

/* Over plain D-Bus, which does not start the service for a completion. */
static void
complete_ids (LlmctlCompletion  *completion,
              int                argc,
              char             **argv)
{
  g_autoptr(GDBusConnection) bus = argc == 1 ? llmctl_connect (NULL) : NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) objects = NULL;
  GVariantIter iter;
  GVariant *interfaces;

  if (bus != NULL)
    reply = llmctl_call (bus, LLMCTL_SERVICE_PATH "/models", "org.freedesktop.DBus.ObjectManager",
                         "GetManagedObjects", NULL, "(a{oa{sa{sv}}})", NULL);
  if (reply == NULL)
    return;

  objects = g_variant_get_child_value (reply, 0);
  g_variant_iter_init (&iter, objects);
  while (g_variant_iter_loop (&iter, "{o@a{sa{sv}}}", NULL, &interfaces))
    {
      g_autoptr(GVariant) model = g_variant_lookup_value (interfaces, LLMCTL_MODEL_INTERFACE,
                                                          G_VARIANT_TYPE_VARDICT);

      if (model != NULL)
        llmctl_completion_offer (completion, llmctl_dict_get_string (model, "Id"),
                                 llmctl_dict_get_string (model, "Title"));
    }
}

static const LlmctlCommand show_command = {
  .name = "show",
  .parameters = N_("[ID]"),
  .summary = N_("Show a model, or the one in use"),
  .description = N_("--json: one object: id, title, active, info."),
  .run = run_show,
  .complete = complete_ids,
};

/* --- use --- */

static LlmctlExit
run_use (int    argc,
         char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 1);
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  if (argc < 2)
    return llmctl_complain_usage (_("There is no ID; “llmctl model list” shows those there are"));
  if (!g_utf8_validate (argv[1], -1, NULL))
    return llmctl_complain_usage (_("The id of a model is UTF-8 text"));

  client = llmctl_wait_client (&error);
  if (client == NULL)
    return llmctl_wait_fail (error);
  llmsvc_client_select_model_async (client, argv[1], llmctl_wait_get_cancellable (),
                                    llmctl_wait_take, &result);
  if (!llmsvc_client_select_model_finish (client, llmctl_wait (&result), &error))
    return llmctl_wait_fail (error);

  if (llmctl_globals.is_json)
    llmctl_output_json (g_variant_new_parsed ("{'id': <%s>}", argv[1]));
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand use_command = {
  .name = "use",
  .parameters = N_("ID"),
  .summary = N_("Change the model, for everyone"),
  .description = N_("May ask for permission.\n"
                    "--json: one object: id."),
  .run = run_use,
  .complete = complete_ids,
};

/* --- check --- */

/* (transfer full) (nullable): beside this program, else on the way of the shell. */
static char *
find_tool (void)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *folder = self != NULL ? g_path_get_dirname (self) : NULL;
  g_autofree char *beside = folder != NULL ? g_build_filename (folder, TOOL, NULL) : NULL;

  if (beside != NULL && g_file_test (beside, G_FILE_TEST_IS_EXECUTABLE))
    return g_steal_pointer (&beside);

  return g_find_program_in_path (TOOL);
}

/* Its messages go where ours go; its exit statuses mean the same. */
static LlmctlExit
run_check (int    argc,
           char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 1);
  g_autofree char *tool = NULL;
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autofree char *output = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  if (argc < 2)
    return llmctl_complain_usage (_("There is no FILE"));
  tool = find_tool ();
  if (tool == NULL)
    {
      llmctl_complain (_("“%s” is not installed; it knows the files of models"), TOOL);
      return LLMCTL_EXIT_NOT_AVAILABLE;
    }

  llmctl_wait_begin (TRUE);
  process = g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error, tool, "inspect",
                              llmctl_globals.is_json ? "--json" : "--summary", "--", argv[1], NULL);
  if (process == NULL)
    return llmctl_fail (error);
  g_subprocess_communicate_utf8_async (process, NULL, llmctl_wait_get_cancellable (),
                                       llmctl_wait_take, &result);
  if (!g_subprocess_communicate_utf8_finish (process, llmctl_wait (&result), &output, NULL, &error))
    {
      g_subprocess_force_exit (process);
      return llmctl_wait_fail (error);
    }

  llmctl_output_data (output);
  return g_subprocess_get_if_exited (process)
             ? (LlmctlExit) g_subprocess_get_exit_status (process)
             : LLMCTL_EXIT_FAILED;
}

static const LlmctlCommand check_command = {
  .name = "check",
  .parameters = N_("FILE"),
  .summary = N_("Tell whether a GGUF file could be used"),
  .description = N_("And its architecture, quantization, template, and size beside this machine's "
                    "memory. Asks llmsvc-tool, not the service; ends with 1 when the file can't "
                    "be used.\n"
                    "--json: one object: file, usable, reason, title, architecture, quantization, "
                    "license, template, identity, parameters, context-length, file-bytes, "
                    "weight-bytes, token-bytes, available-bytes."),
  .run = run_check,
};

static const LlmctlCommand *const commands[] = {
  &list_command, &show_command, &use_command, &check_command, NULL
};

const LlmctlCommand llmctl_model_command = {
  .name = "model",
  .summary = N_("List, show, change and check models"),
  .commands = commands,
};
