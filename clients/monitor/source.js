// SPDX-License-Identifier: LGPL-2.1-or-later

// Samples of the service, once a second. Nothing here starts the service but start(): a window that
// only watches must not load a model. What a sample has of contexts is what the service shows this
// program: its caller's, never those of other applications.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Llmsvc from 'gi://Llmsvc?version=1';

import {number, string} from './format.js';

Gio._promisify(Gio.DBusConnection.prototype, 'call', 'call_finish');
Gio._promisify(Llmsvc.Client, 'new_async', 'new_finish');
Gio._promisify(Llmsvc.Client.prototype, 'refresh_async', 'refresh_finish');

const SERVICE_NAME = 'org.llm.Service';
const SERVICE_PATH = '/org/llm/Service';
const PROPERTIES = 'org.freedesktop.DBus.Properties';
// A service that answers later than this is shown as one that does not.
const CALL_LIMIT_MS = 4000;
const PERIOD_MS = 1000;
// Each is a call, and further ones would be far down.
const MAX_MAPS = 32;
// Of a map: what a context of a million tokens has, in chunks of 16, and no more.
const MAX_CHUNKS = 65536;
const N_RATES = 60;
// When none of these moves, applications and contexts are as they were.
const MOVING = ['requests', 'failed', 'cancelled', 'contexts', 'calls', 'steps', 'rows', 'trims',
    'kv-evicted-chunks', 'kv-packed-chunks', 'kv-written-chunks', 'kv-restored-chunks',
    'kv-narrow-chunks', 'kv-storage-bytes'];

export const State = {
    WAITING: 'waiting', // nothing is known yet
    NO_BUS: 'no-bus',
    ABSENT: 'absent',
    IDLE: 'idle',
    SILENT: 'silent',
    RUNNING: 'running',
};

// The chunks of a context as [bits, place letter], in order.
function readChunks(memory) {
    const bits = memory?.bits;
    const places = string(memory, 'places');
    if (!bits || typeof bits.length !== 'number')
        return [];
    const n = Math.min(bits.length, places.length, MAX_CHUNKS);
    return Array.from({length: n}, (_value, i) => [bits[i], places[i]]);
}

export class Source {
    // @busType: Gio.BusType.NONE looks on the system bus first. @onSample: is given each sample.
    constructor(busType, onSample) {
        this._busType = busType;
        this._onSample = onSample;
        this._client = null;
        this._isSampling = false;
        this._isPaused = false;
        this._sample = {state: State.WAITING};
        this._previous = null; // of the counters: {timeUs, statistics}
        this._rates = [];
        this._timer = 0;
    }

    get isPaused() {
        return this._isPaused;
    }

    set isPaused(isPaused) {
        this._isPaused = isPaused;
        this._previous = null;
        this.refresh();
    }

    run() {
        this._timer = GLib.timeout_add(GLib.PRIORITY_DEFAULT, PERIOD_MS, () => {
            this.refresh();
            return GLib.SOURCE_CONTINUE;
        });
        this.refresh();
    }

    stop() {
        if (this._timer !== 0)
            GLib.source_remove(this._timer);
        this._timer = 0;
        this._onSample = () => {};
    }

    // Starts the service, as its first call does. Throws what it answers.
    async start() {
        await this._client.refresh_async(null);
        this.refresh();
    }

    async refresh() {
        if (this._isSampling || this._isPaused)
            return;
        this._isSampling = true;
        try {
            this._sample = await this._take();
        } catch (error) {
            this._previous = null;
            this._sample = {
                state: this._client === null ? State.NO_BUS : State.SILENT,
                reason: error.message,
            };
        }
        this._isSampling = false;
        this._onSample(this._sample);
    }

    async _call(path, iface, method, args, type) {
        const reply = await this._client.connection.call(SERVICE_NAME, path, iface, method, args,
            new GLib.VariantType(`(${type})`), Gio.DBusCallFlags.NO_AUTO_START, CALL_LIMIT_MS, null);
        return reply.recursiveUnpack()[0];
    }

    _getAll(path, iface) {
        return this._call(path, PROPERTIES, 'GetAll', new GLib.Variant('(s)', [iface]), 'a{sv}');
    }

    _ask(path, iface, method, type) {
        return this._call(path, iface, method, new GLib.Variant('(a{sv})', [{}]), type);
    }

    async _makeClient() {
        // "": not registered as an application, so that contexts are the caller's own
        const client = await Llmsvc.Client.new_async(this._busType, '', null);
        client.connect('notify::availability', () => this.refresh());
        this._client = client;
    }

    async _take() {
        if (this._client === null)
            await this._makeClient();
        const {availability} = this._client;
        if (availability === Llmsvc.Availability.ABSENT)
            return {state: State.ABSENT, reason: ''};
        if (availability === Llmsvc.Availability.IDLE) {
            this._previous = null;
            return {state: State.IDLE, reason: ''};
        }

        const [service, memory, statistics] = await Promise.all([
            this._getAll(SERVICE_PATH, SERVICE_NAME),
            this._getAll(SERVICE_PATH, `${SERVICE_NAME}.Memory`),
            this._ask(SERVICE_PATH, SERVICE_NAME, 'GetStatistics', 'a{sv}'),
        ]);
        const sample = {state: State.RUNNING, service, memory, statistics};
        if (this._hasMoved(statistics)) {
            sample.apps = await this._ask(SERVICE_PATH, `${SERVICE_NAME}.Admin`, 'ListApps', 'aa{sv}')
                .catch(() => []);
            sample.contexts = await this._takeContexts();
        } else {
            sample.apps = this._sample.apps;
            sample.contexts = this._sample.contexts;
        }
        sample.models = this._takeModels();
        sample.isSystem = this._client.bus_type === Gio.BusType.SYSTEM;
        this._addRates(statistics);
        sample.rates = this._rates;
        return sample;
    }

    _hasMoved(statistics) {
        const before = this._sample.statistics;
        return !before || !this._sample.contexts ||
            MOVING.some(key => number(before, key) !== number(statistics, key));
    }

    async _takeContexts() {
        const list = await this._ask(SERVICE_PATH, SERVICE_NAME, 'ListContexts', 'a(oa{sv})');
        return Promise.all(list.map(async ([path, properties], i) => {
            const context = {
                path,
                name: string(properties, 'Name'),
                tokens: number(properties, 'Tokens'),
                residency: string(properties, 'Residency'),
                chunks: [],
            };
            if (i >= MAX_MAPS || !path.startsWith(`${SERVICE_PATH}/contexts/`))
                return context;
            // it may be closed meanwhile
            const memory = await this._ask(path, `${SERVICE_NAME}.Context`, 'GetMemory', 'a{sv}')
                .catch(() => null);
            context.memoryBytes = number(memory, 'memory-bytes');
            context.storageBytes = number(memory, 'storage-bytes');
            context.chunkTokens = number(memory, 'chunk-tokens');
            context.chunks = readChunks(memory);
            return context;
        }));
    }

    _takeModels() {
        const {models, active_model: active} = this._client;
        return Array.from({length: models.get_n_items()}, (_value, i) => {
            const model = models.get_item(i);
            return {
                id: model.id,
                title: model.title,
                isActive: model.id === active?.id,
                info: model.get_info()?.recursiveUnpack() ?? {},
            };
        });
    }

    // Tokens a second, of prefill and decode, between the last two samples.
    _addRates(statistics) {
        const timeUs = GLib.get_monotonic_time();
        const before = this._previous;
        const count = key => number(statistics, key);
        const seconds = before === null ? 0 : (timeUs - before.timeUs) / 1e6;
        // two samples that are as good as one say nothing of speed
        if (before !== null && seconds < 0.1)
            return;
        this._previous = {timeUs, statistics};
        // without one before, or after another start of the service
        if (before === null || count('steps') < number(before.statistics, 'steps')) {
            this._rates = [];
            return;
        }
        const rate = key => Math.max(0, count(key) - number(before.statistics, key)) / seconds;
        this._rates = [...this._rates, {prefill: rate('prefill-tokens'), decode: rate('generated-tokens')}]
            .slice(-N_RATES);
    }
}
