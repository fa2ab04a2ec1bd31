// SPDX-License-Identifier: LGPL-2.1-or-later

// The parts of the window that show figures. Each has update(sample), and touches only what changed.

import GObject from 'gi://GObject';
import Gtk from 'gi://Gtk?version=4.0';
import Pango from 'gi://Pango';

import {
    _, fill, formatBytes, formatCount, formatMet, formatParameters, ngettext, number, string,
} from './format.js';
import {
    ChunkMap, Colors, PartsBar, RateChart, Swatch, getPlaceColor, setAccessibleName,
} from './widgets.js';

// Of an unnamed context's random name, enough to tell it from others.
const SHOWN_ID = 8;

export function makeLabel(text, classes = [], properties = {}) {
    return new Gtk.Label({label: text, xalign: 0, css_classes: classes, ...properties});
}

function clear(box) {
    for (let child; (child = box.get_first_child());)
        box.remove(child);
}

// A heading with what belongs to it below.
const Section = GObject.registerClass(class MonitorSection extends Gtk.Box {
    _init(title) {
        super._init({
            orientation: Gtk.Orientation.VERTICAL,
            spacing: 8,
            css_classes: ['section'],
            accessible_role: Gtk.AccessibleRole.REGION,
        });
        this.append(makeLabel(title, ['heading'], {accessible_role: Gtk.AccessibleRole.HEADING}));
        setAccessibleName(this, title);
        this._shown = '';
    }

    // Whether @value is another one than the time before.
    _isNew(value) {
        const text = JSON.stringify(value) ?? '';
        const isNew = text !== this._shown;
        this._shown = text;
        return isNew;
    }
});

// A table of texts; the first column takes the room that the others leave.
const Table = GObject.registerClass(class MonitorTable extends Gtk.Grid {
    _init() {
        super._init({column_spacing: 18, row_spacing: 4});
    }

    setRows(titles, rows) {
        clear(this);
        [titles, ...rows].forEach((row, y) => row.forEach((text, x) => {
            this.attach(makeLabel(text, y === 0 ? ['dim-label', 'caption'] : ['numeric'], {
                xalign: x === 0 ? 0 : 1,
                hexpand: x === 0,
                ellipsize: x === 0 ? Pango.EllipsizeMode.MIDDLE : Pango.EllipsizeMode.NONE,
                tooltip_text: x === 0 && y > 0 ? text : null,
            }), x, y, 1, 1);
        }));
    }
});

export const SummarySection = GObject.registerClass(class MonitorSummary extends Section {
    _init() {
        super._init(_('Now'));
        this._lines = ['model', 'pressure', 'requests', 'speed', 'levels'].reduce((lines, name) => {
            lines[name] = makeLabel('', name === 'model' ? ['title-3'] : [], {wrap: true});
            this.append(lines[name]);
            return lines;
        }, {});
        this._chart = new RateChart();
        this.insert_child_after(this._chart, this._lines.speed);
    }

    update({service, memory, statistics, models, rates}) {
        const count = key => number(statistics, key);
        const active = models.find(model => model.isActive);
        this._lines.model.label = active?.title ?? _('No model');
        this._setPressure(string(memory, 'Pressure'), number(memory, 'Resident'),
            number(memory, 'Budget'), count('process-resident-bytes'));
        this._lines.requests.label = fill(
            _('Requests: %d under way: %d prefill, %d decode, %d stalled, %d queued'),
            count('calls'), count('prefill-calls'), count('decode-calls'), count('stalled-calls'),
            count('queued-calls'));

        const last = rates[rates.length - 1] ?? null;
        this._lines.speed.label = last
            ? fill(_('Tokens per second: %s prefill, %s decode'), last.prefill.toFixed(1),
                last.decode.toFixed(1))
            : _('Tokens per second: –');
        this._chart.setRates(rates);
        setAccessibleName(this._chart, fill(_('Tokens per second in the last minute, at most %s'),
            Math.max(0, ...rates.map(({prefill, decode}) => prefill + decode)).toFixed(1)));

        const level = number(memory, 'SubModel');
        this._lines.levels.visible = active !== undefined;
        this._lines.levels.label = level > 0 && level < 100
            ? fill(_('Level: %d %% of the model stays in memory, as memory is short'), level)
            : _('Level: the whole model');
        this.tooltip_text = fill(_('llmsvc %s'), string(service, 'Version'));
    }

    _setPressure(pressure, resident, budget, process) {
        const words = {
            none: _('none'), low: _('low'), medium: _('medium'), critical: _('critical'),
        };
        const held = budget > 0
            // TRANSLATORS: memory that is held, of the memory that may be
            ? fill(_('held %s of %s'), formatBytes(resident), formatBytes(budget))
            : fill(_('held %s'), formatBytes(resident));
        const label = this._lines.pressure;
        label.label = fill(_('Memory pressure: %s; %s; process %s'), words[pressure] ?? pressure, held,
            formatBytes(process));
        label.css_classes = pressure === 'none' ? [] : [pressure === 'critical' ? 'error' : 'warning'];
    }
});

export const MemorySection = GObject.registerClass(class MonitorMemory extends Section {
    _init() {
        super._init(_('Memory by holder'));
        this._bar = new PartsBar();
        this._legend = new Gtk.Grid({column_spacing: 10, row_spacing: 4});
        this._reclaimable = makeLabel('', ['dim-label'], {wrap: true});
        for (const child of [this._bar, this._legend, this._reclaimable])
            this.append(child);
    }

    update({memory}) {
        if (!this._isNew(memory))
            return;
        const resident = number(memory, 'Resident');
        const parts = [
            [_('weights'), Colors.WEIGHTS, number(memory, 'Weights')],
            [_('contexts'), Colors.CONTEXTS, number(memory, 'KvResident')],
            [_('quantized contexts'), Colors.COMPRESSED, number(memory, 'KvCompressed')],
        ];
        const known = parts.reduce((sum, [, , bytes]) => sum + bytes, 0);
        parts.push([_('other'), Colors.OTHER, Math.max(0, resident - known)]);
        this._bar.setParts(parts.map(([, color, bytes]) => [color, bytes]), resident);

        clear(this._legend);
        const rows = [...parts, [_('contexts on storage'), Colors.STORAGE, number(memory, 'KvSwapped')]];
        rows.forEach(([name, color, bytes], y) => {
            this._legend.attach(new Swatch(color), 0, y, 1, 1);
            this._legend.attach(makeLabel(name, [], {hexpand: true}), 1, y, 1, 1);
            this._legend.attach(makeLabel(formatBytes(bytes), ['numeric'], {xalign: 1}), 2, y, 1, 1);
        });
        setAccessibleName(this._bar, parts.map(([name, , bytes]) =>
            `${name} ${formatBytes(bytes)}`).join(', '));
        const reclaimable = memory['Reclaimable'];
        this._reclaimable.label = fill(
            // TRANSLATORS: memory that can be reclaimed, by what that costs
            _('Reclaimable: %s at no cost, %s cheaply, %s at a cost'),
            ...['free', 'cheap', 'costly'].map(key => formatBytes(number(reclaimable, key))));
    }
});

export const TargetsSection = GObject.registerClass(class MonitorTargets extends Section {
    _init() {
        super._init(_('Latency targets met'));
        this._table = new Table();
        this.append(this._table);
    }

    update({statistics}) {
        // the words of the option "slo"
        const rows = ['interactive', 'responsive', 'background'].map(name =>
            [name, number(statistics, `slo-${name}-met`), number(statistics, `slo-${name}-missed`)]);
        rows.push([_('all'), number(statistics, 'slo-met'), number(statistics, 'slo-missed')]);
        if (this._isNew(rows)) {
            this._table.setRows([_('Class'), _('Requests'), _('Met')], rows.map(([name, met, missed]) =>
                [name, formatCount(met + missed), formatMet(met, missed)]));
        }
    }
});

export const AppsSection = GObject.registerClass(class MonitorApps extends Section {
    _init() {
        super._init(_('Applications'));
        this._table = new Table();
        this._empty = makeLabel(_('No application has used the service yet.'), ['dim-label']);
        this.append(this._table);
        this.append(this._empty);
    }

    update({apps}) {
        if (!this._isNew(apps))
            return;
        this._empty.visible = apps.length === 0;
        this._table.visible = apps.length > 0;
        const bySize = [...apps].sort((a, b) => number(b, 'memory') - number(a, 'memory'));
        this._table.setRows(
            [_('Application'), _('Contexts'), _('Calls'), _('Tokens'), _('Memory'), _('Texts')],
            bySize.map(app => [
                string(app, 'app-id') || _('(without a name)'),
                formatCount(number(app, 'contexts')),
                formatCount(number(app, 'calls')),
                formatCount(number(app, 'tokens')),
                formatBytes(number(app, 'memory')),
                formatBytes(number(app, 'disk')),
            ]));
    }
});

// How many chunks are where, for those who do not see the map.
function describeChunks(chunks) {
    const counts = {m: 0, b: 0, s: 0, t: 0};
    for (const [, place] of chunks)
        counts[place] = (counts[place] ?? 0) + 1;
    return fill(ngettext('%d chunk: %d in memory, %d in memory and on storage, %d on storage, %d only as text',
        '%d chunks: %d in memory, %d in memory and on storage, %d on storage, %d only as text', chunks.length),
    chunks.length, counts.m, counts.b, counts.s, counts.t);
}

const ContextRow = GObject.registerClass(class MonitorContextRow extends Gtk.Box {
    _init() {
        super._init({orientation: Gtk.Orientation.VERTICAL, spacing: 4});
        this._name = makeLabel('', ['heading-small'], {ellipsize: Pango.EllipsizeMode.MIDDLE});
        this._facts = makeLabel('', ['dim-label', 'numeric'], {wrap: true});
        this._map = new ChunkMap();
        for (const child of [this._name, this._facts, this._map])
            this.append(child);
    }

    update(context) {
        const id = context.path.slice(context.path.lastIndexOf('/') + 1);
        // TRANSLATORS: a context without a name; the beginning of its number stands for it
        this._name.label = context.name || fill(_('(unnamed %s)'), id.slice(0, SHOWN_ID));
        const residency = {
            memory: _('in memory'),
            compressed: _('quantized in memory'),
            storage: _('partly on storage'),
            text: _('only as text'),
            damaged: _('damaged'),
        };
        this._facts.label = fill(ngettext('%s token, %s; memory %s, storage %s',
            '%s tokens, %s; memory %s, storage %s', context.tokens), formatCount(context.tokens),
        residency[context.residency] ?? context.residency, formatBytes(context.memoryBytes ?? 0),
        formatBytes(context.storageBytes ?? 0));
        this._map.visible = context.chunks.length > 0;
        this._map.setChunks(context.chunks);
        const chunks = describeChunks(context.chunks);
        this._map.tooltip_text = chunks;
        setAccessibleName(this._map, `${this._name.label}: ${chunks}`);
    }
});

export const ContextsSection = GObject.registerClass(class MonitorContexts extends Section {
    _init() {
        super._init(_('Contexts'));
        this._rows = new Map();
        this._box = new Gtk.Box({orientation: Gtk.Orientation.VERTICAL, spacing: 12});
        this._empty = makeLabel(_('No contexts that this window may see.'), ['dim-label'], {wrap: true});
        this._legend = new Gtk.Box({spacing: 8});
        for (const [place, text] of [['m', _('in memory')], ['b', _('in memory and on storage')],
            ['s', _('on storage')], ['t', _('only as text')]]) {
            this._legend.append(new Swatch(getPlaceColor(place)));
            this._legend.append(makeLabel(text, ['dim-label', 'caption']));
        }
        for (const child of [this._box, this._empty, this._legend])
            this.append(child);
        this.append(makeLabel(_('A cell is a chunk of the KV cache, the oldest first; the higher it is filled, ' +
            'the more bits a number has. An application’s contexts are shown to that application alone: here are ' +
            'those of programs without an application ID.'), ['dim-label', 'caption'], {wrap: true}));
    }

    update({contexts}) {
        if (!this._isNew(contexts))
            return;
        const paths = new Set(contexts.map(({path}) => path));
        for (const [path, row] of this._rows) {
            if (!paths.has(path)) {
                this._box.remove(row);
                this._rows.delete(path);
            }
        }
        for (const context of contexts) {
            let row = this._rows.get(context.path);
            if (!row) {
                row = new ContextRow();
                this._rows.set(context.path, row);
                this._box.append(row);
            }
            row.update(context);
        }
        this._empty.visible = contexts.length === 0;
        this._legend.visible = contexts.length > 0;
    }
});

export const ModelsSection = GObject.registerClass(class MonitorModels extends Section {
    _init() {
        super._init(_('Models'));
        this._box = new Gtk.Box({orientation: Gtk.Orientation.VERTICAL, spacing: 8});
        this.append(this._box);
        this._empty = makeLabel(_('No model is installed. “llmctl doctor” says where to put one.'), ['dim-label'],
            {wrap: true});
        this.append(this._empty);
    }

    update({models}) {
        this._empty.visible = models.length === 0;
        if (!this._isNew(models))
            return;
        clear(this._box);
        for (const {id, title, isActive, info} of models) {
            const levels = Array.isArray(info['sub-models']) ? info['sub-models'] : [];
            const facts = info['usable'] === false ? [
                id,
                // TRANSLATORS: why a file of a model can't be used
                fill(_('can’t be used: %s'), string(info, 'reason')),
            ] : [
                id,
                string(info, 'architecture'),
                fill(_('%s parameters'), formatParameters(number(info, 'parameters'))),
                string(info, 'quantization'),
                formatBytes(number(info, 'file-bytes')),
                fill(_('context of %s tokens'), formatCount(number(info, 'context-length'))),
                // TRANSLATORS: percents of the model that its sub-models have
                levels.length > 1 ? fill(_('levels %s'), levels.join(', ')) : '',
            ];
            // TRANSLATORS: the name of a model
            this._box.append(makeLabel(isActive ? fill(_('%s (in use)'), title) : title, ['heading-small'],
                {ellipsize: Pango.EllipsizeMode.MIDDLE}));
            this._box.append(makeLabel(facts.filter(fact => fact !== '').join(' · '), ['dim-label'],
                {wrap: true, selectable: true}));
        }
    }
});
