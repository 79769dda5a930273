package output_test

import (
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/output"
)

func TestOutputIsCleanedToPlainText(t *testing.T) {
	for name, tt := range map[string]struct{ raw, want string }{
		"plain text stays":                     {"one\n\ttwo\n", "one\n\ttwo\n"},
		"letters of any script stay":           {"größer 日本 ✓", "größer 日本 ✓"},
		"colours go":                           {"\x1b[1;31mred\x1b[0m", "red"},
		"a title and its bell go":              {"a\x1b]0;title\x07b", "ab"},
		"a link that is closed by ST goes":     {"a\x1b]8;;http://x\x1b\\b", "ab"},
		"a title without an end goes":          {"a\x1b]0;title", "a"},
		"a lone escape shows":                  {"a\x1b", "a\uFFFD"},
		"a progress bar becomes lines":         {"10%\r20%\r\ndone", "10%\n20%\ndone"},
		"binary garbage is one mark a stretch": {"a\x00\x01\xff\xfeb", "a\uFFFDb"},
		"C1 controls are no text":              {"a\u009bb", "a\uFFFDb"},
		"what reorders text goes":              {"a\u202eb\u200bc", "abc"},
		"markup is not its business":           {"<script>alert(1)</script>", "<script>alert(1)</script>"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := output.Clean([]byte(tt.raw)); got != tt.want {
				t.Errorf("Clean(%q) = %q, want %q", tt.raw, got, tt.want)
			}
		})
	}
}

func TestTheEndOfAnOutputIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		limit int
		want  string
		left  int
	}{
		"at the limit nothing goes":                 {"12345", 5, "12345", 0},
		"it begins with a whole line":               {"aaaa\nbbbb\ncccc", 12, "bbbb\ncccc", 5},
		"a long line is cut":                        {"aaaaaaaaaa", 4, "aaaa", 6},
		"a letter of several bytes is not halved":   {"aé日日", 5, "日", 6},
		"a line that begins late is not looked for": {"aaaaaaaaaaaaaa\nb", 10, "aaaaaaaa\nb", 6},
	} {
		t.Run(name, func(t *testing.T) {
			kept, left := output.KeepEnd(tt.text, tt.limit)
			if kept != tt.want || left != tt.left {
				t.Errorf("KeepEnd(%q, %d) = %q, %d; want %q, %d", tt.text, tt.limit, kept, left, tt.want, tt.left)
			}
		})
	}
}

func TestTheTailIsTheLastLines(t *testing.T) {
	for name, tt := range map[string]struct {
		text         string
		lines, limit int
		want         string
	}{
		"fewer lines than asked for": {"a\nb\n", 20, 100, "a\nb"},
		"more lines":                 {"a\nb\nc\n", 2, 100, "b\nc"},
		"more bytes":                 {"aaaa\nbbbb", 20, 5, "bbbb"},
		"no output":                  {"\n\n", 20, 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := output.Tail(tt.text, tt.lines, tt.limit); got != tt.want {
				t.Errorf("Tail(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestSecretsAreMasked(t *testing.T) {
	m, err := output.NewMasker(`acme-[0-9]{4}`)
	if err != nil {
		t.Fatal(err)
	}
	m = m.With("hunter2!", "short", "first line of a key\nsecond line of it\n")
	for name, tt := range map[string]struct{ text, want string }{
		"a value that is known":               {"pw hunter2! used", "pw *** used"},
		"a value too short to be told apart":  {"short", "short"},
		"each line of a value":                {"second line of it", "***"},
		"what LOG_MASK matches":               {"id acme-1234", "id ***"},
		"a bearer token":                      {"Authorization: Bearer abcdef123456", "Authorization: Bearer ***"},
		"basic credentials":                   {"authorization: basic dXNlcjpwYXNz", "authorization: basic ***"},
		"a password in a URL":                 {"postgres://app:s3cret@db:5432/x", "postgres://app:***@db:5432/x"},
		"an assignment":                       {"DB_PASSWORD=abc123 next", "DB_PASSWORD=*** next"},
		"a member of JSON":                    {`{"api_key": "abc123", "n": 1}`, `{"api_key": "***", "n": 1}`},
		"a password after a colon":            {"password: abc123", "password: ***"},
		"a parser's complaint stays":          {"unexpected token: identifier", "unexpected token: identifier"},
		"a signed token":                      {"got eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0", "got ***"},
		"an AWS key id":                       {"AKIAIOSFODNN7EXAMPLE", "***"},
		"a GitHub token":                      {"ghp_0123456789abcdefghij0123456789abcdef", "***"},
		"a Slack token":                       {"xoxb-1234567890-abc", "***"},
		"a Stripe key":                        {"sk_live_0123456789abcdef", "***"},
		"a webhook secret":                    {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "***"},
		"a private key":                       {"x\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\ny", "x\n-----BEGIN RSA PRIVATE KEY-----***\ny"},
		"a private key that is cut off":       {"-----BEGIN PRIVATE KEY-----\nabc", "-----BEGIN PRIVATE KEY-----***"},
		"text without secrets stays":          {"copied 3 files in 2 s", "copied 3 files in 2 s"},
		"a URL without a password stays":      {"https://example.com/a:b@c", "https://example.com/a:b@c"},
		"no group reference comes from input": {"token=$1${1}abc", "token=***"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := m.Mask(tt.text); got != tt.want {
				t.Errorf("Mask(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
	var none *output.Masker
	if got := none.Mask("Bearer abcdef123456"); got != "Bearer ***" {
		t.Errorf("a nil Masker knows the forms; got %q", got)
	}
}

func TestAMaskThatCannotWorkIsRefused(t *testing.T) {
	for name, pattern := range map[string]string{
		"no regular expression": `(`, "it matches everything": `x*`, "it is too long": strings.Repeat("a", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := output.NewMasker(pattern); err == nil {
				t.Errorf("%.20q is accepted", pattern)
			}
		})
	}
}

func TestNamesOfVariablesTellSecrets(t *testing.T) {
	for name, want := range map[string]bool{"DB_PASSWORD": true, "api_token": true, "PATH": false, "LANG": false, "AWS_SECRET_ACCESS_KEY": true} {
		if got := output.SecretName(name); got != want {
			t.Errorf("SecretName(%q) = %v", name, got)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\r\n\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		text := output.Clean(raw)
		if again := output.Clean([]byte(text)); again != text {
			t.Errorf("Clean(%q) = %q, and again %q", raw, text, again)
		}
		if strings.ContainsAny(text, "\x00\x1b\r\x07") {
			t.Errorf("Clean(%q) = %q", raw, text)
		}
	})
}
