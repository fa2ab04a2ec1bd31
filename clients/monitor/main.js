// SPDX-License-Identifier: LGPL-2.1-or-later

// The program: its options, its style, one window.

import Gdk from 'gi://Gdk?version=4.0';
import Gettext from 'gettext';
import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Gtk from 'gi://Gtk?version=4.0';
import System from 'system';

import {_} from './format.js';
import {State} from './source.js';
import {MonitorWindow} from './window.js';

const APP_ID = 'org.llm.Monitor';
const STYLE = `
.section { background: @theme_base_color; border: 1px solid alpha(@theme_fg_color, 0.15);
  border-radius: 10px; padding: 12px 14px; }
.section label.heading { font-weight: bold; opacity: 0.8; }
.section label.heading-small { font-weight: bold; }
.section label.title-3 { font-size: 130%; font-weight: bold; }
.section label.caption { font-size: 88%; }
.section label.numeric { font-feature-settings: "tnum"; }
.chunk-map:focus-visible { outline: 2px solid @theme_selected_bg_color; outline-offset: 2px; }
.banner { padding: 8px 14px; background: alpha(@warning_color, 0.25); }
`;

function addOptions(application) {
    const options = [
        ['system', _('Watch the service of the system bus')],
        ['session', _('Watch the service of the session bus')],
        ['text', _('Also print what the window shows, each time that it changes')],
        ['version', _('Print the version')],
    ];
    for (const [name, description] of options)
        application.add_main_option(name, 0, GLib.OptionFlags.NONE, GLib.OptionArg.NONE, description, null);
    application.add_main_option('screenshot', 0, GLib.OptionFlags.NONE, GLib.OptionArg.FILENAME,
        _('Save a picture of the window with the service’s figures, and end'), _('FILE'));
}

function addStyle() {
    const provider = new Gtk.CssProvider();
    provider.load_from_data(STYLE);
    Gtk.StyleContext.add_provider_for_display(Gdk.Display.get_default(), provider,
        Gtk.STYLE_PROVIDER_PRIORITY_APPLICATION);
}

// Dark where the desktop is; what the portal says is all that GTK alone does not follow.
async function followDesktop() {
    const bus = Gio.Application.get_default().get_dbus_connection();
    const settings = Gtk.Settings.get_default();
    const apply = value => {
        settings.gtk_application_prefer_dark_theme = value === 1;
    };
    if (bus === null)
        return;
    bus.signal_subscribe('org.freedesktop.portal.Desktop', 'org.freedesktop.portal.Settings', 'SettingChanged',
        '/org/freedesktop/portal/desktop', 'org.freedesktop.appearance', Gio.DBusSignalFlags.NONE,
        (_bus, _sender, _path, _interface, _signal, args) => {
            const [, key, value] = args.recursiveUnpack();
            if (key === 'color-scheme')
                apply(value);
        });
    try {
        const reply = await bus.call('org.freedesktop.portal.Desktop', '/org/freedesktop/portal/desktop',
            'org.freedesktop.portal.Settings', 'Read',
            new GLib.Variant('(ss)', ['org.freedesktop.appearance', 'color-scheme']), null,
            Gio.DBusCallFlags.NONE, 1000, null);
        if (reply.recursiveUnpack()[0] === 1)
            apply(1);
    } catch (error) {
        console.debug(`no portal: ${error.message}`);
    }
}

// Prints a text once, and again only when it is another one.
function makePrinter(window) {
    let printed = '';
    return () => {
        const text = window().describe();
        if (text !== printed)
            print(`${text}\n`);
        printed = text;
    };
}

function openWindow(application, options) {
    let window = null;
    const printText = options.text ? makePrinter(() => window) : () => {};
    const onSample = ({state, rates}) => {
        if (window === null)
            return;
        printText();
        // speed is known after a few samples
        const isComplete = state === State.RUNNING ? rates.length >= 5 : state !== State.WAITING;
        if (options.screenshot === null || !isComplete)
            return;
        // Half a second later all of it is drawn.
        const path = options.screenshot;
        options.screenshot = null;
        GLib.timeout_add(GLib.PRIORITY_DEFAULT, 500, () => {
            window.saveScreenshot(path);
            application.quit();
            return GLib.SOURCE_REMOVE;
        });
    };
    window = new MonitorWindow(application, options.busType, onSample);
    window.present();
}

export function run(localedir, version) {
    Gettext.bindtextdomain('llmsvc', localedir);
    Gettext.textdomain('llmsvc');
    const options = {busType: Gio.BusType.NONE, text: false, screenshot: null};
    const application = new Gtk.Application({application_id: APP_ID});
    GLib.set_application_name(_('Language Model Monitor'));
    addOptions(application);
    for (const [action, keys] of [['win.pause', ['<Control>p']], ['win.dark', ['<Control>d']],
        ['win.refresh', ['F5', '<Control>r']], ['window.close', ['<Control>w', '<Control>q']]])
        application.set_accels_for_action(action, keys);

    application.connect('handle-local-options', (_application, dict) => {
        if (dict.contains('version')) {
            print(`llmsvc-monitor ${version}`);
            return 0;
        }
        if (dict.contains('system'))
            options.busType = Gio.BusType.SYSTEM;
        if (dict.contains('session'))
            options.busType = Gio.BusType.SESSION;
        options.text = dict.contains('text');
        const path = dict.lookup_value('screenshot', null);
        options.screenshot = path === null ? null : new TextDecoder().decode(path.get_bytestring());
        return -1;
    });
    application.connect('startup', () => {
        addStyle();
        followDesktop();
    });
    application.connect('activate', () => {
        if (application.active_window)
            application.active_window.present();
        else
            openWindow(application, options);
    });
    System.exit(application.run([System.programInvocationName, ...System.programArgs]));
}
