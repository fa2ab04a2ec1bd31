/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Loops over the elements of arrays, which must not change in length meanwhile. */

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
