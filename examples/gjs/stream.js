#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later

// An answer word by word as it is made. Ctrl-C stops it, here and at the service.
//
//   ./stream.js "Find me a comedy movie."

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Llmsvc from 'gi://Llmsvc?version=1';
import {exit, programArgs} from 'system';

Gio._promisify(Llmsvc.Client, 'new_async', 'new_finish');
Gio._promisify(Llmsvc.Client.prototype, 'create_context_async', 'create_context_finish');
Gio._promisify(Llmsvc.Context.prototype, 'prompt_async', 'prompt_finish');
Gio._promisify(Llmsvc.Generation.prototype, 'next_async', 'next_finish');

const SIGINT = 2;
const cancellable = new Gio.Cancellable();
GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, SIGINT, () => cancellable.cancel());

async function* pieces(generation) {
    let piece;
    while ((piece = await generation.next_async(cancellable)) !== null)
        yield piece;
}

async function stream(prompt) {
    const output = new Gio.UnixOutputStream({fd: 1});
    const client = await Llmsvc.Client.new_async(Gio.BusType.NONE, null, cancellable);
    const context = await client.create_context_async(null, cancellable);
    const options = new Llmsvc.Options({maxTokens: 64, temperature: 0});
    const generation = await context.prompt_async(prompt, options, cancellable);
    for await (const piece of pieces(generation))
        output.write_all(piece, null);
    output.write_all('\n', null);
}

try {
    await stream(programArgs.join(' ') || 'Hello!');
} catch (error) {
    printerr(error.message);
    exit(1);
}
