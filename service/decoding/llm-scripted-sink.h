/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Passes an answer on to another sink, but for its end: then it calls a function instead. So a
 * script lets the service go away after the turn was kept, and before the caller hears of it. Main
 * thread.
 */

#pragma once

#include "decoding/llm-sink.h"

G_BEGIN_DECLS

/* (transfer full): @exit is called once, when nothing else is to be done on the main thread. */
LlmSink *llm_scripted_sink_new (LlmSink    *to,
                                GSourceFunc exit,
                                gpointer    data);

G_END_DECLS
