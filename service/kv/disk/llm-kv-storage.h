/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chunks on storage (L7, L15). Each context has a folder, CHUNKS/ID, with extents: files of
 * neighbouring chunks that were written together, ordered by groups of layers so that the part of
 * all chunks that the first layers need is one read. An extent describes itself: model identity,
 * and of each chunk its number, form, the hash of all tokens up to its end, density, and a checksum
 * per layer group. Everything here is a cache of the text: extents that are damaged, incomplete or
 * over a limit are dropped, and computed again.
 *
 * An extent appears under its name when it is complete. Contexts of one application share extents
 * as hard links, so that what a fork shares with its origin, and what contexts with a common prefix
 * share, is stored once and is removed with the last of them.
 *
 * The executor's thread owns all of it.
 */

#pragma once

#include "io/llm-disk.h"
#include "kernels/llk-kv.h"

G_BEGIN_DECLS

/* How a chunk's bytes are laid out: its format, and whether layers with a window were left out,
 * because the chunk is behind the window. */
typedef guint8 LlmKvForm;
/* Limit of chunks in an extent. */
#define LLM_KV_EXTENT_CHUNKS 256
#define LLM_KV_N_FORMS (2 * LLK_N_KV_FORMATS)
#define LLM_KV_FORM(format, is_behind) ((LlmKvForm) (2 * (format) + ((is_behind) ? 1 : 0)))
#define LLM_KV_FORM_FORMAT(form) ((LlkKvFormat) ((form) / 2))
#define LLM_KV_FORM_IS_BEHIND(form) ((form) % 2 != 0)

/* The layout of chunks, as storage needs it. */
typedef struct
{
  guint64 identity;      /* of model, layout and numerics: extents with another identity are not
                          * used */
  guint n_layers;
  guint chunk_slots;
  /* Bytes of multiples of so many layers begin at whole LLM_DISK_SECTORs of the chunk, as in
   * memory: so they can be read without a copy. 0: none do. */
  guint sector_layers;
  /* By form: where the bytes of each layer begin in the chunk, and where the last ends: n_layers +
   * 1 entries; NULL for a form that is never used. */
  const gsize *offsets[LLM_KV_N_FORMS];
} LlmKvShape;

/* (transfer full): with its own copy of the offsets, reference-counted (g_rc_box_acquire()). */
LlmKvShape   *llm_kv_shape_copy       (const LlmKvShape  *shape);

typedef struct _LlmKvStorage LlmKvStorage;
typedef struct _LlmKvFolder LlmKvFolder;
typedef struct _LlmKvRead LlmKvRead;

/* Where a chunk lies; extent 0: nowhere. */
typedef struct
{
  guint64 extent;        /* number in its folder; rises with time */
  guint index;           /* among its chunks */
} LlmKvSlot;

/* A chunk, as it is written to storage and read back. */
typedef struct
{
  guint number;          /* chunk of its context, counted from the context's first, slid ones
                          * included */
  guint64 hash;          /* of all tokens up to the chunk's last, see llm_kv_hash_tokens() */
  LlmKvForm form;
  float density;         /* L3 */
  float n_rows;          /* that saw it, decayed */
} LlmKvRecord;

typedef void (*LlmKvSettled) (gpointer data);

/* @hash: 0 for the first chunk, then that of the one before. */
guint64       llm_kv_hash_tokens      (guint64            hash,
                                       const gint32      *tokens,
                                       guint              n);

/* Uses @folder, and creates it if needed; it may be no symbolic link, and no other process may use
 * it at the same time. Removes incomplete files of interrupted writes. Takes @disk in any case.
 * @limit: bytes in all, 0 for half of what is free; @app_limit: of one application's contexts, 0
 * for none. Fails with STORAGE. */
LlmKvStorage *llm_kv_storage_new      (const char        *folder,
                                       LlmDisk           *disk,
                                       guint64            limit,
                                       guint64            app_limit,
                                       GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Whether the folder that is used is still the one of that name. */
gboolean      llm_kv_storage_is_in_place (LlmKvStorage   *self);
/* All folders must be closed. Waits for writes under way. */
void          llm_kv_storage_free     (LlmKvStorage      *self);
LlmDisk      *llm_kv_storage_get_disk (LlmKvStorage      *self);
guint64       llm_kv_storage_get_bytes (LlmKvStorage     *self);
/* Removes folders of contexts that are not in @ids (element-type utf8, as a set), except open
 * ones. */
void          llm_kv_storage_sweep    (LlmKvStorage      *self,
                                       GHashTable        *ids);
/* Bytes of the folder of the context @id, open or not; 0 when it is missing. */
guint64       llm_kv_storage_get_folder_bytes (LlmKvStorage *self,
                                       const char        *id);
/* Removes a context's folder, which is not open. */
void          llm_kv_storage_remove   (LlmKvStorage      *self,
                                       const char        *id);

/* Cleans up after forgotten and superseded chunks in one folder: removes files, releases blocks.
 * TRUE when more is left. */
gboolean      llm_kv_storage_tidy     (LlmKvStorage      *self);
/* Whether nothing is left to clean up. */
gboolean      llm_kv_storage_is_tidy  (LlmKvStorage      *self);
/* Removes extents, oldest first, of the least recently used folders, open ones too: until @bytes
 * are free, or nothing is left. Returns the free bytes. */
guint64       llm_kv_storage_trim     (LlmKvStorage      *self,
                                       guint64            bytes);
/* Calls @func (@data), in a thread of the storage's own, when the blocks of all files that were
 * removed before are free. */
void          llm_kv_storage_settle   (LlmKvStorage      *self,
                                       LlmKvSettled       func,
                                       gpointer           data);

/* Opens the context @id (letters, digits, `-` and `_`) of the application @app. Begins to read the
 * headers of its extents, which arrive in llm_disk_poll(): until llm_kv_folder_is_open(), no chunk
 * is found. Extents that are not valid or of another identity are removed. Never fails: without a
 * folder, nothing is found and nothing written. @shape is copied. */
LlmKvFolder  *llm_kv_folder_open      (LlmKvStorage      *storage,
                                       const char        *app,
                                       const char        *id,
                                       const LlmKvShape  *shape);
/* Cancels reads and writes under way: no callback is called any more. */
void          llm_kv_folder_close     (LlmKvFolder       *self);
/* Whether the headers of its extents have been read. */
gboolean      llm_kv_folder_is_open   (LlmKvFolder       *self);

/* The latest version of chunk @number, if its tokens have @hash. */
gboolean      llm_kv_folder_find      (LlmKvFolder       *self,
                                       guint              number,
                                       guint64            hash,
                                       LlmKvSlot         *slot,
                                       LlmKvRecord       *record);
/* The numbers of all its chunks are below this. */
guint         llm_kv_folder_get_end   (LlmKvFolder       *self);
/* The chunk is not needed on storage any more. llm_kv_storage_tidy() removes an extent without live
 * chunks, and releases the blocks of dead ones when they are a third of it. */
void          llm_kv_folder_forget    (LlmKvFolder       *self,
                                       LlmKvSlot          slot);
/* Forgets all chunks except those of the context's tokens: @hashes of all its chunks, by number. */
void          llm_kv_folder_keep      (LlmKvFolder       *self,
                                       const guint64     *hashes,
                                       guint              n);
/* Links into @self the chunks below @n_chunks that @from has (same storage, application and shape),
 * without a copy. */
void          llm_kv_folder_link      (LlmKvFolder       *self,
                                       LlmKvFolder       *from,
                                       guint              n_chunks);

/* Links an equal chunk into @self, if another open folder of its application has it, without a
 * copy; @data: all its layers. */
gboolean      llm_kv_folder_adopt     (LlmKvFolder       *self,
                                       const LlmKvRecord *record,
                                       const guint8      *data,
                                       LlmKvSlot         *slot);

/* --- writing --- */

/* @slots: (nullable): of each chunk, in order; NULL with @error (STORAGE: disk full, quota, I/O),
 * which was logged. */
typedef void (*LlmKvWritten) (const LlmKvSlot *slots,
                              const GError    *error,
                              gpointer         data);

/* Writes an extent of @n chunks, 1 to LLM_KV_EXTENT_CHUNKS. @data[i]: the bytes of chunk i, all its
 * layers; they must stay until @done, which is called later, once. When storage is full, or the
 * application's limit is reached, the oldest extents of the least recently used folders are removed
 * first, open ones too: their chunks are not found any more, and reading them fails. */
void          llm_kv_folder_write     (LlmKvFolder         *self,
                                       const LlmKvRecord   *records,
                                       const guint8 *const *data,
                                       guint                n,
                                       LlmKvWritten         done,
                                       gpointer             user_data);

/* --- reading --- */

typedef struct
{
  LlmKvSlot slot;
  guint8 *data;          /* where the chunk's bytes go, laid out as its form says */
} LlmKvTarget;

/* The layers [@first_layer, @end_layer) of target @target have arrived; or, with @error, they can't
 * be read, or are damaged, and were forgotten. */
typedef void (*LlmKvArrived) (guint         target,
                              guint         first_layer,
                              guint         end_layer,
                              const GError *error,
                              gpointer      data);

/* No read writes to the targets any more. */
typedef void (*LlmKvReadEnded) (gpointer data);

/* Reads chunks, lower layers of all of them first, right into their memory. The targets are copied;
 * the memory they point to must stay until @ended (@ended_data), which is called once, when the
 * read was freed and no request of it is under way: from llm_kv_read_free() or later. @arrived is
 * called from llm_disk_poll(), for every layer of every target once, in rising order of layers for
 * each target; it may end the read, or close the folder. */
LlmKvRead    *llm_kv_folder_read      (LlmKvFolder       *self,
                                       const LlmKvTarget *targets,
                                       guint              n,
                                       LlmKvArrived       arrived,
                                       gpointer           data,
                                       LlmKvReadEnded     ended,
                                       gpointer           ended_data);
/* Bytes that it reads from storage. */
guint64       llm_kv_read_get_bytes   (LlmKvRead         *self);
/* Ends it, finished or not: @arrived is not called any more. */
void          llm_kv_read_free        (LlmKvRead         *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvStorage, llm_kv_storage_free)

G_END_DECLS
