// SPDX-License-Identifier: LGPL-2.1-or-later

// What GTK has no widget for: a bar of parts, the last minute as columns, the map of a context's
// chunks. All are rectangles in colours that can be told apart on light and dark ground; what they show is
// also said in their accessible label.

import Gdk from 'gi://Gdk?version=4.0';
import GObject from 'gi://GObject';
import Graphene from 'gi://Graphene';
import Gtk from 'gi://Gtk?version=4.0';

function makeColor(text) {
    const color = new Gdk.RGBA();
    color.parse(text);
    return color;
}

export const Colors = {
    WEIGHTS: makeColor('#3584e4'),
    CONTEXTS: makeColor('#e66100'),
    COMPRESSED: makeColor('#2ca58d'),
    OTHER: makeColor('#9a7fd1'),
    STORAGE: makeColor('#7d8794'),
    EMPTY: makeColor('rgba(127,127,127,0.22)'),
};

// A chunk's colour says where it is, its height the bits of a number.
const PLACE_COLORS = {
    m: Colors.CONTEXTS,
    b: Colors.COMPRESSED,
    s: Colors.STORAGE,
    t: Colors.EMPTY,
};
const CELL = 10;
const GAP = 2;

export function getPlaceColor(place) {
    return PLACE_COLORS[place] ?? Colors.OTHER;
}

export function setAccessibleName(widget, name) {
    widget.update_property([Gtk.AccessibleProperty.LABEL], [name]);
    widget.accessibleName = name;
}

function fillRectangle(snapshot, color, x, y, width, height) {
    if (width > 0 && height > 0)
        snapshot.append_color(color, new Graphene.Rect().init(x, y, width, height));
}

// A small square beside a word in a legend.
export const Swatch = GObject.registerClass(class MonitorSwatch extends Gtk.Widget {
    _init(color) {
        super._init({
            valign: Gtk.Align.CENTER,
            accessible_role: Gtk.AccessibleRole.PRESENTATION,
        });
        this._color = color;
    }

    vfunc_measure(_orientation, _forSize) {
        return [12, 12, -1, -1];
    }

    vfunc_snapshot(snapshot) {
        fillRectangle(snapshot, this._color, 0, 0, this.get_width(), this.get_height());
    }
});

// Parts of a whole, one beside the other.
export const PartsBar = GObject.registerClass(class MonitorPartsBar extends Gtk.Widget {
    _init() {
        super._init({hexpand: true, accessible_role: Gtk.AccessibleRole.IMG});
        this._parts = [];
        this._whole = 0;
    }

    // @parts: [[colour, size], …]
    setParts(parts, whole) {
        this._parts = parts;
        this._whole = Math.max(whole, parts.reduce((sum, [, size]) => sum + size, 0));
        this.queue_draw();
    }

    vfunc_measure(orientation, _forSize) {
        const size = orientation === Gtk.Orientation.VERTICAL ? 22 : 120;
        return [size, size, -1, -1];
    }

    vfunc_snapshot(snapshot) {
        const [width, height] = [this.get_width(), this.get_height()];
        let x = 0;
        fillRectangle(snapshot, Colors.EMPTY, 0, 0, width, height);
        for (const [color, size] of this._parts) {
            const part = this._whole > 0 ? width * size / this._whole : 0;
            fillRectangle(snapshot, color, x, 0, part, height);
            x += part;
        }
    }
});

// Tokens a second over the last minute, the newest at the right: prefill below, decode above.
export const RateChart = GObject.registerClass(class MonitorRateChart extends Gtk.Widget {
    _init() {
        super._init({hexpand: true, accessible_role: Gtk.AccessibleRole.IMG});
        this._rates = [];
    }

    setRates(rates) {
        this._rates = rates;
        this.queue_draw();
    }

    vfunc_measure(orientation, _forSize) {
        const size = orientation === Gtk.Orientation.VERTICAL ? 48 : 120;
        return [size, size, -1, -1];
    }

    vfunc_snapshot(snapshot) {
        const [width, height] = [this.get_width(), this.get_height()];
        const column = width / 60;
        const highest = Math.max(1, ...this._rates.map(({prefill, decode}) => prefill + decode));
        fillRectangle(snapshot, Colors.EMPTY, 0, height - 1, width, 1);
        this._rates.forEach(({prefill, decode}, i) => {
            const x = width - (this._rates.length - i) * column;
            const below = height * prefill / highest;
            const above = height * decode / highest;
            fillRectangle(snapshot, Colors.WEIGHTS, x, height - below, column - 1, below);
            fillRectangle(snapshot, Colors.CONTEXTS, x, height - below - above, column - 1, above);
        });
    }
});

// One cell for each chunk of a context, the oldest first, in as many lines as it takes.
export const ChunkMap = GObject.registerClass(class MonitorChunkMap extends Gtk.Widget {
    _init() {
        super._init({
            hexpand: true,
            focusable: true,
            overflow: Gtk.Overflow.HIDDEN,
            accessible_role: Gtk.AccessibleRole.IMG,
            css_classes: ['chunk-map'],
        });
        this._chunks = [];
    }

    setChunks(chunks) {
        this._chunks = chunks;
        this.queue_resize();
        this.queue_draw();
    }

    _countColumns(width) {
        return Math.max(1, Math.floor((width + GAP) / (CELL + GAP)));
    }

    vfunc_get_request_mode() {
        return Gtk.SizeRequestMode.HEIGHT_FOR_WIDTH;
    }

    vfunc_measure(orientation, forSize) {
        if (orientation === Gtk.Orientation.HORIZONTAL)
            return [16 * (CELL + GAP), 16 * (CELL + GAP), -1, -1];
        const columns = forSize > 0 ? this._countColumns(forSize) : 16;
        const lines = Math.max(1, Math.ceil(this._chunks.length / columns));
        return [lines * (CELL + GAP), lines * (CELL + GAP), -1, -1];
    }

    vfunc_snapshot(snapshot) {
        const columns = this._countColumns(this.get_width());
        this._chunks.forEach(([bits, place], i) => {
            const x = i % columns * (CELL + GAP);
            const y = Math.floor(i / columns) * (CELL + GAP);
            // 16 bits and more fill the cell; 2 bits are two tenths of it
            const height = place === 't' ? CELL : CELL * Math.min(1, Math.max(0.2, bits / 12));
            fillRectangle(snapshot, Colors.EMPTY, x, y, CELL, CELL);
            fillRectangle(snapshot, getPlaceColor(place), x, y + CELL - height, CELL, height);
        });
    }
});
