#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later

// One question, one answer.
//
//   ./ask.js "Find me a comedy movie."

import Gio from 'gi://Gio';
import Llmsvc from 'gi://Llmsvc?version=1';
import {exit, programArgs} from 'system';

Gio._promisify(Llmsvc.Client, 'new_async', 'new_finish');
Gio._promisify(Llmsvc.Client.prototype, 'complete_async', 'complete_finish');

try {
    const client = await Llmsvc.Client.new_async(Gio.BusType.NONE, null, null);
    const options = new Llmsvc.Options({maxTokens: 64, temperature: 0});
    const answer = await client.complete_async(programArgs.join(' ') || 'Hello!', options, null);
    print(answer.text);
} catch (error) {
    printerr(error.message);
    exit(1);
}
