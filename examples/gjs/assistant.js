#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later

// A question about this computer and its user's day: the model calls functions, which ask UPower and
// the calendar of the desktop over D-Bus.
//
//   ./assistant.js "Is the battery full enough for my meeting?"

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Llmsvc from 'gi://Llmsvc?version=1';
import {exit, programArgs} from 'system';

Gio._promisify(Gio.DBusConnection.prototype, 'call', 'call_finish');
Gio._promisify(Llmsvc.Client, 'new_async', 'new_finish');
Gio._promisify(Llmsvc.Client.prototype, 'create_context_async', 'create_context_finish');
Gio._promisify(Llmsvc.Context.prototype, 'generate_async', 'generate_finish');
Gio._promisify(Llmsvc.Generation.prototype, 'finish_async', 'finish_finish');

const MAX_ROUNDS = 5;
// the calendar sends what it finds, and does not say when that is all
const CALENDAR_MS = 500;

async function getBattery() {
    const reply = await Gio.DBus.system.call(
        'org.freedesktop.UPower', '/org/freedesktop/UPower/devices/DisplayDevice',
        'org.freedesktop.DBus.Properties', 'Get',
        new GLib.Variant('(ss)', ['org.freedesktop.UPower.Device', 'Percentage']),
        new GLib.VariantType('(v)'), Gio.DBusCallFlags.NONE, -1, null);
    return {percent: reply.recursiveUnpack()[0]};
}

// From Evolution Data Server, by way of GNOME's calendar service.
async function getEvents({days = 1}) {
    const name = 'org.gnome.Shell.CalendarServer';
    const path = '/org/gnome/Shell/CalendarServer';
    const events = new Map();
    const subscription = Gio.DBus.session.signal_subscribe(
        name, name, 'EventsAddedOrUpdated', path, null, Gio.DBusSignalFlags.NONE,
        (_bus, _sender, _path, _interface, _signal, parameters) => {
            for (const [key, summary, start] of parameters.recursiveUnpack()[0]) {
                const begins = GLib.DateTime.new_from_unix_local(start).format('%A %Y-%m-%d %H:%M');
                events.set(key, {summary, begins});
            }
        });
    const now = Math.floor(Date.now() / 1000);
    try {
        await Gio.DBus.session.call(
            name, path, name, 'SetTimeRange',
            new GLib.Variant('(xxb)', [now, now + days * 86400, true]), null,
            Gio.DBusCallFlags.NONE, -1, null);
        await new Promise(resolve => setTimeout(resolve, CALENDAR_MS));
    } finally {
        Gio.DBus.session.signal_unsubscribe(subscription);
    }
    return {events: [...events.values()]};
}

const FUNCTIONS = {get_battery: getBattery, get_events: getEvents};
const TOOLS = [{
    type: 'function',
    function: {
        name: 'get_battery',
        description: 'How full the battery of this computer is, in percent',
        parameters: {type: 'object', properties: {}},
    },
}, {
    type: 'function',
    function: {
        name: 'get_events',
        description: "What is in the user's calendar from now on",
        parameters: {
            type: 'object',
            properties: {
                days: {type: 'integer', minimum: 1, maximum: 31,
                       description: 'How many days to look at'},
            },
        },
    },
}];

// The message with what the function that the model calls has to say.
async function runCall(call) {
    let result;
    try {
        result = await FUNCTIONS[call.function.name](JSON.parse(call.function.arguments));
    } catch (error) {
        result = {error: error.message};
    }
    return Llmsvc.Message.new_tool_result(JSON.stringify(call), JSON.stringify(result));
}

async function ask(prompt) {
    const client = await Llmsvc.Client.new_async(Gio.BusType.NONE, null, null);
    const context = await client.create_context_async(null, null);
    const options = new Llmsvc.Options({maxTokens: 128, temperature: 0, tools: JSON.stringify(TOOLS)});
    let messages = [new Llmsvc.Message({role: 'user', text: prompt})];
    let answer;
    for (let round = 0; round < MAX_ROUNDS; round++) {
        const generation = await context.generate_async(messages, options, null);
        answer = await generation.finish_async(null);
        const calls = JSON.parse(answer.toolCalls || '[]');
        if (calls.length === 0)
            break;
        messages = await Promise.all(calls.map(runCall));
    }
    return answer.text;
}

try {
    print(await ask(programArgs.join(' ') || 'Is the battery full enough for my next meeting?'));
} catch (error) {
    printerr(error.message);
    exit(1);
}
