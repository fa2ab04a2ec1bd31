#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later

// A chat window with GTK 4. The conversation is there again the next time.
//
//   ./chat.js
//
// Enter sends, Shift+Enter begins a new line, Escape stops the answer, Ctrl+N forgets the
// conversation and begins a new one.

import Gdk from 'gi://Gdk?version=4.0';
import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Gtk from 'gi://Gtk?version=4.0';
import Llmsvc from 'gi://Llmsvc?version=1';
import Pango from 'gi://Pango';
import {exit, programArgs} from 'system';

Gio._promisify(Llmsvc.Client, 'new_async', 'new_finish');
Gio._promisify(Llmsvc.Client.prototype, 'open_context_async', 'open_context_finish');
Gio._promisify(Llmsvc.Context.prototype, 'close_async', 'close_finish');
Gio._promisify(Llmsvc.Context.prototype, 'list_messages_async', 'list_messages_finish');
Gio._promisify(Llmsvc.Context.prototype, 'prompt_async', 'prompt_finish');
Gio._promisify(Llmsvc.Generation.prototype, 'cancel_async', 'cancel_finish');
Gio._promisify(Llmsvc.Generation.prototype, 'next_async', 'next_finish');

const APP_ID = 'org.llm.ExampleChat';
const CONTEXT_NAME = 'chat';

const STYLE = `
.bubble { padding: 9px 14px; border-radius: 16px; }
.bubble.user {
  background: @theme_selected_bg_color; color: @theme_selected_fg_color;
  border-bottom-right-radius: 4px;
}
.bubble.assistant { background: alpha(@theme_fg_color, 0.09); border-bottom-left-radius: 4px; }
.bubble.failed { background: alpha(@error_color, 0.14); color: @error_color; }
.availability { padding: 7px 12px; background: alpha(@warning_color, 0.25); }
.prompt {
  border-radius: 18px; border: 1px solid alpha(@theme_fg_color, 0.2);
  min-height: 1.5em; padding: 7px 14px;
}
.prompt, .prompt textview, .prompt text { background: @theme_base_color; }
.prompt:focus-within { border-color: @theme_selected_bg_color; }
`;

// What the banner says while no answer can be given; the other states need no banner.
const BANNERS = {
    [Llmsvc.Availability.ABSENT]: 'The language model service is not installed.',
    [Llmsvc.Availability.LOADING]: 'The language model is getting ready…',
    [Llmsvc.Availability.NO_MODEL]: 'No language model is installed.',
    [Llmsvc.Availability.DISABLED]: 'The administrator has switched the language model off.',
    [Llmsvc.Availability.FAILED]: 'The language model can’t be used.',
};

function setAccessibleName(widget, name) {
    widget.update_property([Gtk.AccessibleProperty.LABEL], [name]);
}

// What one side said. Text can be added while it is shown.
const Bubble = GObject.registerClass(class Bubble extends Gtk.Label {
    _init(role, text = '') {
        const isUser = role === Llmsvc.ROLE_USER;
        super._init({
            wrap: true,
            wrap_mode: Pango.WrapMode.WORD_CHAR,
            natural_wrap_mode: Gtk.NaturalWrapMode.NONE,
            selectable: true,
            focusable: false,
            xalign: 0,
            halign: isUser ? Gtk.Align.END : Gtk.Align.START,
            margin_start: isUser ? 48 : 0,
            margin_end: isUser ? 0 : 48,
            css_classes: ['bubble', isUser ? 'user' : 'assistant'],
        });
        this._who = isUser ? 'You' : 'Assistant';
        this.addText(text);
    }

    addText(text) {
        this.label += text;
        setAccessibleName(this, `${this._who}: ${this.label}`);
    }

    setFailed(message) {
        this.label = '';
        this.addText(message);
        this.add_css_class('failed');
    }
});

const ChatWindow = GObject.registerClass(class ChatWindow extends Gtk.ApplicationWindow {
    _init(application) {
        super._init({application, title: 'Chat', default_width: 480, default_height: 640});
        this._client = null;
        this._context = null;
        this._generation = null;

        this._actions = {};
        this._addAction('send', () => this.send());
        this._addAction('stop', () => this.stop());
        this._addAction('new', () => this.beginAnew());

        this._banner = new Gtk.Label({
            wrap: true,
            accessible_role: Gtk.AccessibleRole.ALERT,
            css_classes: ['availability'],
        });
        this._revealer = new Gtk.Revealer({child: this._banner});

        const box = new Gtk.Box({orientation: Gtk.Orientation.VERTICAL});
        box.append(this._revealer);
        box.append(this._makeConversation());
        box.append(this._makePromptRow());
        this.set_titlebar(this._makeHeader());
        this.set_child(box);
        this._update();
    }

    _addAction(name, activate) {
        this._actions[name] = new Gio.SimpleAction({name});
        this._actions[name].connect('activate', activate);
        this.add_action(this._actions[name]);
    }

    _makeButton(iconName, name, action, key) {
        const button = new Gtk.Button({
            icon_name: iconName,
            action_name: action,
            tooltip_text: `${name} (${key})`,
            valign: Gtk.Align.END,
        });
        setAccessibleName(button, name);
        return button;
    }

    _makeHeader() {
        const header = new Gtk.HeaderBar();
        header.pack_start(this._makeButton(
            'document-new-symbolic', 'New conversation', 'win.new', 'Ctrl+N'));
        return header;
    }

    _makeConversation() {
        this._bubbles = new Gtk.Box({
            orientation: Gtk.Orientation.VERTICAL,
            spacing: 8,
            valign: Gtk.Align.END,
            margin_top: 12,
            margin_bottom: 12,
            margin_start: 12,
            margin_end: 12,
        });
        setAccessibleName(this._bubbles, 'Conversation');
        this._hint = new Gtk.Label({
            label: 'What would you like to know?',
            css_classes: ['title-2', 'dim-label'],
            can_target: false,
        });
        const scrolled = new Gtk.ScrolledWindow({
            child: this._bubbles,
            hscrollbar_policy: Gtk.PolicyType.NEVER,
        });
        const overlay = new Gtk.Overlay({child: scrolled, vexpand: true});
        overlay.add_overlay(this._hint);

        // Stays at the end while text comes, unless somebody has scrolled up to read.
        this._isAtEnd = true;
        const adjustment = scrolled.vadjustment;
        adjustment.connect('value-changed', () => {
            this._isAtEnd = adjustment.value >= adjustment.upper - adjustment.page_size - 1;
        });
        adjustment.connect('changed', () => {
            if (this._isAtEnd)
                adjustment.value = adjustment.upper - adjustment.page_size;
        });
        return overlay;
    }

    _makePromptRow() {
        this._prompt = new Gtk.TextView({
            wrap_mode: Gtk.WrapMode.WORD_CHAR,
            accepts_tab: false,
        });
        this._prompt.buffer.connect('changed', () => this._update());
        setAccessibleName(this._prompt, 'Message');
        const keys = new Gtk.EventControllerKey({propagation_phase: Gtk.PropagationPhase.CAPTURE});
        keys.connect('key-pressed', (_controller, key, _code, modifiers) => {
            const isEnter = key === Gdk.KEY_Return || key === Gdk.KEY_KP_Enter;
            if (!isEnter || modifiers & Gdk.ModifierType.SHIFT_MASK)
                return Gdk.EVENT_PROPAGATE;
            this._actions.send.activate(null);
            return Gdk.EVENT_STOP;
        });
        this._prompt.add_controller(keys);

        // A long message scrolls, so that there is room for the conversation.
        const input = new Gtk.ScrolledWindow({
            child: this._prompt,
            hscrollbar_policy: Gtk.PolicyType.NEVER,
            vscrollbar_policy: Gtk.PolicyType.EXTERNAL,
            propagate_natural_height: true,
            max_content_height: 144,
            hexpand: true,
            valign: Gtk.Align.CENTER,
            css_classes: ['prompt'],
        });

        this._sendButton = this._makeButton('go-up-symbolic', 'Send', 'win.send', 'Enter');
        this._stopButton = this._makeButton(
            'media-playback-stop-symbolic', 'Stop the answer', 'win.stop', 'Escape');
        const row = new Gtk.Box({spacing: 8, margin_bottom: 12, margin_start: 12, margin_end: 12});
        row.append(input);
        for (const button of [this._sendButton, this._stopButton]) {
            button.add_css_class('circular');
            button.add_css_class('suggested-action');
            row.append(button);
        }
        return row;
    }

    // Brings buttons and banner up to date with what is going on.
    _update() {
        const isAnswering = this._generation !== null;
        const canSend = this._context !== null && !isAnswering;
        this._sendButton.visible = !isAnswering;
        this._stopButton.visible = isAnswering;
        this._actions.send.enabled = canSend && this._prompt.buffer.text.trim() !== '';
        this._actions.stop.enabled = isAnswering;
        this._actions.new.enabled = canSend;
        this._hint.visible = this._context !== null && this._bubbles.get_first_child() === null;

        const banner = this._client ? BANNERS[this._client.availability] : undefined;
        if (banner)
            this._banner.label = banner;
        this._revealer.reveal_child = banner !== undefined;
    }

    _addBubble(role, text) {
        const bubble = new Bubble(role, text);
        this._bubbles.append(bubble);
        this._update();
        return bubble;
    }

    async _showMessages() {
        const messages = await this._context.list_messages_async(null);
        for (let child; (child = this._bubbles.get_first_child());)
            this._bubbles.remove(child);
        for (const {role, text} of messages) {
            if (role === Llmsvc.ROLE_USER || role === Llmsvc.ROLE_ASSISTANT)
                this._addBubble(role, text);
        }
    }

    async _openContext() {
        const options = new Llmsvc.Options({create: true});
        this._context = await this._client.open_context_async(CONTEXT_NAME, options, null);
        await this._showMessages();
    }

    // Does what may fail, and says so in the conversation if it does.
    async _try(work) {
        try {
            await work();
        } catch (error) {
            this._addBubble(Llmsvc.ROLE_ASSISTANT).setFailed(error.message);
        }
        this._update();
        this._prompt.grab_focus();
    }

    // Finds the service and the conversation that was had last time.
    open() {
        return this._try(async () => {
            // No name is given: it is the application's, and the conversation belongs to it.
            this._client = await Llmsvc.Client.new_async(Gio.BusType.NONE, null, null);
            this._client.connect('notify::availability', () => this._update());
            this._update();
            await this._openContext();
        });
    }

    beginAnew() {
        return this._try(async () => {
            const context = this._context;
            this._context = null;
            this._update();
            await context.close_async(null);
            await this._openContext();
        });
    }

    async send() {
        const prompt = this._prompt.buffer.text.trim();
        this._prompt.buffer.text = '';
        this._isAtEnd = true;
        this._addBubble(Llmsvc.ROLE_USER, prompt);
        const answer = this._addBubble(Llmsvc.ROLE_ASSISTANT, '…');
        // What was written until “Stop” stays in the conversation.
        const options = new Llmsvc.Options({
            max_tokens: 200,
            temperature: 0,
            on_cancel: 'keep',
        });
        try {
            this._generation = await this._context.prompt_async(prompt, options, null);
            this._update();
            answer.label = '';
            for (let piece; (piece = await this._generation.next_async(null)) !== null;)
                answer.addText(piece);
        } catch (error) {
            await this._onFailed(error, answer, prompt);
        }
        this._generation = null;
        this._update();
    }

    async _onFailed(error, answer, prompt) {
        if (error instanceof GLib.Error && error.matches(Llmsvc.Error, Llmsvc.Error.LOST_KEPT)) {
            // The service has gone on without us.
            await this._showMessages();
        } else {
            answer.setFailed(error.message);
            this._prompt.buffer.text = prompt;
        }
    }

    stop() {
        return this._try(() => this._generation.cancel_async(null));
    }

    async ask(prompt) {
        this._prompt.buffer.text = prompt;
        await this.send();
    }

    saveScreenshot(path) {
        const snapshot = new Gtk.Snapshot();
        const [width, height] = [this.get_width(), this.get_height()];
        new Gtk.WidgetPaintable({widget: this}).snapshot(snapshot, width, height);
        this.get_renderer().render_texture(snapshot.to_node(), null).save_to_png(path);
    }
});

const prompts = [...programArgs];
const screenshot = prompts[0] === '--screenshot' ? prompts.splice(0, 2)[1] : null;

const application = new Gtk.Application({application_id: APP_ID});
application.set_accels_for_action('win.stop', ['Escape']);
application.set_accels_for_action('win.new', ['<Control>n']);
application.set_accels_for_action('window.close', ['<Control>w', '<Control>q']);

application.connect('startup', () => {
    const provider = new Gtk.CssProvider();
    provider.load_from_data(STYLE);
    Gtk.StyleContext.add_provider_for_display(
        Gdk.Display.get_default(), provider, Gtk.STYLE_PROVIDER_PRIORITY_APPLICATION);
});

application.connect('activate', async () => {
    if (application.active_window) {
        application.active_window.present();
        return;
    }
    const window = new ChatWindow(application);
    window.present();
    await window.open();
    for (const prompt of prompts)
        await window.ask(prompt);
    if (screenshot === null)
        return;
    // Half a second later all of it is drawn.
    GLib.timeout_add(GLib.PRIORITY_DEFAULT, 500, () => {
        window.saveScreenshot(screenshot);
        application.quit();
        return GLib.SOURCE_REMOVE;
    });
});

exit(application.run([]));
