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

// Secret is a setting that is never shown: whatever prints, logs or encodes it
// gets *** instead. Reveal is for the one place that uses it.
type Secret string

const hidden = "***"

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Format is asked for every verb, also %q, %x and %#v.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue is what a log shows.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is what JSON and YAML show.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

const (
	fileSuffix    = "_file"
	maxSecretFile = 64 << 10
)

// readSecrets reads the secrets that are in files of their own, as Docker and
// Kubernetes mount them: NAME_FILE instead of NAME.
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

// readSecret takes a file's text without the line break at its end.
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

// leastSecret is the length from which a secret is looked for in texts: all
// others would make every text unreadable.
const leastSecret = 6

// secrets are the texts that must not be seen: every secret setting, but of
// one that is a URL only its password, and the URL with the password in it.
func (c *Config) secrets() []string {
	found := []string{os.Getenv("PGPASSWORD")} // the driver reads it by itself
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
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // a URL before the password in it
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
	if at := strings.LastIndexByte(rest, '@'); at >= 0 { // also where the URL does not parse
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

// scrubber takes secrets out of texts.
type scrubber struct {
	all *strings.Replacer
	own string // a secret besides, which is looked for first; "": none
}

func (c *Config) scrubber() scrubber {
	var pairs []string
	for _, s := range c.secrets() {
		pairs = append(pairs, s, hidden)
	}
	return scrubber{all: strings.NewReplacer(pairs...)}
}

// besides takes one secret more out. It costs nothing to make, unlike a scrubber.
func (s scrubber) besides(own string) scrubber { return scrubber{s.all, own} }

// Replace is text without the secrets.
func (s scrubber) Replace(text string) string {
	if text == "" {
		return ""
	}
	if s.own != "" {
		text = strings.ReplaceAll(text, s.own, hidden)
	}
	return s.all.Replace(text)
}

// Scrub takes every secret out of an error's text; a driver may have put it
// there, such as a URL that it cannot read. What the error is stays.
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

// Is and As look into the error; there is no Unwrap, by which its text would
// come out again.
func (e *scrubbedError) Is(target error) bool { return errors.Is(e.err, target) }

// As is the same for types.
func (e *scrubbedError) As(target any) bool { return errors.As(e.err, target) }

// scrubbing is what logs are written through: whatever a line holds, no secret
// leaves in it.
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
