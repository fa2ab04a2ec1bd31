// SPDX-License-Identifier: LGPL-2.1-or-later

// The window: what the service holds and does, or, where it can't be shown, why and what to do.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Gtk from 'gi://Gtk?version=4.0';

import {_, string} from './format.js';
import {
    AppsSection, ContextsSection, MemorySection, ModelsSection, SummarySection, TargetsSection, makeLabel,
} from './sections.js';
import {Source, State} from './source.js';
import {setAccessibleName} from './widgets.js';

// What is said instead of figures: [icon, title, what to do, whether a button can start the service].
function explain({state, reason}) {
    const pages = {
        [State.WAITING]: ['content-loading-symbolic', _('Asking the service…'), '', false],
        [State.NO_BUS]: ['network-error-symbolic', _('No connection to the bus'),
            _('This window reaches the service by D-Bus. Log in again, or run it with “dbus-run-session”.'), false],
        [State.ABSENT]: ['dialog-information-symbolic', _('The service is not installed'),
            _('Install the package llmsvc, and a model: “apt install llmsvc llmsvc-model-demo”.'), false],
        [State.IDLE]: ['media-playback-pause-symbolic', _('The service is not running'),
            _('Nothing is in memory. The first request of an application starts it.'), true],
        [State.SILENT]: ['dialog-warning-symbolic', _('The service does not answer'),
            _('“llmctl doctor” looks for the reason. This window goes on trying.'), true],
    };
    const [icon, title, text, canStart] = pages[state];
    return {icon, title, text: [text, reason].filter(part => part).join('\n\n'), canStart};
}

export const MonitorWindow = GObject.registerClass(class MonitorWindow extends Gtk.ApplicationWindow {
    // @onSample: is called after a sample was shown, with it
    _init(application, busType, onSample) {
        super._init({
            application,
            title: _('Language Model Monitor'),
            default_width: 720,
            default_height: 860,
            icon_name: 'org.llm.Monitor',
        });
        this._sections = [
            new SummarySection(), new MemorySection(), new ContextsSection(), new AppsSection(),
            new TargetsSection(), new ModelsSection(),
        ];
        this._stack = new Gtk.Stack({transition_type: Gtk.StackTransitionType.CROSSFADE});
        this._stack.add_named(this._makeStatus(), 'status');
        this._stack.add_named(this._makeFigures(), 'figures');
        this._addActions();
        this.set_titlebar(this._makeHeader());
        this.set_child(this._stack);

        this._onSample = onSample;
        this._source = new Source(busType, sample => this._show(sample));
        this._show({state: State.WAITING});
        this.connect('close-request', () => this._source.stop());
        this._source.run();
    }

    _addActions() {
        const start = new Gio.SimpleAction({name: 'start'});
        start.connect('activate', () => this._start());
        this.add_action(start);
        const refresh = new Gio.SimpleAction({name: 'refresh'});
        refresh.connect('activate', () => this._source.refresh());
        this.add_action(refresh);

        const isOff = new GLib.Variant('b', false);
        const pause = Gio.SimpleAction.new_stateful('pause', null, isOff);
        pause.connect('change-state', (action, value) => {
            action.state = value;
            this._source.isPaused = value.get_boolean();
        });
        this.add_action(pause);
        this.add_action(new Gio.PropertyAction({
            name: 'dark',
            object: this.get_settings(),
            property_name: 'gtk-application-prefer-dark-theme',
        }));
    }

    _makeHeader() {
        const header = new Gtk.HeaderBar();
        for (const [icon, name, action, key] of [
            ['media-playback-pause-symbolic', _('Pause'), 'win.pause', 'Ctrl+P'],
            ['weather-clear-night-symbolic', _('Dark'), 'win.dark', 'Ctrl+D'],
        ]) {
            const button = new Gtk.ToggleButton({
                icon_name: icon, action_name: action, tooltip_text: `${name} (${key})`,
            });
            setAccessibleName(button, name);
            header.pack_start(button);
        }
        return header;
    }

    // Where the window can't show figures.
    _makeStatus() {
        this._icon = new Gtk.Image({pixel_size: 96, accessible_role: Gtk.AccessibleRole.PRESENTATION});
        this._title = makeLabel('', ['title-1'], {xalign: 0.5, wrap: true, justify: Gtk.Justification.CENTER});
        this._text = makeLabel('', [], {
            xalign: 0.5, wrap: true, max_width_chars: 60, justify: Gtk.Justification.CENTER,
        });
        this._startButton = new Gtk.Button({
            label: _('_Start the service'),
            use_underline: true,
            action_name: 'win.start',
            halign: Gtk.Align.CENTER,
            css_classes: ['suggested-action', 'pill'],
        });
        const box = new Gtk.Box({
            orientation: Gtk.Orientation.VERTICAL, spacing: 18, valign: Gtk.Align.CENTER, margin_start: 24,
            margin_end: 24, accessible_role: Gtk.AccessibleRole.STATUS,
        });
        for (const child of [this._icon, this._title, this._text, this._startButton])
            box.append(child);
        return box;
    }

    _makeFigures() {
        // what the service says of itself while it can't answer, or not yet
        this._banner = makeLabel('', ['banner'], {wrap: true, accessible_role: Gtk.AccessibleRole.ALERT});
        const sections = new Gtk.Box({
            orientation: Gtk.Orientation.VERTICAL, spacing: 12, margin_top: 12, margin_bottom: 12, margin_start: 12,
            margin_end: 12,
        });
        for (const section of this._sections)
            sections.append(section);
        const box = new Gtk.Box({orientation: Gtk.Orientation.VERTICAL});
        box.append(this._banner);
        box.append(new Gtk.ScrolledWindow({
            child: sections, vexpand: true, focusable: true, hscrollbar_policy: Gtk.PolicyType.NEVER,
        }));
        return box;
    }

    _show(sample) {
        if (sample.state === State.RUNNING) {
            const availability = string(sample.service, 'Availability');
            this._banner.label = string(sample.service, 'AvailabilityReason') || availability;
            this._banner.visible = availability !== 'ready';
            for (const section of this._sections)
                section.update(sample);
            this._stack.visible_child_name = 'figures';
        } else {
            const {icon, title, text, canStart} = explain(sample);
            this._icon.icon_name = icon;
            this._title.label = title;
            this._text.label = text;
            this._startButton.visible = canStart;
            this._stack.visible_child_name = 'status';
        }
        this._onSample?.(sample);
    }

    async _start() {
        this._startButton.sensitive = false;
        try {
            await this._source.start();
        } catch (error) {
            this._show({state: State.SILENT, reason: error.message});
        }
        this._startButton.sensitive = true;
    }

    // Every text that is to be seen, a line each; what is drawn, by its accessible label.
    describe() {
        const lines = [];
        const visit = widget => {
            if (!widget.get_child_visible() || !widget.visible)
                return;
            if (widget instanceof Gtk.Label)
                lines.push(widget.label);
            else if (widget.accessible_role === Gtk.AccessibleRole.IMG)
                lines.push(widget.accessibleName ?? '');
            else {
                for (let child = widget.get_first_child(); child; child = child.get_next_sibling())
                    visit(child);
            }
        };
        visit(this._stack.visible_child);
        return lines.filter(line => line).join('\n');
    }

    saveScreenshot(path) {
        const snapshot = new Gtk.Snapshot();
        const [width, height] = [this.get_width(), this.get_height()];
        new Gtk.WidgetPaintable({widget: this}).snapshot(snapshot, width, height);
        this.get_renderer().render_texture(snapshot.to_node(), null).save_to_png(path);
    }
});
