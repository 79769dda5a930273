package crontab

import (
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// Options are the options of Parse.
type Options struct {
	System   bool   // each line has a user after its times, as in /etc/crontab
	Timezone string // of lines before any CRON_TZ; empty: UTC
}

// File is the content of a crontab.
type File struct {
	Entries []Entry
	Notes   []Note
}

// Entry is one line that becomes a schedule.
type Entry struct {
	Line     int
	Text     string // the line in the file
	Comment  string // the comment lines directly above
	Expr     string // five fields or a macro
	Timezone string
	User     string // of a system crontab
	MailTo   string // the last MAILTO above; "" if none
	Command  string
	Stdin    string // the text after the first %, one line per further %
	HasStdin bool
	Env      map[string]string // variables above that are not settings of cron; shared with other entries, do not change it
	Shell    string
	Home     string
}

// Note is about a line that is not imported, or imported differently.
type Note struct {
	Line int
	Text string // the line
	Says string
	Lost bool // its command is not imported
}

func (n Note) String() string { return fmt.Sprintf("line %d: %s: %s", n.Line, n.Says, n.Text) }

// Lost reports whether a command is not imported.
func (f *File) Lost() bool {
	for i := range f.Notes {
		if f.Notes[i].Lost {
			return true
		}
	}
	return false
}

// Limits of a file. Each entry has all variables above it: without a limit of their
// size the result grows with the square of the file.
const (
	MaxLine          = 16 << 10 // bytes
	MaxLines         = 100_000
	MaxSettings      = 100
	MaxSettingsBytes = 16 << 10 // names and values together
)

// Parse reads a crontab. It never fails: a line that it cannot read becomes a note.
func Parse(text string, o Options) *File {
	p := &parser{o: o, file: &File{}, env: make(map[string]string), shell: "/bin/sh", timezone: o.Timezone}
	if p.timezone == "" {
		p.timezone = "UTC"
	}
	for raw := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		if p.line++; p.line > MaxLines {
			p.lost(fmt.Sprintf("and everything after it: at most %d lines are read", MaxLines))
			break
		}
		p.text = strings.TrimRight(raw, "\r\n")
		p.read(strings.TrimLeft(p.text, " \t"))
	}
	return p.file
}

type parser struct {
	o        Options
	file     *File
	line     int
	text     string
	comment  []string
	env      map[string]string
	shell    string
	home     string
	timezone string
	mailTo   string
}

func (p *parser) note(says string) {
	p.file.Notes = append(p.file.Notes, Note{Line: p.line, Text: schedule.Storable(strings.TrimSpace(p.text), 200), Says: says})
}

func (p *parser) lost(says string) {
	p.note(says)
	p.file.Notes[len(p.file.Notes)-1].Lost = true
}

func (p *parser) read(line string) {
	switch {
	case line == "":
		p.comment = nil
		return
	case strings.HasPrefix(line, "#"):
		if comment := strings.TrimSpace(strings.TrimLeft(line, "#")); !columns(comment) {
			p.comment = append(p.comment, comment)
		} else {
			p.comment = nil
		}
		return
	case len(line) > MaxLine:
		p.lost(fmt.Sprintf("has more than %d bytes", MaxLine))
	case strings.ContainsRune(line, 0) || !validText(line):
		p.lost("is not valid text")
	default:
		if name, value, ok := setting(line); ok {
			p.set(name, value)
			return
		}
		p.entry(line)
	}
	p.comment = nil
}

// entry parses times, user and command.
func (p *parser) entry(line string) {
	line = strings.TrimPrefix(line, "-") // in cronie: do not log
	expr, rest := times(line)
	e := Entry{
		Line: p.line, Text: strings.TrimSpace(p.text), Comment: strings.Join(p.comment, "\n"), Expr: expr, Timezone: p.timezone,
		Env: p.env, Shell: p.shell, Home: p.home, MailTo: p.mailTo,
	}
	if p.o.System {
		e.User, rest = word(rest)
	}
	e.Command, e.Stdin, e.HasStdin = percent(strings.TrimSpace(rest))
	if why := p.refuses(&e); why != "" {
		p.lost(why)
		return
	}
	if e.User != "" {
		p.note("the user " + e.User + " is kept as a label: the command runs as the executor's user")
	}
	p.file.Entries = append(p.file.Entries, e)
}

func (p *parser) refuses(e *Entry) string {
	switch {
	case strings.EqualFold(e.Expr, "@reboot"):
		return "Carillon does not see this machine start; use a systemd unit, or `carillon schedule trigger`"
	case e.Expr == "":
		return "is neither a setting nor five fields and a command"
	case strings.Contains(e.Expr, "~"):
		return "random times (~) are not supported; write the range's first value and set jitter_ms"
	case e.Command == "":
		return "has no command"
	}
	if first, _ := word(e.Command); first == "root" && !p.o.System {
		return "starts with a user, as in a system crontab: import it with --system"
	}
	expr, err := cronexpr.Parse(e.Expr)
	if err != nil {
		return "invalid time fields: " + err.Error()
	}
	zone, err := cronexpr.LoadLocation(e.Timezone)
	if err != nil {
		return "invalid time zone: " + err.Error()
	}
	if expr.In(zone, cronexpr.Vixie).CheckFires(schedule.MinTime.AddDate(56, 0, 0)) != nil {
		return "never fires: no match within 50 years"
	}
	return ""
}

// columns reports whether a comment belongs to the explanation of the columns that
// cron puts into a new file. It describes no command.
func columns(comment string) bool {
	words := strings.Fields(strings.ToLower(comment))
	if len(words) >= 5 && (strings.Join(words[:5], " ") == "m h dom mon dow" || strings.Join(words[:5], " ") == "* * * * *") {
		return true
	}
	return len(words) > 0 && strings.Trim(words[0], "|.-") == ""
}

// times splits off five fields or a macro.
func times(line string) (expr, rest string) {
	if strings.HasPrefix(line, "@") {
		return word(line)
	}
	rest = line
	var fields []string
	for range 5 {
		var field string
		field, rest = word(rest)
		if field == "" || rest == "" {
			return "", ""
		}
		fields = append(fields, field)
	}
	return strings.Join(fields, " "), rest
}

// word splits off the first word.
func word(s string) (first, rest string) {
	s = strings.TrimLeft(s, " \t")
	end := strings.IndexAny(s, " \t")
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimLeft(s[end:], " \t")
}

// percent splits a command like cron: the first % without a backslash ends it, the
// others are line ends of its standard input; \% is a %.
func percent(s string) (command, stdin string, has bool) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '%':
			part.WriteByte('%')
			i++
		case s[i] == '%':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(s[i])
		}
	}
	parts = append(parts, part.String())
	if len(parts) == 1 {
		return parts[0], "", false
	}
	return strings.TrimSpace(parts[0]), strings.Join(parts[1:], "\n"), true
}
