/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Writes GGUF files in memory for tests: any key-values and tensors, also wrong
 * ones, and whole tiny models with random weights. Wrong use aborts the test.
 * One thread.
 */

#pragma once

#include <glib.h>

#include "kernels/llk-types.h"
#include "gguf/llm-gguf.h"

G_BEGIN_DECLS

typedef struct _LlmTestGguf LlmTestGguf;

/* @version is written as it is; 2 and 3 are the ones that may be opened. */
LlmTestGguf *llm_test_gguf_new           (guint        version);
void         llm_test_gguf_free          (LlmTestGguf *self);

/* Also writes the key `general.alignment`. Call it before the first tensor. */
void         llm_test_gguf_set_alignment (LlmTestGguf *self,
                                          guint32      alignment);

/* From now on, keys and tensors of this name are left out: add the wrong one, skip
 * its name, then add the rest. */
void         llm_test_gguf_skip          (LlmTestGguf *self,
                                          const char  *name);

/* Integers and booleans: @value is cut to the width of @type. */
void         llm_test_gguf_add_int       (LlmTestGguf *self,
                                          const char  *key,
                                          LlmGgufType  type,
                                          gint64       value);
/* @type: LLM_GGUF_FLOAT32 or LLM_GGUF_FLOAT64. */
void         llm_test_gguf_add_double    (LlmTestGguf *self,
                                          const char  *key,
                                          LlmGgufType  type,
                                          double       value);
void         llm_test_gguf_add_string    (LlmTestGguf *self,
                                          const char  *key,
                                          const char  *value);
void         llm_test_gguf_add_strings   (LlmTestGguf       *self,
                                          const char        *key,
                                          const char *const *values,
                                          gsize              n_values);
void         llm_test_gguf_add_ints      (LlmTestGguf  *self,
                                          const char   *key,
                                          LlmGgufType   type,
                                          const gint64 *values,
                                          gsize         n_values);
void         llm_test_gguf_add_floats    (LlmTestGguf *self,
                                          const char  *key,
                                          LlmGgufType  type,
                                          const float *values,
                                          gsize        n_values);
/* Any type number with any bytes behind it. */
void         llm_test_gguf_add_raw       (LlmTestGguf  *self,
                                          const char   *key,
                                          guint32       type,
                                          gconstpointer bytes,
                                          gsize         length);

/* A tensor of @values in the format @type; quantized ones need whole blocks. */
void         llm_test_gguf_add_tensor    (LlmTestGguf   *self,
                                          const char    *name,
                                          LlkType        type,
                                          guint          n_dims,
                                          const guint64 *dims,
                                          const float   *values);
/* Any type number, dimensions and bytes; @offset is from the start of the data
 * section, or -1 for the next aligned place. */
void         llm_test_gguf_add_raw_tensor (LlmTestGguf   *self,
                                          const char    *name,
                                          guint32        type,
                                          guint          n_dims,
                                          const guint64 *dims,
                                          gint64         offset,
                                          gconstpointer  bytes,
                                          gsize          length);

/* (transfer full): the file. */
GBytes      *llm_test_gguf_end           (LlmTestGguf *self);

/* Bytes of @n values in the format @type, and the conversion there and back. */
gsize        llm_test_row_bytes          (LlkType      type,
                                          gsize        n);
void         llm_test_quantize           (LlkType      type,
                                          const float *values,
                                          gsize        n,
                                          void        *out);
void         llm_test_dequantize         (LlkType      type,
                                          const void  *data,
                                          gsize        n,
                                          float       *values);

/* A model with random weights. What is 0 or NULL gets the value in brackets. */
typedef struct
{
  const char *architecture; /* ["llama"] */
  const char *name;         /* ["test"], general.name */
  guint n_layers;           /* [2] */
  guint n_embd;             /* [64] a multiple of 32 for quantized types, as n_ff */
  guint n_heads;            /* [4] */
  guint n_kv_heads;         /* [n_heads] */
  guint head_dim;           /* [n_embd / n_heads] */
  guint n_ff;               /* [96] of each expert, where there are any */
  guint n_experts;          /* [0] two of them are used by each row */
  guint n_ctx;              /* [256] */
  guint n_vocab;            /* [384] below 262 there are no byte tokens; at least 8 */
  LlkType type;             /* of the matrices [F32] */
  gboolean is_untied;       /* write output.weight */
  gboolean has_rope_factors;
  gboolean adds_eos;        /* tokenizer.ggml.add_eos_token */
  gboolean has_templates;   /* chat templates with the names “tool_use”, “rag” and “broken”, which write
                             * their name and all contents */
  gboolean names_default;   /* the own one has a name like them, and no place of its own */
  double rope_base;         /* [10000] */
  guint64 seed;
} LlmTestModel;

/* The ids that every such vocabulary starts with. */
#define LLM_TEST_TOKEN_UNKNOWN  0
#define LLM_TEST_TOKEN_BOS      1
#define LLM_TEST_TOKEN_EOS      2
#define LLM_TEST_TOKEN_IM_START 3
#define LLM_TEST_TOKEN_IM_END   4
#define LLM_TEST_TOKEN_TOOL     5 /* "<tool>", user-defined */

/* (transfer full): the model: SentencePiece vocabulary, ChatML template. */
GBytes      *llm_test_model_new          (const LlmTestModel *shape);
void         llm_test_model_write        (const LlmTestModel *shape,
                                          const char         *path);
/* Its keys and its tensors alone: for files that are wrong somewhere. */
void         llm_test_model_add_keys     (const LlmTestModel *shape,
                                          LlmTestGguf        *gguf);
void         llm_test_model_add_tensors  (const LlmTestModel *shape,
                                          LlmTestGguf        *gguf);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTestGguf, llm_test_gguf_free)

G_END_DECLS
