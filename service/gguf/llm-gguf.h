/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A GGUF file, versions 2 and 3: key-values and tensor table, memory-mapped.
 * The file is untrusted: every count, length, offset, type and string is
 * checked before use, nothing is allocated on a file's word alone, and an error
 * names the file, the field, what was found and what is supported.
 * Immutable once opened, but for the count of references; any thread.
 */

#pragma once

#include <gio/gio.h>

#include "io/llm-file-map.h"
#include "kernels/llk-types.h"

#define LLM_GGUF_MAX_DIMS 4

typedef struct
{
  const char *name;                   /* valid UTF-8, owned by the file */
  guint n_dims;
  guint64 dims[LLM_GGUF_MAX_DIMS];    /* dims[0] runs fastest; unused ones are 1 */
  LlkType type;
  guint64 offset;                     /* bytes from the start of the file */
  guint64 bytes;
} LlmGgufTensor;

typedef enum
{
  LLM_GGUF_UINT8 = 0, LLM_GGUF_INT8, LLM_GGUF_UINT16, LLM_GGUF_INT16, LLM_GGUF_UINT32,
  LLM_GGUF_INT32, LLM_GGUF_FLOAT32, LLM_GGUF_BOOL, LLM_GGUF_STRING, LLM_GGUF_ARRAY,
  LLM_GGUF_UINT64, LLM_GGUF_INT64, LLM_GGUF_FLOAT64,
  LLM_GGUF_N_TYPES
} LlmGgufType;

typedef struct
{
  char *name;
  LlmGgufType type;
  LlmGgufType item_type;  /* of an array */
  guint64 n_items;        /* of an array; the length of a string */
  guint64 offset;         /* of the value, the text or the first item, in the file */
} LlmGgufKey;

/* For all to read. */
typedef struct
{
  gatomicrefcount ref_count;

  char *path;
  LlmFileMap *map;           /* whose bytes tensors and strings point into */
  guint version;
  guint64 header_hash;       /* XXH3 of header, key-values and tensor table; of several files, of
                              * theirs */
  gsize has_weights_hash;    /* g_once_init_enter() */
  guint64 weights_hash;

  GArray *keys;              /* (element-type LlmGgufKey) */
  GHashTable *key_index;     /* name → index + 1 */
  GArray *tensors;           /* (element-type LlmGgufTensor) */
  GHashTable *tensor_index;  /* name → index + 1 */
} LlmGguf;

/* Opens and checks @path; of a model in several files any of them, with the others beside it, as if
 * all were one with the first one's path. In llm-gguf-open.c. */
LlmGguf             *llm_gguf_open        (const char  *path,
                                           GError     **error) G_GNUC_WARN_UNUSED_RESULT;
/* One file, whatever it is a part of. */
LlmGguf             *llm_gguf_open_alone  (const char  *path,
                                           GError     **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same from memory; @name stands for the path. */
LlmGguf             *llm_gguf_new_for_bytes (GBytes     *bytes,
                                           const char  *name,
                                           GError     **error) G_GNUC_WARN_UNUSED_RESULT;
LlmGguf             *llm_gguf_ref         (LlmGguf     *self);
void                 llm_gguf_unref       (LlmGguf     *self);

/* Reads header, key-values and tensor table into the empty @self. For llm-gguf.c. */
gboolean             llm_gguf_read        (LlmGguf     *self,
                                           GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* XXH3 of what header_hash is of, the file's size, and a sample of the weights: some hundred
 * pages, of every tensor at least one. Reads them when it is first called, and so may wait for the
 * disk. */
guint64              llm_gguf_get_weights_hash (LlmGguf *self);

/* (nullable): NULL when the file has no such key. */
const LlmGgufKey    *llm_gguf_find_key    (LlmGguf     *self,
                                           const char  *key);
static inline gboolean
llm_gguf_has (LlmGguf    *self,
              const char *key)
{
  return llm_gguf_find_key (self, key) != NULL;
}
const LlmGgufTensor *llm_gguf_find_tensor (LlmGguf     *self,
                                           const char  *name);
static inline const LlmGgufTensor *
llm_gguf_get_tensor (LlmGguf *self,
                     guint    index)
{
  return &g_array_index (self->tensors, LlmGgufTensor, index);
}

/* Values by key, with the type checked. Required ones fail with INVALID_MODEL
 * when missing; with @fallback non-NULL a missing key gives the fallback, a key
 * of another type still fails. Integers of any width and sign are taken when
 * the value lies in [@min, @max]. */
gboolean llm_gguf_get_uint   (LlmGguf *self, const char *key, guint64 min, guint64 max,
                              const guint64 *fallback, guint64 *value, GError **error);
gboolean llm_gguf_get_double (LlmGguf *self, const char *key, double min, double max,
                              const double *fallback, double *value, GError **error);
gboolean llm_gguf_get_bool   (LlmGguf *self, const char *key, const gboolean *fallback,
                              gboolean *value, GError **error);
/* (transfer full): valid UTF-8 without NUL; NULL and no error when @optional and missing. */
char    *llm_gguf_get_string (LlmGguf *self, const char *key, gboolean optional, GError **error);

/* Arrays in place. Strings are neither NUL-terminated nor checked to be UTF-8
 * (vocabularies hold bytes). @n_items is checked against the file's size. */
typedef struct { const char *text; gsize length; } LlmGgufString;
/* (transfer full) (array): items point into the file; NULL and no error when @optional and
 * missing. */
LlmGgufString *llm_gguf_get_strings (LlmGguf *self, const char *key, gboolean optional,
                                     gsize *n_items, GError **error);
/* (transfer full) (array): floats, or integers widened to gint64. */
float         *llm_gguf_get_floats  (LlmGguf *self, const char *key, gboolean optional,
                                     gsize *n_items, GError **error);
gint64        *llm_gguf_get_ints    (LlmGguf *self, const char *key, gboolean optional,
                                     gsize *n_items, GError **error);
/* Of floats, @n of them, from 0 to @most. */
float         *llm_gguf_get_numbers (LlmGguf *self, const char *key, gsize n, double most,
                                     GError **error);
/* Likewise of bools or integers. */
gint64        *llm_gguf_get_flags   (LlmGguf *self, const char *key, gsize *n_items,
                                     GError **error);

/* (transfer full): the types of tensors that are known, with commas between them, for messages. */
char                *llm_gguf_list_types  (void);
/* "uint32"; never NULL. */
const char          *llm_gguf_type_name   (guint32      type);
/* Bytes of one value, 0 for strings, arrays and unknown types. */
guint                llm_gguf_type_width  (guint32      type);
/* The little-endian integer of @width bytes at @bytes. */
guint64              llm_gguf_load        (const guint8 *bytes,
                                           guint         width);

/* (transfer full): text from the file, made fit for a message: valid UTF-8 with no
 * control characters and of a limited length, in quotation marks. */
char                *llm_gguf_quote       (const char  *text,
                                           gsize        length);

/* Sets an error that begins with the file's path. Returns FALSE. */
gboolean             llm_gguf_fail        (LlmGguf     *self,
                                           GError     **error,
                                           int          code,
                                           const char  *format,
                                           ...) G_GNUC_PRINTF (4, 5);
/* The same of @cause: (transfer full), with its code. */
gboolean             llm_gguf_fail_of     (LlmGguf     *self,
                                           GError     **error,
                                           GError      *cause);
/* The same for functions that return a pointer: NULL. */
#define llm_gguf_fail_null(...) ((void) llm_gguf_fail (__VA_ARGS__), NULL)

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmGguf, llm_gguf_unref)
