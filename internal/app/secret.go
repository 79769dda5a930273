package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Secret is a setting that prints, logs and encodes as ***.
type Secret string

const hidden = "***"

// Reveal returns the secret.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Format handles every verb, also %q, %x and %#v.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

const (
	fileSuffix    = "_file"
	maxSecretFile = 64 << 10
)

// readSecrets reads secrets from files mounted by Docker or Kubernetes: NAME_FILE instead of NAME.
func (v values) readSecrets() error {
	for _, s := range Settings() {
		key := strings.ToLower(s.Name)
		path := strings.TrimSpace(v[key+fileSuffix])
		if !s.Secret || path == "" {
			continue
		}
		if v[key] != "" {
			return fmt.Errorf("%[1]s and %[1]s_FILE are both set; keep one", s.Name)
		}
		value, err := readSecret(path)
		if err != nil {
			return fmt.Errorf("%s_FILE: %w", s.Name, err)
		}
		v[key] = value
	}
	return nil
}

// readSecret reads a file and trims the spaces around its text.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > maxSecretFile:
		return "", fmt.Errorf("%s has more than %d bytes, too many for a secret", path, maxSecretFile)
	}
	value := strings.TrimSpace(string(raw))
	if value == "" {
		return "", fmt.Errorf("%s is empty; remove the setting if there is no secret", path)
	}
	return value, nil
}

// leastSecret is the shortest secret that is removed from texts: shorter ones would match ordinary
// words.
const leastSecret = 6

// secrets are the texts to hide: every secret setting. Of a URL it is the password, and the URL only
// if it contains one.
func (c *Config) secrets() []string {
	found := []string{os.Getenv("PGPASSWORD")} // read by the driver
	v := reflect.ValueOf(c).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if secret, ok := v.FieldByIndex(f.Index).Interface().(Secret); ok {
			found = append(found, secretsIn(secret.Reveal())...)
		}
	}
	var all []string
	for _, s := range found {
		if len(s) >= leastSecret {
			quoted := strconv.Quote(s)
			all = append(all, s, quoted[1:len(quoted)-1])
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // longest first: a URL before its password
	return slices.Compact(all)
}

func secretsIn(value string) []string {
	_, rest, isURL := strings.Cut(value, "://")
	if !isURL {
		if strings.HasPrefix(value, "sqlite:") { // a path
			return nil
		}
		return []string{value}
	}
	var found []string
	if at := strings.LastIndexByte(rest, '@'); at >= 0 { // works for invalid URLs too
		if _, password, ok := strings.Cut(rest[:at], ":"); ok {
			plain, _ := url.PathUnescape(password)
			found = append(found, password, plain)
		}
	}
	if u, err := url.Parse(value); err == nil {
		for _, name := range []string{"password", "sslpassword"} {
			found = append(found, u.Query().Get(name))
		}
	}
	if len(found) > 0 {
		found = append(found, value)
	}
	return found
}

// scrubber removes secrets from texts.
type scrubber struct {
	all   *strings.Replacer
	extra string // one more secret, removed first; may be empty
}

func (c *Config) scrubber() scrubber {
	var pairs []string
	for _, s := range c.secrets() {
		pairs = append(pairs, s, hidden)
	}
	return scrubber{all: strings.NewReplacer(pairs...)}
}

// with adds a secret. Unlike making a scrubber it is cheap.
func (s scrubber) with(extra string) scrubber { return scrubber{s.all, extra} }

// Replace returns text without secrets.
func (s scrubber) Replace(text string) string {
	if text == "" {
		return ""
	}
	if s.extra != "" {
		text = strings.ReplaceAll(text, s.extra, hidden)
	}
	return s.all.Replace(text)
}

// Scrub removes secrets from an error's text, such as a URL that a driver cannot parse. errors.Is and
// errors.As still work.
func (c *Config) Scrub(err error) error {
	if err == nil {
		return nil
	}
	return c.scrubber().clean(err)
}

func (s scrubber) clean(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := s.Replace(text); clean != text {
		return &scrubbedError{clean, err}
	}
	return err
}

type scrubbedError struct {
	text string
	err  error
}

func (e *scrubbedError) Error() string { return e.text }

// Is delegates to the original error. There is no Unwrap, because it would reveal the text.
func (e *scrubbedError) Is(target error) bool { return errors.Is(e.err, target) }

// As delegates to the original error.
func (e *scrubbedError) As(target any) bool { return errors.As(e.err, target) }

// scrubbing removes secrets from log lines.
type scrubbing struct {
	next     io.Writer
	scrubber scrubber
}

func (w scrubbing) Write(line []byte) (int, error) {
	if _, err := w.scrubber.all.WriteString(w.next, string(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
