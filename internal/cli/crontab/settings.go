package crontab

import (
	"fmt"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// setting parses a line NAME = VALUE; both may be quoted. The times of an entry have
// no = before their first blank.
func setting(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, "=")
	if !ok {
		return "", "", false
	}
	name = unquoted(strings.TrimSpace(name))
	if !isName(name) {
		return "", "", false
	}
	return name, unquoted(strings.TrimSpace(value)), true
}

func isName(s string) bool {
	for i, r := range s {
		if r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r)) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != ""
}

func unquoted(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// set keeps a setting for the lines below. Settings of cron are not variables.
func (p *parser) set(name, value string) {
	switch name {
	case "SHELL":
		p.shell = value
		if value == "" {
			p.shell = "/bin/sh"
		}
	case "HOME":
		p.home = value
		p.variable(name, value)
	case "CRON_TZ":
		p.timezone = value
		if value == "" {
			p.timezone = "UTC"
		} else if _, err := cronexpr.LoadLocation(value); err != nil {
			p.note("invalid time zone, so every line below is invalid: " + err.Error())
		}
	case "TZ":
		p.variable(name, value)
		p.note("is passed to the commands; their times follow CRON_TZ, or --tz, here " + p.timezone)
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		if name == "MAILTO" {
			p.mailTo = value
		}
		if value != "" || name != "MAILTO" {
			p.note("output is kept with the run, not mailed; failures raise alerts, which can be routed by the label mailto")
		}
	case "RANDOM_DELAY":
		p.note("is not imported: set jitter_ms on the schedules")
	case "START_HOURS_RANGE":
		p.note("is for anacron, and is not imported")
	default:
		p.variable(name, value)
	}
}

// variable sets a variable of the entries below. It copies the map, which the entries
// above share.
func (p *parser) variable(name, value string) {
	env := maps.Clone(p.env)
	env[name] = value
	size := 0
	for n, v := range env {
		size += len(n) + len(v)
	}
	if len(env) > MaxSettings || size > MaxSettingsBytes {
		p.lost(fmt.Sprintf("is not imported: the settings above a line are at most %d, with %d bytes together; set it in the command", MaxSettings, MaxSettingsBytes))
		return
	}
	p.env = env
}

func validText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && unicode.IsControl(r) })
}
