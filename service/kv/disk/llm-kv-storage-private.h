/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The insides of chunk storage, from below: llm-kv-folder.c: files, their names in contexts'
 * folders, which chunks are where. llm-kv-link.c: files that folders share. llm-kv-room.c: limits,
 * and what is removed. llm-kv-open.c, llm-kv-read.c, llm-kv-write-extent.c: what the disk's queue
 * does for a folder. llm-kv-storage.c: all folders. The executor's thread owns all of it.
 */

#pragma once

#include "base/llm-each.h"
#include "kv/disk/llm-kv-extent.h"

G_BEGIN_DECLS

typedef struct _LlmKvWrite LlmKvWrite;
typedef struct _LlmKvOpening LlmKvOpening;

/* --- llm-kv-cleaner.c: a thread that gives blocks back to file systems, which can take longer than
 * a call should wait: the last close of a removed file, and holes where chunks are dead --- */

typedef struct _LlmKvCleaner LlmKvCleaner;

typedef struct
{
  guint64 begin;
  guint64 end;
} LlmKvRange;

typedef void (*LlmKvCleanerFunc) (gpointer data);

LlmKvCleaner *llm_kv_cleaner_new   (void);
/* Waits for the thread. */
void          llm_kv_cleaner_free  (LlmKvCleaner *self);
/* Removes a name; the blocks of the file are freed later. */
void          llm_kv_cleaner_unlink (LlmKvCleaner *self,
                                    int           folder_fd,
                                    const char   *name);
/* Takes @fd, and closes it. */
void          llm_kv_cleaner_close (LlmKvCleaner *self,
                                    int           fd);
/* Writes @header (transfer full) to the beginning of @fd (transfer full), and releases the blocks
 * in @ranges (transfer full) (element-type LlmKvRange). */
void          llm_kv_cleaner_punch (LlmKvCleaner *self,
                                    int           fd,
                                    GBytes       *header,
                                    GArray       *ranges);
/* Calls @func (@data) in the thread, when all earlier jobs are done. */
void          llm_kv_cleaner_call  (LlmKvCleaner *self,
                                    LlmKvCleanerFunc func,
                                    gpointer      data);
/* Takes the size of a file after punching; FALSE when no result is left. */
gboolean      llm_kv_cleaner_take_result (LlmKvCleaner *self,
                                    guint64      *inode,
                                    guint64      *bytes);

/* --- what there is --- */

/* A file on the disk; folders of one application may share it. */
typedef struct
{
  guint64 inode;
  guint64 bytes;         /* that it takes on the disk */
  guint64 app;
  guint n_holders;       /* links, and writes under way */
} LlmKvFile;

/* An extent under its name in a folder. Reference-counted: it may be removed while it is read. */
typedef struct
{
  guint64 number;
  LlmKvFile *file;       /* (nullable): NULL when it has been removed */
  LlmKvExtent *extent;   /* (nullable) (owned): as long as the folder is open */
  guint8 *dead;          /* (owned): [n_chunks] with extent: superseded or forgotten */
  guint n_live;
  guint64 waste;         /* bytes of dead chunks that still have their blocks */
  gboolean is_untidy;    /* chunks of it died since it was tidied */
} LlmKvLink;

/* A context on storage, opened or not. */
struct _LlmKvFolder
{
  LlmKvStorage *storage; /* (unowned) */
  char *id;
  guint64 app;           /* hash of its name; 0: unknown */
  guint64 used;          /* rises with each use of any folder */
  GPtrArray *links;      /* (element-type LlmKvLink) (owned), by rising numbers */
  gboolean is_untidy;    /* one of the links is, and storage has queued the folder */

  gboolean is_opened;    /* by llm_kv_folder_open(): the fields below are valid only then */
  LlmKvShape *shape;     /* (owned) */
  guint64 next;          /* number of the next extent */
  LlmKvOpening *opening; /* (nullable) (unowned): while headers are read */
  GHashTable *places;    /* (element-type LlmKvPlace) (owned), by number of chunk and hash */
  GPtrArray *writes;     /* (element-type LlmKvWrite) (unowned): under way */
  GPtrArray *reads;      /* (element-type LlmKvRead) (unowned): not ended */
};

struct _LlmKvStorage
{
  char *path;
  int fd;
  LlmDisk *disk;         /* (owned) */
  LlmKvCleaner *cleaner; /* (owned) */
  guint64 limit;
  guint64 app_limit;
  GHashTable *folders;   /* (element-type utf8 LlmKvFolder) (owned) */
  GHashTable *files;     /* (element-type guint64 LlmKvFile) (owned), by inode */
  GQueue untidy;         /* (element-type LlmKvFolder) (unowned) */
  guint64 bytes;         /* of all files */
  guint64 n_uses;
  gboolean is_failing;   /* the last write failed, which was logged */
};

/* The latest version of a chunk, by number and hash. */
typedef struct
{
  guint number;
  guint64 hash;
  LlmKvLink *link;       /* (unowned): of the folder's */
  guint index;
} LlmKvPlace;

#define LLM_KV_EXTENT_SUFFIX ".kv"
#define LLM_KV_PART_SUFFIX ".part"
/* Length of a name: a number in hexadecimal digits and a suffix. */
#define LLM_KV_NAME_BYTES 32

/* --- llm-kv-folder.c --- */

void        llm_kv_extent_name         (guint64        number,
                                        const char    *suffix,
                                        char          *name);
/* Opens a context's folder, which may be missing, by the storage's folder and the context's id; the
 * second opens an extent's file there. They return -errno on failure. May wait for the disk; any
 * thread. */
int         llm_kv_folder_open_id      (int            storage_fd,
                                        const char    *id);
int         llm_kv_extent_open_fd      (int            folder_fd,
                                        guint64        number,
                                        int            flags);
int         llm_kv_folder_open_fd      (LlmKvFolder   *self);
/* Removes a file of the folder; its blocks are freed later. */
void        llm_kv_folder_unlink       (LlmKvFolder   *self,
                                        guint64        number,
                                        const char    *suffix);
/* Opens the folder, and creates it if it is missing. */
int         llm_kv_folder_make_fd      (LlmKvFolder   *self);
/* The application whose folder this is; 0 when it is unknown. */
guint64     llm_kv_folder_read_app     (int            fd);
/* Marks the folder as used now, on the disk, for the next start. Any thread. */
void        llm_kv_folder_touch        (LlmKvFolder   *self);
void        llm_kv_folder_touch_fd     (int            fd);

/* (transfer none) */
LlmKvFolder *llm_kv_folder_new         (LlmKvStorage  *storage,
                                        const char    *id);
/* Leaves the files on the disk. */
void        llm_kv_folder_free         (LlmKvFolder   *self);
/* Removes all extents, and the folder, too, unless it is open. */
void        llm_kv_folder_remove       (LlmKvFolder   *self);
/* Removes a folder without extents, unless it is open. */
void        llm_kv_folder_remove_if_empty (LlmKvFolder *self);
guint64     llm_kv_folder_count_bytes  (LlmKvFolder   *self);

/* (transfer none): the file of this inode, with one more holder. */
LlmKvFile  *llm_kv_storage_hold_file   (LlmKvStorage  *self,
                                        guint64        inode,
                                        guint64        bytes,
                                        guint64        app);
void        llm_kv_storage_drop_file   (LlmKvStorage  *self,
                                        LlmKvFile     *file);

LlmKvLink  *llm_kv_link_new            (guint64        number,
                                        LlmKvFile     *file);
void        llm_kv_link_unref          (LlmKvLink     *self);
/* Takes @extent; NULL when the folder is closed. */
void        llm_kv_link_set_extent     (LlmKvLink     *self,
                                        LlmKvExtent   *extent);
/* Takes @link. */
void        llm_kv_folder_add_link     (LlmKvFolder   *self,
                                        LlmKvLink     *link);
/* (nullable) (transfer none) */
LlmKvLink  *llm_kv_folder_find_link    (LlmKvFolder   *self,
                                        guint64        number);
/* Removes the file's name, and the link. */
void        llm_kv_folder_remove_link  (LlmKvFolder   *self,
                                        LlmKvLink     *link);
/* An empty table of where chunks are. */
GHashTable *llm_kv_folder_new_places   (void);
/* (nullable) (transfer none) */
const LlmKvPlace *llm_kv_folder_find_place (LlmKvFolder *self,
                                        guint          number,
                                        guint64        hash);
/* Marks the chunk as dead; the second makes it live again, and marks the folder's other copy of it
 * as dead. */
void        llm_kv_folder_bury         (LlmKvFolder   *self,
                                        LlmKvLink     *link,
                                        guint          index);
void        llm_kv_folder_revive       (LlmKvFolder   *self,
                                        LlmKvLink     *link,
                                        guint          index);
/* Enters the chunks of @link; older versions of them are dead. A link without an extent is
 * removed. */
void        llm_kv_folder_index        (LlmKvFolder   *self,
                                        LlmKvLink     *link);
/* The context has written @by: chunks of other tokens at the same places are dead. */
void        llm_kv_folder_supersede    (LlmKvFolder   *self,
                                        const LlmKvLink *by);

/* --- llm-kv-room.c --- */

/* Removes extents without chunks, and releases the blocks of dead chunks. */
void        llm_kv_folder_tidy         (LlmKvFolder   *self);
/* Updates the sizes of files that the cleaner's thread made smaller. */
void        llm_kv_storage_update      (LlmKvStorage  *self);
/* Removes the least recently used extents, in other folders than @folder, until @bytes more fit.
 * Fails with STORAGE. */
gboolean    llm_kv_storage_make_room   (LlmKvStorage  *self,
                                        LlmKvFolder   *folder,
                                        guint64        bytes,
                                        GError       **error);
/* Removes one extent of the least recently used other folder (of @app, or 0 for any); FALSE when
 * none is left. */
gboolean    llm_kv_storage_evict       (LlmKvStorage  *self,
                                        guint64        app,
                                        LlmKvFolder   *except);

/* --- llm-kv-open.c, llm-kv-read.c, llm-kv-write-extent.c --- */

/* Begins to read the headers of the folder's extents, if it has any. */
void        llm_kv_folder_begin_opening (LlmKvFolder  *self);
/* Drops headers that have not arrived. */
void        llm_kv_folder_end_opening  (LlmKvFolder   *self);
/* Ends it without a callback. */
void        llm_kv_folder_write_cancel (LlmKvWrite    *self);
void        llm_kv_folder_read_cancel  (LlmKvRead     *self);

G_END_DECLS
