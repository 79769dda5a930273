package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"
)

// smtpServer is where mail is handed over. The operator names it, as EXECUTOR_URL
// is named: it may be in the private network, and ALLOW_EGRESS does not apply.
type smtpServer struct {
	addr     string // host:port
	security smtpSecurity
	username string // empty: no authentication
	password source
	roots    *x509.CertPool // nil: the system's
}

// smtpSecurity says how the connection is protected; a closed set.
type smtpSecurity string

const (
	smtpStartTLS smtpSecurity = "starttls" // required: without it nothing is sent
	smtpImplicit smtpSecurity = "implicit" // TLS from the first byte, usually port 465
	smtpNone     smtpSecurity = "none"     // without a password only
)

// smtpTimeout bounds one attempt. It is below the lease of the outbox: two
// attempts at once would be two mails.
const smtpTimeout = 30 * time.Second

// envelope is one mail for the server. Without recipients only the connection and
// the login are tried.
type envelope struct {
	from string
	to   []string
	mail []byte
}

// smtpError is a step that failed.
type smtpError struct {
	step string
	err  error
}

func (e *smtpError) Error() string { return e.step + ": " + e.err.Error() }
func (e *smtpError) Unwrap() error { return e.err }

// deliver makes one attempt. The server's text is kept, because it tells the operator what to do.
func (s *smtpServer) deliver(ctx context.Context, m envelope) Result {
	ctx, cancel := context.WithTimeout(ctx, smtpTimeout)
	defer cancel()
	note, err := s.transact(ctx, m)
	if err == nil {
		return Result{Status: 250, Note: note}
	}
	password, _ := s.password.read() // some servers repeat what they refuse
	r := Result{Problem: oneLine(redact(err.Error(), []string{password}), maxError)}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		r.Problem = fmt.Sprintf("no answer within %s", smtpTimeout)
	}
	var answer *textproto.Error
	if errors.As(err, &answer) {
		r.Status = answer.Code
	}
	var failed *smtpError
	if errors.As(err, &failed) { // 5xx to the mail itself, not to the login
		r.Final = r.Status >= 500 && (failed.step == "MAIL" || failed.step == "RCPT" || failed.step == "DATA")
	}
	return r
}

func (s *smtpServer) transact(ctx context.Context, m envelope) (note string, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return "", &smtpError{"connect to " + s.addr, err}
	}
	defer conn.Close()
	// The deadline also ends the wait when the process ends.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	c, err := s.greet(ctx, conn)
	if err != nil {
		return "", err
	}
	if err := s.authenticate(c); err != nil {
		return "", err
	}
	if len(m.to) == 0 {
		_ = c.Quit() // all that there is to test has worked
		return "", nil
	}
	if err := c.Mail(m.from); err != nil {
		return "", &smtpError{"MAIL", err}
	}
	note, err = recipients(c, m.to)
	if err != nil {
		return "", err
	}
	w, err := c.Data()
	if err != nil {
		return "", &smtpError{"DATA", err}
	}
	if _, err := w.Write(m.mail); err != nil {
		return "", &smtpError{"DATA", err}
	}
	if err := w.Close(); err != nil {
		return "", &smtpError{"DATA", err}
	}
	_ = c.Quit() // the server has the mail
	return note, nil
}

// recipients names the recipients to the server. If some are refused, the mail goes to the others
// and the note lists them. All refused is an error.
func recipients(c *smtp.Client, to []string) (note string, err error) {
	var refused []string
	for _, address := range to {
		err = c.Rcpt(address)
		var answer *textproto.Error
		switch {
		case err == nil:
		case errors.As(err, &answer):
			refused = append(refused, fmt.Sprintf("%s (%v)", address, answer))
		default:
			return "", &smtpError{"RCPT", err}
		}
	}
	if len(refused) == len(to) {
		return "", &smtpError{"RCPT", err}
	}
	if refused != nil {
		note = "the server refused " + strings.Join(refused, ", ")
	}
	return note, nil
}

// greet protects the connection as configured, never less, and sends EHLO.
func (s *smtpServer) greet(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	host, _, err := net.SplitHostPort(s.addr)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{ServerName: host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}
	if s.security == smtpImplicit {
		secured := tls.Client(conn, conf)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, &smtpError{"TLS", err}
		}
		conn = secured
	}
	c, err := smtp.NewClient(conn, conf.ServerName)
	if err != nil {
		return nil, &smtpError{"greeting", err}
	}
	if name, err := os.Hostname(); err == nil {
		if err := c.Hello(name); err != nil {
			return nil, &smtpError{"EHLO", err}
		}
	}
	if s.security != smtpStartTLS {
		return c, nil
	}
	if ok, _ := c.Extension("STARTTLS"); !ok {
		return nil, errors.New("the server does not offer STARTTLS, and the mail is not sent without it; set tls: implicit for port 465")
	}
	if err := c.StartTLS(conf); err != nil {
		return nil, &smtpError{"STARTTLS", err}
	}
	return c, nil
}

// authenticate logs in by PLAIN, or by LOGIN where the server has only that, as
// Microsoft's does.
func (s *smtpServer) authenticate(c *smtp.Client) error {
	if s.username == "" {
		return nil
	}
	password, err := s.password.read()
	if err != nil {
		return fmt.Errorf("password: %w", err)
	}
	_, offered := c.Extension("AUTH")
	host, _, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	var how smtp.Auth
	switch mechanisms := strings.Fields(strings.ToUpper(offered)); {
	case slices.Contains(mechanisms, "PLAIN"):
		how = smtp.PlainAuth("", s.username, password, host)
	case slices.Contains(mechanisms, "LOGIN"):
		how = &loginAuth{s.username, password}
	default:
		return fmt.Errorf("the server offers AUTH %q, and neither PLAIN nor LOGIN", offered)
	}
	if err := c.Auth(how); err != nil {
		return &smtpError{"AUTH", err}
	}
	return nil
}

// loginAuth is AUTH LOGIN. File validation lets it onto protected connections
// only.
type loginAuth struct{ username, password string }

// Start begins without an initial response.
func (a *loginAuth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS {
		return "", nil, errors.New("a password is not sent without TLS")
	}
	return "LOGIN", nil, nil
}

// Next answers the two questions of the server.
func (a *loginAuth) Next(asked []byte, more bool) ([]byte, error) {
	switch question := string(bytes.ToLower(bytes.TrimSpace(asked))); {
	case !more:
		return nil, nil
	case strings.HasPrefix(question, "username"):
		return []byte(a.username), nil
	case strings.HasPrefix(question, "password"):
		return []byte(a.password), nil
	default:
		return nil, fmt.Errorf("unexpected question %q", asked)
	}
}
