/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-weight-source.h"

static void
read_from_disk (gpointer    data,
                int         fd,
                guint64     offset,
                gpointer    memory,
                gsize       length,
                LlmDiskDone done,
                gpointer    answer)
{
  llm_disk_read_into (data, LLM_DISK_WEIGHTS, fd, offset, memory, length, done, answer);
}

static void
cancel_on_disk (gpointer      data,
                gconstpointer answer)
{
  llm_disk_cancel (data, answer);
}

static guint
poll_disk (gpointer data,
           gint64   timeout_us)
{
  return llm_disk_poll (data, timeout_us);
}

LlmWeightSource
llm_weight_source_of_disk (LlmDisk *disk)
{
  return (LlmWeightSource) { read_from_disk, cancel_on_disk, poll_disk, disk };
}
