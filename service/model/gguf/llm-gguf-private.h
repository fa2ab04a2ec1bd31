/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the parts of LlmGguf share: the opened file and its reader. For
 * llm-gguf*.c only.
 */

#pragma once

#include "model/gguf/llm-gguf.h"

G_BEGIN_DECLS

typedef struct
{
  char *name;
  LlmGgufType type;
  LlmGgufType item_type;  /* of an array */
  guint64 n_items;        /* of an array; the length of a string */
  guint64 offset;         /* of the value, the text or the first item, in the file */
} GgufKey;

struct _LlmGguf
{
  gatomicrefcount ref_count;

  char *path;
  LlmFileMap *map;
  guint version;
  guint64 header_hash;
  gsize has_weights_hash;    /* g_once_init_enter() */
  guint64 weights_hash;

  GArray *keys;              /* (element-type GgufKey) (owned) */
  GHashTable *key_index;     /* name (unowned) → index + 1 */
  GArray *tensors;           /* (element-type LlmGgufTensor) (owned) */
  GHashTable *tensor_index;  /* name (unowned) → index + 1 */
};

/* Reads header, key-values and tensor table into the empty @self. */
gboolean    llm_gguf_read          (LlmGguf      *self,
                                    GError      **error) G_GNUC_WARN_UNUSED_RESULT;

/* NULL when there is none. */
const GgufKey *llm_gguf_find_key   (LlmGguf      *self,
                                    const char   *key);

/* Bytes of one value, 0 for strings, arrays and types that do not exist. */
guint       llm_gguf_type_width    (guint32       type);
/* "uint32"; never NULL. */
const char *llm_gguf_type_name     (guint32       type);
/* The little-endian integer of @width bytes at @bytes. */
guint64     llm_gguf_load          (const guint8 *bytes,
                                    guint         width);

G_END_DECLS
