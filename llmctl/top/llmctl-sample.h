/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One look at the service after the other, as “llmctl top” takes them: without starting it,
 * without waiting, and with no more calls than something that changed is worth. Everything
 * in a sample comes from outside. Main thread.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* What was seen at a time. The variants are what the interface says, or NULL for what was
 * not told. */
typedef struct
{
  gint64 time_us;          /* of the monotonic clock */
  gboolean is_running;
  gboolean is_silent;      /* it runs, but did not answer in time */
  GVariant *service;       /* (nullable): a{sv} of the properties */
  GVariant *memory;        /* (nullable): a{sv} of the properties */
  GVariant *statistics;    /* (nullable): a{sv} of GetStatistics */
  GVariant *model;         /* (nullable): a{sv} of the properties of the one in use */
  GVariant *apps;          /* (nullable): aa{sv} of ListApps: the caller's, or all for root */
  GVariant *contexts;      /* (nullable): a(oa{sv}) of ListContexts: the caller's */
  GHashTable *memories;    /* (element-type utf8 GVariant): of these contexts by path, a{sv} of
                            * GetMemory; not of all when there are many */
  GPtrArray *states;       /* (element-type utf8): of the caller's calls under way */
} LlmctlSample;

typedef struct _LlmctlSampler LlmctlSampler;

/* @sample: (transfer full) */
typedef void (*LlmctlSampled) (LlmctlSample *sample,
                               gpointer      data);

/* @bus: one that tells the default main context. */
LlmctlSampler *llmctl_sampler_new      (GDBusConnection *bus,
                                        LlmctlSampled    sampled,
                                        gpointer         data);
void           llmctl_sampler_free     (LlmctlSampler   *self);

/* Begins to look, unless it does already; @sampled is called later. */
void           llmctl_sampler_look     (LlmctlSampler   *self);
/* The service has appeared or vanished: what is remembered of it is of another one. */
void           llmctl_sampler_forget   (LlmctlSampler   *self,
                                        gboolean         is_running);

void           llmctl_sample_free      (LlmctlSample    *self);
/* The counter @key of GetStatistics; 0 when it is not there. */
guint64        llmctl_sample_count     (const LlmctlSample *self,
                                        const char         *key);
gboolean       llmctl_sample_has       (const LlmctlSample *self,
                                        const char         *key);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlSample, llmctl_sample_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlSampler, llmctl_sampler_free)

G_END_DECLS
