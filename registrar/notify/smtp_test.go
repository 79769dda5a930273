package notify_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon/carillon/registrar/notify"
)

// mailServer is a small SMTP server, RFC 5321. It notes each mail that it took.
type mailServer struct {
	t        *testing.T
	listener net.Listener
	conf     *tls.Config
	implicit bool
	offers   []string          // extensions, STARTTLS and AUTH among them
	answers  map[string]string // instead of its own: "RCPT eve@example.org" or "DATA"
	ca       string            // its certificate

	mu    sync.Mutex
	mails []received
	auth  []string // user and password, as they came
}

type received struct {
	secure bool
	from   string
	to     []string
	text   string
}

func newMailServer(t *testing.T, change func(*mailServer)) *mailServer {
	t.Helper()
	s := &mailServer{t: t, offers: []string{"STARTTLS", "AUTH PLAIN LOGIN", "8BITMIME"}}
	change(s)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(s.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s.conf = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = s.listener.Close(); serving.Wait() })
	return s
}

// addr is host:port by a name, which certificates are for.
func (s *mailServer) addr() string {
	return fmt.Sprintf("localhost:%d", s.listener.Addr().(*net.TCPAddr).Port)
}

func (s *mailServer) serve(conn net.Conn) {
	defer conn.Close()
	if s.implicit {
		conn = tls.Server(conn, s.conf)
	}
	c := textproto.NewConn(conn)
	_ = c.PrintfLine("220 mail.example.org ESMTP")
	var m received
	for {
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		verb = strings.ToUpper(verb)
		address := strings.Trim(rest[strings.IndexByte(rest, ':')+1:], "<>")
		if i := strings.IndexByte(address, '>'); i >= 0 {
			address = address[:i]
		}
		_, m.secure = conn.(*tls.Conn)
		if answer, ok := s.answers[strings.TrimSpace(verb+" "+address)]; ok {
			_ = c.PrintfLine("%s", answer)
			continue
		}
		switch verb {
		case "EHLO":
			offers := slices.Clone(s.offers)
			if m.secure {
				offers = slices.DeleteFunc(offers, func(o string) bool { return o == "STARTTLS" })
			}
			_ = c.PrintfLine("250-mail.example.org")
			for _, o := range offers {
				_ = c.PrintfLine("250-%s", o)
			}
			_ = c.PrintfLine("250 SIZE 1000000")
		case "STARTTLS":
			_ = c.PrintfLine("220 go ahead")
			conn = tls.Server(conn, s.conf)
			c = textproto.NewConn(conn)
		case "AUTH":
			s.authenticate(c, rest)
		case "MAIL":
			m.from = address
			_ = c.PrintfLine("250 ok")
		case "RCPT":
			m.to = append(m.to, address)
			_ = c.PrintfLine("250 ok")
		case "DATA":
			_ = c.PrintfLine("354 go on")
			text, err := io.ReadAll(bufio.NewReader(c.DotReader()))
			if err != nil {
				return
			}
			m.text = string(text)
			s.mu.Lock()
			s.mails = append(s.mails, m)
			s.mu.Unlock()
			m = received{}
			_ = c.PrintfLine("250 taken")
		case "QUIT":
			_ = c.PrintfLine("221 bye")
			return
		default:
			_ = c.PrintfLine("500 what?")
		}
	}
}

func (s *mailServer) authenticate(c *textproto.Conn, how string) {
	decode := func(text string) string {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			s.t.Errorf("%q is not base64", text)
		}
		return string(raw)
	}
	mechanism, first, _ := strings.Cut(how, " ")
	var told string
	if mechanism == "PLAIN" {
		told = strings.ReplaceAll(decode(first), "\x00", "/")
	} else {
		for _, question := range []string{"Username:", "Password:"} {
			_ = c.PrintfLine("334 %s", base64.StdEncoding.EncodeToString([]byte(question)))
			line, err := c.ReadLine()
			if err != nil {
				return
			}
			told += "/" + decode(line)
		}
	}
	s.mu.Lock()
	s.auth = append(s.auth, mechanism+" "+told)
	s.mu.Unlock()
	if !strings.HasSuffix(told, "/mailer/s3cret-pass") {
		_ = c.PrintfLine("535 no: %s", told) // a server that repeats the password
		return
	}
	_ = c.PrintfLine("235 ok")
}

func (s *mailServer) took() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

func TestMailArrivesProtectedAsConfigured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server func(*mailServer)
		entry  string // besides smtp, from, ca_file
		auth   string
		want   notify.Result // of the problem, a part
	}{
		{name: "STARTTLS and PLAIN", entry: "to: ops@example.org, username: mailer, password: PASS", auth: "PLAIN /mailer/s3cret-pass", want: notify.Result{Status: 250}},
		{name: "implicit TLS", server: func(s *mailServer) { s.implicit = true }, entry: "tls: implicit, to: ops@example.org, username: mailer, password: PASS", auth: "PLAIN /mailer/s3cret-pass", want: notify.Result{Status: 250}},
		{name: "a server that has LOGIN only", server: func(s *mailServer) { s.offers = []string{"STARTTLS", "AUTH LOGIN"} }, entry: "to: ops@example.org, username: mailer, password: PASS", auth: "LOGIN /mailer/s3cret-pass", want: notify.Result{Status: 250}},
		{name: "no login, on a relay in the private network", server: func(s *mailServer) { s.offers = nil }, entry: "tls: none, to: ops@example.org", want: notify.Result{Status: 250}},
		{name: "a server without STARTTLS gets nothing", server: func(s *mailServer) { s.offers = []string{"AUTH PLAIN"} }, entry: "to: ops@example.org, username: mailer, password: PASS", want: notify.Result{Problem: "does not offer STARTTLS"}},
		{name: "a server with neither PLAIN nor LOGIN", server: func(s *mailServer) { s.offers = []string{"STARTTLS", "AUTH GSSAPI"} }, entry: "to: ops@example.org, username: mailer, password: PASS", want: notify.Result{Problem: `offers AUTH "GSSAPI"`}},
		{name: "a wrong password is tried again, and not told", entry: "to: ops@example.org, username: mailer, password: WRONG", auth: "PLAIN /mailer/wr0ng-pass", want: notify.Result{Status: 535, Problem: `AUTH: 535 "no: /mailer/…"`}},
		{name: "a mail that is refused is not sent again", server: func(s *mailServer) { s.answers = map[string]string{"DATA": "554 no spam here"} }, entry: "to: ops@example.org", want: notify.Result{Status: 554, Final: true, Problem: `DATA: 554 "no spam here"`}},
		{name: "a server that is busy is tried again", server: func(s *mailServer) { s.answers = map[string]string{"MAIL mail@example.org": "451 later"} }, entry: "to: ops@example.org", want: notify.Result{Status: 451, Problem: `MAIL: 451 "later"`}},
		{name: "a mailbox that is not there", server: func(s *mailServer) { s.answers = map[string]string{"RCPT ops@example.org": "550 unknown"} }, entry: "to: ops@example.org", want: notify.Result{Status: 550, Final: true, Problem: `RCPT: 550 "unknown"`}},
		{
			name: "one mailbox of two is not there", server: func(s *mailServer) { s.answers = map[string]string{"RCPT ops@example.org": "550 unknown"} },
			entry: "to: [ops@example.org, ada@example.org]", want: notify.Result{Status: 250, Note: `the server refused ops@example.org (550 "unknown")`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newMailServer(t, func(s *mailServer) {
				if tt.server != nil {
					tt.server(s)
				}
			})
			entry := strings.NewReplacer("PASS", secretFile(t, "s3cret-pass"), "WRONG", secretFile(t, "wr0ng-pass")).Replace(tt.entry)
			got := send(t, target(t, fmt.Sprintf("kind: email, smtp: %q, from: 'Carillon <mail@example.org>', ca_file: '%s', %s", s.addr(), s.ca, entry)), messages()["opened"])
			if !strings.Contains(got.Problem, tt.want.Problem) || got.Problem != "" && tt.want.Problem == "" {
				t.Errorf("the problem is %q, want %q", got.Problem, tt.want.Problem)
			}
			if got.Problem = tt.want.Problem; got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if auth := strings.Join(s.auth, ","); auth != tt.auth {
				t.Errorf("logged in as %q, want %q", auth, tt.auth)
			}
			if took := s.took(); (len(took) == 1) != (tt.want.Problem == "") {
				t.Errorf("the server took %+v", took)
			} else if len(took) == 1 && took[0].secure == strings.Contains(tt.entry, "tls: none") {
				t.Errorf("it came with TLS: %t", took[0].secure)
			}
		})
	}
}

func TestACertificateOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	s, other := newMailServer(t, func(*mailServer) {}), newMailServer(t, func(*mailServer) {})
	got := send(t, target(t, fmt.Sprintf("kind: email, smtp: %q, from: mail@example.org, to: ops@example.org, ca_file: '%s'", s.addr(), other.ca)), messages()["opened"])
	if !strings.Contains(got.Problem, "STARTTLS: tls: failed to verify certificate") || len(s.took()) > 0 {
		t.Errorf("%+v, and it took %+v", got, s.took())
	}
}

func TestMailReadsAsItIsMeantTo(t *testing.T) {
	t.Parallel()
	for name, m := range allMessages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newMailServer(t, func(*mailServer) {})
			if got := send(t, target(t, fmt.Sprintf("kind: email, smtp: %q, from: 'Carillon <mail@example.org>', to: [ops@example.org, ada@example.org], ca_file: '%s'", s.addr(), s.ca)), m); got.Problem != "" {
				t.Fatalf("%+v", got)
			}
			golden(t, "email_"+name+".txt", s.took()[0].text)
		})
	}
}

// The oracle is the standard library's reader of mails.
func TestNothingOfAScheduleBecomesAHeader(t *testing.T) {
	t.Parallel()
	s := newMailServer(t, func(*mailServer) {})
	m := messages()["hostile"]
	m.Data.ScheduleID = "nightly\r\nBcc: eve@evil.example\r\n\r\nbody é"
	m.Data.Environment = "prod\nX: y"
	to := target(t, fmt.Sprintf("kind: email, smtp: %q, from: mail@example.org, to_label: mailto, allow_domains: example.org, ca_file: '%s'", s.addr(), s.ca))
	m.Data.Labels = map[string]string{"mailto": "ada@example.org"}
	if got := send(t, to, m); got.Problem != "" {
		t.Fatalf("%+v", got)
	}
	took := s.took()[0]
	read, err := mail.ReadMessage(strings.NewReader(took.text))
	if err != nil {
		t.Fatal(err)
	}
	for name := range read.Header {
		if !slices.Contains([]string{"From", "To", "Subject", "Date", "Message-Id", "References", "Auto-Submitted", "Mime-Version", "Content-Type", "Content-Transfer-Encoding"}, name) {
			t.Errorf("there is a header %s: %v", name, read.Header[name])
		}
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
	if err != nil || subject != "[prod X: y] Alert: nightly Bcc: eve@evil.example  body é" {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(read.Body))
	if err != nil || !strings.Contains(string(body), "Owner:       <!channel>") || strings.ContainsAny(string(body), "\x1b\u202e") {
		t.Errorf("the body is %q, %v", body, err)
	}
	if !slices.Equal(took.to, []string{"ada@example.org"}) {
		t.Errorf("it went to %v", took.to)
	}
}

func TestALabelSendsMailWithinTheAllowedDomainsOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, also, label string
		to                []string
		says              string
	}{
		{name: "one address", label: "ada@example.org", to: []string{"ada@example.org"}},
		{name: "two, and one of them is the configuration's", also: "to: OPS@example.org, ", label: "ada@Example.ORG, ops@example.org", to: []string{"OPS@example.org", "ada@Example.ORG"}},
		{name: "another domain is left out", label: "ada@example.org,eve@evil.example", to: []string{"ada@example.org"}, says: "not sent to eve@evil.example (allow_domains does not have its domain)"},
		{name: "a domain below an allowed one", label: "eve@evil.example.org", says: "no recipient is left: label mailto: not sent to eve@evil.example.org"},
		{name: "a user of the machine, as crontabs have it", label: "root", says: "not sent to root (not an address such as ada@example.org)"},
		{name: "a command of SMTP", label: "ada@example.org>\r\nRCPT TO:<eve@evil.example", says: "not an address"},
		{name: "a quoted part that hides another address", label: `"eve@evil.example"@example.org`, says: "not an address"},
		{name: "a route through an allowed domain", label: "eve%evil.example@example.org", says: "not an address"},
		{name: "no label", also: "to: ops@example.org, ", to: []string{"ops@example.org"}, says: "the schedule has no label mailto"},
		{name: "more than ten", label: strings.TrimSuffix(strings.Repeat("a@example.org,", 10)+"b@example.org", ","), to: []string{"a@example.org"}, says: "b@example.org (more than 10 recipients)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newMailServer(t, func(*mailServer) {})
			m := messages()["opened"]
			m.Data.Labels = map[string]string{"mailto": tt.label}
			got := send(t, target(t, fmt.Sprintf("kind: email, smtp: %q, from: mail@example.org, %sto_label: mailto, allow_domains: [example.net, example.org], ca_file: '%s'", s.addr(), tt.also, s.ca)), m)
			var to []string
			for _, m := range s.took() {
				to = append(to, m.to...)
			}
			if !slices.Equal(to, tt.to) || !strings.Contains(got.Problem+got.Note, tt.says) || tt.says == "" && got.Note != "" || got.Final != (tt.to == nil) {
				t.Errorf("it went to %v with %+v, want %v and %q", to, got, tt.to, tt.says)
			}
		})
	}
}

func TestATestOfATargetWithoutFixedRecipientsTriesTheLogin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, password, problem, note string }{
		{name: "it works", password: "s3cret-pass", note: "connected and logged in; no mail was sent, as the target has no fixed recipient"},
		{name: "it is refused", password: "wr0ng-pass", problem: `AUTH: 535 "no: /mailer/…"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newMailServer(t, func(*mailServer) {})
			got := send(t, target(t, fmt.Sprintf("kind: email, smtp: %q, from: mail@example.org, to_label: mailto, allow_domains: example.org, username: mailer, password: %s, ca_file: '%s'",
				s.addr(), secretFile(t, tt.password), s.ca)), messages()["test"])
			if got.Problem != tt.problem || got.Note != tt.note || len(s.took()) > 0 {
				t.Errorf("%+v, and the server took %+v", got, s.took())
			}
		})
	}
}
