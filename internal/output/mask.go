package output

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Masked replaces a secret.
const Masked = "***"

// leastSecret is the length from which a value is masked wherever it appears.
// Shorter ones ("true", "1234") would make every text unreadable.
const leastSecret = 6

// maxPattern bounds LOG_MASK.
const maxPattern = 4096

// rule is a known form of a secret. The first group is kept, the rest masked.
type rule struct {
	hint    []string // lower case; the pattern is tried only where one occurs
	pattern *regexp.Regexp
}

// The known forms. docs/executors.md lists them for users.
var rules = []rule{
	{[]string{"-----begin"}, regexp.MustCompile(`(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)},
	{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`)},
	{[]string{"://"}, regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@'"]*:)[^\s/@'"]+@`)},
	{
		[]string{"pass", "secret", "token", "key", "credential"},
		regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)[a-z0-9_-]*(?:["']?\s*=\s*|["']\s*:\s*)["']?)[^\s"',;&]{3,}`),
	},
	{[]string{"password", "passwd", "secret"}, regexp.MustCompile(`(?i)(\b(?:password|passwd|secret): )[^\s"',;]{3,}`)},
	{[]string{"eyj"}, regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)},
	{[]string{"akia", "asia"}, regexp.MustCompile(`()\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{[]string{"gh", "github_pat_"}, regexp.MustCompile(`()\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`)},
	{[]string{"glpat-"}, regexp.MustCompile(`()\bglpat-[A-Za-z0-9_-]{16,}`)},
	{[]string{"xox"}, regexp.MustCompile(`()\bxox[abeprs]-[A-Za-z0-9-]{10,}`)},
	{[]string{"aiza"}, regexp.MustCompile(`()\bAIza[0-9A-Za-z_-]{30,}`)},
	{[]string{"sk-", "sk_", "rk_"}, regexp.MustCompile(`()\b(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{10,})`)},
	{[]string{"whsec_"}, regexp.MustCompile(`()\bwhsec_[A-Za-z0-9+/=]{16,}`)},
}

// Masker replaces secrets in texts: values that are known, and text that has a
// known form. The zero value and nil know the forms only.
type Masker struct {
	values []string // the longest first: one may contain another
	own    *regexp.Regexp
}

// NewMasker returns a Masker that also masks what pattern matches; empty: none.
func NewMasker(pattern string) (*Masker, error) {
	if pattern == "" {
		return &Masker{}, nil
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("the regular expression has %d bytes, more than %d", len(pattern), maxPattern)
	}
	own, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%q is not a regular expression (RE2): %w", pattern, err)
	}
	if own.MatchString("") {
		return nil, fmt.Errorf("%q matches empty text, so it would mask everything", pattern)
	}
	return &Masker{own: own}, nil
}

// With returns a Masker that masks these values too. Values of fewer than six
// characters are ignored.
func (m *Masker) With(values ...string) *Masker {
	var with Masker
	if m != nil {
		with = *m
	}
	with.values = slices.Clone(with.values)
	for _, v := range values {
		for line := range strings.Lines(v) { // a key of several lines is written line by line
			if line = strings.TrimSpace(line); len(line) >= leastSecret {
				with.values = append(with.values, line)
			}
		}
	}
	slices.SortFunc(with.values, func(a, b string) int { return len(b) - len(a) })
	with.values = slices.Compact(with.values)
	return &with
}

// Mask returns text with *** in place of each secret.
func (m *Masker) Mask(text string) string {
	if text == "" {
		return ""
	}
	if m != nil {
		for _, v := range m.values {
			text = strings.ReplaceAll(text, v, Masked)
		}
		if m.own != nil {
			text = m.own.ReplaceAllLiteralString(text, Masked)
		}
	}
	lower := strings.ToLower(text)
	for i := range rules {
		if !slices.ContainsFunc(rules[i].hint, func(hint string) bool { return strings.Contains(lower, hint) }) {
			continue
		}
		text = rules[i].pattern.ReplaceAllString(text, "${1}"+Masked+rules[i].end())
	}
	return text
}

// end is what follows the mask: the @ of a URL.
func (r *rule) end() string {
	if r.hint[0] == "://" {
		return "@"
	}
	return ""
}

// SecretName reports whether the name of a variable says that its value is a
// secret.
func SecretName(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"PASS", "SECRET", "TOKEN", "KEY", "CREDENTIAL", "AUTH"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
