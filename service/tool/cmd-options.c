/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "common/llmsvc-option-table.h"

static const struct
{
  LlmsvcCall call;
  const char *method;
} calls[] = {
  { LLMSVC_CALL_CREATE_CONTEXT, "CreateContext" },
  { LLMSVC_CALL_OPEN_CONTEXT, "OpenContext" },
  { LLMSVC_CALL_LIST_CONTEXTS, "ListContexts" },
  { LLMSVC_CALL_COMPLETE, "Complete" },
  { LLMSVC_CALL_COUNT_TOKENS, "CountTokens" },
  { LLMSVC_CALL_PREWARM, "Prewarm" },
  { LLMSVC_CALL_REGISTER, "Register" },
  { LLMSVC_CALL_SELECT_MODEL, "SelectModel" },
  { LLMSVC_CALL_GET_STATISTICS, "GetStatistics" },
  { LLMSVC_CALL_SET_BUDGET, "SetBudget" },
  { LLMSVC_CALL_TRIM, "Trim" },
  { LLMSVC_CALL_LIST_APPS, "ListApps" },
  { LLMSVC_CALL_SET_QUOTA, "SetQuota" },
  { LLMSVC_CALL_GENERATE, "Generate" },
  { LLMSVC_CALL_ASK, "Ask" },
  { LLMSVC_CALL_GET_MESSAGES, "GetMessages" },
  { LLMSVC_CALL_GET_MEMORY, "GetMemory" },
  { LLMSVC_CALL_ROLLBACK, "Rollback" },
  { LLMSVC_CALL_APPEND, "Append" },
  { LLMSVC_CALL_FORK, "Fork" },
  { LLMSVC_CALL_CLOSE, "Close" },
  { LLMSVC_CALL_CANCEL, "Cancel" },
};

static gboolean
is_number (const char *type)
{
  return strchr ("udt", *type) != NULL || g_str_equal (type, "a{ud}");
}

/* "1 to 16777216 tokens", "0 or more bytes", "1 to 128 bytes", "“text”, “jsonl”": what a
 * value may be; NULL for whatever its type holds. */
static char *
describe_range (const LlmsvcOptionInfo *info)
{
  const char *unit = info->unit != NULL ? info->unit : is_number (info->type) ? "" : "bytes";
  const char *space = *unit != '\0' ? " " : "";

  if (info->choices != NULL)
    {
      g_autofree char *list = g_strjoinv ("”, “", (char **) info->choices);

      return g_strdup_printf ("“%s”", list);
    }
  if (info->max == 0 && info->min == 0)
    return NULL;
  /* the doubles that stand for the largest numbers of the types t and u */
  if (info->max >= (double) G_MAXUINT32 && !g_str_equal (info->type, "d"))
    return g_strdup_printf ("%.10g or more%s%s", info->min, space, unit);

  return g_strdup_printf ("%.10g to %.10g%s%s", info->min, info->max, space, unit);
}

static GStrv
list_methods (guint bits)
{
  g_autoptr(GStrvBuilder) methods = g_strv_builder_new ();

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    if ((bits & calls[i].call) != 0)
      g_strv_builder_add (methods, calls[i].method);

  return g_strv_builder_end (methods);
}

static void
add_strings (JsonBuilder       *builder,
             const char        *name,
             const char *const *strings)
{
  if (strings == NULL)
    return;

  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; strings[i] != NULL; i++)
    json_builder_add_string_value (builder, strings[i]);
  json_builder_end_array (builder);
}

static void
add_string (JsonBuilder *builder,
            const char  *name,
            const char  *string)
{
  if (string == NULL)
    return;

  json_builder_set_member_name (builder, name);
  json_builder_add_string_value (builder, string);
}

static void
add_option (JsonBuilder            *builder,
            const LlmsvcOptionInfo *info)
{
  g_auto(GStrv) methods = list_methods (info->calls);
  g_autofree char *range = describe_range (info);

  json_builder_begin_object (builder);
  add_string (builder, "key", info->key);
  add_string (builder, "type", info->type);
  add_string (builder, "range", range);
  if (info->max_entries > 0)
    {
      json_builder_set_member_name (builder, "max-entries");
      json_builder_add_int_value (builder, info->max_entries);
    }
  add_string (builder, "feature", info->feature);
  add_strings (builder, "choices", info->choices);
  add_strings (builder, "methods", (const char *const *) methods);
  add_string (builder, "summary", info->summary);
  json_builder_set_member_name (builder, "since");
  json_builder_add_int_value (builder, info->since);
  json_builder_end_object (builder);
}

static void
print_json (void)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = NULL;
  g_autofree char *json = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "version");
  json_builder_add_int_value (builder, TOOL_JSON_VERSION);
  json_builder_set_member_name (builder, "options");
  json_builder_begin_array (builder);
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    add_option (builder, llmsvc_option_get_info (i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);

  root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  json = json_generator_to_data (generator, NULL);
  puts (json);
}

static void
print_list (void)
{
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info (i);
      g_auto(GStrv) methods = list_methods (info->calls);
      g_autofree char *method_list = g_strjoinv (", ", methods);
      g_autofree char *range = describe_range (info);

      printf ("%s (%s)\n  %s\n", info->key, info->type, info->summary);
      if (range != NULL)
        g_print ("  %s\n", range);
      printf ("  %s\n\n", method_list);
    }
}

int
tool_options (int    argc,
              char **argv)
{
  gboolean as_json = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("As one JSON object"),
      NULL },
    G_OPTION_ENTRY_NULL
  };

  if (!tool_parse (&argc, &argv, entries, NULL,
                   N_("Every option of the service's calls: its type, what it may be, and the "
                      "methods that take it."),
                   0))
    return TOOL_USAGE;

  if (as_json)
    print_json ();
  else
    print_list ();
  return TOOL_OK;
}
