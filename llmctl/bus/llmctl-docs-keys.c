/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-docs.h"

#include <string.h>

#define MAX_KEYS       256
/* "As for This()", which may be as for that. */
#define MAX_REFERENCES 4

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
  gsize n;

  if (*p != '`')
    return FALSE;
  n = strspn (p + 1, "abcdefghijklmnopqrstuvwxyz0123456789-_");
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

/* (nullable): the words in backquotes of "(s: `one`, `two`)". */
static char **
read_choices (const char *p,
              const char *end)
{
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  const char *open;

  if (*p != ':')
    return NULL;
  while ((open = memchr (p, '`', (gsize) (end - p))) != NULL)
    {
      const char *close = memchr (open + 1, '`', (gsize) (end - open - 1));
      g_autofree char *word = NULL;

      if (close == NULL)
        break;
      word = g_strndup (open + 1, (gsize) (close - open - 1));
      g_strv_builder_add (builder, word);
      p = close + 1;
    }

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
    length--;
  help[length] = '\0';
  if (length > 0 && help[length - 1] == ':')
    {
      char *sentence = g_strrstr (help, ". ");

      if (sentence == NULL)
        return g_strdup ("");
      sentence[1] = '\0';
    }
  if (strcmp (help, "and") == 0)
    return g_strdup ("");

  return g_strdup (help);
}

static gboolean
has_key (const GPtrArray *keys,
         const char      *key)
{
  for (guint i = 0; i < keys->len; i++)
    if (strcmp (((const LlmctlKey *) g_ptr_array_index (keys, i))->key, key) == 0)
      return TRUE;

  return FALSE;
}

static void
read_keys (const char *text,
           GPtrArray  *keys)
{
  const char *p = find_next_key (text);

  while (*p != '\0' && keys->len < MAX_KEYS)
    {
      const char *type, *end, *next, *close;
      g_autofree char *name = NULL;
      LlmctlKey *key;
      gsize length;

      if (!scan_key (p, &length, &type, &end))
        return;
      name = g_strndup (p + 1, length);
      next = find_next_key (end);
      close = memchr (end, ')', (gsize) (next - end));
      if (close == NULL)
        close = next;

      if (!has_key (keys, name))
        {
          key = g_new0 (LlmctlKey, 1);
          key->key = g_steal_pointer (&name);
          key->type = g_strndup (type, (gsize) (end - type));
          key->choices = read_choices (end, close);
          key->help = read_help (close, next);
          if (*key->help == '\0' && key->choices != NULL)
            {
              g_free (key->help);
              key->help = g_strjoinv (", ", key->choices);
            }
          g_ptr_array_add (keys, key);
        }
      p = next;
    }
}

/* "As for org.llm.Service.Context.Generate(), and …": the argument of the other method
 * that has the same type and, if it has a name, the same name. */
static const LlmctlArgument *
follow_reference (const LlmctlInterface **interface,
                  const LlmctlArgument   *argument)
{
  static const char phrase[] = "As for ";
  const char *at = argument->help != NULL ? strstr (argument->help, phrase) : NULL;
  g_autofree char *name = NULL;
  const LlmctlMember *member;
  char *dot;
  gsize length;

  if (at == NULL)
    return NULL;
  at += strlen (phrase);
  length = strcspn (at, "( ");
  if (!g_str_has_prefix (at + length, "()"))
    return NULL;

  name = g_strndup (at, length);
  dot = strrchr (name, '.');
  if (dot != NULL)
    {
      *dot = '\0';
      *interface = llmctl_docs_find_interface (name);
    }
  member = *interface != NULL ? llmctl_interface_find (*interface, LLMCTL_MEMBER_METHOD,
                                                       dot != NULL ? dot + 1 : name)
                              : NULL;
  for (guint i = 0; member != NULL && i < member->in->len; i++)
    {
      const LlmctlArgument *other = g_ptr_array_index (member->in, i);

      if (strcmp (other->type, argument->type) == 0 && other != argument)
        return other;
    }

  return NULL;
}

GPtrArray *
llmctl_docs_list_keys (const LlmctlInterface *interface,
                       const LlmctlArgument  *argument)
{
  GPtrArray *keys = g_ptr_array_new_with_free_func (key_free);

  for (guint i = 0; i < MAX_REFERENCES && argument != NULL && interface != NULL; i++)
    {
      if (argument->help != NULL)
        read_keys (argument->help, keys);
      argument = follow_reference (&interface, argument);
    }

  return keys;
}

char *
llmctl_docs_get_lead (const LlmctlArgument *argument)
{
  const char *help = argument->help != NULL ? argument->help : "";
  const char *first = strcmp (argument->type, "a{sv}") == 0 ? find_next_key (help)
                                                            : help + strlen (help);
  g_autofree char *lead = g_strndup (help, (gsize) (first - help));
  gsize length;

  if (*first == '\0')
    return g_steal_pointer (&lead);

  /* What leads over to the first key says nothing without it. */
  g_strchomp (lead);
  if (g_str_has_suffix (lead, " and"))
    lead[strlen (lead) - strlen (" and")] = '\0';
  length = strlen (lead);
  if (length > 0 && lead[length - 1] == ',')
    lead[length - 1] = '\0';
  else if (length > 0 && lead[length - 1] == ':')
    lead[0] = '\0';

  return g_steal_pointer (&lead);
}
