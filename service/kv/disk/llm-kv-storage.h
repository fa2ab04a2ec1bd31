/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chunks on storage (L7, L15). Each context has a folder, CHUNKS/ID, with extents: files of
 * neighbouring chunks that were written together, ordered by groups of layers so that
 * the part of all chunks that the first layers need is one read. An extent describes
 * itself: model identity, and of each chunk its number, form, the hash of all tokens up to
 * its end, density, and a checksum per layer group. Everything here is a cache of
 * the text: what is damaged, half written or too much is dropped, and computed again.
 *
 * An extent appears under its name when it is complete. Contexts of one application share
 * extents as hard links, so that what a fork has in common with its origin, and what contexts
 * that begin alike have in common, lies there once and goes with the last of them.
 *
 * The executor's thread owns all of it.
 */

#pragma once

#include "io/llm-disk.h"
#include "kernels/llk-kv.h"

G_BEGIN_DECLS

/* How a chunk's bytes look: its format, and whether layers with a window were left out, since
 * the chunk lies behind it. */
typedef guint8 LlmKvForm;
/* Chunks of an extent at most. */
#define LLM_KV_EXTENT_CHUNKS 256
#define LLM_KV_N_FORMS (2 * LLK_N_KV_FORMATS)
#define LLM_KV_FORM(format, is_behind) ((LlmKvForm) (2 * (format) + ((is_behind) ? 1 : 0)))
#define LLM_KV_FORM_FORMAT(form) ((LlkKvFormat) ((form) / 2))
#define LLM_KV_FORM_IS_BEHIND(form) ((form) % 2 != 0)

/* What storage has to know of chunks. */
typedef struct
{
  guint64 identity;      /* of model, layout and numerics: others' extents are not used */
  guint n_layers;
  guint chunk_slots;
  /* Bytes of multiples of so many layers begin at whole LLM_DISK_SECTORs of the chunk, as its memory
   * does: so they can be read to where they belong. 0: none do. */
  guint sector_layers;
  /* Of each form: where a layer's bytes begin in the chunk's, and where the last ends:
   * n_layers + 1 entries; NULL for a form that never comes. */
  const gsize *offsets[LLM_KV_N_FORMS];
} LlmKvShape;

/* (transfer full): with offsets of its own, counted by references (g_rc_box_acquire()). */
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

/* A chunk as it goes to storage and comes from it. */
typedef struct
{
  guint number;          /* chunk of its context, counted from the first that ever was */
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

/* Uses, and makes, @folder, which may be no symbolic link, and which no other process may use at the
 * same time; removes leftovers of
 * writes that did not end. Takes @disk in any case. @limit: bytes in all, 0 for half of what is
 * free; @app_limit: of one application's contexts, 0 for none. Fails with STORAGE. */
LlmKvStorage *llm_kv_storage_new      (const char        *folder,
                                       LlmDisk           *disk,
                                       guint64            limit,
                                       guint64            app_limit,
                                       GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Whether the folder that is used is still there under its name. */
gboolean      llm_kv_storage_is_in_place (LlmKvStorage   *self);
/* All folders must be closed. Waits for writes under way. */
void          llm_kv_storage_free     (LlmKvStorage      *self);
LlmDisk      *llm_kv_storage_get_disk (LlmKvStorage      *self);
guint64       llm_kv_storage_get_bytes (LlmKvStorage     *self);
/* Removes what belongs to no context of @ids (element-type utf8, as a set), except folders that are
 * open. */
void          llm_kv_storage_sweep    (LlmKvStorage      *self,
                                       GHashTable        *ids);
/* Bytes of the folder of the context @id, open or not; 0 when there is none. */
guint64       llm_kv_storage_get_folder_bytes (LlmKvStorage *self,
                                       const char        *id);
/* Removes a context's folder, which is not open. */
void          llm_kv_storage_remove   (LlmKvStorage      *self,
                                       const char        *id);

/* Does what forgotten and superseded chunks left to do in one folder: removes files, gives blocks
 * back. TRUE when there is more. */
gboolean      llm_kv_storage_tidy     (LlmKvStorage      *self);
/* Whether nothing is left to do of that. */
gboolean      llm_kv_storage_is_tidy  (LlmKvStorage      *self);
/* Removes extents, oldest first, of the folders that were not used for longest, open ones too: until
 * @bytes are free, or nothing is left. Returns how many are. */
guint64       llm_kv_storage_trim     (LlmKvStorage      *self,
                                       guint64            bytes);
/* Calls @func (@data), in a thread of the storage's own, when the file system has back what was
 * removed before. */
void          llm_kv_storage_settle   (LlmKvStorage      *self,
                                       LlmKvSettled       func,
                                       gpointer           data);

/* The context @id (letters, digits, `-` and `_`) of the application @app. Begins to read the
 * descriptions of its extents, and answers in llm_disk_poll(): until llm_kv_folder_is_open(), none
 * is found. Those that are not valid or of another identity are removed. Never fails: without a
 * folder, nothing is found and nothing written. @shape is copied. */
LlmKvFolder  *llm_kv_folder_open      (LlmKvStorage      *storage,
                                       const char        *app,
                                       const char        *id,
                                       const LlmKvShape  *shape);
/* Cancels what is under way: no callback comes any more. */
void          llm_kv_folder_close     (LlmKvFolder       *self);
/* Whether it is known what lies there. */
gboolean      llm_kv_folder_is_open   (LlmKvFolder       *self);

/* The latest version of chunk @number, if its tokens have @hash. */
gboolean      llm_kv_folder_find      (LlmKvFolder       *self,
                                       guint              number,
                                       guint64            hash,
                                       LlmKvSlot         *slot,
                                       LlmKvRecord       *record);
/* Numbers of chunks that lie here end below. */
guint         llm_kv_folder_get_end   (LlmKvFolder       *self);
/* The chunk is not needed there. llm_kv_storage_tidy() removes its extent with the last one, and
 * releases the blocks of those that went before, once they are a third of it. */
void          llm_kv_folder_forget    (LlmKvFolder       *self,
                                       LlmKvSlot          slot);
/* Nothing is needed there but chunks of the context's tokens: @hashes: of all that it has, by
 * number. */
void          llm_kv_folder_keep      (LlmKvFolder       *self,
                                       const guint64     *hashes,
                                       guint              n);
/* Gives @self the chunks below @n_chunks that @from (same storage, application and shape) has,
 * without a copy. */
void          llm_kv_folder_link      (LlmKvFolder       *self,
                                       LlmKvFolder       *from,
                                       guint              n_chunks);

/* Gives @self the very same chunk, if another folder of its application that is open has it, without
 * a copy; @data: all its layers. */
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
 * layers; they must stay until @done, which is called later, once. When all is full, or all that
 * the application may have, the oldest extents of the folders that were not used for longest go
 * first, open ones too: what is gone is not found any more, and reading it fails. */
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

/* The layers [@first_layer, @end_layer) of target @target are there; or, with @error, they
 * can't be read, or are damaged, and were forgotten. */
typedef void (*LlmKvArrived) (guint         target,
                              guint         first_layer,
                              guint         end_layer,
                              const GError *error,
                              gpointer      data);

/* Nothing is read to the targets any more. */
typedef void (*LlmKvReadEnded) (gpointer data);

/* Reads chunks, lower layers of all of them first, right to where they belong. The targets are
 * copied; what they point at must stay until @ended (@ended_data), which comes once, when the read was
 * freed and nothing of it is under way: from llm_kv_read_free() or later. @arrived comes from
 * llm_disk_poll(), for every layer of every target once, in rising order of layers for each target; it
 * may end the read, or close the folder. */
LlmKvRead    *llm_kv_folder_read      (LlmKvFolder       *self,
                                       const LlmKvTarget *targets,
                                       guint              n,
                                       LlmKvArrived       arrived,
                                       gpointer           data,
                                       LlmKvReadEnded     ended,
                                       gpointer           ended_data);
/* Bytes that it reads from storage. */
guint64       llm_kv_read_get_bytes   (LlmKvRead         *self);
/* Ends it, finished or not: @arrived comes no more. */
void          llm_kv_read_free        (LlmKvRead         *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvStorage, llm_kv_storage_free)

G_END_DECLS
