/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The reader of weights that stream: the queue of the disk, or in tests one that is late and
 * fails. */

#pragma once

#include "io/llm-disk.h"

/* The functions are those of the same names of llm-disk.h, of class LLM_DISK_WEIGHTS. */
typedef struct
{
  void  (*read)   (gpointer       data,
                   int            fd,
                   guint64        offset,
                   gpointer       memory,
                   gsize          length,
                   LlmDiskDone    done,
                   gpointer       answer);
  void  (*cancel) (gpointer       data,
                   gconstpointer  answer);
  guint (*poll)   (gpointer       data,
                   gint64         timeout_us);
  gpointer data;
} LlmWeightSource;

/* @disk outlives what uses it. */
LlmWeightSource llm_weight_source_of_disk (LlmDisk *disk);
