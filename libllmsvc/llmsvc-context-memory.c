/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-context-private.h"

#include <string.h>

#include "llmsvc-answer-private.h"
#include "llmsvc-options-private.h"

/**
 * LlmsvcContextMemory:
 *
 * Where the service keeps what it remembers of a context, beside its text.
 *
 * The memory is a row of chunks of a fixed number of tokens. A chunk that the context needs
 * less is kept with fewer bits, and one that is not used moves to storage, or is given up, to
 * be computed again from the text. The service does all this by itself; an app sees it only in
 * the time to the first token. This is for showing it, as it was in the moment of
 * [method@Llmsvc.Context.get_memory_async].
 *
 * It does not change and can be used in any thread. A number that the service has not told
 * is 0.
 *
 * Since: 0.1
 */
struct _LlmsvcContextMemory
{
  GObject parent_instance;

  GVariant *info;      /* (owned): a{sv}, serialized: what follows points into it */
  GVariant *bits;      /* (owned) (nullable): ay */
  const char *places;  /* a letter for each chunk */
  gsize n_places;
  gsize n_chunks;
};

enum
{
  PROP_RESIDENCY = 1,
  PROP_TOKENS,
  PROP_CHUNK_TOKENS,
  PROP_N_CHUNKS,
  PROP_N_SHARED_CHUNKS,
  PROP_MEMORY_BYTES,
  PROP_STORAGE_BYTES,
  PROP_INFO,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

/* The letters of `places`. */
static const struct
{
  char letter;
  LlmsvcChunkPlace place;
} letters[] = {
  { 't', LLMSVC_CHUNK_PLACE_TEXT },
  { 'm', LLMSVC_CHUNK_PLACE_MEMORY },
  { 's', LLMSVC_CHUNK_PLACE_STORAGE },
  { 'b', LLMSVC_CHUNK_PLACE_BOTH },
};

G_DEFINE_FINAL_TYPE (LlmsvcContextMemory, llmsvc_context_memory, G_TYPE_OBJECT)

static void
llmsvc_context_memory_get_property (GObject    *object,
                                    guint       id,
                                    GValue     *value,
                                    GParamSpec *pspec)
{
  LlmsvcContextMemory *self = LLMSVC_CONTEXT_MEMORY (object);

  switch (id)
    {
    case PROP_RESIDENCY:
      g_value_set_string (value, llmsvc_context_memory_get_residency (self));
      break;
    case PROP_TOKENS:
      g_value_set_uint (value, llmsvc_context_memory_get_tokens (self));
      break;
    case PROP_CHUNK_TOKENS:
      g_value_set_uint (value, llmsvc_context_memory_get_chunk_tokens (self));
      break;
    case PROP_N_CHUNKS:
      g_value_set_uint (value, llmsvc_context_memory_get_n_chunks (self));
      break;
    case PROP_N_SHARED_CHUNKS:
      g_value_set_uint (value, llmsvc_context_memory_get_n_shared_chunks (self));
      break;
    case PROP_MEMORY_BYTES:
      g_value_set_uint64 (value, llmsvc_context_memory_get_memory_bytes (self));
      break;
    case PROP_STORAGE_BYTES:
      g_value_set_uint64 (value, llmsvc_context_memory_get_storage_bytes (self));
      break;
    case PROP_INFO:
      g_value_set_variant (value, self->info);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
llmsvc_context_memory_finalize (GObject *object)
{
  LlmsvcContextMemory *self = LLMSVC_CONTEXT_MEMORY (object);

  g_clear_pointer (&self->bits, g_variant_unref);
  g_variant_unref (self->info);

  G_OBJECT_CLASS (llmsvc_context_memory_parent_class)->finalize (object);
}

static void
llmsvc_context_memory_class_init (LlmsvcContextMemoryClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->get_property = llmsvc_context_memory_get_property;
  object_class->finalize = llmsvc_context_memory_finalize;

  /**
   * LlmsvcContextMemory:residency:
   *
   * Where its content is: `memory`, `compressed`, `storage` or `text`, which is to be computed
   * again.
   *
   * Since: 0.1
   */
  properties[PROP_RESIDENCY] = g_param_spec_string ("residency", NULL, NULL, "", flags);
  /**
   * LlmsvcContextMemory:tokens:
   *
   * The tokens that the chunks are for.
   *
   * Since: 0.1
   */
  properties[PROP_TOKENS] = g_param_spec_uint ("tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcContextMemory:chunk-tokens:
   *
   * The tokens of one chunk; the last one may have fewer.
   *
   * Since: 0.1
   */
  properties[PROP_CHUNK_TOKENS] =
    g_param_spec_uint ("chunk-tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcContextMemory:n-chunks:
   *
   * How many chunks there are.
   *
   * Since: 0.1
   */
  properties[PROP_N_CHUNKS] = g_param_spec_uint ("n-chunks", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcContextMemory:n-shared-chunks:
   *
   * How many of them are shared with other contexts of the app, and held once.
   *
   * Since: 0.1
   */
  properties[PROP_N_SHARED_CHUNKS] =
    g_param_spec_uint ("n-shared-chunks", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcContextMemory:memory-bytes:
   *
   * What the chunks take in memory.
   *
   * Since: 0.1
   */
  properties[PROP_MEMORY_BYTES] =
    g_param_spec_uint64 ("memory-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * LlmsvcContextMemory:storage-bytes:
   *
   * What the chunks take on storage.
   *
   * Since: 0.1
   */
  properties[PROP_STORAGE_BYTES] =
    g_param_spec_uint64 ("storage-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * LlmsvcContextMemory:info:
   *
   * Everything that the service has told, of type `a{sv}`.
   *
   * Since: 0.1
   */
  properties[PROP_INFO] =
    g_param_spec_variant ("info", NULL, NULL, G_VARIANT_TYPE_VARDICT, NULL, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
llmsvc_context_memory_init (LlmsvcContextMemory *self)
{
}

/* --- asking --- */

/* @info: an a{sv}; keys of another type are as if they were not there. */
static LlmsvcContextMemory *
context_memory_new (GVariant *info)
{
  LlmsvcContextMemory *self = g_object_new (LLMSVC_TYPE_CONTEXT_MEMORY, NULL);

  self->info = g_variant_ref_sink (info);
  /* Serialized, its strings stay where they are for as long as it lives. */
  (void) g_variant_get_data (self->info);
  self->places = llmsvc_dict_get_string (self->info, "places");
  self->n_places = strlen (self->places);
  self->bits = g_variant_lookup_value (self->info, "bits", G_VARIANT_TYPE_BYTESTRING);
  if (self->bits != NULL)
    self->n_chunks = MIN (g_variant_n_children (self->bits), G_MAXUINT);
  return self;
}

static void
on_memory (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcContext *self = LLMSVC_CONTEXT (source);
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GVariant) info = NULL;
  g_autoptr(GVariant) residency = NULL;
  GError *error = NULL;

  reply = llmsvc_context_call_finish (self, result, &error);
  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  info = g_variant_get_child_value (reply->body, 0);
  residency = g_variant_lookup_value (info, "residency", G_VARIANT_TYPE_STRING);
  if (residency != NULL)
    {
      g_autoptr(GVariant) values =
        g_variant_ref_sink (g_variant_new_parsed ("{'Residency': <%*>}", residency));

      llmsvc_context_apply (self, values);
    }
  g_task_return_pointer (task, context_memory_new (info), g_object_unref);
}

/**
 * llmsvc_context_get_memory_async:
 * @self: a context
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when it is read
 * @user_data: for @callback
 *
 * Asks where the service keeps what it remembers of the context. It can be asked while the
 * context answers. [property@Llmsvc.Context:residency] is read anew by this, too. A service that
 * came before `ApiVersion` 3 has no answer to it.
 *
 * Since: 0.1
 */
void
llmsvc_context_get_memory_async (LlmsvcContext       *self,
                                 GCancellable        *cancellable,
                                 GAsyncReadyCallback  callback,
                                 gpointer             user_data)
{
  GTask *task;
  GVariant *options;

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_get_memory_async);
  options = llmsvc_options_take (NULL, NULL);
  llmsvc_context_call_async (self, "GetMemory", "(a{sv})", LLMSVC_CALL_REPEAT,
                             g_variant_new ("(@a{sv})", options), cancellable, on_memory, task);
}

/**
 * llmsvc_context_get_memory_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_FOUND when the
 *   context has ended, %LLMSVC_ERROR_UNSUPPORTED when the service is too old to know
 *
 * Ends llmsvc_context_get_memory_async().
 *
 * Returns: (transfer full): its memory, as it was in that moment
 *
 * Since: 0.1
 */
LlmsvcContextMemory *
llmsvc_context_get_memory_finish (LlmsvcContext  *self,
                                  GAsyncResult   *result,
                                  GError        **error)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* --- getters --- */

/**
 * llmsvc_context_memory_get_residency:
 * @self: the memory of a context
 *
 * Gets where its content is: `memory`, `compressed`, `storage` or `text`, which is to be
 * computed again.
 *
 * Returns: (transfer none): the word, "" when it was not told
 *
 * Since: 0.1
 */
const char *
llmsvc_context_memory_get_residency (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), NULL);

  return llmsvc_dict_get_string (self->info, "residency");
}

/**
 * llmsvc_context_memory_get_tokens:
 * @self: the memory of a context
 *
 * Gets how many tokens the chunks are for.
 *
 * Returns: tokens
 *
 * Since: 0.1
 */
guint
llmsvc_context_memory_get_tokens (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return llmsvc_dict_get_uint (self->info, "tokens");
}

/**
 * llmsvc_context_memory_get_chunk_tokens:
 * @self: the memory of a context
 *
 * Gets how many tokens a chunk has. The last one may have fewer.
 *
 * Returns: tokens
 *
 * Since: 0.1
 */
guint
llmsvc_context_memory_get_chunk_tokens (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return llmsvc_dict_get_uint (self->info, "chunk-tokens");
}

/**
 * llmsvc_context_memory_get_n_chunks:
 * @self: the memory of a context
 *
 * Gets how many chunks there are.
 *
 * Returns: chunks
 *
 * Since: 0.1
 */
guint
llmsvc_context_memory_get_n_chunks (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return (guint) self->n_chunks;
}

/**
 * llmsvc_context_memory_get_n_shared_chunks:
 * @self: the memory of a context
 *
 * Gets how many chunks are shared with other contexts of the app, and held once.
 *
 * Returns: chunks
 *
 * Since: 0.1
 */
guint
llmsvc_context_memory_get_n_shared_chunks (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return llmsvc_dict_get_uint (self->info, "shared-chunks");
}

/**
 * llmsvc_context_memory_get_chunk_bits:
 * @self: the memory of a context
 * @chunk: which one, from 0
 *
 * Gets how many bits a number of a chunk has: 32 or 16 while it is new, 8, 4 or 2 later.
 *
 * Returns: bits, 0 for a chunk that is only in the text
 *
 * Since: 0.1
 */
guint
llmsvc_context_memory_get_chunk_bits (LlmsvcContextMemory *self,
                                      guint                chunk)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);
  g_return_val_if_fail (chunk < self->n_chunks, 0);

  return ((const guint8 *) g_variant_get_data (self->bits))[chunk];
}

/**
 * llmsvc_context_memory_get_chunk_place:
 * @self: the memory of a context
 * @chunk: which one, from 0
 *
 * Gets where a chunk is.
 *
 * Returns: the place
 *
 * Since: 0.1
 */
LlmsvcChunkPlace
llmsvc_context_memory_get_chunk_place (LlmsvcContextMemory *self,
                                       guint                chunk)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), LLMSVC_CHUNK_PLACE_UNKNOWN);
  g_return_val_if_fail (chunk < self->n_chunks, LLMSVC_CHUNK_PLACE_UNKNOWN);

  if (chunk < self->n_places)
    for (gsize i = 0; i < G_N_ELEMENTS (letters); i++)
      if (self->places[chunk] == letters[i].letter)
        return letters[i].place;

  return LLMSVC_CHUNK_PLACE_UNKNOWN;
}

/* Of the dictionary @key, an a{ut} of bits and bytes. */
static guint64
get_bytes_at (LlmsvcContextMemory *self,
              const char          *key,
              guint                bits)
{
  g_autoptr(GVariant) all = g_variant_lookup_value (self->info, key, G_VARIANT_TYPE ("a{ut}"));
  GVariantIter iter;
  guint32 their_bits;
  guint64 bytes;

  if (all == NULL)
    return 0;

  g_variant_iter_init (&iter, all);
  while (g_variant_iter_next (&iter, "{ut}", &their_bits, &bytes))
    if (their_bits == bits)
      return bytes;

  return 0;
}

/**
 * llmsvc_context_memory_get_memory_bytes:
 * @self: the memory of a context
 *
 * Gets what the chunks take in memory.
 *
 * Returns: bytes
 *
 * Since: 0.1
 */
guint64
llmsvc_context_memory_get_memory_bytes (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return llmsvc_dict_get_uint64 (self->info, "memory-bytes");
}

/**
 * llmsvc_context_memory_get_memory_bytes_at:
 * @self: the memory of a context
 * @bits: 32, 16, 8, 4 or 2
 *
 * Gets what the chunks whose numbers have @bits bits take in memory.
 *
 * Returns: bytes
 *
 * Since: 0.1
 */
guint64
llmsvc_context_memory_get_memory_bytes_at (LlmsvcContextMemory *self,
                                           guint                bits)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return get_bytes_at (self, "memory-bytes-by-bits", bits);
}

/**
 * llmsvc_context_memory_get_storage_bytes:
 * @self: the memory of a context
 *
 * Gets what the chunks take on storage.
 *
 * Returns: bytes
 *
 * Since: 0.1
 */
guint64
llmsvc_context_memory_get_storage_bytes (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return llmsvc_dict_get_uint64 (self->info, "storage-bytes");
}

/**
 * llmsvc_context_memory_get_storage_bytes_at:
 * @self: the memory of a context
 * @bits: 32, 16, 8, 4 or 2
 *
 * Gets what the chunks whose numbers have @bits bits take on storage.
 *
 * Returns: bytes
 *
 * Since: 0.1
 */
guint64
llmsvc_context_memory_get_storage_bytes_at (LlmsvcContextMemory *self,
                                            guint                bits)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), 0);

  return get_bytes_at (self, "storage-bytes-by-bits", bits);
}

/**
 * llmsvc_context_memory_get_info:
 * @self: the memory of a context
 *
 * Gets everything that the service has told.
 *
 * Returns: (transfer none): an `a{sv}`
 *
 * Since: 0.1
 */
GVariant *
llmsvc_context_memory_get_info (LlmsvcContextMemory *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), NULL);

  return self->info;
}
