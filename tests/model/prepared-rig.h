/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What tests of prepared copies share: a folder with a model and a cache, loading,
 * and comparing all weights with those of the file. One thread; what goes wrong
 * ends the test.
 */

#pragma once

#include "weights/llm-repacked-private.h"
#include "support/llm-test-gguf.h"

G_BEGIN_DECLS

typedef struct
{
  char *folder;      /* of the test */
  char *cache;       /* below it */
  char *model;       /* a small one */
} Fixture;

/* What the fixture's model is made of. */
extern const LlmTestModel small_model;

void     set_up              (Fixture          *fixture,
                              gconstpointer     data);
void     tear_down           (Fixture          *fixture,
                              gconstpointer     data);

typedef struct
{
  LlmGguf *gguf;
  LlmHparams hparams;
  LlmSubModels *table;   /* (nullable): of segments */
  LlmLedger *ledger;
  LlmWeights *weights;
} Loaded;

/* The providers. */
typedef enum
{
  MAPPED,
  IN_MEMORY,
  IN_FILE,
  N_KINDS,
} Kind;

/* With segments: of @kind, in @cache for those that need it; waits until a new file has its name. */
void     load_segments       (Loaded           *loaded,
                              const char       *path,
                              Kind              kind,
                              guint             n_levels,
                              guint             n_inputs,
                              LlmRepackedCache *cache);
/* Value for value, all of @view: [out_count × in_count] (transfer full). */
float   *read_values         (const LlmWeightView *view);
/* Likewise of rows of a file, as packing them makes them. */
float *read_packed_values (const LlmWeightView *rows);

void     load_gguf           (Loaded           *loaded,
                              LlmGguf          *gguf,
                              LlmRepackedCache *cache,
                              guint             n_threads);
/* Waits until a new file has its name. */
void     load                (Loaded           *loaded,
                              const char       *path,
                              LlmRepackedCache *cache);
void     unload              (Loaded           *loaded);
/* All operators give the values that the mapped file gives; all matrices but the
 * embedding are packed. */
void     check_values        (const Loaded     *loaded);
/* Loads the fixture's model, with all it should be, and leaves one good file. */
void     load_and_check      (Fixture          *fixture,
                              LlmRepackedCache *cache);

/* (transfer full) (nullable): the one prepared file below @cache, NULL when there is
 * none; nothing else may be there. */
char    *find_file           (const char       *cache);
guint64  get_inode           (const char       *path);
/* A number that stays the same as long as the file is not replaced: inodes of
 * removed files are used again. */
gint64   get_change          (const char       *path);
/* Overwrites some of a file, from its end for negative offsets; with @keeps_time it
 * looks as if nothing had happened. */
void     overwrite           (const char       *path,
                              goffset           offset,
                              gconstpointer     bytes,
                              gsize             size,
                              gboolean          keeps_time);

G_END_DECLS
