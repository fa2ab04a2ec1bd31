/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llmsvc-command-line.h"

#include <stdio.h>
#include <string.h>

/* --- options --- */

gboolean
llmsvc_command_line_takes_value (const GOptionEntry *option)
{
  return option->arg != G_OPTION_ARG_NONE &&
         (option->flags & (G_OPTION_FLAG_NO_ARG | G_OPTION_FLAG_OPTIONAL_ARG)) == 0;
}

static const GOptionEntry *
find_short (const GOptionEntry *const *tables,
            char                       letter)
{
  for (gsize i = 0; tables[i] != NULL; i++)
    for (const GOptionEntry *option = tables[i]; option->long_name != NULL; option++)
      if (option->short_name == letter)
        return option;

  return NULL;
}

static const GOptionEntry *
find_long (const GOptionEntry *const *tables,
           const char                *name,
           gsize                      length)
{
  for (gsize i = 0; tables[i] != NULL; i++)
    for (const GOptionEntry *option = tables[i]; option->long_name != NULL; option++)
      if (strncmp (option->long_name, name, length) == 0 && option->long_name[length] == '\0')
        return option;

  return NULL;
}

/* The letters of the cluster @word up to one that takes a value, 0 when a letter before is
 * unknown. @option: (out): that of the last letter. */
static gsize
count_letters (const char                *word,
               const GOptionEntry *const *tables,
               const GOptionEntry       **option)
{
  gsize n = 0;

  do
    {
      *option = find_short (tables, word[1 + n]);
      if (*option == NULL)
        return 0;
      n++;
    }
  while (!llmsvc_command_line_takes_value (*option) && word[1 + n] != '\0');

  return n;
}

static gboolean
is_cluster (const char *word)
{
  return word[0] == '-' && word[1] != '\0' && word[1] != '-';
}

gboolean
llmsvc_command_line_awaits_value (const char                *word,
                                  const GOptionEntry *const *tables)
{
  const GOptionEntry *option = NULL;
  gsize n;

  if (is_cluster (word))
    {
      n = count_letters (word, tables, &option);
      return n > 0 && word[1 + n] == '\0' && llmsvc_command_line_takes_value (option);
    }
  if (strncmp (word, "--", 2) == 0 && word[2] != '\0')
    option = find_long (tables, word + 2, strlen (word + 2));

  return option != NULL && llmsvc_command_line_takes_value (option);
}

static void
add_cluster (GPtrArray                 *words,
             const char                *word,
             const GOptionEntry *const *tables)
{
  const GOptionEntry *last;
  gsize n = count_letters (word, tables, &last);
  const char *value = word + 1 + n;

  if (n == 0)
    {
      g_ptr_array_add (words, g_strdup (word));
      return;
    }
  for (gsize i = 0; i < n; i++)
    g_ptr_array_add (words, g_strdup_printf ("-%c", word[1 + i]));
  if (*value != '\0')
    g_ptr_array_add (words, g_strdup (*value == '=' ? value + 1 : value));
}

char **
llmsvc_command_line_split (char                     **words,
                           const GOptionEntry *const *tables)
{
  GPtrArray *split = g_ptr_array_new ();
  gboolean has_ended = FALSE;
  gboolean is_value = FALSE;

  for (gsize i = 0; words[i] != NULL; i++)
    {
      gboolean is_option = i > 0 && !has_ended && !is_value;

      if (is_option && is_cluster (words[i]))
        add_cluster (split, words[i], tables);
      else
        g_ptr_array_add (split, g_strdup (words[i]));

      has_ended = has_ended || (is_option && strcmp (words[i], "--") == 0);
      is_value = is_option && llmsvc_command_line_awaits_value (words[i], tables);
    }

  g_ptr_array_add (split, NULL);
  return (char **) g_ptr_array_free (split, FALSE);
}

void
llmsvc_command_line_drop_separator (char **words)
{
  for (gsize i = 1; words[i] != NULL; i++)
    if (strcmp (words[i], "--") == 0)
      {
        g_free (words[i]);
        do
          words[i] = words[i + 1];
        while (words[i++] != NULL);
        return;
      }
}

void
llmsvc_command_line_hide (char **argv)
{
  for (gsize i = 0; argv[i] != NULL; i++)
    explicit_bzero (argv[i], strlen (argv[i]));
}

/* --- messages --- */

static const struct
{
  const char *character;
  const char *ascii;
} substitutes[] = {
  { "“", "\"" }, { "”", "\"" }, { "„", "\"" }, { "‘", "'" },  { "’", "'" },   { "…", "..." },
  { "–", "-" },  { "—", "-" },  { "→", "->" }, { "×", "x" },  { "·", "." },   { "µ", "u" },
  { "±", "+-" }, { "│", "|" },  { "├", "|" },  { "└", "`" },  { "─", "-" },   { "█", "#" },
  { "░", "." },  { "\302\240", " " },
};

char *
llmsvc_command_line_fit_locale (const char *text)
{
  GString *fitted;

  if (g_get_charset (NULL))
    return g_strdup (text);

  fitted = g_string_new (NULL);
  while (*text != '\0')
    {
      const char *ascii = NULL;
      gsize length = 1;

      for (gsize i = 0; (*text & 0x80) != 0 && ascii == NULL && i < G_N_ELEMENTS (substitutes); i++)
        if (g_str_has_prefix (text, substitutes[i].character))
          {
            ascii = substitutes[i].ascii;
            length = strlen (substitutes[i].character);
          }
      if (ascii != NULL)
        g_string_append (fitted, ascii);
      else
        g_string_append_c (fitted, *text);
      text += length;
    }

  return g_string_free (fitted, FALSE);
}

static void
print (const char *text)
{
  g_autofree char *fitted = llmsvc_command_line_fit_locale (text);

  fputs (fitted, stdout);
}

static void
print_error (const char *text)
{
  g_autofree char *fitted = llmsvc_command_line_fit_locale (text);

  fputs (fitted, stderr);
}

void
llmsvc_command_line_fit_prints (void)
{
  g_set_print_handler (print);
  g_set_printerr_handler (print_error);
}
