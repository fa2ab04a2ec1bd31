/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl model: the models there are, the one in use, and files that could become one. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/output/llmctl-progress.h"
#include "llmctl/output/llmctl-rows.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

#define TOOL "llmsvc-tool"

/* (transfer full): with its models read. */
static LlmsvcClient *
get_client (GError **error)
{
  g_autoptr(LlmsvcClient) client = llmctl_wait_client (error);

  if (client == NULL ||
      !llmsvc_client_refresh_sync (client, llmctl_wait_get_cancellable (), error))
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
  return g_variant_new_parsed ("{'id': <%s>, 'title': <%s>, 'active': <%b>, 'info': <%*>}",
                               llmsvc_model_get_id (model), llmsvc_model_get_title (model),
                               is_active (client, model), llmsvc_model_get_info (model));
}

/* (nullable): why a model, a{sv} with its `info`, can't be used. */
static const char *
find_reason (GVariant *model)
{
  g_autoptr(GVariant) info = g_variant_lookup_value (model, "info", G_VARIANT_TYPE_VARDICT);
  gboolean is_usable = TRUE;

  if (info == NULL || !g_variant_lookup (info, "usable", "b", &is_usable) || is_usable)
    return NULL;
  return llmctl_dict_get_string (info, "reason");
}

/* The service says where it has looked. */
static const char *
describe_absence (LlmsvcClient *client)
{
  const char *reason = llmsvc_client_get_availability_reason (client);

  return *reason != '\0' ? reason : _("There is no model installed");
}

/* --- list --- */

static char *
format_mark (GVariant   *model,
             const char *key)
{
  gboolean is_active = FALSE;

  if (find_reason (model) != NULL)
    return g_strdup ("!");
  return g_strdup (g_variant_lookup (model, key, "b", &is_active) && is_active ? "*" : "");
}

/* A list fits into 80 columns, as far as ids, which are copied, leave room for that; “llmctl model
 * show” has all of it. */
#define MAX_TITLE_CHARACTERS 24
#define MIN_TITLE_CHARACTERS 8
#define ID_AND_TITLE_CHARACTERS 45
static guint n_title_characters = MAX_TITLE_CHARACTERS;

static char *
format_short_title (GVariant   *model,
                    const char *key)
{
  const char *title = llmctl_dict_get_string (model, key);
  g_autofree char *start = NULL;

  if (g_utf8_strlen (title, -1) <= n_title_characters)
    return g_strdup (title);
  start = g_utf8_substring (title, 0, n_title_characters - 1);
  return g_strconcat (start, "…", NULL);
}

static const LlmctlColumn columns[] = {
  { "", "active", format_mark },
  { N_("Id"), "id", llmctl_format_text },
  { N_("Title"), "title", format_short_title },
  { N_("Weights"), "info/quantization", llmctl_format_text },
  { N_("Size"), "info/file-bytes", llmctl_format_size },
  { N_("Context"), "info/context-length", llmctl_format_number },
  { NULL }
};

static void
print_reasons (GVariant *models)
{
  GVariantIter iter;
  GVariant *model;

  g_variant_iter_init (&iter, models);
  while (g_variant_iter_loop (&iter, "@a{sv}", &model))
    {
      const char *reason = find_reason (model);
      g_autofree char *line = NULL;

      if (reason == NULL)
        continue;
      line = g_strdup_printf (_("%s can't be used: %s"), llmctl_dict_get_string (model, "id"),
                              reason);
      llmctl_output_printf (LLMCTL_STYLE_WARNING, "! ");
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", line);
    }
}

static LlmctlExit
run_list (int       argc,
          char    **argv,
          GError  **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("aa{sv}"));
  g_autoptr(LlmsvcClient) client = get_client (error);
  g_autoptr(GVariant) all = NULL;
  GListModel *models;

  if (client == NULL)
    return LLMCTL_EXIT_FAILED;

  models = llmsvc_client_get_models (client);
  for (guint i = 0; i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);
      glong n_id = g_utf8_strlen (llmsvc_model_get_id (model), -1);

      n_title_characters = MIN (n_title_characters,
                                (guint) MAX (ID_AND_TITLE_CHARACTERS - n_id, MIN_TITLE_CHARACTERS));
      g_variant_builder_add_value (&builder, describe (client, model));
    }
  all = g_variant_ref_sink (g_variant_builder_end (&builder));
  if (llmctl_rows_show (columns, all, "models", describe_absence (client)))
    print_reasons (all);
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand list_command = {
  .name = "list",
  .summary = N_("List the installed models"),
  .description = N_("The one with a star is in use; one with an exclamation mark can't be used, "
                    "for the reason below.\n"
                    "--json: one object: models, an array of objects: id, title, active, info."),
  .run = run_list,
};

/* --- show --- */

/* (transfer full): the id that people mean with @text, which may be a file's name or path. */
static char *
find_id (const char *text)
{
  g_autofree char *name = g_path_get_basename (text);
  char *end = NULL;

  if (!g_str_has_suffix (name, ".gguf"))
    return g_strdup (text);
  name[strlen (name) - strlen (".gguf")] = '\0';
  /* of several files the first one's name */
  end = g_strrstr (name, "-of-");
  if (end != NULL && end - name > 6 && strspn (end + 4, "0123456789") == strlen (end + 4)
      && end[-6] == '-' && strspn (end - 5, "0123456789") == 5)
    end[-6] = '\0';
  return g_strdup (name);
}

/* There is no model @id, which was given as @text; FALSE: nothing is known that would help. */
static gboolean
set_absent (LlmsvcClient  *client,
            const char    *text,
            const char    *id,
            GError       **error)
{
  GListModel *models = llmsvc_client_get_models (client);
  g_autoptr(GPtrArray) ids = g_ptr_array_new_null_terminated (8, g_free, TRUE);
  const char *suggestion;

  for (guint i = 0; i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);

      g_ptr_array_add (ids, g_strdup (llmsvc_model_get_id (model)));
    }
  suggestion = llmctl_suggest (id, (const char *const *) ids->pdata);
  if (suggestion != NULL)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                 _("There is no model “%s”; did you mean “%s”?"), id, suggestion);
  else if (strchr (text, '/') != NULL && g_file_test (text, G_FILE_TEST_EXISTS))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                 _("The service does not look where “%s” is; “llmctl doctor” says into which folder to "
                   "put it"), text);
  else if (strchr (text, '/') != NULL
           && (*text == '/' || *text == '.' || g_str_has_suffix (text, ".gguf")))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND, _("%s can't be read: %s"), text,
                 g_strerror (ENOENT));
  else
    return FALSE;
  return TRUE;
}

/* (transfer full) (nullable): the model that @text names, or the one in use for NULL. */
static LlmsvcModel *
find_model (LlmsvcClient  *client,
            const char    *text,
            GError       **error)
{
  GListModel *models = llmsvc_client_get_models (client);
  g_autofree char *id = text != NULL ? find_id (text) : NULL;

  for (guint i = 0; i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);

      if (id != NULL ? g_str_equal (llmsvc_model_get_id (model), id) : is_active (client, model))
        return g_steal_pointer (&model);
    }

  if (id != NULL && !set_absent (client, text, id, error))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                 _("There is no model “%s”; “llmctl model list” shows those there are"), id);
  else if (id == NULL)
    g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL, describe_absence (client));
  return NULL;
}

static char *
format_use (GVariant   *model,
            const char *key)
{
  gboolean is_active = FALSE;

  g_variant_lookup (model, key, "b", &is_active);
  return g_strdup (is_active ? _("yes") : _("no"));
}

static char *
format_usable (GVariant   *model,
               const char *key)
{
  const char *reason = find_reason (model);

  /* Translators: whether a model can be used: “no”, and why not. */
  return reason != NULL ? g_strdup_printf (_("no: %s"), reason) : g_strdup (_("yes"));
}

static char *
format_warnings (GVariant   *model,
                 const char *key)
{
  g_autoptr(GVariant) info = g_variant_lookup_value (model, key, G_VARIANT_TYPE_VARDICT);
  g_autofree const char **warnings = NULL;

  if (info == NULL || !g_variant_lookup (info, "warnings", "^a&s", &warnings)
      || warnings[0] == NULL)
    return NULL;
  return g_strjoinv ("\n                ", (char **) warnings);
}

static char *
format_tokens (GVariant   *model,
               const char *key)
{
  g_autofree char *number = llmctl_format_number (model, key);

  return g_strdup_printf (_("%u tokens"), (guint) g_ascii_strtoull (number, NULL, 10));
}

static char *
format_license (GVariant   *model,
                const char *key)
{
  g_autofree char *license = llmctl_format_text (model, key);

  return g_strdup (*license != '\0' ? license : _("the file does not say"));
}

/* Which model guesses for it, and how many guesses were right so far. */
static char *
format_draft (GVariant   *model,
              const char *key)
{
  g_autoptr(GVariant) info = g_variant_lookup_value (model, key, G_VARIANT_TYPE_VARDICT);
  guint64 n_drafted = llmctl_dict_get_number (info, "drafted-tokens");
  guint64 n_accepted = llmctl_dict_get_number (info, "accepted-tokens");
  const char *draft = llmctl_dict_get_string (info, "draft");
  const char *reason = llmctl_dict_get_string (info, "draft-reason");

  if (*reason != '\0')
    /* Translators: the draft model, and why there is none. */
    return g_strdup_printf (_("%s, which can't guess: %s"), draft, reason);
  if (*draft == '\0')
    draft = _("none");
  if (n_drafted == 0)
    return g_strdup (draft);
  /* Translators: the draft model, and how many of its guesses were right, of how many. */
  return g_strdup_printf (_("%s; %ju of %ju guesses were right"), draft, n_accepted, n_drafted);
}

/* Translators: Why the prompts of a model are not computed with 8 bits. */
static const struct
{
  const char *reason, *text;
} exact_reasons[] = {
  { "asked-for", N_("exact, as the configuration says") },
  { "not-calibrated", N_("exact; llmsvc-tool calibrate -m FILE makes long ones faster") },
  { "not-prepared", N_("exact; the weights for 8 bits are not prepared") },
  { "loss", N_("exact, as 8 bits lose too much") },
  { "slower", N_("exact, as 8 bits are not faster on this machine") },
};

static char *
format_prefill (GVariant   *model,
                const char *key)
{
  g_autoptr(GVariant) info = g_variant_lookup_value (model, key, G_VARIANT_TYPE_VARDICT);
  const char *way = llmctl_dict_get_string (info, "prefill");
  const char *reason = llmctl_dict_get_string (info, "prefill-reason");
  double growth = 0, divergence = 0;

  if (*way == '\0')
    return NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (exact_reasons); i++)
    if (g_str_equal (reason, exact_reasons[i].reason))
      return g_strdup (_(exact_reasons[i].text));
  if (*reason != '\0')
    return g_strdup (reason);
  g_variant_lookup (info, "prefill-growth", "d", &growth);
  g_variant_lookup (info, "prefill-divergence", "d", &divergence);
  /* Translators: How long prompts are computed, and what that loses. */
  return g_strdup_printf (_("long ones with 8 bits: perplexity %+.2f %%, divergence %.4f"),
                          100 * growth, divergence);
}

static const LlmctlColumn lines[] = {
  { N_("Id"), "id", llmctl_format_text },
  { N_("In use"), "active", format_use },
  { N_("Usable"), "info", format_usable },
  { N_("Warning"), "info", format_warnings },
  { N_("Architecture"), "info/architecture", llmctl_format_text },
  { N_("Weights"), "info/quantization", llmctl_format_text },
  { N_("Parameters"), "info/parameters", llmctl_format_count },
  { N_("Size"), "info/file-bytes", llmctl_format_size },
  { N_("Least budget"), "info/least-budget", llmctl_format_size },
  { N_("Context"), "info/context-length", format_tokens },
  { N_("Draft"), "info", format_draft },
  { N_("Prompts"), "info", format_prefill },
  { N_("License"), "info/license", format_license },
};

static char *
format_share (GVariant   *level,
              const char *key)
{
  double share = 0;

  g_variant_lookup (level, key, "d", &share);
  return g_strdup_printf ("%.1f %%", share);
}

/* Of what was measured, which a small number may be. */
static char *
format_measured (GVariant   *level,
                 const char *key)
{
  g_autoptr(GVariant) value = g_variant_lookup_value (level, key, G_VARIANT_TYPE_DOUBLE);

  if (value == NULL)
    return g_strdup ("–");
  return g_strdup_printf (g_str_equal (key, "divergence") ? "%.4f" : "%.1f %%",
                          g_variant_get_double (value));
}

static const LlmctlColumn level_columns[] = {
  { N_("Level"), "level", llmctl_format_number },
  { N_("Operations"), "operations", format_share, 3 },
  { N_("Bytes"), "bytes", format_share, 4 },
  { N_("Quality"), "quality", format_measured },
  { N_("Divergence"), "divergence", format_measured, 1 },
  { N_("Valid calls"), "valid-calls", format_measured, 2 },
  { N_("Exact calls"), "exact-calls", format_measured, 5 },
  { NULL }
};

static char *
format_growth (GVariant   *sparsity,
               const char *key)
{
  double growth = 0;

  g_variant_lookup (sparsity, key, "d", &growth);
  return g_strdup_printf ("%+.1f %%", growth);
}

static char *
format_active (GVariant   *sparsity,
               const char *key)
{
  guint percent = 0;

  g_variant_lookup (sparsity, key, "u", &percent);
  return g_strdup_printf ("%u %%", percent);
}

static const LlmctlColumn sparsity_columns[] = {
  { N_("Left out"), "active", format_active },
  { N_("Perplexity"), "growth", format_growth },
  { N_("Quality"), "quality", format_measured },
  { N_("Valid calls"), "valid-calls", format_measured },
  { N_("Exact calls"), "exact-calls", format_measured },
  { N_("Attention"), "attention", format_share, 2 },
  { N_("Output"), "attention-output", format_share, 3 },
  { N_("Feed-forward"), "ffn", format_share, 1 },
  { N_("Down"), "ffn-down", format_share, 4 },
  { NULL }
};

/* One of Info's tables, where it has lines. */
static void
print_table (GVariant           *model,
             const char         *key,
             const char         *title,
             const LlmctlColumn *of_table)
{
  g_autoptr(GVariant) info = g_variant_lookup_value (model, "info", G_VARIANT_TYPE_VARDICT);
  g_autoptr(GVariant) lines_of =
    info != NULL ? g_variant_lookup_value (info, key, G_VARIANT_TYPE ("aa{sv}")) : NULL;

  if (lines_of == NULL || g_variant_n_children (lines_of) == 0)
    return;
  llmctl_output_printf (LLMCTL_STYLE_BOLD, "\n%s\n", title);
  llmctl_rows_print (of_table, lines_of);
}

static void
print_model (GVariant *model)
{
  llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s\n", llmctl_dict_get_string (model, "title"));
  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autofree char *text = lines[i].format (model, lines[i].key);
      int n_spaces;

      if (text == NULL)
        continue;
      n_spaces = MAX (14 - (int) llmctl_output_get_width (_(lines[i].title)), 0);

      llmctl_output_printf (LLMCTL_STYLE_DIM, "  %s%*s", _(lines[i].title), n_spaces, "");
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", text);
    }
  print_table (model, "levels", _("What its sub-models have of it"), level_columns);
  print_table (model, "sparsities", _("What answers can leave out of it (“active”), and what is kept"),
               sparsity_columns);
}

static LlmctlExit
run_show (int       argc,
          char    **argv,
          GError  **error)
{
  g_autoptr(LlmsvcClient) client = get_client (error);
  g_autoptr(LlmsvcModel) model = client != NULL ? find_model (client, argv[1], error) : NULL;
  g_autoptr(GVariant) about = NULL;

  if (model == NULL)
    return LLMCTL_EXIT_FAILED;

  about = g_variant_ref_sink (describe (client, model));
  if (llmctl_globals.is_json)
    llmctl_output_json (about);
  else
    print_model (about);
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand show_command = {
  .name = "show",
  .parameters = N_("[ID]"),
  .summary = N_("Show a model, or the one in use"),
  .description = N_("--json: one object: id, title, active, info."),
  .n_most = 1,
  .run = run_show,
  .names = LLMCTL_NAMES_MODELS,
  .n_names = 1,
};

/* --- use --- */

static gboolean hides_progress;

static const GOptionEntry use_options[] = {
  { "no-progress", 0, 0, G_OPTION_ARG_NONE, &hides_progress,
    N_("Draw no line of progress on the terminal"), NULL },
  G_OPTION_ENTRY_NULL
};

static LlmctlExit
run_use (int       argc,
         char    **argv,
         GError  **error)
{
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(GError) local_error = NULL;
  g_autofree char *id = NULL;
  g_autofree char *told = NULL;

  if (!g_utf8_validate (argv[1], -1, NULL))
    return llmctl_complain_usage (_("The id of a model is UTF-8 text"));

  client = llmctl_wait_client (error);
  llmctl_progress_begin (!hides_progress);
  id = find_id (argv[1]);
  if (client != NULL)
    told = llmctl_progress_select_model (client, id, &local_error);
  /* the service says where it has looked */
  if (local_error != NULL
      && !(g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND)
           && llmsvc_client_refresh_sync (client, llmctl_wait_get_cancellable (), NULL)
           && set_absent (client, argv[1], id, error)))
    g_propagate_error (error, g_steal_pointer (&local_error));
  if (told != NULL && llmctl_globals.is_json)
    llmctl_output_json (g_variant_new_parsed ("{'id': <%s>}", id));
  else if (told != NULL)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", told);
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand use_command = {
  .name = "use",
  .parameters = N_("ID"),
  .summary = N_("Change the model, for everyone"),
  .description = N_("May ask for permission.\n"
                    "--json: one object: id."),
  .missing = N_("Missing argument ID; “llmctl model list” shows those there are"),
  .n_most = 1,
  .options = use_options,
  .is_admin = TRUE,
  .run = run_use,
  .names = LLMCTL_NAMES_MODELS,
  .n_names = 1,
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
run_check (int       argc,
           char    **argv,
           GError  **error)
{
  g_autofree char *tool = find_tool ();
  g_autoptr(GSubprocess) process = NULL;
  g_autofree char *output = NULL;

  if (tool == NULL)
    {
      llmctl_complain (_("“%s” is not installed; it knows the files of models"), TOOL);
      return LLMCTL_EXIT_NOT_AVAILABLE;
    }

  llmctl_wait_begin (TRUE);
  process = g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE, error, tool, "inspect",
                              llmctl_globals.is_json ? "--json" : "--summary", "--", argv[1], NULL);
  if (process == NULL)
    return LLMCTL_EXIT_FAILED;
  if (!g_subprocess_communicate_utf8 (process, NULL, llmctl_wait_get_cancellable (), &output, NULL,
                                      error))
    {
      g_subprocess_force_exit (process);
      return LLMCTL_EXIT_FAILED;
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
  .missing = N_("Missing argument FILE"),
  .n_most = 1,
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
