/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For the thread sanitizer, which does not see into GLib: its locks there are made of futexes in a
 * library without instrumentation. Included before everything else, this makes the
 * locks of our own sources those of libc, which the sanitizer knows.
 */

#pragma once

#include <glib.h>
#include <pthread.h>

#define GMutex pthread_mutex_t
#define GCond pthread_cond_t
#define g_mutex_init(mutex) pthread_mutex_init (mutex, NULL)
#define g_mutex_clear(mutex) pthread_mutex_destroy (mutex)
#define g_mutex_lock(mutex) pthread_mutex_lock (mutex)
#define g_mutex_unlock(mutex) pthread_mutex_unlock (mutex)
#define g_cond_init(cond) pthread_cond_init (cond, NULL)
#define g_cond_clear(cond) pthread_cond_destroy (cond)
#define g_cond_wait(cond, mutex) pthread_cond_wait (cond, mutex)
#define g_cond_signal(cond) pthread_cond_signal (cond)
#define g_cond_broadcast(cond) pthread_cond_broadcast (cond)
