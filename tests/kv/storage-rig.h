/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A folder of chunks with a disk of its own, and what is written to it and read back: a
 * chunk's bytes follow from its number and a seed, so a wrong one shows wherever it
 * arrives. One thread, but for the calls that fail, which the disk's threads look at.
 */

#pragma once

#include "kv/disk/llm-kv-extent.h"

G_BEGIN_DECLS

#define N_LAYERS 5
/* What spoil() leaves where a chunk may not arrive any more. */
#define SPOILT 0xee
#define SMALL 1
/* A chunk's group is some ten KiB then, which no border of a request respects. */
#define LARGE 97
#define WAIT_US (60 * G_USEC_PER_SEC)
/* Of the slow disk, for each answer. */
#define LATENCY_US 200

typedef struct
{
  LlmKvStorage *storage;
  char *folder;
  const char *backend;
  guint64 limit;
  guint64 app_limit;
  LlmKvShape shape;
  gsize offsets[LLM_KV_N_FORMS][N_LAYERS + 1];
  guint n_logged;
} StorageRig;

typedef struct
{
  guint n;
  LlmKvSlot slots[LLM_KV_EXTENT_CHUNKS];
  guint8 *data[LLM_KV_EXTENT_CHUNKS];
  GError *error;
  gboolean has_ended;
} RigWrite;

typedef struct
{
  StorageRig *rig;
  guint n;
  guint *numbers;
  LlmKvRecord *records;
  LlmKvTarget *targets;
  guint *n_layers;       /* that have arrived, in rising order */
  guint n_failed;
  guint n_ended;
  guint n_first;         /* chunks that had their first layer when the first had all */
  LlmKvFolder *closes;   /* (nullable): closed by the first callback */
  gboolean is_under_way; /* something may be read to the targets */
} RigRead;

typedef struct
{
  const char *name;
  void (*func) (StorageRig *rig, gconstpointer data);
  gboolean needs_threads;  /* where calls are made to fail */
} RigTest;

/* --- calls of the system --- */

/* Calls that work before one fails; negative for all. */
extern int rig_reads_left;
extern int rig_writes_left;
/* Calls that fail before they work again. */
extern int rig_fallocates_failing;
extern int rig_renames_failing;

void         rig_set_calls      (int         *calls,
                                 int          n);

/* --- chunks --- */

/* Layers 1 and 3 have windows. */
void         rig_make_shape     (StorageRig  *rig,
                                 guint        scale);
LlmKvForm    rig_get_form       (guint        number);
/* Text of a context with this seed. */
guint64      rig_get_hash       (guint        number,
                                 guint        seed);
gsize        rig_get_bytes      (StorageRig  *rig,
                                 LlmKvForm    form);
void         rig_fill_chunk     (guint8      *data,
                                 gsize        n,
                                 guint64      hash);

/* --- the folder --- */

/* Of the rig's backend. (transfer full) */
LlmDisk     *rig_new_disk       (StorageRig  *rig);
void         rig_make_storage   (StorageRig  *rig);
/* As when the service ends and starts. */
void         rig_restart        (StorageRig  *rig);
LlmKvFolder *rig_open_folder    (StorageRig  *rig,
                                 const char  *app,
                                 const char  *id);
/* Something must arrive. */
void         rig_poll_disk      (StorageRig  *rig);

void         rig_begin_write    (StorageRig  *rig,
                                 LlmKvFolder *folder,
                                 RigWrite    *write,
                                 guint        first,
                                 guint        n,
                                 guint        seed);
void         rig_end_write      (RigWrite    *write);
/* FALSE when that failed. */
gboolean     rig_write_chunks   (StorageRig  *rig,
                                 LlmKvFolder *folder,
                                 guint        first,
                                 guint        n,
                                 guint        seed);

RigRead     *rig_read_new       (StorageRig  *rig,
                                 guint        n);
void         rig_read_free      (RigRead     *read);
void         rig_set_target     (RigRead     *read,
                                 guint        target,
                                 LlmKvSlot    slot,
                                 const LlmKvRecord *record);
/* The LlmKvArrived of a RigRead: what comes must be right. */
void         rig_on_arrived     (guint        target,
                                 guint        first_layer,
                                 guint        end_layer,
                                 const GError *error,
                                 gpointer     data);
/* Its LlmKvReadEnded. rig_read_free() waits for it. */
void         rig_on_read_ended  (gpointer     data);
/* From here on nobody writes to the targets. */
void         rig_spoil          (RigRead     *read);
/* Reads every @step-th chunk of those that are found, in falling order; returns how many
 * of them arrived. @n_failed: (out) (nullable): NULL when none may fail. */
guint        rig_read_chunks    (StorageRig  *rig,
                                 LlmKvFolder *folder,
                                 guint        seed,
                                 guint        step,
                                 guint       *n_failed);

/* --- files --- */

char        *rig_get_path       (StorageRig  *rig,
                                 const char  *id,
                                 const char  *name);
/* (transfer full): the extents of a context, by name. */
GPtrArray   *rig_list_files     (StorageRig  *rig,
                                 const char  *id);
guint        rig_count_files    (StorageRig  *rig,
                                 const char  *id);
guint64      rig_count_disk_bytes (StorageRig *rig,
                                 const char  *id);

/* A context of one application, with an extent of 16 chunks, closed again. */
gboolean     rig_write_context  (StorageRig  *rig,
                                 const char  *app,
                                 const char  *id);
/* Of the contexts "a" to "e" those of @ids have a file. */
void         rig_assert_contexts (StorageRig *rig,
                                 const char  *ids);

/* Runs all with io_uring, with threads, and with a disk that takes a while for each answer, as
 * /SUITE/BACKEND/NAME. */
int          rig_run_tests      (int          argc,
                                 char        *argv[],
                                 const char  *suite,
                                 const RigTest *tests,
                                 guint        n_tests);

G_END_DECLS
