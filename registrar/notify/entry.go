package notify

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/carillon/carillon/internal/auth/cert"
	"github.com/carillon/carillon/internal/schedule"
)

// The fields of each kind, and those of them that must be there.
var kindFields = map[Kind]struct{ has, needs []string }{
	KindWebhook:   {[]string{"url", "secret"}, []string{"url", "secret"}},
	KindEmail:     {[]string{"smtp", "tls", "ca_file", "username", "password", "from", "to", "to_label", "allow_domains"}, []string{"smtp", "from"}},
	KindSlack:     {[]string{"url"}, []string{"url"}},
	KindPagerDuty: {[]string{"routing_key", "url"}, []string{"routing_key"}},
	KindTeams:     {[]string{"url"}, []string{"url"}},
	KindNtfy:      {[]string{"url", "token"}, []string{"url"}},
}

// secretFields must not be in the file itself. A URL of Slack or Teams is a
// secret too: who has it can post.
var secretFields = []string{"secret", "routing_key", "token", "password"}

var targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// target makes a target of its entry, or says which field is wrong.
func (p *parser) target(e *targetEntry) (t Target, field string, err error) {
	if !targetName.MatchString(e.Name) {
		return t, "name", fmt.Errorf("%s is not a name: 1 to 63 of a–z 0–9 _ -, the first a letter or digit", schedule.Quote(e.Name))
	}
	if err := oneOf([]string{string(e.Kind)}, Kinds); err != nil {
		return t, "kind", err
	}
	if field, err := p.fields(e); err != nil {
		return t, field, err
	}
	t = Target{ID: e.Name, Kind: e.Kind}
	if e.Kind == KindEmail {
		return p.email(t, e)
	}
	address, err := e.URL.read()
	if err != nil {
		return t, "url", err
	}
	if e.Kind == KindPagerDuty && !e.URL.set() {
		e.URL, address = literal(pagerDutyURL), pagerDutyURL
	}
	u, err := parseURL(address, p.policy)
	if err != nil {
		return t, "url", err
	}
	t.Host = u.Host
	switch e.Kind {
	case KindWebhook:
		keys, err := e.Secret.read()
		if err == nil {
			_, err = parseSecrets(keys)
		}
		t.sender, field = &webhook{url: e.URL, secrets: e.Secret}, "secret"
		return t, field, err
	case KindSlack:
		t.sender = &hook{url: e.URL, render: slackBody}
	case KindTeams:
		t.sender = &hook{url: e.URL, render: teamsBody}
	case KindPagerDuty:
		t.sender = &pagerDuty{url: e.URL, key: e.RoutingKey}
	case KindNtfy:
		_, _, err = ntfyTopic(address)
		t.sender = &ntfy{url: e.URL, token: e.Token}
	}
	return t, "url", err
}

// fields checks that an entry has the fields of its kind and no others, and that
// its secrets are kept elsewhere and can be read.
func (p *parser) fields(e *targetEntry) (field string, err error) {
	kind := kindFields[e.Kind]
	v := reflect.ValueOf(e).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, value := f.Tag.Get("yaml"), v.FieldByIndex(f.Index)
		set := !value.IsZero()
		switch {
		case name == "name" || name == "kind":
			continue
		case set && !slices.Contains(kind.has, name):
			return name, fmt.Errorf("has no meaning for the kind %s; it has %s", e.Kind, strings.Join(kind.has, ", "))
		case !set && slices.Contains(kind.needs, name):
			return name, fmt.Errorf("is missing for the kind %s", e.Kind)
		case !set:
			continue
		}
		s, ok := value.Addr().Interface().(*source)
		if !ok {
			continue
		}
		inside := slices.Contains(secretFields, name) || name == "url" && (e.Kind == KindSlack || e.Kind == KindTeams)
		if inside && !s.secret() {
			return name, errors.New("is a secret, and does not belong in this file: write {env: NAME} or {file: PATH}")
		}
		if s.file != "" && !filepath.IsAbs(s.file) {
			s.file = filepath.Join(p.folder, s.file)
		}
		if _, err := s.read(); err != nil {
			return name, err
		}
	}
	return "", nil
}

func (p *parser) email(t Target, e *targetEntry) (_ Target, field string, err error) {
	host, port, err := net.SplitHostPort(e.SMTP)
	if err != nil || host == "" || port == "" {
		return t, "smtp", fmt.Errorf("%s is not host:port, such as smtp.example.org:587", schedule.Quote(e.SMTP))
	}
	to := &email{server: smtpServer{addr: e.SMTP, security: smtpSecurity(e.TLS), username: e.Username, password: e.Password}, toLabel: e.ToLabel, domains: e.AllowDomains}
	if e.TLS == "" {
		to.server.security = smtpStartTLS
	}
	if err := oneOf([]string{string(to.server.security)}, []smtpSecurity{smtpStartTLS, smtpImplicit, smtpNone}); err != nil {
		return t, "tls", err
	}
	if e.CAFile != "" {
		if to.server.roots, err = p.roots(e.CAFile); err != nil {
			return t, "ca_file", err
		}
	}
	switch {
	case (e.Username == "") != !e.Password.set():
		return t, "password", errors.New("username and password go together")
	case e.Username != "" && to.server.security == smtpNone:
		return t, "tls", errors.New("none would send the password unprotected; use starttls or implicit")
	}
	from, err := mail.ParseAddress(e.From)
	if err == nil {
		_, err = parseAddress(from.Address)
	}
	if err != nil {
		return t, "from", fmt.Errorf("%s is %w", schedule.Quote(e.From), errAddress)
	}
	to.from = *from
	for _, text := range e.To {
		a, err := parseAddress(text)
		if err != nil {
			return t, "to", fmt.Errorf("%s is %w", schedule.Quote(text), err)
		}
		to.to = append(to.to, a)
	}
	switch {
	case len(e.To) == 0 && e.ToLabel == "":
		return t, "to", errors.New("is missing: give to, to_label or both")
	case (e.ToLabel == "") != (len(e.AllowDomains) == 0):
		return t, "allow_domains", errors.New("to_label and allow_domains go together: owners write labels, and must not be able to send mail to everyone")
	}
	t.Host, t.sender = e.SMTP, to
	return t, "", nil
}

func (p *parser) roots(path string) (*x509.CertPool, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.folder, path)
	}
	return cert.ReadPool(path)
}
