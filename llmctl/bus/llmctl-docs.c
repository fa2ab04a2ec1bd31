/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-object.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_NAME      "org.llm.Service.xml"
#define MAX_FILE_BYTES (1024 * 1024)
#define MAX_KEYS       256
/* "As for This()", which may be as for that. */
#define MAX_REFERENCES 4

static LlmctlNode *docs;        /* (owned): for the process */
static GHashTable *docs_help;   /* (element-type utf8 GString) (owned) */

/* --- comments --- */

static char *
make_key (const char *interface,
          const char *member,
          const char *argument)
{
  return g_strconcat (interface, "\n", member != NULL ? member : "", "\n", argument, NULL);
}

/* A member of @interface has no dot in its name. */
static GString *
begin_text (const char *interface,
            const char *name,
            const char *argument)
{
  GString *text = g_string_new (NULL);
  gboolean is_interface = strchr (name, '.') != NULL;

  g_hash_table_insert (docs_help,
                       make_key (is_interface ? name : interface, is_interface ? NULL : name,
                                 argument),
                       text);
  return text;
}

/* Appends a line to a paragraph, without the marks before names that only a
 * generator of pages has a use for. */
static void
append_line (GString    *out,
             const char *line)
{
  gboolean is_code = FALSE;
  char before = ' ';

  if (out->len > 0 && out->str[out->len - 1] != '\n')
    g_string_append_c (out, ' ');
  for (const char *p = line; *p != '\0'; before = *p++)
    {
      if (*p == '`')
        is_code = !is_code;
      if ((*p != '#' && *p != '@') || is_code || g_ascii_isalnum (before) ||
          !g_ascii_isalpha (p[1]))
        g_string_append_c (out, *p);
    }
}

/* (nullable) (transfer full): the name at the begin of "name: text"; moves @line behind it. */
static char *
take_name (const char **line)
{
  const char *start = *line;
  gsize n = strspn (start, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_.");

  if (start[n] != ':')
    return NULL;
  *line = start + n + 1 + strspn (start + n + 1, " ");
  return g_strndup (start, n);
}

/* "name: text", "@argument: text" in lines and, after an empty line, paragraphs. What begins
 * otherwise is no documentation. */
static void
read_comment (const char *interface,
              const char *text)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  g_autofree char *name = NULL;
  GString *body = NULL;
  GString *out = NULL;

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      const char *line = g_strstrip (lines[i]);
      g_autofree char *argument = NULL;

      if (name == NULL && *line != '\0')
        {
          name = take_name (&line);
          if (name == NULL || *name == '\0')
            return;
          out = body = begin_text (interface, name, NULL);
        }
      else if (name != NULL && *line == '@' && body->len == 0)
        {
          line++;
          argument = take_name (&line);
          if (argument != NULL)
            out = begin_text (interface, name, argument);
          else
            line--;
        }

      if (*line != '\0')
        {
          append_line (out, line);
        }
      else if (argument == NULL)
        {
          out = body;
          if (body != NULL && body->len > 0 && !g_str_has_suffix (body->str, "\n\n"))
            g_string_append (body, "\n\n");
        }
    }
  if (body != NULL)
    g_strchomp (body->str);
}

/* GDBus's parser, which has found @xml well-formed, leaves the comments out. */
static void
read_comments (const char *xml)
{
  g_autoptr(GRegex) regex = g_regex_new ("<interface\\s[^>]*?name=[\"']([^\"']*)|<!--(.*?)-->",
                                         G_REGEX_DOTALL, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;
  g_autoptr(GString) interface = g_string_new (NULL);

  for (g_regex_match (regex, xml, 0, &match); g_match_info_matches (match);
       g_match_info_next (match, NULL))
    {
      g_autofree char *name = g_match_info_fetch (match, 1);
      g_autofree char *comment = g_match_info_fetch (match, 2);

      if (*name == '\0')
        read_comment (interface->str, comment);
      else
        g_string_assign (interface, name);
    }
}

/* --- the file --- */

/* A FIFO or device in a data folder is not waited for. */
static gboolean
load_from (const char *folder)
{
  g_autofree char *path = g_build_filename (folder, "dbus-1", "interfaces", FILE_NAME, NULL);
  g_autoptr(GError) error = NULL;
  g_autofree char *xml = NULL;
  GStatBuf about;
  gsize length;

  if (g_stat (path, &about) != 0 || !S_ISREG (about.st_mode) || about.st_size > MAX_FILE_BYTES)
    return FALSE;
  if (g_file_get_contents (path, &xml, &length, &error))
    docs = llmctl_node_parse (xml, &error);
  if (docs == NULL)
    g_debug ("%s: %s", path, error->message);
  else
    read_comments (xml);
  return docs != NULL;
}

static void
free_text (gpointer data)
{
  g_string_free (data, TRUE);
}

const LlmctlNode *
llmctl_docs_get_node (void)
{
  const char *const *folders = g_get_system_data_dirs ();

  if (docs != NULL)
    return docs;

  docs_help = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_text);
  load_from (g_get_user_data_dir ());
  while (docs == NULL && *folders != NULL)
    load_from (*folders++);
  if (docs == NULL && !load_from (LLM_DATADIR))
    docs = llmctl_node_parse ("<node/>", NULL);
  return docs;
}

const char *
llmctl_docs_get_help (const char *interface,
                      const char *member,
                      const char *argument)
{
  g_autofree char *key = make_key (interface, member, argument);
  const GString *text = NULL;

  if (llmctl_docs_get_node () != NULL)
    text = g_hash_table_lookup (docs_help, key);
  return text != NULL ? text->str : NULL;
}

/* --- the keys of an argument --- */

static void
key_free (gpointer data)
{
  LlmctlKey *self = data;

  g_free (self->key);
  g_free (self->type);
  g_free (self->help);
  g_strfreev (self->choices);
  g_free (self);
}

/* Whether "`key` (type" begins at @p; @end is behind the type then. */
static gboolean
scan_key (const char  *p,
          gsize       *key_length,
          const char **type,
          const char **end)
{
  gsize n = *p == '`' ? strspn (p + 1, G_CSET_a_2_z G_CSET_DIGITS "-_") : 0;

  if (n == 0 || !g_str_has_prefix (p + 1 + n, "` ("))
    return FALSE;

  *key_length = n;
  *type = p + 1 + n + 3;
  return g_variant_type_string_scan (*type, NULL, end) && strchr ("),:;", **end) != NULL &&
         **end != '\0';
}

static const char *
find_next_key (const char *p)
{
  const char *type, *end;
  gsize length;

  while (*p != '\0' && !scan_key (p, &length, &type, &end))
    p++;

  return p;
}

/* (nullable) (transfer full): the words in backquotes of "(s: `one`, `two`)". */
static char **
read_choices (const char *p,
              const char *end)
{
  g_autofree char *text = g_strndup (p, (gsize) (end - p));
  g_auto(GStrv) pieces = g_strsplit (text, "`", -1);
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();

  if (*p != ':')
    return NULL;
  for (gsize i = 1; pieces[i] != NULL && pieces[i + 1] != NULL; i += 2)
    g_strv_builder_add (builder, pieces[i]);
  return g_strv_builder_end (builder);
}

/* (transfer full): what is said between a key and the next one; a heading at its end
 * is about the next ones, and "and" says nothing. */
static char *
read_help (const char *p,
           const char *end)
{
  g_autofree char *text = g_strndup (p, (gsize) (end - p));
  char *help = text + strspn (text, " ,.:;)");
  gsize length = strlen (help);

  while (length > 0 && strchr (" ,;", help[length - 1]) != NULL)
    help[--length] = '\0';
  if (g_str_has_suffix (help, ":"))
    {
      char *sentence = g_strrstr (help, ". ");

      *(sentence != NULL ? sentence + 1 : help) = '\0';
    }

  return g_strdup (strcmp (help, "and") == 0 ? "" : help);
}

const LlmctlKey *
llmctl_docs_find_key (const GPtrArray *keys,
                      const char      *name)
{
  for (guint i = 0; i < keys->len; i++)
    if (strcmp (((const LlmctlKey *) g_ptr_array_index (keys, i))->key, name) == 0)
      return g_ptr_array_index (keys, i);

  return NULL;
}

static void
read_keys (const char *text,
           GPtrArray  *keys)
{
  const char *type, *end, *next;
  gsize length;

  for (const char *p = find_next_key (text);
       keys->len < MAX_KEYS && scan_key (p, &length, &type, &end); p = next)
    {
      g_autofree char *name = g_strndup (p + 1, length);
      const char *close;
      LlmctlKey *key;

      next = find_next_key (end);
      close = memchr (end, ')', (gsize) (next - end));
      if (llmctl_docs_find_key (keys, name) != NULL)
        continue;

      key = g_new0 (LlmctlKey, 1);
      key->key = g_steal_pointer (&name);
      key->type = g_strndup (type, (gsize) (end - type));
      key->choices = read_choices (end, close != NULL ? close : next);
      key->help = read_help (close != NULL ? close : next, next);
      if (*key->help == '\0' && key->choices != NULL)
        {
          g_free (key->help);
          key->help = g_strjoinv (", ", key->choices);
        }
      g_ptr_array_add (keys, key);
    }
}

/* (nullable): the method that "As for org.llm.Service.Context.Generate(), and …" names. */
static const LlmctlMember *
follow_reference (const LlmctlMember *method,
                  const char         *help)
{
  const char *at = strstr (help, "As for ");
  g_autofree char *name = NULL;
  char *dot;

  if (at == NULL)
    return NULL;
  at += strlen ("As for ");
  name = g_strndup (at, strcspn (at, "( "));
  if (!g_str_has_prefix (at + strlen (name), "()"))
    return NULL;

  dot = strrchr (name, '.');
  if (dot == NULL)
    return llmctl_node_lookup (llmctl_docs_get_node (), method->interface->name,
                               LLMCTL_MEMBER_METHOD, name);
  *dot = '\0';
  return llmctl_node_lookup (llmctl_docs_get_node (), name, LLMCTL_MEMBER_METHOD, dot + 1);
}

GPtrArray *
llmctl_docs_list_keys (const LlmctlMember *method,
                       const char         *argument)
{
  GPtrArray *keys = g_ptr_array_new_with_free_func (key_free);

  for (guint i = 0; i < MAX_REFERENCES && method != NULL && argument != NULL; i++)
    {
      const char *help = llmctl_docs_get_help (method->interface->name, method->name, argument);

      if (help == NULL)
        break;
      read_keys (help, keys);
      method = follow_reference (method, help);
      argument = NULL;
      for (gsize j = 0; method != NULL && method->in[j] != NULL && argument == NULL; j++)
        if (strcmp (method->in[j]->signature, "a{sv}") == 0)
          argument = method->in[j]->name;
    }

  return keys;
}

char *
llmctl_docs_get_lead (const LlmctlMember *method,
                      const GDBusArgInfo *argument)
{
  const char *help = llmctl_docs_get_help (method->interface->name, method->name, argument->name);
  const char *first;
  g_autofree char *lead = NULL;

  if (help == NULL || strcmp (argument->signature, "a{sv}") != 0)
    return g_strdup (help != NULL ? help : "");

  first = find_next_key (help);
  lead = g_strndup (help, (gsize) (first - help));
  if (*first == '\0')
    return g_steal_pointer (&lead);

  /* What leads over to the first key says nothing without it. */
  g_strchomp (lead);
  if (g_str_has_suffix (lead, " and"))
    lead[strlen (lead) - strlen (" and")] = '\0';
  if (g_str_has_suffix (lead, ":"))
    *lead = '\0';
  else if (g_str_has_suffix (lead, ","))
    lead[strlen (lead) - 1] = '\0';

  return g_steal_pointer (&lead);
}
