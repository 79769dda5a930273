package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/carillon/carillon/registrar/alert/expect"
)

// email is one or more mailboxes reached through one SMTP server.
type email struct {
	server  smtpServer
	from    mail.Address
	to      []mail.Address
	toLabel string   // the label of a schedule that names more recipients; empty: none
	domains []string // those recipients must be within one of them
}

// maxLabelRecipients bounds the recipients in one schedule's label.
const maxLabelRecipients = 10

// Send composes the mail and hands it to the server.
func (e *email) Send(ctx context.Context, o Outgoing) Result {
	m, bad := o.message()
	if bad != nil {
		return *bad
	}
	if m.Type == expect.NoticeTest && len(e.to) == 0 {
		r := e.server.deliver(ctx, envelope{})
		if r.Problem == "" {
			r.Note = "connected and logged in; no mail was sent, as the target has no fixed recipient"
		}
		return r
	}
	to, refused := e.recipients(m)
	if len(to) == 0 {
		return Result{Problem: "no recipient is left: " + refused, Final: true}
	}
	r := e.server.deliver(ctx, envelope{from: e.from.Address, to: addresses(to), mail: e.compose(m, to, o)})
	if refused != "" {
		if r.Note != "" {
			r.Note += "; "
		}
		r.Note += refused
	}
	return r
}

// recipients are those of the configuration, and those of the schedule's label
// that the configuration allows. An owner writes the label: it must not send
// mail anywhere else. refused says which addresses were left out, and why.
func (e *email) recipients(m *Message) (to []mail.Address, refused string) {
	to = slices.Clone(e.to)
	if e.toLabel == "" {
		return to, ""
	}
	text := strings.TrimSpace(m.Data.Labels[e.toLabel])
	if text == "" {
		return to, fmt.Sprintf("the schedule has no label %s", e.toLabel)
	}
	parts := strings.Split(text, ",")
	var left []string
	for i, part := range parts {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		a, why := e.allowed(part)
		switch {
		case i >= maxLabelRecipients:
			left = append(left, fmt.Sprintf("%s (more than %d recipients)", oneLine(part, maxFact), maxLabelRecipients))
		case why != "":
			left = append(left, fmt.Sprintf("%s (%s)", oneLine(part, maxFact), why))
		case !slices.ContainsFunc(to, func(b mail.Address) bool { return strings.EqualFold(a.Address, b.Address) }):
			to = append(to, mail.Address{Address: a.Address}) // the display name is the owner's text
		}
	}
	if left != nil {
		refused = fmt.Sprintf("label %s: not sent to %s", e.toLabel, strings.Join(left, ", "))
	}
	return to, refused
}

func (e *email) allowed(text string) (a mail.Address, why string) {
	a, err := parseAddress(text)
	if err != nil {
		return a, err.Error()
	}
	domain := a.Address[strings.LastIndexByte(a.Address, '@')+1:]
	if !slices.ContainsFunc(e.domains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return a, "allow_domains does not have its domain"
	}
	return a, ""
}

var errAddress = errors.New("not an address such as ada@example.org")

// parseAddress reads one address that SMTP can carry: ASCII, without spaces, and
// without a source route or quoted part that a server might read another way.
func parseAddress(text string) (mail.Address, error) {
	a, err := mail.ParseAddress(text)
	if err != nil {
		return mail.Address{}, errAddress
	}
	local, domain, found := strings.Cut(a.Address, "@")
	plain := func(text, also string) bool {
		return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"+also) == ""
	}
	if !found || !plain(local, "!#$&'*+/=?^_`{|}~") || !plain(domain, "") {
		return mail.Address{}, errAddress
	}
	return *a, nil
}

func addresses(list []mail.Address) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Address
	}
	return out
}

// compose writes the mail, RFC 5322. Everything that comes from a schedule is in
// the subject, encoded, or in the body.
func (e *email) compose(m *Message, to []mail.Address, o Outgoing) []byte {
	var b bytes.Buffer
	header := func(name, value string) { b.WriteString(name + ": " + value + "\r\n") }
	domain := e.from.Address[strings.LastIndexByte(e.from.Address, '@')+1:]
	list := make([]string, len(to))
	for i := range to {
		list[i] = to[i].String()
	}
	header("From", e.from.String())
	header("To", strings.Join(list, ",\r\n "))
	header("Subject", mime.QEncoding.Encode("utf-8", m.title()))
	header("Date", o.Now.UTC().Format(time.RFC1123Z))
	header("Message-ID", "<"+o.ID+"@"+domain+">")
	if id := m.incident(); id != "" { // mail programs show all messages of one incident together
		header("References", "<"+id+"@"+domain+">")
	}
	header("Auto-Submitted", "auto-generated") // no answer from who is on holiday; RFC 3834
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(emailText(m))) // into memory
	_ = w.Close()
	return b.Bytes()
}

func emailText(m *Message) string {
	var b strings.Builder
	line := func(text string) { b.WriteString(text + "\r\n") }
	line(m.sentence())
	line("")
	for _, f := range m.facts() {
		line(fmt.Sprintf("%-12s %s", f.name+":", f.value))
	}
	if lines := m.output(); lines != nil {
		line("")
		line("Last lines of the run's output:")
		for _, text := range lines {
			line("  " + text)
		}
	}
	if m.Data.URL != "" {
		line("")
		line(m.Data.URL)
	}
	return b.String()
}
