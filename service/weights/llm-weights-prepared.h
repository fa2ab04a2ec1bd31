/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The old names of llm-repacked-cache.h, until all callers use the new ones. */

#pragma once

#include "weights/llm-repacked-cache.h"

#define LlmPreparedCache LlmRepackedCache
#define LlmPreparedCache_autoptr LlmRepackedCache_autoptr
#define glib_autoptr_cleanup_LlmPreparedCache glib_autoptr_cleanup_LlmRepackedCache
#define llm_prepared_cache_new llm_repacked_cache_new
#define llm_prepared_cache_unref llm_repacked_cache_free
#define llm_prepared_copy_wait_for_all llm_repacked_wait_for_all
#define llm_weights_new_prepared llm_weights_new_repacked
