/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The insides of chunk storage: files, their names in contexts' folders, and who is
 * at work with them. The executor's thread owns all of it.
 */

#pragma once

#include "kv/disk/llm-kv-cleaner.h"
#include "kv/disk/llm-kv-extent.h"

G_BEGIN_DECLS

typedef struct _LlmKvHome LlmKvHome;
typedef struct _LlmKvWrite LlmKvWrite;
typedef struct _LlmKvOpening LlmKvOpening;

/* A file on the disk; folders of one application may hold it together. */
typedef struct
{
  guint64 inode;
  guint64 bytes;         /* that it takes on the disk */
  guint64 app;
  guint n_holders;       /* links, and writes under way */
} LlmKvFile;

/* An extent under its name in a folder. Counted by references: it may be removed while it is
 * read. */
typedef struct
{
  guint64 number;
  LlmKvFile *file;       /* (nullable): NULL when it has been removed */
  LlmKvExtent *extent;   /* (nullable) (owned): as long as the folder is open */
  guint8 *dead;          /* (owned): [n_chunks] with extent: superseded or forgotten */
  guint n_live;
  guint64 waste;         /* bytes of dead chunks that still have their blocks */
} LlmKvLink;

/* What there is of a context, open or not. */
struct _LlmKvHome
{
  LlmKvStorage *storage; /* (unowned) */
  char *id;
  guint64 app;           /* hash of its name; 0 when it is not known */
  guint64 used;          /* rises with each use of any folder */
  GPtrArray *links;      /* (element-type LlmKvLink) (owned), by rising numbers */
  LlmKvFolder *folder;   /* (nullable) (unowned): when it is open */
};

struct _LlmKvStorage
{
  char *path;
  int fd;
  LlmDisk *disk;         /* (owned) */
  LlmKvCleaner *cleaner; /* (owned) */
  guint64 limit;
  guint64 app_limit;
  GHashTable *homes;     /* (element-type utf8 LlmKvHome) (owned) */
  GHashTable *files;     /* (element-type guint64 LlmKvFile) (owned), by inode */
  guint64 bytes;         /* of all files */
  guint64 n_uses;
  gboolean is_failing;   /* the last write failed, which was logged */
};

/* The latest of a number. */
typedef struct
{
  LlmKvLink *link;       /* (unowned): of the home's */
  guint index;
} LlmKvPlace;

struct _LlmKvFolder
{
  LlmKvHome *home;       /* (unowned) */
  LlmKvShape shape;
  gsize *offsets;        /* (owned): what shape points at */
  guint64 next;          /* number of the next extent */
  LlmKvOpening *opening; /* (nullable) (unowned): while headers are read */
  GHashTable *places;    /* (element-type guint LlmKvPlace) (owned), by number of chunk */
  GPtrArray *writes;     /* (element-type LlmKvWrite) (unowned): under way */
  GPtrArray *reads;      /* (element-type LlmKvRead) (unowned): not ended */
};

#define LLM_KV_EXTENT_SUFFIX ".kv"
#define LLM_KV_PART_SUFFIX ".part"
/* Of a number in hexadecimal digits and a suffix. */
#define LLM_KV_NAME_BYTES 32

void        llm_kv_extent_name         (guint64        number,
                                        const char    *suffix,
                                        char          *name);

/* Whether it is a name that can't lead out of the storage's folder. */
gboolean    llm_kv_is_id               (const char    *id);

/* --- homes --- */

/* (transfer none) */
LlmKvHome  *llm_kv_home_new            (LlmKvStorage  *storage,
                                        const char    *id);
/* Leaves what is on the disk. */
void        llm_kv_home_free           (LlmKvHome     *self);
/* The application whose folder this is; 0 when that is not known. */
guint64     llm_kv_home_read_app       (int            fd);
/* Removes all extents; the home is gone when it is not open. */
void        llm_kv_home_remove         (LlmKvHome     *self);
/* Without extents a folder that nobody has open is of no use: the home is gone then. */
void        llm_kv_home_remove_if_empty (LlmKvHome    *self);
/* Opens a context's folder, which may be missing: -errno. May wait for the disk. */
int         llm_kv_home_open_fd        (LlmKvHome     *self);
/* The same by the storage's folder and the context's id, and opens an extent's file there; any
 * thread. */
int         llm_kv_home_open_id        (int            storage_fd,
                                        const char    *id);
int         llm_kv_extent_open_fd      (int            folder_fd,
                                        guint64        number,
                                        int            flags);
/* Makes it where it is missing. */
int         llm_kv_home_make_fd        (LlmKvHome     *self);
guint64     llm_kv_home_count_bytes    (LlmKvHome     *self);
/* It was used now. @fd: of its folder, or -1. */
void        llm_kv_home_touch          (LlmKvHome     *self,
                                        int            fd);
/* The same on the disk alone; any thread. */
void        llm_kv_home_touch_fd       (int            fd);

/* --- storage --- */

/* (transfer none): the file of this inode, with one holder more. */
LlmKvFile  *llm_kv_storage_hold_file   (LlmKvStorage  *self,
                                        guint64        inode,
                                        guint64        bytes,
                                        guint64        app);
void        llm_kv_storage_drop_file   (LlmKvStorage  *self,
                                        LlmKvFile     *file);
/* Removes what was used least recently in other folders than @home's until @bytes more fit. Fails
 * with STORAGE. */
gboolean    llm_kv_storage_make_room   (LlmKvStorage  *self,
                                        LlmKvHome     *home,
                                        guint64        bytes,
                                        GError       **error);
/* Removes one extent of others; FALSE when there is none. */
gboolean    llm_kv_storage_evict       (LlmKvStorage  *self,
                                        LlmKvHome     *except);

/* --- links --- */

LlmKvLink  *llm_kv_link_new            (guint64        number,
                                        LlmKvFile     *file);
LlmKvLink  *llm_kv_link_ref            (LlmKvLink     *self);
void        llm_kv_link_unref          (LlmKvLink     *self);
/* Takes @extent; NULL when the folder is closed. */
void        llm_kv_link_set_extent     (LlmKvLink     *self,
                                        LlmKvExtent   *extent);
/* Takes @link. */
void        llm_kv_home_add_link       (LlmKvHome     *self,
                                        LlmKvLink     *link);
/* (nullable) (transfer none) */
LlmKvLink  *llm_kv_home_find_link      (LlmKvHome     *self,
                                        guint64        number);
/* Removes the file's name, and the link. */
void        llm_kv_home_remove_link    (LlmKvHome     *self,
                                        LlmKvLink     *link);

/* --- folders --- */

/* llm-kv-folder-open.c: reads what describes the extents of the folder's home, if there are any. */
void        llm_kv_folder_begin_opening (LlmKvFolder  *self);
/* What has not come yet does not come any more. */
void        llm_kv_folder_end_opening  (LlmKvFolder   *self);

/* Enters the chunks of @link, which is one of the home's and may be gone afterwards: older versions
 * of them are dead. */
void        llm_kv_folder_index        (LlmKvFolder   *self,
                                        LlmKvLink     *link);
/* The link is about to go. */
void        llm_kv_folder_unindex      (LlmKvFolder   *self,
                                        LlmKvLink     *link);
/* Ends without a callback. */
void        llm_kv_folder_write_cancel (LlmKvWrite    *self);
void        llm_kv_folder_read_cancel  (LlmKvRead     *self);

G_END_DECLS
