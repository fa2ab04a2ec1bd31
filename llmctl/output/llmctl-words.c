/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-words.h"

#include <glib/gi18n.h>

static const char *const words[] = {
  /* Translators: the service is so, or the pressure on memory */
  NC_("state", "ready"), NC_("state", "loading"), NC_("state", "no-model"),
  NC_("state", "disabled"), NC_("state", "failed"),
  NC_("state", "none"), NC_("state", "low"), NC_("state", "medium"), NC_("state", "critical"),
  /* Translators: where a context is */
  NC_("state", "memory"), NC_("state", "compressed"), NC_("state", "storage"),
  NC_("state", "text"), NC_("state", "damaged"),
  /* Translators: how an application is known: by its systemd unit, as it has registered itself, as the
   * endpoint for OpenAI's HTTP, as that endpoint says who calls, as a program outside any sandbox, or not at
   * all */
  NC_("state", "unit"), NC_("state", "registered"), NC_("state", "endpoint"), NC_("state", "delegated"),
  NC_("state", "host"), NC_("state", "unknown"),
};

const char *
llmctl_words_say (const char *word)
{
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (word, words[i]))
      return g_dpgettext2 (GETTEXT_PACKAGE, "state", words[i]);

  return word;
}

char *
llmctl_words_say_place (const char *residency,
                        gboolean    is_exact)
{
  const char *word = llmctl_words_say (residency);

  /* Translators: where a context is, of which no bits are lost when memory is short */
  return is_exact ? g_strdup_printf (_("%s, exact"), word) : g_strdup (word);
}

const char *
llmctl_words_say_cost (const char *cost)
{
  static const char *const costs[][2] = {
    { "free", N_("at no cost") }, { "cheap", N_("cheaply") }, { "costly", N_("at a cost") },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (costs); i++)
    if (g_str_equal (cost, costs[i][0]))
      return _(costs[i][1]);

  return cost;
}
