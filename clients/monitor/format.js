// SPDX-License-Identifier: LGPL-2.1-or-later

// Texts and numbers as the window shows them. What comes from the bus is taken only where it has
// the type that is expected.

import Gettext from 'gettext';
import GLib from 'gi://GLib';

export const _ = Gettext.gettext;
export const ngettext = Gettext.ngettext;

// "%s" and "%d" in a translated text.
export function fill(text, ...values) {
    return imports.format.vprintf(text, values);
}

export function number(dict, key) {
    const value = dict?.[key];
    return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}

export function string(dict, key) {
    const value = dict?.[key];
    return typeof value === 'string' ? value : '';
}

export function formatBytes(bytes) {
    return GLib.format_size_full(bytes, GLib.FormatSizeFlags.IEC_UNITS);
}

export function formatCount(count) {
    return Math.round(count).toLocaleString();
}

// 1.1 billion parameters are "1.1 B", as models are named.
export function formatParameters(count) {
    for (const [unit, letter] of [[1e9, 'B'], [1e6, 'M']]) {
        if (count >= unit)
            return `${(count / unit).toFixed(count < 10 * unit ? 1 : 0)} ${letter}`;
    }
    return formatCount(count);
}

// "98.7 %" of calls, or a dash where there were none.
export function formatMet(met, missed) {
    return met + missed > 0 ? `${(100 * met / (met + missed)).toFixed(1)} %` : '–';
}
