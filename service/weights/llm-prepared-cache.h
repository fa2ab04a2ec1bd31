/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where prepared copies of models are kept: a folder of this user or, for the
 * system's service, one that all users may read, so that one copy in memory serves
 * them all. Everything in them can be removed at any time. Immutable but for its
 * count of references; any thread.
 */

#pragma once

#include <sys/types.h>

#include "weights/llm-prepared-copy.h"

G_BEGIN_DECLS

typedef struct _LlmPreparedCache LlmPreparedCache;

/* @folder: (nullable): where new copies go, made when it is needed; NULL keeps none.
 * @is_shared: all users may read it. @system_folder: (nullable): one that somebody
 * else fills, looked into first. @limit: bytes that @folder may hold, 0 for half of
 * what the disk has free. */
LlmPreparedCache *llm_prepared_cache_new   (const char            *folder,
                                            gboolean               is_shared,
                                            const char            *system_folder,
                                            guint64                limit);
LlmPreparedCache *llm_prepared_cache_ref   (LlmPreparedCache      *self);
void              llm_prepared_cache_unref (LlmPreparedCache      *self);

/* The copy that @plan describes: from a folder, or else packed now, into the folder or,
 * when that can't be (the log says why), into memory. @self: (nullable): always
 * memory. @n_threads: for packing, 0 for as many as the machine gives. */
LlmPreparedCopy  *llm_prepared_cache_get   (LlmPreparedCache      *self,
                                            const LlmPreparedPlan *plan,
                                            LlmGguf               *gguf,
                                            guint                  n_threads,
                                            GError               **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): makes the file if there is none, and waits until it is on the
 * disk: its path. */
char             *llm_prepared_cache_make  (LlmPreparedCache      *self,
                                            const LlmPreparedPlan *plan,
                                            LlmGguf               *gguf,
                                            guint                  n_threads,
                                            GError               **error) G_GNUC_WARN_UNUSED_RESULT;

/* Whether weights may be read from a file of @owner with @mode: nobody but @self,
 * the administrator or, for the system's files, the user of the service can have
 * written it. @service: (uid_t) -1 for none. */
gboolean          llm_prepared_is_trusted  (uid_t                  owner,
                                            mode_t                 mode,
                                            uid_t                  self,
                                            uid_t                  service);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPreparedCache, llm_prepared_cache_unref)

G_END_DECLS
