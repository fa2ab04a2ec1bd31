/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

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

/* "1 to 16777216 tokens", "0 or more bytes", "1 to 128 bytes", "“text”, “jsonl”": what a
 * value may be; NULL for whatever its type holds. */
static char *
describe_range (const LlmsvcOptionInfo *info)
{
  gboolean is_number = strchr ("udt", *info->type) != NULL || g_str_equal (info->type, "a{ud}");
  const char *unit = info->unit != NULL ? info->unit : is_number ? "" : "bytes";
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

/* Adds a member unless there is nothing to say. */
static void
add_member (GVariantBuilder *builder,
            const char      *name,
            GVariant        *value)
{
  if (value != NULL)
    g_variant_builder_add (builder, "{sv}", name, value);
}

static GVariant *
new_string (const char *string)
{
  return string != NULL ? g_variant_new_string (string) : NULL;
}

static GVariant *
describe_option (const LlmsvcOptionInfo *info)
{
  g_auto(GStrv) methods = list_methods (info->calls);
  g_autofree char *range = describe_range (info);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  add_member (&builder, "key", new_string (info->key));
  add_member (&builder, "type", new_string (info->type));
  add_member (&builder, "range", new_string (range));
  if (info->max_entries > 0)
    add_member (&builder, "max-entries", g_variant_new_uint32 (info->max_entries));
  add_member (&builder, "feature", new_string (info->feature));
  if (info->choices != NULL)
    add_member (&builder, "choices", g_variant_new_strv (info->choices, -1));
  add_member (&builder, "methods", g_variant_new_strv ((const char *const *) methods, -1));
  add_member (&builder, "summary", new_string (info->summary));
  add_member (&builder, "since", g_variant_new_uint32 (info->since));
  return g_variant_builder_end (&builder);
}

static void
print_json (void)
{
  GVariantBuilder options;

  g_variant_builder_init (&options, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    g_variant_builder_add_value (&options, describe_option (llmsvc_option_get_info (i)));
  tool_print_json (g_variant_new_parsed ("{'version': <%u>, 'options': <%aa{sv}>}",
                                         (guint) TOOL_JSON_VERSION, &options), TRUE);
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

static gboolean as_json;

static const GOptionEntry entries[] = {
  { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("As one JSON object"), NULL },
  G_OPTION_ENTRY_NULL
};

static int
run (char **arguments)
{
  if (as_json)
    print_json ();
  else
    print_list ();
  return TOOL_OK;
}

const ToolCommand tool_options = {
  "options", N_("List the options of the service's calls"), NULL,
  N_("Every option of the service's calls: its type, what it may be, and the "
     "methods that take it."), 0, entries, run,
};
