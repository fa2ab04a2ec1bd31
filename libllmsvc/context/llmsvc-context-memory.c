/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-context-private.h"

#include <string.h>

#include "values/llmsvc-answer-private.h"
#include "values/llmsvc-options-private.h"

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

/* The letters of `places`, in the order of LlmsvcChunkPlace. */
static const char letters[] = "?tmsb";

G_DEFINE_FINAL_TYPE (LlmsvcContextMemory, llmsvc_context_memory, G_TYPE_OBJECT)

#include "llmsvc-context-memory-properties.h"

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
  G_OBJECT_CLASS (klass)->finalize = llmsvc_context_memory_finalize;
  install_properties (G_OBJECT_CLASS (klass));
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

  reply = llmsvc_task_finish (self, result, &error);
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

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_get_memory_async);
  llmsvc_context_call_async (self, "GetMemory", "(a{sv})", LLMSVC_CALL_REPEAT,
                             g_variant_new ("(@a{sv})", llmsvc_options_take (NULL, NULL)),
                             cancellable, on_memory, task);
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
  return llmsvc_task_finish (self, result, error);
}

/* --- getters --- */

/**
 * llmsvc_context_memory_get_chunk_bits:
 * @self: the memory of a context
 * @chunk: which one, from 0
 *
 * Gets how many bits a number of a chunk has: 32 or 16 while it is new, 8, 4, 3 or 2 later.
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
  const char *letter;

  g_return_val_if_fail (LLMSVC_IS_CONTEXT_MEMORY (self), LLMSVC_CHUNK_PLACE_UNKNOWN);
  g_return_val_if_fail (chunk < self->n_chunks, LLMSVC_CHUNK_PLACE_UNKNOWN);

  letter = chunk < self->n_places ? strchr (letters, self->places[chunk]) : NULL;
  return letter != NULL ? (LlmsvcChunkPlace) (letter - letters) : LLMSVC_CHUNK_PLACE_UNKNOWN;
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
 * llmsvc_context_memory_get_memory_bytes_at:
 * @self: the memory of a context
 * @bits: 32, 16, 8, 4, 3 or 2
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
 * llmsvc_context_memory_get_storage_bytes_at:
 * @self: the memory of a context
 * @bits: 32, 16, 8, 4, 3 or 2
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

