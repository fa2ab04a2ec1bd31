/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Words of the interface as people read them. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer none): @word, a value of Availability, Pressure or Residency, or the kind of an
 * application, in the user's language; itself where it is none of those. JSON has the words as they
 * are. */
const char *llmctl_words_say (const char *word);
/* (transfer full): the same for the Residency of a context, and whether that is exact. */
char       *llmctl_words_say_place (const char *residency,
                                    gboolean    is_exact);
/* (transfer none): the same for what giving memory back costs, a key of Reclaimable. */
const char *llmctl_words_say_cost (const char *cost);

G_END_DECLS
