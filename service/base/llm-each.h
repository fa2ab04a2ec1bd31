/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Loops over the elements of arrays and tables, which must get none and lose none meanwhile. */

#pragma once

#include <glib.h>

/* Of a GPtrArray: LLM_EACH (LlmThing, thing, self->things). */
#define LLM_EACH(Type, item, array)                                                               \
  for (Type *item, **item##_at = (Type **) (array)->pdata;                                        \
       (gsize) (item##_at - (Type **) (array)->pdata) < (array)->len                              \
       && (item = *item##_at, TRUE);                                                              \
       item##_at++)

/* Of a GArray: @item points to each element. */
#define LLM_EACH_IN(Type, item, array)                                                            \
  for (Type *item = (Type *) (gpointer) (array)->data;                                            \
       (gsize) (item - (Type *) (gpointer) (array)->data) < (array)->len;                         \
       item++)

static inline GHashTableIter
llm_each_begin (GHashTable *table)
{
  GHashTableIter iter;

  g_hash_table_iter_init (&iter, table);
  return iter;
}

/* Of a GHashTable the values. */
#define LLM_EACH_VALUE(Type, item, table)                                                         \
  for (GHashTableIter item##_iter = llm_each_begin (table), *item##_at = &item##_iter;            \
       item##_at != NULL;                                                                         \
       item##_at = NULL)                                                                          \
    for (Type *item; g_hash_table_iter_next (item##_at, NULL, (gpointer *) &item);)
